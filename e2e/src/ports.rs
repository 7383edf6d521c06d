//! Free TCP ports on the loopback interface.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};

use anyhow::{Result, bail};

/// Below the ports the kernel gives to outgoing connections (from 32768), which could take a
/// port between its choice and its use.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Different ports that nobody listens on now. Another process may still come first: who uses
/// them tries again with others.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let span = RANGE.end - RANGE.start;
    // RandomState is seeded by the system: enough for two clusters not to try the same ports.
    #[expect(clippy::cast_possible_truncation, reason = "a random number in any case")]
    let offset = RandomState::new().hash_one(std::process::id()) as u16 % span;
    let mut found = [0; N];
    let mut slots = found.iter_mut().peekable();
    for step in 0..span {
        let Some(slot) = slots.peek_mut() else { break };
        let port = RANGE.start + (offset + step) % span;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            **slot = port;
            slots.next();
        }
    }
    if slots.peek().is_some() {
        bail!("no free port between {} and {}", RANGE.start, RANGE.end);
    }
    Ok(found)
}

/// An address of this machine by which others could reach it, if it has one.
pub(crate) fn own_address() -> Option<IpAddr> {
    // Nothing is sent: the kernel chooses the address that it would send from.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_passed_over() {
        let [first] = free_ports().unwrap();
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let mut ports: Vec<u16> = free_ports::<50>().unwrap().into();
        assert!(!ports.contains(&first) && ports.iter().all(|port| RANGE.contains(port)));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50, "all different");
    }
}
