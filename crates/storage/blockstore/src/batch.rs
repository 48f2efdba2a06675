//! What a transaction comes to, as the log has it.

use buffer::{Piece, Rope};
use encoding::{DecodeError, Decoder, Encoder};

use crate::bitmap::Run;
use crate::layer::Layer;
use crate::layout::{BLOCK, Counters};
use crate::page::{Key, get_runs, put_runs};
use crate::pool_use::PoolChanges;

/// Changes of the tables and of blocks that happen together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    pub counters: Counters,
    /// Blocks that hold data from here on.
    pub allocated: Vec<Run>,
    /// Blocks that hold none any more.
    pub freed: Vec<Run>,
    /// What these come to for pools; nothing where the shard does not count.
    pub pools: PoolChanges,
    /// Contents of blocks that are in the log, to be written to their places later.
    pub deferred: Vec<(u64, Piece)>,
    pub changes: Layer,
}

/// In the number of deferred blocks: changes of pools follow their numbers.
const HAS_POOLS: u32 = 1 << 31;

/// Beside it: these say of omaps, too.
const HAS_OMAPS: u32 = 1 << 30;

impl Batch {
    /// With its length in front: several may follow one another in a record.
    pub fn encode(&self) -> Rope {
        let changes =
            self.changes.iter().map(|(key, value)| 9 + key.len() + value.as_ref().map_or(0, |v| v.len()));
        let runs = self.allocated.len() + self.freed.len();
        let flags = match self.pools.iter().next() {
            None => 0,
            Some(_) if self.pools.have_omaps() => HAS_POOLS | HAS_OMAPS,
            Some(_) => HAS_POOLS,
        };
        let of_pools = if flags == 0 { 0 } else { self.pools.bytes() };
        let room = 4
            + Counters::BYTES
            + 16
            + 12 * runs
            + changes.sum::<usize>()
            + 8 * self.deferred.len()
            + of_pools;
        let mut e = Encoder::with_capacity(0, room);
        // The length, which is known at the end.
        e.put(&0u32);
        self.counters.put(&mut e);
        put_runs(&mut e, &self.allocated);
        put_runs(&mut e, &self.freed);
        e.put(&(self.changes.len() as u32));
        for (key, value) in &self.changes {
            e.blob(key).put(&value.is_some()).blob(value.as_deref().unwrap_or_default());
        }
        e.put(&(self.deferred.len() as u32 | flags));
        for (block, _) in &self.deferred {
            e.put(block);
        }
        if flags != 0 {
            self.pools.put(&mut e);
        }
        let data = self.deferred.len() * BLOCK as usize;
        debug_assert_eq!(e.len(), room, "memory is taken once");
        e.patch_u32(0, (e.len() - 4 + data) as u32);
        let mut rope = Rope::from(e.into_bytes());
        self.deferred.iter().for_each(|(_, bytes)| rope.push(bytes.clone()));
        rope
    }

    /// The batches of a record.
    ///
    /// # Errors
    /// The bytes are no batches.
    pub fn decode_all(payload: &Piece) -> Result<Vec<Self>, DecodeError> {
        let mut d = Decoder::new(payload);
        let mut all = Vec::new();
        while d.remaining() > 0 {
            let len = d.blob("batch")?.len();
            let end = d.position();
            all.push(Self::decode(&payload.slice(end - len..end))?);
        }
        Ok(all)
    }

    fn decode(bytes: &Piece) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let counters = Counters::get(&mut d)?;
        let (allocated, freed) = (get_runs(&mut d)?, get_runs(&mut d)?);
        let mut changes = Layer::new();
        for _ in 0..d.count(9, "changes of a batch")? {
            let key = Key::from_slice(d.blob("key of a batch")?);
            let there: bool = d.get()?;
            // A copy: the record's memory is not kept for small values.
            let value = Piece::copy_from(d.blob("value of a batch")?);
            changes.insert(key.into(), there.then_some(value));
        }
        let count: u32 = d.get()?;
        let has = |flag| count & flag != 0;
        let count =
            d.check_count(count & !(HAS_POOLS | HAS_OMAPS), 8 + BLOCK as usize, "blocks of a batch")?;
        let blocks = (0..count).map(|_| d.get()).collect::<Result<Vec<u64>, _>>()?;
        let pools = match has(HAS_POOLS) {
            true => PoolChanges::get(&mut d, has(HAS_OMAPS))?,
            false => PoolChanges::default(),
        };
        let mut deferred = Vec::with_capacity(count);
        for block in blocks {
            deferred.push((block, Piece::copy_from(d.take(BLOCK as usize, "block of a batch")?)));
        }
        d.finish()?;
        Ok(Self { counters, allocated, freed, pools, deferred, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::layer_of;

    #[test]
    fn batches_follow_one_another_and_cut_ones_are_refused() {
        let batch = Batch {
            counters: Counters { next_number: 1, objects: 2, metadata_bytes: 3 },
            allocated: vec![Run { start: 4, count: 2 }],
            freed: vec![],
            pools: PoolChanges::default(),
            deferred: vec![(4, Piece::from(vec![7; BLOCK as usize]))],
            changes: layer_of(
                [(1, Some(Piece::copy_from(b"v"))), (2, None)]
                    .map(|(key, change)| (Key::from_slice(&[key]), change)),
            ),
        };
        let mut rope = batch.encode();
        rope.append(Batch::default().encode());
        let payload: Piece = rope.to_vec().into();
        assert_eq!(Batch::decode_all(&payload), Ok(vec![batch.clone(), Batch::default()]));
        let one = batch.encode().to_piece();
        for len in (1..one.len()).step_by(7) {
            assert!(Batch::decode_all(&one.slice(0..len)).is_err(), "cut at {len}");
        }
    }
}
