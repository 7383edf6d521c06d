//! Errors that GPUs report by themselves, from a thread that listens.

use std::{sync::Arc, thread, time::Duration};

use tokio::sync::mpsc;

use crate::device::{DeviceError, Devices, Event};

/// How often the thread looks whether anybody still wants to know.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long it is waited after listening was not possible.
const PAUSE: Duration = Duration::from_secs(5);

/// How many events may wait for the loop before the thread waits too.
const BACKLOG: usize = 256;

/// Listens until the receiver is dropped.
pub(super) fn listen(devices: Arc<dyn Devices>) -> mpsc::Receiver<Event> {
    let (tell, events) = mpsc::channel(BACKLOG);
    let spawned = thread::Builder::new().name("nvml-events".to_owned()).spawn(move || {
        while !tell.is_closed() {
            let mut hear = |event: Option<Event>| match event {
                Some(event) => tell.blocking_send(event).is_ok(),
                None => !tell.is_closed(),
            };
            match devices.listen(PATIENCE, &mut hear) {
                Ok(()) => {}
                // Without a driver there is nothing to hear, and the loop says so already.
                Err(DeviceError::NoDriver(_)) => thread::sleep(PAUSE),
                Err(error) => {
                    tracing::warn!("errors of GPUs are not heard: {error}");
                    thread::sleep(PAUSE);
                }
            }
        }
    });
    if let Err(error) = spawned {
        tracing::error!("errors of GPUs are not heard: {error}");
    }
    events
}
