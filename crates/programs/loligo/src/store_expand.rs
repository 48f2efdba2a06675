//! `loligo store expand`: a store's file or device that has grown is used to its end.

use std::path::PathBuf;
use std::process::ExitCode;

use host::{ClusterDir, StoreKind};
use lab::output;
use serde_json::json;
use text::{format_bytes, format_bytes_two};

use crate::fail;
use crate::store::{check_owner_in, cluster_with};

pub const HELP: &str = "\
A device, or a file that was made longer by other means, is used to its end; --size makes a file longer. Where the store has \
several shards, each gets an equal part: 1 MiB at least, and 32 times at most. Nothing is moved, and nothing is lost by a kill \
at any point: the same command brings to its end what it had begun. The cluster must not run. CRUSH weights stay as they are: `ceph osd crush \
reweight osd.N WEIGHT` gives the OSD a share of the data that fits its new size.";

#[derive(clap::Args)]
pub struct Args {
    /// The cluster's directory.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// The OSD's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    osd: u32,
    /// What the store's file is to have, as 200GiB; not for devices.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
}

fn size(text: &str) -> Result<u64, String> {
    text::parse_size(text)
        .filter(|n| *n > 0)
        .ok_or_else(|| "give bytes, as 200GiB, and less than 16 EiB".into())
}

pub fn run(args: &Args) -> ExitCode {
    match expand(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

fn expand(args: &Args) -> Result<(), String> {
    let (at, osd) = (args.dir.display(), args.osd);
    let description = cluster_with(&args.dir, osd)?;
    let store = description.store_of(osd);
    if store != StoreKind::Block {
        let store = store.as_str();
        return Err(format!("osd.{osd} of {at} has the store '{store}', and only a block store can grow"));
    }
    let dir = ClusterDir::lock(&args.dir).map_err(|error| error.to_string())?;
    let store = dir.path().join(format!("osd.{osd}"));
    let expanded = check_owner_in(&description, &store, osd).and_then(|()| {
        let expanded = blockfile::expand(&store, args.size, &blockfile::Options::default());
        expanded.map_err(|error| format!("osd.{osd}: {error}"))
    });
    dir.ended();
    let blockfile::Expanded { before, after } = expanded?;
    if args.format == "json" {
        output::line(format_args!("{}", json!({ "osd": osd, "bytes_before": before, "bytes": after })));
    } else if after == before {
        let before = format_bytes(before);
        output::line(format_args!("osd.{osd}: nothing to do: the store has all of its {before} already"));
    } else {
        let [after, before] = format_bytes_two(after, before);
        output::line(format_args!("osd.{osd}: {after} now, {before} before"));
    }
    Ok(())
}
