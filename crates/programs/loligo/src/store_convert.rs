//! `loligo store convert`: block stores in place of simple ones.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use lab::output;
use serde_json::{Value, json};
use storetool::{Converted, Ended, Progress, Step, Wanted};
use text::format_bytes;

use crate::fail;
use crate::store::{Of, PROGRESS};
use crate::up::absolute;

pub const HELP: &str = "\
The cluster must not run. Each OSD's new store is made in osd.N/converting, so the disk needs room for both; or on a block \
device that --device names. When it has everything, it is compared with the old store, byte by byte, and checked; then it \
takes the old one's place, which is removed. Ended at any point (also by a power loss), the same command goes on: what was \
copied is compared, not copied again. Paths are named as for `loligo up`, one for each OSD that is converted, and checked \
before anything is changed; the directory remembers them. With other paths than an interrupted run had, a copy begins anew.
Exit code: 0 when all stores are block stores, 1 otherwise.";

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: Of,
    /// Keep the old store, in osd.N/simple. The same command without it removes the old store later.
    #[arg(long)]
    keep: bool,
    /// A block device for the new store of each OSD, whole, in place of an image file: the first for the first OSD that is
    /// converted and so on.
    #[arg(long = "device", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    devices: Vec<PathBuf>,
    /// A block device or a file for the log of each new store, apart from its data. A file is made, as large as the log needs.
    #[arg(long = "log-device", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    log_devices: Vec<PathBuf>,
    /// A --device or --log-device whose contents may be overwritten; without it one that holds data is refused.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    overwrite: Vec<PathBuf>,
}

impl Args {
    fn wanted(&self) -> Wanted {
        Wanted {
            osd: self.of.osd,
            keep: self.keep,
            devices: absolute(&self.devices),
            log_devices: absolute(&self.log_devices),
            overwrite: absolute(&self.overwrite),
        }
    }
}

pub fn run(args: &Args) -> ExitCode {
    let mut last = Instant::now();
    let mut on = |osd: u32, step: &Step| -> Result<(), Ended> {
        if let Some(line) = said(step, last.elapsed() >= PROGRESS) {
            last = Instant::now();
            eprintln!("osd.{osd}: {line}");
        }
        Ok(())
    };
    let converted = match storetool::convert(&args.of.dir, &args.wanted(), &mut on) {
        Ok(converted) => converted,
        Err(error) => return fail(&error.to_string()),
    };
    if args.of.format == "json" {
        let all = converted.iter().map(|of| (format!("osd.{}", of.osd), shown(of))).collect();
        output::line(format_args!("{:#}", Value::Object(all)));
        return ExitCode::SUCCESS;
    }
    for of in &converted {
        output::line(format_args!("osd.{}: {}", of.osd, plain(of)));
    }
    ExitCode::SUCCESS
}

/// What a user hears of a step: `due`, of those that are many.
fn said(step: &Step, due: bool) -> Option<String> {
    let of = |what: &str, progress: &Progress| {
        let Progress { collections, objects, bytes, .. } = progress;
        let bytes = format_bytes(*bytes);
        due.then(|| format!("{what}: {collections} collections, {objects} objects, {bytes}"))
    };
    match step {
        Step::Beginning { needed, available } => {
            let (needed, available) = (format_bytes(*needed), format_bytes(*available));
            Some(format!("the new store takes up to {needed}; {available} are free for it"))
        }
        Step::Resuming(progress) => of("compared what an earlier conversion has copied", progress),
        Step::Copying(progress) => of("copied", progress),
        Step::Comparing(progress) => of("compared", progress),
        Step::Moving | Step::Moved => None,
    }
}

fn shown(of: &Converted) -> Value {
    let Progress { collections, objects, bytes, .. } = of.compared;
    json!({
        "converted": of.was_simple, "collections": collections, "objects": objects, "bytes": bytes,
        "data_bytes_before": of.bytes_before, "data_bytes_after": of.bytes_after, "old_store": of.kept,
        "device": of.places.device, "log_device": of.places.log,
    })
}

fn plain(of: &Converted) -> String {
    let named = |what: &str, path: &Option<PathBuf>| match path {
        Some(path) => format!("; {what} {}", path.display()),
        None => String::new(),
    };
    let places = named("on", &of.places.device) + &named("its log on", &of.places.log);
    let kept = places + &named("the old store is in", &of.kept);
    let Progress { collections, objects, bytes, .. } = of.compared;
    match of.was_simple {
        false => format!("a block store already{kept}"),
        true if collections == 0 => format!("converted, by what an earlier run has made{kept}"),
        true => format!(
            "converted: {collections} collections and {objects} objects with {} compared; their data takes {}, {} before{kept}",
            format_bytes(bytes),
            format_bytes(of.bytes_after),
            format_bytes(of.bytes_before),
        ),
    }
}
