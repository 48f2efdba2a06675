//! Objects that are looked for in vain and made next, or not: the store keeps which hashes have no onode.

use std::collections::BTreeMap;

use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{AttrChoice, Attrs, CollectionId, ReadOutcome, ReadRequest};
use types::{GHObject, HObject, Name, PgId, PoolId, SnapId, SplitMix64};

use crate::common::{Sim, Simulated, check};

const OBJECTS: u64 = 4_000;
const STEPS: usize = 6_000;

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

/// Some have the same hash as others.
fn object(n: u64) -> GHObject {
    let hash = SplitMix64::new(n / 2).next_u64() as u32;
    let head = HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {}", n / 2).into(), hash);
    let snap = if n % 2 == 0 { head.snap } else { SnapId(7) };
    HObject { snap, ..head }.into()
}

struct Objects {
    random: SplitMix64,
    marks: BTreeMap<u64, u8>,
    is_split: bool,
}

impl Objects {
    fn collection(&self, n: u64) -> CollectionId {
        pg(if self.is_split { object(n).hobj.hash & 1 } else { 0 })
    }

    fn look(&self, h: &mut Harness<Simulated>, n: u64) {
        let (collection, object) = (self.collection(n), object(n));
        let found = match h.get(ReadRequest::Object { collection, object, attrs: AttrChoice::All }) {
            Ok(ReadOutcome::Object(found)) => found.map(|head| head.attrs),
            other => panic!("object {n} is looked for: {other:?}"),
        };
        let attrs = |mark: &u8| Attrs::from([("_".into(), vec![*mark].into())]);
        assert_eq!(found, self.marks.get(&n).map(attrs), "object {n}");
    }

    /// Looks for an object, and makes or removes it.
    fn step(&mut self, h: &mut Harness<Simulated>) {
        let n = self.random.below(OBJECTS);
        self.look(h, n);
        let (collection, mark) = (self.collection(n), self.random.below(250) as u8);
        match self.random.below(8) {
            0..5 => {
                h.commit(|t| {
                    t.touch(collection, &object(n)).set_attr(collection, &object(n), "_", vec![mark])
                });
                self.marks.insert(n, mark);
            }
            5 if self.marks.remove(&n).is_some() => h.commit(|t| t.remove(collection, &object(n))),
            6 => {
                let other = self.random.below(OBJECTS);
                let is_free = !self.marks.contains_key(&other) && self.collection(other) == collection;
                if let Some(mark) = self.marks.get(&n).copied().filter(|_| is_free) {
                    h.commit(|t| t.clone_object(collection, &object(n), &object(other)));
                    self.marks.insert(other, mark);
                }
            }
            7 => drop(h.refused(|t| t.touch(collection, &object(n)).merge(pg(9), collection, 0))),
            _ => {}
        }
    }

    fn divide(&mut self, h: &mut Harness<Simulated>) {
        match self.is_split {
            true => h.commit(|t| t.merge(pg(1), pg(0), 0)),
            false => h.commit(|t| t.create_collection(pg(1), 1).split(pg(0), 1, 1, pg(1))),
        }
        self.is_split = !self.is_split;
    }
}

#[test]
fn what_is_made_is_found_after_it_was_looked_for_in_vain() {
    for (seed, cache_bytes) in [(1, 64 << 10), (2, 4 << 20), (3, 64 << 20)] {
        let options = Options { cache_bytes, changes_bytes_max: 256 << 10, ..Options::default() };
        let factory = Sim::new(options, 1 << 20);
        let mut h = Harness::new(factory.clone().fresh(32 << 20), factory.properties());
        h.commit(|t| t.create_collection(pg(0), 0));
        let random = SplitMix64::new(seed);
        let mut objects = Objects { random, marks: BTreeMap::new(), is_split: false };
        for step in 1..=STEPS {
            objects.step(&mut h);
            if step % 1_100 == 0 {
                objects.divide(&mut h);
            }
            if step % 1_900 == 0 {
                let mut simulated = h.take();
                check(&mut simulated, &format!("seed {seed}, step {step}"));
                h = Harness::new(simulated, factory.properties());
            }
        }
        (0..OBJECTS).for_each(|n| objects.look(&mut h, n));
    }
}
