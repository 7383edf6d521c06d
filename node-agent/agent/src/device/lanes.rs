//! Threads for calls that may hang.
//!
//! Every GPU has a lane, and what is about all of them has one. A lane is a thread that does one call after another. Who
//! asks waits until a deadline. A call that has not returned by then goes on and holds up its own lane alone: whoever
//! comes later is told at once that the GPU does not respond. A call that nobody waits for any more is not begun: a
//! destruction that was decided half a minute ago may not be right now.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, time::timeout};

use super::{DeviceError, Devices, Uuid};

/// What calls wait for each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// About the driver and all GPUs.
    System,
    /// About one GPU.
    Gpu(Uuid),
    /// The measuring of one GPU, which may not wait for a change.
    Sense(Uuid),
}

/// A call on its way to a thread.
type Call = Box<dyn FnOnce(&dyn Devices) + Send>;

/// What a lane's thread does now, and since when.
type Current = Arc<Mutex<Option<(&'static str, Instant)>>>;

struct Thread {
    calls: mpsc::Sender<Call>,
    current: Current,
}

/// The threads that calls run on, and what they are about.
pub struct Lanes {
    devices: Arc<dyn Devices>,
    threads: Mutex<BTreeMap<Lane, Thread>>,
}

impl Lanes {
    /// Lanes to these devices. A thread begins with the first call in its lane.
    pub fn new(devices: Arc<dyn Devices>) -> Self {
        Self { devices, threads: Mutex::default() }
    }

    /// The devices themselves, for whoever has a thread of its own.
    pub fn devices(&self) -> Arc<dyn Devices> {
        Arc::clone(&self.devices)
    }

    /// Makes a call and waits for the answer until the deadline, which counts the waiting for calls before it.
    pub async fn call<T: Send + 'static>(
        &self,
        lane: Lane,
        name: &'static str,
        deadline: Duration,
        call: impl FnOnce(&dyn Devices) -> Result<T, DeviceError> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let (tell, answer) = oneshot::channel();
        {
            let mut threads = locked(&self.threads);
            if let Some((call, since)) = threads.get(&lane).and_then(|thread| *locked(&thread.current))
                && since.elapsed() >= deadline
            {
                return Err(DeviceError::Unresponsive { call, waited: since.elapsed() });
            }
            let thread = match threads.get(&lane) {
                Some(thread) => thread,
                None => threads.entry(lane.clone()).or_insert(self.thread(&lane)?),
            };
            let current = Arc::clone(&thread.current);
            let work = move |devices: &dyn Devices| {
                if tell.is_closed() {
                    return;
                }
                *locked(&current) = Some((name, Instant::now()));
                let result = call(devices);
                *locked(&current) = None;
                // Whoever asked may have gone meanwhile: what the call did is seen when devices are read again.
                drop(tell.send(result));
            };
            thread.calls.send(Box::new(work)).map_err(|_| ended(name))?;
        }
        match timeout(deadline, answer).await {
            Ok(answer) => answer.map_err(|_| ended(name))?,
            Err(_) => Err(DeviceError::Unresponsive { call: name, waited: deadline }),
        }
    }

    /// Ends the threads of GPUs that are not among these.
    pub fn keep(&self, gpus: &[Uuid]) {
        locked(&self.threads).retain(|lane, _| match lane {
            Lane::System => true,
            Lane::Gpu(gpu) | Lane::Sense(gpu) => gpus.contains(gpu),
        });
    }

    fn thread(&self, lane: &Lane) -> Result<Thread, DeviceError> {
        let (calls, next) = mpsc::channel::<Call>();
        let devices = Arc::clone(&self.devices);
        thread::Builder::new()
            .name(match lane {
                Lane::System => "nvml".to_owned(),
                Lane::Gpu(_) => "nvml-gpu".to_owned(),
                Lane::Sense(_) => "nvml-sense".to_owned(),
            })
            .spawn(move || next.into_iter().for_each(|call| call(&*devices)))
            .map_err(|error| DeviceError::Failed { call: "a thread", reason: error.to_string() })?;
        Ok(Thread { calls, current: Current::default() })
    }
}

fn ended(call: &'static str) -> DeviceError {
    DeviceError::Failed { call, reason: "its thread has ended".to_owned() }
}

/// A thread that panicked left a state that is as good as any other: all of it is replaced as a whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Condvar,
        atomic::{AtomicU32, Ordering},
    };

    use whalezen_mig::Instance;

    use super::*;
    use crate::device::{Event, Gpu, Link, Load, MigInstance, System};

    /// Devices of which the lanes need none.
    struct NoDevices;

    impl Devices for NoDevices {
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
            Err(DeviceError::Gone(gpu.clone()))
        }
        fn listen(&self, _: Duration, _: &mut dyn FnMut(Option<Event>) -> bool) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    /// What a call hangs at until the test lets it go.
    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<bool>, Condvar)>);

    impl Gate {
        fn wait(&self) {
            let open = self.0.0.lock().unwrap();
            drop(self.0.1.wait_while(open, |open| !*open).unwrap());
        }

        fn is_open(&self) -> bool {
            *self.0.0.lock().unwrap()
        }

        fn open(&self) {
            *self.0.0.lock().unwrap() = true;
            self.0.1.notify_all();
        }
    }

    const SOON: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_mins(1);

    fn gpu(name: &str) -> Lane {
        Lane::Gpu(name.into())
    }

    /// Lets a call hang in a lane, and gives what it hangs at. On a busy machine its thread may begin late, and what is
    /// given up before that is not begun.
    async fn hang(lanes: &Lanes, lane: Lane) -> Gate {
        let (gate, entered) = (Gate::default(), Gate::default());
        while !entered.is_open() {
            let (hung, inside) = (gate.clone(), entered.clone());
            let answer = lanes.call(lane.clone(), "hanging", SOON, move |_| {
                inside.open();
                hung.wait();
                Ok(())
            });
            assert!(matches!(answer.await, Err(DeviceError::Unresponsive { .. })));
        }
        gate
    }

    #[tokio::test]
    async fn a_call_that_hangs_holds_up_its_own_lane_alone() {
        let lanes = Lanes::new(Arc::new(NoDevices));
        let gate = hang(&lanes, gpu("a")).await;

        let same = lanes.call(gpu("a"), "another", SOON, |_| Ok(())).await;
        let other = lanes.call(gpu("b"), "another", LATE, |_| Ok(1)).await;
        let sense = lanes.call(Lane::Sense("a".into()), "another", LATE, |_| Ok(2)).await;

        assert!(matches!(same, Err(DeviceError::Unresponsive { .. })), "{same:?}");
        assert_eq!((other, sense), (Ok(1), Ok(2)));
        gate.open();
    }

    #[tokio::test]
    async fn a_lane_goes_on_when_the_call_has_returned() {
        let lanes = Lanes::new(Arc::new(NoDevices));
        hang(&lanes, gpu("a")).await.open();

        assert_eq!(lanes.call(gpu("a"), "another", LATE, |_| Ok(3)).await, Ok(3));
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_any_more_is_not_begun() {
        let lanes = Lanes::new(Arc::new(NoDevices));
        let (gate, entered) = (Gate::default(), Gate::default());
        let (hung, inside) = (gate.clone(), entered.clone());
        let first = lanes.call(gpu("a"), "first", LATE, move |_| {
            inside.open();
            hung.wait();
            Ok(())
        });
        let begun = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&begun);
        let second = async {
            entered.wait();
            let given_up = lanes.call(gpu("a"), "second", LATE, move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            drop(timeout(SOON, given_up).await);
            gate.open();
        };
        futures::future::join(async { first.await.unwrap() }, second).await;

        lanes.call(gpu("a"), "third", LATE, |_| Ok(())).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }
}
