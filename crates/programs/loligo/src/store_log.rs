//! `loligo store log`: a store that is there gets a log of its own, or has it beside its data again.

use std::path::PathBuf;
use std::process::ExitCode;

use blockfile::{LogPlace, Moved};
use host::{ClusterDir, HostError, StoreKind};
use lab::output;
use serde_json::json;

use crate::fail;
use crate::store::{check_owner_in, cluster_with};
use crate::up::absolute;

pub const HELP: &str = "\
A commit waits for the log; small writes wait for nothing else: so a fast device for it makes slow disks serve them faster. What is \
in the log goes to its place first; then the log is empty, and moves. The cluster must not run. Nothing is lost by a kill at \
any point: the OSD starts with what it left, and the same command brings it to its end. The place that the log has left \
beside the data stays reserved for its return; a device that it has left is cleared, and a file removed. The directory \
remembers the new place, as after `loligo up --log-device`.";

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["to", "beside_data"])))]
pub struct Args {
    /// The cluster's directory.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// The OSD's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    osd: u32,
    /// The block device or the file that the log goes to. A file is made, as large as the log needs.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    to: Option<PathBuf>,
    /// Have the log beside the data, as it was before it moved.
    #[arg(long)]
    beside_data: bool,
    /// Overwrite what the device or file of --to holds; without it one that holds data is refused.
    #[arg(long, requires = "to")]
    overwrite: bool,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
}

pub fn run(args: &Args) -> ExitCode {
    match move_log(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

fn move_log(args: &Args) -> Result<(), String> {
    let (at, osd) = (args.dir.display(), args.osd);
    let said = |error: HostError| error.to_string();
    let mut description = cluster_with(&args.dir, osd)?;
    let store = description.store_of(osd);
    if store != StoreKind::Block {
        let store = store.as_str();
        return Err(format!(
            "osd.{osd} of {at} has the store '{store}', and only a block store has a log that moves"
        ));
    }
    let to = args.to.as_ref().and_then(|path| absolute(std::slice::from_ref(path)).pop());
    if let Some((path, other)) = to.as_ref().and_then(|path| Some((path, description.has_place(path, osd)?)))
    {
        return Err(format!("{} is osd.{other}'s: name another one for osd.{osd}", path.display()));
    }
    let to = to.map(|path| LogPlace { path, overwrite: args.overwrite });
    let dir = ClusterDir::lock(&args.dir).map_err(said)?;
    let store = dir.path().join(format!("osd.{osd}"));
    let moved = check_owner_in(&description, &store, osd).and_then(|()| {
        let moved =
            blockfile::move_log(&store, Some(dir.path()), to.as_ref(), &blockfile::Options::default());
        moved.map_err(|error| format!("osd.{osd}: {error}"))
    });
    if moved.is_ok() {
        let places = blockfile::places_in(&store);
        description.set_places_of(osd, places.device, places.log);
        dir.write_description(&description).map_err(said)?;
    }
    dir.ended();
    tell(args, &moved?);
    Ok(())
}

fn tell(args: &Args, Moved { before, after }: &Moved) {
    let osd = args.osd;
    if args.format == "json" {
        return output::line(format_args!("{}", json!({ "osd": osd, "log_before": before, "log": after })));
    }
    let place = |of: &Option<PathBuf>| match of {
        Some(path) => format!("on {}", path.display()),
        None => "beside the data".to_owned(),
    };
    match before == after {
        true => output::line(format_args!("osd.{osd}: nothing to do: the log is {}", place(after))),
        false => {
            output::line(format_args!("osd.{osd}: the log is {} now, {} before", place(after), place(before)))
        }
    }
}
