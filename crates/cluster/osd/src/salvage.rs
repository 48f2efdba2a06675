//! What an OSD's store knows of its cluster, read while the OSD does not run: for a monitor whose state is lost.

use messages::OsdSuperblock;
use store::{Completion, ReadRequest};
use types::{Epoch, GHObject};

use maps::OsdMap;

use crate::control::map_reader::{MapRead, MapReader};
use crate::control::superblock::{read_meta, superblock_objects, superblock_of};

/// How many epochs before the newest are tried where that can't be read.
const EPOCHS_TRIED: u32 = 64;

/// What an OSD's store knows.
#[derive(Debug)]
pub struct Salvaged {
    pub superblock: OsdSuperblock,
    /// The newest map that can be read. `None`: none was ever stored.
    pub map: Option<Box<OsdMap>>,
    /// Why newer maps can't be, where there are any.
    pub damaged: Option<String>,
}

/// Reads a store's superblock and its newest map. `read` answers a read of the store, or says why it can't.
///
/// # Errors
/// The superblock can't be read, or no map can.
pub fn salvage(mut read: impl FnMut(ReadRequest) -> Result<Completion, String>) -> Result<Salvaged, String> {
    let [object, copy] = superblock_objects();
    let superblock = match read_superblock(object, &mut read) {
        Ok(superblock) => superblock,
        Err(why) => read_superblock(copy, &mut read)
            .map_err(|_| format!("the superblock can't be read, nor its copy: {why}"))?,
    };
    let newest = superblock.newest_map;
    if newest == Epoch(0) {
        return Ok(Salvaged { superblock, map: None, damaged: None });
    }
    let oldest = superblock.oldest_map.0.max(newest.0.saturating_sub(EPOCHS_TRIED)).max(1);
    let mut damaged = None;
    for epoch in (oldest..=newest.0).rev().map(Epoch) {
        let why = match read_map(epoch, &mut read) {
            Ok(Some(map)) => return Ok(Salvaged { superblock, map: Some(map), damaged }),
            Ok(None) => format!("map {epoch} is not stored"),
            Err(why) => why,
        };
        damaged.get_or_insert(why);
    }
    Err(damaged.unwrap_or_else(|| format!("no map up to {newest} is stored")))
}

fn read_superblock(
    object: GHObject,
    read: &mut impl FnMut(ReadRequest) -> Result<Completion, String>,
) -> Result<OsdSuperblock, String> {
    match read(read_meta(object))? {
        Completion::Read { result, .. } => superblock_of(result),
        other => Err(format!("the store answered something else to a read: {other:?}")),
    }
}

fn read_map(
    epoch: Epoch,
    read: &mut impl FnMut(ReadRequest) -> Result<Completion, String>,
) -> Result<Option<Box<OsdMap>>, String> {
    let mut reader = MapReader::new(epoch, None);
    loop {
        if let MapRead::Done(found) = reader.on_read(read(reader.request())?) {
            return Ok(found?.map(|found| Box::new(found.map)));
        }
    }
}

#[cfg(test)]
mod tests {
    use maps::{Incremental, MapFlags, NewCluster, Publication, publish};
    use store::{CollectionId, MemStore, ObjectStore, Token, Transaction};
    use types::{Fsid, GHObject, OsdId, Release, UTime};

    use super::*;
    use crate::control::superblock::{full_map_object, inc_map_object, new_superblock, store_superblock};

    fn epochs(count: u32) -> Vec<Publication> {
        let (fsid, created) = (Fsid([1; 16]), UTime::default());
        let cluster = NewCluster { fsid, created, release: Release::PACIFIC, failure_domain: "host".into() };
        let mut all = vec![publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap()];
        for epoch in (2..=count).map(Epoch) {
            let last = &all.last().unwrap().map;
            let mut increment = Incremental::new(fsid, epoch, UTime { sec: epoch.0, nsec: 0 });
            increment.new_flags = Some(last.flags ^ MapFlags::NOUP);
            all.push(publish(last, increment).unwrap());
        }
        all
    }

    /// A store with a superblock and the objects given.
    fn store(newest: u32, objects: Vec<(GHObject, Vec<u8>)>) -> MemStore {
        let mut store = MemStore::handles(1 << 30, 1).remove(0);
        let mut txn = Transaction::new();
        txn.create_collection(CollectionId::Meta, 0);
        let superblock = OsdSuperblock {
            oldest_map: Epoch(1),
            newest_map: Epoch(newest),
            ..new_superblock(Fsid([1; 16]), OsdId(3), Fsid([2; 16]))
        };
        store_superblock(&superblock, &mut txn);
        for (object, bytes) in objects {
            txn.write(CollectionId::Meta, &object, 0, bytes.into());
        }
        store.queue(txn, Token(0));
        store.turn(UTime::default());
        store.completions(&mut Vec::new());
        store
    }

    fn salvaged(store: MemStore) -> Result<Salvaged, String> {
        salvaged_but_for(store, &[])
    }

    /// The same where the device does not give these objects back.
    fn salvaged_but_for(mut store: MemStore, unread: &[GHObject]) -> Result<Salvaged, String> {
        salvage(|request| {
            if matches!(&request, ReadRequest::Data { object, .. } if unread.contains(object)) {
                let error = store::StoreError::Damaged("a flipped bit".into());
                return Ok(Completion::Read { token: Token(1), result: Err(error) });
            }
            let mut done = Vec::new();
            store.read(request, Token(1));
            store.turn(UTime::default());
            store.completions(&mut done);
            done.pop().ok_or_else(|| "no answer".into())
        })
    }

    fn stored(all: &[Publication]) -> Vec<(GHObject, Vec<u8>)> {
        let increments = all[1..].iter().map(|p| (inc_map_object(p.map.epoch), p.incremental.clone()));
        increments.chain([(full_map_object(Epoch(1)), all[0].full.clone())]).collect()
    }

    #[test]
    fn the_newest_map_is_made_of_a_whole_one_and_increments() {
        let all = epochs(7);
        let found = salvaged(store(7, stored(&all))).unwrap();
        assert_eq!((found.superblock.whoami, found.damaged), (OsdId(3), None));
        assert_eq!(*found.map.unwrap(), all[6].map);
    }

    #[test]
    fn where_the_newest_is_damaged_the_one_before_counts_and_the_damage_is_named() {
        let all = epochs(7);
        let mut objects = stored(&all);
        objects[5].1[20] ^= 0xff;
        let found = salvaged(store(7, objects)).unwrap();
        assert_eq!(found.map.unwrap().epoch, Epoch(6));
        assert!(found.damaged.unwrap().contains("map 7"));
    }

    #[test]
    fn a_map_that_cannot_be_read_is_made_in_the_other_way() {
        let all = epochs(4);
        let both = || {
            let mut objects = stored(&all);
            objects.push((full_map_object(Epoch(4)), all[3].full.clone()));
            store(4, objects)
        };
        for unread in [full_map_object(Epoch(4)), inc_map_object(Epoch(4))] {
            let found = salvaged_but_for(both(), &[unread]).unwrap();
            assert_eq!((*found.map.unwrap(), found.damaged), (all[3].map.clone(), None));
        }
        // Without another way the map before counts, and the increment is named.
        let (whole, last) = (full_map_object(Epoch(4)), inc_map_object(Epoch(4)));
        let found = salvaged_but_for(both(), &[whole.clone(), last]).unwrap();
        assert_eq!(found.map.unwrap().epoch, Epoch(3));
        let why = found.damaged.unwrap();
        assert!(why.contains("increment to map 4 can't be read") && why.contains("flipped"), "{why}");
        let found = salvaged_but_for(both(), &[whole, inc_map_object(Epoch(3))]).unwrap();
        assert_eq!(found.map.unwrap().epoch, Epoch(2));
    }

    #[test]
    fn a_store_without_maps_or_without_a_superblock_says_so() {
        assert!(salvaged(store(0, vec![])).unwrap().map.is_none());
        assert!(salvaged(store(5, vec![])).is_err());
        let mut empty = MemStore::handles(1 << 30, 1).remove(0);
        let mut txn = Transaction::new();
        txn.create_collection(CollectionId::Meta, 0);
        empty.queue(txn, Token(0));
        empty.turn(UTime::default());
        empty.completions(&mut Vec::new());
        assert!(salvaged(empty).unwrap_err().contains("superblock"));
    }
}
