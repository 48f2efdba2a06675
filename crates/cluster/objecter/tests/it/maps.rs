//! What new maps mean to requests under way.

use crate::world::{POOL, World, down, full, pool, read, up, write};
use maps::{MapFlags, PoolFlags};
use messages::osd_op::OsdFlags;
use objecter::{Outcome, Request};
use types::{Epoch, Errno, IntervalSet, OsdId, PoolId, SnapContext, SnapId};

const ENDED: Outcome = Outcome::Ended { errno: Errno::ENOENT, sent: true };

#[test]
fn when_the_primary_goes_down_its_session_is_closed_and_requests_go_to_the_next() {
    let mut w = World::new();
    w.submit(write("a"));
    let (session, first, _) = w.one_sent();
    w.change_and_send(|_, inc| down(inc, first));
    assert_eq!(w.closed, [session]);
    let (_, second, op) = w.one_sent();
    assert_ne!(second, first);
    assert_eq!((second, op.retry_attempt, op.epoch.0), (w.primary("a"), 1, w.epoch()));
    w.change_and_send(|_, inc| up(inc, first.0, 2));
    let (session, third, op) = w.one_sent();
    assert_eq!((third, op.retry_attempt), (first, 2));
    assert!(w.dialled.contains(&(session, first)));
}

#[test]
fn requests_without_a_primary_wait_for_a_map_with_one() {
    let mut w = World::new();
    w.change_and_send(|_, inc| (0..3).for_each(|osd| down(inc, OsdId(osd))));
    w.submit(write("a"));
    w.submit(write("a"));
    assert!(w.sent.is_empty());
    assert_eq!(w.maps_wanted, Some(u64::from(w.epoch()) + 1), "it asks for the next map");
    w.change(|_, inc| (0..3).for_each(|osd| up(inc, osd, 2)));
    w.send_maps();
    assert_eq!(w.take_sent().len(), 2);
}

#[test]
fn a_pg_that_moved_and_came_back_within_one_message_has_dropped_its_requests() {
    let mut w = World::new();
    w.submit(write("a"));
    let (_, first, _) = w.one_sent();
    w.change(|_, inc| down(inc, first));
    w.change(|_, inc| up(inc, first.0, 1));
    let newest = w.epoch();
    let message = w.increments(newest - 1..=newest);
    w.mon_sends(message.into());
    assert_eq!(w.take_sent(), [(first.0, "a".into(), 1)], "sent once more, to where it is now");
}

#[test]
fn a_change_that_moves_nothing_sends_nothing() {
    let mut w = World::new();
    w.submit(write("a"));
    let (_, primary, _) = w.one_sent();
    let replica = w.map().pg_to_up_acting(w.pg("a").pg).acting[2];
    assert_ne!(replica, primary);
    w.change_and_send(|_, inc| down(inc, replica));
    w.change_and_send(|map, inc| pool(map, inc, |p| p.quota_max_bytes = 5));
    assert!(w.sent.is_empty());
    assert_eq!(w.client.epoch().0, w.epoch());
}

#[test]
fn a_missing_epoch_is_asked_for_and_a_trimmed_one_has_everything_sent_again() {
    let mut w = World::new();
    w.submit(write("a"));
    w.sent.clear();
    let have = w.epoch();
    (0..3).for_each(|_| w.change(|_, _| {}));
    w.maps_wanted = None;
    let message = w.increments(have + 2..=have + 3);
    w.mon_sends(message.into());
    assert_eq!((w.client.epoch().0, w.maps_wanted), (have, Some(u64::from(have) + 1)));
    assert!(w.sent.is_empty());
    let mut message = w.full_map();
    message.cluster_osdmap_trim_lower_bound = Epoch(w.epoch());
    w.mon_sends(message.into());
    assert_eq!(w.client.epoch().0, w.epoch());
    assert_eq!(w.take_sent().len(), 1, "the PG may have moved in between");
}

#[test]
fn after_a_map_that_is_not_usable_the_newest_is_asked_for_and_everything_is_sent_again() {
    let mut w = World::new();
    w.submit(write("a"));
    w.sent.clear();
    w.change(|_, _| {});
    let mut message = w.increments(w.epoch()..=w.epoch());
    message.incremental_maps.insert(Epoch(w.epoch()), vec![1, 2, 3].into());
    w.mon_sends(message.into());
    assert_eq!((w.maps_wanted, w.warnings.len()), (Some(0), 1));
    w.submit(write("b"));
    assert!(w.sent.is_empty());
    w.send_maps();
    assert_eq!(w.take_sent().len(), 2);
}

#[test]
fn maps_of_another_cluster_are_ignored() {
    let mut w = World::new();
    w.change(|_, _| {});
    let message = messages::OsdMap { fsid: types::Fsid([1; 16]), ..w.full_map() };
    w.mon_sends(message.into());
    assert_eq!((w.client.epoch().0, w.warnings.len()), (w.epoch() - 1, 1));
}

#[test]
fn a_deleted_pool_ends_its_requests() {
    let mut w = World::new();
    let id = w.submit(write("a"));
    w.change_and_send(|_, inc| inc.old_pools.extend([POOL]));
    assert_eq!(w.take_done(), [(id, ENDED)]);
    assert!(w.versions_asked.is_empty(), "it was there: no need to ask");
}

#[test]
fn whether_a_pool_exists_that_the_map_lacks_the_monitor_knows() {
    let mut w = World::new();
    let absent = || Request { ops: write("a").ops, ..Request::on(PoolId(9), "a", vec![]) };
    let id = w.submit(absent());
    assert_eq!((w.versions_asked.len(), w.done.len()), (1, 0));
    w.change(|map, inc| {
        inc.new_pool_max = Some(9);
        inc.new_pools.insert(PoolId(9), map.pools[&POOL].clone());
        inc.new_pool_names.insert(PoolId(9), "nine".into());
    });
    w.answer_versions();
    assert!(w.done.is_empty(), "there are newer maps");
    w.send_maps();
    assert_eq!(w.take_sent().len(), 1);
    let absent = Request { ops: write("a").ops, ..Request::on(PoolId(10), "a", vec![]) };
    let other = w.submit(absent);
    w.answer_versions();
    let ended = Outcome::Ended { errno: Errno::ENOENT, sent: false };
    assert_eq!(w.take_done(), [(other, ended)]);
    assert_ne!(id, other);
}

#[test]
fn a_pool_that_fails_its_requests_does_so_at_once() {
    let mut w = World::new();
    w.submit(write("a"));
    w.change_and_send(|map, inc| pool(map, inc, |p| p.flags |= PoolFlags::EIO));
    w.submit(write("b"));
    let results: Vec<i32> = w.take_done().iter().map(|(_, o)| o.result()).collect();
    assert_eq!(results, [-5, -5]);
}

fn flags(w: &mut World, set: u32) {
    w.change_and_send(|map, inc| {
        inc.new_flags = Some(map.flags & !(MapFlags::PAUSERD | MapFlags::PAUSEWR | MapFlags::FULL) | set);
    });
}

#[test]
fn paused_reads_and_writes_wait_and_what_was_sent_before_stays_sent() {
    let mut w = World::new();
    w.submit(write("sent"));
    w.sent.clear();
    flags(&mut w, MapFlags::PAUSEWR);
    w.submit(write("a"));
    w.submit(read("a"));
    assert_eq!(w.take_sent().len(), 1, "only the read");
    assert_eq!(w.maps_wanted, Some(u64::from(w.epoch()) + 1));
    flags(&mut w, MapFlags::PAUSERD);
    w.submit(read("b"));
    let sent = w.take_sent();
    let writes: Vec<&str> = sent.iter().map(|(_, object, _)| object.as_str()).collect();
    assert_eq!(writes, ["sent", "a"], "what was paused is sent, in order");
    flags(&mut w, 0);
    let sent = w.take_sent();
    let reads: Vec<&str> = sent.iter().map(|(_, object, _)| object.as_str()).collect();
    assert_eq!(reads, ["a", "b"]);
}

#[test]
fn a_full_pool_has_its_writes_wait_except_those_that_may_fill_it() {
    let mut w = World::new();
    w.submit(write("sent"));
    w.sent.clear();
    w.change_and_send(|map, inc| full(map, inc, true));
    w.submit(write("a"));
    w.submit(read("b"));
    w.submit(Request { flags: OsdFlags::FULL_TRY, ..write("c") });
    let names: Vec<String> = w.take_sent().into_iter().map(|(_, object, _)| object).collect();
    assert_eq!(names, ["b", "c"]);
    w.change_and_send(|map, inc| full(map, inc, false));
    let names: Vec<String> = w.take_sent().into_iter().map(|(_, object, _)| object).collect();
    assert_eq!(names, ["sent", "a"], "the OSD dropped the one that was under way");
}

#[test]
fn a_pool_may_ask_for_everything_again() {
    let mut w = World::new();
    w.submit(write("a"));
    w.submit(read("b"));
    w.sent.clear();
    let epoch = Epoch(w.epoch() + 1);
    w.change_and_send(|map, inc| pool(map, inc, |p| p.last_force_op_resend = epoch));
    assert_eq!(w.take_sent().len(), 2);
    w.change_and_send(|_, _| {});
    assert!(w.sent.is_empty(), "once");
}

#[test]
fn requests_of_pgs_that_split_are_sent_again() {
    let mut w = World::new();
    let objects: Vec<String> = (0..40).map(|i| format!("o{i}")).collect();
    for object in &objects {
        w.submit(write(object));
    }
    w.sent.clear();
    w.change_and_send(|map, inc| pool(map, inc, |p| (p.pg_num, p.pg_num_target) = (10, 10)));
    let sent: Vec<String> = w.take_sent().into_iter().map(|(_, object, _)| object).collect();
    let splits = |o: &&String| [0, 1, 8, 9].contains(&w.pg(o).pg.seed);
    let expected: Vec<String> = objects.iter().filter(splits).cloned().collect();
    assert!(expected.len() > 2);
    assert_eq!(sent, expected);
}

#[test]
fn nothing_is_sent_before_the_epoch_of_a_barrier() {
    let mut w = World::new();
    let (now, epoch) = (w.now, Epoch(w.epoch() + 2));
    w.act(|c, out| c.set_epoch_barrier(now, epoch, out));
    w.submit(write("a"));
    w.change_and_send(|_, _| {});
    assert!(w.sent.is_empty());
    w.change(|_, _| {});
    w.send_maps();
    assert_eq!(w.take_sent().len(), 1);
}

#[test]
fn a_wait_for_the_newest_map_ends_when_it_has_come() {
    let mut w = World::new();
    let first = w.act(|c, out| c.wait_for_latest_map(out));
    w.answer_versions();
    assert_eq!(w.maps_reached, [first]);
    w.change(|_, _| {});
    let second = w.act(|c, out| c.wait_for_latest_map(out));
    w.answer_versions();
    assert_eq!(w.maps_reached.len(), 1);
    w.send_maps();
    assert_eq!(w.maps_reached, [first, second]);
}

#[test]
fn a_write_forgets_the_snapshots_that_are_removed_while_it_waits() {
    let mut w = World::new();
    w.connects = false;
    let snapc = SnapContext { seq: 7, snaps: vec![SnapId(7), SnapId(5), SnapId(2)] };
    w.submit(Request { snapc, ..write("a") });
    w.change_and_send(|_, inc| drop(inc.new_removed_snaps.insert(POOL, IntervalSet::range(5, 1))));
    w.connected(w.dialled[0].0);
    let (_, _, op) = w.one_sent();
    assert_eq!((op.snap_seq, op.snaps), (7, vec![SnapId(7), SnapId(2)]));
}

#[test]
fn an_osd_with_a_new_address_gets_its_requests_there() {
    let mut w = World::new();
    w.submit(write("a"));
    let (session, osd, _) = w.one_sent();
    w.change(|_, inc| down(inc, osd));
    w.change(|_, inc| up(inc, osd.0, 2));
    let newest = w.epoch();
    let message = w.increments(newest - 1..=newest);
    w.osd_sends(session, message.into());
    assert_eq!(w.closed.first(), Some(&session));
    let (new, at, _) = w.one_sent();
    assert_eq!(at, osd);
    assert_ne!(new, session);
}
