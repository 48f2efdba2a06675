//! Ranges of a few objects are written, shared, zeroed and cut: what each object has then, against bytes in memory.

use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{CollectionId, CompressionAlgorithm, ObjectChange};
use types::{GHObject, HObject, Name, PoolId, SplitMix64};

use crate::common::{Sim, Simulated, check, forced};

const C: CollectionId = CollectionId::Meta;
const BLOCK: u64 = 4096;
const SEEDS: u64 = 16;
const STEPS: u64 = 120;
/// The objects reach behind two records of their maps.
const BLOCKS: u64 = 150;

/// Objects, and the bytes that each has to have.
struct Ranges {
    random: SplitMix64,
    objects: Vec<(GHObject, Option<Vec<u8>>)>,
}

fn object(n: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), n.to_string().as_str().into(), n << 8).into()
}

/// The bytes from `at` on for so many, which the object has from here on.
fn part(bytes: &mut Option<Vec<u8>>, at: u64, len: u64) -> &mut [u8] {
    let (at, end) = (at as usize, (at + len) as usize);
    let bytes = bytes.get_or_insert_default();
    bytes.resize(bytes.len().max(end), 0);
    &mut bytes[at..end]
}

impl Ranges {
    fn one_of(&mut self, choices: &[u64]) -> u64 {
        choices[self.random.below(choices.len() as u64) as usize]
    }

    fn step(&mut self, h: &mut Harness<Simulated>, mark: u8) {
        let (n, other) = (self.random.below(4) as usize, self.random.below(4) as usize);
        let (name, to) = (self.objects[n].0.clone(), self.objects[other].0.clone());
        let is_there = self.objects[n].1.is_some();
        match self.random.below(10) {
            0..=2 => {
                let anywhere = self.random.below(BLOCKS);
                let at = BLOCK * self.one_of(&[0, 60, 64, anywhere]);
                let len = self.one_of(&[4096, 8192, 5000, 40_000, 200_000]);
                h.commit(|t| t.write(C, &name, at, vec![mark; len as usize].into()));
                part(&mut self.objects[n].1, at, len).fill(mark);
            }
            3..=5 if is_there && n != other => self.share(h, n, other),
            6 if is_there && n != other => {
                h.commit(|t| t.clone_object(C, &name, &to));
                self.objects[other].1 = self.objects[n].1.clone();
            }
            7 if is_there => {
                let anywhere = self.random.below(BLOCKS * BLOCK);
                let size = self.one_of(&[0, 4096, 100, anywhere]);
                h.commit(|t| t.truncate(C, &name, size));
                self.objects[n].1.iter_mut().for_each(|bytes| bytes.resize(size as usize, 0));
            }
            8 => {
                h.commit(|t| t.remove(C, &name));
                self.objects[n].1 = None;
            }
            9 if is_there => {
                let (at, len) = (self.random.below(100) * BLOCK, self.random.below(90) * BLOCK + 1);
                h.commit(|t| t.change(C, &name, ObjectChange::Zero { offset: at, len }));
                part(&mut self.objects[n].1, at, len).fill(0);
            }
            _ => {}
        }
    }

    fn share(&mut self, h: &mut Harness<Simulated>, n: usize, other: usize) {
        let (anywhere, elsewhere) = (self.random.below(70), self.random.below(70));
        let from = BLOCK * self.one_of(&[0, 50, 64, anywhere]);
        let to = if self.random.one_in(2) { from } else { BLOCK * elsewhere };
        let len = BLOCK * (16 + self.random.below(80)) + self.one_of(&[0, 0, 77]);
        let (source, target) = (&self.objects[n].0, &self.objects[other].0);
        h.commit(|t| t.clone_range(C, (source, from), (target, to), len));
        let mut bytes = self.objects[n].1.clone();
        let copied = part(&mut bytes, from, len).to_vec();
        part(&mut self.objects[other].1, to, len).copy_from_slice(&copied);
    }
}

#[test]
fn random_ranges_are_what_was_written_last() {
    for seed in 0..SEEDS {
        let prefer_deferred_bytes = if seed % 3 == 0 { 0 } else { 32 << 10 };
        let cache_bytes = if seed % 2 == 0 { 64 << 10 } else { 16 << 20 };
        let options = Options { prefer_deferred_bytes, cache_bytes, ..Options::default() };
        let mut factory = Sim::new(options, 1 << 20);
        factory.compression = (seed % 4 == 1).then(|| forced(CompressionAlgorithm::Lz4, 32 << 10));
        let mut h = Harness::new(factory.clone().fresh(32 << 20), factory.properties());
        h.commit(|t| t.create_collection(C, 0));
        let objects = (0..4).map(|n| (object(n), None)).collect();
        let mut ranges = Ranges { random: SplitMix64::new(seed + 77), objects };
        for step in 0..STEPS {
            ranges.step(&mut h, (step % 250 + 1) as u8);
            if ranges.random.one_in(9) {
                h.store().store.request_checkpoint();
            }
            if step % 5 > 0 {
                continue;
            }
            for (name, bytes) in &ranges.objects {
                let Some(bytes) = bytes else { continue };
                assert!(h.data(C, name) == *bytes, "seed {seed}, step {step}: {name}");
            }
            let mut simulated = h.take();
            check(&mut simulated, &format!("seed {seed}, step {step}"));
            h = Harness::new(simulated, factory.properties());
        }
    }
}
