//! Tables for people, and the same numbers for programs.

use std::{fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, presets};

use crate::figures::Measured;

/// A table whose first column is names and whose others are numbers.
#[derive(Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    /// With these columns.
    pub fn new<const N: usize>(columns: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(columns);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Self(table)
    }

    /// One more row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// Writes measured numbers as a JSON list.
pub fn write_measured(file: &Path, measured: &[Measured]) -> Result<()> {
    let text = serde_json::to_string_pretty(measured)? + "\n";
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}
