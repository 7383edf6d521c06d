//! The reading of the GPUs.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use proptest::prelude::*;
use tokio::sync::watch;
use whalezen_agent::{
    device::{DeviceError, Devices, Event, Gpu, Lanes, Link, Load, MigInstance, System, Uuid},
    sense::{self, Rate, Sensed, low::Low},
    view::View,
};
use whalezen_mig::Instance;

use crate::ground::{gpu, gpu_id, node};

/// GPUs that tell their load. Those that hang do so until the test ends.
#[derive(Default)]
struct Loads {
    hanging: Mutex<BTreeSet<Uuid>>,
    freed: Condvar,
    lost: BTreeSet<Uuid>,
}

impl Devices for Loads {
    fn system(&self) -> Result<System, DeviceError> {
        Ok(System::default())
    }
    fn gpu(&self, gpu: &Uuid) -> Result<Gpu, DeviceError> {
        Err(DeviceError::Gone(gpu.clone()))
    }
    fn links(&self) -> Result<Vec<Link>, DeviceError> {
        Ok(Vec::new())
    }
    fn create(&self, gpu: &Uuid, _: Instance) -> Result<MigInstance, DeviceError> {
        Err(DeviceError::Gone(gpu.clone()))
    }
    fn complete(&self, gpu: &Uuid, _: &MigInstance) -> Result<MigInstance, DeviceError> {
        Err(DeviceError::Gone(gpu.clone()))
    }
    fn destroy(&self, gpu: &Uuid, _: &MigInstance) -> Result<(), DeviceError> {
        Err(DeviceError::Gone(gpu.clone()))
    }
    fn set_mig_mode(&self, gpu: &Uuid, _: bool) -> Result<(), DeviceError> {
        Err(DeviceError::Gone(gpu.clone()))
    }
    fn load(&self, gpu: &Uuid) -> Result<Load, DeviceError> {
        let hanging = self.hanging.lock().unwrap();
        drop(self.freed.wait_while(hanging, |hanging| hanging.contains(gpu)).unwrap());
        if self.lost.contains(gpu) {
            return Err(DeviceError::Lost(gpu.clone()));
        }
        Ok(Load { gpu_percent: Some(50), memory_free: Some(1), ..Load::default() })
    }
    fn listen(&self, _: Duration, _: &mut dyn FnMut(Option<Event>) -> bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_gpu_that_hangs_or_is_lost_is_missed_alone() {
    let loads = Loads { lost: [gpu_id(1)].into(), ..Loads::default() };
    loads.hanging.lock().unwrap().insert(gpu_id(0));
    let loads = Arc::new(loads);
    let lanes = Arc::new(Lanes::new(Arc::clone(&loads) as Arc<dyn Devices>));
    let (view, seen) = watch::channel(node(vec![gpu(0), gpu(1), gpu(2), gpu(3)]));
    let sensed = Arc::new(watch::Sender::new(Sensed::default()));
    let mut reads = sensed.subscribe();
    let rate = Rate::new(Duration::from_millis(100)).unwrap();
    let task = tokio::spawn(sense::run(rate, lanes, seen, Arc::clone(&sensed)));

    let both = |sensed: &Sensed| [2, 3].iter().all(|&gpu| sensed.of(&gpu_id(gpu), Instant::now()).is_some());
    let now = reads.wait_for(both).await.unwrap().clone();
    assert_eq!(now.of(&gpu_id(2), Instant::now()).unwrap().load.gpu_percent, Some(50));
    assert!([0, 1].iter().all(|&gpu| now.of(&gpu_id(gpu), Instant::now()).is_none()));

    // One that answers again is read again, and one that is gone is forgotten.
    view.send_replace(node(vec![gpu(0), gpu(2)]));
    loads.hanging.lock().unwrap().clear();
    loads.freed.notify_all();
    let zero = |sensed: &Sensed| sensed.of(&gpu_id(0), Instant::now()).is_some();
    let now = reads.wait_for(zero).await.unwrap().clone();
    assert!(now.of(&gpu_id(3), Instant::now()).is_none());
    drop(view);
    task.await.unwrap();
}

#[test]
fn a_view_without_gpus_forgets_what_was_read() {
    let now = Instant::now();
    let mut sensed = Sensed::default();
    sensed.note(&gpu_id(0), Load::default(), now);
    sensed.note(&gpu_id(1), Load::default(), now);
    sensed.keep(&[gpu_id(1)]);
    assert!(sensed.of(&gpu_id(0), now).is_none() && sensed.of(&gpu_id(1), now).is_some());
    assert!(sensed.of(&gpu_id(1), now + Duration::from_secs(15)).is_none(), "what is old counts no more");
    assert_eq!(View::default().gpus.len(), 0);
}

#[test]
fn gpus_are_read_every_hundred_milliseconds_to_every_second() {
    for (millis, fits) in [(0, false), (99, false), (100, true), (1000, true), (1001, false)] {
        assert_eq!(Rate::new(Duration::from_millis(millis)).is_ok(), fits, "{millis}");
    }
}

proptest! {
    /// Steps of less than a second count as one, so the lowest may be remembered a second longer than a minute.
    #[test]
    fn the_lowest_is_that_of_the_last_minute_in_at_most_sixty_one_numbers(
        steps in prop::collection::vec((0..5_000_u64, 0..100_u64), 1..300),
    ) {
        let mut now = Instant::now();
        let (mut low, mut all) = (Low::default(), Vec::new());
        for (millis, value) in steps {
            now += Duration::from_millis(millis);
            low.note(value, now);
            all.push((now, value));
            let least = |window: u64| {
                let within = all.iter().filter(|(at, _)| now.duration_since(*at) < Duration::from_millis(window));
                within.map(|(_, value)| *value).min()
            };
            prop_assert!(low.lowest() <= least(59_000), "what is not yet a minute old counts");
            prop_assert!(low.lowest() >= least(61_000), "what is older does not");
            prop_assert!(low.len() <= 61);
        }
    }
}
