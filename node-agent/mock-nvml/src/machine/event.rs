//! What befalls GPUs: Xid errors, reported ones and scheduled ones, corrected memory errors, and what they leave
//! behind.

use serde::{Deserialize, Serialize};

use super::{Ecc, Machine, client::Place};
use crate::refusal::Refusal;

/// The Xid of a GPU that fell off the bus.
pub const OFF_THE_BUS: u64 = 79;
/// The Xids of memory errors that could not be corrected.
const UNCORRECTABLE: [u64; 3] = [48, 94, 95];
/// How many events are kept.
const KEPT: usize = 256;

/// Something that befell a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the machine's life.
    pub number: u64,
    /// When it happened.
    pub at: u64,
    /// The GPU that it befell.
    pub gpu: usize,
    /// What it is.
    pub kind: Kind,
    /// The instance that it befell, if it befell only one.
    pub place: Option<Place>,
}

/// What can befall a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The Xid error with that number.
    Xid(u64),
    /// Memory errors that were corrected.
    Corrected,
}

impl Kind {
    /// As which types of events NVML reports it, by their bits in the header, and with which data.
    pub fn reported(self) -> impl Iterator<Item = (u64, u64)> {
        let (xid, double, single) = match self {
            Self::Xid(xid) => {
                (Some((XID, xid)), UNCORRECTABLE.contains(&xid).then_some((DOUBLE_BIT, 0)), None)
            }
            Self::Corrected => (None, None, Some((SINGLE_BIT, 0))),
        };
        [xid, double, single].into_iter().flatten()
    }
}

/// The type of events for memory errors that were corrected.
const SINGLE_BIT: u64 = 1;
/// The type of events for memory errors that were not.
const DOUBLE_BIT: u64 = 2;
/// The type of events for Xid errors.
const XID: u64 = 8;
/// All types of events that are reported.
pub const REPORTED: u64 = SINGLE_BIT | DOUBLE_BIT | XID;

/// What tells one event from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventId {
    /// The one that has the number.
    Told(u64),
    /// The one that the configuration announces at that place in its list, after that boot.
    Scheduled(u64, usize),
}

impl Machine {
    /// Lets an Xid befall a GPU. 79 takes it off the bus, and those of uncorrectable memory errors are counted.
    pub fn befall(&mut self, gpu: usize, xid: u64, place: Option<Place>, now: u64) -> Result<(), Refusal> {
        let own = self.gpu_mut(gpu)?;
        if let Some(place) = place {
            own.instance(place.gi)?.compute_instance(place.ci)?;
        }
        if xid == OFF_THE_BUS {
            own.lost = true;
        }
        if UNCORRECTABLE.contains(&xid) {
            own.ecc.uncorrected += 1;
            own.ecc_ever.uncorrected += 1;
        }
        self.tell(gpu, Kind::Xid(xid), place, now);
        Ok(())
    }

    /// Counts memory errors that were corrected.
    pub fn correct(&mut self, gpu: usize, errors: u64, now: u64) -> Result<(), Refusal> {
        let own = self.gpu_mut(gpu)?;
        own.ecc.corrected = own.ecc.corrected.saturating_add(errors);
        own.ecc_ever.corrected = own.ecc_ever.corrected.saturating_add(errors);
        self.tell(gpu, Kind::Corrected, None, now);
        Ok(())
    }

    fn tell(&mut self, gpu: usize, kind: Kind, place: Option<Place>, now: u64) {
        self.told += 1;
        self.events.push(Event { number: self.told, at: now, gpu, kind, place });
        let surplus = self.events.len().saturating_sub(KEPT);
        self.events.drain(..surplus);
    }

    /// What has happened by `now`, the scheduled too, the oldest first.
    pub fn happened(&self, now: u64) -> Vec<(EventId, Event)> {
        let told = self.events.iter().map(|event| (EventId::Told(event.number), *event));
        let mut all: Vec<_> = told.chain(self.scheduled(now)).collect();
        all.sort_by_key(|(id, event)| (event.at, *id));
        all
    }

    /// Refuses what is asked of a GPU that fell off the bus.
    pub fn present(&self, gpu: usize, now: u64) -> Result<(), Refusal> {
        let own = self.gpu(gpu)?;
        let fell = |(_, event): (EventId, Event)| {
            event.gpu == gpu && event.kind == Kind::Xid(OFF_THE_BUS) && event.at >= own.reset
        };
        if own.lost || self.scheduled(now).any(fell) { Err(Refusal::GpuIsLost) } else { Ok(()) }
    }

    /// The memory errors of a GPU since its last reset, and in all its life.
    pub fn ecc(&self, gpu: usize, now: u64) -> Result<(Ecc, Ecc), Refusal> {
        let own = self.gpu(gpu)?;
        let of = |since: u64| {
            let errors = self.scheduled(now).filter(|(_, event)| {
                let counts = event.kind.reported().any(|(kind, _)| kind == DOUBLE_BIT);
                event.gpu == gpu && counts && event.at >= since
            });
            errors.count() as u64
        };
        let with = |ecc: Ecc, more: u64| Ecc { uncorrected: ecc.uncorrected.saturating_add(more), ..ecc };
        Ok((with(own.ecc, of(own.reset)), with(own.ecc_ever, of(0))))
    }

    fn scheduled(&self, now: u64) -> impl Iterator<Item = (EventId, Event)> {
        let each = self.config.xids.iter().enumerate();
        let events = each.map(|(index, xid)| {
            let at = self.booted.saturating_add(xid.after_ms);
            let event = Event { number: 0, at, gpu: xid.gpu, kind: Kind::Xid(xid.code), place: None };
            (EventId::Scheduled(self.boot, index), event)
        });
        events.filter(move |(_, event)| event.at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{NOBODY, from_toml};

    const WITH_XIDS: &str = r#"
        gpus = [{ model = "H100-80", count = 2 }]
        xids = [{ gpu = 1, after_ms = 50, code = 48 }, { gpu = 0, after_ms = 100, code = 79 }]
    "#;

    #[test]
    fn a_scheduled_xid_happens_at_its_time_after_each_boot() {
        let mut machine = from_toml(WITH_XIDS);
        assert_eq!(machine.happened(49), []);
        assert_eq!(machine.happened(100).len(), 2);
        assert_eq!(machine.ecc(1, 100).unwrap().0.uncorrected, 1);
        assert_eq!(machine.present(0, 99), Ok(()));
        assert_eq!(machine.present(0, 100), Err(Refusal::GpuIsLost));
        machine.reboot(1_000);
        assert_eq!((machine.present(0, 1_099), machine.present(0, 1_100)), (Ok(()), Err(Refusal::GpuIsLost)));
    }

    #[test]
    fn a_gpu_that_fell_off_the_bus_is_back_after_a_reset() {
        let mut machine = from_toml(WITH_XIDS);
        machine.befall(1, OFF_THE_BUS, None, 10).unwrap();
        assert_eq!(machine.present(1, 10), Err(Refusal::GpuIsLost));
        machine.reset(1, 20, NOBODY).unwrap();
        machine.reset(0, 120, NOBODY).unwrap();
        assert_eq!((machine.present(0, 130), machine.present(1, 130)), (Ok(()), Ok(())));
    }

    #[test]
    fn the_oldest_events_are_forgotten_and_numbers_go_on() {
        let mut machine = from_toml(r#"gpus = [{ model = "A30" }]"#);
        for at in 0..300 {
            machine.befall(0, 31, None, at).unwrap();
        }
        let happened = machine.happened(300);
        assert_eq!((happened.len(), happened[0].1.number), (KEPT, 300 - KEPT as u64 + 1));
    }
}
