//! Which hashes belong to a PG.

use types::{HObject, Name, PgId, PoolId, SnapId};

/// How many low bits of their hash a PG's objects have in common, in a pool of `pg_num` PGs.
pub(crate) fn split_bits(seed: u32, pg_num: u32) -> u32 {
    if pg_num <= 1 {
        return 0;
    }
    // Where pg_num is no power of two, the PGs below the remainder have been split once more.
    let bits = 32 - pg_num.leading_zeros();
    let half = 1u32 << (bits - 1);
    if seed % half < pg_num % half { bits } else { bits - 1 }
}

/// The PG that has the objects of this hash, of `pg_num` (at least 1) PGs (Ceph's ceph_stable_mod).
pub(crate) fn owner(hash: u32, pg_num: u32) -> u32 {
    let mask = u32::MAX.checked_shr((pg_num - 1).leading_zeros()).unwrap_or(0);
    if hash & mask < pg_num { hash & mask } else { hash & mask >> 1 }
}

/// One PG becomes two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub from: u32,
    /// The new PG: it gets the objects of `from` that have its number in these low bits of the hash.
    pub into: u32,
    /// How many bits the objects of each have in common from then on.
    pub bits: u32,
}

/// How a PG, whose objects have `bits` low bits of their hash in common, becomes the PGs that have its objects in a pool of
/// `pg_num`: an object moves once for each bit at most. It depends on nothing else, so a split that did not happen when
/// the number of PGs grew can be made at any later time.
pub(crate) fn cuts(seed: u32, bits: u32, pg_num: u32) -> Vec<Cut> {
    let (mut cuts, mut parts) = (Vec::new(), vec![seed]);
    for level in bits + 1..=split_bits(seed, pg_num) {
        let deeper = parts.iter().filter(|part| split_bits(**part, pg_num) >= level);
        let new: Vec<Cut> =
            deeper.map(|part| Cut { from: *part, into: part | 1 << (level - 1), bits: level }).collect();
        parts.extend(new.iter().map(|cut| cut.into));
        cuts.extend(new);
    }
    cuts
}

/// Whether a PG gains or loses objects when a pool's number of PGs changes: it splits, is merged into another, or
/// another is merged into it. A PG that there was not before is not affected.
pub(crate) fn is_resized(seed: u32, old_pg_num: u32, new_pg_num: u32) -> bool {
    seed < old_pg_num && (seed >= new_pg_num || split_bits(seed, old_pg_num) != split_bits(seed, new_pg_num))
}

/// Whether an object with this hash belongs to the PG.
pub(crate) fn contains(pg: PgId, pg_num: u32, hash: u32) -> bool {
    let bits = split_bits(pg.seed, pg_num);
    let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
    hash & mask == pg.seed & mask
}

fn boundary(pool: PoolId, snap: SnapId, hash: u32) -> HObject {
    HObject { snap, ..HObject::head(pool, Name::new(), Name::new(), Name::new(), hash) }
}

/// The start of the PG's part of the order of objects.
pub(crate) fn start(pg: PgId) -> HObject {
    boundary(pg.pool, SnapId(0), pg.seed)
}

/// The end of it: the next PG's start, or the maximum.
pub(crate) fn end(pg: PgId, pg_num: u32) -> HObject {
    let bits = split_bits(pg.seed, pg_num);
    let rest = u64::from(u32::MAX) >> bits;
    let next = (u64::from(pg.seed.reverse_bits()) | rest) + 1;
    match u32::try_from(next) {
        Err(_) => HObject::max(),
        Ok(next) => boundary(pg.pool, SnapId::HEAD, next.reverse_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_gives_every_hash_to_its_owner_and_every_pg_its_bits() {
        let new = [1, 2, 3, 4, 8, 11, 13, 16, 32, 33, 64, 100, 127, 128];
        for (old, new) in (1..20).flat_map(|old| new.map(|new| (old, new))).filter(|(old, new)| old < new) {
            let mut made: Vec<u32> = (0..old).collect();
            for seed in 0..old {
                let mut bits = std::collections::BTreeMap::from([(seed, split_bits(seed, old))]);
                let mut at: Vec<(u32, u32)> = (0..4096u32)
                    .map(|n| n.wrapping_mul(0x9E37_79B1))
                    .filter(|hash| owner(*hash, old) == seed)
                    .map(|hash| (hash, seed))
                    .collect();
                for cut in cuts(seed, split_bits(seed, old), new) {
                    assert!(cut.into >= old && cut.into < new, "{seed} of {old} to {new}: {cut:?}");
                    made.push(cut.into);
                    assert_eq!(bits.insert(cut.from, cut.bits), Some(cut.bits - 1));
                    assert_eq!(bits.insert(cut.into, cut.bits), None, "a PG is made twice");
                    for (hash, at) in at.iter_mut().filter(|(_, at)| *at == cut.from) {
                        if store::split_takes(cut.bits, cut.into, *hash) {
                            *at = cut.into;
                        }
                    }
                }
                assert!(at.iter().all(|(hash, at)| owner(*hash, new) == *at), "{seed} of {old} to {new}");
                assert!(bits.iter().all(|(part, bits)| split_bits(*part, new) == *bits));
            }
            made.sort_unstable();
            assert!(made.iter().copied().eq(0..new), "{old} to {new}: {made:?}");
        }
    }

    #[test]
    fn a_pg_is_resized_exactly_if_it_has_other_hashes_afterwards() {
        for (old, new) in (1..20).flat_map(|old| (1..20).map(move |new| (old, new))) {
            for seed in 0..old {
                let differs = (0..64).any(|hash| (owner(hash, old) == seed) != (owner(hash, new) == seed));
                assert_eq!(is_resized(seed, old, new), differs, "{seed} of {old} to {new}");
            }
        }
    }

    #[test]
    fn every_hash_belongs_to_exactly_one_pg_and_lies_in_its_range() {
        for pg_num in 1..20 {
            for hash in (0..5000u32).map(|n| n.wrapping_mul(0x9E37_79B1)) {
                let object = HObject::head(PoolId(3), Name::new(), Name::new(), "o".into(), hash);
                let pgs = (0..pg_num).map(|seed| PgId { pool: PoolId(3), seed });
                let owners: Vec<_> = pgs.filter(|&pg| contains(pg, pg_num, hash)).collect();
                assert_eq!(owners.len(), 1, "{hash:#x} of {pg_num}");
                assert_eq!(owners[0].seed, owner(hash, pg_num));
                assert!(start(owners[0]) <= object && object < end(owners[0], pg_num));
            }
        }
    }
}
