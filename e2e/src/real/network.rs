//! The network of one cluster's real nodes: a bridge in a namespace of its own, to which each node and this machine have
//! a line.
//!
//! Nothing of this machine is changed but that it gets one more interface, which goes when the bridge's namespace goes:
//! no forwarding, no filters. The interface's number decides the addresses, so two clusters never have the same.

use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::components::Layout;
use crate::process::{Place, Process};
use crate::supervisor::Supervisor;

/// A cluster has 10.N.0.0/16, N one of these.
const BLOCKS: std::ops::Range<u8> = 128..224;
/// The routes of private networks that cover more than this are no reason not to use a part of one.
const WIDE: u32 = 12;

/// What a cluster's nodes are connected by.
pub(crate) struct Network {
    block: u8,
    /// The process that holds the bridge's namespace.
    switch: Process,
}

impl Network {
    /// Makes the bridge and this machine's line to it.
    pub(crate) async fn build(supervisor: &Arc<Supervisor>, layout: &Layout) -> Result<Self> {
        let mut holder = std::process::Command::new("sleep");
        holder.arg("infinity");
        let log = layout.log("network");
        let switch = Process::spawn_in(Place::Apart(&["net"]), supervisor, "network", log, &holder)?;
        let block = connect_machine(switch.pid()).await?;
        let network = Self { block, switch };
        let bridge =
            "link add br0 type bridge forward_delay 0\nlink set br0 up\nlink set up0 master br0 up\n";
        ip(Some(network.switch.pid()), bridge).await?;
        Ok(network)
    }

    /// The address by which nodes and pods reach this machine, and so the API server.
    pub(crate) fn machine(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.block, 0, 1)
    }

    /// The address of a node, which are counted from 1.
    pub(crate) fn node(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.block, 0, 10 + number)
    }

    /// The addresses of a node's pods.
    pub(crate) fn pods(&self, number: u8) -> String {
        format!("10.{}.{number}.0/24", self.block)
    }

    /// Connects a node whose first process is `pid`. A node that boots again has the same addresses, that of its card
    /// included, but a line of its own: the old one goes when the kernel has come to it.
    pub(crate) async fn connect(&self, number: u8, boot: u32, pid: u32, nodes: u8) -> Result<()> {
        let line = format!("n{number}-{boot}");
        let card = format!("02:77:7a:{:02x}:00:{number:02x}", self.block);
        let cable = format!(
            "link add {line} type veth peer name eth0 address {card} netns {pid}\n\
             link set {line} master br0 up\n"
        );
        ip(Some(self.switch.pid()), &cable).await?;
        let mut inside = format!(
            "link set lo up\naddr add {}/24 dev eth0\nlink set eth0 up\nroute add default via {}\n",
            self.node(number),
            self.machine()
        );
        for other in (1..=nodes).filter(|other| *other != number) {
            writeln!(inside, "route add {} via {}", self.pods(other), self.node(other))?;
        }
        ip(Some(pid), &inside).await?;
        let here = format!(
            "route replace {} via {} dev {}\n",
            self.pods(number),
            self.node(number),
            interface(self.block)
        );
        ip(None, &here).await
    }
}

/// The name of this machine's interface in a cluster's network, which nothing else may have at the same time.
fn interface(block: u8) -> String {
    format!("whalezen{block}")
}

/// Takes the first block that no other cluster has and no route leads to, and connects this machine to the bridge's
/// namespace.
async fn connect_machine(switch: u32) -> Result<u8> {
    let routes = fs::read_to_string("/proc/net/route").context("cannot read this machine's routes")?;
    let span = BLOCKS.end - BLOCKS.start;
    // Seeded by the system: two clusters that start at the same time hardly try the same ones.
    let random = RandomState::new().hash_one(switch).to_le_bytes();
    let offset = random.first().copied().unwrap_or_default() % span;
    for step in 0..span {
        let block = BLOCKS.start + (offset + step) % span;
        if routes.lines().any(|route| leads_into(route, block)) {
            continue;
        }
        let name = interface(block);
        match ip(None, &format!("link add {name} type veth peer name up0 netns {switch}\n")).await {
            Ok(()) => {}
            Err(taken) if taken.to_string().contains("File exists") => continue,
            Err(error) => return Err(error),
        }
        let address = Ipv4Addr::new(10, block, 0, 1);
        ip(None, &format!("addr add {address}/24 dev {name}\nlink set {name} up\n")).await?;
        return Ok(block);
    }
    bail!("no free network between 10.{}.0.0 and 10.{}.0.0", BLOCKS.start, BLOCKS.end)
}

/// Whether a line of `/proc/net/route` leads to addresses of a block.
fn leads_into(route: &str, block: u8) -> bool {
    let mut fields = route.split_whitespace();
    let mut number = |skipped| u32::from_str_radix(fields.nth(skipped)?, 16).ok().map(u32::swap_bytes);
    // Interface, destination, gateway, flags, references, uses, metric, mask.
    let (Some(destination), Some(mask)) = (number(1), number(5)) else { return false };
    if mask.leading_ones() < WIDE {
        return false;
    }
    let own = u32::from(Ipv4Addr::new(10, block, 0, 0));
    let narrower = mask & 0xffff_0000;
    destination & narrower == own & narrower
}

/// Runs commands of `ip`, one a line, on this machine or in the network namespace of a process.
async fn ip(inside: Option<u32>, commands: &str) -> Result<()> {
    let mut command = match inside {
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/proc/{pid}/ns/net")).arg("ip");
            command
        }
        None => Command::new("ip"),
    };
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().context("cannot run ip")?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(commands.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!("ip refused {commands:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_taken_when_a_route_leads_into_it() {
        for (what, route, taken) in [
            ("the heading", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT", false),
            ("nothing", "", false),
            ("the default route", "eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0", false),
            ("a wide private network", "eth0 0000000A 00000000 0001 0 0 0 000000FF 0 0 0", false),
            ("a network of this block", "eth0 0000960A 00000000 0001 0 0 0 0000FFFF 0 0 0", true),
            ("a part of this block", "eth0 0007960A 00000000 0001 0 0 0 00FFFFFF 0 0 0", true),
            ("a network with this block in it", "eth0 0000900A 00000000 0001 0 0 0 0000F0FF 0 0 0", true),
            ("another block", "eth0 0000970A 00000000 0001 0 0 0 0000FFFF 0 0 0", false),
            ("another network", "eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0", false),
        ] {
            assert_eq!(leads_into(route, 150), taken, "{what}");
        }
    }
}
