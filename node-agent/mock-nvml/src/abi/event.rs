//! Sets of events, and waiting for one.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{c_uint, c_ulonglong},
    thread,
    time::{Duration, Instant},
};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t};

use super::{device, export, fill, given, gpu};
use crate::{
    host,
    machine::event::{EventId, REPORTED},
    process::{Registry, Target, View, ask, look},
    refusal::Refusal,
};

/// What a set waits for.
struct EventSet {
    /// The types of events, and since when, by GPU.
    registered: BTreeMap<usize, (u64, u64)>,
    /// What was delivered already, as which type.
    delivered: BTreeSet<(EventId, u64)>,
}

static SETS: Registry<EventSet, 4> = Registry::empty();

/// How often a waiting call looks whether something happened.
const LOOK: Duration = Duration::from_millis(10);

export! {
    /// Makes a set of events.
    fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) {
        given(set)?;
        ask(NAME, None, |_| Ok(()))?;
        let made = SETS.make(EventSet { registered: BTreeMap::new(), delivered: BTreeSet::new() });
        fill(set, std::ptr::without_provenance_mut(made))
    }

    /// Frees a set of events.
    fn nvmlEventSetFree(set: nvmlEventSet_t) {
        SETS.free(set.addr())
    }

    /// Which types of events there are for a GPU.
    fn nvmlDeviceGetSupportedEventTypes(handle: nvmlDevice_t, types: *mut c_ulonglong) {
        let (target, _) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        fill(types, REPORTED)
    }

    /// Adds types of a GPU's events to a set; those that happen from now on are delivered.
    fn nvmlDeviceRegisterEvents(handle: nvmlDevice_t, types: c_ulonglong, set: nvmlEventSet_t) {
        let (target, index) = gpu(handle)?;
        ask(NAME, Some(target), |_| Ok(()))?;
        if types & !REPORTED != 0 {
            return Err(Refusal::NotSupported);
        }
        let now = host::now();
        SETS.with(set.addr(), |set| {
            set.registered.entry(index).or_insert((0, now)).0 |= types;
        })
    }

    /// Waits for an event as many milliseconds.
    fn nvmlEventSetWait_v2(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout: c_uint) {
        given(data)?;
        let until = Instant::now() + Duration::from_millis(timeout.into());
        let mut found = ask(NAME, None, |view| next(view, set))?;
        while found.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::Timeout);
            }
            thread::sleep(left.min(LOOK));
            found = look(None, |view| next(view, set))?;
        }
        fill(data, found.ok_or(Refusal::Timeout)?)
    }
}

/// The next event that a set has to deliver.
fn next(view: &View<'_>, set: nvmlEventSet_t) -> Result<Option<nvmlEventData_t>, Refusal> {
    SETS.with(set.addr(), |set| {
        let happened = view.machine.happened(view.now);
        // What is forgotten need not be remembered to have been delivered.
        set.delivered.retain(|(id, _)| happened.iter().any(|(known, _)| known == id));
        for (id, event) in happened {
            let Some((types, since)) = set.registered.get(&event.gpu).copied() else { continue };
            let wanted = event.kind.reported().filter(|(kind, _)| event.at >= since && kind & types != 0);
            for (kind, data) in wanted {
                if set.delivered.insert((id, kind)) {
                    let none = c_uint::MAX;
                    return Some(nvmlEventData_t {
                        device: device(Target::Gpu(event.gpu)),
                        eventType: kind,
                        eventData: data,
                        gpuInstanceId: event.place.map_or(none, |place| place.gi),
                        computeInstanceId: event.place.map_or(none, |place| place.ci),
                    });
                }
            }
        }
        None
    })
}
