//! The scheduler of WhaleZEN: state in, plan out.
//!
//! ```text
//! State::tell  ->  State::settle  ->  plan(&State, now, &Policy)  ->  Plan
//!                       ^                                              |
//!                       +------ follow / assume / confirm / forget ----+
//! ```
//!
//! Nothing here waits, reads a clock, or talks to an API server: [`plan`](plan::plan) is a function of its
//! arguments and gives the same answer for the same input. What is speculative lives in one place, the
//! *assumption* ([`State::assume`](state::State::assume)): an outcome that [`State`](state::State) believes
//! before the API server has confirmed it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | the identities of things |
//! | [`quantity`] | amounts of resources, their parser and their canonical text |
//! | [`labels`] | label sets, selectors, node affinity |
//! | [`flavor`] | `ResourceFlavors`, taints and tolerations |
//! | [`topology`] | how nodes stand together, and where pods are placed on them |
//! | [`placement`] | GPUs, fragments, scores: the best node for a task, the lowest level for a gang |
//! | [`mig`] | MIG instances for workloads: which node, which GPU, where on it |
//! | [`cells`] | quota that is kept together, so that a gang that fits into it can always start |
//! | [`workload`] | workloads, their pod sets, their admission |
//! | [`queue`] | ClusterQueues, LocalQueues and cohorts as people declare them |
//! | [`consumption`] | what LocalQueues consumed lately |
//! | [`forest`] | the tree of quota with what is used |
//! | [`overlay`] | what a plan believes about usage while it is made |
//! | [`predict`] | how long jobs will run, from those that ran before |
//! | [`preempt`] | whom a workload may preempt |
//! | [`backfill`] | who may go before somebody that waits, without making it wait longer |
//! | [`brakes`] | what keeps it from that |
//! | [`assign`] | which flavors a workload would get |
//! | [`pending`] | who waits in one ClusterQueue, and in what order |
//! | [`verdict`] | why something waits, in words and as data |
//! | [`sequence`] | in what order jobs run, and who is worth stopping |
//! | [`state`] | all of the above, fed by events |
//! | [`plan`] | the decision |

pub mod assign;
pub mod backfill;
pub mod brakes;
pub mod cells;
pub mod consumption;
pub mod flavor;
pub mod forest;
pub mod labels;
pub mod mig;
pub mod name;
pub mod overlay;
pub mod pending;
pub mod placement;
pub mod plan;
pub mod predict;
pub mod preempt;
pub mod quantity;
pub mod queue;
pub mod sequence;
pub mod state;
pub mod testing;
pub mod topology;
pub mod verdict;
pub mod workload;
