//! Writes `src/generated` from `proto`, without protoc. Run it when a `.proto` file has changed:
//!
//! ```sh
//! cargo run -p whalezen-kubelet-api --features generate
//! ```

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = protox::compile(["deviceplugin.proto", "podresources.proto"], [here.join("proto")])?;
    tonic_prost_build::configure()
        .out_dir(here.join("src/generated"))
        // Ordered, so that an answer is the same bytes each time.
        .btree_map(".")
        // The clients and servers of both sides: the tests play the kubelet's.
        .build_client(true)
        .build_server(true)
        // Sockets are opened by this crate's own code.
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
