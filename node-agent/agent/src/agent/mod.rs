//! The agent's loop: look, decide, act, look again, and say what came of it.
//!
//! | module | what it does |
//! |---|---|
//! | `cluster` | what the API server says, and what it is told |
//! | `events` | errors that GPUs report by themselves |
//! | `acts` | what is done to a GPU |
//! | `lock` | that there is one agent on a node |

mod acts;
mod cluster;
mod events;
mod lock;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use whalezen_crds::scheduling::v1alpha1::{GPUNodeStatus, InstanceOrigin, LayoutProgress, LayoutState};
use whalezen_mig::parted::Configurations;

use self::cluster::{Cluster, GpuNodeSeen, Heard, Said};
pub use self::lock::{Lock, LockError};
use crate::{
    claims::{ClaimSource, Claims},
    device::{DeviceError, Event, Gpu, Lanes, Uuid},
    health::Health,
    inventory::Inventory,
    layout::{
        Moment,
        decide::{Decision, Look, decide},
        memory::Memory,
        neighbours,
        wish::{Sources, Wish, is_not_heard, wish},
    },
    report::{self, Known},
    view::{SeenGpu, View},
    xid::Xids,
};

/// How long it takes at most until a status is written again though nothing changed.
const HEARTBEAT: Duration = Duration::from_mins(5);

/// How long it is waited for the kubelet's word on who has what.
const CLAIMS_PATIENCE: Duration = Duration::from_secs(5);

/// How long NVIDIA's tools are stopped after a change, so that they see what there is now when they begin again.
const RESTART: Duration = Duration::from_secs(10);

/// How long it is waited after the API server has refused a write, and at most.
const WRITE_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// How often in a row what was done is looked at and gone on from at once.
const ROUNDS: usize = 4;

/// What an agent is told when it begins.
pub struct Config {
    /// The node that it is on.
    pub node: String,
    /// How often it looks at the GPUs where nothing calls for it.
    pub interval: Duration,
    /// How long a GPU may take to answer.
    pub patience: Duration,
    /// The layouts of mig-parted's file.
    pub configurations: Configurations,
}

/// An agent.
pub struct Agent {
    config: Config,
    cluster: Cluster,
    said: watch::Receiver<Said>,
    lanes: Arc<Lanes>,
    events: mpsc::Receiver<Event>,
    claims: Arc<dyn ClaimSource>,
    view: watch::Sender<View>,
    began: Instant,
    inventory: Inventory,
    health: Health,
    xids: watch::Sender<Xids>,
    memories: BTreeMap<Uuid, Memory>,
    /// What a status before says of who made what, until its GPU is seen.
    made_before: BTreeSet<Uuid>,
    remembers: bool,
    progress: BTreeMap<Uuid, LayoutProgress>,
    last_claims: Claims,
    restart_until: Option<Moment>,
    /// The status that the API server has, and since when.
    written: Option<(GPUNodeStatus, Moment)>,
    /// The pause after the last refused write, and until when it is.
    quiet: Option<(Duration, Moment)>,
}

/// What a turn has found.
struct Turn {
    blind: Option<String>,
    rival: Option<String>,
    complaints: Vec<String>,
    states: Vec<LayoutState>,
    /// When it would be different though nothing changed.
    again: Option<Moment>,
}

impl Agent {
    /// An agent on this node's devices. It tells `view` what it sees.
    pub fn new(
        config: Config,
        client: kube::Client,
        lanes: Arc<Lanes>,
        claims: Arc<dyn ClaimSource>,
        view: watch::Sender<View>,
    ) -> Self {
        let (cluster, said) = Cluster::watch(client, &config.node);
        let events = events::listen(lanes.devices());
        Self {
            inventory: Inventory::new(config.patience),
            config,
            cluster,
            said,
            lanes,
            events,
            claims,
            view,
            began: Instant::now(),
            health: Health::default(),
            xids: watch::Sender::new(Xids::default()),
            memories: BTreeMap::new(),
            made_before: BTreeSet::new(),
            remembers: false,
            progress: BTreeMap::new(),
            last_claims: Claims::default(),
            restart_until: None,
            written: None,
            quiet: None,
        }
    }

    /// The errors that GPUs reported.
    pub fn xids(&self) -> watch::Receiver<Xids> {
        self.xids.subscribe()
    }

    /// Goes on until it is dropped.
    pub async fn run(&mut self) {
        loop {
            let again = self.turn().await;
            let now = self.now();
            let pause = again.map_or(self.config.interval, |at| at.saturating_sub(now));
            let pause = pause.min(self.config.interval).max(Duration::from_millis(50));
            tokio::select! {
                () = sleep(pause) => {}
                Some(event) = self.events.recv() => self.hear(&event),
                Ok(()) = self.said.changed() => {}
            }
        }
    }

    /// What is to be done before an agent ends: nobody stays stopped.
    pub async fn finish(&mut self) {
        self.restart_until = None;
        let said = self.said.borrow_and_update().clone();
        if let Some(node) = &said.node
            && neighbours::rival(&node.node, said.dynamic_mig).is_none()
        {
            let states: Vec<LayoutState> = self.progress.values().map(|progress| progress.state).collect();
            self.cluster.patch_node(&neighbours::labels(&node.node, &states, false)).await;
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    fn hear(&mut self, event: &Event) {
        self.xids.send_modify(|xids| xids.note(event));
        if self.health.event(event) {
            tracing::warn!(gpu = %event.gpu, "the GPU reported {:?}", event.kind);
        } else {
            tracing::info!(gpu = %event.gpu, "a program's error: {:?}", event.kind);
        }
    }

    /// One turn; says when the next is due, if before the next look.
    #[tracing::instrument(skip_all, name = "reconcile")]
    async fn turn(&mut self) -> Option<Moment> {
        while let Ok(event) = self.events.try_recv() {
            self.hear(&event);
        }
        let said = self.said.borrow_and_update().clone();
        self.remember(&said);
        let mut turn = self.round(&said).await;
        for _ in 1..ROUNDS {
            match turn {
                (acted, _) if !acted => break,
                _ => turn = self.round(&said).await,
            }
        }
        let (acted, turn) = turn;
        self.tell(&said, &turn).await;
        let restart = self.restart_until.filter(|&until| until > self.now());
        let at_once = acted.then(|| self.now());
        [turn.again, restart, at_once].into_iter().flatten().min()
    }

    /// Looks, decides and acts once. Says whether anything was done.
    async fn round(&mut self, said: &Said) -> (bool, Turn) {
        let blind = match self.inventory.look(&self.lanes, &mut self.health).await {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!("the GPUs cannot be seen: {error}");
                // The message must not change with the time that has been waited: it is in the status.
                Some(match error {
                    DeviceError::Unresponsive { call, .. } => format!("the driver does not answer: {call}"),
                    error => error.to_string(),
                })
            }
        };
        let claims = match timeout(CLAIMS_PATIENCE, self.claims.claims()).await {
            Ok(Ok(claims)) => claims,
            Ok(Err(error)) => Claims::Unknown(error.0),
            Err(_) => Claims::Unknown("the kubelet has not answered in time".to_owned()),
        };
        let seen = self.inventory.seen(&self.health);
        let mut turn = Turn {
            rival: said.node.as_ref().and_then(|node| neighbours::rival(&node.node, said.dynamic_mig)),
            complaints: said.complaints(&seen),
            blind,
            states: Vec::new(),
            again: None,
        };
        let plans = self.decide(said, &seen, &claims, &mut turn);
        self.publish(said, &seen, claims, &plans);
        if turn.rival.is_some() || turn.blind.is_some() {
            return (false, turn);
        }
        (self.act(&seen, &plans).await, turn)
    }

    /// What to do with each GPU.
    fn decide(
        &mut self,
        said: &Said,
        seen: &[SeenGpu],
        claims: &Claims,
        turn: &mut Turn,
    ) -> Vec<(Uuid, Wish, Decision)> {
        self.progress.clear();
        let now = self.now();
        let Some(place) = said.complete() else { return Vec::new() };
        let sources = Sources {
            node: place.node,
            spec: place.spec,
            policies: &said.policies,
            configurations: &self.config.configurations,
        };
        let mut plans = Vec::new();
        for SeenGpu { gpu, trouble } in seen {
            let memory = self
                .memories
                .entry(gpu.uuid.clone())
                .or_insert_with(|| Memory::of_made(self.made_before.iter().cloned()));
            memory.look(gpu, claims, now);
            let wish = wish(gpu, &sources);
            let look = Look { gpu, trouble: trouble.as_ref(), claims, cordoned: place.node.cordoned, now };
            let mut decision = decide(&look, &wish, memory);
            if turn.rival.is_some() {
                decision = Decision { acts: Vec::new(), withhold: BTreeSet::new(), ..decision };
            }
            memory.withhold(&decision.withhold, now);
            if decision.state == LayoutState::Applied {
                memory.succeeded();
            }
            if is_not_heard(gpu, &sources) {
                turn.complaints.push(format!(
                    "GPU {}: what the spec wants is not done, because no MIGPolicy with mode Dynamic is about it",
                    gpu.index
                ));
            }
            turn.again = [turn.again, decision.again].into_iter().flatten().min();
            turn.states.push(decision.state);
            let before = self.written.as_ref().map(|(status, _)| status);
            self.progress.insert(gpu.uuid.clone(), progress(gpu, &wish, &decision, now, before));
            plans.push((gpu.uuid.clone(), wish, decision));
        }
        plans
    }

    /// Tells what is seen to whoever hands devices out or measures them, before anything is done.
    fn publish(&mut self, said: &Said, seen: &[SeenGpu], claims: Claims, plans: &[(Uuid, Wish, Decision)]) {
        let assigned = said.assigned(seen);
        let mut withheld: BTreeSet<Uuid> = assigned.keys().cloned().collect();
        withheld.extend(plans.iter().flat_map(|(_, _, decision)| decision.withhold.iter().cloned()));
        if matches!(claims, Claims::Known(_)) {
            self.last_claims = claims.clone();
        }
        let view = View {
            driver: self.inventory.driver().cloned(),
            gpus: seen.to_vec(),
            links: self.inventory.links().to_vec(),
            withheld,
            assigned,
            claims,
        };
        self.view.send_if_modified(|before| {
            let changed = *before != view;
            if changed {
                *before = view;
            }
            changed
        });
    }

    /// Does what was decided, GPU by GPU. Says whether anything was done, in vain or not.
    async fn act(&mut self, seen: &[SeenGpu], plans: &[(Uuid, Wish, Decision)]) -> bool {
        let mut acted = false;
        for (uuid, wish, decision) in plans {
            let Ok(Some(target)) = &wish.target else { continue };
            for act in &decision.acts {
                acted = true;
                self.restart_until = Some(self.now().saturating_add(RESTART));
                let done = acts::perform(&self.lanes, uuid, act).await;
                let now = self.now();
                let Some(memory) = self.memories.get_mut(uuid) else { break };
                match done {
                    Ok(Some(made)) => memory.made(&made),
                    Ok(None) => {}
                    Err(error) => {
                        let index =
                            seen.iter().find(|seen| seen.gpu.uuid == *uuid).map(|seen| seen.gpu.index);
                        tracing::warn!(gpu = %uuid, "GPU {}: {act}: {error}", index.unwrap_or_default());
                        memory.failed(target, format!("{act}: {error}"), now);
                        break;
                    }
                }
            }
        }
        acted
    }

    /// Writes the status and the node's labels, where they are not what they should be. What is refused is tried again
    /// later and later.
    async fn tell(&mut self, said: &Said, turn: &Turn) {
        let now = self.now();
        if self.quiet.is_some_and(|(_, until)| now < until) {
            return;
        }
        self.quiet = if self.write(said, turn).await {
            None
        } else {
            let [first, most] = WRITE_PAUSES;
            let pause = self.quiet.map_or(first, |(before, _)| before.saturating_mul(2).min(most));
            Some((pause, self.now().saturating_add(pause)))
        };
    }

    /// Writes once; says whether nothing was refused.
    async fn write(&mut self, said: &Said, turn: &Turn) -> bool {
        let Some(node) = &said.node else { return true };
        if matches!(said.gpu_node, Heard::Absent) {
            self.written = None;
            if !self.cluster.create_gpu_node(node).await {
                return false;
            }
        }
        let now = self.now();
        let before = self.written.as_ref().map(|(status, _)| status);
        let made: BTreeSet<Uuid> =
            self.memories.values().flat_map(|memory| memory.made_devices().iter().cloned()).collect();
        // While the kubelet is away it is told who had what before: it comes back and says the same.
        let view = View { claims: self.last_claims.clone(), ..View::clone(&self.view.borrow()) };
        let status = report::status(
            &Known {
                view: &view,
                made: &made,
                layouts: &self.progress,
                generation: said.generation(),
                blind: turn.blind.as_deref(),
                rival: turn.rival.as_deref(),
                complaints: &turn.complaints,
                now: Timestamp::now(),
            },
            before,
        );
        let due = match &self.written {
            None => true,
            Some((before, at)) => !report::same(before, &status) || now.saturating_sub(*at) >= HEARTBEAT,
        };
        let mut taken = true;
        if due && said.is_complete() {
            taken = self.cluster.write_status(&status).await;
            if taken {
                self.written = Some((status, now));
            }
        }
        if turn.rival.is_none() && turn.blind.is_none() {
            let restart = self.restart_until.is_some_and(|until| now < until);
            taken &= self.cluster.patch_node(&neighbours::labels(&node.node, &turn.states, restart)).await;
        }
        taken
    }

    /// Takes up what an agent before has left in the status, once.
    fn remember(&mut self, said: &Said) {
        if self.remembers || matches!(said.gpu_node, Heard::NotYet) {
            return;
        }
        self.remembers = true;
        let Heard::There(GpuNodeSeen { status: Some(status), .. }) = &said.gpu_node else { return };
        let instances = status.gpus.iter().flat_map(|gpu| &gpu.mig).flat_map(|mig| &mig.instances);
        let ours = instances.filter(|instance| instance.origin == InstanceOrigin::Agent);
        self.made_before = ours.filter_map(|instance| instance.uuid.clone()).map(Uuid::from).collect();
        // Its words are the base for what has changed; its heartbeat is of another process.
        self.written = Some((status.clone(), self.now().saturating_sub(HEARTBEAT)));
    }
}

/// How far a layout is, for the status.
fn progress(
    gpu: &Gpu,
    wish: &Wish,
    decision: &Decision,
    now: Moment,
    before: Option<&GPUNodeStatus>,
) -> LayoutProgress {
    let next_try = match decision.state {
        LayoutState::Failed => decision.again.map(|at| {
            let wall = Timestamp::now();
            let at = Time(report::seconds(wall.saturating_add(at.saturating_sub(now)).unwrap_or(wall)));
            // The same failure keeps its time: it is computed from two clocks, and one of them jumps.
            let before = before.and_then(|status| next_try_in(status, &gpu.uuid));
            before.filter(|before| (before.0.as_second() - at.0.as_second()).abs() <= 2).unwrap_or(at)
        }),
        _ => None,
    };
    LayoutProgress {
        source: wish.source,
        policy: wish.policy.clone(),
        state: decision.state,
        message: decision.message.as_deref().map(|message| report::clip(message, 1024)),
        next_try,
    }
}

fn next_try_in(status: &GPUNodeStatus, gpu: &Uuid) -> Option<Time> {
    let gpu = status.gpus.iter().find(|there| there.uuid == gpu.as_str())?;
    gpu.mig.as_ref()?.layout.as_ref()?.next_try.clone()
}
