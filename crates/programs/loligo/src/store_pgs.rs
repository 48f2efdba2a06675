//! `loligo store export`, `import`, `remove` and `list`: PGs of OSDs that do not run.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use blockfile::Owner;
use host::{Description, StoreKind};
use lab::output;
use serde_json::{Value, json};
use store::{CollectionId, ReadOutcome, ReadRequest};
use storetool::{AnyStore, Ended, PgError, Progress, ToRead};
use text::format_bytes;
use types::{GHObject, PgId};

use crate::export_file::ExportFile;
use crate::fail;
use crate::store::{PROGRESS, check_owner, cluster_in, cluster_with, note_read_only};

pub const EXPORT_HELP: &str = "\
The file has the PG's objects with data, attributes and omap, their snapshots, its log and its info; every part has a \
checksum, and holes take no room. `-` writes to standard output:
    loligo store export c --osd 0 --pg 1.5 --file - | ssh other loligo store import c --osd 1 --file -";

pub const IMPORT_HELP: &str = "\
The PG gets the number that it had. Refused: a PG that the store has already, a pool that the OSD's newest map does not have \
or that has another number of PGs now, a file of another cluster (unless --other-cluster says that its pools are the same), or one \
from a later epoch than the OSD's newest map, and snapshots whose ids the pool has not given out yet (`ceph osd pool set POOL snap_seq N` \
has it begin behind them).
A file that was cut or damaged leaves nothing in the store. Data are compressed as the pool's own settings say, and not by the options \
of the OSD. Clones of snapshots that were removed since the export come back with their PG, as from Ceph's tool.";

pub const REMOVE_HELP: &str = "\
For a PG that its OSD can't remove, or that another OSD has by now. All of it goes: objects, snapshots, log and info; nothing brings it \
back but a file that `loligo store export` has written before. Ended at any point, what is left is no PG any more, and the same command \
goes on. Where a part of the store can't be read, what can be removed is, and the message says how much is left. \
With one copy of a pool its objects are gone: the PG stays unknown until it is imported, or made anew by `ceph osd force-create-pg`.";

/// One OSD of a directory.
#[derive(clap::Args)]
pub struct Of {
    /// The cluster's directory. Neither the cluster nor the OSD may run.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// The OSD's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    osd: u32,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
}

#[derive(clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    of: Of,
    /// As `ceph pg dump` names it: 1.2a.
    #[arg(long, value_name = "PGID", value_parser = pg)]
    pg: PgId,
    /// Where to write; must not exist. Until the PG is written whole, the file's name ends with ".unfinished". `-` is standard output.
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
    /// Write what is left in a store that is damaged, and that an OSD refuses. A PG of which a part can't be read is not
    /// written; but where the log is damaged, the last writes are missing.
    #[arg(long)]
    damaged: bool,
}

#[derive(clap::Args)]
pub struct ImportArgs {
    #[command(flatten)]
    of: Of,
    /// What an export has written. `-` is standard input.
    #[arg(long, value_name = "PATH")]
    file: PathBuf,
    /// Take a PG of another cluster.
    #[arg(long)]
    other_cluster: bool,
}

#[derive(clap::Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    of: Of,
    /// As `ceph pg dump` names it: 1.2a.
    #[arg(long, value_name = "PGID", value_parser = pg)]
    pg: PgId,
    /// Do it.
    #[arg(long)]
    yes_i_really_mean_it: bool,
}

#[derive(clap::Args)]
pub struct ListArgs {
    /// The cluster's directory. Neither the cluster nor an OSD that is listed may run.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// This OSD's store alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    osd: Option<u32>,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
    /// The objects of this PG; without it, the PGs.
    #[arg(long, value_name = "PGID", value_parser = pg)]
    pg: Option<PgId>,
}

fn pg(text: &str) -> Result<PgId, String> {
    text.parse().map_err(|_| "give a PG as pool.number, the number in hexadecimal: 1.2a".to_owned())
}

/// The cluster, and where an OSD's store is, and of which kind.
fn store_of(dir: &Path, osd: u32) -> Result<(Description, PathBuf, StoreKind), String> {
    let description = cluster_with(dir, osd)?;
    let kind = description.store_of(osd);
    if kind == StoreKind::Mem {
        return Err(format!("osd.{osd} of {} has the store 'mem', which keeps nothing", dir.display()));
    }
    Ok((description, dir.join(format!("osd.{osd}")), kind))
}

/// Opens an OSD's store, which must be its own.
fn open(dir: &Path, osd: u32) -> Result<(AnyStore, Owner), String> {
    let (description, at, kind) = store_of(dir, osd)?;
    let opened = storetool::open(&at, kind).map_err(|error| error.to_string());
    let checked = opened.and_then(|(store, owner)| {
        check_owner(&description, &at, osd, &owner)?;
        Ok((store, owner))
    });
    checked.map_err(|why| format!("osd.{osd}: {why}"))
}

/// Opens an OSD's store to read it: a sound one, which is its own, that may be one that can't be written.
fn open_sound(dir: &Path, osd: u32) -> Result<(AnyStore, Owner), String> {
    let (description, at, kind) = store_of(dir, osd)?;
    let opened = storetool::open_to_read(&at, kind).map_err(|error| error.to_string());
    let checked = opened.and_then(|ToRead { store, owner, damage, read_only }| {
        if let Some(why) = damage.into_iter().next() {
            return Err(why);
        }
        check_owner(&description, &at, osd, &owner)?;
        note_read_only(osd, read_only);
        Ok((store, owner))
    });
    checked.map_err(|why| format!("osd.{osd}: {why}"))
}

/// Opens an OSD's store to read it, also in spite of damage, and if it is another OSD's: then it says so.
fn open_to_read(dir: &Path, osd: u32) -> Result<(AnyStore, Owner), String> {
    let (description, at, kind) = store_of(dir, osd)?;
    let opened = storetool::open_to_read(&at, kind);
    let ToRead { store, owner, damage, read_only } = opened.map_err(|error| format!("osd.{osd}: {error}"))?;
    if let Err(why) = check_owner(&description, &at, osd, &owner) {
        eprintln!("loligo: osd.{osd}: {why}");
    }
    note_read_only(osd, read_only);
    if let Some(why) = damage.first() {
        eprintln!("loligo: osd.{osd}: {why}");
        eprintln!("loligo: osd.{osd}: what is left is read; it may be older than what was written last");
    }
    Ok((store, owner))
}

/// What failed: the file is named as the caller has named it.
fn reason(osd: u32, file: &str, error: &PgError) -> String {
    match error {
        PgError::Stream(error) => format!("{file}: {error}"),
        other => format!("osd.{osd}: {other}"),
    }
}

/// Says how far it is, now and then.
fn progress(osd: u32) -> impl FnMut(&Progress) -> Result<(), Ended> {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() >= PROGRESS {
            last = Instant::now();
            eprintln!("osd.{osd}: {} objects, {}", progress.of_clients(), format_bytes(progress.bytes));
        }
        Ok(())
    }
}

/// What was done, on standard error where standard output has the PG.
fn done(of: &Of, what: &str, pg: PgId, progress: Progress, to_stderr: bool) -> ExitCode {
    let (objects, bytes) = (progress.of_clients(), progress.bytes);
    let line = match of.format.as_str() {
        "json" => json!({ "pg": pg.to_string(), "objects": objects, "bytes": bytes }).to_string(),
        _ => format!("osd.{}: PG {pg} {what}: {objects} objects, {} of data", of.osd, format_bytes(bytes)),
    };
    match to_stderr {
        true => eprintln!("{line}"),
        false => output::line(format_args!("{line}")),
    }
    ExitCode::SUCCESS
}

pub fn export(args: &ExportArgs) -> ExitCode {
    let (osd, pg, to_stdout) = (args.of.osd, args.pg, args.file == Path::new("-"));
    let name = if to_stdout { "standard output".to_owned() } else { args.file.display().to_string() };
    if let (true, Err(error)) = (to_stdout, output::check()) {
        return fail(&format_args!("{name}: {error}"));
    }
    let open = if args.damaged { open_to_read } else { open_sound };
    let exported = open(&args.of.dir, osd).and_then(|(mut store, owner)| {
        let at = |error: io::Error| match error.kind() {
            ErrorKind::AlreadyExists => format!("{name} exists already, and is not written over"),
            ErrorKind::ResourceBusy => format!("{name}: another process is writing it"),
            _ => format!("{name}: {error}"),
        };
        let file = match to_stdout {
            true => None,
            false => Some(ExportFile::begin(&args.file).map_err(at)?),
        };
        let out: Box<dyn Write> = match &file {
            None => Box::new(io::stdout().lock()),
            Some(file) => Box::new(file.file()),
        };
        let done = storetool::export(&mut store, &owner, pg, BufWriter::new(out), &mut progress(osd));
        let done = done.map_err(|error| reason(osd, &name, &error));
        match (done, file) {
            (Ok(done), Some(file)) => file.finish().map_err(at).map(|()| done),
            (Err(reason), Some(file)) => {
                file.give_up();
                Err(reason)
            }
            (done, None) => done,
        }
    });
    match exported {
        Ok(progress) => done(&args.of, "written", pg, progress, to_stdout),
        Err(reason) => fail(&reason),
    }
}

pub fn import(args: &ImportArgs) -> ExitCode {
    let (osd, from_stdin) = (args.of.osd, args.file == Path::new("-"));
    let name = if from_stdin { "standard input".to_owned() } else { args.file.display().to_string() };
    let imported = open(&args.of.dir, osd).and_then(|(mut store, owner)| {
        let input: Box<dyn Read> = match from_stdin {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(&args.file).map_err(|error| format!("{name}: {error}"))?),
        };
        let (input, other) = (BufReader::new(input), args.other_cluster);
        let done = storetool::import(&mut store, &owner, input, other, &mut progress(osd));
        done.map_err(|error| reason(osd, &name, &error))
    });
    match imported {
        Ok((header, progress)) => done(&args.of, "imported", header.pg, progress, false),
        Err(reason) => fail(&reason),
    }
}

pub fn remove(args: &RemoveArgs) -> ExitCode {
    let (osd, pg) = (args.of.osd, args.pg);
    let removed = open(&args.of.dir, osd).and_then(|(mut store, _)| {
        let is_there = storetool::is_whole(&mut store, CollectionId::Pg(pg.into()));
        let is_there = is_there.map_err(|error| format!("osd.{osd}: {error}"))?.is_some();
        if is_there && !args.yes_i_really_mean_it {
            return Err(format!(
                "this removes PG {pg} from osd.{osd} for good: `loligo store export {} --osd {osd} --pg {pg} --file PATH` saves it; \
                 pass --yes-i-really-mean-it to remove it",
                args.of.dir.display()
            ));
        }
        let removed = storetool::remove(&mut store, pg, &mut progress(osd));
        if let Err(PgError::Remains { removed, left, .. }) = &removed
            && args.of.format == "json"
        {
            let (objects, bytes) = (removed.of_clients(), removed.bytes);
            let left = json!({ "objects": left.objects, "gaps": left.gaps, "why": left.why.to_string() });
            let line = json!({ "pg": pg.to_string(), "objects": objects, "bytes": bytes, "left": left });
            output::line(format_args!("{line}"));
        }
        removed.map_err(|error| format!("osd.{osd}: {error}"))
    });
    match removed {
        Ok(progress) => done(&args.of, "removed", pg, progress, false),
        Err(reason) => fail(&reason),
    }
}

/// What an OSD's store has of that which is asked for; `None` if it has no such PG.
fn listed(args: &ListArgs, osd: u32) -> Result<Option<Vec<Value>>, String> {
    let (mut store, _) = open_to_read(&args.dir, osd)?;
    let rows = match args.pg.map(|pg| CollectionId::Pg(pg.into())) {
        None => pgs(&mut store).map(Some),
        Some(pg) => match storetool::is_whole(&mut store, pg) {
            Ok(None) => Ok(None),
            Ok(Some(_)) => objects(&mut store, pg).map(Some),
            Err(error) => Err(error),
        },
    };
    let mut rows = rows.map_err(|error| format!("osd.{osd}: {error}"))?;
    rows.iter_mut().flatten().for_each(|row| row["osd"] = osd.into());
    Ok(rows)
}

/// A row of a list, for people.
fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let left = match row["finished"].as_bool() {
        Some(false) => ", an import or a removal that did not get to its end: import it again, or remove it",
        _ => "",
    };
    match row["object"].as_str() {
        None => {
            let error = row["error"].as_str().map_or_else(String::new, |error| format!(" and more: {error}"));
            format!("{:<12} {} objects{left}{error}", text("pg"), row["objects"])
        }
        Some(object) => format!("{object} {}", row["bytes"]),
    }
}

pub fn list(args: &ListArgs) -> ExitCode {
    let osds = match (args.osd, cluster_in(&args.dir)) {
        (Some(osd), _) => osd..osd + 1,
        (None, Ok(description)) => 0..description.osds,
        (None, Err(reason)) => return fail(&reason),
    };
    let (mut rows, mut is_there, mut failed) = (Vec::new(), args.pg.is_none(), false);
    for osd in osds {
        match listed(args, osd) {
            Ok(found) => {
                is_there |= found.is_some();
                failed |= found.iter().flatten().any(|row| !row["error"].is_null());
                rows.extend(found.into_iter().flatten());
            }
            // The others may be of use.
            Err(reason) => {
                fail(&reason);
                failed = true;
            }
        }
    }
    match args.format.as_str() {
        _ if rows.is_empty() && (failed || !is_there) => {}
        "json" => output::line(format_args!("{:#}", Value::Array(rows))),
        _ => {
            for row in rows {
                match args.osd {
                    Some(_) => output::line(format_args!("{}", line(&row))),
                    None => {
                        let osd = format!("osd.{}", row["osd"]);
                        output::line(format_args!("{osd:<7} {}", line(&row)));
                    }
                }
            }
        }
    }
    match args.pg.filter(|_| !is_there && !failed) {
        Some(pg) if args.osd.is_some() => fail(&PgError::NoPg(pg)),
        Some(pg) => fail(&format!("PG {pg} is in no store here")),
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    }
}

fn pgs(store: &mut AnyStore) -> Result<Vec<Value>, store::StoreError> {
    let mut rows = Vec::new();
    for collection in store.collections()? {
        let CollectionId::Pg(pg) = collection else { continue };
        let mut count = 0;
        let counted = each_object(store, collection, |_, _| {
            count += 1;
            Ok(())
        });
        let finished = storetool::is_whole(store, collection)? != Some(false);
        let mut row = json!({ "pg": pg.to_string(), "objects": count, "finished": finished });
        // The other PGs may be whole.
        if let Err(error) = counted {
            row["error"] = error.to_string().into();
        }
        rows.push(row);
    }
    Ok(rows)
}

fn objects(store: &mut AnyStore, collection: CollectionId) -> Result<Vec<Value>, store::StoreError> {
    let mut rows = Vec::new();
    each_object(store, collection, |store, object| {
        let bytes = match store.read(ReadRequest::Stat { collection, object: object.clone() })? {
            ReadOutcome::Stat(stat) => stat.size,
            other => return Err(blockfile::unexpected(&other)),
        };
        rows.push(json!({
            "object": object.to_string(), "name": object.hobj.name.to_string(),
            "key": object.hobj.key.to_string(), "namespace": object.hobj.nspace.to_string(), "snap": object.hobj.snap.to_string(), "bytes": bytes,
        }));
        Ok(())
    })?;
    Ok(rows)
}

/// Every object of a PG but the one that has the PG's own records.
fn each_object(
    store: &mut AnyStore,
    collection: CollectionId,
    mut each: impl FnMut(&mut AnyStore, &GHObject) -> Result<(), store::StoreError>,
) -> Result<(), store::StoreError> {
    let mut start = Some(GHObject::min());
    while let Some(from) = start.take() {
        let (objects, next) = store.objects(collection, from)?;
        for object in objects.iter().filter(|object| !object.is_pgmeta()) {
            each(store, object)?;
        }
        start = next;
    }
    Ok(())
}
