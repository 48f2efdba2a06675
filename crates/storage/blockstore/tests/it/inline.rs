//! Parts of objects that lie in their onodes while they are small, and leave and come back as they grow and shrink.

use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{AttrChoice, Attrs, CollectionId, ObjectStore, ReadOutcome, ReadRequest};
use types::{GHObject, HObject, Name, PoolId};

use crate::common::{Sim, Simulated, check};

const C: CollectionId = CollectionId::Meta;

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 3).into()
}

fn attrs_of(h: &mut Harness<Simulated>, object: &GHObject, attrs: AttrChoice) -> Attrs {
    match h.get(ReadRequest::Object { collection: C, object: object.clone(), attrs }) {
        Ok(ReadOutcome::Object(Some(head))) => head.attrs,
        other => panic!("{object} is there: {other:?}"),
    }
}

/// Bytes of the object, of its object info, and of its SnapSet: each on both sides of what an onode takes.
const LENGTHS: [(usize, [usize; 2]); 8] = [
    (4096, [280, 31]),
    (4096, [512, 128]),
    (4096, [513, 129]),
    (90_000, [280, 31]),
    (90_000, [513, 31]),
    (4096, [10, 129]),
    (300_000, [0, 0]),
    (4096, [280, 31]),
];

#[test]
fn parts_leave_an_onode_and_come_back_as_they_grow_and_shrink() {
    let factory = Sim::new(Options::default(), 1 << 20);
    let mut h = Harness::new(factory.clone().fresh(16 << 20), factory.properties());
    let (a, clone) = (object("a"), object("a clone"));
    h.commit(|t| t.create_collection(C, 0));
    for round in 0..3 {
        for (n, (bytes, [info, snapset])) in LENGTHS.into_iter().enumerate() {
            let mark = (round * LENGTHS.len() + n + 1) as u8;
            h.commit(|t| {
                t.truncate(C, &a, 100).write(C, &a, 0, vec![mark; bytes].into());
                t.set_attr(C, &a, "_", vec![mark; info]).set_attr(C, &a, "snapset", vec![mark; snapset])
            });
            // Of the second round the clone's parts are replaced while it has others, of the third some have keys before.
            let other = if round == 2 { "_client" } else { "other" };
            h.commit(|t| t.clone_object(C, &a, &clone).set_attr(C, &clone, other, vec![mark]));
            if round > 0 {
                h.store().store.request_checkpoint();
            }
            let mut simulated = h.take();
            check(&mut simulated, &format!("round {round}, lengths {n}"));
            h = Harness::new(simulated, factory.properties());
            let own = [("_", vec![mark; info]), ("snapset", vec![mark; snapset])];
            let own = own.map(|(name, value)| (Name::from(name), value.into()));
            for object in [&a, &clone] {
                assert!(h.data(C, object) == vec![mark; bytes], "{object} in round {round}, lengths {n}");
                let these = ["snapset", "none", "_"].map(Name::from).into_iter().collect();
                assert_eq!(attrs_of(&mut h, object, AttrChoice::These(these)), own.clone().into());
            }
            assert_eq!(attrs_of(&mut h, &a, AttrChoice::All), own.clone().into());
            let with_other = own.into_iter().chain([(Name::from(other), vec![mark].into())]);
            assert_eq!(attrs_of(&mut h, &clone, AttrChoice::All), with_other.collect());
        }
    }
    h.commit(|t| t.remove(C, &a));
    h.commit(|t| t.remove(C, &clone));
    let mut simulated = h.take();
    factory.drain(&mut simulated);
    check(&mut simulated, "without objects");
    let Some(Ok(ReadOutcome::StatFs(space))) = simulated.store.peek(&ReadRequest::StatFs) else {
        panic!("it is known")
    };
    assert_eq!(space.data_bytes, 0, "all blocks were given up");
}

/// The record of the source in the onode has few of the blocks of a range that is shared.
#[test]
fn a_record_in_an_onode_is_shared_with_a_range() {
    let factory = Sim::new(Options::default(), 1 << 20);
    let mut h = Harness::new(factory.clone().fresh(16 << 20), factory.properties());
    let (a, b) = (object("a"), object("b"));
    h.commit(|t| t.create_collection(C, 0));
    // The last two blocks of the first record, and twenty of the second.
    let (from, len) = (62 * 4096, 22 * 4096);
    h.commit(|t| t.write(C, &a, from, vec![1; len as usize].into()));
    h.commit(|t| t.clone_range(C, (&a, from), (&b, from), len));
    h.commit(|t| t.write(C, &a, from, vec![2; 4096].into()));
    let data = h.data(C, &b);
    let mut simulated = h.take();
    check(&mut simulated, "shared");
    assert!(data[from as usize..].iter().all(|byte| *byte == 1), "the clone has what it had");
}
