//! A placement group as a map has it.

use std::sync::Arc;

use maps::{MapFlags, OsdMap, PgPool, PoolFlags};
use ops::FullKind;
use pg::{MapView, PoolView};
use types::{Epoch, OsdId, SpgId};

/// Where a map puts a PG.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub up: Vec<OsdId>,
    pub up_primary: Option<OsdId>,
    pub acting: Vec<OsdId>,
    pub acting_primary: Option<OsdId>,
    /// Copies that the pool asks for.
    pub size: u32,
    /// Whether this OSD is its primary.
    pub leads: bool,
    /// Since which map it is so.
    pub since: Epoch,
}

const NOBODY: OsdId = OsdId(-1);

/// The PG in the map, if its pool is there.
pub(crate) fn view(map: &Arc<OsdMap>, pgid: &SpgId) -> Option<MapView> {
    let pool = map.pools.get(&pgid.pg.pool)?;
    let at = map.pg_to_up_acting(pgid.pg);
    Some(MapView {
        epoch: map.epoch,
        osdmap: map.clone(),
        up: at.up,
        up_primary: at.up_primary.unwrap_or(NOBODY),
        acting: at.acting,
        acting_primary: at.acting_primary.unwrap_or(NOBODY),
        pool: pool_view(map, pool),
    })
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
    /// What the OSD keeps of a view.
    pub(crate) fn of(view: &MapView, whoami: OsdId) -> Self {
        let some = |osd: OsdId| (osd != NOBODY).then_some(osd);
        Self {
            up: view.up.clone(),
            up_primary: some(view.up_primary),
            acting: view.acting.clone(),
            acting_primary: some(view.acting_primary),
            size: view.pool.size,
            leads: view.acting_primary == whoami,
            since: view.epoch,
        }
    }

    /// Whether the PG is where it was (the interval goes on).
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        (&self.up, &self.acting, self.up_primary, self.acting_primary)
            == (&other.up, &other.acting, other.up_primary, other.acting_primary)
    }
}
