//! A placement group as a map has it.

use std::sync::Arc;

use maps::{MapDelta, MapFlags, OsdMap, PgPool, Placement, PoolFlags, UpActing};
use ops::FullKind;
use pg::{MapView, PoolView};
use types::{OsdId, PgId, SpgId};

/// Where a map puts a PG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub place: Placement,
    /// Copies that the pool asks for.
    pub size: u32,
    /// Whether this OSD is its primary.
    pub leads: bool,
}

/// The PGs that had a PG's objects while its pool had fewer PGs, the nearest first.
pub(crate) fn ancestors(pgid: &SpgId) -> impl Iterator<Item = SpgId> + use<> {
    let pgid = *pgid;
    let before = |seed: u32| (seed > 0).then(|| seed & !(1 << seed.ilog2()));
    let seeds = std::iter::successors(before(pgid.pg.seed), move |seed| before(*seed));
    seeds.map(move |seed| SpgId { pg: PgId { seed, ..pgid.pg }, ..pgid })
}

const NOBODY: OsdId = OsdId(-1);

/// The PG in the map, if its pool is there.
pub(crate) fn view(map: &Arc<OsdMap>, pgid: &SpgId) -> Option<MapView> {
    let pool = map.pools.get(&pgid.pg.pool)?;
    Some(view_of(map, pool, map.pg_to_up_acting(pgid.pg)))
}

/// A PG of `pool` that the map puts at `place`.
pub(crate) fn view_at(map: &Arc<OsdMap>, pool: &PgPool, place: &Placement) -> MapView {
    view_of(map, pool, place.up_acting())
}

fn view_of(map: &Arc<OsdMap>, pool: &PgPool, at: UpActing) -> MapView {
    MapView {
        epoch: map.epoch,
        osdmap: map.clone(),
        up: at.up,
        up_primary: at.up_primary.unwrap_or(NOBODY),
        acting: at.acting,
        acting_primary: at.acting_primary.unwrap_or(NOBODY),
        pool: pool_view(map, pool),
    }
}

fn pool_view(map: &OsdMap, pool: &PgPool) -> PoolView {
    let full = if pool.has_flags(PoolFlags::FULL_QUOTA) {
        Some(FullKind::Quota)
    } else if pool.has_flags(PoolFlags::FULL) || map.has_flags(MapFlags::FULL) {
        Some(FullKind::Space)
    } else {
        None
    };
    PoolView {
        size: pool.size.into(),
        min_size: pool.min_size.into(),
        pg_num: pool.pg_num,
        pg_num_pending: pool.pg_num_pending,
        last_force_op_resend: pool.last_force_op_resend,
        last_force_op_resend_prenautilus: pool.last_force_op_resend_prenautilus,
        last_force_op_resend_preluminous: pool.last_force_op_resend_preluminous,
        peering_crush: pool.peering_crush,
        ec_optimizations: pool.has_flags(PoolFlags::EC_OPTIMIZATIONS),
        full,
        eio: pool.has_flags(PoolFlags::EIO),
        writes_dontneed: pool.has_flags(PoolFlags::WRITE_FADVISE_DONTNEED),
        has_omap: pool.kind == PgPool::REPLICATED,
        snapc: pool.has_flags(PoolFlags::POOL_SNAPS).then(|| pool.snap_context()),
    }
}

impl Mapping {
    /// Where `map` puts a PG of `pool`.
    pub(crate) fn of(map: &OsdMap, pool: &PgPool, pg: PgId, whoami: OsdId) -> Self {
        let place = Placement::of(map, pg);
        let leads = place.acting_primary() == Some(whoami);
        Self { place, size: pool.size.into(), leads }
    }

    /// Moves on to the next map. Whether the PG is elsewhere there (the interval ends).
    pub(crate) fn advance(&mut self, pg: PgId, map: &OsdMap, delta: &MapDelta, whoami: OsdId) -> bool {
        let moved = self.place.advance(pg, map, delta);
        self.leads = self.place.acting_primary() == Some(whoami);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pg_comes_out_of_those_whose_numbers_are_its_lower_bits() {
        let seeds = |seed| {
            let pgid = SpgId::from(PgId { pool: types::PoolId(1), seed });
            ancestors(&pgid).map(|of| of.pg.seed).collect::<Vec<_>>()
        };
        assert_eq!(seeds(0b1101), [0b101, 0b1, 0]);
        assert_eq!((seeds(4), seeds(0)), (vec![0], vec![]));
    }
}
