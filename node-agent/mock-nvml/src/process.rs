//! What one process knows of the machine: whether NVML is initialised, and what its handles stand for.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::{
    config::VARIABLE,
    host,
    machine::{Gpu, Living, Machine, client::Place, compute::ComputeInstance, fault, mig::GpuInstance},
    refusal::Refusal,
    store::{Store, StoreError},
};

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The GPU with that index.
    Gpu(usize),
    /// A GPU instance: the GPU, the instance's id and its birth.
    GpuInstance(usize, u32, u64),
    /// A compute instance: the GPU, where it is, and its birth.
    ComputeInstance(usize, Place, u64),
    /// The same as a device of its own.
    MigDevice(usize, Place, u64),
}

impl Target {
    /// The GPU that it is, or is on.
    pub fn gpu(self) -> usize {
        match self {
            Self::Gpu(gpu)
            | Self::GpuInstance(gpu, ..)
            | Self::ComputeInstance(gpu, ..)
            | Self::MigDevice(gpu, ..) => gpu,
        }
    }
}

/// The machine at one moment, as a call sees it.
pub struct View<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The moment.
    pub now: u64,
    /// Who is alive.
    pub living: Living<'a>,
}

impl View<'_> {
    /// The GPU with that index.
    pub fn gpu(&self, index: usize) -> Result<&Gpu, Refusal> {
        self.machine.gpu(index)
    }

    /// What was looked for, unless it is not there or its GPU fell off the bus.
    pub fn present(&self, found: Option<Target>) -> Result<Target, Refusal> {
        let found = found.ok_or(Refusal::NotFound)?;
        self.machine.present(found.gpu(), self.now).map(|()| found)
    }

    /// The GPU instance that a handle stands for, unless it is another one by now.
    pub fn gpu_instance(&self, target: Target) -> Result<(usize, &GpuInstance), Refusal> {
        find_gpu_instance(self.machine, target)
    }

    /// The compute instance that a handle stands for, unless it is another one by now.
    pub fn compute_instance(
        &self,
        target: Target,
    ) -> Result<(usize, &GpuInstance, &ComputeInstance), Refusal> {
        find_compute_instance(self.machine, target)
    }
}

/// The GPU instance that `target` stands for, unless it is another one by now.
pub fn find_gpu_instance(machine: &Machine, target: Target) -> Result<(usize, &GpuInstance), Refusal> {
    let Target::GpuInstance(gpu, id, birth) = target else { return Err(Refusal::InvalidArgument) };
    let instance = machine.gpu(gpu)?.instance(id)?;
    if instance.birth == birth { Ok((gpu, instance)) } else { Err(Refusal::NotFound) }
}

/// The compute instance that `target` stands for, unless it is another one by now.
pub fn find_compute_instance(
    machine: &Machine,
    target: Target,
) -> Result<(usize, &GpuInstance, &ComputeInstance), Refusal> {
    let (Target::ComputeInstance(gpu, place, birth) | Target::MigDevice(gpu, place, birth)) = target else {
        return Err(Refusal::InvalidArgument);
    };
    let instance = machine.gpu(gpu)?.instance(place.gi)?;
    let compute = instance.compute_instance(place.ci)?;
    if compute.birth == birth { Ok((gpu, instance, compute)) } else { Err(Refusal::NotFound) }
}

/// NVML, initialised.
#[derive(Clone)]
struct Session {
    store: Arc<Store>,
    boot: u64,
    initialised: u32,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// What was given out as handles; a handle is the place in here, counted from 1, times [`STRIDE`]. None is ever taken
/// back, so that an old one is never mistaken for a new one.
static HANDLES: Mutex<Handles> = Mutex::new(Handles { targets: Vec::new(), places: BTreeMap::new() });
const STRIDE: usize = 16;

/// Targets by place, and places by target.
struct Handles {
    targets: Vec<Target>,
    places: BTreeMap<Target, usize>,
}

/// Things of a process's own that it makes and frees: sets of events, samples. Their handles end on `MARK`, so that
/// nothing is mistaken for something of another kind; none is given out twice.
pub struct Registry<T, const MARK: usize>(Mutex<(usize, BTreeMap<usize, T>)>);

impl<T, const MARK: usize> Registry<T, MARK> {
    /// One with nothing in it.
    pub const fn empty() -> Self {
        Self(Mutex::new((0, BTreeMap::new())))
    }

    /// Keeps a thing, and gives its handle.
    pub fn make(&self, thing: T) -> usize {
        let mut kept = locked(&self.0);
        kept.0 += 1;
        let handle = kept.0 * STRIDE + MARK;
        kept.1.insert(handle, thing);
        handle
    }

    /// Does something with the thing that has that handle.
    pub fn with<R>(&self, handle: usize, act: impl FnOnce(&mut T) -> R) -> Result<R, Refusal> {
        locked(&self.0).1.get_mut(&handle).map(act).ok_or(Refusal::InvalidArgument)
    }

    /// Forgets the thing that has that handle.
    pub fn free(&self, handle: usize) -> Result<(), Refusal> {
        locked(&self.0).1.remove(&handle).map(drop).ok_or(Refusal::InvalidArgument)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        say(&error.to_string());
        match error {
            StoreError::Config(_) => Self::DriverNotLoaded,
            StoreError::File { .. } | StoreError::State { .. } => Self::OperatingSystem,
        }
    }
}

/// NVML can say no more than a number, so that what is wrong with a configuration goes to the standard error.
fn say(what: &str) {
    eprintln!("whalezen-mock-nvml: {what}");
}

/// Initialises NVML for this process; as often as this was called, [`shutdown`] must be.
pub fn init(function: &str) -> Result<(), Refusal> {
    let path = env::var_os(VARIABLE).filter(|path| !path.is_empty());
    let path = PathBuf::from(path.ok_or_else(|| {
        say(&format!("{VARIABLE} names no file: there is no machine"));
        Refusal::DriverNotLoaded
    })?);
    let store = Arc::new(Store::open(&path)?);
    suffer(&store, function, None)?;
    let boot = store.read()?.boot;
    let mut session = locked(&SESSION);
    let initialised = session.as_ref().map_or(0, |session| session.initialised).saturating_add(1);
    *session = Some(Session { store, boot, initialised });
    Ok(())
}

/// Takes one initialisation back.
pub fn shutdown() -> Result<(), Refusal> {
    let mut session = locked(&SESSION);
    let now = session.as_mut().ok_or(Refusal::Uninitialized)?;
    now.initialised -= 1;
    if now.initialised == 0 {
        *session = None;
    }
    Ok(())
}

fn session() -> Result<Session, Refusal> {
    locked(&SESSION).clone().ok_or(Refusal::Uninitialized)
}

/// The handle that stands for `target`.
pub fn handle(target: Target) -> usize {
    let mut handles = locked(&HANDLES);
    let next = handles.targets.len();
    let at = *handles.places.entry(target).or_insert(next);
    if at == next {
        handles.targets.push(target);
    }
    (at + 1) * STRIDE
}

/// What a handle stands for.
pub fn target(handle: usize) -> Result<Target, Refusal> {
    let at = (handle / STRIDE).checked_sub(1).filter(|_| handle.is_multiple_of(STRIDE));
    at.and_then(|at| locked(&HANDLES).targets.get(at).copied()).ok_or(Refusal::InvalidArgument)
}

/// Answers a call that changes nothing, for the GPU of `on` if it is for one.
pub fn ask<T>(
    function: &str,
    on: Option<Target>,
    answer: impl FnOnce(&View<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    suffer(&session()?.store, function, on.map(Target::gpu))?;
    look(on, answer)
}

/// Looks at the machine as a call does that goes on.
pub fn look<T>(
    on: Option<Target>,
    answer: impl FnOnce(&View<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let session = session()?;
    let machine = session.store.read()?;
    let now = host::now();
    session.accepts(&machine, on, now)?;
    answer(&View { machine: &machine, now, living: &host::is_alive })
}

/// Does what a call wants that changes the machine. Only root may.
pub fn change<T>(
    function: &str,
    on: Target,
    change: impl FnOnce(&mut Machine, u64, Living<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let session = session()?;
    suffer(&session.store, function, Some(on.gpu()))?;
    let machine = session.store.read()?;
    if machine.config.require_root && !host::is_root() {
        return Err(Refusal::NoPermission);
    }
    session.store.change(|machine| {
        session.accepts(machine, Some(on), host::now())?;
        change(machine, host::now(), &host::is_alive)
    })
}

impl Session {
    /// Refuses what is asked of a machine that was started anew since, or of a GPU that fell off the bus.
    fn accepts(&self, machine: &Machine, on: Option<Target>, now: u64) -> Result<(), Refusal> {
        if machine.boot != self.boot {
            return Err(Refusal::Uninitialized);
        }
        on.map_or(Ok(()), |target| machine.present(target.gpu(), now))
    }
}

/// Takes the time that the call takes, and lets befall it what was arranged.
fn suffer(store: &Store, function: &str, gpu: Option<usize>) -> Result<(), Refusal> {
    let machine = store.read()?;
    let latency = &machine.config.latency_ms;
    let takes = latency.get(function).or_else(|| latency.get("default")).copied().unwrap_or(0);
    let concerned = || machine.faults.iter().filter(|fault| fault.concerns(function, gpu));
    let outcome = if concerned().any(fault::Fault::counts) {
        store.change(|machine| -> Result<_, Refusal> {
            let concerned = machine.faults.iter_mut().filter(|fault| fault.concerns(function, gpu));
            let befalling: Vec<_> =
                concerned.filter_map(|fault| fault.befalls().then_some(&*fault)).collect();
            Ok(fault::outcome(befalling))
        })?
    } else {
        fault::outcome(concerned())
    };
    let waits = takes.saturating_add(outcome.hang_ms);
    if waits > 0 {
        thread::sleep(Duration::from_millis(waits));
    }
    outcome.returns.map_or(Ok(()), Err)
}
