//! The log over trims, restarts and damage: what a resend is answered from.

use std::collections::BTreeMap;

use crate::common::*;
use buffer::Piece;
use encoding::Encode;
use messages::OsdOp;
use pg::{InfoAttr, LogDup, LogLimits, PgConfig, PgInfo};
use proptest::prelude::*;
use store::{LogRecord, LogRecordKind, ReadOutcome, ReadRequest, Transaction};
use types::{EVersion, EntityName, EntityType, Epoch, GHObject, HObject, ReqId};

const LIMITS: LogLimits = LogLimits { entries_target: 20, trim_min: 5, trim_max: 100, dups_tracked: 60 };

fn rig(log: LogLimits) -> Rig {
    Rig::with_config(PgConfig { log, ..PgConfig::default() })
}

fn stored_records(rig: &mut Rig) -> Vec<LogRecord> {
    let (after, records_max, bytes_max) = (EVersion::default(), 10_000, 1 << 30);
    let request = ReadRequest::Log { collection: pgid().into(), after, records_max, bytes_max };
    let Ok(ReadOutcome::Log(page)) = rig.look(request) else { panic!("a log") };
    page.records
}

/// What of the stored log is kept for resends alone.
fn stored_dups(rig: &mut Rig) -> Vec<EVersion> {
    let tail = rig.pg.log().tail();
    stored_records(rig).iter().map(|record| record.version).filter(|version| *version <= tail).collect()
}

fn dups(rig: &Rig) -> Vec<EVersion> {
    rig.pg.log().dups().iter().map(|dup| dup.version).collect()
}

/// Puts a record before all that the stored log has.
fn put_first(rig: &mut Rig, version: EVersion, kind: LogRecordKind, bytes: Vec<u8>) {
    let records = stored_records(rig);
    let mut txn = Transaction::new();
    txn.log_rewind(pgid().into(), EVersion::default()).log_append(pgid().into(), version, kind, bytes);
    for LogRecord { version, kind, bytes } in records {
        txn.log_append(pgid().into(), version, kind, bytes);
    }
    rig.damage_for_good(txn);
}

#[test]
fn a_trimmed_entry_answers_a_resend_also_after_a_restart() {
    let mut rig = rig(LIMITS);
    let op = rig.message("a", vec![append(b"x")]);
    let first = rig.ask_message(op.clone());
    for n in 0..40 {
        rig.ask(&format!("other{n}"), vec![write_full(b"y")]);
    }
    assert!(rig.pg.log().entries().iter().all(|e| e.version > first.replay_version), "trimmed");
    assert_eq!(stored_dups(&mut rig), dups(&rig));
    for restart in [false, true] {
        if restart {
            rig.crash();
        }
        let again = rig.ask_message(OsdOp { epoch: Epoch(rig.epoch), ..op.clone() });
        assert_eq!(again.result, first.result);
        assert_eq!((again.replay_version, again.user_version), (first.replay_version, first.user_version));
    }
    assert_eq!(rig.contents("a").unwrap(), b"x", "applied once");
}

#[test]
fn a_stored_duplicate_without_an_entry_answers_a_resend() {
    let mut rig = rig(LIMITS);
    (0..40).for_each(|_| drop(rig.ask("a", vec![append(b"x")])));
    // As another copy of the PG would hand it over: the request was never seen here.
    let version = EVersion::new(Epoch(4), 1);
    let reqid = ReqId { name: EntityName::new(EntityType::Client, 4123), tid: 9000, inc: 0 };
    let dup =
        LogDup { reqid, version, user_version: 77, return_code: -17, op_returns: Vec::new(), hash: None };
    put_first(&mut rig, version, LogRecordKind::Duplicate, dup.to_bytes(0));
    rig.crash();
    let mut op = rig.message("a", vec![create_exclusive()]);
    op.tid = 9000;
    let reply = rig.ask_message(op);
    assert_eq!((reply.result, reply.replay_version, reply.user_version), (-17, version, 77));
}

#[test]
fn a_log_record_that_makes_no_sense_stops_the_pg() {
    let (reqid, first) = (ReqId::default(), EVersion::new(Epoch(4), 1));
    let dup =
        |version| LogDup { reqid, version, user_version: 0, return_code: 0, op_returns: vec![], hash: None };
    for (what, kind, bytes) in [
        ("says another version", LogRecordKind::Duplicate, dup(EVersion::new(Epoch(4), 2)).to_bytes(0)),
        ("is a duplicate's, not an entry's", LogRecordKind::Entry, dup(first).to_bytes(0)),
        ("is cut off", LogRecordKind::Duplicate, dup(first).to_bytes(0)[..9].to_vec()),
    ] {
        let mut rig = rig(LIMITS);
        (0..40).for_each(|_| drop(rig.ask("a", vec![append(b"x")])));
        put_first(&mut rig, first, kind, bytes);
        assert!(!rig.restart(), "{what}");
    }
    let mut rig = rig(LIMITS);
    let late = EVersion::new(Epoch(900), 2);
    let mut txn = Transaction::new();
    txn.log_append(pgid().into(), late, LogRecordKind::Duplicate, dup(late).to_bytes(0));
    rig.damage_for_good(txn);
    assert!(!rig.restart(), "a duplicate behind the log's tail");
}

#[test]
fn a_copy_that_lacks_changes_or_objects_is_not_served() {
    let lacking_changes = |info: &mut PgInfo| info.last_complete.version -= 1;
    let lacking_objects = |info: &mut PgInfo| info.last_backfill = HObject::min();
    for (what, change, serves) in [
        ("nothing", (|_| {}) as fn(&mut PgInfo), true),
        ("changes", lacking_changes, false),
        ("objects", lacking_objects, false),
    ] {
        let mut rig = rig(LIMITS);
        (0..3).for_each(|_| drop(rig.ask("a", vec![append(b"x")])));
        let mut info = rig.pg.info().clone();
        change(&mut info);
        let (id, mut txn) = (pgid(), Transaction::new());
        let meta = GHObject::pgmeta(id.pg.pool, id.pg.seed, id.shard);
        txn.set_attrs(id.into(), &meta, [(InfoAttr::INFO.into(), info.to_bytes(0).into())].into());
        txn.set_info(id.into(), Piece::empty());
        rig.damage_for_good(txn);
        assert_eq!(rig.restart(), serves, "it lacks {what}");
        assert_eq!(rig.failed, !serves, "it lacks {what}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write(u8),
    /// The request sent so many before the last.
    Resend(u8),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0u8..4).prop_map(Act::Write),
        6 => (0u8..80).prop_map(Act::Resend),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn in_any_history_resends_within_range_get_their_first_answer_and_a_restart_changes_no_log(
        acts in prop::collection::vec(act(), 1..300),
        target in 1usize..30,
        trim_min in 1usize..10,
        dups_tracked in 0u64..80,
    ) {
        let mut rig = rig(LogLimits { entries_target: target, trim_min, trim_max: 100, dups_tracked });
        let mut sent: Vec<(OsdOp, messages::OsdOpReply)> = Vec::new();
        let mut applied: BTreeMap<u8, usize> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Write(object) => {
                    let op = rig.message(&format!("o{object}"), vec![append(b"x")]);
                    let reply = rig.ask_message(op.clone());
                    sent.push((op, reply));
                    *applied.entry(object).or_default() += 1;
                }
                Act::Resend(back) => {
                    let Some(at) = sent.len().checked_sub(1 + usize::from(back)) else { continue };
                    // Every write is an entry, so requests are as many versions back as they are requests back. A
                    // request that the log may have forgotten must not be sent: it would be run as new.
                    if u64::from(back) >= dups_tracked.max(target as u64) {
                        continue;
                    }
                    let (op, first) = &sent[at];
                    let again = rig.ask_message(OsdOp { epoch: Epoch(rig.epoch), ..op.clone() });
                    prop_assert_eq!(again.replay_version, first.replay_version);
                    prop_assert_eq!((again.result, again.user_version), (first.result, first.user_version));
                }
                Act::Restart => {
                    let before = (rig.pg.log().entries().clone(), rig.pg.log().dups().clone());
                    rig.crash();
                    prop_assert_eq!((rig.pg.log().entries(), rig.pg.log().dups()), (&before.0, &before.1));
                }
            }
            let log = rig.pg.log();
            prop_assert!(log.entries().len() <= target + trim_min);
            prop_assert!(log.dups().len() as u64 <= dups_tracked + trim_min as u64);
            prop_assert!(log.dups().iter().all(|d| d.version <= log.tail()));
            prop_assert!(log.entries().iter().all(|e| e.version > log.tail()));
        }
        prop_assert_eq!(stored_dups(&mut rig), dups(&rig));
        for (object, length) in applied {
            prop_assert_eq!(rig.contents(&format!("o{object}")).map(|c| c.len()), Some(length));
        }
    }
}
