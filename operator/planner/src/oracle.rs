//! The best that can be had on a small cluster, by an integer program: a yardstick, never a way to decide.
//!
//! It takes [snapshots](Snapshot) whose jobs ask for 1, 2, 4 or 8 whole GPUs a task and nothing else of the nodes, with one level of domains, and where
//! leaving home costs nothing. It has the search's constraints: gangs are whole, within a rack if they have to be, on their models, apart if they have
//! to be; who may only move runs on; who may not move stays.
//!
//! Nodes of one rack and model are counted together. That loses nothing: as each size divides the next, tasks fit on nodes exactly
//! if for each size `s` those of size `s` and more take no more than the sum of `floor(free / s)` slots. For a gang that is apart it says that there are no more
//! tasks than nodes that have room for one and are nobody's as a whole, which is necessary and not always sufficient. What comes out is then a bound that may
//! lie above the optimum, and so does what is counted for a search that was broken off: a gap to it is never too small.

use std::collections::{BTreeMap, BTreeSet};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};
use thiserror::Error;
use whalezen_core::placement::{
    Ask, Node, WHOLE_GPU,
    improve::{Job, Leave, Snapshot},
};

/// The sizes of tasks, in GPUs. Each divides the next.
const SIZES: [u32; 4] = [1, 2, 4, 8];

/// The place of the size that is a whole node.
const WHOLE_NODE: usize = SIZES.len() - 1;

/// What the program says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Best {
    /// No placement has more GPUs, each times the weight of its job.
    pub weighted: f64,
    /// Whether there is a solution of the program with that much.
    pub proven: bool,
    /// With that much, gangs are in at least so many racks; `None` if that was not found out.
    pub racks: Option<f64>,
}

/// What a snapshot has that the program does not know, or why it has no answer.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum OracleError {
    /// A job is of another kind.
    #[error("job {0} asks for what is not counted here")]
    Job(u64),
    /// The solver has no answer.
    #[error("there is no solution: {0}")]
    Unsolved(String),
}

/// Nodes of one rack and model.
#[derive(Default)]
struct Cell {
    /// How many tasks of each size fit.
    slots: [u32; SIZES.len()],
    /// On how many nodes one of each size does.
    nodes: [u32; SIZES.len()],
}

type CellId = (String, String);

/// A job in the program.
struct Column<'a> {
    job: &'a Job,
    size: usize,
    /// Whether it runs in any case.
    runs: bool,
    here: Variable,
    /// How many tasks are in each cell.
    tasks: Vec<(CellId, Variable)>,
}

/// What is the best for a snapshot, within so many nodes of the search tree for each of the two questions.
pub fn best(snapshot: &Snapshot, nodes: u64) -> Result<Best, OracleError> {
    let cells = cells(snapshot)?;
    let options = || {
        let mut options = SolveOptions::default();
        options.node_limit = Some(nodes);
        options
    };
    let mut program = Problem::new(OptimizationDirection::Maximize);
    let weight = |job: &Job| f64::from(job.weight * job.count * job.shape.count());
    let columns = columns(snapshot, &cells, &mut program, |job| weight(job))?;
    constrain(&columns, &cells, &mut program);
    racks(&columns, &mut program, 0.0, false);
    let outcome = solve(&program, options())?;
    let bound = outcome.stats().best_bound;
    let solution = outcome.solution();
    let proven = outcome.is_optimal();
    let weighted = match (proven, solution, bound) {
        (true, Some(solution), _) => solution.objective(),
        (_, _, Some(bound)) => bound,
        _ => return Err(OracleError::Unsolved("there is not even a bound".to_owned())),
    };
    // Weights are whole numbers, so no placement has a part of one more.
    let weighted = (weighted + 1e-6).floor();
    let racks = if proven { least_racks(snapshot, &cells, weighted, options())? } else { None };
    Ok(Best { weighted, proven, racks })
}

/// In how many racks gangs are at least, if they are worth that much together.
fn least_racks(
    snapshot: &Snapshot,
    cells: &BTreeMap<CellId, Cell>,
    weighted: f64,
    options: SolveOptions,
) -> Result<Option<f64>, OracleError> {
    let mut program = Problem::new(OptimizationDirection::Minimize);
    let columns = columns(snapshot, cells, &mut program, |_| 0.0)?;
    constrain(&columns, cells, &mut program);
    racks(&columns, &mut program, 1.0, true);
    let worth: Vec<(Variable, f64)> = columns
        .iter()
        .map(|column| {
            let job = column.job;
            (column.here, f64::from(job.weight * job.count * job.shape.count()))
        })
        .collect();
    program.add_constraint(&worth, ComparisonOp::Ge, weighted - 0.5);
    let outcome = solve(&program, options)?;
    Ok(outcome.solution().filter(|_| outcome.is_optimal()).map(|solution| solution.objective().round()))
}

fn solve(program: &Problem, options: SolveOptions) -> Result<microlp::SolveOutcome, OracleError> {
    program.solve_with(options).map_err(|problem| OracleError::Unsolved(problem.to_string()))
}

/// What is free for the jobs of the program: what nobody holds, and what those hold who may leave.
fn cells(snapshot: &Snapshot) -> Result<BTreeMap<CellId, Cell>, OracleError> {
    let mut free: BTreeMap<&str, u32> = snapshot
        .nodes
        .iter()
        .map(|node| {
            (node.name.as_str(), node.gpus.iter().filter(|gpu| gpu.free == WHOLE_GPU).map(|_| 1).sum())
        })
        .collect();
    for resident in snapshot.residents.iter().filter(|resident| resident.leave != Leave::Never) {
        if resident.since_checkpoint > 0 || resident.restore > 0 {
            return Err(OracleError::Job(resident.job.id.0));
        }
        for place in &resident.on {
            *free.entry(place.node.as_str()).or_default() += resident.job.shape.count();
        }
    }
    let mut cells: BTreeMap<CellId, Cell> = BTreeMap::new();
    for node in &snapshot.nodes {
        let free = free.get(node.name.as_str()).copied().unwrap_or_default();
        let cell = cells.entry(cell_of(node)).or_default();
        for ((slots, nodes), size) in cell.slots.iter_mut().zip(&mut cell.nodes).zip(SIZES) {
            *slots += free / size;
            *nodes += u32::from(free >= size);
        }
    }
    Ok(cells)
}

fn cell_of(node: &Node) -> CellId {
    let rack = node.domains.first().map_or_else(String::new, ToString::to_string);
    (rack, node.kind.model.to_string())
}

fn columns<'a>(
    snapshot: &'a Snapshot,
    cells: &BTreeMap<CellId, Cell>,
    program: &mut Problem,
    gain: impl Fn(&Job) -> f64,
) -> Result<Vec<Column<'a>>, OracleError> {
    let running = snapshot.residents.iter().filter(|resident| resident.leave != Leave::Never);
    let running = running.map(|resident| (&resident.job, resident.leave == Leave::Move));
    let waiting = snapshot.blocked.iter().map(|blocked| (&blocked.job, false));
    let mut columns = Vec::new();
    for (job, runs) in running.chain(waiting) {
        let strange = || OracleError::Job(job.id.0);
        let Ask::Whole { count: gpus, memory: 0 } = job.shape.gpus else { return Err(strange()) };
        let size = SIZES.iter().position(|size| *size == gpus).ok_or_else(strange)?;
        if job.widest > 1 || job.min_count != job.count || job.shape.cpu > 0 || job.shape.memory > 0 {
            return Err(strange());
        }
        let here = program.add_integer_var(gain(job), (i32::from(runs), 1));
        let fits = |(id, cell): (&CellId, &Cell)| {
            let slots = if job.apart.is_some() { &cell.nodes } else { &cell.slots };
            let most = slots.get(size).copied().unwrap_or_default().min(job.count);
            (job.shape.models.allows(&id.1) && most > 0).then(|| (id.clone(), most))
        };
        let fits: Vec<_> = cells.iter().filter_map(fits).collect();
        let tasks = fits
            .into_iter()
            .map(|(id, most)| {
                (id, program.add_integer_var(0.0, (0, i32::try_from(most).unwrap_or(i32::MAX))))
            })
            .collect();
        columns.push(Column { job, size, runs, here, tasks });
    }
    Ok(columns)
}

/// Gangs are whole, and nowhere is more than fits.
fn constrain(columns: &[Column<'_>], cells: &BTreeMap<CellId, Cell>, program: &mut Problem) {
    for column in columns {
        let mut whole: Vec<(Variable, f64)> = column.tasks.iter().map(|(_, tasks)| (*tasks, 1.0)).collect();
        whole.push((column.here, -f64::from(column.job.count)));
        program.add_constraint(&whole, ComparisonOp::Eq, 0.0);
        debug_assert!(!column.runs || !column.tasks.is_empty(), "who runs, runs somewhere");
    }
    for (id, cell) in cells {
        for (size, (slots, gpus)) in cell.slots.iter().zip(SIZES).enumerate() {
            let larger = columns.iter().filter(|column| column.size >= size);
            let takes: Vec<(Variable, f64)> = larger
                .flat_map(|column| {
                    let takes = f64::from(column.job.shape.count() / gpus);
                    column.tasks.iter().filter(|(cell, _)| cell == id).map(move |(_, tasks)| (*tasks, takes))
                })
                .collect();
            if !takes.is_empty() {
                program.add_constraint(&takes, ComparisonOp::Le, f64::from(*slots));
            }
        }
        // Where a task has a whole node, none of a gang that is apart is beside it.
        for apart in columns.iter().filter(|column| column.job.apart.is_some() && column.size < WHOLE_NODE) {
            let beside = columns.iter().filter(|column| column.size == WHOLE_NODE);
            let takes: Vec<(Variable, f64)> = beside
                .chain([apart])
                .flat_map(|column| column.tasks.iter().filter(|(cell, _)| cell == id))
                .map(|(_, tasks)| (*tasks, 1.0))
                .collect();
            if let Some(nodes) = cell.nodes.get(apart.size)
                && !takes.is_empty()
            {
                program.add_constraint(&takes, ComparisonOp::Le, f64::from(*nodes));
            }
        }
    }
}

/// In which racks gangs are: one, for those that have to be together; and for the others too if `all` are counted, at this cost each.
fn racks(columns: &[Column<'_>], program: &mut Problem, cost: f64, all: bool) {
    for column in columns.iter().filter(|column| all || column.job.widest == 1) {
        let racks: BTreeSet<&str> = column.tasks.iter().map(|((rack, _), _)| rack.as_str()).collect();
        let racks: BTreeMap<&str, Variable> =
            racks.into_iter().map(|rack| (rack, program.add_binary_var(cost))).collect();
        for (rack, used) in &racks {
            // No more tasks than the gang has are in a rack, and none in one that is not used.
            let mut here: Vec<(Variable, f64)> = column
                .tasks
                .iter()
                .filter(|((of, _), _)| of == rack)
                .map(|(_, tasks)| (*tasks, 1.0))
                .collect();
            here.push((*used, -f64::from(column.job.count)));
            program.add_constraint(&here, ComparisonOp::Le, 0.0);
        }
        let mut some: Vec<(Variable, f64)> = racks.values().map(|used| (*used, 1.0)).collect();
        some.push((column.here, -1.0));
        let comparison = if column.job.widest == 1 { ComparisonOp::Eq } else { ComparisonOp::Ge };
        program.add_constraint(&some, comparison, 0.0);
    }
}
