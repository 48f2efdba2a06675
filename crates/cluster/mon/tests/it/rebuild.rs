//! A monitor whose state is lost begins again with the newest map that its OSDs have.

use crate::common::{Cluster, FSID, at, config};
use mon::{Mon, MonEvent, State};
use types::{Fsid, OsdId};

#[test]
fn pools_and_osds_are_kept_epochs_go_on_and_no_id_is_given_twice() {
    let mut before = Cluster::new(config(2, &[]));
    let client = before.client();
    before.boot(0);
    before.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let seen_by_osds = before.mon.osdmap().clone();
    // Clients may have seen this one, no OSD has.
    before.ok(client, r#"{"prefix":"osd set","key":"noout"}"#);
    before.event(MonEvent::GlobalIdWanted { session: client, asked: 0 });
    before.settle();
    let given = before.ids.last().unwrap().1;

    let mut disk = State::new();
    Mon::rebuild(&config(2, &[]), &seen_by_osds, at(5)).unwrap().apply_to(&mut disk);
    let mut after = Cluster::start(config(2, &[]), disk);
    let map = after.mon.osdmap();
    assert!(map.epoch > before.mon.osdmap().epoch, "{} {}", map.epoch, before.mon.osdmap().epoch);
    assert_eq!((map.fsid, map.pool_by_name("p")), (FSID, seen_by_osds.pool_by_name("p")));
    assert_eq!((&map.crush, &map.pools), (&seen_by_osds.crush, &seen_by_osds.pools));
    after.event(MonEvent::GlobalIdWanted { session: client, asked: 0 });
    after.settle();
    assert!(after.ids.last().unwrap().1 > given);
    // OSDs come up again and the cluster goes on.
    after.boot(0);
    after.boot(1);
    assert!(after.mon.osdmap().is_up(OsdId(0)) && after.mon.osdmap().is_up(OsdId(1)));
    let client = after.client();
    after.ok(client, r#"{"prefix":"osd pool create","pool":"q","pg_num":8}"#);
    let mut again = after.kill();
    let client = again.client();
    assert_eq!(again.ok(client, r#"{"prefix":"osd pool ls"}"#), "p\nq\n");
}

#[test]
fn a_map_of_another_cluster_is_refused() {
    let cluster = Cluster::new(config(1, &[]));
    let mut other = config(1, &[]);
    other.fsid = Fsid([9; 16]);
    assert!(Mon::rebuild(&other, cluster.mon.osdmap(), at(0)).is_err());
}
