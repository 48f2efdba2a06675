//! What a read has in memory, and what it asks of the device: a read of megabytes is a few extents, not a thousand blocks.

use std::ops::Range;

use buffer::Piece;
use smallvec::SmallVec;

use crate::chunk::Slot;
use crate::context::Context;
use crate::find::Found;
use crate::layout::BLOCK;
use crate::stop::Attempt;

/// Blocks that follow each other on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Places in [`crate::mapped::Mapped::slots`].
    pub slots: Range<usize>,
    /// Whole blocks, in one piece, if they are in memory.
    pub bytes: Option<Piece>,
}

/// All of a read, in the order of its slots. Most reads are one.
pub type Extents = SmallVec<[Extent; 1]>;

impl Context<'_> {
    /// The extents of mapped blocks, with what is in memory of them. The cache is not asked where `verify`: what the device has is to
    /// be seen.
    pub fn extents_of(&self, found: &Found, slots: &[(u64, Slot)], verify: bool) -> Attempt<Extents> {
        let (mut extents, mut at) = (Extents::new(), 0);
        for run in slots.chunk_by(|a, b| a.1.block + 1 == b.1.block) {
            let (first, end) = (at, at + run.len());
            while at < end {
                let (count, bytes) = self.next_extent(found, &slots[at..end], verify)?;
                match extents.last_mut() {
                    Some(last) if bytes.is_none() && last.bytes.is_none() && at > first => {
                        last.slots.end += count
                    }
                    _ => extents.push(Extent { slots: at..at + count, bytes }),
                }
                at += count;
            }
        }
        Ok(extents)
    }

    /// How many of these neighbours on the device, from the first one on, are in one piece of memory, and that; or are not in memory.
    fn next_extent(
        &self,
        found: &Found,
        run: &[(u64, Slot)],
        verify: bool,
    ) -> Attempt<(usize, Option<Piece>)> {
        let first = run[0].1.block;
        let count = match self.contents.first_deferred(first..first + run.len() as u64) {
            // It is checked like what is on the device: a caller's checksum may be wrong.
            Some(block) if block == first => return Ok((1, self.bytes_of(found, &run[..1])?.pop())),
            Some(block) => (block - first) as usize,
            None => run.len(),
        };
        Ok(match verify {
            true => (count, None),
            false => self.contents.cache.get_run(first, run[..count].iter().map(|(_, slot)| slot.crc)),
        })
    }
}

/// Cuts what is to be read into requests of at most so many blocks.
pub fn cut(extents: &mut Extents, blocks_max: usize) {
    let is_long = |extent: &Extent| extent.bytes.is_none() && extent.slots.len() > blocks_max;
    if !extents.iter().any(is_long) {
        return;
    }
    for Extent { slots, bytes } in std::mem::take(extents) {
        let step = if bytes.is_none() { blocks_max } else { slots.len() };
        let parts = slots.clone().step_by(step);
        let part = |from: usize| Extent { slots: from..slots.end.min(from + step), bytes: bytes.clone() };
        extents.extend(parts.map(part));
    }
}

/// The bytes of all that is in memory, with the numbers of the slots: each block by itself, or (`joined`, where no blob is) those that
/// follow each other in the object together, with the number of the first.
pub fn pieces<'a>(
    extents: &'a Extents,
    slots: &'a [(u64, Slot)],
    joined: bool,
) -> impl Iterator<Item = (u64, Piece)> + 'a {
    extents.iter().flat_map(move |extent| {
        let runs = slots[extent.slots.clone()].chunk_by(move |a, b| joined && a.0 + 1 == b.0);
        let mut at = 0;
        runs.filter_map(move |run| {
            let from = at;
            at += run.len() * BLOCK as usize;
            Some((run[0].0, extent.bytes.as_ref()?.slice(from..at)))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use store::{CollectionId, StoreError};
    use types::{GHObject, HObject, Name, PoolId, SnapId, SplitMix64};

    use super::*;
    use crate::blocks::check_blocks;
    use crate::context::{Contents, NOTHING_FETCHED};
    use crate::find::Place;
    use crate::layout::Counters;
    use crate::onode::Onode;
    use crate::packer::Packer;
    use crate::pool_use::PoolUse;
    use crate::ranges::Ranges;
    use crate::space::Space;
    use crate::stop::Stop;
    use crate::tree::Tables;

    const BLOCKS: u64 = 120;

    fn contents_of(block: u64) -> Vec<u8> {
        vec![block as u8; BLOCK as usize]
    }

    fn run_of(first: u64, count: u64) -> Piece {
        (first..first + count).flat_map(contents_of).collect::<Vec<u8>>().into()
    }

    fn crc_of(block: u64) -> u32 {
        buffer::crc32c(!0, &contents_of(block))
    }

    /// Blocks in memory in all four places, and those that are not in their places on the device.
    fn in_memory(random: &mut SplitMix64) -> (Contents, Vec<u64>) {
        let mut contents = Contents::default();
        let mut deferred = Vec::new();
        for _ in 0..random.below(4) {
            let (first, count) = (random.below(BLOCKS), 1 + random.below(20));
            contents.cache.insert(first, run_of(first, count));
        }
        for _ in 0..random.below(3) {
            let block = random.below(BLOCKS);
            let bytes = run_of(block, 1);
            match random.below(3) {
                0 => drop(contents.deferred.insert(block, bytes)),
                1 => drop(contents.frozen.insert(block, bytes)),
                _ => contents.writing.insert(block, bytes),
            }
            deferred.push(block);
        }
        (contents, deferred)
    }

    /// Blocks of an object at places of the device, of which many are neighbours in both.
    fn some_slots(random: &mut SplitMix64) -> Vec<(u64, Slot)> {
        let (mut slots, mut number): (Vec<(u64, Slot)>, u64) = (Vec::new(), random.below(3));
        let mut free: Vec<u64> = (0..BLOCKS).collect();
        while slots.len() < 60 && !free.is_empty() {
            let at = random.below(free.len() as u64) as usize;
            let count = (1 + random.below(30) as usize).min(free.len() - at);
            for block in free.drain(at..at + count) {
                slots.push((number, Slot { block, crc: crc_of(block), shared: false }));
                number += 1 + u64::from(random.one_in(9));
            }
        }
        slots
    }

    fn object() -> GHObject {
        let name = Name::from("object");
        GHObject::from(HObject {
            snap: SnapId::HEAD,
            ..HObject::head(PoolId(1), Name::new(), Name::new(), name, 7)
        })
    }

    fn found() -> Found {
        let onode = Onode::decode(&vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0].into());
        let (collection, onode) = (CollectionId::Meta, onode.expect("of an earlier build"));
        Found { collection, object: object(), place: Place::new(8), onode, stored: None }
    }

    fn with_context<T>(contents: &Contents, look: impl FnOnce(&Context<'_>) -> T) -> T {
        let (tables, packer, mut space) =
            (Tables::default(), Packer::default(), Space::new(&Ranges::one(0, 999)));
        let pool_use = PoolUse::default();
        let blocks = (&mut space, &packer, &pool_use);
        look(&Context::new(&tables, contents, &NOTHING_FETCHED, blocks, Counters::default()))
    }

    /// What each block comes to, against a look at each by itself.
    #[test]
    fn extents_have_what_is_in_memory_of_each_block_and_are_as_long_as_they_can_be() {
        let (mut random, mut seen) = (SplitMix64::new(1), BTreeMap::new());
        for round in 0..2000 {
            let (contents, deferred) = in_memory(&mut random);
            let (slots, verify) = (some_slots(&mut random), random.one_in(4));
            let mut extents = with_context(&contents, |context| context.extents_of(&found(), &slots, verify))
                .unwrap_or_else(|_| panic!("round {round}: all is as it was written"));
            for blocks_max in [1 << 20, 7] {
                cut(&mut extents, blocks_max);
                let mut at = 0;
                for pair in extents.windows(2) {
                    let (a, b) = (&pair[0], &pair[1]);
                    let follow = slots[a.slots.end - 1].1.block + 1 == slots[b.slots.start].1.block;
                    let both_read = a.bytes.is_none() && b.bytes.is_none();
                    assert!(
                        !(follow && both_read && blocks_max > 7),
                        "round {round}: {a:?} and {b:?} are one"
                    );
                    // What is in memory is one piece as far as one run of the cache has it.
                    let ends = [slots[a.slots.end - 1].1.block, slots[b.slots.start].1.block];
                    let kept = || contents.cache.get_run(ends[0], ends.map(crc_of).into_iter()).0;
                    let is_cut = ends.iter().any(|block| deferred.contains(block)) || kept() < 2;
                    let both_there = a.bytes.is_some() && b.bytes.is_some();
                    assert!(!(follow && both_there) || is_cut, "round {round}: {a:?} and {b:?} are one");
                }
                for Extent { slots: places, bytes } in &extents {
                    assert_eq!(places.start, at, "round {round}");
                    at = places.end;
                    assert!(bytes.is_some() || places.len() <= blocks_max);
                    for place in places.clone() {
                        let block = slots[place].1.block;
                        assert_eq!(block, slots[places.start].1.block + (place - places.start) as u64);
                        let cached = contents.cache.get(block, crc_of(block)).filter(|_| !verify).is_some();
                        let has = deferred.contains(&block) || cached;
                        assert_eq!(bytes.is_some(), has, "round {round}: block {block}");
                        *seen.entry(has).or_insert(0) += 1;
                    }
                }
                assert_eq!(at, slots.len(), "round {round}");
            }
            for extent in extents.iter_mut().filter(|extent| extent.bytes.is_none()) {
                extent.bytes = Some(run_of(slots[extent.slots.start].1.block, extent.slots.len() as u64));
            }
            for extent in &extents {
                let bytes = extent.bytes.as_ref().expect("it was filled");
                assert_eq!(
                    check_blocks(CollectionId::Meta, &object(), &slots[extent.slots.clone()], bytes),
                    Ok(())
                );
            }
            let expected: Vec<(u64, u8)> =
                slots.iter().map(|(number, slot)| (*number, slot.block as u8)).collect();
            for joined in [true, false] {
                let runs = pieces(&extents, &slots, joined);
                let blocks = runs.flat_map(|(number, bytes)| {
                    let firsts: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
                    assert!(joined || firsts.len() == 1);
                    (number..).zip(firsts)
                });
                assert_eq!(blocks.collect::<Vec<_>>(), expected, "round {round}");
            }
        }
        assert!(seen[&true] > 10_000 && seen[&false] > 10_000, "{seen:?}");
    }

    #[test]
    fn what_is_cached_counts_by_its_checksum_and_what_is_deferred_is_checked() {
        let mut contents = Contents::default();
        contents.cache.insert(10, run_of(10, 4));
        let mut slots: Vec<(u64, Slot)> =
            (10..14).map(|block| (block, Slot { block, crc: crc_of(block), shared: false })).collect();
        slots[2].1.crc = 1;
        let extents = with_context(&contents, |context| context.extents_of(&found(), &slots, false)).ok();
        let all = Extent { slots: 0..4, bytes: None };
        assert_eq!(extents.as_deref(), Some(&[all][..]), "read again as a whole");
        contents.deferred.insert(12, run_of(12, 1));
        let refused = with_context(&contents, |context| context.extents_of(&found(), &slots, false)).err();
        let is_checksum = |stop: &Stop| matches!(stop, Stop::Error(StoreError::Checksum { offset, .. }) if *offset == 12 * BLOCK);
        assert!(refused.as_ref().is_some_and(is_checksum));
        let wrong = check_blocks(CollectionId::Meta, &object(), &slots[1..], &run_of(11, 3));
        assert!(matches!(wrong, Err(StoreError::Checksum { offset, .. }) if offset == 12 * BLOCK));
    }
}
