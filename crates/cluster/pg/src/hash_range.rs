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

    /// Which PG of `pg_num` a hash belongs to.
    fn owner(pg_num: u32, hash: u32) -> u32 {
        (0..pg_num).find(|&seed| contains(PgId { pool: PoolId(3), seed }, pg_num, hash)).unwrap()
    }

    #[test]
    fn a_pg_is_resized_exactly_if_it_has_other_hashes_afterwards() {
        for (old, new) in (1..20).flat_map(|old| (1..20).map(move |new| (old, new))) {
            for seed in 0..old {
                let differs = (0..64).any(|hash| (owner(old, hash) == seed) != (owner(new, hash) == seed));
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
                assert!(start(owners[0]) <= object && object < end(owners[0], pg_num));
            }
        }
    }
}
