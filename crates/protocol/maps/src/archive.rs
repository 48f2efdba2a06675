//! Many epochs in little room: an increment for each, the whole map for some, the others made again out of both.

use encoding::Decode;
use types::Epoch;

use crate::{ApplyError, Incremental, OsdMap};

/// Every how many epochs the whole map is kept. Another one is made out of the newest whole one before it and as many
/// increments, less one, at most.
pub const KEPT_WHOLE_EVERY: u32 = 32;

/// Whether the whole map of an epoch is kept, even if an increment made it. (A map that came without an increment is kept
/// in any case: nothing else can give it again.)
pub fn is_kept_whole(epoch: Epoch) -> bool {
    epoch <= Epoch(1) || epoch.0 % KEPT_WHOLE_EVERY == 0
}

/// The epoch, `wanted` or some before it, up to which (not including) everything can go, and all epochs that are left can
/// still be made.
pub fn trim_bound(wanted: Epoch) -> Epoch {
    Epoch(wanted.0 - wanted.0 % KEPT_WHOLE_EVERY)
}

impl OsdMap {
    /// Turns this map into the next epoch's, and answers its canonical encoding. It must have the checksum that the
    /// increment's maker saw. On an error throw the map away, as with [`OsdMap::apply`].
    pub fn apply_checked(&mut self, increment: &Incremental) -> Result<Vec<u8>, ApplyError> {
        self.apply(increment)?;
        let (full, actual) = self.encode_full_and_crc();
        match actual == increment.full_crc {
            true => Ok(full),
            false => Err(ApplyError::Checksum { expected: increment.full_crc, actual }),
        }
    }

    /// Turns this map into a later epoch's through encoded increments, in their order; the last one's checksum is compared,
    /// which covers all that came before. Answers the canonical encoding; `None` if there was no increment.
    pub fn apply_all<'a>(
        &mut self,
        increments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Vec<u8>>, ApplyError> {
        let mut increments = increments.into_iter().peekable();
        while let Some(bytes) = increments.next() {
            let increment = Incremental::from_bytes(bytes)?;
            if increments.peek().is_none() {
                return self.apply_checked(&increment).map(Some);
            }
            self.apply(&increment)?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use types::{Fsid, Release, UTime};

    use super::*;
    use crate::{MapFlags, NewCluster, Publication, publish};

    fn epochs(count: u32) -> Vec<Publication> {
        let (fsid, created) = (Fsid([1; 16]), UTime::default());
        let cluster = NewCluster { fsid, created, release: Release::PACIFIC, failure_domain: "host".into() };
        let mut all = vec![publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap()];
        for epoch in (2..=count).map(Epoch) {
            let last = &all.last().unwrap().map;
            let mut increment = Incremental::new(fsid, epoch, UTime { sec: epoch.0, nsec: 0 });
            increment.new_flags = Some(last.flags ^ MapFlags::NOUP);
            all.push(publish(last, increment).unwrap());
        }
        all
    }

    #[test]
    fn any_epoch_is_made_again_out_of_a_whole_map_and_increments() {
        let all = epochs(40);
        let increments = |range: std::ops::Range<usize>| all[range].iter().map(|p| &p.incremental[..]);
        for to in [1, 2, 31, 40] {
            let mut map = all[0].map.clone();
            let full = map.apply_all(increments(1..to)).unwrap();
            assert_eq!(map, all[to - 1].map);
            assert_eq!(full.is_some(), to > 1);
            assert!(full.is_none_or(|full| full == all[to - 1].full));
        }
        let hole = increments(1..3).chain(increments(4..5));
        assert!(matches!(all[0].map.clone().apply_all(hole), Err(ApplyError::NotNext { .. })));
    }

    #[test]
    fn an_increment_of_another_map_is_found_by_the_checksum() {
        let all = epochs(3);
        let mut other = all[0].map.clone();
        other.pool_max = 7;
        let increments = all[1..].iter().map(|p| &p.incremental[..]);
        assert!(matches!(other.apply_all(increments), Err(ApplyError::Checksum { .. })));
    }

    #[test]
    fn trimming_ends_at_a_map_that_is_kept_whole() {
        for wanted in (0..=200).map(Epoch) {
            let bound = trim_bound(wanted);
            assert!(is_kept_whole(bound) && bound <= wanted);
            assert!(((bound.0 + 1)..=wanted.0).all(|epoch| epoch == 1 || !is_kept_whole(Epoch(epoch))));
        }
    }
}
