//! What an OSD does while a store refuses changes of its PGs, and while its store's memory is behind.

use crate::world::*;
use messages::{Op, OpArgs, OpCode};
use osd::{OsdEffect, OsdEvent};
use store::{CollectionId, Completion, ObjectStore, StoreError, StoreShard, Token};
use types::PoolId;

fn done(w: &mut World) -> Vec<Completion> {
    let mut done = Vec::new();
    w.store.turn(w.now);
    w.store.completions(&mut done);
    done
}

fn queued(effects: &[OsdEffect]) -> Vec<Token> {
    let token = |effect: &OsdEffect| match effect {
        OsdEffect::Queue { token, .. } => Some(*token),
        _ => None,
    };
    effects.iter().filter_map(token).collect()
}

#[test]
fn a_map_counts_as_reached_only_when_what_a_refusal_undid_is_durable_after_all() {
    let mut w = World::active();
    w.open_client(CLIENT);
    w.create_pool(1, 1);
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    w.hold_store = true;
    let op = w.write("a", b"y");
    w.send_op(CLIENT, op);
    let client = done(&mut w)[0].token();
    // A new interval: the PG writes its own records behind the client's change.
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.size += 1;
        inc.new_pools.insert(PoolId(1), pool);
    });
    let stored = done(&mut w).remove(0);
    let effects = w.handle(OsdEvent::Store(StoreShard(0), stored));
    let [own] = queued(&effects)[..] else { panic!("{effects:?}") };
    let error = StoreError::NoSpace { needed: 1, available: 0 };
    let effects = w.handle(OsdEvent::Store(StoreShard(0), Completion::Refused { token: client, error }));
    let [again] = queued(&effects)[..] else { panic!("{effects:?}") };
    let error = StoreError::AfterRefused(CollectionId::Pg(pg(1, 0)));
    let effects = w.handle(OsdEvent::Store(StoreShard(0), Completion::Refused { token: own, error }));
    assert_eq!(queued(&effects), [], "the superblock would say that the PG has reached the map");
    let effects = w.handle(OsdEvent::Store(StoreShard(0), Completion::Committed { token: again }));
    assert_eq!(queued(&effects).len(), 1, "the superblock");
}

#[test]
fn a_write_that_waits_for_the_stores_memory_runs_when_the_store_has_answered() {
    let mut options = options::Values::new();
    options.set("osd_client_message_size_cap", "4000").unwrap();
    let mut w = World::with(options);
    w.start();
    w.open_client(CLIENT);
    w.create_pool(1, 1);
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    w.hold_store = true;
    let ops: Vec<_> = (0..2).map(|_| w.write("a", &[7; 5000])).collect();
    let tids: Vec<u64> = ops.iter().map(|op| op.tid).collect();
    ops.into_iter().for_each(|op| w.send_op(CLIENT, op));
    let first = done(&mut w);
    assert_eq!(first.len(), 1, "the second waits");
    w.hold_store = false;
    for completion in first {
        w.event(OsdEvent::Store(StoreShard(0), completion));
    }
    assert!(tids.iter().all(|tid| w.reply_to(CLIENT, *tid).is_some_and(|r| r.result == 0)));
}

#[test]
fn operations_that_waited_for_a_map_see_each_others_changes() {
    for peeks in [false, true] {
        let mut w = World::active();
        w.peeks = peeks;
        w.open_client(CLIENT);
        w.create_pool(1, 1);
        let xattr = |code: OpCode, value: &str, cmp_op: u8| {
            let value_len = value.len() as u32;
            let args = OpArgs::Xattr { name_len: 1, value_len, cmp_op, cmp_mode: u8::from(cmp_op > 0) };
            Op::new(code, args).with_indata(format!("k{value}").into_bytes())
        };
        let epoch = w.mon.epoch();
        let op = w.op("a", epoch, vec![xattr(OpCode::SETXATTR, "1", 0)]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
        let set = w.op("a", epoch + 1, vec![xattr(OpCode::SETXATTR, "2", 0)]);
        let guarded = w.op("a", epoch + 1, vec![xattr(OpCode::CMPXATTR, "2", 1), write(b"x")]);
        let tids = [set.tid, guarded.tid];
        w.send_op(CLIENT, set);
        w.send_op(CLIENT, guarded);
        w.empty_epoch();
        assert_eq!(tids.map(|tid| w.reply_to(CLIENT, tid).map(|r| r.result)), [Some(0); 2], "peeks: {peeks}");
    }
}
