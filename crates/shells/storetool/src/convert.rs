//! Makes block stores of a directory's simple stores.
//!
//! An OSD's new store is made in a directory within the OSD's, beside the old one: `converting`. When it has everything and
//! was compared and checked, renaming that to `converted` decides: until then the old store counts, from then on the new
//! one. What follows (files to their places, the OSD's store in the cluster's description, the old store's removal) is
//! done again from wherever it ended. A copy that did not get to its end is compared with the old store, which may have
//! been in use meanwhile: what differs is copied again.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blockfile::{BlockFileStore, Blocking, Owner, Places};
use host::{ClusterDir, Description, DirState, HostError, StoreKind, UNFINISHED_CONVERSION};
use simplestore::SimpleStore;
use store::{CollectionId, ObjectStore, ReadOutcome, ReadRequest, StatFs, StoreError};
use text::format_bytes;

use crate::{Difference, Progress, Record, TransferError, Wanted, compare, copy, remove_collection};

/// Where the new store is made, within the OSD's directory.
pub const MAKING: &str = "converting";
/// The old store, once it does not count any more.
const OLD: &str = "simple";
/// The files of a simple store: its metadata, and the data. The block store's file has the latter's name.
const METADATA: &str = "meta.redb";
const DATA: &str = "block";

/// Bytes that the file system must have beside what the new store takes: it grows in steps, and other files live there.
const SPACE_BESIDE: u64 = 128 << 20;

/// What a conversion does next, or did. Each may be its last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is room: bytes that the new store takes at most, and those free for it: of the file system, beside the old one,
    /// or of its device.
    Beginning {
        needed: u64,
        available: u64,
    },
    /// What an earlier conversion has copied is compared with the old store.
    Resuming(Progress),
    Copying(Progress),
    /// The new store was opened again and is compared with the old one.
    Comparing(Progress),
    /// The new store counts. Its files are being moved, one at a time.
    Moving,
    /// The new store is where the OSD looks for it.
    Moved,
}

/// The listener wants no more: everything is as after a kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the conversion was ended")]
pub struct Ended;

/// Hears of an OSD's conversion.
pub type Listener<'a> = &'a mut dyn FnMut(u32, &Step) -> Result<(), Ended>;

/// What became of an OSD's store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Converted {
    pub osd: u32,
    /// Compared when all was copied; none where only the end was left to do, or nothing.
    pub compared: Progress,
    /// Bytes of data that the old store and the new one hold; a new store's clones share theirs.
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// The old store, where it was kept.
    pub kept: Option<PathBuf>,
    /// Whether there was anything to do.
    pub was_simple: bool,
    /// What the new store lies on.
    pub places: Places,
}

/// Why a store was not converted, or not whole. The old store is as it was, unless the message says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{0} has no cluster")]
    NoCluster(PathBuf),
    #[error("{0} has the store 'mem', which keeps nothing that could be converted")]
    Memory(PathBuf),
    #[error("{dir} has no osd.{osd}, but those from 0 to {last}")]
    NoOsd { dir: PathBuf, osd: u32, last: u32 },
    #[error("osd.{osd}, the old store: {error}")]
    Old { osd: u32, error: simplestore::OpenError },
    #[error("osd.{osd}, the new store: {error}")]
    New { osd: u32, error: blockfile::OpenError },
    #[error(
        "osd.{osd}: the new store takes up to {} beside the old one, and {} are free at {dir}: make room there (the old \
         store is removed when the new one was checked)",
        format_bytes(*needed), format_bytes(*available)
    )]
    NoSpace { osd: u32, dir: PathBuf, needed: u64, available: u64 },
    #[error(
        "osd.{osd}: the new store takes up to {}, and {device} has {}: name a larger device",
        format_bytes(*needed), format_bytes(*bytes)
    )]
    DeviceTooSmall { osd: u32, device: PathBuf, needed: u64, bytes: u64 },
    #[error(
        "{flag} is named {named} times for {osds} OSDs: name one for each OSD that is converted, in the order of their numbers, or \
         convert one alone (--osd N)"
    )]
    Count { flag: &'static str, named: usize, osds: usize },
    #[error("{path} is osd.{other}'s: name another one for osd.{osd}")]
    OfAnother { osd: u32, path: PathBuf, other: u32 },
    #[error(
        "osd.{osd} has a block store already, {}, which no conversion moves; leave --device and --log-device out for it",
        shown(there)
    )]
    Elsewhere { osd: u32, there: Places },
    #[error("osd.{osd}, {collection}: {error}")]
    Transfer { osd: u32, collection: CollectionId, error: TransferError<Ended> },
    #[error("osd.{osd}: {error}")]
    Store { osd: u32, error: StoreError },
    #[error(
        "osd.{osd}: the new store differs from the old one in {collection}, {difference}; the old one counts"
    )]
    Differs { osd: u32, collection: CollectionId, difference: Difference },
    #[error("osd.{osd}: a check of the new store found: {}; the old one counts", .problems.join("; "))]
    Unsound { osd: u32, problems: Vec<String> },
    #[error(
        "osd.{osd}: the new store counts, but its conversion did not get to its end: {error}. Mend that (where there is no space, make \
         room), and run the same command again: it goes on. Until then the OSD may not start"
    )]
    Unfinished { osd: u32, error: Box<ConvertError> },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Where a store lies, as a message says it.
fn shown(places: &Places) -> String {
    let on = |path: &Option<PathBuf>, none: &str| match path {
        Some(path) => format!("on {}", path.display()),
        None => none.to_owned(),
    };
    format!("{} with its log {}", on(&places.device, "in an image file"), on(&places.log, "beside the data"))
}

/// Converts the store of one OSD, or of all, in a directory whose cluster does not run. Where that was done already,
/// only what is left of it is done.
///
/// # Errors
/// See [`ConvertError`]. OSDs before the one that fails are converted; where what is wanted can't be had, none.
pub fn convert(path: &Path, wanted: &Wanted, on: Listener<'_>) -> Result<Vec<Converted>, ConvertError> {
    let mut description = match host::inspect(path)? {
        DirState::Cluster(description) => *description,
        DirState::Empty | DirState::Unfinished => return Err(ConvertError::NoCluster(path.into())),
    };
    if description.store == StoreKind::Mem {
        return Err(ConvertError::Memory(path.into()));
    }
    let osds = wanted.osds(path, &description)?;
    let dir = ClusterDir::lock(path)?;
    let places = wanted.places(dir.path(), &description, osds.clone())?;
    let mut all = Vec::new();
    for (osd, places) in osds.zip(places) {
        let at = dir.path().join(format!("osd.{osd}"));
        let mut of =
            Of { osd, cluster: &dir, description: &mut description, dir: at, wanted, places, on: &mut *on };
        all.push(of.convert()?);
    }
    dir.ended();
    Ok(all)
}

/// The conversion of an OSD's store.
struct Of<'a> {
    osd: u32,
    cluster: &'a ClusterDir,
    description: &'a mut Description,
    /// The OSD's.
    dir: PathBuf,
    wanted: &'a Wanted,
    /// Where the new store is to lie.
    places: Places,
    on: Listener<'a>,
}

impl Of<'_> {
    fn convert(&mut self) -> Result<Converted, ConvertError> {
        let mut done = Converted {
            osd: self.osd,
            compared: Progress::default(),
            bytes_before: 0,
            bytes_after: 0,
            kept: None,
            was_simple: false,
            places: Places::default(),
        };
        let decided = self.dir.join(UNFINISHED_CONVERSION);
        if self.description.store_of(self.osd) == StoreKind::Simple {
            done.was_simple = true;
            if !decided.exists() {
                let old = self.make(&mut done)?;
                rename(&self.dir.join(MAKING), &decided)?;
                // Held until then: what another tool had changed in it since would be lost.
                drop(old);
            }
        }
        let ended = self.after_decision(&decided, &mut done);
        ended.map_err(|error| match error {
            ConvertError::Ended(ended) => ended.into(),
            error => ConvertError::Unfinished { osd: self.osd, error: Box::new(error) },
        })?;
        Ok(done)
    }

    /// What is left to do once the new store counts.
    fn after_decision(&mut self, decided: &Path, done: &mut Converted) -> Result<(), ConvertError> {
        if decided.exists() {
            self.finish(decided)?;
        }
        let old = self.dir.join(OLD);
        done.places = blockfile::places_in(&self.dir);
        if old.exists() && self.wanted.keep {
            done.kept = Some(old);
        } else if old.exists() {
            // Of what is left nothing is used: the order is of no matter.
            for name in [DATA, METADATA, "lock"] {
                remove_file(&old.join(name))?;
            }
            fs::remove_dir(&old).map_err(io_error(&old))?;
        }
        Ok(())
    }

    fn tell(&mut self, step: &Step) -> Result<(), ConvertError> {
        Ok((self.on)(self.osd, step)?)
    }

    /// Makes the new store, whole and checked. Returns the old one, which counts still.
    fn make(&mut self, done: &mut Converted) -> Result<Blocking<SimpleStore>, ConvertError> {
        let osd = self.osd;
        let old = simplestore::open(&self.dir, &simplestore::Options::default());
        let old = old.map_err(|error| ConvertError::Old { osd, error })?;
        let label = old.label();
        let owner = Owner { cluster: label.cluster, osd: label.osd, osd_uuid: label.osd_uuid };
        let label_bytes = label.size_bytes;
        let mut old = Blocking::new(old);
        let space = self.space(&mut old)?;
        let used = space.data_bytes + 4 * space.metadata_bytes;
        let making = self.dir.join(MAKING);
        match self.places.device.clone() {
            None => {
                self.check_space(&making, used + blockfile::logs_bytes(label_bytes, 1, false) + SPACE_BESIDE)?
            }
            Some(device) => self.check_device(device, used)?,
        }
        let mut new = self.open_or_make(&making, &owner, size_of_new(label_bytes, used))?;
        let collections = old.collections().map_err(|error| ConvertError::Store { osd, error })?;
        let there = self.keep_what_is_equal(&mut old, &mut new, &collections)?;
        let mut progress = Progress::default();
        for collection in collections.iter().filter(|collection| !there.contains(collection)) {
            let copied = copy(&mut old, &mut new, *collection, |record| {
                self.count(&mut progress, record, Step::Copying)
            });
            copied.map_err(|error| self.failed(*collection, error))?;
        }
        // What is compared is what a start would find.
        drop(new);
        let mut new = self.open(&making)?;
        for collection in &collections {
            let compared = compare(&mut old, &mut new, *collection, |record| {
                self.count(&mut done.compared, record, Step::Comparing)
            });
            if let Some(difference) = compared.map_err(|error| self.failed(*collection, error))? {
                return Err(ConvertError::Differs { osd, collection: *collection, difference });
            }
        }
        let problems = blockfile::fsck(&mut new, false, &mut |_| ()).problems;
        if !problems.is_empty() {
            return Err(ConvertError::Unsound { osd, problems });
        }
        (done.bytes_before, done.bytes_after) = (space.data_bytes, self.space(&mut new)?.data_bytes);
        Ok(old)
    }

    fn count(
        &mut self,
        progress: &mut Progress,
        record: &Record,
        step: fn(Progress) -> Step,
    ) -> Result<(), Ended> {
        progress.count(record);
        (self.on)(self.osd, &step(*progress))
    }

    fn failed(&self, collection: CollectionId, error: TransferError<Ended>) -> ConvertError {
        match error {
            TransferError::Ended(ended) => ended.into(),
            error => ConvertError::Transfer { osd: self.osd, collection, error },
        }
    }

    fn space<S: ObjectStore>(&self, store: &mut Blocking<S>) -> Result<StatFs, ConvertError> {
        match store.read(ReadRequest::StatFs) {
            Ok(ReadOutcome::StatFs(space)) => Ok(space),
            Ok(other) => Err(ConvertError::Store { osd: self.osd, error: blockfile::unexpected(&other) }),
            Err(error) => Err(ConvertError::Store { osd: self.osd, error }),
        }
    }

    /// What an earlier try has taken counts as there.
    fn check_space(&mut self, making: &Path, needed: u64) -> Result<(), ConvertError> {
        let (_, free) = host::disk_space(&self.dir)?;
        let taken = fs::metadata(making.join(DATA)).map_or(0, |metadata| metadata.blocks() * 512);
        let available = free.saturating_add(taken);
        match available < needed {
            true => Err(ConvertError::NoSpace { osd: self.osd, dir: self.dir.clone(), needed, available }),
            false => self.tell(&Step::Beginning { needed, available }),
        }
    }

    fn check_device(&mut self, device: PathBuf, used: u64) -> Result<(), ConvertError> {
        let osd = self.osd;
        let bytes = blockfile::device_bytes(&device).map_err(|error| ConvertError::New { osd, error })?;
        let needed = needed_for(bytes, used, true);
        match bytes < needed {
            true => Err(ConvertError::DeviceTooSmall { osd, device, needed, bytes }),
            false => self.tell(&Step::Beginning { needed, available: bytes }),
        }
    }

    fn open(&self, dir: &Path) -> Result<Blocking<BlockFileStore>, ConvertError> {
        let opened = blockfile::open_any(dir, &blockfile::Options::default());
        let (store, _, _) = opened.map_err(|error| ConvertError::New { osd: self.osd, error })?;
        Ok(Blocking::new(store))
    }

    /// Opens what an earlier try has made for this owner, where it is to be. Anything else there is no store yet.
    fn open_or_make(
        &self,
        dir: &Path,
        owner: &Owner,
        size_bytes: u64,
    ) -> Result<Blocking<BlockFileStore>, ConvertError> {
        let options = blockfile::Options::default();
        let failed = |error| ConvertError::New { osd: self.osd, error };
        let is_elsewhere = blockfile::places_in(dir) != self.places;
        if is_elsewhere {
            // It is taken back, as far as it still is this OSD's.
            blockfile::unmake(dir, owner.cluster, owner.osd).map_err(failed)?;
        } else if let Ok(store) = blockfile::open(dir, owner, &options) {
            return Ok(Blocking::new(store));
        }
        // What was begun on the same device goes on there.
        if dir.exists() && (is_elsewhere || self.places.device.is_none()) {
            fs::remove_dir_all(dir).map_err(io_error(dir))?;
        }
        let new = self.wanted.new_store(self.cluster.path(), &self.places, size_bytes);
        blockfile::mkfs(dir, owner, &new, &options).map_err(failed)?;
        sync_dir(&self.dir)?;
        self.open(dir)
    }

    /// Removes from the new store what is not as in the old one, and returns what is.
    fn keep_what_is_equal(
        &mut self,
        old: &mut Blocking<SimpleStore>,
        new: &mut Blocking<BlockFileStore>,
        wanted: &[CollectionId],
    ) -> Result<Vec<CollectionId>, ConvertError> {
        let store_error = |osd| move |error| ConvertError::Store { osd, error };
        let (mut equal, mut progress) = (Vec::new(), Progress::default());
        for collection in new.collections().map_err(store_error(self.osd))? {
            let is_whole = match new.read(ReadRequest::Collection { collection }) {
                Ok(ReadOutcome::Collection(Some(stat))) => stat.is_whole(),
                _ => false,
            };
            if is_whole && wanted.contains(&collection) {
                let compared =
                    compare(old, new, collection, |record| self.count(&mut progress, record, Step::Resuming));
                if compared.map_err(|error| self.failed(collection, error))?.is_none() {
                    equal.push(collection);
                    continue;
                }
            }
            remove_collection(new, collection).map_err(store_error(self.osd))?;
        }
        Ok(equal)
    }

    /// Brings the files to their places. The new store counts.
    fn finish(&mut self, decided: &Path) -> Result<(), ConvertError> {
        let (old, dir) = (self.dir.join(OLD), self.dir.clone());
        self.tell(&Step::Moving)?;
        fs::create_dir_all(&old).map_err(io_error(&old))?;
        if dir.join(METADATA).exists() {
            rename(&dir.join(METADATA), &old.join(METADATA))?;
            self.tell(&Step::Moving)?;
        }
        // A device that is gone meanwhile is linked all the same.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let (log_from, log_to) = (blockfile::log_path_in(decided), blockfile::log_path_in(&dir));
        if is_there(&log_from) {
            rename(&log_from, &log_to)?;
            self.tell(&Step::Moving)?;
        }
        if is_there(&decided.join(DATA)) {
            // While the new data is not there, what has its place is the old.
            if dir.join(DATA).exists() {
                rename(&dir.join(DATA), &old.join(DATA))?;
                self.tell(&Step::Moving)?;
            }
            rename(&decided.join(DATA), &dir.join(DATA))?;
            self.tell(&Step::Moving)?;
        }
        self.description.set_store_of(self.osd, StoreKind::Block);
        let Places { device, log } = blockfile::places_in(&dir);
        self.description.set_places_of(self.osd, device, log);
        self.cluster.write_description(self.description)?;
        self.tell(&Step::Moved)?;
        fs::remove_dir_all(decided).map_err(io_error(decided))?;
        sync_dir(&dir)?;
        self.tell(&Step::Moved)
    }
}

/// Bytes of a store that has its log within them, and metadata; of a device it takes all.
fn needed_for(store_bytes: u64, used: u64, is_device: bool) -> u64 {
    used + used / 8 + blockfile::logs_bytes(store_bytes, 1, is_device) + (32 << 20)
}

/// One that is nearly full gets some more than the old one.
fn size_of_new(old_bytes: u64, used: u64) -> u64 {
    old_bytes.max(needed_for(old_bytes, used, false)).next_multiple_of(blockfile::BLOCK_BYTES)
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ConvertError {
    let path = path.to_owned();
    move |error| ConvertError::Io { path, error }
}

fn sync_dir(path: &Path) -> Result<(), ConvertError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(io_error(path))
}

/// Durably, in both directories.
fn rename(from: &Path, to: &Path) -> Result<(), ConvertError> {
    fs::rename(from, to).map_err(io_error(from))?;
    for path in [to, from] {
        path.parent().map_or(Ok(()), sync_dir)?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), ConvertError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(io_error(path)),
    }
}
