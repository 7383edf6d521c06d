//! What there is at a moment.

/// With how many GPUs a job can do, between the least and all that it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    /// With any number.
    Any,
    /// With multiples of this: whole nodes.
    Multiples(i64),
    /// With powers of two.
    PowersOfTwo,
}

impl Grid {
    /// The greatest number on the grid that is not above `free`.
    pub fn floor(self, free: i64) -> i64 {
        match self {
            _ if free <= 0 => 0,
            Self::Any => free,
            Self::Multiples(of) => free - free % of.max(1),
            Self::PowersOfTwo => 1 << free.ilog2(),
        }
    }
}

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has never run.
    Fresh,
    /// It was stopped, and restores its state before it goes on.
    Stopped,
    /// It holds capacity, for so many milliseconds more to restore its state and then to work.
    On {
        /// How much it holds.
        held: i64,
        /// How long it still restores.
        restoring: i64,
    },
    /// It holds capacity for so many milliseconds more to save its state.
    Saving {
        /// How much it holds.
        held: i64,
        /// How long it still saves.
        saving: i64,
    },
}

/// A job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// The capacity that it asks for.
    pub width: i64,
    /// With how much it can do, more slowly in proportion; `width` if it is rigid.
    pub least: i64,
    /// The work that it has left, in capacity times milliseconds; known, declared or predicted.
    pub work: i64,
    /// What it does.
    pub standing: Standing,
    /// Whether it may be stopped, if it runs. Whoever asks again and again should say no for one that was started a
    /// short while ago: else two jobs could stop each other for ever and pay for nothing else.
    pub may_stop: bool,
}

impl Task {
    /// Whether it runs on as much as it asks for or not at all.
    pub fn is_rigid(&self) -> bool {
        self.least >= self.width
    }

    /// Whether it could be stopped now.
    pub fn can_stop(&self) -> bool {
        self.may_stop && matches!(self.standing, Standing::On { .. })
    }
}

/// What changing one's mind costs, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// For so long a stopped job holds its capacity to save its state.
    pub save: i64,
    /// For so long it holds its capacity to restore it.
    pub restore: i64,
    /// What a resized job loses, as time on all that it asks for.
    pub resize: i64,
}

/// What there is at a moment, which is 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// All the capacity.
    pub capacity: i64,
    /// What jobs that can do with less may be given.
    pub grid: Grid,
    /// What changing one's mind costs.
    pub costs: Costs,
    /// The jobs, in the order of their arrival.
    pub tasks: Vec<Task>,
}
