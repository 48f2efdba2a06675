//! A leaf of onodes that can't be read costs the objects in it, and nothing beside it or behind it.

use blockdev::DeviceId;
use blockdev::sim::SimDisks;
use blockstore::{BLOCK, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, StoreError, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId};

use crate::common::{Sim, Simulated};

const LOG_BYTES: u64 = 256 << 10;
const SIZE: u64 = 16 << 20;
const BLOCKS: u64 = 4096 + LOG_BYTES + 4 * 4096;

/// Objects of the PG, and as many clones of them, each with another hash than its original.
const OBJECTS: u32 = 200;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u32) -> GHObject {
    let hash = n.wrapping_mul(0x9e37_79b1);
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n:03}").as_str().into(), hash).into()
}

fn all() -> impl Iterator<Item = u32> {
    0..2 * OBJECTS
}

fn contents(n: u32) -> Vec<u8> {
    vec![(n % OBJECTS) as u8; 8192]
}

/// A store whose PG has its onodes in many leaves, none of which has a copy: what is made first, and so has copies, is another
/// collection. It is closed in order, with everything in its tree.
fn filled() -> (Sim, SimDisks) {
    let mut factory = Sim::new(Options::default(), LOG_BYTES);
    let mut h = Harness::new(factory.fresh(SIZE), factory.properties());
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    for n in 1000..1060 {
        h.commit(|t| t.touch(CollectionId::Meta, &object(n)));
    }
    h.commit(|t| t.create_collection(pg(), 0));
    for n in 0..OBJECTS {
        h.commit(|t| t.write(pg(), &object(n), 0, contents(n).into()));
        h.commit(|t| t.clone_object(pg(), &object(n), &object(OBJECTS + n)));
    }
    let simulated = closed(&factory, h);
    (factory, simulated)
}

/// Brings everything into the tree, and closes the store in order.
fn closed(factory: &Sim, mut h: Harness<Simulated>) -> SimDisks {
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
        assert!(!h.store().store.has_failed(), "a checkpoint goes on beside a page that can't be read");
    }
    let Simulated { mut store, disks } = h.take();
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    disks
}

/// Damages the leaf with an object of the PG.
fn damage(disks: &SimDisks, n: u32) {
    let name = format!("object {n:03}");
    let blocks = (BLOCKS..SIZE).step_by(BLOCK as usize);
    let blocks = blocks.map(|at| (at, disks.visible(DeviceId::Data, at, BLOCK as usize)));
    // The first name of a leaf is also in the page above, which begins with its level.
    let is_above = |block: &[u8]| block[0] == 1 && block[3..5] == [0, 0];
    let has_name = |block: &[u8]| block.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    let has_it = |block: &[u8]| has_name(block) && !is_above(block);
    let found = blocks.filter(|(_, block)| has_it(block));
    found.for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
}

fn removal(n: u32) -> Transaction {
    let mut txn = Transaction::new();
    txn.remove(pg(), &object(n));
    txn
}

/// Which objects can't be removed, after all others were.
fn remove_each(h: &mut Harness<Simulated>) -> Vec<u32> {
    let remove = |n: &u32| match h.apply(removal(*n)) {
        Ok(()) => false,
        Err(StoreError::Damaged(_)) => true,
        Err(other) => panic!("object {n}: {other}"),
    };
    all().filter(remove).collect()
}

/// Leaves beside one that can't be read get small, and would be joined with it.
#[test]
fn a_checkpoint_goes_on_beside_a_leaf_that_can_not_be_read() {
    let (factory, disks) = filled();
    for n in [0, 77, 150] {
        damage(&disks, n);
    }
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let left = remove_each(&mut h);
    assert!((3..OBJECTS as usize).contains(&left.len()), "{} are left", left.len());
    let disks = closed(&factory, h);
    // Also from the tree that it has made.
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    assert_eq!(remove_each(&mut h), left);
    h.commit(|t| t.set_info(CollectionId::Meta, b"another".to_vec()));
    closed(&factory, h);
}
