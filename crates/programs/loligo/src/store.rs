//! `loligo store`: looks into the stores of OSDs that do not run, and changes them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use blockfile::{BlockFileStore, Blocking, Findings, OpenError, Options, Owner, ReadOnly, State, ToRead};
use host::{Description, DirState, StoreKind};
use lab::output;
use serde_json::{Value, json};
use store::{
    AttrChoice, CollectionId, CompressionAlgorithm, ObjectStore, ReadOutcome, ReadRequest, StoreError,
    StoreShard,
};
use text::{format_bytes, visible};
use types::{GHObject, PoolId};

use crate::{fail, plain, store_bench, store_convert, store_expand, store_log, store_pgs};

/// How often a long check says how far it is.
pub const PROGRESS: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check stores: whether their metadata agrees with itself.
    #[command(after_help = "\
Exit code: 0 when all stores were checked and nothing is wrong (any more, with --repair), 1 otherwise: also where some OSDs have another \
store than 'block', which is not checked. --osd N checks one alone.")]
    Fsck {
        #[command(flatten)]
        of: Of,
        /// Read all objects too, and hold them against their checksums.
        #[arg(long)]
        deep: bool,
        /// Mend what the metadata itself says is wrong: counters, counts of shared blocks, blocks and records that belong
        /// to no object. What can't be read is left as it is, and where that is metadata all of its shard is; nothing is guessed.
        #[arg(long)]
        repair: bool,
    },
    /// Make block stores of simple ones: everything is copied beside the old store, compared, and the old store removed.
    #[command(after_help = store_convert::HELP)]
    Convert(store_convert::Args),
    /// Write a PG of an OSD to a file.
    #[command(after_help = store_pgs::EXPORT_HELP)]
    Export(store_pgs::ExportArgs),
    /// Put a PG from a file into an OSD that has none of its number.
    #[command(after_help = store_pgs::IMPORT_HELP)]
    Import(store_pgs::ImportArgs),
    /// Remove a PG from an OSD for good.
    #[command(after_help = store_pgs::REMOVE_HELP)]
    Remove(store_pgs::RemoveArgs),
    /// List the PGs of OSDs, or the objects of a PG.
    List(store_pgs::ListArgs),
    /// Let a store have the rest of its file or device, which has grown.
    #[command(after_help = store_expand::HELP)]
    Expand(store_expand::Args),
    /// Give a store's log a device or a file of its own, or have it beside the data again.
    #[command(after_help = store_log::HELP)]
    Log(store_log::Args),
    /// Measure the store alone, without a cluster: writes like those of PGs, in a new directory that is removed again.
    Bench(store_bench::Args),
    /// Show a store: its label, its log and its space, or where an object lies.
    Dump {
        #[command(flatten)]
        of: Of,
        /// Show this object, wherever it is: by its name, of any bytes, or in quotes as `store list` prints it, '#...#'.
        #[arg(long, value_name = "NAME")]
        object: Option<OsString>,
    },
}

/// What a command is about.
#[derive(clap::Args)]
pub struct Of {
    /// The cluster's directory. Neither the cluster nor the OSD may run.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub dir: PathBuf,
    /// This OSD's store alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    pub osd: Option<u32>,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    pub format: String,
}

pub fn run(args: &Args) -> ExitCode {
    let of = match &args.command {
        Command::Fsck { of, .. } | Command::Dump { of, .. } => of,
        Command::Bench(args) => return store_bench::run(args),
        Command::Convert(args) => return store_convert::run(args),
        Command::Export(args) => return store_pgs::export(args),
        Command::Import(args) => return store_pgs::import(args),
        Command::Remove(args) => return store_pgs::remove(args),
        Command::List(args) => return store_pgs::list(args),
        Command::Expand(args) => return store_expand::run(args),
        Command::Log(args) => return store_log::run(args),
    };
    let (description, stores) = match stores(of) {
        Ok(found) => found,
        Err(reason) => return fail(&reason),
    };
    let (mut all, mut clean, mut found) = (Vec::new(), true, false);
    for (osd, dir) in stores {
        let report = match &args.command {
            // Some were converted and some were not.
            _ if description.store_of(osd) != StoreKind::Block => Err(no_block_store(&description, osd)),
            Command::Fsck { deep, repair, .. } => fsck(&description, osd, &dir, *deep, *repair),
            Command::Dump { object, .. } => dump(osd, &dir, object.as_deref()),
            // They ran above.
            _ => continue,
        };
        let report = report.unwrap_or_else(|error| json!({ "error": error }));
        clean &= report["error"].is_null() && report["damage"].is_null();
        clean &= report["problems"].as_array().is_none_or(Vec::is_empty);
        found |= report["objects"].as_array().is_some_and(|objects| !objects.is_empty());
        if of.format == "plain" {
            show(osd, &report);
        }
        all.push((format!("osd.{osd}"), report));
    }
    if of.format == "json" {
        output::line(format_args!("{:#}", Value::Object(all.into_iter().collect())));
    }
    if let Command::Dump { object: Some(name), .. } = &args.command
        && clean
        && !found
    {
        return fail(&format!("no store here has an object '{}'", visible(&name.to_string_lossy())));
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The cluster of a directory.
pub fn cluster_in(dir: &Path) -> Result<Description, String> {
    match host::inspect(dir).map_err(|error| error.to_string())? {
        DirState::Cluster(description) => Ok(*description),
        DirState::Empty | DirState::Unfinished => Err(format!("{}: no cluster here", dir.display())),
    }
}

/// The cluster of a directory, which has this OSD.
pub fn cluster_with(dir: &Path, osd: u32) -> Result<Description, String> {
    let description = cluster_in(dir)?;
    if osd < description.osds {
        return Ok(description);
    }
    Err(format!("{} has no osd.{osd}, but those from 0 to {}", dir.display(), description.osds - 1))
}

/// The cluster, and the OSDs that are meant, with their directories.
fn stores(of: &Of) -> Result<(Description, Vec<(u32, PathBuf)>), String> {
    let dir = of.dir.display();
    let (description, all) = match of.osd {
        Some(osd) => (cluster_with(&of.dir, osd)?, osd..osd + 1),
        None => {
            let description = cluster_in(&of.dir)?;
            let all = 0..description.osds;
            (description, all)
        }
    };
    if !all.clone().any(|osd| description.store_of(osd) == StoreKind::Block) {
        return Err(format!("osd.{} of {dir}: {}", all.start, no_block_store(&description, all.start)));
    }
    let stores = all.map(|osd| (osd, of.dir.join(format!("osd.{osd}")))).collect();
    Ok((description, stores))
}

/// Why an OSD's store is not looked into.
fn no_block_store(description: &Description, osd: u32) -> String {
    let store = description.store_of(osd).as_str();
    format!("it has the store '{store}', and this command knows 'block' alone")
}

/// Of a check one line for what is well or wrong, and one for each thing; of a dump all of it.
fn show(osd: u32, report: &Value) {
    if let Some(error) = report["error"].as_str() {
        return output::line(format_args!("osd.{osd}: {error}"));
    }
    let Some(problems) = report["problems"].as_array() else {
        output::line(format_args!("osd.{osd}:"));
        return plain::lines(report, 1).iter().for_each(|line| output::line(format_args!("{line}")));
    };
    for mended in report["mended"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output::line(format_args!("osd.{osd}: mended: {mended}"));
    }
    for note in report["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        output::line(format_args!("osd.{osd}: note: {note}"));
    }
    for problem in problems.iter().filter_map(Value::as_str) {
        output::line(format_args!("osd.{osd}: {problem}"));
    }
    let read = match report["deep"].as_bool() {
        Some(true) => format!(
            ", {} objects read with {} of data",
            report["objects"],
            format_bytes(report["bytes"].as_u64().unwrap_or_default())
        ),
        _ => String::new(),
    };
    let verdict = match problems.len() {
        0 => "no problem".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    output::line(format_args!("osd.{osd}: {verdict}, {} collections{read}", report["collections"]));
}

/// Refuses the store of an OSD that names another owner than the cluster's description does: the directories or devices of two
/// OSDs were exchanged, or a file was put back in the wrong place. `has`: the owner that it names.
pub fn check_owner(description: &Description, at: &Path, osd: u32, has: &Owner) -> Result<(), String> {
    match description.owner_of(osd).filter(|wanted| wanted != has) {
        None => Ok(()),
        Some(wanted) => {
            let (path, has, wanted) = (blockfile::path_in(at), Box::new(*has), Box::new(wanted));
            Err(OpenError::OtherOwner { path, has, wanted }.to_string())
        }
    }
}

/// The same of a block store that is not open, for what changes it. One that can't be read is the caller's to find out.
pub fn check_owner_in(description: &Description, at: &Path, osd: u32) -> Result<(), String> {
    match blockfile::owner_on(&blockfile::path_in(at)) {
        Some(has) => check_owner(description, at, osd, &has).map_err(|why| format!("osd.{osd}: {why}")),
        None => Ok(()),
    }
}

/// Says that a store can't be written, if so, where it is only read: what is wrong with a mount or a device is not wrong with the store.
pub fn note_read_only(osd: u32, why: Option<impl std::fmt::Display>) {
    if let Some(why) = why {
        eprintln!("loligo: osd.{osd}: {why}: it is read as it is, and nothing is changed");
    }
}

/// A store that is checked or shown.
struct Opened {
    store: Blocking<BlockFileStore>,
    owner: Owner,
    /// What its label says.
    label: Value,
    /// What is damaged: then it can only be read, and not all of it.
    damage: Vec<String>,
    /// What can't be written, if so.
    read_only: Option<ReadOnly>,
}

fn open(dir: &Path) -> Result<Opened, String> {
    let opened = blockfile::open_to_read(dir, &Options::default());
    let ToRead { store, label, owner, damage, read_only } = opened.map_err(|error| error.to_string())?;
    let log = blockfile::log_device(dir).map_err(|error| error.to_string())?;
    let label = json!({
        "id": format!("{:016x}", label.id), "shards": label.shards, "bytes": label.size_bytes,
        "log_bytes": label.log_bytes, "log_unit_bytes": label.log_unit_bytes,
        "log_device": log.map(|log| log.path.display().to_string()),
        "cluster": owner.cluster.to_string(), "osd": owner.osd.0, "osd_uuid": owner.osd_uuid.to_string(),
    });
    Ok(Opened { store: Blocking::new(store), owner, label, damage, read_only })
}

fn fsck(description: &Description, osd: u32, dir: &Path, deep: bool, repair: bool) -> Result<Value, String> {
    let Opened { mut store, owner, mut damage, mut read_only, .. } = open(dir)?;
    damage.extend(check_owner(description, dir, osd, &owner).err());
    if let Some(why) = read_only.take_if(|_| repair) {
        return Err(format!("nothing was mended: {}", why.refusal()));
    }
    note_read_only(osd, read_only);
    let mended = match repair {
        true if !damage.is_empty() => return Err(format!("nothing was mended: {}", damage[0])),
        true => blockfile::repair(&mut store).map_err(|error| format!("not all was mended: {error}"))?.mended,
        false => Vec::new(),
    };
    let mut last = Instant::now();
    let mut progress = |found: &Findings| {
        if last.elapsed() >= PROGRESS {
            last = Instant::now();
            let (objects, bytes) = (found.objects, format_bytes(found.bytes));
            eprintln!("osd.{osd}: {objects} objects read, {bytes}, {} problems so far", found.problems.len());
        }
    };
    let Findings { problems, notes, collections, objects, bytes } =
        blockfile::fsck(&mut store, deep, &mut progress);
    let problems = [damage, problems].concat();
    Ok(json!({
        "deep": deep, "collections": collections, "objects": objects, "bytes": bytes, "problems": problems,
        "notes": notes, "mended": mended,
    }))
}

fn dump(osd: u32, dir: &Path, object: Option<&OsStr>) -> Result<Value, String> {
    let Opened { mut store, label, damage, read_only, .. } = open(dir)?;
    note_read_only(osd, read_only);
    let failed = |error: StoreError| error.to_string();
    if let Some(name) = object {
        let mut found = found(&mut store, name.as_bytes()).map_err(failed)?;
        note_damage(&mut found, damage);
        return Ok(found);
    }
    let ReadOutcome::StatFs(space) = store.read(ReadRequest::StatFs).map_err(failed)? else {
        return Err("the store does not say how much space it has".to_owned());
    };
    let packed = space.all_compressed();
    let collections = store.collections().map_err(failed)?;
    let of_shard = |store: &mut BlockFileStore, shard| -> Vec<String> {
        let here = collections.iter().filter(|id| store.shard_of(**id) == StoreShard(shard));
        here.map(CollectionId::to_string).collect()
    };
    let store = store.store();
    let mut shards = Vec::new();
    for shard in 0..store.shards() {
        let collections = of_shard(store, shard);
        let Some(handle) = store.handles().get_mut(shard as usize) else { continue };
        let free = handle.free_space();
        let handle = handle.inner();
        let mut shown = dump_shard(&handle.state(), &handle.ends(), &collections);
        shown["blocks"]["fragmentation"] = json!(free.map(|free| free.fragmentation()));
        shown["blocks"]["fragmentation_score"] = json!(free.map(|free| free.score()));
        shards.push(shown);
    }
    let mut report = json!({
        "label": label,
        "space": {
            "bytes_total": space.bytes_total, "bytes_used": space.bytes_used,
            "bytes_available": space.bytes_available, "objects": space.objects,
            "data_by_pool": space.is_by_pool().then(|| of_pools(&space.by_pool)),
            "omaps_by_pool": (!space.has_uncounted_omaps).then(|| of_pools(&space.omaps_by_pool)),
            "data_compressed": packed.stored, "data_compressed_allocated": packed.allocated,
            "data_compressed_original": packed.original,
        },
        "shards": shards,
    });
    if !damage.is_empty() {
        // Its blocks are not counted.
        report["space"] = Value::Null;
        for shard in report["shards"].as_array_mut().into_iter().flatten() {
            shard["blocks"] = Value::Null;
        }
    }
    note_damage(&mut report, damage);
    Ok(report)
}

/// Bytes by pool, without what the OSD keeps for itself.
fn of_pools(bytes: &BTreeMap<PoolId, u64>) -> BTreeMap<i64, u64> {
    bytes.iter().map(|(pool, bytes)| (pool.0, *bytes)).filter(|(pool, _)| *pool >= 0).collect()
}

/// Says what is damaged of the store that a report is of.
fn note_damage(report: &mut Value, damage: Vec<String>) {
    if !damage.is_empty() {
        report["damage"] = damage.into();
    }
}

/// `ends`: of the store after each growth.
fn dump_shard(state: &State, ends: &[u64], collections: &[String]) -> Value {
    json!({
        "superblock": { "generation": state.generation, "tree_levels": state.tree_levels },
        "log": {
            "apart": state.log_apart, "bytes": state.log_bytes, "used_bytes": state.log_used_bytes, "next_sequence": state.log_next,
            "changes_bytes": state.changes_bytes,
        },
        "blocks": {
            "all": state.blocks, "data": state.data_blocks, "leaving": state.leaving_blocks,
            "tree_bytes": state.tree_bytes, "grown_to_bytes": ends,
        },
        "collections": collections,
    })
}

/// Whether an object has this name, or is shown so: by a name alone all of its snapshots are meant, and names that are no UTF-8 may be
/// given as they are shown.
fn is_meant(object: &GHObject, name: &[u8]) -> bool {
    object.hobj.name.as_bytes() == name || name.contains(&b'#') && object.to_string().as_bytes() == name
}

/// Every object that is meant by a name.
fn found(store: &mut Blocking<BlockFileStore>, name: &[u8]) -> Result<Value, StoreError> {
    let mut all = Vec::new();
    for collection in store.collections()? {
        let mut start = Some(GHObject::min());
        while let Some(from) = start.take() {
            let (objects, next) = store.objects(collection, from)?;
            for object in objects.iter().filter(|object| is_meant(object, name)) {
                all.push(described(store, collection, object)?);
            }
            start = next;
        }
    }
    Ok(json!({ "objects": all }))
}

fn described(
    store: &mut Blocking<BlockFileStore>,
    collection: CollectionId,
    object: &GHObject,
) -> Result<Value, StoreError> {
    let request = ReadRequest::Object { collection, object: object.clone(), attrs: AttrChoice::All };
    let ReadOutcome::Object(Some(head)) = store.read(request)? else {
        return Err(StoreError::NoSuchObject(collection, Box::new(object.clone())));
    };
    let attrs: serde_json::Map<String, Value> =
        head.attrs.iter().map(|(name, value)| (name.to_string(), value.len().into())).collect();
    Ok(json!({
        "collection": collection.to_string(), "object": object.to_string(), "bytes": head.stat.size,
        "attr_bytes": attrs, "extents": extents(store, collection, object, head.stat.size),
    }))
}

/// A part of an object that lies in one piece.
struct Extent {
    offset: u64,
    device_offset: u64,
    bytes: u64,
    /// Its algorithm, and the bytes on the device of what it was compressed with.
    compressed: Option<(CompressionAlgorithm, u32)>,
}

impl Extent {
    /// Whether a block goes on where this ends.
    fn is_followed_by(&self, next: &Self) -> bool {
        let device_bytes = if self.compressed.is_some() { 0 } else { self.bytes };
        self.offset + self.bytes == next.offset
            && self.compressed == next.compressed
            && self.device_offset + device_bytes == next.device_offset
    }

    fn shown(&self) -> Value {
        let mut shown =
            json!({ "offset": self.offset, "device_offset": self.device_offset, "bytes": self.bytes });
        if let Some((algorithm, bytes)) = self.compressed {
            shown["compressed"] = json!({ "algorithm": algorithm.name(), "bytes": bytes });
        }
        shown
    }
}

/// Where the object's bytes lie on the device: neighbouring blocks as one, and those that were compressed together.
fn extents(
    store: &mut Blocking<BlockFileStore>,
    collection: CollectionId,
    object: &GHObject,
    bytes: u64,
) -> Vec<Value> {
    let mut runs: Vec<Extent> = Vec::new();
    for offset in (0..bytes).step_by(blockfile::BLOCK_BYTES as usize) {
        let shard = store.store().shard_of(collection);
        let Some(handle) = store.store().handles().get_mut(shard.0 as usize) else { continue };
        let Some(device_offset) = handle.inner().locate(collection, object, offset) else { continue };
        let compressed = handle.inner().compression_at(collection, object, offset);
        let next =
            Extent { offset, device_offset, bytes: blockfile::BLOCK_BYTES.min(bytes - offset), compressed };
        match runs.last_mut() {
            Some(last) if last.is_followed_by(&next) => last.bytes += next.bytes,
            _ => runs.push(next),
        }
    }
    runs.iter().map(Extent::shown).collect()
}
