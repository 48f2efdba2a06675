//! Maps that stock clusters sent (tests/captures): byte for byte, and every increment leads to the map whose checksum it
//! names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use encoding::{Decode, Decoder, Encode, Encoder};
use maps::{Incremental, MapDelta, Mapping, MgrMap, MonMap, NewCluster, OsdMap, PgPool, Placement};
use types::{Fsid, Release};

const MON_MAP: u16 = 4;
const OSD_MAP: u16 = 41;
const MGR_MAP: u16 = 0x704;

/// The messages of one direction of a connection: type and front. Anything odd ends the stream.
fn messages(stream: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    let _ = read_messages(&mut Decoder::new(stream), &mut found);
    found
}

fn read_messages(d: &mut Decoder<'_>, found: &mut Vec<(u16, Vec<u8>)>) -> Result<(), encoding::DecodeError> {
    d.take(8, "banner")?;
    let len: u16 = d.get()?;
    d.take(len.into(), "banner payload")?;
    loop {
        let mut preamble = Decoder::new(d.take(32, "preamble")?);
        let (tag, count): (u8, u8) = (preamble.get()?, preamble.get()?);
        let mut segments = Vec::new();
        for _ in 0..4 {
            let (len, _align): (u32, u16) = (preamble.get()?, preamble.get()?);
            segments.push(len as usize);
        }
        let mut bodies = Vec::new();
        for (i, &len) in segments.iter().take(count.into()).enumerate() {
            bodies.push(d.take(len, "segment")?.to_vec());
            if i == 0 && len > 0 {
                d.take(4, "segment crc")?;
            }
        }
        if count > 1 {
            d.take(13, "epilogue")?;
        }
        if let (17, [header, front, ..]) = (tag, &bodies[..]) {
            found.push((u16::from_le_bytes([header[16], header[17]]), front.clone()));
        }
    }
}

/// All messages of the clusters of one release.
fn captured(server: &str) -> Vec<(PathBuf, u16, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/captures").join(server);
    let mut found = Vec::new();
    for scenario in std::fs::read_dir(&root).unwrap().map(Result::unwrap).filter(|e| e.path().is_dir()) {
        for file in std::fs::read_dir(scenario.path()).unwrap().map(Result::unwrap) {
            let path = file.path();
            if path.extension().is_some_and(|e| e == "s2c" || e == "c2s") {
                let all = messages(&std::fs::read(&path).unwrap());
                found.extend(all.into_iter().map(|(kind, front)| (path.clone(), kind, front)));
            }
        }
    }
    assert!(found.len() > 100, "few messages under {root:?}");
    found
}

type Epochs = BTreeMap<u32, Vec<u8>>;

/// The increments and full maps inside a message.
fn osd_maps(front: &[u8]) -> (Epochs, Epochs) {
    let mut d = Decoder::new(front);
    d.get::<Fsid>().unwrap();
    let mut part = || {
        let n: u32 = d.get().unwrap();
        (0..n).map(|_| (d.get().unwrap(), d.blob("map").unwrap().to_vec())).collect()
    };
    (part(), part())
}

fn check_osd_maps(server: &str, release: Release) {
    let (mut fulls, mut incs, mut applied) = (0, 0, 0);
    // Each connection on its own: what arrived there, by epoch.
    let mut streams: BTreeMap<PathBuf, BTreeMap<u32, OsdMap>> = BTreeMap::new();
    let mut increments = Vec::new();
    for (path, kind, front) in captured(server) {
        if kind != OSD_MAP {
            continue;
        }
        let (inc_maps, full_maps) = osd_maps(&front);
        for (epoch, bytes) in full_maps {
            let map = OsdMap::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?} {epoch}: {e}"));
            assert!(map.encode_full() == bytes, "{path:?}: full map {epoch} differs");
            assert_eq!(map.epoch.0, epoch);
            streams.entry(path.clone()).or_default().insert(epoch, map);
            fulls += 1;
        }
        for (epoch, bytes) in inc_maps {
            let inc =
                Incremental::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?} {epoch}: {e}"));
            assert!(inc.encode_for(release) == bytes, "{path:?}: increment {epoch} differs");
            assert_eq!(inc.encode_features, release.map_features(), "{path:?} {epoch}");
            increments.push((path.clone(), epoch, inc));
            incs += 1;
        }
    }
    for (path, epoch, inc) in increments {
        let known = streams.entry(path.clone()).or_default();
        let Some(mut map) = known.get(&(epoch - 1)).cloned() else { continue };
        let (before, mut mapping) = (map.clone(), Mapping::of_all(&map));
        map.apply(&inc).unwrap_or_else(|e| panic!("{path:?} {epoch}: {e}"));
        mapping.advance(&map, &MapDelta::between(&before, &map, Some(&inc)));
        for (pg, placement) in mapping.iter() {
            assert_eq!(placement, &Placement::of(&map, pg), "{path:?}: pg {pg} after increment {epoch}");
        }
        let (_, crc) = map.encode_full_and_crc();
        assert_eq!(crc, inc.full_crc, "{path:?}: the map after increment {epoch}");
        if let Some(full) = known.get(&epoch) {
            assert_eq!(full, &map, "{path:?}: full map {epoch}");
        }
        known.insert(epoch, map);
        applied += 1;
    }
    println!("{server}: {fulls} full maps, {incs} increments, {applied} applied");
    assert!(fulls > 0 && applied > 0);
}

#[test]
fn a_pacific_cluster_s_osdmaps_come_out_as_they_went_in() {
    check_osd_maps("16.2", Release::PACIFIC);
}

#[test]
fn a_reef_cluster_s_osdmaps_come_out_as_they_went_in() {
    check_osd_maps("18.2", Release::REEF);
}

#[test]
fn a_tentacle_cluster_s_osdmaps_come_out_as_they_went_in() {
    check_osd_maps("20.2", Release::TENTACLE);
}

#[test]
fn monmaps_and_mgrmaps_come_out_as_they_went_in() {
    let (mut mon_maps, mut mgr_maps) = (0, 0);
    for server in ["16.2", "18.2", "20.2"] {
        for (path, kind, front) in captured(server) {
            if kind == MON_MAP {
                let bytes = Decoder::new(&front).blob("monmap").unwrap().to_vec();
                let map = MonMap::from_bytes_exact(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                assert!(map.to_bytes(!0) == bytes, "{path:?}: MonMap differs");
                mon_maps += 1;
            }
            if kind == MGR_MAP {
                let map = MgrMap::from_bytes_exact(&front).unwrap_or_else(|e| panic!("{path:?}: {e}"));
                let mut e = Encoder::new(!0);
                map.encode_version(&mut e, front[0]);
                assert!(e.as_slice() == front, "{path:?}: MgrMap differs");
                if server == "16.2" {
                    assert_eq!(front[0], MgrMap::VERSION_PACIFIC, "{path:?}");
                }
                mgr_maps += 1;
            }
        }
    }
    assert!(mon_maps > 0 && mgr_maps > 0);
}

/// Every full OSDMap of a Pacific cluster.
fn pacific_maps() -> Vec<(OsdMap, Vec<u8>)> {
    let fronts = captured("16.2").into_iter().filter(|(_, kind, _)| *kind == OSD_MAP);
    let maps = fronts.flat_map(|(_, _, front)| osd_maps(&front).1.into_values());
    maps.map(|bytes| (OsdMap::from_bytes(&bytes).unwrap(), bytes)).collect()
}

#[test]
fn a_new_cluster_s_first_map_is_a_pacific_monitor_s() {
    let (first, bytes) = pacific_maps().into_iter().find(|(map, _)| map.epoch.0 == 1).unwrap();
    // The captured clusters spread replicas over OSDs (osd_crush_chooseleaf_type = 0).
    let (fsid, created) = (first.fsid, first.created);
    let cluster = NewCluster { fsid, created, release: Release::PACIFIC, failure_domain: "osd".into() };
    let ours = cluster.map().unwrap();
    assert_eq!(ours, first);
    assert!(ours.encode_full() == bytes);
}

#[test]
fn a_new_pool_s_defaults_are_a_pacific_monitor_s() {
    let mut compared = 0;
    for (map, _) in pacific_maps() {
        for theirs in map.pools.values().filter(|p| p.opts.is_empty() && p.snap_seq.0 == 0) {
            let ours = PgPool {
                create_time: theirs.create_time,
                last_change: theirs.last_change,
                pg_num_target: theirs.pg_num_target,
                pgp_num_target: theirs.pgp_num_target,
                pgp_num: theirs.pgp_num,
                pg_num_pending: theirs.pg_num_pending,
                last_pg_merge_meta: theirs.last_pg_merge_meta,
                last_force_op_resend: theirs.last_force_op_resend,
                last_force_op_resend_prenautilus: theirs.last_force_op_resend_prenautilus,
                last_force_op_resend_preluminous: theirs.last_force_op_resend_preluminous,
                pg_autoscale_mode: theirs.pg_autoscale_mode,
                application_metadata: theirs.application_metadata.clone(),
                flags: theirs.flags,
                ..PgPool::replicated(theirs.size, theirs.min_size, theirs.pg_num, theirs.crush_rule)
            };
            assert_eq!(&ours, theirs);
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn a_new_monmap_says_what_a_pacific_monitor_s_does() {
    let is_map = |(_, kind, _): &(PathBuf, u16, Vec<u8>)| *kind == MON_MAP;
    let (_, _, front) = captured("16.2").into_iter().find(is_map).unwrap();
    let theirs = MonMap::from_bytes(Decoder::new(&front).blob("monmap").unwrap()).unwrap();
    let mons = theirs.mons.values().map(|info| (info.name.clone(), info.public_addrs.clone()));
    let mut ours = MonMap::new(theirs.fsid, theirs.created, mons);
    (ours.epoch, ours.last_changed) = (theirs.epoch, theirs.last_changed);
    assert_eq!(ours, theirs);
}
