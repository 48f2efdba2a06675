//! What an opening loads: which blocks the tree takes, which hold data, and what the log changed since. Nothing is written meanwhile.

use std::ops::Bound;

use blockdev::DeviceQueue;
use store::{Compressed, ReadRequest};
use types::UTime;

use crate::batch::Batch;
use crate::context::NOTHING_FETCHED;
use crate::layer::Layer;
use crate::layout::features;
use crate::open::OpenError;
use crate::packer::{decode_counted, pool_of};
use crate::page::{Key, PagePtr};
use crate::pool_use::{Counted, PoolUse};
use crate::records::{region_of, table};
use crate::stop::{Attempt, Stop, damaged};
use crate::store::BlockStore;

/// Pages that are read together.
const PAGES_AT_ONCE: usize = 64;

/// What is left to be loaded.
pub struct Loading {
    /// Pages whose pointers are to be followed; those of leaves only count.
    inner: Vec<PagePtr>,
    root_taken: bool,
    /// Where the bitmap goes on; `None` when it is loaded.
    bitmap: Option<Key>,
    batches: Vec<Batch>,
    /// Only the collections' keys are still to be read.
    counted: bool,
}

impl Loading {
    pub fn new(root: Option<PagePtr>, batches: Vec<Batch>) -> Self {
        let inner = root.into_iter().collect();
        Self {
            inner,
            root_taken: false,
            bitmap: Some(Key::from_slice(&[table::BITMAP])),
            batches,
            counted: false,
        }
    }

    /// Returns whether everything is loaded.
    ///
    /// # Errors
    /// The tree or the log is damaged, or can't be read.
    pub fn advance<Q: DeviceQueue>(
        &mut self,
        store: &mut BlockStore<Q>,
        now: UTime,
    ) -> Result<bool, OpenError> {
        store.drive(now);
        let stop = match self.load(store) {
            Ok(()) => return Ok(true),
            Err(stop) => stop,
        };
        match stop {
            Stop::Pages(missing) => store.read_pages(missing),
            Stop::Error(error) if self.counted => {
                return Err(OpenError::Collections { shard: store.names.1, error });
            }
            Stop::Error(error) => return Err(error.into()),
            Stop::Blocks(_) | Stop::LogRoom | Stop::NextRecord | Stop::Space | Stop::Announcement => {}
        }
        for ptr in self.inner.iter().rev().take(PAGES_AT_ONCE) {
            if store.tables.pages.get(ptr).is_err() {
                store.read_pages([ptr.clone()]);
            }
        }
        store.io.submit(now);
        Ok(false)
    }

    fn load<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>) -> Attempt<()> {
        if store.damage.is_some() {
            // Nothing will be written: no one needs to know what is free.
            match load_stranded(store) {
                Ok(()) => {}
                Err(Stop::Error(error)) => {
                    let what = format!(
                        "shard {}: the last changes of pages that can't be read are left out, since their notes can't be read, \
                         either: {error}",
                        store.names.1
                    );
                    store.damage.get_or_insert_default().push(what);
                }
                Err(stop) => return Err(stop),
            }
            std::mem::take(&mut self.batches).into_iter().for_each(|batch| show(store, batch));
            store.only_read();
            return Ok(());
        }
        if !self.counted {
            self.count(store)?;
            self.counted = true;
        }
        // No one serves a shard whose collections are not known: it is refused before anything is written to it.
        store.context(&NOTHING_FETCHED).perform(&ReadRequest::Collections).map(drop)
    }

    fn count<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>) -> Attempt<()> {
        self.take_pages(store)?;
        self.load_bitmap(store)?;
        load_packed(store)?;
        load_pool_use(store)?;
        load_stranded(store)?;
        for batch in std::mem::take(&mut self.batches) {
            replay(store, batch)?;
        }
        let payloads: Vec<u64> = store.payloads.iter().flat_map(|(_, blocks)| blocks).copied().collect();
        match store.space.opened() && store.space.take(payloads) {
            true => Ok(()),
            false => Err(damaged("a block holds two of data, a page of the tree and a part of the log")),
        }
    }

    fn take_pages<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>) -> Attempt<()> {
        while let Some(ptr) = self.inner.last() {
            let page = store.tables.pages.get(ptr)?.clone();
            if !self.root_taken {
                take(store, ptr)?;
                self.root_taken = true;
            }
            self.inner.pop();
            if page.level == 0 {
                continue;
            }
            for (_, value) in page.entries() {
                let child = PagePtr::decode(value).map_err(damaged)?;
                take(store, &child)?;
                if page.level > 1 {
                    self.inner.push(child);
                }
            }
        }
        Ok(())
    }

    fn load_bitmap<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>) -> Attempt<()> {
        let end = [table::BITMAP + 1];
        while let Some(from) = &self.bitmap {
            let Some((key, bytes)) = store.tables.next(&Layer::new(), from, Some(&end))? else {
                self.bitmap = None;
                return Ok(());
            };
            let region = region_of(&key).ok_or_else(|| damaged("a key of the bitmap"))?;
            if !store.space.load(region, &bytes) {
                return Err(damaged("a part of the bitmap of blocks with data"));
            }
            let mut next = key;
            next.push(0);
            self.bitmap = Some(next);
        }
        Ok(())
    }
}

/// Loads how much is compressed, as of the tree.
fn load_packed<Q: DeviceQueue>(store: &mut BlockStore<Q>) -> Attempt<()> {
    if !store.packer.is_announced {
        return Ok(());
    }
    for_each(store, table::COMPRESSED, |store, key, value| note_packed(store, key, Some(value)))
}

/// Loads what pools take, as of the tree.
fn load_pool_use<Q: DeviceQueue>(store: &mut BlockStore<Q>) -> Attempt<()> {
    let mut pools = PoolUse::new(Counted::of_features(store.features));
    if pools.counted.blocks() {
        for_each(store, table::POOL_USE, |_, key, value| {
            let pool = pool_of(key).ok_or_else(|| damaged("a key of what a pool takes"))?;
            pools.load(pool, value).map_err(damaged)
        })?;
        store.pool_use = pools;
    }
    Ok(())
}

/// Hands out each key of a table, with its value, as of the tree.
fn for_each<Q: DeviceQueue>(
    store: &mut BlockStore<Q>,
    table: u8,
    mut load: impl FnMut(&mut BlockStore<Q>, &[u8], &[u8]) -> Attempt<()>,
) -> Attempt<()> {
    let (mut from, end) = (Key::from_slice(&[table]), [table + 1]);
    while let Some((key, value)) = store.tables.next(&Layer::new(), &from, Some(&end))? {
        load(store, &key, &value)?;
        from = key;
        from.push(0);
    }
    Ok(())
}

/// Loads the changes that are not in the tree but noted in it.
fn load_stranded<Q: DeviceQueue>(store: &mut BlockStore<Q>) -> Attempt<()> {
    match store.features & features::STRANDED {
        0 => Ok(()),
        _ => store.tables.load_stranded(),
    }
}

fn note_packed<Q: DeviceQueue>(store: &mut BlockStore<Q>, key: &[u8], value: Option<&[u8]>) -> Attempt<()> {
    let pool = pool_of(key).ok_or_else(|| damaged("a key of what is compressed"))?;
    let counted = value.map_or(Ok(Compressed::default()), decode_counted).map_err(damaged)?;
    store.packer.note([(pool, counted)]);
    Ok(())
}

fn take<Q: DeviceQueue>(store: &mut BlockStore<Q>, ptr: &PagePtr) -> Attempt<()> {
    store.tree_blocks += ptr.block_count();
    match store.space.take(ptr.blocks()) {
        true => Ok(()),
        false => Err(damaged("two pages of the tree share a block, or one lies outside of the shard")),
    }
}

fn replay<Q: DeviceQueue>(store: &mut BlockStore<Q>, batch: Batch) -> Attempt<()> {
    if !store.space.replay(&batch.allocated, &batch.freed) {
        return Err(damaged("a record of the log takes a block twice, or frees one that holds nothing"));
    }
    store.pool_use.note(&batch.pools);
    let packed = (Bound::Included(&[table::COMPRESSED][..]), Bound::Excluded(&[table::COMPRESSED + 1][..]));
    for (key, value) in batch.changes.range::<[u8], _>(packed) {
        note_packed(store, key, value.as_deref())?;
    }
    show(store, batch);
    Ok(())
}

/// Has what a record changes seen by what is read.
fn show<Q: DeviceQueue>(store: &mut BlockStore<Q>, batch: Batch) {
    for block in batch.freed.iter().flat_map(|run| run.blocks()) {
        store.contents.deferred.remove(&block);
    }
    store.contents.deferred.extend(batch.deferred);
    store.counters = batch.counters;
    store.tables.apply(batch.changes);
}
