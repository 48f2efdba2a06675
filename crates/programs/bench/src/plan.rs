//! Which operation is next. Pure.

use types::SplitMix64;

use crate::record::Record;
use crate::spec::Mode;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// An operation on a range of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub kind: Kind,
    pub object: u64,
    pub offset: u64,
    pub length: u64,
}

/// The operations of an instance, in order.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    mode: Mode,
    block_size: u64,
    /// Blocks of an object.
    per_object: u64,
    /// Blocks in all; those of the mode `write` may be without end.
    blocks: u64,
    next: u64,
    random: SplitMix64,
}

impl Plan {
    /// Writes new objects, up to so many.
    pub(crate) fn write(block_size: u64, object_size: u64, objects: Option<u64>) -> Self {
        let per_object = object_size / block_size;
        let blocks = objects.map_or(u64::MAX, |objects| objects.saturating_mul(per_object));
        Self { mode: Mode::Write, block_size, per_object, blocks, next: 0, random: SplitMix64::new(0) }
    }

    /// Works on the objects of a record, in blocks of `block_size` that divides its operations' size or is a multiple.
    pub(crate) fn on(record: &Record, mode: Mode, block_size: u64, seed: u64) -> Self {
        let bytes = record.operations.max(0) as u64 * record.op_size;
        Self {
            mode,
            block_size,
            per_object: record.object_size / block_size,
            blocks: bytes / block_size,
            next: 0,
            random: SplitMix64::new(seed),
        }
    }

    /// The next operation; `None` when there are no more.
    pub(crate) fn next(&mut self) -> Option<Operation> {
        let (kind, block) = match self.mode {
            Mode::Write | Mode::Seq => {
                if self.next >= self.blocks {
                    return None;
                }
                self.next += 1;
                let kind = if self.mode == Mode::Write { Kind::Write } else { Kind::Read };
                (kind, self.next - 1)
            }
            _ if self.blocks == 0 => return None,
            Mode::Rand => (Kind::Read, self.random.below(self.blocks)),
            Mode::Mixed { reads_percent } => {
                let reads = self.random.below(100) < u64::from(reads_percent);
                (if reads { Kind::Read } else { Kind::Write }, self.random.below(self.blocks))
            }
        };
        let (object, offset) = (block / self.per_object, block % self.per_object * self.block_size);
        Some(Operation { kind, object, offset, length: self.block_size })
    }

    /// Blocks that were handed out in order.
    pub(crate) fn written(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(object_size: u64, op_size: u64, operations: i32) -> Record {
        Record { object_size, operations, writer: 1, op_size, compressible_percent: None }
    }

    #[test]
    fn objects_are_written_block_by_block() {
        let mut plan = Plan::write(4, 8, Some(2));
        let all: Vec<(u64, u64)> =
            std::iter::from_fn(|| plan.next()).map(|op| (op.object, op.offset)).collect();
        assert_eq!(all, [(0, 0), (0, 4), (1, 0), (1, 4)]);
        assert_eq!(plan.written(), 4);
    }

    #[test]
    fn what_was_written_is_read_once_in_order() {
        let mut plan = Plan::on(&record(8, 4, 3), Mode::Seq, 4, 0);
        let all: Vec<(u64, u64)> =
            std::iter::from_fn(|| plan.next()).map(|op| (op.object, op.offset)).collect();
        assert_eq!(all, [(0, 0), (0, 4), (1, 0)], "the last object has one block");
    }

    #[test]
    fn random_operations_reach_every_block_and_keep_the_ratio() {
        let mut plan = Plan::on(&record(65536, 65536, 2), Mode::Mixed { reads_percent: 70 }, 4096, 3);
        let (mut seen, mut reads) = (std::collections::BTreeSet::new(), 0);
        for _ in 0..10_000 {
            let op = plan.next().unwrap();
            assert!(op.object < 2 && op.offset % 4096 == 0 && op.offset + op.length <= 65536);
            seen.insert((op.object, op.offset));
            reads += u32::from(op.kind == Kind::Read);
        }
        assert_eq!(seen.len(), 32);
        assert!((6800..7200).contains(&reads), "{reads}");
        assert_eq!(Plan::on(&record(8, 4, 0), Mode::Rand, 4, 0).next(), None, "nothing was written");
    }
}
