//! Who waits in a ClusterQueue.

use super::{
    State,
    places::{Counted, Place},
};
use crate::{name::ClusterQueueName, workload::Workload};

impl State {
    /// Everybody who counts as waiting in a ClusterQueue, if it is known: first those who queue, in the order in which they
    /// would be tried; then those who do not, because the queue is stopped or because of something of their own.
    pub fn waiting(&self, queue: &ClusterQueueName) -> Option<Vec<&Workload>> {
        self.queue(queue)?;
        let line = self.pending.get(queue).map(|pending| pending.line()).unwrap_or_default();
        let held_back = self.standings.iter().filter(|(_, standing)| {
            matches!(&standing.place, Place::Blocked { counted: Counted::In(name), .. } if name == queue)
        });
        let mut held_back: Vec<_> = held_back.filter_map(|(key, _)| self.workload(key)).collect();
        held_back
            .sort_by_key(|workload| (std::cmp::Reverse(workload.priority), workload.since, &workload.key));
        Some(line.into_iter().filter_map(|order| self.workload(&order.key)).chain(held_back).collect())
    }
}
