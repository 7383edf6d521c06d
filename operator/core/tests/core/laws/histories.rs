//! Random histories of a small cluster: what can happen, and how it is told to a [`World`].

use proptest::{collection::vec, prelude::*};
use whalezen_core::{
    consumption::Rules,
    name::WorkloadKey,
    plan::Admit,
    queue::{Reclaim, WithinQueue},
    testing::{
        QueueBuilder, WorkloadBuilder, World, cohort, flavor, key, local_key, local_queue, namespace, queue,
        workload,
    },
    workload::{Eviction, PodSet, Workload},
};

use crate::GPU;

/// Something that happens. Numbers stand for names.
#[derive(Clone, Debug)]
pub enum Event {
    Flavor { name: u8, kind: u8 },
    FlavorGone(u8),
    Cohort { name: u8, parent: u8, gpus: i64, limit: Option<i64>, valid: bool },
    CohortGone(u8),
    Queue { name: u8, cohort: u8, gpus: [i64; 2], limits: [Option<i64>; 2], shape: u8, preempts: u8 },
    QueueGone(u8),
    LocalQueue { name: u8, queue: u8, stopped: bool },
    LocalQueueGone(u8),
    Namespace { name: u8, label: u8 },
    Submitted { name: u8, priority: i32, since: i64, shape: u8, queue: u8 },
    Anew { name: u8, shape: u8 },
    Deactivated(u8),
    Running { name: u8, queue: u8, shape: u8 },
    Evicted(u8),
    ToldToStop(u8),
    Finished(u8),
    Gone(u8),
    Left { name: u8, pods: u32 },
    Grows { name: u8, shape: u8 },
    Plan { budget: u32, answers: u8 },
    Answer { which: u8, how: u8 },
    Reports(u8),
}

/// Events about workloads, and plans: those that change no declaration.
pub fn work() -> impl Strategy<Value = Event> {
    let name = || 0..12_u8;
    let submitted =
        (name(), -1..2_i32, 0..5_i64, 0..10_u8, 0..4_u8).prop_map(|(name, priority, since, shape, queue)| {
            Event::Submitted { name, priority, since, shape, queue }
        });
    prop_oneof![
        6 => submitted,
        1 => (name(), 0..10_u8).prop_map(|(name, shape)| Event::Anew { name, shape }),
        1 => name().prop_map(Event::Deactivated),
        2 => name().prop_map(Event::Evicted),
        2 => name().prop_map(Event::ToldToStop),
        3 => name().prop_map(Event::Finished),
        2 => name().prop_map(Event::Gone),
        1 => (name(), 0..4_u32).prop_map(|(name, pods)| Event::Left { name, pods }),
        1 => (name(), 0..10_u8).prop_map(|(name, shape)| Event::Grows { name, shape }),
        6 => (prop_oneof![Just(1000), 0..4_u32], any::<u8>())
            .prop_map(|(budget, answers)| Event::Plan { budget, answers }),
        4 => (any::<u8>(), 0..6_u8).prop_map(|(which, how)| Event::Answer { which, how }),
        1 => (0..3_u8).prop_map(Event::Reports),
    ]
}

/// Events of every kind.
pub fn anything() -> impl Strategy<Value = Event> {
    let limit = || prop_oneof![Just(None), (0..6_i64).prop_map(Some)];
    let named = || 0..3_u8;
    prop_oneof![
        12 => work(),
        1 => (named(), 0..3_u8).prop_map(|(name, kind)| Event::Flavor { name, kind }),
        1 => named().prop_map(Event::FlavorGone),
        1 => (named(), 0..4_u8, 0..5_i64, limit(), 0..8_u8).prop_map(|(name, parent, gpus, limit, odd)| {
            Event::Cohort { name, parent, gpus, limit, valid: odd != 0 }
        }),
        1 => named().prop_map(Event::CohortGone),
        2 => (named(), 0..4_u8, [0..8_i64, 0..8], [limit(), limit()], any::<u8>(), 0..27_u8)
            .prop_map(|(name, cohort, gpus, limits, shape, preempts)| Event::Queue {
                name, cohort, gpus, limits, shape, preempts,
            }),
        1 => named().prop_map(Event::QueueGone),
        1 => (0..4_u8, named(), any::<bool>())
            .prop_map(|(name, queue, stopped)| Event::LocalQueue { name, queue, stopped }),
        1 => (0..4_u8).prop_map(Event::LocalQueueGone),
        1 => (0..2_u8, 0..2_u8).prop_map(|(name, label)| Event::Namespace { name, label }),
        2 => (0..12_u8, named(), 0..10_u8).prop_map(|(name, queue, shape)| Event::Running { name, queue, shape }),
    ]
}

/// A history of at most so many events.
pub fn history(of: impl Strategy<Value = Event>, length: usize) -> impl Strategy<Value = Vec<Event>> {
    vec(of, 0..length)
}

/// A world, and the writes that the API server has not answered yet.
#[derive(Default)]
pub struct History {
    pub world: World,
    in_flight: Vec<Admit>,
}

impl History {
    /// A cluster with two flavors, two queues in a cohort and one alone; the shape decides their kind.
    pub fn of_cluster(shape: u8, limits: [Option<i64>; 2]) -> Self {
        let mut history = Self::default();
        history.world.state.remember((!shape.is_multiple_of(3)).then(memory));
        for name in 0..3 {
            history.happens(&Event::Flavor { name, kind: 0 });
            let cohort = if name == 2 { 3 } else { 0 };
            let gpus = [4 + i64::from(name), 3];
            history.happens(&Event::Queue {
                name,
                cohort,
                gpus,
                limits,
                shape: shape.rotate_left(name.into()) & 0b11,
                preempts: (shape >> 2).wrapping_mul(name + 1) % 27,
            });
        }
        for name in 0..4 {
            history.happens(&Event::LocalQueue { name, queue: name % 3, stopped: false });
        }
        history
    }

    /// The events are told to the state.
    pub fn happen(&mut self, events: &[Event]) {
        for event in events {
            self.happens(event);
        }
    }

    /// The event is told to the state.
    pub fn happens(&mut self, event: &Event) {
        let world = &mut self.world;
        match *event {
            Event::Flavor { name, kind } => world.tell(match kind {
                0 => flavor(&format!("f{name}")),
                1 => flavor(&format!("f{name}")).label("kind", "x"),
                _ => flavor(&format!("f{name}")).taint("spot", "true"),
            }),
            Event::FlavorGone(name) => world.state.delete_flavor(&format!("f{name}").into()),
            Event::Cohort { name, parent, gpus, limit, valid } => {
                let mut cohort = cohort(&format!("c{name}")).quota("f0", GPU, gpus);
                if parent < 3 {
                    cohort = cohort.parent(&format!("c{parent}"));
                }
                if let Some(limit) = limit {
                    cohort = cohort.lend("f0", GPU, limit).borrow("f0", GPU, limit / 2);
                }
                world.tell(if valid { cohort } else { cohort.invalid("is odd") });
            }
            Event::CohortGone(name) => world.state.delete_cohort(&format!("c{name}").into()),
            Event::Queue { name, cohort, gpus, limits, shape, preempts } => {
                world.tell(preempting(cluster_queue(name, cohort, gpus, limits, shape), preempts));
            }
            Event::QueueGone(name) => world.state.delete_queue(&format!("q{name}").into()),
            Event::LocalQueue { name, queue, stopped } => {
                let weight = [0, 1_000_000_000, 2_000_000_000][usize::from(queue % 3)];
                let queue = local_queue(&local(name), &format!("q{queue}")).weight(weight);
                world.tell(if stopped { queue.stopped() } else { queue });
            }
            Event::LocalQueueGone(name) => world.state.delete_local_queue(&local_key(&local(name))),
            Event::Namespace { name, label } => {
                let namespace = namespace(&format!("n{name}"));
                world.tell(if label == 0 { namespace } else { namespace.label("team", "a") });
            }
            Event::Submitted { name, priority, since, shape, queue } => {
                let it = shaped(name, shape).priority(priority).since(since);
                submit(world, it.queue(&format!("lq{}", queue / 2)));
            }
            Event::Anew { name, shape } => {
                let version = world.next_version();
                world.tell(shaped(name, shape).uid(&format!("uid-{version}")).version(version));
            }
            Event::Deactivated(name) => world.change(&slot(name), |workload| workload.active = false),
            Event::Running { name, queue, shape } => {
                world.tell(shaped(name, shape).holding(&format!("q{queue}"), &format!("f{}", shape % 3)));
            }
            Event::Evicted(name) => world.requeue(&slot(name)),
            Event::ToldToStop(name) => {
                if world.state.eviction(&key(&slot(name))).is_some() {
                    world.tell_to_stop(&slot(name), Eviction::Preempted);
                }
            }
            Event::Finished(name) => world.finish(&slot(name)),
            Event::Gone(name) => world.delete(&slot(name)),
            Event::Left { name, pods } => world.change(&slot(name), |workload| {
                let left = workload.left.entry("main".into()).or_insert(pods);
                *left = pods.min(*left);
                ask_for_what_is_left(workload);
            }),
            Event::Grows { name, shape } => {
                submit(world, shaped((name + 2) % 12, shape).replaces(&slot(name)));
            }
            Event::Plan { budget, answers } => {
                world.policy.budget = budget;
                self.plan(answers);
            }
            Event::Answer { which, how } => self.answer(which.into(), how),
            Event::Reports(limit) => {
                for report in world.state.take_reports(limit.into()) {
                    if limit == 1 {
                        world.state.report_again(&report.workload);
                    }
                }
            }
        }
    }

    /// A plan, of which some writes are answered at once and some later.
    fn plan(&mut self, answers: u8) {
        self.world.now.0 += i64::from(answers) * 100;
        let plan = self.world.plan();
        self.world.state.follow(&plan, self.world.now, &self.world.policy);
        for (index, evict) in plan.evict.iter().enumerate() {
            match answers.rotate_right(u32::try_from(index).unwrap_or(0)) & 3 {
                0 => self.world.tell_to_stop(&evict.workload.to_string(), Eviction::Preempted),
                1 => self.world.state.spare(&evict.workload),
                _ => {}
            }
        }
        for (index, admit) in plan.admit.into_iter().enumerate() {
            if self.world.state.assume(&admit) {
                self.in_flight.push(admit);
                if answers.rotate_left(u32::try_from(index).unwrap_or(0)) & 1 == 0 {
                    self.answer(self.in_flight.len() - 1, answers % 4);
                }
            }
        }
    }

    /// One of the writes in flight is answered, or its effect is seen first.
    fn answer(&mut self, which: usize, how: u8) {
        if self.in_flight.is_empty() {
            return;
        }
        let admit = self.in_flight.remove(which % self.in_flight.len());
        let key = admit.workload.clone();
        let conflicts = self.version(&key) != Some(admit.version);
        match how {
            _ if conflicts => self.world.state.forget(&key),
            0 | 1 => {
                let answer = self.accepted(&admit);
                self.world.state.confirm(answer);
            }
            2 => self.world.state.forget(&key),
            3 => self.world.state.refuse(&key, "no".into()),
            4 => {
                let answer = self.accepted(&admit);
                self.world.state.apply_workload(answer.clone());
                self.world.finish(&key.to_string());
                self.world.state.confirm(answer);
            }
            _ => {
                let answer = self.accepted(&admit);
                self.world.delete(&key.to_string());
                self.world.state.confirm(answer);
            }
        }
    }

    fn version(&self, key: &WorkloadKey) -> Option<u64> {
        self.world.state.workload(key).map(|workload| workload.version)
    }

    fn accepted(&mut self, admit: &Admit) -> Workload {
        self.world.accepted(admit).expect("its version was compared")
    }

    /// Every write in flight is accepted, everybody who is told to stop does, and plans are made until nothing more
    /// happens. Says whether it comes to that.
    pub fn comes_to_rest(&mut self) -> bool {
        while !self.in_flight.is_empty() {
            self.answer(0, 0);
        }
        let told: Vec<_> = self.world.state.evictions().map(|evict| evict.workload.to_string()).collect();
        for workload in told {
            self.world.tell_to_stop(&workload, Eviction::Preempted);
        }
        self.world.policy.budget = 1000;
        self.world.comes_to_rest()
    }
}

/// An object is there or has changed. Pods that have done their work stay done.
fn submit(world: &mut World, it: WorkloadBuilder) {
    let mut it = Workload::from(it);
    if let Some(known) = world.state.workload(&it.key) {
        it.left.clone_from(&known.left);
    }
    ask_for_what_is_left(&mut it);
    world.tell(it);
}

/// Pods that have done their work are not asked for.
fn ask_for_what_is_left(workload: &mut Workload) {
    let Ok(pod_sets) = &workload.pod_sets else { return };
    let left = |set: &PodSet| {
        let count = workload.left.get(&set.name).map_or(set.count, |left| set.count.min(*left));
        PodSet { count, min_count: set.min_count.map(|least| least.min(count)), ..set.clone() }
    };
    workload.pod_sets = Ok(pod_sets.iter().map(left).collect());
}

fn slot(name: u8) -> String {
    format!("n{}/w{name}", name % 2)
}

fn local(name: u8) -> String {
    format!("n{}/lq{}", name % 2, name / 2)
}

/// The workload of a slot, with pods of one of ten shapes. All of a namespace stand for one job.
fn shaped(name: u8, shape: u8) -> WorkloadBuilder {
    let it = workload(&slot(name)).job("job");
    match shape {
        0 => it.pods("main", 1, [(GPU, 1)]),
        1 => it.pods("main", 2, [(GPU, 1)]),
        2 => it.pods("main", 1, [(GPU, 3), ("cpu", 1)]),
        3 => it.pods("main", 1, [(GPU, 2)]).select("kind", "x"),
        4 => it.pods("a", 1, [(GPU, 2)]).pods("b", 2, [(GPU, 2)]),
        5 => it.pods("main", 1, [(GPU, 9)]),
        6 => it.pods("main", 1, [(GPU, 2)]).tolerate("spot"),
        7 => it.pods("main", 5, [(GPU, 1)]).at_least(2),
        8 => it.pods("main", 3, [(GPU, 1)]),
        _ => it.pods("a", 1, [(GPU, 1), ("memory", 0)]).pods("b", 1, [(GPU, 4)]).select("kind", "x"),
    }
}

/// Half of what was consumed is forgotten in a minute.
fn memory() -> Rules {
    Rules { half_life: 60_000, sampling: 10_000, weights: std::collections::BTreeMap::new() }
}

/// A property that a queue may have.
type Flag = fn(QueueBuilder) -> QueueBuilder;

/// A queue with one group of two flavors, or a flavor for GPUs and another for processors.
fn cluster_queue(name: u8, cohort: u8, gpus: [i64; 2], limits: [Option<i64>; 2], shape: u8) -> QueueBuilder {
    let (first, second) = (format!("f{}", name % 3), format!("f{}", (name + 1) % 3));
    let mut cq = queue(&format!("q{name}")).group([GPU]).flavor(&first, [(GPU, gpus[0])]);
    cq = if shape & 4 == 0 {
        cq.flavor(&second, [(GPU, gpus[1])])
    } else {
        cq.group(["cpu", "pods"]).flavor(&second, [("cpu", gpus[1]), ("pods", 6)])
    };
    if cohort < 3 {
        cq = cq.cohort(&format!("c{cohort}"));
    }
    if let Some(limit) = limits[0] {
        cq = cq.borrow(&first, GPU, limit);
    }
    if let Some(limit) = limits[1] {
        cq = cq.lend(&first, GPU, limit);
    }
    let flags: [(u8, u8, Flag); 6] = [
        (1, 1, QueueBuilder::strict),
        (2, 2, QueueBuilder::rather_next_flavor),
        (0b1111_1000, 0b0000_1000, QueueBuilder::stopped),
        (0b1111_1000, 0b0001_0000, |cq| cq.invalid("is odd")),
        (0b1111_1000, 0b0001_1000, QueueBuilder::terminating),
        (0b1110_0000, 0b0010_0000, |cq| cq.only_namespaces("team", "a")),
    ];
    flags.iter().filter(|(mask, want, _)| shape & mask == *want).fold(cq, |cq, (.., flag)| flag(cq))
}

/// A queue whose workloads may preempt, in one of 27 ways.
fn preempting(queue: QueueBuilder, way: u8) -> QueueBuilder {
    let queue = if way.is_multiple_of(2) { queue } else { queue.by_consumption() };
    let queue = queue.preempts(match way % 3 {
        0 => WithinQueue::Never,
        1 => WithinQueue::LowerPriority,
        _ => WithinQueue::LowerOrNewerEqualPriority,
    });
    let queue = match way / 3 % 3 {
        0 => return queue,
        1 => queue.reclaims(Reclaim::LowerPriority),
        _ => queue.reclaims(Reclaim::Any),
    };
    match way / 9 {
        0 => queue,
        1 => queue.borrows_by_priority(None),
        _ => queue.borrows_by_priority(Some(0)),
    }
}

/// The key of a slot.
pub fn keys() -> impl Iterator<Item = WorkloadKey> {
    (0..12).map(|name| key(&slot(name)))
}
