//! `loligo up`: starts the cluster, says how to reach it, and serves until a signal.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use host::{Cluster, HostError, OSD_SIZE_MIN, OsdState, StartProgress, StoreKind, UpRequest, default};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use text::format_bytes;
use types::OsdId;

use crate::{DEFAULT_DIR, ask, detach, fail, huge_pages, log, memory, panics};

/// Seconds in which every OSD must be up.
const READY: Duration = Duration::from_secs(30);

/// When a start that is not done says what it waits for, and how often from then on.
const TOLD_AFTER: Duration = Duration::from_secs(5);
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How often signals are looked for.
const WATCH: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
#[command(
    // The usage stands below every wrong argument, so it is short.
    override_usage = "loligo up [DIR] [OPTIONS]",
    after_help = "\
DIR keeps the cluster: the same command starts it again, with its data unless the store is mem. To have a second cluster beside a \
running one, name another DIR and add --port 0. To remove a cluster, stop it and remove DIR.

Exit code with --detach: 0 when OSDs serve (the output names those that failed), 4 when the monitor serves alone because every OSD failed, \
1 when nothing was started. Without --detach: 0 when the cluster was stopped, 1 after a failure."
)]
pub struct Args {
    #[arg(help = dir_help(), value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// The same as DIR.
    #[arg(long = "dir", value_name = "DIR", conflicts_with = "dir", value_hint = clap::ValueHint::DirPath)]
    named_dir: Option<PathBuf>,
    #[arg(long, help = format!("How many OSDs [default: {}, or as many as DIR has]", default::OSDS), value_parser = clap::value_parser!(u32).range(1..=64))]
    osds: Option<u32>,
    #[arg(long, help = store_help(), value_parser = parse_store)]
    store: Option<StoreKind>,
    #[arg(long, help = size_help(), value_parser = parse_size)]
    osd_size: Option<u64>,
    /// A block device for each OSD's store, whole, in place of image files: the first for osd.0 and so on.
    #[arg(long = "device", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    devices: Vec<PathBuf>,
    /// A block device or a file for the log of each OSD's block store, apart from its data: the first for osd.0 and so on. A
    /// commit waits for it; small writes wait for nothing else. A file is made, as large as the log needs.
    #[arg(long = "log-device", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    log_devices: Vec<PathBuf>,
    /// A --device or --log-device whose contents may be overwritten; without it one that holds data is refused.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    overwrite: Vec<PathBuf>,
    /// Write the image files of the store `block` whole when they are made, and let them keep that: for measurements.
    #[arg(long)]
    preallocate: bool,
    #[arg(long, help = mon_addr_help())]
    mon_addr: Option<SocketAddr>,
    /// The monitor's port; the OSDs, and the monitor as a manager, take free ones after it. 0 takes any free ports. Later starts of DIR take the same
    /// ports again.
    #[arg(long)]
    port: Option<u16>,
    /// Threads to serve with. With the stores mem and block one OSD can use several: a block store is made with a shard for
    /// each, and later starts use no more. With simple each thread serves whole OSDs [default: the machine's cores, at most
    /// one an OSD].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    cores: Option<u32>,
    /// Set an option, as --set osd_max_object_size=64M; `loligo options` lists them.
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = parse_setting)]
    settings: Vec<(String, String)>,
    /// Go to the background once the cluster is ready.
    #[arg(long)]
    detach: bool,
    /// Allow a non-loopback address even though authentication is off.
    #[arg(long)]
    insecure_bind: bool,
    /// Serve metrics for Prometheus at http://ADDR/metrics, under the names of Ceph's exporters.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
}

fn dir_help() -> String {
    format!("Where the cluster lives; made if it isn't there [default: {DEFAULT_DIR}]")
}

fn store_help() -> String {
    format!(
        "The OSDs' store: `block` and `simple` are durable, `block` is the faster one; `mem` keeps nothing [default: {}, or \
         what DIR has]",
        default::STORE.as_str()
    )
}

fn size_help() -> String {
    // As it is typed.
    let size = |bytes| format_bytes(bytes).replace(' ', "");
    format!(
        "Size of each OSD's store, as {}; at least {}. The disk is taken as data comes, and given back when it is deleted. \
         `loligo store expand` makes a block store larger later [default: {}]",
        size(default::OSD_SIZE),
        size(OSD_SIZE_MIN),
        size(default::OSD_SIZE)
    )
}

fn mon_addr_help() -> String {
    format!(
        "The monitor's address; port 0 takes a free one [default: {}, or what DIR had]",
        default::MON_ADDR
    )
}

fn parse_store(text: &str) -> Result<StoreKind, String> {
    StoreKind::named(text).ok_or_else(|| "the stores are 'simple', 'block' and 'mem'".into())
}

fn parse_size(text: &str) -> Result<u64, String> {
    text::parse_size(text).filter(|&n| n > 0).ok_or_else(|| "give bytes, as 10GiB or 512M".into())
}

/// Paths that mean the same from everywhere: the directory keeps them.
pub fn absolute(paths: &[PathBuf]) -> Vec<PathBuf> {
    let of = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    paths.iter().map(of).collect()
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give OPTION=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    fn request(&self) -> UpRequest {
        UpRequest {
            dir: self.dir.as_ref().or(self.named_dir.as_ref()).cloned().unwrap_or_else(|| DEFAULT_DIR.into()),
            osds: self.osds,
            store: self.store,
            osd_size: self.osd_size,
            devices: absolute(&self.devices),
            log_devices: absolute(&self.log_devices),
            overwrite: absolute(&self.overwrite),
            preallocate: self.preallocate,
            mon_addr: self.mon_addr,
            port: self.port,
            cores: self.cores,
            settings: self.settings.clone(),
            insecure_bind: self.insecure_bind,
            metrics: self.metrics,
            progress: StartProgress::default(),
        }
    }
}

pub fn run(args: Args) -> ExitCode {
    if args.detach {
        return detach::run();
    }
    log::init(&args.settings);
    panics::end_the_process();
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn serve(args: &Args) -> Result<(), HostError> {
    let began = Instant::now();
    // Before anything is started: a signal that comes early must still end it cleanly.
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| HostError::Io { path: "signals".into(), error })?;
    host::on_memory_bound(memory::give_back);
    let request = args.request();
    let told = tell_of_waits(request.progress.clone());
    let mut cluster = Cluster::start(request)?.ready(READY)?;
    drop(told);
    // In memory alone there are no checkpoints, and searches find their way through huge pages sooner.
    if cluster.info().store.is_durable() {
        let left = memory::use_small_pages();
        let info = cluster.info();
        huge_pages::use_for_payload(left, info.memory_target.saturating_mul(u64::from(info.osds)));
    }
    announce(&cluster, began.elapsed());
    detach::say_ready(serves(&cluster.osds()));
    let failure = loop {
        if asked_to_stop(&mut signals) {
            break None;
        }
        if let Some(failure) = cluster.serve(WATCH) {
            tracing::error!("{failure}");
            break Some(failure);
        }
    };
    tracing::info!("stopping ({})", if failure.is_none() { "asked to" } else { "after a failure" });
    cluster.stop()?;
    failure.map_or(Ok(()), Err)
}

/// Says on standard error what a start waits for that takes long, until what it answers is dropped.
fn tell_of_waits(progress: StartProgress) -> Sender<()> {
    let (told, ended) = channel::<()>();
    let began = Instant::now();
    let tell = move || {
        let mut next = TOLD_AFTER;
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(next) {
            next = TOLD_EVERY;
            if let Some(what) = progress.waits_for() {
                let seconds = began.elapsed().as_secs();
                // A start goes on where its standard error is closed.
                let _ = writeln!(std::io::stderr(), "loligo: waiting for {what} (for {seconds} s so far)");
            }
        }
    };
    // A start without this thread says nothing of what it waits for.
    let _ = std::thread::Builder::new().name("waits".into()).spawn(tell);
    told
}

/// Takes the signals that came: SIGHUP opens the log's file again, as Ceph's daemons do for logrotate; the others end it.
fn asked_to_stop(signals: &mut Signals) -> bool {
    let mut stop = false;
    for signal in signals.pending() {
        if signal != SIGHUP {
            stop = true;
        } else if let Err(error) = host::reopen_log() {
            tracing::warn!(
                "SIGHUP: the log can't be opened again, lines go on to the file that was open: {error}"
            );
        } else {
            tracing::info!("SIGHUP: the log is open again");
        }
    }
    stop
}

fn announce(cluster: &Cluster, took: Duration) {
    let info = cluster.info();
    let dir = info.dir.display();
    let kept = match info.store {
        StoreKind::Mem => "mem: empty at every start, nothing is kept".to_owned(),
        kept => format!("{}, osd_memory_target {}", kept.as_str(), text::format_bytes(info.memory_target)),
    };
    let text = format!(
        "Up in {:.2} s: monitor {}, {} OSD{} (store {kept}), fsid {}\n\
         To reach it:  {}\n\
         To try:       ceph -s; ceph osd pool create mypool; rados -p mypool bench 5 write    (stop: loligo stop {})\n",
        took.as_secs_f64(),
        info.mon_addr,
        info.osds,
        if info.osds == 1 { "" } else { "s" },
        info.fsid,
        host::pointing_command(&info.dir),
        host::shell_word(&info.dir),
    );
    let note = info.promised_too_much.map(|(promised, free)| {
        format!(
            "Note: {} OSDs of {} may grow to {}, but {dir} has {} free. They share that, and are full when it is used up.\n",
            info.osds,
            text::format_bytes(promised / u64::from(info.osds.max(1))),
            text::format_bytes(promised),
            text::format_bytes(free),
        )
    });
    let mut text = text + note.as_deref().unwrap_or_default();
    if info.open_files.are_few() {
        text += &format!(
            "Note: a process may open {} files here, {} are needed before a client comes: raise the hard limit of open files \
             (`ulimit -Hn`, in a unit of systemd LimitNOFILE=)\n",
            info.open_files.limit, info.open_files.needed
        );
    }
    if let Some(failure) = &info.last_failure {
        text += &format!("Note: the process before this one failed: {failure}\n");
    }
    if let Some(addr) = info.metrics {
        text += &format!("Prometheus:   http://{addr}/metrics\n");
    }
    text += &failures(&cluster.osds(), &host::shell_word(&info.dir));
    // Other checks may only be true until every OSD has reported.
    let checks = ask::status(&info.dir)["checks"].take();
    for check in checks.as_array().into_iter().flatten().filter_map(|check| check.as_str()) {
        if check.contains("(MON_DISK_") {
            text += &format!("Note: the cluster's health has a warning: {check}\n");
        }
    }
    // A closed standard output is no reason to end a cluster.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

/// Whether any OSD serves.
fn serves(osds: &BTreeMap<OsdId, OsdState>) -> bool {
    osds.values().any(OsdState::runs)
}

/// Which OSDs don't serve, and why.
fn failures(osds: &BTreeMap<OsdId, OsdState>, dir: &str) -> String {
    let serves = serves(osds);
    let beside = if serves { ", the others serve" } else { "" };
    let mut text = String::new();
    for (osd, state) in osds {
        if let OsdState::Failed(reason) = state {
            text += &format!("Note: osd.{osd} failed and is down{beside}: {reason}\n");
        }
    }
    if !serves {
        text += &format!(
            "Note: no OSD serves, the monitor is alone: no data can be read or written. `loligo start {dir} --osd N` starts an OSD \
             again when what failed is mended\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn every_osd_that_failed_is_named_and_whether_another_serves() {
        let failed = |why: &str| OsdState::Failed(why.to_owned());
        let two = |one, other| failures(&BTreeMap::from([(OsdId(0), one), (OsdId(1), other)]), "c");
        assert_eq!(two(OsdState::Active, OsdState::Held), "");
        let said = two(failed("a"), OsdState::Active);
        assert_eq!(said, "Note: osd.0 failed and is down, the others serve: a\n");
        let said = two(failed("a"), failed("b"));
        assert!(
            said.starts_with("Note: osd.0 failed and is down: a\nNote: osd.1 failed and is down: b\n"),
            "{said}"
        );
        assert!(said.contains("no OSD serves") && said.contains("`loligo start c --osd N`"), "{said}");
    }

    #[test]
    fn the_directory_is_named_in_either_way_and_once() {
        let dir = |line: &[&str]| {
            let line = Line::try_parse_from([&["up"], line].concat());
            line.map(|line| line.args.request().dir)
        };
        assert_eq!(dir(&[]).ok(), Some(DEFAULT_DIR.into()));
        for line in [&["a"][..], &["--dir", "a"], &["a", "--osds", "1"]] {
            assert_eq!(dir(line).ok(), Some("a".into()), "{line:?}");
        }
        assert!(dir(&["a", "--dir", "a"]).is_err());
        assert!(dir(&["a", "b"]).is_err());
    }
}
