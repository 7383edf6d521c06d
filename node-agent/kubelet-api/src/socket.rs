//! Unix sockets under gRPC.

use std::{
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// How long a call may take before it counts as failed.
const CALL: Duration = Duration::from_secs(10);

/// A socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There is a file of the name, and it is no socket: it is not ours to remove.
    #[error("{0} exists and is no socket")]
    NoSocket(PathBuf),
    /// The operating system's word.
    #[error("cannot listen on {path}: {error}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said; of a path above 107 bytes, that it is too long.
        error: io::Error,
    },
}

/// A channel to the server on a socket. Nothing is connected before the first call, and a lost connection is made anew
/// with the next. Each call fails after ten seconds.
pub fn connect(path: impl Into<PathBuf>) -> Channel {
    let path = path.into();
    // The address is never resolved: the connector below knows where to go.
    Endpoint::from(Uri::from_static("http://localhost")).timeout(CALL).connect_with_connector_lazy(
        tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }),
    )
}

/// Listens on a socket. One that a process left behind is removed first.
pub fn listen(path: &Path) -> Result<UnixListenerStream, ListenError> {
    let failed = |error| ListenError::Io { path: path.to_owned(), error };
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(ListenError::NoSocket(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    UnixListener::bind(path).map(UnixListenerStream::new).map_err(failed)
}

/// Which file a path names at present: another one when it was removed and made again. The number of a file is
/// given to the next one, so the time at which it was made belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    device: u64,
    inode: u64,
    made: (i64, i64),
}

/// The socket that a path names, if there is one.
pub fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| Identity {
        device: found.dev(),
        inode: found.ino(),
        made: (found.mtime(), found.mtime_nsec()),
    })
}
