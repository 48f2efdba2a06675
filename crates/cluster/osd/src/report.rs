//! Client operations as dumps show them.

use core::fmt::Write;

use messages::osd_op::OsdFlags;
use messages::{Op, OpArgs};
use serde_json::{Value, json};
use telemetry::{OpTimes, Stage};
use types::{Name, ReqId, SpgId, UTime};

/// An operation in a dump.
#[derive(Clone, Debug)]
pub(crate) struct OpView {
    pub description: String,
    pub times: OpTimes,
    /// Until its reply, or so far.
    pub took_nanos: u64,
    /// What an operation waits for that no PG has.
    pub waits_for: Option<&'static str>,
}

impl OpView {
    /// As Ceph's dumps have it. `is_done`: it is answered.
    pub(crate) fn json(&self, now: UTime, is_done: bool) -> Value {
        let received = self.times.received();
        let event = |at: UTime, name: &str, since: UTime| {
            let duration = at.as_nanos().saturating_sub(since.as_nanos());
            json!({ "time": at.to_string(), "event": name, "duration": duration as f64 / 1e9 })
        };
        let mut events = vec![event(received, "initiated", received)];
        let mut since = received;
        for (stage, at) in self.times.reached() {
            events.push(event(at, stage.name(), since));
            since = at;
        }
        json!({
            "description": self.description,
            "initiated_at": received.to_string(),
            "age": self.times.age_nanos(now) as f64 / 1e9,
            "duration": self.took_nanos as f64 / 1e9,
            "type_data": {
                "flag_point": if is_done { "done" } else { self.flag_point() },
                "events": events,
            },
        })
    }

    /// Where it is, in Ceph's words where it has them.
    fn flag_point(&self) -> &'static str {
        if let Some(what) = self.waits_for {
            return what;
        }
        match self.times.stage() {
            None => "delayed",
            Some(Stage::Queued) => "queued for pg",
            Some(Stage::Begun) => "reached pg",
            Some(Stage::Reading) => "started",
            Some(Stage::Submitted | Stage::DurableHere) => "waiting for sub ops",
            Some(Stage::DurableEverywhere | Stage::Replied) => "commit sent; apply or cleanup",
        }
    }
}

/// An operation in one line, like Ceph's: who asks, the PG, the object, the operations, the flags.
pub(crate) fn described<'a>(
    reqid: ReqId,
    pgid: SpgId,
    oid: &Name,
    ops: impl Iterator<Item = &'a Op>,
    flags: u32,
) -> String {
    let mut text = format!("osd_op({reqid} {pgid} {} [", String::from_utf8_lossy(oid.as_bytes()));
    for (index, op) in ops.enumerate() {
        let separator = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}", op.code);
        if let OpArgs::Extent { offset, length, .. } = &op.args {
            let _ = write!(text, " {offset}~{length}");
        }
        if !op.indata.is_empty() {
            let _ = write!(text, " in={}b", op.indata.len());
        }
    }
    let _ = write!(text, "] {})", flag_names(flags));
    text
}

fn flag_names(flags: u32) -> String {
    const NAMES: [(u32, &str); 8] = [
        (OsdFlags::ACK, "ack"),
        (OsdFlags::ONDISK, "ondisk"),
        (OsdFlags::RETRY, "retry"),
        (OsdFlags::READ, "read"),
        (OsdFlags::WRITE, "write"),
        (OsdFlags::FULL_TRY, "full_try"),
        (OsdFlags::FULL_FORCE, "full_force"),
        (OsdFlags::RETURNVEC, "returnvec"),
    ];
    let set = NAMES.iter().filter(|(flag, _)| flags & flag != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join("+")
}
