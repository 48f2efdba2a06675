//! Mending the metadata of a store that is not in use.

use blockstore::Checker;
use store::{ObjectStore, StoreError};

use crate::blocking::Blocking;
use crate::fsck::in_one_place;
use crate::store::BlockFileStore;

/// What a check found, and what of it is there no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// A sentence each, as the check before had it.
    pub mended: Vec<String>,
    /// What a check found afterwards.
    pub left: Vec<String>,
}

/// Checks the metadata and makes what was counted, and what belongs to no object, fit the objects: durably, in one
/// transaction a shard. A record or data that can't be read stays as it is; where metadata can't be read, all of the shard does.
///
/// # Errors
/// A shard refuses the change: it has no room, or can't read a page. That shard stays as it was. Or the device fails: then the
/// change is there or not, as after a power loss.
pub fn repair(store: &mut Blocking<BlockFileStore>) -> Result<Mended, StoreError> {
    let mut all = Mended::default();
    let shards = store.store().shards();
    for shard in 0..shards {
        let Mended { mended, left } = repair_shard(store, shard as usize)?;
        let named = |problem| if shards > 1 { format!("shard {shard}: {problem}") } else { problem };
        all.mended.extend(mended.into_iter().map(named));
        all.left.extend(left.into_iter().map(named));
    }
    Ok(all)
}

fn repair_shard(store: &mut Blocking<BlockFileStore>, shard: usize) -> Result<Mended, StoreError> {
    let (checker, before, note) = checked(store, shard);
    if before.is_empty() && note.is_none() || !checker.can_repair() {
        return Ok(Mended { mended: Vec::new(), left: before });
    }
    if !before.is_empty() {
        store.drive(|store, _| {
            store.handles().get_mut(shard).map_or(Some(Ok(())), |h| checker.repair(h.inner()))
        })?;
    }
    // What is in the tree is what every opening finds.
    if let Some(handle) = store.store().handles().get_mut(shard) {
        handle.inner().request_checkpoint();
    }
    store.drive(|store, _| store.handles().get_mut(shard).map_or(Some(Ok(())), |h| h.inner().emptied()))?;
    let (_, mut left, still) = checked(store, shard);
    left.extend(still);
    let mended = before.into_iter().chain(note).filter(|problem| !left.contains(problem)).collect();
    Ok(Mended { mended, left })
}

/// The check, its problems, and what is to be said of pages in one place.
fn checked(store: &mut Blocking<BlockFileStore>, shard: usize) -> (Checker, Vec<String>, Option<String>) {
    let mut checker = Checker::new();
    let problems = store.drive(|store, _| match store.handles().get_mut(shard) {
        Some(handle) => checker.advance(handle.inner()),
        None => Some(Vec::new()),
    });
    let note = store.store().handles().get_mut(shard).and_then(|handle| in_one_place(handle.inner()));
    (checker, problems, note)
}
