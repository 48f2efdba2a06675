//! What a request may do, judged by its operations alone.

use messages::osd_op::{OpConst, OsdFlags};
use messages::{Op, OpArgs, OpCode};
use types::Errno;

use crate::ClassTable;
use crate::class::Called;

/// What a request does and how it is ordered (Ceph's OpInfo).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpClass {
    pub reads: bool,
    /// It may change the object, so that its result is remembered.
    pub writes: bool,
    /// It is about the placement group.
    pub is_pg: bool,
    /// It waits for, and holds up, like a write: writes, RWORDERED reads, watch pings.
    pub write_ordered: bool,
    pub needs: Rights,
}

/// What a client's capabilities must grant for a request.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Rights {
    pub read: bool,
    /// Of operations other than CALL.
    pub write: bool,
    pub class_read: bool,
    pub class_write: bool,
    /// It calls a class that is not in osd_class_default_list.
    pub unlisted_class: bool,
}

/// Classifies a request by its operations and flags.
///
/// # Errors
/// EINVAL where it has no operation, or both kinds of them; what [`ClassTable`] makes of a class that it calls.
pub fn classify(ops: &[Op], flags: u32, classes: &ClassTable) -> Result<OpClass, Errno> {
    let mut class = OpClass { write_ordered: flags & OsdFlags::RWORDERED != 0, ..OpClass::default() };
    let needs = &mut class.needs;
    for op in ops {
        let is_ping = matches!(op.args, OpArgs::Watch { op, .. } if u32::from(op) == OpConst::WATCH_PING);
        if op.code == OpCode::WATCH && is_ping {
            class.write_ordered = true;
        } else {
            needs.write |= op.code.writes();
        }
        needs.read |= op.code.reads() || op.code == OpCode::WATCH;
        class.is_pg |= op.code.is_pg();
        if op.code == OpCode::CALL {
            let Called { method, listed } = classes.find(op)?;
            needs.class_read |= method.reads;
            needs.class_write |= method.writes;
            needs.unlisted_class |= !listed;
        }
    }
    (class.reads, class.writes) = (needs.read || needs.class_read, needs.write || needs.class_write);
    class.write_ordered |= class.writes;
    match ops.is_empty() || (class.is_pg && !ops.iter().all(|op| op.code.is_pg())) {
        true => Err(Errno::EINVAL),
        false => Ok(class),
    }
}
