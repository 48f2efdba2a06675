//! What a shard measures of its requests: a record for each that is under way, the slowest of those that are answered, and
//! counters.

use core::time::Duration;

use auth::SessionId;
use messages::{OsdOp, OsdOpReply};
use telemetry::{Finished, History, HistoryConfig, OpTimes, Stage};
use types::{EntityName, ReqId, SpgId, UTime};

use crate::perf::{OpClass, OpCounters, OpHistograms};
use crate::report::{OpView, described};

/// The options of a shard's tracker.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct TrackerConfig {
    /// Nothing is kept where osd_enable_op_tracker is off.
    pub history: HistoryConfig,
    /// How long a request may take before it is reported; `None` where osd_enable_op_tracker is off.
    pub complaint_time: Option<Duration>,
}

/// A request that a PG has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpRecord {
    pub session: SessionId,
    pub tid: u64,
    pub times: OpTimes,
    reqid: ReqId,
    /// Bytes that it brought.
    in_bytes: u32,
    class: OpClass,
}

impl OpRecord {
    #[inline]
    pub(crate) fn new(session: SessionId, source: EntityName, times: OpTimes, op: &OsdOp) -> Self {
        let in_bytes = op.ops.iter().map(|op| op.indata.len()).sum::<usize>();
        Self {
            session,
            tid: op.tid,
            times,
            reqid: op.request_id(source),
            in_bytes: u32::try_from(in_bytes).unwrap_or(u32::MAX),
            class: OpClass::of(&op.ops),
        }
    }

    #[inline]
    pub(crate) fn reach(&mut self, stage: Stage, now: UTime) {
        if stage == Stage::DurableEverywhere {
            // Everywhere is here, too.
            self.times.reach(Stage::DurableHere, now);
        }
        self.times.reach(stage, now);
    }

    #[inline]
    pub(crate) fn is(&self, session: SessionId, tid: u64) -> bool {
        (self.session, self.tid) == (session, tid)
    }

    pub(crate) fn reqid(&self) -> ReqId {
        self.reqid
    }
}

/// An answered request, as the history keeps it.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredOp {
    times: OpTimes,
    description: String,
}

#[derive(Debug, Default)]
pub(crate) struct Tracker {
    config: TrackerConfig,
    history: History<AnsweredOp>,
    pub counters: OpCounters,
    pub histograms: OpHistograms,
}

impl Tracker {
    pub(crate) fn configure(&mut self, now: UTime, config: TrackerConfig) {
        self.config = config;
        self.history.configure(now, config.history);
    }

    /// A request is answered.
    pub(crate) fn done(&mut self, now: UTime, pgid: SpgId, mut record: OpRecord, reply: &OsdOpReply) {
        let took = record.times.age_nanos(now);
        let out_bytes = reply.ops.iter().map(|op| op.outdata.len() as u64).sum();
        let begun = record.times.after(Stage::Begun).unwrap_or_default();
        self.counters.add(record.class, record.in_bytes.into(), out_bytes, took, begun);
        self.histograms.add(record.class, record.in_bytes.into(), out_bytes, took);
        if self.history.wants(now, took) {
            record.times.reach(Stage::Replied, now);
            let ops = reply.ops.iter().map(|result| &result.op);
            let description = described(record.reqid(), pgid, &reply.oid, ops, reply.flags as u32);
            let op = AnsweredOp { times: record.times, description };
            self.history.keep(now, Finished { received: op.times.received(), took, op });
        }
    }

    /// Whether a request that came then is slow.
    pub(crate) fn is_slow(&self, now: UTime, received: UTime) -> bool {
        self.config.complaint_time.is_some_and(|time| received.after(time) <= now)
    }

    /// The slowest requests that were answered lately.
    pub(crate) fn longest(&mut self, now: UTime) -> Vec<OpView> {
        self.history.longest(now).iter().map(view).collect()
    }

    /// The latest of those that took long.
    pub(crate) fn slow(&self) -> Vec<OpView> {
        self.history.slow().iter().map(view).collect()
    }
}

fn view(finished: &Finished<AnsweredOp>) -> OpView {
    let AnsweredOp { times, description } = &finished.op;
    OpView { description: description.clone(), times: *times, took_nanos: finished.took, waits_for: None }
}
