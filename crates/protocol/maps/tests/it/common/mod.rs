//! Random maps and epochs.

use encoding::Decode;
use maps::{Incremental, NewCluster, OsdMap, OsdState, OsdXInfo, PgPool, PoolFlags, publish};
use types::{EntityAddr, Fsid, OsdId, PgId, PoolId, Release, SplitMix64, UTime};

/// What a random map is drawn from.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    pub fn osd(&mut self, max: i32) -> OsdId {
        OsdId(self.below(max as u64) as i32)
    }
}

/// A cluster after a few epochs of everything that can happen to placement.
pub fn random_map(r: &mut Random) -> OsdMap {
    let fsid = Fsid::from_random([r.below(256) as u8; 16]);
    let release = if r.chance(50) { Release::PACIFIC } else { Release::REEF };
    let cluster = NewCluster {
        fsid,
        created: UTime { sec: 1_700_000_000, nsec: 5 },
        release: Release::PACIFIC.min(release),
        failure_domain: "host".into(),
    };
    let mut map = publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap().map;
    let max = 3 + r.below(20) as i32;
    let mut crush = map.crush.clone();
    for osd in 0..max {
        let host = format!("host{}", r.below(6));
        crush
            .add_osd(osd, 1 + r.below(0x4_0000) as u32, &host, Some(["ssd", "hdd"][r.below(2) as usize]))
            .unwrap();
    }
    crush.add_erasure_rule("ec", "default", "osd", None, 5).unwrap();
    step(&mut map, |inc| {
        inc.set_crush(&crush);
        inc.new_max_osd = Some(max);
        for osd in (0..max).map(OsdId) {
            let addr = EntityAddr::v2(([127, 0, 0, 1], 6800 + osd.0 as u16).into(), 77);
            inc.new_up_client.insert(osd, addr.into());
            inc.new_up_cluster.insert(osd, addr.into());
            inc.new_hb_back_up.insert(osd, addr.into());
            inc.new_hb_front_up.insert(osd, addr.into());
            inc.new_weight.insert(osd, if r.chance(80) { 0x1_0000 } else { r.below(0x1_0000) as u32 });
            inc.new_xinfo.insert(osd, OsdXInfo { features: 0x3f01_cfbd_fffd_ffff, ..OsdXInfo::default() });
        }
        for id in 1..5 {
            let mut pool = PgPool::replicated(1 + r.below(5) as u8, 1, 1 + r.below(90) as u32, 0);
            if r.chance(40) {
                (pool.kind, pool.crush_rule) = (PgPool::ERASURE, 1);
            }
            if r.chance(20) {
                pool.flags &= !PoolFlags::HASHPSPOOL;
            }
            if r.chance(30) {
                pool.pgp_num = 1 + r.below(pool.pg_num.into()) as u32;
            }
            inc.new_pool_names.insert(PoolId(id), format!("pool{id}"));
            inc.new_pools.insert(PoolId(id), pool);
        }
        inc.new_pool_max = Some(4);
    });
    let pgs: Vec<PgId> =
        map.pools.iter().flat_map(|(&pool, p)| (0..p.pg_num).map(move |seed| PgId { pool, seed })).collect();
    step(&mut map, |inc| exceptions(r, inc, max, &pgs));
    map
}

pub fn exceptions(r: &mut Random, inc: &mut Incremental, max: i32, pgs: &[PgId]) {
    for osd in (0..max).map(OsdId) {
        match r.below(10) {
            0 => drop(inc.new_state.insert(osd, OsdState::UP)),
            1 => drop(inc.new_state.insert(osd, OsdState::UP | OsdState::EXISTS)),
            2 => drop(inc.new_weight.insert(osd, 0)),
            _ => {}
        }
        if r.chance(20) {
            inc.new_primary_affinity.insert(osd, r.below(0x1_0001) as u32);
        }
    }
    for &pg in pgs {
        if r.chance(5) {
            let osds = (0..1 + r.below(4)).map(|_| r.osd(max)).collect();
            inc.new_pg_temp.insert(pg, osds);
        }
        if r.chance(5) {
            inc.new_primary_temp.insert(pg, r.osd(max));
        }
        if r.chance(5) {
            inc.new_pg_upmap.insert(pg, (0..1 + r.below(4)).map(|_| r.osd(max)).collect());
        }
        if r.chance(15) {
            inc.new_pg_upmap_items
                .insert(pg, (0..1 + r.below(3)).map(|_| (r.osd(max), r.osd(max))).collect());
        }
    }
    let addr = |port| EntityAddr::v2(([10, 0, (port % 7) as u8, 1], port).into(), u32::from(port) * 1000);
    inc.new_blocklist = (1..6).map(|port| (addr(port), UTime { sec: 2_000_000_000, nsec: 0 })).collect();
}

/// One epoch on; what is published must decode to what was made.
pub fn step(map: &mut OsdMap, change: impl FnOnce(&mut Incremental)) {
    let mut inc = Incremental::new(map.fsid, map.epoch.next(), UTime { sec: 1_700_000_100, nsec: 0 });
    change(&mut inc);
    let published = publish(map, inc).unwrap();
    assert_eq!(OsdMap::from_bytes_exact(&published.full).as_ref(), Ok(&published.map));
    let mut follower = map.clone();
    follower.apply(&Incremental::from_bytes_exact(&published.incremental).unwrap()).unwrap();
    assert_eq!(follower.encode_full(), published.full);
    *map = published.map;
}

pub fn rounds(default: u64) -> u64 {
    std::env::var("LOLIGO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}
