//! The command line of `loligo lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};

use crate::flags;

/// Run performance studies on Loligo and on real Ceph, and report them with statistics that can be trusted.
#[derive(Args, Debug)]
#[command(after_help = "\
First steps:
  loligo lab run studies/2013-sweep-short.yaml --dry-run   print every trial; start nothing
  loligo lab run studies/2013-sweep-short.yaml             run it, or go on with it
  loligo lab report results/2013-sweep-short               one HTML file with charts
The study files are in the directory studies of the sources; docs/studies.md describes them.

Exit codes: 0 all went well; 1 something could not be done, or trials failed (the report is there all the \
same); 2 wrong usage; 130 stopped by Ctrl-C or SIGTERM (the same command goes on).")]
pub struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabCommand {
    /// Run a study, or go on with it.
    Run(RunArgs),
    /// Make the report of a results directory.
    Report(ReportArgs),
    /// Compare two results directories.
    Compare(CompareArgs),
    /// Find where results changed over several runs.
    History(HistoryArgs),
    /// Write a results directory as CSV, or its systems as a Markdown table.
    Export(ExportArgs),
    /// A modelled device: serve it as a file for a loop device, or print the model's own figures.
    Device(DeviceArgs),
}

/// What to run, where.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The study file.
    pub(crate) study: PathBuf,
    /// Where results go; a directory that holds some of this study is gone on with [results/NAME, by the
    /// study's name].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Where clusters live while they run; needs the space that the study's devices take [OUT/work].
    #[arg(long)]
    pub(crate) work: Option<PathBuf>,
    /// Print every trial and its ceph.conf; start nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Run only these systems of the study.
    #[arg(long = "system", value_name = "NAME")]
    pub(crate) systems: Vec<String>,
    /// Run only these workloads of the study.
    #[arg(long = "workload", value_name = "NAME")]
    pub(crate) workloads: Vec<String>,
    /// Blocks, in place of the study's.
    #[arg(long, value_parser = value_parser!(u32).range(1..=i64::from(study::MAX_BLOCKS)))]
    pub(crate) blocks: Option<u32>,
    /// A raw device that may be overwritten.
    #[arg(long = "overwrite-device", value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,
    /// Run one more trial of the default (or of every variant) on each system under each workload, profiled: flame
    /// graphs and seek plots. It is no sample.
    #[arg(long, value_name = "default|all", num_args = 0..=1, default_missing_value = "default", require_equals = true)]
    pub(crate) profile: Option<ProfileArg>,
    /// ssh's configuration for client hosts [the user's own].
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// Run failed trials again; by default a failed trial is done.
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Keep the logs of every trial, not only of failed ones.
    #[arg(long)]
    pub(crate) keep_logs: bool,
}

/// Which cells are profiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum ProfileArg {
    /// The default's.
    Default,
    /// Every variant's.
    All,
}

/// What to report.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// A results directory.
    pub(crate) results: PathBuf,
    /// The directory that gets report.html, and charts as SVG and PNG [RESULTS].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Judge by the 2013 article's rule instead (labelled so).
    #[arg(long)]
    pub(crate) one_sigma: bool,
}

/// What to compare.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// The results that count as 1.
    pub(crate) a: PathBuf,
    /// The results that are held against them.
    pub(crate) b: PathBuf,
    /// The smallest effect that is coloured, as a share.
    #[arg(long, default_value_t = 0.05, value_parser = flags::share, allow_negative_numbers = true)]
    pub(crate) effect: f64,
}

/// What to look through.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Results directories, in any order.
    #[arg(required = true)]
    pub(crate) results: Vec<PathBuf>,
    /// A directory for a chart of each configuration, as SVG and PNG.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// What to export.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A results directory.
    #[arg(required_unless_present = "columns")]
    pub(crate) results: Option<PathBuf>,
    /// The CSV file [standard output].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Print what each column means instead.
    #[arg(long)]
    pub(crate) columns: bool,
    /// Write the systems side by side as a Markdown table instead.
    #[arg(long, conflicts_with = "columns")]
    pub(crate) markdown: bool,
}

/// Which device, and what is wanted of it.
#[derive(Args, Debug)]
pub(crate) struct DeviceArgs {
    /// disk-7200, ssd or raid0-of-N, each also with -write-back; `none`, which has no figures, takes the same time for
    /// everything (time_us, 0).
    #[arg(long, required_unless_present = "overhead")]
    pub(crate) model: Option<String>,
    /// Parameters that differ from the model's data sheet, as a=b,c=d.
    #[arg(long, default_value = "")]
    pub(crate) parameters: String,
    /// Bytes of the device, as 80G.
    #[arg(long, default_value = "80G", value_parser = flags::device_size)]
    pub(crate) size: u64,
    /// The sparse file that holds its bytes; made if it isn't there.
    #[arg(long, requires = "mount")]
    pub(crate) backing: Option<PathBuf>,
    /// The file that is the device until it is unmounted; made if it isn't there.
    #[arg(long, requires = "backing")]
    pub(crate) mount: Option<PathBuf>,
    /// Microseconds that a request takes through the kernel besides, and that the model's time is shortened by.
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(..=flags::HOUR_US))]
    pub(crate) overhead_us: u64,
    /// The same of a flush.
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(..=flags::HOUR_US))]
    pub(crate) flush_overhead_us: u64,
    /// The same of each MiB that is read or written, besides.
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u64).range(..=flags::HOUR_US))]
    pub(crate) mib_overhead_us: u64,
    /// Print what the model itself gives for the standard patterns, and its parameters.
    #[arg(long, conflicts_with = "mount", group = "prints")]
    pub(crate) figures: bool,
    /// Measure what a request takes through the kernel on this machine, and print it as the options above; needs root.
    #[arg(long, conflicts_with_all = ["model", "backing", "mount"], group = "prints")]
    pub(crate) overhead: bool,
    /// With --figures or --overhead: as JSON.
    #[arg(long, requires = "prints")]
    pub(crate) json: bool,
    /// With --figures: seconds before anything counts.
    #[arg(long, requires = "figures", default_value_t = 2, value_parser = value_parser!(u64).range(..=flags::DAY_S))]
    pub(crate) warm_up_s: u64,
    /// With --figures: seconds that count, of the model's time.
    #[arg(long, requires = "figures", default_value_t = 10, value_parser = value_parser!(u64).range(1..=flags::DAY_S))]
    pub(crate) time_s: u64,
    /// With --figures: only the first so many bytes of the device are used, as 8G.
    #[arg(long, requires = "figures", value_parser = flags::device_size)]
    pub(crate) span: Option<u64>,
    /// With --figures: microseconds that the program takes between a completion and its next request.
    #[arg(long, requires = "figures", default_value_t = 0, value_parser = value_parser!(u64).range(..=flags::HOUR_US))]
    pub(crate) think_us: u64,
}
