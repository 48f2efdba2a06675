//! Snapshots of pools: by name, by id, removed and purged.

use crate::common::{Cluster, FSID, config};
use auth::SessionId;
use encoding::Decode;
use messages::{Message, MonGetPurgedSnaps, Paxos, PgState, PoolOp, RemoveSnaps};
use types::{Epoch, Errno, IntervalSet, PoolId, SnapId};

const POOL: PoolId = PoolId(1);

fn cluster() -> (Cluster, SessionId, SessionId) {
    let mut cluster = Cluster::new(config(1, &[]));
    let osd = cluster.boot(0);
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    (cluster, client, osd)
}

/// The result, and the id that was given out.
fn pool_op(cluster: &mut Cluster, client: SessionId, op: u32, snapid: u64, name: &str) -> (i32, Option<u64>) {
    let (paxos, pool, snapid) = (Paxos::default(), 1, SnapId(snapid));
    let name = name.into();
    cluster
        .send(client, PoolOp { tid: 7, paxos, fsid: FSID, pool, op, auid: 0, snapid, name, crush_rule: -1 });
    cluster.settle();
    let answers = cluster.take(client);
    let [Message::PoolOpReply(reply)] = &answers[..] else { panic!("{answers:?}") };
    assert!(reply.epoch <= cluster.mon.osdmap().epoch, "the map that the client waits for is there");
    (reply.result, reply.response.as_ref().map(|blob| u64::from_bytes_exact(&blob.0).unwrap()))
}

fn queue(cluster: &Cluster) -> Vec<(u64, u64)> {
    let queue = cluster.mon.osdmap().removed_snaps_queue.get(&POOL);
    queue.map(|queue| queue.ranges().to_vec()).unwrap_or_default()
}

/// Every PG reports that it has purged these.
fn report(cluster: &mut Cluster, osd: SessionId, seq: u64, purged: &[IntervalSet]) {
    let map = cluster.mon.osdmap();
    let mut stats = messages::PgStats { tid: seq, fsid: FSID, epoch: map.epoch, ..Default::default() };
    for (seed, purged) in purged.iter().enumerate() {
        let stat = messages::PgStat {
            reported_seq: seq,
            reported_epoch: map.epoch,
            state: PgState::ACTIVE,
            purged_snaps: purged.clone(),
            ..Default::default()
        };
        stats.pg_stat.insert(types::PgId { pool: POOL, seed: seed as u32 }, stat);
    }
    cluster.send(osd, stats);
    cluster.settle();
    cluster.take(osd);
}

#[test]
fn a_pools_own_snapshots_come_by_name_and_go_into_the_queue() {
    let (mut cluster, client, _) = cluster();
    let said = |cluster: &mut Cluster, word: &str, snap: &str| {
        let command = format!(r#"{{"prefix":"osd pool {word}","pool":"p","snap":"{snap}"}}"#);
        let (code, status, _) = cluster.run(client, &command);
        assert_eq!(code, 0, "{status}");
        status
    };
    assert_eq!(said(&mut cluster, "mksnap", "a"), "created pool p snap a");
    assert_eq!(said(&mut cluster, "mksnap", "a"), "pool p snap a already exists");
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_SNAP, 0, "b"), (0, None));
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_SNAP, 0, "b"), (0, None));
    let epoch = cluster.mon.osdmap().epoch;
    let pool = &cluster.mon.osdmap().pools[&POOL];
    let names: Vec<_> = pool.snaps.values().map(|snap| (snap.id.0, snap.name.as_str())).collect();
    assert_eq!((pool.snap_seq, pool.snap_epoch, names), (SnapId(2), epoch, vec![(1, "a"), (2, "b")]));
    assert_eq!(said(&mut cluster, "rmsnap", "a"), "removed pool p snap a");
    assert_eq!(said(&mut cluster, "rmsnap", "a"), "pool p snap a does not exist");
    assert_eq!(queue(&cluster), [(1, 1)]);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_SNAP, 0, "b"), (0, None));
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_SNAP, 0, "b"), (0, None));
    assert_eq!(queue(&cluster), [(1, 2)]);
    let invalid = (Errno::EINVAL.code(), None);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_UNMANAGED_SNAP, 0, ""), invalid);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 1, ""), invalid);
    let dump = cluster.ok(client, r#"{"prefix":"osd dump","format":"json"}"#);
    assert!(
        dump.contains(r#""removed_snaps_queue":[{"pool":1,"snaps":[{"begin":1,"length":2}]}]"#),
        "{dump}"
    );
}

#[test]
fn ids_for_clients_snapshots_are_given_out_and_taken_back_once() {
    let (mut cluster, client, _) = cluster();
    let unsupported = (Errno::EOPNOTSUPP.code(), None);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 2, ""), unsupported);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_UNMANAGED_SNAP, 0, ""), (0, Some(2)));
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_UNMANAGED_SNAP, 0, ""), (0, Some(3)));
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 2, ""), (0, None));
    let epoch = cluster.mon.osdmap().epoch;
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 2, ""), (0, None));
    assert_eq!((queue(&cluster), cluster.mon.osdmap().epoch), (vec![(2, 1)], epoch));
    let unknown = (Errno::ENOENT.code(), None);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 4, ""), unknown);
    let invalid = (Errno::EINVAL.code(), None);
    assert_eq!(pool_op(&mut cluster, client, PoolOp::CREATE_SNAP, 0, "a"), invalid);
    assert_eq!(cluster.run(client, r#"{"prefix":"osd pool mksnap","pool":"p","snap":"a"}"#).0, invalid.0);
    let m = RemoveSnaps {
        snaps: [(1, vec![SnapId(2), SnapId(9)]), (77, vec![SnapId(1)])].into(),
        ..Default::default()
    };
    cluster.send(client, m.clone());
    cluster.settle();
    assert_eq!(cluster.take(client), [Message::from(m)], "the same message is the answer");
    assert_eq!(
        (queue(&cluster), cluster.mon.osdmap().pools[&POOL].snap_seq),
        (vec![(2, 1), (9, 1)], SnapId(9))
    );
}

#[test]
fn a_removed_snapshot_leaves_the_queue_when_every_pg_has_purged_it() {
    let (mut cluster, client, osd) = cluster();
    for _ in 0..3 {
        pool_op(&mut cluster, client, PoolOp::CREATE_UNMANAGED_SNAP, 0, "");
    }
    for snap in [2, 3] {
        pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, snap, "");
    }
    let [none, one, both] = [0, 1, 2].map(|len| IntervalSet::range(2, len));
    report(&mut cluster, osd, 1, &[both.clone(), both.clone(), both.clone()]);
    assert_eq!(queue(&cluster), [(2, 2)], "of one PG nothing is known yet");
    report(&mut cluster, osd, 2, &[both.clone(), both.clone(), none.clone(), both.clone()]);
    assert_eq!(queue(&cluster), [(2, 2)]);
    report(&mut cluster, osd, 3, &[both.clone(), both.clone(), one.clone(), both.clone()]);
    assert_eq!(queue(&cluster), [(3, 1)]);
    assert_eq!(cluster.mon.osdmap().new_purged_snaps[&POOL].ranges(), [(2, 1)]);
    let first = cluster.mon.osdmap().epoch;
    report(&mut cluster, osd, 4, &[both.clone(), both.clone(), both.clone(), both]);
    assert_eq!((queue(&cluster), cluster.mon.osdmap().epoch), (vec![], first.next()));
    let again = pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 2, "");
    assert_eq!((again, queue(&cluster)), ((0, None), vec![]), "it is not removed twice");
    let mut asked = |start: u32, last: u32| {
        cluster
            .send(osd, MonGetPurgedSnaps { paxos: Paxos::default(), start: Epoch(start), last: Epoch(last) });
        let answers = cluster.take(osd);
        let [Message::MonGetPurgedSnapsReply(reply)] = &answers[..] else { panic!("{answers:?}") };
        let purged = |epoch: &Epoch| reply.purged_snaps[epoch][&POOL].ranges().to_vec();
        reply.purged_snaps.keys().map(|epoch| (*epoch, purged(epoch))).collect::<Vec<_>>()
    };
    assert_eq!(asked(0, first.0 + 9), [(first, vec![(2, 1)]), (first.next(), vec![(3, 1)])]);
    assert_eq!(asked(first.0, first.0 + 1), [(first.next(), vec![(3, 1)])]);
    assert_eq!(asked(0, first.0), [(first, vec![(2, 1)])]);
}

#[test]
fn a_pool_that_is_removed_takes_its_queue_with_it() {
    let (mut cluster, client, _) = cluster();
    pool_op(&mut cluster, client, PoolOp::CREATE_UNMANAGED_SNAP, 0, "");
    pool_op(&mut cluster, client, PoolOp::DELETE_UNMANAGED_SNAP, 2, "");
    assert_eq!(queue(&cluster), [(2, 1)]);
    let remove = r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    cluster.ok(client, remove);
    cluster.event(mon::MonEvent::Tick);
    cluster.settle();
    assert_eq!(queue(&cluster), []);
}
