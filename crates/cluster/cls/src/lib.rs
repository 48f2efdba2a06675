//! Object classes: the methods that clients call on objects, by the names of Ceph's `libcls_*`.
//!
//! A class is a module with a static [`ObjectClass`], and a row of [`CLASSES`]. What a class keeps in objects and
//! exchanges with clients is Ceph's, byte for byte. A method is an ordinary function over [`ops::ClassContext`]; it hands
//! on what its reads return with `?`, since a read that is not resident makes the request run again from its start.
//! This crate knows no PG and no store.

mod by_time;
mod cas;
mod cas_refs;
mod cephfs;
mod cmpomap;
mod hello;
mod journal;
mod keys;
mod lock;
mod lock_types;
mod log;
mod numops;
mod rbd;
mod refcount;
mod sdk;
#[cfg(feature = "testing")]
pub mod testing;
mod timeindex;
mod version;

#[cfg(test)]
mod corpus;

use ops::{ClassFilter, ObjectClass};

pub use lock::lock_holders;

/// Every class, sorted by name.
pub static CLASSES: &[&ObjectClass] = &[
    &cas::CLASS,
    &cephfs::CLASS,
    &cmpomap::CLASS,
    &hello::CLASS,
    &journal::CLASS,
    &lock::CLASS,
    &log::CLASS,
    &numops::CLASS,
    &rbd::CLASS,
    &refcount::CLASS,
    &sdk::CLASS,
    &timeindex::CLASS,
    &version::CLASS,
];

/// The filters of listings that classes have.
pub static FILTERS: &[ClassFilter] = &[cephfs::INODE_TAG, hello::HELLO];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_into_an_operation() {
        assert!(CLASSES.is_sorted_by(|a, b| a.name < b.name));
        for class in CLASSES {
            let names: BTreeSet<&str> = class.methods.iter().map(|m| m.name).collect();
            assert_eq!(names.len(), class.methods.len(), "{class:?}");
            assert!(names.iter().all(|name| (1..=255).contains(&name.len())), "{class:?}");
        }
    }
}
