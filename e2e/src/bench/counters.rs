//! What is counted on the API server and in the managers while the harness runs.

use std::fmt;

use anyhow::Result;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};

use super::metrics::{Endpoint, Samples};
use super::writes::Writes;
use crate::Cluster;

/// The counters at one moment.
pub struct Counters {
    /// Writes that the API server answered.
    pub server: Writes,
    /// Writes that the manager itself counted, Events among them.
    pub own: Option<u64>,
}

impl Counters {
    /// Reads the API server's, and the manager's where it serves any.
    pub async fn read(cluster: &Cluster, manager: Option<&Endpoint>) -> Result<Self> {
        let server = Writes::of(&Endpoint::of(cluster.client()).samples().await?);
        let own = match manager {
            Some(endpoint) => own_writes(&endpoint.samples().await?),
            None => None,
        };
        Ok(Self { server, own })
    }
}

/// client-go's counter, which ours has the name and the labels of. `None` where it is not there,
/// zero before the first write.
fn own_writes(samples: &Samples) -> Option<u64> {
    let name = "rest_client_requests_total";
    samples.of(name).next()?;
    let write = |method: &str| ["POST", "PUT", "PATCH", "DELETE"].contains(&method);
    let sum = samples.sum(name, |sample| write(sample.label("method")));
    Some(super::writes::whole(sum))
}

/// How far the queues are: the sums over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pending: u64,
    admitted: u64,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} workloads pending, {} admitted", self.pending, self.admitted)
    }
}

/// The queues of a cluster, for whoever waits.
pub struct Queues(Api<DynamicObject>);

impl Queues {
    /// Of this cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let kind = GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta2", "ClusterQueue");
        Self(Api::all_with(cluster.client(), &ApiResource::from_gvk_with_plural(&kind, "clusterqueues")))
    }

    /// What the queues say of themselves now.
    pub async fn standing(&self) -> Result<Standing> {
        let queues = self.0.list(&ListParams::default()).await?;
        let sum = |field: &str| -> u64 {
            let count = |queue: &DynamicObject| queue.data.get("status")?.get(field)?.as_u64();
            queues.iter().filter_map(count).sum()
        };
        Ok(Standing { pending: sum("pendingWorkloads"), admitted: sum("admittedWorkloads") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_counts_its_writes_and_not_its_reads() {
        let page = "rest_client_requests_total{method=\"GET\",code=\"200\"} 50\n\
                    rest_client_requests_total{method=\"PATCH\",code=\"200\"} 7\n\
                    rest_client_requests_total{method=\"POST\",code=\"409\"} 2\n";
        assert_eq!(own_writes(&Samples::parse(page)), Some(9));
    }

    #[test]
    fn a_manager_without_the_counter_has_no_count() {
        assert_eq!(own_writes(&Samples::parse("up 1\n")), None);
    }
}
