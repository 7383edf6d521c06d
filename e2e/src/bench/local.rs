//! What every contender is started with: the client's limits and addresses of its own.

/// Requests a second that a manager's client may send, as the harness's runner is allowed.
pub const QPS: u32 = 1000;
/// Requests it may send at once.
pub const BURST: u32 = 2000;

/// The address of a port on the loopback interface.
pub fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
