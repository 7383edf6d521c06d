//! Cells: quota that is kept together, so that a tenant can run in the shared cluster whatever it could run in a cluster of its own.
//!
//! Quota that only counts GPUs can be lost without being used: others' jobs lie so that a gang of the tenant has GPUs enough and no node. Here, as in `HiveD` (Zhao et al., OSDI 2020), a quota is a number
//! of *cells*: racks and nodes. A tenant's gangs are placed in its private picture, which is those cells and nothing else. A private
//! rack or node is bound to one of the shared cluster when the first gang comes to it, and unbound when the last leaves. The shared ones are handed out as buddies are: the smallest
//! free cell that will do is split, and halves that are free again are joined. So there is always one of each size that somebody is still
//! owed, and what the private picture has room for can be started, always ([`Cells::start`]). What is idle is [lent](Cells::lend), to whoever has none left, until
//! it is wanted.
//!
//! Of the two ways to keep such a promise, cells and preemption by guarantee alone, this is the one that holds: borrowers can be stopped, but another tenant's gang
//! that is within *its* quota and in the way cannot.

mod buddies;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

pub use self::buddies::{Buddies, Cell};

/// GPUs of a node.
pub const PER_NODE: u32 = 8;
/// The level of a node: cells of level 0 are GPUs, and each is two of those below up to here.
const NODE: usize = 3;
/// The level of a rack.
const RACK: usize = 4;

/// What a tenant is sure of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Racks.
    pub racks: u32,
    /// Nodes beside those.
    pub nodes: u32,
}

impl Quota {
    /// The fewest cells that have so many GPUs, where racks have this many nodes.
    pub fn of_gpus(gpus: u32, nodes_per_rack: u32) -> Self {
        let nodes = gpus.div_ceil(PER_NODE);
        let per_rack = nodes_per_rack.max(1);
        Self { racks: nodes / per_rack, nodes: nodes % per_rack }
    }
}

/// A job, by a number that whoever asks chooses.
pub type JobNumber = u64;

/// What came of asking for a start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// It has its GPUs, and these had to stop, who had borrowed them.
    Started(Vec<JobNumber>),
    /// The tenant's own cells have no room for it.
    NoRoom,
}

/// What cannot be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CellsError {
    /// More was promised than there is.
    #[error("the quotas are {0} racks and {1} nodes beside those, and there are {2} racks of {3} nodes")]
    Promised(u64, u64, u32, u32),
    /// No such tenant.
    #[error("there is no tenant {0}")]
    Tenant(usize),
    /// It holds GPUs already.
    #[error("job {0} has started already")]
    Twice(JobNumber),
    /// The promise is broken.
    #[error("tenant {0} is owed a cell and there is none: this cannot be")]
    Owed(usize),
}

/// Where a job is in its tenant's private picture.
#[derive(Clone, Debug)]
struct Held {
    tenant: usize,
    cells: Vec<Cell>,
}

/// A tenant's private picture, and where its racks and nodes are in the shared cluster.
#[derive(Clone, Debug)]
struct Tenant {
    private: Buddies,
    bound: BTreeMap<Cell, Cell>,
}

/// The shared cluster.
#[derive(Clone, Debug)]
pub struct Cells {
    shared: Buddies,
    tenants: Vec<Tenant>,
    held: BTreeMap<JobNumber, Held>,
    lent: BTreeMap<JobNumber, BTreeSet<u32>>,
    /// Who has each GPU.
    holder: Vec<Option<JobNumber>>,
}

/// The private picture of a quota.
pub fn private(quota: Quota, nodes_per_rack: u32) -> Buddies {
    Buddies::new(&[2, 2, 2, nodes_per_rack.max(1)], &[(RACK, quota.racks), (NODE, quota.nodes)])
}

/// The cells that so many GPUs are: whole nodes, and for the rest one cell that has enough.
pub fn levels(gpus: u32) -> Vec<usize> {
    let nodes = usize::try_from(gpus / PER_NODE).unwrap_or(usize::MAX);
    let mut levels = vec![NODE; nodes];
    let rest = gpus % PER_NODE;
    if rest > 0 {
        levels.push(usize::try_from(rest.next_power_of_two().ilog2()).unwrap_or(NODE));
    }
    levels
}

impl Cells {
    /// A cluster of so many racks, and what each tenant is sure of.
    pub fn new(racks: u32, nodes_per_rack: u32, quotas: &[Quota]) -> Result<Self, CellsError> {
        let per_rack = nodes_per_rack.max(1);
        let owed_racks: u64 = quotas.iter().map(|quota| u64::from(quota.racks)).sum();
        let owed_nodes: u64 = quotas.iter().map(|quota| u64::from(quota.nodes)).sum();
        if owed_racks + owed_nodes.div_ceil(u64::from(per_rack)) > u64::from(racks) {
            return Err(CellsError::Promised(owed_racks, owed_nodes, racks, per_rack));
        }
        let tenant = |quota: &Quota| Tenant { private: private(*quota, per_rack), bound: BTreeMap::new() };
        let shared = private(Quota { racks, nodes: 0 }, per_rack);
        let gpus = usize::try_from(racks * per_rack * PER_NODE).unwrap_or_default();
        Ok(Self {
            shared,
            tenants: quotas.iter().map(tenant).collect(),
            held: BTreeMap::new(),
            lent: BTreeMap::new(),
            holder: vec![None; gpus],
        })
    }

    /// Whether the tenant's own cells have room for a gang of so many GPUs.
    pub fn has_room(&self, tenant: usize, gpus: u32) -> bool {
        self.tenants
            .get(tenant)
            .is_some_and(|tenant| tenant.private.clone().take_all(&levels(gpus)).is_some())
    }

    /// Starts a gang on its tenant's own cells.
    pub fn start(&mut self, tenant: usize, job: JobNumber, gpus: u32) -> Result<Start, CellsError> {
        if self.held.contains_key(&job) || self.lent.contains_key(&job) {
            return Err(CellsError::Twice(job));
        }
        let its = self.tenants.get_mut(tenant).ok_or(CellsError::Tenant(tenant))?;
        let Some(cells) = its.private.take_all(&levels(gpus)) else { return Ok(Start::NoRoom) };
        let mut stopped = BTreeSet::new();
        let mut taken = Vec::new();
        for cell in &cells {
            let top = its.private.top_of(*cell);
            let bound = if let Some(bound) = its.bound.get(&top) {
                *bound
            } else {
                let holder = &self.holder;
                let lent = &self.lent;
                // Of equal cells the one on which the fewest would have to stop.
                let in_use = |cell: Cell, shared: &Buddies| {
                    let on = shared.leaves(cell).filter_map(|gpu| *holder.get(index(gpu))?);
                    on.filter(|job| lent.contains_key(job)).count()
                };
                let found = self.shared.take_by(top.level, in_use).ok_or(CellsError::Owed(tenant))?;
                its.bound.insert(top, found);
                found
            };
            let offset = its.private.leaves(*cell).start - its.private.leaves(top).start;
            let start = self.shared.leaves(bound).start + offset;
            taken.extend(start..start + its.private.size(cell.level));
        }
        for gpu in &taken {
            stopped.extend(self.holder.get(index(*gpu)).copied().flatten());
        }
        for borrower in &stopped {
            self.end(*borrower);
        }
        for gpu in taken {
            if let Some(holder) = self.holder.get_mut(index(gpu)) {
                *holder = Some(job);
            }
        }
        self.held.insert(job, Held { tenant, cells });
        Ok(Start::Started(stopped.into_iter().collect()))
    }

    /// Lends idle GPUs to a gang: on one node if it is no larger than that, else whole nodes and what is over on another. `false` if there are none like that.
    pub fn lend(&mut self, job: JobNumber, gpus: u32) -> bool {
        if gpus == 0 || self.held.contains_key(&job) || self.lent.contains_key(&job) {
            return false;
        }
        let free: Vec<u32> = self
            .holder
            .chunks(index(PER_NODE))
            .map(|node| node.iter().map(|holder| u32::from(holder.is_none())).sum())
            .collect();
        let Some(spots) = fit(&free, gpus) else { return false };
        let mut taken = BTreeSet::new();
        for (node, count) in spots {
            let gpus = (node * index(PER_NODE))..((node + 1) * index(PER_NODE));
            let idle = gpus.filter(|gpu| self.holder.get(*gpu).is_some_and(Option::is_none));
            taken.extend(idle.rev().take(index(count)).filter_map(|gpu| u32::try_from(gpu).ok()));
        }
        for gpu in &taken {
            if let Some(holder) = self.holder.get_mut(index(*gpu)) {
                *holder = Some(job);
            }
        }
        self.lent.insert(job, taken);
        true
    }

    /// A job is done, or stops.
    pub fn end(&mut self, job: JobNumber) {
        self.lent.remove(&job);
        if let Some(held) = self.held.remove(&job)
            && let Some(tenant) = self.tenants.get_mut(held.tenant)
        {
            for cell in held.cells {
                let top = tenant.private.top_of(cell);
                tenant.private.give(cell);
                if tenant.private.is_free(top)
                    && let Some(bound) = tenant.bound.remove(&top)
                {
                    self.shared.give(bound);
                }
            }
        }
        for holder in &mut self.holder {
            if *holder == Some(job) {
                *holder = None;
            }
        }
    }

    /// The GPUs of a job, by number.
    pub fn gpus_of(&self, job: JobNumber) -> Vec<u32> {
        (0..).zip(&self.holder).filter(|(_, holder)| **holder == Some(job)).map(|(gpu, _)| gpu).collect()
    }

    /// How many GPUs are idle.
    pub fn idle(&self) -> u32 {
        self.holder.iter().map(|holder| u32::from(holder.is_none())).sum()
    }
}

/// On which nodes, by what is free of each, a gang fits: whole nodes and what is over on the fullest that has room.
pub fn fit(free: &[u32], gpus: u32) -> Option<Vec<(usize, u32)>> {
    let (whole, rest) = (index(gpus / PER_NODE), gpus % PER_NODE);
    let idle = free.iter().enumerate().filter(|(_, free)| **free >= PER_NODE).map(|(node, _)| node);
    // From the end: cells are taken from the beginning.
    let mut spots: Vec<(usize, u32)> = idle.rev().take(whole).map(|node| (node, PER_NODE)).collect();
    if spots.len() < whole {
        return None;
    }
    if rest > 0 {
        let others = free
            .iter()
            .enumerate()
            .filter(|(node, free)| **free >= rest && !spots.iter().any(|(used, _)| used == node));
        let (node, _) = others.min_by_key(|(node, free)| (**free, *node))?;
        spots.push((node, rest));
    }
    Some(spots)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
