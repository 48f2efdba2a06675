//! Times what an epoch costs an OSD with many PGs: `cargo run --release -p maps --example remap`.
//!
//! 16,384 PGs of three copies over 100 OSDs; 40 epochs of each kind. For each kind: applying the increment, making the
//! delta, and carrying the placements on; then the same placements computed whole.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a tool
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // it measures time

use std::time::{Duration, Instant};

use crush::CrushMap;
use maps::{Incremental, MapDelta, Mapping, NewCluster, OsdMap, OsdState, PgPool, PoolFlags};
use types::{Fsid, OsdId, PgId, PoolId, Release, UTime};

const PGS: u32 = 16_384;
const OSDS: i32 = 100;
const EPOCHS: u32 = 40;

fn map() -> OsdMap {
    let cluster = NewCluster {
        fsid: Fsid([7; 16]),
        created: UTime::default(),
        release: Release::REEF,
        failure_domain: "host".into(),
    };
    let mut map = cluster.map().unwrap();
    let mut crush = CrushMap::new_cluster("host").unwrap();
    for osd in 0..OSDS {
        crush.add_osd(osd, 0x1_0000, &format!("host{}", osd / 5), None).unwrap();
    }
    map.crush = crush;
    map.set_max_osd(OSDS);
    map.osds.iter_mut().for_each(|osd| osd.state = OsdState::EXISTS | OsdState::UP);
    map.weights.fill(OsdMap::WEIGHT_IN);
    map.pools.insert(PoolId(1), PgPool::replicated(3, 2, PGS, 0));
    map
}

type Change = fn(u32, &OsdMap, &mut Incremental);

const KINDS: [(&str, Change); 5] = [
    ("one OSD goes down or up", |_, _, inc| {
        inc.new_state.insert(OsdId(42), OsdState::UP);
    }),
    ("a pool's flags change", |epoch, map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.flags = PoolFlags::HASHPSPOOL | [0, PoolFlags::NODELETE][epoch as usize % 2];
        inc.new_pools.insert(PoolId(1), pool);
    }),
    ("10 PGs get a pg_temp", |epoch, _, inc| {
        for i in 0..10 {
            inc.new_pg_temp.insert(PgId { pool: PoolId(1), seed: epoch * 10 + i }, vec![OsdId(1), OsdId(2)]);
        }
    }),
    ("one OSD goes out or in", |epoch, _, inc| {
        inc.new_weight.insert(OsdId(42), [0, OsdMap::WEIGHT_IN][epoch as usize % 2]);
    }),
    ("another CRUSH map", |epoch, map, inc| {
        let mut crush = map.crush.clone();
        crush.tunables.choose_total_tries = 50 + epoch % 2;
        inc.set_crush(&crush);
    }),
];

fn main() {
    println!("{PGS} PGs, {OSDS} OSDs; microseconds an epoch, mean of {EPOCHS}");
    println!("{:<26}{:>8}{:>8}{:>10}{:>8}{:>12}", "epoch", "apply", "delta", "carry on", "moved", "checksum");
    for (name, change) in KINDS {
        let mut map = map();
        let mut mapping = Mapping::of_all(&map);
        let (mut apply, mut compare, mut carry, mut encode) =
            <(Duration, Duration, Duration, Duration)>::default();
        let mut moved = 0;
        for epoch in 1..=EPOCHS {
            let mut inc = Incremental::new(map.fsid, map.epoch.next(), UTime::default());
            change(epoch, &map, &mut inc);
            let start = Instant::now();
            let mut new = map.clone();
            new.apply(&inc).unwrap();
            apply += start.elapsed();
            let start = Instant::now();
            let delta = MapDelta::between(&map, &new, Some(&inc));
            compare += start.elapsed();
            let start = Instant::now();
            moved += mapping.advance(&new, &delta).len();
            carry += start.elapsed();
            let start = Instant::now();
            std::hint::black_box(new.encode_full_and_crc());
            encode += start.elapsed();
            map = new;
        }
        let us = |d: Duration| d.as_secs_f64() * 1e6 / f64::from(EPOCHS);
        let mean = moved as f64 / f64::from(EPOCHS);
        let (apply, compare, carry, encode) = (us(apply), us(compare), us(carry), us(encode));
        println!("{name:<26}{apply:>8.1}{compare:>8.1}{carry:>10.1}{mean:>8.1}{encode:>12.1}");
    }
    let map = map();
    let start = Instant::now();
    for seed in 0..PGS {
        std::hint::black_box(map.pg_to_up_acting(PgId { pool: PoolId(1), seed }));
    }
    let whole = start.elapsed().as_secs_f64() * 1e6;
    println!("all placements, whole: {whole:.0} us, {:.2} us each", whole / f64::from(PGS));
}
