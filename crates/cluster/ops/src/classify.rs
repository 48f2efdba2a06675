//! What a request may do, judged by its operations alone.

use messages::osd_op::{OpConst, OsdFlags};
use messages::{Op, OpArgs, OpCode};
use types::Errno;

use crate::table::{refusal, spec};

/// Which rights a request needs and how it is ordered (Ceph's OpInfo).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpClass {
    pub reads: bool,
    /// It may change the object, so that its result is remembered.
    pub writes: bool,
    /// It is about the placement group.
    pub is_pg: bool,
    /// It waits for, and holds up, like a write: writes, RWORDERED reads, watch pings.
    pub write_ordered: bool,
}

/// Classifies a request by its operations and flags.
///
/// # Errors
/// EOPNOTSUPP where it calls a class: none exists yet. EINVAL where it has no operation, or both kinds of them.
pub fn classify(ops: &[Op], flags: u32) -> Result<OpClass, Errno> {
    let mut class = OpClass { write_ordered: flags & OsdFlags::RWORDERED != 0, ..OpClass::default() };
    for op in ops {
        if spec(op.code).is_none() {
            let refusal = refusal(op.code);
            if refusal.whole_request {
                return Err(refusal.errno);
            }
        }
        let is_ping = matches!(op.args, OpArgs::Watch { op, .. } if u32::from(op) == OpConst::WATCH_PING);
        if op.code == OpCode::WATCH && is_ping {
            class.write_ordered = true;
        } else {
            class.writes |= op.code.writes();
        }
        class.reads |= op.code.reads() || op.code == OpCode::WATCH;
        class.is_pg |= op.code.is_pg();
    }
    class.write_ordered |= class.writes;
    match ops.is_empty() || (class.is_pg && !ops.iter().all(|op| op.code.is_pg())) {
        true => Err(Errno::EINVAL),
        false => Ok(class),
    }
}
