//! Where a shard's blocks are: one behind the other, and elsewhere again for each time that a store of several shards has
//! grown.

use encoding::{DecodeError, Decoder, Encoder};

use crate::layout::{BLOCK, BLOCKS_MIN, Label, SIZE_BYTES_MAX, ShardLayout, features};

/// How often a store of several shards grows at most: a range more for each of its shards is noted in a superblock.
pub const GROWTHS_MAX: usize = 32;

/// Neighbours on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    /// The number of its first block.
    first: u64,
    count: u64,
    /// The first byte of that block.
    offset: u64,
}

/// The places of a shard's blocks. Between two ranges a number is left out, which no block has: blocks whose numbers are
/// neighbours are neighbours on the device, too, so that no run of them ever crosses a border.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges {
    first: Stretch,
    /// Those of growths, ascending by number and by place.
    more: Vec<Stretch>,
}

impl Ranges {
    pub fn one(offset: u64, count: u64) -> Self {
        Self { first: Stretch { first: 0, count, offset }, more: Vec::new() }
    }

    fn push(&mut self, offset: u64, count: u64) {
        self.more.push(Stretch { first: self.numbers() + 1, count, offset });
    }

    fn all(&self) -> impl Iterator<Item = &Stretch> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn last(&self) -> &Stretch {
        self.more.last().unwrap_or(&self.first)
    }

    /// The first byte of a block; of a number that is left out, the end of the range before it.
    pub fn offset(&self, block: u64) -> u64 {
        let stretch = self.more.iter().rev().find(|stretch| stretch.first <= block).unwrap_or(&self.first);
        stretch.offset + (block - stretch.first) * BLOCK
    }

    /// The block that has this byte.
    pub fn block_at(&self, byte: u64) -> Option<u64> {
        self.all().find_map(|stretch| {
            let within = byte.checked_sub(stretch.offset)? / BLOCK;
            (within < stretch.count).then_some(stretch.first + within)
        })
    }

    /// The first block that has this byte or a later one; the end if there is none.
    pub fn block_from(&self, byte: u64) -> u64 {
        let end = |stretch: &&Stretch| stretch.offset + stretch.count * BLOCK;
        match self.all().find(|stretch| byte < end(stretch)) {
            Some(stretch) => stretch.first + byte.saturating_sub(stretch.offset) / BLOCK,
            None => self.numbers(),
        }
    }

    /// One more than the highest number of a block.
    pub fn numbers(&self) -> u64 {
        self.last().first + self.last().count
    }

    /// The numbers that are left out.
    pub fn left_out(&self) -> impl Iterator<Item = u64> {
        self.more.iter().map(|stretch| stretch.first - 1)
    }

    /// The end of the last block, in bytes of the device.
    pub fn end(&self) -> u64 {
        self.offset(self.numbers())
    }
}

/// How far a store goes beyond what its label gives it, as a superblock says it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Grown {
    #[default]
    No,
    /// The only shard has so many blocks, in one range.
    Blocks(u64),
    /// There are several shards, and the store ended here after each growth: bytes of the device. The shards share evenly
    /// what each growth brought.
    Ends(Vec<u64>),
}

impl Grown {
    /// What a reader of the superblock has to know for it.
    pub fn features(&self) -> u64 {
        match self {
            Self::No => 0,
            Self::Blocks(_) => features::GROWN,
            Self::Ends(_) => features::RANGES,
        }
    }

    pub fn put(&self, e: &mut Encoder) {
        match self {
            Self::No => {}
            Self::Blocks(blocks) => {
                e.put(blocks);
            }
            Self::Ends(ends) => {
                e.put(&(ends.len() as u32));
                for end in ends {
                    e.put(end);
                }
            }
        }
    }

    /// What a superblock with these features has.
    pub fn get(d: &mut Decoder<'_>, features: u64) -> Result<Self, DecodeError> {
        match features & (features::GROWN | features::RANGES) {
            0 => Ok(Self::No),
            features::GROWN => Ok(Self::Blocks(d.get()?)),
            features::RANGES => {
                let count: u32 = d.get()?;
                if count == 0 || count as usize > GROWTHS_MAX {
                    return Err(DecodeError::BadValue { what: "growths of a store", value: count.into() });
                }
                (0..count).map(|_| d.get()).collect::<Result<_, _>>().map(Self::Ends)
            }
            both => Err(DecodeError::BadValue { what: "features of a store that has grown", value: both }),
        }
    }
}

/// Why a store does not grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GrowthError {
    #[error(
        "{} more are too few for its {shards} shards, which share them: make it larger by {} at least",
        text::format_bytes(*.added), text::format_bytes(*.needed)
    )]
    TooLittle { shards: u32, added: u64, needed: u64 },
    #[error(
        "its shards have grown {GROWTHS_MAX} times, and can't once more: when its data are elsewhere, `loligo start DIR --osd N --replace` \
         makes the store anew, with all of the space, while the cluster runs"
    )]
    TooOften,
}

impl Label {
    /// Where the store ends that has grown so.
    pub fn end(&self, grown: &Grown) -> u64 {
        match grown {
            Grown::Ends(ends) => ends.last().copied().unwrap_or(self.size_bytes / BLOCK * BLOCK),
            Grown::Blocks(blocks) => self.shard(0).map_or(0, |shard| shard.block_offset(0) + blocks * BLOCK),
            Grown::No => self.size_bytes / BLOCK * BLOCK,
        }
    }

    /// Where a shard's parts are in a store that has grown so.
    ///
    /// # Errors
    /// It has fewer blocks then than the label gives it, or more than any device.
    pub fn with_grown(
        &self,
        shard: u32,
        mut layout: ShardLayout,
        grown: Grown,
    ) -> Result<ShardLayout, DecodeError> {
        let bad = |value| Err(DecodeError::BadValue { what: "blocks of a shard", value });
        match &grown {
            Grown::No => {}
            Grown::Blocks(blocks) => {
                let (least, most) = (layout.ranges.numbers(), SIZE_BYTES_MAX / BLOCK);
                if self.shards != 1 || !(least..=most).contains(blocks) {
                    return bad(*blocks);
                }
                layout.ranges = Ranges::one(layout.ranges.offset(0), *blocks);
            }
            Grown::Ends(ends) => {
                let mut from = self.end(&Grown::No);
                for end in ends {
                    let bytes = end.saturating_sub(from) / u64::from(self.shards) / BLOCK * BLOCK;
                    if self.shards < 2 || bytes == 0 || *end > SIZE_BYTES_MAX {
                        return bad(*end);
                    }
                    layout.ranges.push(from + u64::from(shard) * bytes, bytes / BLOCK);
                    from = *end;
                }
            }
        }
        (layout.end, layout.grown) = (self.end(&grown), grown);
        Ok(layout)
    }

    /// Where the store ends after each growth when it is to end at this byte, for every shard: the ends of that shard which
    /// has grown the most come first. `None`: it ends there already.
    ///
    /// # Errors
    /// See [`GrowthError`].
    pub fn ends_with(&self, ends: &[u64], to: u64) -> Result<Option<Vec<u64>>, GrowthError> {
        let has = ends.last().copied().unwrap_or(self.end(&Grown::No));
        let (added, shards) = ((to / BLOCK * BLOCK).saturating_sub(has), self.shards);
        if added == 0 {
            return Ok(None);
        }
        if shards == 1 {
            return Ok(Some(vec![to]));
        }
        let needed = u64::from(shards) * BLOCKS_MIN * BLOCK;
        if added < needed {
            return Err(GrowthError::TooLittle { shards, added, needed });
        }
        if ends.len() >= GROWTHS_MAX {
            return Err(GrowthError::TooOften);
        }
        Ok(Some(ends.iter().copied().chain([to / BLOCK * BLOCK]).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> Label {
        Label {
            id: 7,
            shards: 3,
            size_bytes: (64 << 20) + 5 * BLOCK + 77,
            log_bytes: 1 << 20,
            log_unit_bytes: 512,
            log_apart: false,
            copies: true,
            owner: Vec::new(),
        }
    }

    fn grown(label: &Label, shard: u32, ends: &[u64]) -> ShardLayout {
        let layout = label.shard(shard).expect("it has three");
        label.with_grown(shard, layout, Grown::Ends(ends.to_vec())).expect("it can have grown so")
    }

    #[test]
    fn shards_share_each_growth_and_no_byte() {
        let label = label();
        let (first, second) = ((90 << 20) + 8192, 94 << 20);
        let ends = label.ends_with(&[], first).and_then(|ends| label.ends_with(&ends.unwrap(), second));
        let ends = ends.expect("it may grow twice").expect("it does");
        assert_eq!(ends, [first, second]);
        let mut all: Vec<(u64, u64)> = Vec::new();
        for shard in 0..3 {
            let layout = grown(&label, shard, &ends);
            let counts: Vec<u64> = layout.ranges.all().map(|stretch| stretch.count).collect();
            assert_eq!(counts.len(), 3);
            assert!(counts[1] * BLOCK * 3 <= first - label.size_bytes && counts[1] > 2000);
            assert_eq!(layout.end, second);
            all.extend(layout.ranges.all().map(|s| (s.offset, s.offset + s.count * BLOCK)));
            all.push((layout.superblocks, layout.ranges.offset(0)));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0].1 <= two[1].0) && all[11].1 <= second, "{all:?}");
    }

    #[test]
    fn blocks_and_bytes_are_the_same_in_every_range_and_none_is_next_to_another_range() {
        let label = label();
        let ranges = grown(&label, 1, &[80 << 20, 100 << 20]).ranges;
        let out: Vec<u64> = ranges.left_out().collect();
        assert_eq!(out.len(), 2);
        for block in (0..ranges.numbers()).filter(|block| !out.contains(block)) {
            let byte = ranges.offset(block);
            assert_eq!(
                (ranges.block_at(byte), ranges.block_at(byte + BLOCK - 1)),
                (Some(block), Some(block))
            );
            assert_eq!(ranges.block_from(byte), block);
            let next = ranges.offset(block + 1);
            assert_eq!(next, byte + BLOCK, "block {block}");
        }
        for border in out {
            let end = ranges.offset(border);
            assert_eq!((ranges.block_at(end), ranges.block_from(end)), (None, border + 1));
        }
        assert_eq!((ranges.block_at(0), ranges.block_from(0)), (None, 0));
        assert_eq!((ranges.block_at(ranges.end()), ranges.block_from(u64::MAX)), (None, ranges.numbers()));
    }

    #[test]
    fn what_is_no_growth_is_refused() {
        let label = label();
        let end = label.end(&Grown::No);
        assert_eq!(label.ends_with(&[], end + 4095), Ok(None));
        assert_eq!(label.ends_with(&[80 << 20], 80 << 20), Ok(None));
        let (shards, needed) = (3, 3 << 20);
        let refused = Err(GrowthError::TooLittle { shards, added: needed - BLOCK, needed });
        assert_eq!(label.ends_with(&[], end + needed - BLOCK), refused);
        let many: Vec<u64> = (0..GROWTHS_MAX as u64).map(|n| (80 << 20) + n * needed).collect();
        assert_eq!(
            label.ends_with(&many[1..], 1 << 30).map(|ends| ends.map(|ends| ends.len())),
            Ok(Some(32))
        );
        assert_eq!(label.ends_with(&many, 1 << 30), Err(GrowthError::TooOften));
        let layout = label.shard(1).expect("it has three");
        for bad in [
            Grown::Blocks(1 << 20),
            Grown::Ends(vec![end + BLOCK]),
            Grown::Ends(vec![80 << 20, 79 << 20]),
            Grown::Ends(vec![u64::MAX]),
        ] {
            assert!(label.with_grown(1, layout.clone(), bad.clone()).is_err(), "{bad:?}");
        }
        let one = Label { shards: 1, ..label };
        let layout = one.shard(0).expect("it has one");
        for bad in [Grown::Blocks(7), Grown::Blocks(u64::MAX), Grown::Ends(vec![80 << 20])] {
            assert!(one.with_grown(0, layout.clone(), bad.clone()).is_err(), "{bad:?}");
        }
    }
}
