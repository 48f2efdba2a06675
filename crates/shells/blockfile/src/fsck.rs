//! Checking a store that is not in use.

use blockstore::{BlockStore, Checker};
use store::{Advice, CollectionId, ObjectGap, ObjectStore, ReadOutcome, ReadRequest, StoreError};
use types::{EVersion, GHObject, Name};

use crate::blocking::{Blocking, unexpected};
use crate::open::Queue;
use crate::store::BlockFileStore;
use crate::walk::Walk;

/// Bytes of an object that are read at once.
const READ_BYTES: u64 = 4 << 20;

/// Records of a log, and keys of an omap, that are read at once.
const RECORDS: usize = 10_000;
const RECORDS_BYTES: usize = 16 << 20;

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// A sentence each.
    pub problems: Vec<String>,
    /// What was met that a power loss may leave, too: a sentence each.
    pub notes: Vec<String>,
    pub collections: u64,
    /// Objects read whole.
    pub objects: u64,
    /// Bytes of data read.
    pub bytes: u64,
}

/// Holds the store's metadata against itself; `deep` reads every object, with its attributes and its omap, and every
/// log too. `progress` hears of it now and then.
pub fn fsck(
    store: &mut Blocking<BlockFileStore>,
    deep: bool,
    progress: &mut dyn FnMut(&Findings),
) -> Findings {
    let mut found = Findings::default();
    let shards = store.store().shards();
    for shard in 0..shards {
        let mut checker = Checker::new();
        let problems = store.drive(|store, _| match store.handles().get_mut(shard as usize) {
            Some(handle) => checker.advance(handle.inner()),
            None => Some(Vec::new()),
        });
        if let Some(handle) = store.store().handles().get_mut(shard as usize) {
            let mut notes = unread_superblocks(handle.inner());
            notes.extend(in_one_place(handle.inner()));
            notes.extend(stranded(handle.inner()));
            found.notes.extend(notes.into_iter().map(|note| format!("shard {shard}: {note}")));
        }
        let named = |problem| if shards > 1 { format!("shard {shard}: {problem}") } else { problem };
        found.problems.extend(problems.into_iter().map(named));
        progress(&found);
    }
    match store.collections() {
        Ok(collections) => {
            for collection in collections {
                found.collections += 1;
                if deep {
                    read_collection(store, collection, &mut found, progress);
                }
            }
        }
        Err(error) => found.problems.push(format!("the collections can't be listed: {error}")),
    }
    found
}

/// What is to be said of superblocks that could not be read when the shard was opened.
pub(crate) fn unread_superblocks(shard: &BlockStore<Queue>) -> Vec<String> {
    let note = |at: &u64| {
        format!(
            "the superblock at byte {at} could not be read: a power loss while it was written leaves that, and so does damage; another \
             one counts"
        )
    };
    shard.unread_superblocks().iter().map(note).collect()
}

/// What is to be said of pages of the tree that can be read in one place alone.
pub(crate) fn in_one_place(shard: &BlockStore<Queue>) -> Option<String> {
    let what = match shard.pages_in_one_place() {
        0 => return None,
        1 => "a page of the tree".to_owned(),
        pages => format!("{pages} pages of the tree"),
    };
    Some(format!("{what} can be read in one of two places alone: the next checkpoint writes it anew"))
}

/// What is to be said of changes whose pages of the tree can't be read.
pub(crate) fn stranded(shard: &BlockStore<Queue>) -> Option<String> {
    let what = match shard.stranded_changes() {
        0 => return None,
        1 => "a change belongs".to_owned(),
        changes => format!("{changes} changes belong"),
    };
    Some(format!(
        "{what} to a page of the tree that can't be read: they are kept apart, and found; fsck names the page, and 'loligo store export \
         --damaged' takes out of the PG what can be read"
    ))
}

/// Reads a collection, also behind what can't be read of its list.
fn read_collection(
    store: &mut Blocking<BlockFileStore>,
    collection: CollectionId,
    found: &mut Findings,
    progress: &mut dyn FnMut(&Findings),
) {
    let mut walk = Walk::new(collection);
    loop {
        let objects = match walk.next(store) {
            Ok(Some(objects)) => objects,
            Ok(None) => break,
            Err(error) => {
                found.problems.push(format!("the objects of {collection} can't be listed: {error}"));
                break;
            }
        };
        for object in objects {
            match read_object(store, collection, &object, found) {
                Ok(()) => {}
                // It names the object itself.
                Err(error @ StoreError::Checksum { .. }) => found.problems.push(error.to_string()),
                Err(error) => found.problems.push(format!("object {object} of {collection}: {error}")),
            }
            found.objects += 1;
            progress(found);
        }
    }
    for ObjectGap { from, behind, why } in walk.gaps() {
        let end = behind.as_ref().map_or_else(String::new, |behind| format!(" before {behind}"));
        found.problems.push(format!("objects of {collection} from {from} on{end} were not read: {why}"));
    }
    if let Err(error) = read_log(store, collection) {
        found.problems.push(format!("the log of {collection}: {error}"));
    }
}

fn read_object<S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
    object: &GHObject,
    found: &mut Findings,
) -> Result<(), StoreError> {
    let stat = store.read(ReadRequest::Stat { collection, object: object.clone() })?;
    let ReadOutcome::Stat(stat) = stat else { return Err(unexpected(&stat)) };
    store.read(ReadRequest::Attrs { collection, object: object.clone() })?;
    store.read(ReadRequest::OmapHeader { collection, object: object.clone() })?;
    read_omap(store, collection, object)?;
    for offset in (0..stat.size).step_by(READ_BYTES as usize) {
        let (object, advice) = (object.clone(), Advice::default());
        let read = ReadRequest::Data { collection, object, offset, len: READ_BYTES, advice, verify: true };
        match store.read(read)? {
            ReadOutcome::Data(data) => found.bytes += data.len() as u64,
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

fn read_omap<S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
    object: &GHObject,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let page = store.read(ReadRequest::OmapRange {
            collection,
            object: object.clone(),
            after: after.take(),
            before: None,
            prefix: Name::new(),
            entries_max: RECORDS,
            bytes_max: RECORDS_BYTES,
            values: true,
        })?;
        let ReadOutcome::Omap(page) = page else { return Err(unexpected(&page)) };
        match page.entries.last().filter(|_| page.more) {
            Some((key, _)) => after = Some(key.clone()),
            None => return Ok(()),
        }
    }
}

fn read_log<S: ObjectStore>(store: &mut Blocking<S>, collection: CollectionId) -> Result<(), StoreError> {
    let mut after = EVersion::default();
    loop {
        let (records_max, bytes_max) = (RECORDS, RECORDS_BYTES);
        let page = store.read(ReadRequest::Log { collection, after, records_max, bytes_max })?;
        let ReadOutcome::Log(page) = page else { return Err(unexpected(&page)) };
        match page.records.last().filter(|_| page.more) {
            Some(record) => after = record.version,
            None => return Ok(()),
        }
    }
}
