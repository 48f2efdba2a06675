//! Removing a PG of an OSD that does not run, as far as it can be read.
//!
//! Nothing is given up that something unreadable may need. A block is free when a record of a map that was read gives it up, and the
//! store's own count, which lies apart from the objects, says that nothing else maps it; an object of which one of these can't be
//! read stays, and so does the collection while a part of its list can't be read.

use std::collections::BTreeMap;

use blockfile::{Blocking, Walk};
use store::{CollectionId, Left, ObjectStore, ReadOutcome, ReadRequest, StoreError, Transaction, UNFINISHED};
use types::{GHObject, PgId};

use crate::{Ended, PgError, Progress, is_whole};

/// Removes a PG, whole or not, with everything that the store has of it. `on` hears of objects and bytes before they are removed. Ended
/// at any point, what is left is no PG, and the next removal goes on.
///
/// # Errors
/// See [`PgError`]. All objects that can be listed and removed are removed, though others can't.
pub fn remove<S: ObjectStore>(
    store: &mut Blocking<S>,
    pg: PgId,
    on: &mut dyn FnMut(&Progress) -> Result<(), Ended>,
) -> Result<Progress, PgError> {
    let collection = CollectionId::Pg(pg.into());
    if is_whole(store, collection)?.is_none() {
        return Err(PgError::NoPg(pg));
    }
    let mut txn = Transaction::new();
    txn.set_info(collection, UNFINISHED.to_vec());
    store.commit(txn)?;
    let mut removed = Progress { collections: 1, ..Progress::default() };
    let mut left: Option<Left> = None;
    let mut walk = Walk::new(collection);
    loop {
        let objects = match walk.next(store) {
            Ok(Some(objects)) => objects,
            Ok(None) => break,
            // This store can't say where its list goes on.
            Err(why) => {
                Left::add(&mut left, (0, 1), &why);
                break;
            }
        };
        on(&removed)?;
        let sizes = sizes(store, collection, &objects);
        for (object, why) in remove_objects(store, collection, &objects)? {
            if let Some(why) = why {
                Left::add(&mut left, (1, 0), &why);
            } else if !object.is_pgmeta() {
                removed.objects += 1;
                removed.bytes += sizes.get(object).copied().unwrap_or_default();
            }
        }
    }
    walk.gaps().iter().for_each(|gap| Left::add(&mut left, (0, 1), &gap.why));
    if let Some(left) = left {
        return Err(PgError::Remains { pg, removed, left: Box::new(left) });
    }
    let mut txn = Transaction::new();
    txn.remove_collection(collection);
    match store.commit(txn) {
        Err(why) if why.is_local() => {
            let left = Box::new(Left { objects: 0, gaps: 0, why });
            Err(PgError::Remains { pg, removed, left })
        }
        ended => ended.map(|()| removed).map_err(PgError::from),
    }
}

/// Of those whose sizes can be read.
fn sizes<'a, S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
    objects: &'a [GHObject],
) -> BTreeMap<&'a GHObject, u64> {
    let size =
        |object: &'a GHObject| match store.read(ReadRequest::Stat { collection, object: object.clone() }) {
            Ok(ReadOutcome::Stat(stat)) => Some((object, stat.size)),
            _ => None,
        };
    objects.iter().filter_map(size).collect()
}

/// Removes objects, and says of each why it is left, if it is.
///
/// # Errors
/// The store fails as a whole.
fn remove_objects<'a, S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
    objects: &'a [GHObject],
) -> Result<Vec<(&'a GHObject, Option<StoreError>)>, StoreError> {
    let mut remove = |objects: &[GHObject]| {
        let mut txn = Transaction::new();
        for object in objects {
            txn.remove(collection, object);
        }
        store.commit(txn)
    };
    match remove(objects) {
        Ok(()) => return Ok(objects.iter().map(|object| (object, None)).collect()),
        Err(error) if !error.is_local() => return Err(error),
        Err(_) => {}
    }
    // One of them alone may be why.
    let each = objects.iter().map(|object| match remove(std::slice::from_ref(object)) {
        Err(error) if !error.is_local() => Err(error),
        removed => Ok((object, removed.err())),
    });
    each.collect()
}
