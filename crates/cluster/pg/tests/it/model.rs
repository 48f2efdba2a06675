//! Random writers, resends and power losses against a model: nothing acknowledged is lost, nothing is applied twice,
//! nothing read is ever taken back; and the same seed gives the same trace.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::copies::Copies;
use crate::common::*;
use messages::OsdOp;
use pg::{LogLimits, PgConfig};
use types::{Epoch, SplitMix64};

const OBJECTS: u64 = 4;

/// -ENOSPC.
const NO_SPACE: i32 = -28;

/// What each object's history of appends may be. Each append is a distinct letter sequence, so that order and number
/// show in the contents.
#[derive(Default)]
struct Model {
    /// Requests sent, by tid: object and what it appends.
    sent: BTreeMap<u64, (String, Vec<u8>)>,
    /// Acknowledged, in the order of acknowledgement, by object.
    acked: BTreeMap<String, Vec<u64>>,
    /// Refused for lack of space.
    refused: BTreeSet<u64>,
    /// The longest contents read of each object.
    seen: BTreeMap<String, Vec<u8>>,
}

fn name(n: u64) -> String {
    format!("object{n}")
}

impl Model {
    fn note_replies(&mut self, rig: &mut Rig) {
        for (_, reply) in rig.replies.drain(..) {
            if reply.result == NO_SPACE {
                self.refused.insert(reply.tid);
                continue;
            }
            assert_eq!(reply.result, 0);
            let Some((oid, _)) = self.sent.get(&reply.tid) else {
                let seen = reply.ops[0].outdata.to_vec();
                let known = self.seen.entry(String::from_utf8_lossy(&reply.oid).into()).or_default();
                assert!(seen.starts_with(known), "what was read was taken back");
                *known = seen;
                continue;
            };
            let acked = self.acked.entry(oid.clone()).or_default();
            if !acked.contains(&reply.tid) {
                acked.push(reply.tid);
            }
        }
    }

    fn is_answered(&self, tid: u64) -> bool {
        self.refused.contains(&tid) || self.acked.values().flatten().any(|acked| *acked == tid)
    }

    fn check(&self, rig: &mut Rig) {
        for (oid, tids) in &self.acked {
            let contents = rig.contents(oid).expect("an acknowledged object");
            let text = String::from_utf8(contents.clone()).expect("text");
            let found: Vec<u64> =
                text.split_terminator(';').map(|part| part.parse().expect("a whole append")).collect();
            let mut sorted = found.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), found.len(), "applied twice: {text}");
            assert!(tids.iter().all(|tid| found.contains(tid)), "{oid}: {tids:?} acknowledged, {text} there");
            let places: Vec<_> = tids.iter().filter_map(|t| found.iter().position(|f| f == t)).collect();
            assert!(places.is_sorted(), "acknowledged in another order than applied");
            assert!(self.seen.get(oid).is_none_or(|seen| contents.starts_with(seen)), "taken back: {oid}");
        }
    }
}

fn run(seed: u64, steps: usize) -> Vec<String> {
    run_with(PgConfig::default(), seed, steps)
}

fn run_with(config: PgConfig, seed: u64, steps: usize) -> Vec<String> {
    run_all(config, Copies::One, seed, steps, false)
}

fn run_all(config: PgConfig, copies: Copies, seed: u64, steps: usize, refusals: bool) -> Vec<String> {
    println!("seed {seed}");
    let (mut rng, mut rig, mut model) = (SplitMix64::new(seed), Rig::with(config, copies), Model::default());
    rig.peeks = refusals && seed % 2 == 0;
    for n in 0..OBJECTS {
        rig.ask(&name(n), vec![create_exclusive()]);
    }
    let mut pending: Vec<OsdOp> = Vec::new();
    for _ in 0..steps {
        match rng.below(12) {
            0..5 => {
                let oid = name(rng.below(OBJECTS));
                let mut op = rig.message(&oid, vec![]);
                let data = format!("{};", op.tid).into_bytes();
                // Some wait for the store first.
                op.ops = vec![read(0, 0); rng.below(2) as usize];
                op.ops.push(append(&data));
                model.sent.insert(op.tid, (oid, data));
                pending.push(op.clone());
                rig.send(op);
            }
            5..7 => {
                let op = rig.message(&name(rng.below(OBJECTS)), vec![read(0, 0)]);
                rig.send(op);
            }
            7 if !pending.is_empty() => {
                let at = rng.below(pending.len() as u64) as usize;
                let op = OsdOp { epoch: Epoch(rig.epoch), ..pending[at].clone() };
                rig.send(op);
            }
            8 => {
                rig.commit_somewhere();
            }
            9 if refusals && rng.below(3) == 0 => rig.refuse_next(),
            9 | 10 => {
                rig.deliver_read();
            }
            11 if rng.below(4) == 0 => {
                rig.crash_to_any();
                model.check(&mut rig);
                // What was not acknowledged is sent again, in order, as a client does.
                for op in &mut pending {
                    op.epoch = Epoch(rig.epoch);
                    rig.send(op.clone());
                }
            }
            _ => {}
        }
        model.note_replies(&mut rig);
        pending.retain(|op| !model.is_answered(op.tid));
    }
    rig.settle();
    model.note_replies(&mut rig);
    assert!(model.sent.keys().all(|tid| model.is_answered(*tid)), "everything is answered in the end");
    model.check(&mut rig);
    rig.compare_copies();
    rig.trace
}

#[test]
fn no_acknowledged_append_is_lost_or_doubled_by_any_crash() {
    (0..60).for_each(|seed| {
        run(seed, 400);
    });
}

#[test]
fn nor_by_a_crash_when_all_but_a_few_log_entries_are_duplicates() {
    let log = LogLimits { entries_target: 3, trim_min: 2, trim_max: 4, dups_tracked: 1000 };
    (100..140).for_each(|seed| {
        run_with(PgConfig { log: log.clone(), ..PgConfig::default() }, seed, 400);
    });
}

#[test]
fn nor_by_refusals_when_no_idle_context_and_few_log_entries_are_kept() {
    let log = LogLimits { entries_target: 3, trim_min: 2, trim_max: 4, dups_tracked: 1000 };
    (300..320).for_each(|seed| {
        let config = PgConfig { log: log.clone(), object_contexts_idle_max: 0, ..PgConfig::default() };
        run_all(config, Copies::One, seed, 400, true);
    });
}

#[test]
fn nor_by_refusals_with_or_without_a_look_at_the_stores_memory() {
    (200..260).for_each(|seed| {
        run_all(PgConfig::default(), Copies::One, seed, 400, true);
    });
}

#[test]
fn nor_with_several_copies_of_which_any_may_be_all_that_is_left() {
    (400..440).for_each(|seed| {
        run_all(PgConfig::default(), Copies::Several { seed }, seed, 400, false);
    });
}

#[test]
fn nor_with_several_copies_that_refuse_and_few_log_entries() {
    let log = LogLimits { entries_target: 3, trim_min: 2, trim_max: 4, dups_tracked: 1000 };
    (500..540).for_each(|seed| {
        let config = PgConfig { log: log.clone(), ..PgConfig::default() };
        run_all(config, Copies::Several { seed }, seed, 400, true);
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(run(4711, 600), run(4711, 600));
    assert_ne!(run(4711, 600), run(4712, 600));
}
