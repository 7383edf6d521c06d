//! The shared cluster, as each way of sharing keeps it.

use std::collections::BTreeMap;

use anyhow::Result;
use whalezen_core::cells::{self, Cells, JobNumber, PER_NODE, Quota, Start};

/// A way to share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Quota is counted; who borrowed keeps it.
    Counted,
    /// Quota is counted; who borrowed is stopped for it, the last first.
    Stopping,
    /// Quota is cells.
    Cells,
}

impl Sharing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Counted, Self::Stopping, Self::Cells];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Stopping => "counted, borrowers are stopped",
            Self::Cells => "cells",
        }
    }

    /// Its name in benchmarks.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Stopping => "stopping",
            Self::Cells => "cells",
        }
    }

    /// A cluster that is shared like this.
    pub fn field(self, racks: u32, nodes_per_rack: u32, quotas: &[Quota]) -> Result<Box<dyn Field>> {
        Ok(match self {
            Self::Cells => Box::new(Cells::new(racks, nodes_per_rack, quotas)?),
            Self::Counted | Self::Stopping => {
                Box::new(Loose::new(racks * nodes_per_rack, self == Self::Stopping))
            }
        })
    }
}

/// A shared cluster.
pub trait Field {
    /// Starts a gang for which its tenant's private picture has room, and says who had to stop; `None` if it has to wait.
    fn start(&mut self, tenant: usize, job: JobNumber, gpus: u32) -> Result<Option<Vec<JobNumber>>>;
    /// Lends what is idle.
    fn lend(&mut self, job: JobNumber, gpus: u32) -> bool;
    /// A job is done.
    fn end(&mut self, job: JobNumber);
    /// How many GPUs are idle.
    fn idle(&self) -> u32;
}

impl Field for Cells {
    fn start(&mut self, tenant: usize, job: JobNumber, gpus: u32) -> Result<Option<Vec<JobNumber>>> {
        match Self::start(self, tenant, job, gpus)? {
            Start::Started(stopped) => Ok(Some(stopped)),
            Start::NoRoom => Ok(None),
        }
    }

    fn lend(&mut self, job: JobNumber, gpus: u32) -> bool {
        Self::lend(self, job, gpus)
    }

    fn end(&mut self, job: JobNumber) {
        Self::end(self, job);
    }

    fn idle(&self) -> u32 {
        Self::idle(self)
    }
}

/// Nodes on which a gang goes wherever it fits most tightly, whosever it is.
#[derive(Clone, Debug)]
pub struct Loose {
    free: Vec<u32>,
    held: BTreeMap<JobNumber, Vec<(usize, u32)>>,
    /// Who borrowed, the last last.
    borrowers: Vec<JobNumber>,
    stops: bool,
}

impl Loose {
    /// So many nodes, and whether who borrowed is stopped.
    pub fn new(nodes: u32, stops: bool) -> Self {
        let nodes = usize::try_from(nodes).unwrap_or_default();
        Self { free: vec![PER_NODE; nodes], held: BTreeMap::new(), borrowers: Vec::new(), stops }
    }

    fn place(&mut self, job: JobNumber, gpus: u32) -> bool {
        let Some(spots) = cells::fit(&self.free, gpus) else { return false };
        for (node, count) in &spots {
            if let Some(free) = self.free.get_mut(*node) {
                *free -= count;
            }
        }
        self.held.insert(job, spots);
        true
    }
}

impl Field for Loose {
    fn start(&mut self, _tenant: usize, job: JobNumber, gpus: u32) -> Result<Option<Vec<JobNumber>>> {
        if self.place(job, gpus) {
            return Ok(Some(Vec::new()));
        }
        if !self.stops {
            return Ok(None);
        }
        let before = self.clone();
        let mut stopped = Vec::new();
        while let Some(borrower) = self.borrowers.last().copied() {
            self.end(borrower);
            stopped.push(borrower);
            if self.place(job, gpus) {
                return Ok(Some(stopped));
            }
        }
        // Nobody is stopped in vain.
        *self = before;
        Ok(None)
    }

    fn lend(&mut self, job: JobNumber, gpus: u32) -> bool {
        let placed = self.place(job, gpus);
        if placed {
            self.borrowers.push(job);
        }
        placed
    }

    fn end(&mut self, job: JobNumber) {
        for (node, count) in self.held.remove(&job).unwrap_or_default() {
            if let Some(free) = self.free.get_mut(node) {
                *free += count;
            }
        }
        self.borrowers.retain(|borrower| *borrower != job);
    }

    fn idle(&self) -> u32 {
        self.free.iter().sum()
    }
}
