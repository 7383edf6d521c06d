//! The kubelet's registration socket: whether it is there, and whether it is another one than before. A kubelet that
//! starts removes all sockets from its folder and knows no plugins any more, so each has to listen anew and register.
//!
//! One looks twice a second. The kernel could tell of changes, but not of a folder that is removed and made again, nor
//! where a node has no watches left to give: one would have to look as well.

use std::{path::PathBuf, time::Duration};

use tokio::{sync::watch, time::sleep};
use whalezen_kubelet_api::{
    KUBELET_SOCKET,
    socket::{self, Identity},
};

/// How often one looks.
const LOOK: Duration = Duration::from_millis(500);

/// Follows the socket for as long as somebody listens.
pub async fn follow(folder: PathBuf, seen: watch::Sender<Option<Identity>>) {
    let path = folder.join(KUBELET_SOCKET);
    loop {
        let now = socket::identity(&path);
        seen.send_if_modified(|before| std::mem::replace(before, now) != now);
        tokio::select! {
            () = seen.closed() => return,
            () = sleep(LOOK) => {}
        }
    }
}
