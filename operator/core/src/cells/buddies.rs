//! Cells that are split into equal parts and joined again: buddies.

use std::{collections::BTreeSet, ops::Range};

/// A cell: the so-manyth of its level. Level 0 is one GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell {
    /// Its level.
    pub level: usize,
    /// Its number among all that there could be of that level.
    pub number: u32,
}

/// Which cells are free. A cell is in the set of its level if it is free and its parent is not free as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buddies {
    /// How many cells of a level make up one of the next.
    fan: Vec<u32>,
    free: Vec<BTreeSet<u32>>,
    /// Of each level, which cells are parts of nothing larger.
    tops: Vec<Range<u32>>,
}

impl Buddies {
    /// So many whole cells of these levels, the highest first.
    pub fn new(fan: &[u32], whole: &[(usize, u32)]) -> Self {
        let mut tops = vec![0..0; fan.len() + 1];
        let mut gpus = 0;
        let size = |level: usize| fan.iter().take(level).product::<u32>().max(1);
        for (level, count) in whole {
            if let Some(top) = tops.get_mut(*level) {
                let first = gpus / size(*level);
                *top = first..first + count;
                gpus += count * size(*level);
            }
        }
        Self { free: tops.iter().map(|top| top.clone().collect()).collect(), fan: fan.to_vec(), tops }
    }

    /// How many GPUs a cell of a level has.
    pub fn size(&self, level: usize) -> u32 {
        self.fan.iter().take(level).product::<u32>().max(1)
    }

    /// The GPUs of a cell, by number.
    pub fn leaves(&self, cell: Cell) -> Range<u32> {
        let size = self.size(cell.level);
        cell.number * size..(cell.number + 1) * size
    }

    /// The cell that this is a part of and that is a part of nothing.
    pub fn top_of(&self, mut cell: Cell) -> Cell {
        while !self.is_top(cell)
            && let Some(parent) = self.parent(cell)
        {
            cell = parent;
        }
        cell
    }

    fn is_top(&self, cell: Cell) -> bool {
        self.tops.get(cell.level).is_some_and(|tops| tops.contains(&cell.number))
    }

    fn parent(&self, cell: Cell) -> Option<Cell> {
        let fan = self.fan.get(cell.level)?;
        Some(Cell { level: cell.level + 1, number: cell.number / fan })
    }

    /// Whether all of a cell is free, and it was not split.
    pub fn is_free(&self, cell: Cell) -> bool {
        self.free.get(cell.level).is_some_and(|free| free.contains(&cell.number))
    }

    /// Takes a cell of a level; the first of the smallest that will do is split for it.
    pub fn take(&mut self, level: usize) -> Option<Cell> {
        self.take_by(level, |_, _| 0)
    }

    /// Takes a cell of a level, of equal ones that which costs least.
    pub fn take_by(&mut self, level: usize, cost: impl Fn(Cell, &Self) -> usize) -> Option<Cell> {
        let from = (level..self.free.len())
            .find(|level| self.free.get(*level).is_some_and(|free| !free.is_empty()))?;
        let cheapest = |buddies: &Self, level: usize, numbers: &mut dyn Iterator<Item = u32>| {
            numbers.min_by_key(|number| (cost(Cell { level, number: *number }, buddies), *number))
        };
        let mut number = cheapest(self, from, &mut self.free.get(from)?.iter().copied())?;
        self.free.get_mut(from)?.remove(&number);
        for below in (level..from).rev() {
            let fan = *self.fan.get(below)?;
            let parts = number * fan..(number + 1) * fan;
            number = cheapest(self, below, &mut parts.clone())?;
            self.free.get_mut(below)?.extend(parts.filter(|part| *part != number));
        }
        Some(Cell { level, number })
    }

    /// Takes one cell of each of these levels, or none.
    pub fn take_all(&mut self, levels: &[usize]) -> Option<Vec<Cell>> {
        let mut cells = Vec::new();
        for level in levels {
            let Some(cell) = self.take(*level) else {
                for cell in cells {
                    self.give(cell);
                }
                return None;
            };
            cells.push(cell);
        }
        Some(cells)
    }

    /// Gives back what was taken.
    pub fn give(&mut self, cell: Cell) {
        let Some(free) = self.free.get_mut(cell.level) else { return };
        free.insert(cell.number);
        if self.is_top(cell) {
            return;
        }
        let (Some(parent), Some(fan)) = (self.parent(cell), self.fan.get(cell.level)) else { return };
        let parts = parent.number * fan..(parent.number + 1) * fan;
        let Some(free) = self.free.get_mut(cell.level) else { return };
        if parts.clone().all(|part| free.contains(&part)) {
            for part in parts {
                free.remove(&part);
            }
            self.give(parent);
        }
    }
}
