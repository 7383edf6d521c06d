//! The mock's machine on the command line: shows it, and does to it what tests want.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use whalezen_mock_nvml::{
    config::VARIABLE,
    control::{self, Control},
    machine::{client::Place, fault::Fault, load::Load},
    refusal::Refusal,
    wave::Wave,
};

/// Shows and changes the machine whose GPUs the mock of NVML shows.
#[derive(Parser)]
#[command(name = "whalezen-mock-gpu", version, arg_required_else_help = true)]
struct Cli {
    /// The TOML file that says what the machine is.
    #[arg(long, env = VARIABLE, global = true, hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List GPUs, their MIG devices and who uses them.
    List,
    /// List GPU instances with ids and placements.
    Instances,
    /// Let a process use a GPU or an instance until it ends.
    Attach {
        /// The process.
        pid: u32,
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        load: Work,
    },
    /// End what a process does: on one GPU or instance, or on all.
    Detach {
        /// The process.
        pid: u32,
        /// Index of the GPU.
        #[arg(long)]
        gpu: Option<usize>,
        /// The instance, as GI or GI:CI.
        #[arg(long, requires = "gpu", value_parser = place)]
        instance: Option<Place>,
    },
    /// Set how busy a GPU is beside the processes that use it.
    Load {
        /// Index of the GPU.
        #[arg(long)]
        gpu: usize,
        #[command(flatten)]
        load: Work,
    },
    /// Let calls fail or hang.
    Fault {
        /// The function's name, or the beginning of it and `*`.
        function: String,
        /// For calls for that GPU only.
        #[arg(long)]
        gpu: Option<usize>,
        /// How many calls pass before.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// How many calls it befalls; all without it.
        #[arg(long)]
        times: Option<u64>,
        /// What is answered, such as `IN_USE` or `GPU_IS_LOST`.
        #[arg(long, value_parser = refusal)]
        returns: Option<Refusal>,
        /// How long the call hangs before.
        #[arg(long, default_value_t = 0)]
        hang_ms: u64,
    },
    /// Let no call fail or hang any more.
    Heal,
    /// Let an Xid error befall a GPU; 79 takes it off the bus.
    Xid {
        /// Its number.
        code: u64,
        #[command(flatten)]
        at: At,
    },
    /// Let memory errors that are corrected befall a GPU.
    Ecc {
        /// Index of the GPU.
        #[arg(long)]
        gpu: usize,
        /// How many.
        #[arg(default_value_t = 1)]
        errors: u64,
    },
    /// Reset a GPU that nobody uses: its layout goes, and a pending MIG mode is in force.
    Reset {
        /// Index of the GPU.
        #[arg(long)]
        gpu: usize,
    },
    /// Start the machine anew: layouts and clients go.
    Reboot,
    /// Make a link `libnvidia-ml.so.1` to the library in a folder, for `LD_LIBRARY_PATH`.
    Install {
        /// The folder.
        folder: PathBuf,
    },
}

#[derive(Args)]
struct At {
    /// Index of the GPU.
    #[arg(long)]
    gpu: usize,
    /// The instance, as GI or GI:CI.
    #[arg(long, value_parser = place)]
    instance: Option<Place>,
}

/// How busy something is, all the time.
#[derive(Args)]
struct Work {
    /// Percent of the time that multiprocessors work.
    #[arg(long, default_value_t = 0)]
    utilization: u64,
    /// Percent of the memory's bandwidth.
    #[arg(long, default_value_t = 0)]
    memory_bandwidth: u64,
    /// Memory taken in MiB.
    #[arg(long, default_value_t = 0)]
    memory_mib: u64,
    /// KiB/s sent over PCIe.
    #[arg(long, default_value_t = 0)]
    pcie_tx_kib: u64,
    /// KiB/s received over PCIe.
    #[arg(long, default_value_t = 0)]
    pcie_rx_kib: u64,
    /// KiB/s sent over NVLink.
    #[arg(long, default_value_t = 0)]
    nvlink_tx_kib: u64,
    /// KiB/s received over NVLink.
    #[arg(long, default_value_t = 0)]
    nvlink_rx_kib: u64,
}

impl From<Work> for Load {
    fn from(work: Work) -> Self {
        Self {
            utilization: Wave::Steady(work.utilization),
            memory_bandwidth: Wave::Steady(work.memory_bandwidth),
            memory_mib: Wave::Steady(work.memory_mib),
            pcie_tx_kib: Wave::Steady(work.pcie_tx_kib),
            pcie_rx_kib: Wave::Steady(work.pcie_rx_kib),
            nvlink_tx_kib: Wave::Steady(work.nvlink_tx_kib),
            nvlink_rx_kib: Wave::Steady(work.nvlink_rx_kib),
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    if let Command::Install { folder } = &cli.command {
        return install(folder);
    }
    let config =
        cli.config.with_context(|| format!("{VARIABLE} or --config must name the machine's file"))?;
    let control = Control::open(&config)?;
    match cli.command {
        Command::List => print!("{}", control::show::devices(&*control.machine()?, control.now())?),
        Command::Instances => print!("{}", control::show::instances(&*control.machine()?)?),
        Command::Attach { pid, at, load } => control.attach(pid, at.gpu, at.instance, load.into())?,
        Command::Detach { pid, gpu, instance } => {
            if !control.detach(pid, gpu, instance)? {
                println!("process {pid} used nothing there");
            }
        }
        Command::Load { gpu, load } => control.set_load(gpu, load.into())?,
        Command::Fault { function, gpu, after, times, returns, hang_ms } => {
            control.inject(Fault { function, gpu, after, times, returns, hang_ms, seen: 0 })?;
        }
        Command::Heal => println!("{} faults taken back", control.heal()?),
        Command::Xid { code, at } => control.befall(at.gpu, code, at.instance)?,
        Command::Ecc { gpu, errors } => control.correct(gpu, errors)?,
        Command::Reset { gpu } => control.reset(gpu)?,
        Command::Reboot => control.reboot()?,
        Command::Install { .. } => {}
    }
    Ok(())
}

fn install(folder: &PathBuf) -> Result<()> {
    let library = control::library().context("the library is not beside this program: build it first")?;
    let link = folder.join("libnvidia-ml.so.1");
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    match std::fs::remove_file(&link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| link.display().to_string());
        }
        _ => {}
    }
    std::os::unix::fs::symlink(&library, &link).with_context(|| link.display().to_string())
}

fn place(text: &str) -> Result<Place, String> {
    let (gi, ci) = text.split_once(':').unwrap_or((text, "0"));
    let number =
        |text: &str| text.parse().map_err(|_| format!("{text:?} is no id; an instance is GI or GI:CI"));
    Ok(Place { gi: number(gi)?, ci: number(ci)? })
}

fn refusal(text: &str) -> Result<Refusal, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
