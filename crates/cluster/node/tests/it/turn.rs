//! A turn is bounded: a store that always has a completion does not hold up the core's other work.

use std::collections::BTreeMap;

use monclient::MonClientConfig;
use node::{Node, NodeEffect, NodeEvent};
use osd::{Osd, OsdAddrs, OsdConfig, OsdEvent};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::{EntityAddr, Fsid, OsdId, Profile, UTime};

/// A store with a completion at every question.
struct Endless;

impl ObjectStore for Endless {
    fn queue(&mut self, _: Transaction, _: Token) {}
    fn read(&mut self, _: ReadRequest, _: Token) {}
    fn peek(&mut self, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }
    fn acknowledge(&mut self, _: Token) {}
    fn rehome(&mut self, _: CollectionId, _: StoreShard, _: usize, _: Token) {}
    fn turn(&mut self, _: UTime) {}
    fn deadline(&self) -> Option<UTime> {
        None
    }
    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.push(Completion::Committed { token: Token(1) });
    }
    fn set_waker(&mut self, _: Waker) {}
    fn shards(&self) -> u32 {
        1
    }
    fn shard_of(&self, _: CollectionId) -> StoreShard {
        StoreShard(0)
    }
}

#[test]
fn a_turn_ends_though_a_store_always_has_a_completion() {
    let (now, id) = (UTime::from_nanos(1_800_000_000_000_000_000), OsdId(0));
    let addr = EntityAddr::v2(([127, 0, 0, 1], 6800).into(), 7);
    let fsid = Fsid::from_random([1; 16]);
    let osd = Osd::new(OsdConfig {
        whoami: id,
        cluster_fsid: fsid,
        osd_fsid: fsid,
        addrs: OsdAddrs::same(addr),
        metadata: BTreeMap::new(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(vec![addr.into()], Some(fsid)),
        options: options::Values::new(),
    });
    let mut node = Node::new();
    node.add_osd(id, osd, Box::new(Endless));
    let mut effects = Vec::new();
    // One that has stopped takes any completion.
    node.handle(now, NodeEvent::Osd(id, OsdEvent::Shutdown), &mut effects);
    effects.clear();
    node.turn(now, &mut effects);
    assert!(matches!(&effects[..], [NodeEffect::Continue(OsdId(0))]), "{effects:?}");
    // It has its next turn when that is handed in, not before.
    effects.clear();
    node.turn(now, &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
    node.handle(now, NodeEvent::Osd(id, OsdEvent::Continue), &mut effects);
    node.turn(now, &mut effects);
    assert_eq!(effects.len(), 1, "{effects:?}");
}

#[test]
fn a_store_that_did_something_before_its_osd_is_here_is_asked_at_its_first_turn() {
    let mut out = Vec::new();
    Node::new().handle(UTime::from_nanos(1), NodeEvent::StoreReady(OsdId(3)), &mut out);
    assert!(out.is_empty(), "the event of a store whose OSD is not here yet: {out:?}");
}
