//! Space that is set aside for writes: none is given away twice, however long one is on its way to the store.

use crate::world::*;
use auth::{Caps, SessionId};
use encoding::Encoder;
use messages::{Message, Op, OpArgs, OpCode};
use osd::{OsdEffect, OsdEvent};
use store::{Completion, MemStore, ObjectStore, ReadOutcome, StoreError, StoreShard};
use types::{EntityName, EntityType, GHObject, Name, ObjectLocator, PoolId, SnapId};

const MIB: usize = 1 << 20;
const OTHER: SessionId = SessionId(101);

/// An OSD with a store of so many bytes, a pool of one PG, and two clients. The store answers when it is told to.
fn held(bytes: usize, objects: &[(&str, usize)]) -> World {
    let mut w = World::new();
    w.store = MemStore::new(bytes as u64);
    w.start();
    w.create_pool(1, 1);
    w.finish_pool(1);
    [CLIENT, OTHER].into_iter().for_each(|session| w.open_client(session));
    for (name, bytes) in objects {
        let op = w.write(name, &vec![7; *bytes]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w.hold_store = true;
    w
}

/// Has the store do what it has, and the OSD learn what space there is. Gives back what it does not learn.
fn tell_space(w: &mut World) -> Vec<Completion> {
    let mut held = Vec::new();
    loop {
        let mut done = Vec::new();
        w.store.turn(w.now);
        w.store.completions(&mut done);
        if done.is_empty() {
            return held;
        }
        for completion in done {
            match completion {
                Completion::Read { result: Ok(ReadOutcome::StatFs(_)), .. } => complete(w, completion),
                other => held.push(other),
            }
        }
    }
}

fn complete(w: &mut World, completion: Completion) {
    w.event(OsdEvent::Store(StoreShard(0), completion));
}

/// The store answers the rest, in order.
fn let_go(w: &mut World, held: Vec<Completion>) {
    held.into_iter().for_each(|completion| complete(w, completion));
    w.hold_store = false;
    w.settle();
}

/// Changes of clients that the store refused.
fn refused(w: &World) -> usize {
    w.log.iter().filter(|line| line.contains("refused a client's change")).count()
}

/// A write of so many bytes by another client, which the store has no room for beside what is on its way: it waits, and the OSD is
/// full.
fn has_to_wait(w: &mut World, bytes: usize, mut held: Vec<Completion>, refused_before: usize) {
    let op = w.write("other", &vec![1; bytes]);
    let tid = op.tid;
    w.send_op(OTHER, op);
    held.extend(tell_space(w));
    let_go(w, held);
    assert_eq!(refused(w), refused_before, "{:#?}", w.log);
    assert!(w.reply_to(OTHER, tid).is_none());
    assert_eq!(w.count("MOSDFull"), 1);
}

#[test]
fn a_write_that_reads_first_has_its_space_though_its_session_is_gone() {
    let mut w = held(4 * MIB, &[("a", 4096)]);
    let reads = Op::new(OpCode::READ, OpArgs::extent(0, 1));
    let epoch = w.mon.epoch();
    let op = w.op("a", epoch, vec![reads, write(&vec![1; 5 * MIB / 2])]);
    w.send_op(CLIENT, op);
    let held = tell_space(&mut w);
    assert!(matches!(held[..], [Completion::Read { .. }]), "it waits for what it reads: {held:?}");
    w.event(OsdEvent::SessionClosed(CLIENT));
    has_to_wait(&mut w, 2 * MIB, held, 0);
}

/// A small write that the store is to refuse, and one of 2.5 MiB behind it, both queued at once. Gives back what the store says.
fn with_refusals(w: &mut World) -> Vec<Completion> {
    w.peeks = true;
    let ops = [w.write("bad", b"bad"), w.write("a", &vec![1; 5 * MIB / 2])];
    for (op, is_bad) in ops.into_iter().zip([true, false]) {
        let mut effects = w.handle(OsdEvent::Message { session: CLIENT, message: op.into(), bytes: 1000 });
        for effect in &mut effects {
            if let (OsdEffect::Queue { txn, .. }, true) = (effect, is_bad) {
                txn.touch(txn.collections()[0], &GHObject::max());
            }
        }
        w.perform(effects);
    }
    w.peeks = false;
    let refusals = tell_space(w);
    assert!(matches!(refusals[..], [Completion::Refused { .. }, Completion::Refused { .. }]), "{refusals:?}");
    refusals.into_iter().map(for_want_of_space).collect()
}

/// A bad step is refused like one that the store has no space for.
fn for_want_of_space(completion: Completion) -> Completion {
    match completion {
        Completion::Refused { token, error: StoreError::NotAnObject(_) } => {
            Completion::Refused { token, error: StoreError::NoSpace { needed: 1, available: 0 } }
        }
        other => other,
    }
}

#[test]
fn a_write_that_runs_again_since_one_before_it_was_refused_has_its_space() {
    let mut w = held(4 * MIB, &[("a", 4096)]);
    with_refusals(&mut w).into_iter().for_each(|refusal| complete(&mut w, refusal));
    let held = tell_space(&mut w);
    has_to_wait(&mut w, 2 * MIB, held, 1);
}

#[test]
fn so_has_one_whose_interval_has_ended_meanwhile() {
    let mut w = held(4 * MIB, &[("a", 4096)]);
    let mut refusals = with_refusals(&mut w);
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.size += 1;
        inc.new_pools.insert(PoolId(1), pool);
    });
    // The PG is given the map before it learns of the refusals.
    loop {
        let told = tell_space(&mut w);
        if told.is_empty() {
            break;
        }
        for completion in told {
            match completion {
                Completion::Refused { .. } => refusals.push(completion),
                other => complete(&mut w, other),
            }
        }
    }
    assert!(refusals.len() > 2, "the start of the interval, too: {refusals:?}");
    // Until all that is left is that the PG reads the objects again.
    let (mut told, mut held) = (refusals, Vec::new());
    while !told.is_empty() {
        for completion in told {
            match completion {
                Completion::Read { .. } => held.push(completion),
                other => complete(&mut w, other),
            }
        }
        told = tell_space(&mut w);
    }
    assert!(!held.is_empty());
    has_to_wait(&mut w, 2 * MIB, held, 1);
}

#[test]
fn what_was_copied_has_its_space_while_its_object_is_read() {
    const SELF: SessionId = SessionId(90);
    let mut w = held(8 * MIB, &[("source", 3 * MIB), ("copy", 4096)]);
    let mut info = client(SELF, Caps::all());
    (info.entity, info.name) = ("osd.0".parse().unwrap(), EntityName::new(EntityType::Osd, 0));
    info.peer_addrs = addr(1).into();
    w.hold_store = false;
    w.event(OsdEvent::SessionOpened(info));
    let mut source = Encoder::new(0);
    let locator = ObjectLocator { pool: PoolId(1), key: Name::new(), nspace: Name::new(), hash: -1 };
    source.put("source").put(&locator);
    let args = OpArgs::CopyFrom { snapid: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise_flags: 0 };
    let copies = Op::new(OpCode::COPY_FROM, args).with_indata(source.into_bytes());
    let epoch = w.mon.epoch();
    let op = w.op("copy", epoch, vec![copies]);
    w.send_op(CLIENT, op);
    let Some((_, Message::OsdOp(gets))) = w.to_peers.pop() else { panic!("a request for the source") };
    w.event(OsdEvent::Message { session: SELF, message: Message::OsdOp(gets.clone()), bytes: 0 });
    let source = w.sent.get_mut(&SELF).and_then(Vec::pop).unwrap();
    // Another OSD reads what is to be written.
    w.hold_store = true;
    let reads = w.op("copy", epoch, gets.ops.clone());
    w.send_op(SELF, reads);
    let mut held = tell_space(&mut w);
    let reads = held.len();
    assert!(reads > 0);
    w.event(OsdEvent::Message { session: SELF, message: source, bytes: 0 });
    held.extend(tell_space(&mut w));
    assert_eq!(held.len(), reads, "it waits for the one that reads: {held:?}");
    has_to_wait(&mut w, 3 * MIB, held, 0);
}
