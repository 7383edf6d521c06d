//! The tasks that read.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::Sensed;
use crate::{
    device::{DeviceError, Lane, Lanes, Uuid},
    view::View,
};

/// How long a GPU may take to answer. Later it counts as one that did not.
const DEADLINE: Duration = Duration::from_secs(5);

/// How often GPUs are read: every 100 ms to every second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(Duration);

/// No rate at which GPUs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GPUs are read every 100 ms to every second, not every {} ms", .0.as_millis())]
pub struct RateError(Duration);

impl Rate {
    /// Every `period`.
    pub fn new(period: Duration) -> Result<Self, RateError> {
        if (Duration::from_millis(100)..=Duration::from_secs(1)).contains(&period) {
            Ok(Self(period))
        } else {
            Err(RateError(period))
        }
    }
}

/// Reads the GPUs that are in the view until its sender is gone.
pub async fn run(
    rate: Rate,
    lanes: Arc<Lanes>,
    mut view: watch::Receiver<View>,
    sensed: Arc<watch::Sender<Sensed>>,
) {
    let mut tasks = BTreeMap::<Uuid, JoinHandle<()>>::new();
    loop {
        let gpus = view.borrow_and_update().gpus.iter().map(|seen| seen.gpu.uuid.clone()).collect::<Vec<_>>();
        tasks.retain(|gpu, task| {
            let stays = gpus.contains(gpu);
            if !stays {
                task.abort();
            }
            stays
        });
        sensed.send_if_modified(|sensed| {
            sensed.keep(&gpus);
            false
        });
        for gpu in gpus {
            tasks
                .entry(gpu.clone())
                .or_insert_with(|| tokio::spawn(follow(rate, Arc::clone(&lanes), gpu, Arc::clone(&sensed))));
        }
        if view.changed().await.is_err() {
            break;
        }
    }
    for task in tasks.into_values() {
        task.abort();
    }
}

async fn follow(rate: Rate, lanes: Arc<Lanes>, gpu: Uuid, sensed: Arc<watch::Sender<Sensed>>) {
    let mut ticks = interval(rate.0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = None::<DeviceError>;
    loop {
        ticks.tick().await;
        let asked = gpu.clone();
        let call = lanes.call(Lane::Sense(gpu.clone()), "reading the load", DEADLINE, move |devices| {
            devices.load(&asked)
        });
        match call.await {
            Ok(load) => {
                sensed.send_modify(|sensed| sensed.note(&gpu, load, Instant::now()));
                failing = None;
            }
            Err(error) => {
                // Said once, and again when it is another one.
                let same = failing.as_ref().is_some_and(|before| alike(before, &error));
                if !same {
                    tracing::warn!(%gpu, %error, "the load of a GPU cannot be read");
                }
                failing = Some(error);
            }
        }
    }
}

/// Whether two errors are the same to a reader. How long one waited differs each time.
fn alike(a: &DeviceError, b: &DeviceError) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}
