//! Fronts of the messages that no capture holds, against bytes that were put together by hand from the order of the
//! fields in Ceph's headers (18.2 and 20.2 agree).

use std::collections::BTreeMap;

use buffer::Piece;
use messages::*;
use types::*;

fn check(message: impl Into<Message>, version: u16, compat: u16, front: &str) {
    let message = message.into();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let raw = message.encode(Profile::PACIFIC.features_supported);
    assert_eq!(hex(&raw.front), front, "{}", message.name());
    assert_eq!((raw.header.version, raw.header.compat_version), (version, compat), "{}", message.name());
    let raw = RawMessage { front: Piece::copy_from(&raw.front), ..raw };
    assert_eq!(Message::decode_exact(&raw), Ok(message));
}

const FSID: Fsid = Fsid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const PG: PgId = PgId { pool: PoolId(3), seed: 5 };
const EPOCH: Epoch = Epoch(9);

fn object() -> HObject {
    HObject::head(PoolId(3), "n".into(), Name::new(), "o".into(), 0x1234)
}

fn addrs() -> EntityAddrVec {
    EntityAddr::v2("127.0.0.1:6800".parse().unwrap(), 77).into()
}

#[test]
fn messages_without_fields_are_empty() {
    check(Ping::default(), 1, 1, "");
    check(Ping { answer: "ok".into() }, 1, 1, "020000006f6b");
    check(MonGetMap, 1, 1, "");
}

#[test]
fn messages_of_clients_and_monitors_have_cephs_layout() {
    let m = MgrClose { daemon_name: "d".into(), service_name: "sv".into() };
    check(m, 1, 1, "0100000064020000007376");
    let of_service = || (BTreeMap::from([("k".into(), "v".into())]), BTreeMap::new());
    let daemon = MappedDaemon {
        gid: 5,
        addr: EntityAddr { kind: AddrType::Legacy, ..addrs().0[0] },
        start_epoch: 2,
        start_stamp: UTime { sec: 3, nsec: 4 },
        metadata: BTreeMap::from([("k".into(), "v".into())]),
        task_status: BTreeMap::new(),
    };
    let service = MappedService { daemons: BTreeMap::from([("1".into(), daemon)]), summary: "s".into() };
    let services = BTreeMap::from([("sv".into(), service)]);
    let map = ServiceMapContents { epoch: 6, modified: UTime { sec: 7, nsec: 8 }, services };
    check(
        ServiceMap { map },
        1,
        1,
        "0101790000000600000007000000080000000100000002000000737601015d00000001000000010000003102014900000005\
         000000000000000101011c000000010000004d0000001000000002001a907f00000100000000000000000200000003000000\
         0400000001000000010000006b0100000076000000000100000073",
    );
    check(
        FsMap { epoch: 1, ..Default::default() },
        1,
        1,
        "01000000070646000000010000000100000000000000ffffffff000000000000000000000000000000000000000000000000\
         000000000000000000000000010000000000000000000000000000000001",
    );
    check(FsMapUser { epoch: 1 }, 1, 1, "0100000001010c00000001000000ffffffff00000000");
    let m = MgrOpen {
        daemon_name: "d".into(),
        service_name: "sv".into(),
        service_daemon: Some(of_service()),
        config: b"c".to_vec().into(),
        config_defaults: Blob::default(),
    };
    check(m, 3, 1, "01000000640200000073760101000000010000006b010000007600000000010000006300000000");
    let m = MgrOpen { daemon_name: "d".into(), ..MgrOpen::default() };
    check(
        m,
        3,
        1,
        "01000000640000000000\
                    0000000000000000",
    );
    let m = MgrUpdate { daemon_name: "d".into(), service_name: "sv".into(), facts: Some(of_service()) };
    check(m, 2, 1, "01000000640200000073760101000000010000006b010000007600000000");
    let m = MgrConfigure { stats_period: 5, stats_threshold: 255 };
    check(m, 4, 1, "05000000ff0000000000000000");
    let m = MgrReport {
        daemon_name: "d".into(),
        service_name: "sv".into(),
        status: Some(of_service().0),
        ..MgrReport::default()
    };
    check(
        m,
        9,
        1,
        "010000006400000000000000000000000002000000737601010000000100000\
         06b01000000760000000000000000000000000000",
    );
    check(MonSubscribeAck { interval: 300, fsid: FSID }, 1, 1, MON_SUBSCRIBE_ACK);
    let (name, host, device_class) = ("osd.0".parse().unwrap(), "h".into(), "ssd".into());
    check(GetConfig { name, host, device_class }, 1, 1, GET_CONFIG);
    let m = OsdBackoff {
        pgid: PG.into(),
        map_epoch: EPOCH,
        op: OsdBackoff::BLOCK,
        id: 7,
        begin: HObject::min(),
        end: object(),
    };
    check(m, 1, 1, OSD_BACKOFF);
    let pg_stat = [(PG, (11, EPOCH))].into();
    check(PgStatsAck { tid: 3, pg_stat }, 1, 1, PG_STATS_ACK);
    let m = OsdScrub2 { fsid: FSID, epoch: EPOCH, scrub_pgs: vec![PG.into()], repair: false, deep: true };
    check(m, 1, 1, OSD_SCRUB2);
}

#[test]
fn messages_of_osds_to_monitors_have_cephs_layout() {
    let paxos = Paxos::at(9);
    let m = OsdMarkMeDown {
        paxos,
        fsid: FSID,
        target_osd: OsdId(2),
        target_addrs: addrs(),
        epoch: EPOCH,
        request_ack: true,
        down_and_dead: false,
    };
    check(m, 4, 3, OSD_MARK_ME_DOWN);
    check(OsdFull { paxos, map_epoch: EPOCH, state: 0x40 }, 1, 1, OSD_FULL);
    let pg_temp = [(PG, vec![OsdId(1), OsdId(0)])].into();
    check(OsdPgTemp { paxos, map_epoch: EPOCH, pg_temp, forced: true }, 2, 1, OSD_PG_TEMP);
    let m = OsdPgReadyToMerge {
        paxos,
        pgid: PG,
        source_version: EVersion::new(Epoch(8), 100),
        target_version: EVersion::new(Epoch(7), 99),
        last_epoch_started: Epoch(6),
        last_epoch_clean: Epoch(5),
        ready: true,
    };
    check(m, 1, 1, OSD_PG_READY_TO_MERGE);
    let m = MonGetOsdMap {
        paxos: Paxos::default(),
        full_first: Epoch(1),
        full_last: Epoch(2),
        inc_first: Epoch(3),
        inc_last: Epoch(4),
    };
    check(m, 1, 1, MON_GET_OSD_MAP);
    let (paxos, start, last) = (Paxos::default(), Epoch(1), Epoch(2));
    check(MonGetPurgedSnaps { paxos, start, last }, 1, 1, MON_GET_PURGED_SNAPS);
    let purged_snaps = [(Epoch(2), [(PoolId(3), IntervalSet::range(4, 1))].into())].into();
    check(MonGetPurgedSnapsReply { paxos, start, last, purged_snaps }, 1, 1, MON_GET_PURGED_SNAPS_REPLY);
    let snaps = [(3, vec![SnapId(4), SnapId(5)])].into();
    check(RemoveSnaps { paxos, snaps }, 1, 1, REMOVE_SNAPS);
}

const MON_SUBSCRIBE_ACK: &str = "2c010000000102030405060708090a0b0c0d0e0f";
const GET_CONFIG: &str = "040000000100000030010000006803000000737364";
const OSD_BACKOFF: &str = "01011200000001030000000000000005000000ffffffffff0900000001070000000000000004032100000000\
         0000000000000000000000000000000000000000000000000000000000000080040323000000000000000100\
         00006ffeffffffffffffff3412000000010000006e0300000000000000";
const OSD_MARK_ME_DOWN: &str = "0900000000000000ffff0000000000000000000102030405060708090a0b0c0d0e0f02000000020100000001\
         01011c000000020000004d0000001000000002001a907f0000010000000000000000090000000100";
const OSD_SCRUB2: &str = "000102030405060708090a0b0c0d0e0f090000000100000001011200000001030000000000000005000000\
         ffffffffff0001";
const OSD_FULL: &str = "0900000000000000ffff00000000000000000900000040000000";
const OSD_PG_TEMP: &str = "0900000000000000ffff0000000000000000090000000100000001030000000000000005000000ffffffff02\
         000000010000000000000001";
const OSD_PG_READY_TO_MERGE: &str = "0900000000000000ffff000000000000000001030000000000000005000000ffffffff640000000000000008\
         000000630000000000000007000000060000000500000001";
const MON_GET_OSD_MAP: &str = "0000000000000000ffff000000000000000001000000020000000300000004000000";
const MON_GET_PURGED_SNAPS: &str = "0000000000000000ffff00000000000000000100000002000000";
const MON_GET_PURGED_SNAPS_REPLY: &str = "0000000000000000ffff00000000000000000100000002000000010000000200000001000000030000000000\
         00000100000004000000000000000100000000000000";
const REMOVE_SNAPS: &str = "0000000000000000ffff0000000000000000010000000300000002000000\
         04000000000000000500000000000000";
const PG_INFO_QUERY: &str = "000102030405060708090a0b0c0d0e0f0100000001012000000001011200000001030000000000000005000000ff\
    ffffffff0900000008000000";
const PG_INFO_REPLY: &str = "000102030405060708090a0b0c0d0e0f01012000000001011200000001030000000000000005000000ffffffffff\
    090000000800000009000000";
const PG_SUMMARY: &str = "0101200000006400000000000000070000005a00000000000000060000000700000005000000";
const PG_STATS_ACK: &str = "0100000001030000000000000005000000ffffffff0b0000000000000009000000";

/// Builds of different age talk to each other: what a version writes stays as it is.
#[test]
fn messages_of_loligos_own_keep_their_layout() {
    let question = PgQuestion { pgid: PG.into(), epoch: EPOCH, since: Epoch(8) };
    check(PgInfoQuery { fsid: FSID, pgs: vec![question] }, 1, 1, PG_INFO_QUERY);
    let reply = |has| PgInfoReply { fsid: FSID, question, epoch: EPOCH, has };
    let version = |epoch, version| EVersion { epoch: Epoch(epoch), version };
    let summary = PgSummary {
        last_update: version(7, 100),
        log_tail: version(6, 90),
        last_epoch_started: Epoch(7),
        last_interval_started: Epoch(5),
    };
    check(reply(PgHolding::Nothing), 1, 1, &format!("{PG_INFO_REPLY}00"));
    check(reply(PgHolding::Unreadable), 1, 1, &format!("{PG_INFO_REPLY}01"));
    check(reply(PgHolding::Info(summary)), 1, 1, &format!("{PG_INFO_REPLY}02{PG_SUMMARY}"));
    assert!([kind::PG_INFO_QUERY, kind::PG_INFO_REPLY].into_iter().all(kind::is_ours));
    assert!(Message::KNOWN.iter().filter(|kind| kind::is_ours(**kind)).count() == 2);
}
