//! The files of the openb trace.
//!
//! Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Tasks: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and then, in most files,
//! `gpu_spec` (`MODEL` or `MODEL|MODEL`) and columns that are not used here. Columns are found by their names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use whalezen_core::placement::{Ask, GpuKind, Models, Node, Part, Shape};

/// A node of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceNode {
    /// Its name.
    pub name: String,
    /// CPU, in thousandths.
    pub cpu: u32,
    /// Memory, in MiB.
    pub memory: u32,
    /// How many GPUs.
    pub gpus: u32,
    /// Their model.
    pub model: String,
}

impl TraceNode {
    /// It, with nothing on it.
    pub fn idle(&self) -> Node {
        let kind = GpuKind { model: self.model.as_str().into(), memory: 0 };
        Node::idle(&self.name, kind, usize::try_from(self.gpus).unwrap_or_default(), self.cpu, self.memory)
    }
}

/// A task of the trace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Task {
    /// CPU, in thousandths.
    pub cpu: u32,
    /// Memory, in MiB.
    pub memory: u32,
    /// How many GPUs.
    pub gpus: u32,
    /// How much of each, in thousandths; 0 without GPUs.
    pub milli: u32,
    /// The models that will do, as they are written; empty for any.
    pub spec: String,
}

impl Task {
    /// How much GPU it asks for, in thousandths.
    pub fn total(&self) -> u32 {
        self.gpus * self.milli
    }

    /// Whether it takes a part of one GPU.
    pub fn is_shared(&self) -> bool {
        self.gpus == 1 && self.milli < 1000
    }

    /// The models that will do.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.spec.split('|').filter(|model| !model.is_empty())
    }

    /// As a shape of the core.
    pub fn shape(&self) -> Shape {
        let gpus = match self.gpus {
            0 => Ask::Nothing,
            1 if self.milli < 1000 => Ask::Part(Part::Milli(self.milli)),
            count => Ask::Whole { count, memory: 0 },
        };
        Shape::new(self.cpu, self.memory, gpus).on(Models::any_of(self.models()))
    }
}

/// The files of one trace.
#[derive(Clone, Debug)]
pub struct Trace {
    folder: PathBuf,
}

/// The mixes of tasks that figures are published for, as their files are called after `openb_pod_list_`.
pub const MIXES: [&str; 17] = [
    "default",
    "cpu050",
    "cpu100",
    "cpu200",
    "cpu250",
    "gpushare40",
    "gpushare60",
    "gpushare80",
    "gpushare100",
    "gpuspec10",
    "gpuspec20",
    "gpuspec25",
    "gpuspec33",
    "multigpu20",
    "multigpu30",
    "multigpu40",
    "multigpu50",
];

impl Trace {
    /// The trace in a folder of traces; `None` if it is not there.
    pub fn find(traces: &Path) -> Option<Self> {
        let folder = traces.join("fgd-openb");
        let trace = Self { folder };
        trace.node_file().is_file().then_some(trace)
    }

    fn node_file(&self) -> PathBuf {
        self.folder.join("openb_node_list_gpu_node.csv")
    }

    /// The nodes with GPUs.
    pub fn nodes(&self) -> Result<Vec<TraceNode>> {
        let path = self.node_file();
        read(&path, nodes)
    }

    /// The tasks of a mix.
    pub fn tasks(&self, mix: &str) -> Result<Vec<Task>> {
        read(&self.folder.join(format!("openb_pod_list_{mix}.csv")), tasks)
    }
}

fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not as the openb trace is", path.display()))
}

/// Reads a list of nodes.
pub fn nodes(text: &str) -> Result<Vec<TraceNode>> {
    rows(text, ["sn", "cpu_milli", "memory_mib", "gpu", "model"], |[name, cpu, memory, gpus, model]| {
        let node = TraceNode {
            name: name.to_owned(),
            cpu: number(cpu, LARGEST)?,
            memory: number(memory, LARGEST)?,
            gpus: number(gpus, 64)?,
            model: model.to_owned(),
        };
        Ok(node)
    })
}

/// Reads a list of tasks.
pub fn tasks(text: &str) -> Result<Vec<Task>> {
    rows(
        text,
        ["cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec?"],
        |[cpu, memory, gpus, milli, spec]| {
            let (gpus, milli) = (number(gpus, 64)?, number(milli, 1000)?);
            if gpus > 0 && milli == 0 || gpus > 1 && milli != 1000 {
                bail!("{gpus} GPUs with {milli} thousandths of each is nothing that is asked for");
            }
            let milli = if gpus == 0 { 0 } else { milli };
            Ok(Task {
                cpu: number(cpu, LARGEST)?,
                memory: number(memory, LARGEST)?,
                gpus,
                milli,
                spec: spec.to_owned(),
            })
        },
    )
}

/// More of anything is on no node.
const LARGEST: u32 = 1 << 30;

fn number(text: &str, most: u32) -> Result<u32> {
    let number: u32 = text.parse().with_context(|| format!("{text:?} is no number"))?;
    if number > most {
        bail!("{number} is more than {most}");
    }
    Ok(number)
}

/// Reads the columns of these names from each row; those that end in `?` may be missing.
fn rows<T, const N: usize>(
    text: &str,
    names: [&str; N],
    parse: impl Fn([&str; N]) -> Result<T>,
) -> Result<Vec<T>> {
    let mut lines = text.lines();
    let header: Vec<_> = lines.next().unwrap_or_default().split(',').collect();
    let mut columns = [None; N];
    for (column, name) in columns.iter_mut().zip(names) {
        *column = header.iter().position(|title| *title == name.trim_end_matches('?'));
        if column.is_none() && !name.ends_with('?') {
            bail!("there is no column {name}");
        }
    }
    let mut rows = Vec::new();
    for (line, number) in lines.zip(2..).filter(|(line, _)| !line.is_empty()) {
        let fields: Vec<_> = line.split(',').collect();
        if fields.len() != header.len() {
            bail!("line {number} has {} fields and not {}", fields.len(), header.len());
        }
        let field =
            |column: Option<usize>| column.and_then(|column| fields.get(column).copied()).unwrap_or_default();
        rows.push(parse(columns.map(field)).with_context(|| format!("line {number}"))?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_file_are_read() {
        let wide = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\na,4000,1024,1,460,V100M16|V100M32,LS\n\nb,1,2,0,0,,BE\n";
        let tasks = tasks(wide).unwrap();
        assert_eq!(tasks[0].models().collect::<Vec<_>>(), ["V100M16", "V100M32"]);
        assert_eq!(tasks[0].shape().gpus, Ask::Part(Part::Milli(460)));
        assert_eq!(tasks[1].shape().gpus, Ask::Nothing);
        let narrow =
            super::tasks("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,1024,8,1000\n").unwrap();
        assert_eq!(narrow[0].shape().gpus, Ask::Whole { count: 8, memory: 0 });
        let nodes = nodes("sn,cpu_milli,memory_mib,gpu,model\nn,96000,393216,8,G2\n").unwrap();
        assert_eq!(nodes[0].idle().free_gpu(), 8000);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let problem = |text: &str| format!("{:#}", tasks(text).unwrap_err());
        assert!(problem("").contains("cpu_milli"));
        let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
        assert!(problem(&format!("{header}a,1,2,0,0\nb,1,2,0\n")).contains("line 3"));
        assert!(problem(&format!("{header}a,-1,2,0,0\n")).contains("line 2"));
        assert!(problem(&format!("{header}a,1,2,2,500\n")).contains("2 GPUs with 500"));
        assert!(problem(&format!("{header}a,1,2,99,1000\n")).contains("more than 64"));
        assert!(problem(&format!("{header}a,9999999999,2,1,1000\n")).contains("line 2"));
    }
}
