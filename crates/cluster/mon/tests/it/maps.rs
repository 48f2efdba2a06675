//! The OSD maps that the monitor keeps: any of them can be had, and they take little room.

use crate::common;

use crate::common::{Cluster, config};
use encoding::Decode;
use maps::OsdMap;
use messages::{Message, MonGetOsdMap, MonSubscribe, Subscription};
use mon::{Key, State, StateKey};
use types::{EntityType, Epoch};

const NOOUT: [&str; 2] = [r#"{"prefix":"osd set","key":"noout"}"#, r#"{"prefix":"osd unset","key":"noout"}"#];

/// A cluster at an epoch, with every full map that it showed on the way.
fn at_epoch(last: u32, local: &[(&str, &str)]) -> (Cluster, Vec<Vec<u8>>) {
    let mut cluster = Cluster::new(config(3, local));
    let client = cluster.client();
    let mut shown = vec![Vec::new(); last as usize + 1];
    for command in NOOUT.iter().cycle() {
        let map = cluster.mon.osdmap();
        shown[map.epoch.0 as usize] = map.encode_full();
        if map.epoch.0 == last {
            break;
        }
        cluster.ok(client, command);
    }
    (cluster, shown)
}

fn whole_epochs(state: &State) -> Vec<u64> {
    let whole = state.keys().filter(|key| key.service == "osdmap_full");
    whole.map(|key| if let Key::Version(epoch) = key.key { epoch } else { panic!("{key}") }).collect()
}

/// The maps of a message that answers `ask`.
fn maps(cluster: &mut Cluster, ask: impl Into<Message>) -> messages::OsdMap {
    let peer = cluster.open_session(EntityType::Osd, "0", 6800);
    cluster.send(peer, ask);
    let maps = cluster.take(peer).into_iter().find_map(|m| match m {
        Message::OsdMap(maps) => Some(maps),
        _ => None,
    });
    maps.unwrap()
}

#[test]
fn any_epoch_is_given_as_it_was_though_one_in_thirty_two_is_stored() {
    let (mut cluster, shown) = at_epoch(100, &[]);
    assert_eq!(whole_epochs(&cluster.disk), [1, 32, 64, 96]);
    let client = cluster.client();
    for restart in [false, true] {
        if restart {
            cluster = cluster.kill();
        }
        let newest = cluster.mon.osdmap();
        assert_eq!((newest.epoch, newest.encode_full()), (Epoch(100), shown[100].clone()));
        for (first, last) in [(2, 40), (31, 33), (60, 99), (100, 100), (95, 200)] {
            let (full_first, full_last) = (Epoch(first), Epoch(last));
            let got = maps(&mut cluster, MonGetOsdMap { full_first, full_last, ..MonGetOsdMap::default() });
            let epochs: Vec<u32> = got.maps.keys().map(|e| e.0).collect();
            assert_eq!(epochs, (first..=last.min(100)).collect::<Vec<_>>());
            assert!(got.maps.iter().all(|(e, bytes)| bytes[..] == shown[e.0 as usize][..]));
        }
    }
    for epoch in [2, 31, 32, 77, 99, 100] {
        let (code, status, _) = cluster.run(client, &format!(r#"{{"prefix":"osd getmap","epoch":{epoch}}}"#));
        assert_eq!((code, status), (0, format!("got osdmap epoch {epoch}")));
        let dump = cluster.ok(client, &format!(r#"{{"prefix":"osd dump","epoch":{epoch},"format":"json"}}"#));
        assert!(dump.contains(&format!("\"epoch\":{epoch},")), "{dump}");
    }
    let (code, ..) = cluster.run(client, r#"{"prefix":"osd getmap","epoch":101}"#);
    assert_eq!(code, -2);
}

#[test]
fn after_trimming_the_oldest_epoch_is_a_whole_map_and_subscribers_begin_there() {
    let (mut cluster, shown) = at_epoch(330, &[("mon_min_osdmap_epochs", "5")]);
    let first = whole_epochs(&cluster.disk)[0];
    assert!(first > 1 && first.is_multiple_of(32), "{first}");
    let oldest = cluster.disk.keys().find(|key| key.service == "osdmap").unwrap();
    assert_eq!(*oldest, StateKey::version("osdmap", first));
    let what = [("osdmap".to_string(), Subscription { start: 2, flags: 0 })].into();
    let got = maps(&mut cluster, MonSubscribe { what, hostname: "vm".into() });
    let epoch = Epoch(first as u32);
    assert_eq!(got.maps.keys().collect::<Vec<_>>(), [&epoch]);
    assert_eq!(got.maps[&epoch][..], shown[first as usize][..]);
    assert_eq!(got.incremental_maps.keys().next(), Some(&epoch.next()));
    assert_eq!(got.cluster_osdmap_trim_lower_bound, epoch);
}

#[test]
fn a_state_of_before_in_which_every_map_is_whole_opens_and_goes_on() {
    let (mut cluster, shown) = at_epoch(50, &[]);
    for (epoch, full) in (1..).zip(&shown[1..]) {
        cluster.disk.insert(StateKey::version("osdmap_full", epoch), full.clone());
    }
    let mut cluster = cluster.kill();
    let client = cluster.client();
    for command in NOOUT.iter().cycle().take(30) {
        cluster.ok(client, command);
    }
    assert_eq!(whole_epochs(&cluster.disk).into_iter().filter(|e| *e > 50).collect::<Vec<_>>(), [64]);
    let range = MonGetOsdMap { full_first: Epoch(45), full_last: Epoch(70), ..MonGetOsdMap::default() };
    let got = maps(&mut cluster, range);
    assert_eq!(got.maps.len(), 26);
    assert!(got.maps.iter().all(|(e, bytes)| OsdMap::from_bytes(bytes).unwrap().epoch == *e));
    cluster.kill();
}

#[test]
fn a_damaged_increment_keeps_a_state_from_opening() {
    let (cluster, _) = at_epoch(50, &[]);
    let mut disk = cluster.disk;
    let other = disk[&StateKey::version("osdmap", 41)].clone();
    disk.insert(StateKey::version("osdmap", 40), other);
    let error =
        mon::Mon::open(cluster.config.clone(), disk.clone(), common::at(0)).err().unwrap().to_string();
    assert!(error.contains("map 50 can't be made out of the stored map 32"), "{error}");
    disk.remove(&StateKey::version("osdmap", 40));
    let error = mon::Mon::open(cluster.config, disk, common::at(0)).err().unwrap().to_string();
    assert!(error.contains("between the stored OSD map 32 and map 50 is missing"), "{error}");
}

#[test]
fn the_epochs_of_a_large_cluster_take_few_bytes() {
    let mut cluster = Cluster::new(config(1_000, &[]));
    let client = cluster.client();
    let mut bytes_max = 0;
    while cluster.mon.osdmap().epoch < Epoch(2_000) {
        let epoch = cluster.mon.osdmap().epoch;
        cluster.ok(client, NOOUT[epoch.0 as usize % 2]);
        assert_eq!(cluster.mon.osdmap().epoch, epoch.next());
        cluster.trace.clear();
        bytes_max = bytes_max.max(cluster.mon.state().values().map(Vec::len).sum::<usize>());
    }
    let full = cluster.mon.osdmap().encode_full().len();
    assert!(bytes_max < 4 << 20, "{bytes_max} bytes of state, a full map has {full}");
}
