//! Which GPUs take no new work, and why.
//!
//! What a read of the GPU says counts as long as it says so: a GPU that has fallen off the bus and answers again was reset.
//! An error that a GPU reported by itself stays until it was reset, or the agent begins anew.

use std::collections::BTreeMap;

use crate::{
    device::{DeviceError, Event, EventKind, Uuid},
    view::Trouble,
};

/// Xids by which a program shows that it is broken, and not the GPU (the list that NVIDIA's device plugin skips, after
/// "XID Errors", docs.nvidia.com/deploy/xid-errors).
const OF_PROGRAMS: [u64; 6] = [13, 31, 43, 45, 68, 109];

/// What is wrong with which GPU.
#[derive(Clone, Debug, Default)]
pub struct Health {
    reported: BTreeMap<Uuid, Trouble>,
    read: BTreeMap<Uuid, DeviceError>,
}

impl Health {
    /// A GPU has reported an error. Says whether that makes it unhealthy.
    pub fn event(&mut self, event: &Event) -> bool {
        let trouble = match event.kind {
            EventKind::Xid(xid) if OF_PROGRAMS.contains(&xid) => return false,
            EventKind::Xid(xid) => {
                Trouble { reason: format!("Xid{xid}"), message: format!("the GPU reported Xid {xid}") }
            }
            EventKind::DoubleBitEcc => Trouble {
                reason: "EccUncorrectable".to_owned(),
                message: "the GPU reported a memory error that could not be corrected".to_owned(),
            },
        };
        // The first is the cause, and those after it are what came of it.
        self.reported.entry(event.gpu.clone()).or_insert(trouble);
        true
    }

    /// A GPU was read, or could not be.
    pub fn read<T>(&mut self, gpu: &Uuid, result: &Result<T, DeviceError>) {
        match result {
            Ok(_) => {
                let before = self.read.remove(gpu);
                if matches!(
                    before,
                    Some(DeviceError::Lost(_) | DeviceError::Gone(_) | DeviceError::ResetNeeded(_))
                ) {
                    self.reported.remove(gpu);
                }
            }
            Err(error) => {
                self.read.insert(gpu.clone(), error.clone());
            }
        }
    }

    /// What is wrong with a GPU.
    pub fn trouble(&self, gpu: &Uuid) -> Option<Trouble> {
        let read = self.read.get(gpu).map(|error| Trouble {
            reason: reason(error).to_owned(),
            // How long it has been waited for changes at every look, and a status is written only when it changes.
            message: match error {
                DeviceError::Unresponsive { call, .. } => format!("the driver does not answer: {call}"),
                error => error.to_string(),
            },
        });
        self.reported.get(gpu).cloned().or(read)
    }

    /// The GPUs whose driver does not answer, with the call that hangs.
    pub fn hanging(&self) -> impl Iterator<Item = (&Uuid, &'static str)> {
        self.read.iter().filter_map(|(gpu, error)| match error {
            DeviceError::Unresponsive { call, .. } => Some((gpu, *call)),
            _ => None,
        })
    }
}

fn reason(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::Lost(_) => "Lost",
        DeviceError::Gone(_) => "Gone",
        DeviceError::Unresponsive { .. } => "Unresponsive",
        DeviceError::ResetNeeded(_) => "ResetNeeded",
        DeviceError::NoDriver(_) => "NoDriver",
        _ => "Unreadable",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gpu() -> Uuid {
        "GPU-0a".into()
    }

    fn xid(number: u64) -> Event {
        Event { gpu: gpu(), kind: EventKind::Xid(number) }
    }

    fn reason_of(health: &Health) -> Option<String> {
        health.trouble(&gpu()).map(|trouble| trouble.reason)
    }

    #[test]
    fn an_xid_of_a_program_is_not_the_gpus_fault() {
        let mut health = Health::default();
        for number in OF_PROGRAMS {
            assert!(!health.event(&xid(number)));
        }
        assert_eq!(health.trouble(&gpu()), None);
        assert!(health.event(&xid(79)));
        health.event(&xid(95));
        health.event(&Event { gpu: gpu(), kind: EventKind::DoubleBitEcc });
        assert_eq!(reason_of(&health).as_deref(), Some("Xid79"), "the first is the cause");
    }

    #[test]
    fn what_a_read_says_counts_as_long_as_it_says_so() {
        let mut health = Health::default();
        let errors = [
            (DeviceError::Lost(gpu()), "Lost"),
            (DeviceError::Unresponsive { call: "reading", waited: Duration::from_secs(9) }, "Unresponsive"),
            (DeviceError::NotSupported("reading"), "Unreadable"),
        ];
        for (error, reason) in errors {
            health.read::<()>(&gpu(), &Err(error));
            assert_eq!(reason_of(&health).as_deref(), Some(reason));
        }
        health.read(&gpu(), &Ok(()));
        assert_eq!(health.trouble(&gpu()), None);
    }

    #[test]
    fn an_error_stays_until_the_gpu_was_away_and_is_back() {
        let mut health = Health::default();
        health.event(&xid(79));
        health.read(&gpu(), &Ok(()));
        assert_eq!(reason_of(&health).as_deref(), Some("Xid79"));
        health.read::<()>(&gpu(), &Err(DeviceError::Lost(gpu())));
        assert_eq!(reason_of(&health).as_deref(), Some("Xid79"));
        health.read(&gpu(), &Ok(()));
        assert_eq!(health.trouble(&gpu()), None);
    }

    #[test]
    fn how_long_a_call_hangs_does_not_change_what_is_said() {
        let said = |seconds| {
            let mut health = Health::default();
            let waited = Duration::from_secs(seconds);
            health.read::<()>(&gpu(), &Err(DeviceError::Unresponsive { call: "reading", waited }));
            health.trouble(&gpu())
        };
        assert_eq!(said(10), said(20));
    }
}
