//! One problem, from its objects to a trace of what the manager made of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::object::HasSpec;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use whalezen_crds::kueue::constants::condition;
use whalezen_crds::kueue::v1beta2::{ClusterQueue, Cohort, LocalQueue, Workload};

use super::board::{Board, Place, holds, standing};
use super::outcome::{Move, Step, Trace};
use super::probe::settled;
use super::problem::{Act, Problem, name};
use super::{objects, owner, seen};

/// After so many evictions in one act it is no play any more but a loop.
const LOOP: usize = 25;

/// Plays a problem in a namespace of the name `place`, and removes it again.
pub async fn play(client: Client, board: &Board, place: &str, problem: &Problem) -> Result<Trace> {
    let player = Player { client, board, place, problem: &problem.placed(place) };
    player.stage().await?;
    board.touch(place);
    settled(board, place).await?;
    let mut trace = Trace::default();
    for act in &player.problem.acts {
        if !player.act(act, &mut trace).await? {
            break;
        }
    }
    player.clean_up().await?;
    Ok(trace)
}

struct Player<'a> {
    client: Client,
    board: &'a Board,
    place: &'a str,
    problem: &'a Problem,
}

impl Player<'_> {
    /// Makes what the problem begins with, one kind after the other: a manager is not asked to put up with a queue
    /// before its flavors, or with a LocalQueue before its queue. Workloads that come then meet what is described.
    async fn stage(&self) -> Result<()> {
        objects::flavors(&self.client, self.place, self.problem).await?;
        let flavors = self.problem.flavors.iter().map(|flavor| name(flavor.metadata.name.as_ref()));
        seen::flavors(&self.client, self.board, flavors).await?;
        objects::cluster_queues(&self.client, self.problem).await?;
        for queue in self.queue_names() {
            seen::active(&self.cluster_queues(), self.board, queue).await?;
        }
        objects::local_queues(&self.client, self.place, self.problem).await?;
        for queue in self.queue_names() {
            seen::active(&self.local_queues(), self.board, objects::local_name(self.place, queue)).await?;
        }
        Ok(())
    }

    fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.problem.queues.iter().map(|queue| name(queue.metadata.name.as_ref()))
    }

    /// Does it, and lets go what is evicted, one after another. False when that has no end.
    async fn act(&self, act: &Act, trace: &mut Trace) -> Result<bool> {
        let started = Instant::now();
        let words = self.perform(act).await?;
        self.note(words, started, trace).await?;
        for _ in 0..LOOP {
            let Some(evicted) = self.board.look(self.place, first_evicted).flatten() else { return Ok(true) };
            let started = Instant::now();
            owner::let_go(&self.client, &evicted).await?;
            let words = format!("{} is let go", name(evicted.metadata.name.as_ref()));
            self.note(words, started, trace).await?;
        }
        Ok(false)
    }

    /// Waits for what the manager makes of it, and writes that down.
    async fn note(&self, act: String, started: Instant, trace: &mut Trace) -> Result<()> {
        self.board.touch(self.place);
        settled(self.board, self.place).await?;
        let own = format!("{}-", self.place);
        let standing_now = |place: &Place| {
            let now =
                |(name, workload): (&String, &Workload)| (name.clone(), standing(workload).replace(&own, ""));
            place.workloads.iter().map(now).filter(|(_, words)| !words.is_empty()).collect()
        };
        let holders = self.board.look(self.place, standing_now).unwrap_or_default();
        let since = self.board.look(self.place, reservations).unwrap_or_default();
        let preemptors = self.board.look(self.place, preemptors).unwrap_or_default();
        let moves = self.board.take_moves(self.place).into_iter().map(|(at, workload, to)| Move {
            after: at.saturating_duration_since(started),
            workload,
            to: to.replace(&own, ""),
        });
        let (act, moves) = (act.replace(&own, ""), moves.collect());
        trace.steps.push(Step { act, holders, since, preemptors, moves });
        Ok(())
    }

    async fn perform(&self, act: &Act) -> Result<String> {
        match act {
            Act::Submit(workload) => {
                let mut workload = (**workload).clone();
                workload.metadata.namespace = Some(self.place.to_owned());
                objects::create(&self.client, &workload).await?;
            }
            Act::Finish(index) => {
                let holders = self.board.look(self.place, holders).unwrap_or_default();
                let Some(chosen) = index.checked_rem(holders.len()).and_then(|index| holders.get(index))
                else {
                    return Ok("nobody is there to finish".to_owned());
                };
                owner::finish(&self.client, self.place, chosen).await?;
                return Ok(format!("{chosen} finishes"));
            }
            Act::Edit(queue) => {
                respec(&self.cluster_queues(), &**queue).await?;
                let name = name(queue.metadata.name.as_ref());
                seen::looked_at(&self.cluster_queues(), self.board, name).await?;
            }
            Act::EditCohort(cohort) => {
                respec(&Api::<Cohort>::all(self.client.clone()), &**cohort).await?;
            }
            Act::StopLocalQueue(name, policy) => {
                let patch = Patch::Merge(json!({"spec": {"stopPolicy": policy}}));
                self.local_queues().patch(name, &PatchParams::default(), &patch).await?;
                seen::looked_at(&self.local_queues(), self.board, name).await?;
            }
        }
        Ok(act.words())
    }

    fn local_queues(&self) -> Api<LocalQueue> {
        Api::namespaced(self.client.clone(), self.place)
    }

    fn cluster_queues(&self) -> Api<ClusterQueue> {
        Api::all(self.client.clone())
    }

    /// Removes what costs a manager something. It may take its time.
    async fn clean_up(&self) -> Result<()> {
        let gone = DeleteParams::default();
        let workloads = objects::workloads(&self.client, self.place);
        workloads.delete_collection(&gone, &ListParams::default()).await?;
        self.local_queues().delete_collection(&gone, &ListParams::default()).await?;
        for queue in self.queue_names() {
            self.cluster_queues().delete(queue, &gone).await.context("removing its queues")?;
        }
        for cohort in &self.problem.cohorts {
            let cohorts: Api<Cohort> = Api::all(self.client.clone());
            cohorts
                .delete(name(cohort.metadata.name.as_ref()), &gone)
                .await
                .context("removing its cohorts")?;
        }
        self.board.forget(self.place);
        Ok(())
    }
}

/// Gives the object of this name this spec, whatever else is written to it meanwhile.
async fn respec<K>(api: &Api<K>, wanted: &K) -> Result<()>
where
    K: Resource + HasSpec<Spec: Clone> + Clone + DeserializeOwned + Serialize + Debug,
{
    let name = name(wanted.meta().name.as_ref());
    loop {
        let mut new = api.get(name).await?;
        *new.spec_mut() = wanted.spec().clone();
        match api.replace(name, &PostParams::default(), &new).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
            answer => return answer.map(|_| ()).with_context(|| format!("editing {name}")),
        }
    }
}

fn holders(place: &Place) -> Vec<String> {
    let held = place.workloads.iter().filter(|(_, workload)| !standing(workload).is_empty());
    held.map(|(name, _)| name.clone()).collect()
}

/// Since when everybody who holds quota does.
fn reservations(place: &Place) -> BTreeMap<String, Timestamp> {
    let since = |(name, workload): (&String, &Workload)| {
        let reserved = holds(workload, condition::QUOTA_RESERVED)?;
        Some((name.clone(), reserved.last_transition_time.0))
    };
    place.workloads.iter().filter_map(since).collect()
}

/// For whom those stop who were told to: the condition names its uid.
fn preemptors(place: &Place) -> BTreeMap<String, String> {
    let named = |message: &str| {
        let is_named = |workload: &&Workload| {
            workload.metadata.uid.as_ref().is_some_and(|uid| message.contains(&format!("UID: {uid},")))
        };
        place.workloads.values().find(is_named)?.metadata.name.clone()
    };
    let preemptor = |(victim, workload): (&String, &Workload)| {
        Some((victim.clone(), named(&holds(workload, condition::PREEMPTED)?.message)?))
    };
    place.workloads.iter().filter_map(preemptor).collect()
}

fn first_evicted(place: &Place) -> Option<Workload> {
    let evicted = |workload: &&Workload| {
        !standing(workload).is_empty() && holds(workload, condition::EVICTED).is_some()
    };
    place.workloads.values().find(evicted).cloned()
}
