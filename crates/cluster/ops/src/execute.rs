//! The interpreter's loop.

use buffer::Rope;
use messages::Op;
use messages::osd_op::{OpFlags, OsdFlags};
use types::Errno;

use crate::classify::classify;
use crate::clone;
use crate::run::{Runner, StepError};
use crate::table::{refusal, spec};
use crate::{
    ExecuteResult, FullKind, ObjectFlags, ObjectState, ObjectView, OpContext, OpOutcome, OpReturn, Record,
    StatsDelta,
};

/// Runs `ops` in order on `object`, seen through `view`.
///
/// The first operation that fails ends the run with its result, unless it is flagged FAILOK; a run that fails changes
/// nothing. A run that lacks something goes on to the last operation, so that the view learns of all needs at once, and
/// then is [`ExecuteResult::Pending`].
///
/// A request that reads more than [`OpLimits::read_bytes_max`](crate::OpLimits) fails as a whole with EMSGSIZE, before what
/// it lacks is read. That is the number by which an OSD refuses a request with too much data to write, so that a client
/// knows it for "split this into smaller requests"; Ceph has no such limit.
pub fn execute(
    view: &mut dyn ObjectView,
    ctx: &OpContext<'_>,
    object: &ObjectState,
    ops: &[Op],
) -> ExecuteResult {
    let mut run = Runner::new(view, ctx, object, ops.len());
    let mut returns = vec![OpReturn::default(); ops.len()];
    let (mut result, mut pending, mut unsupported) = (0, false, None);
    if let Some((errno, record)) = check_context(ctx, object, ops) {
        run.record = record;
        return finish(run, object, errno.code(), returns, unsupported);
    }
    for (place, (op, ret)) in ops.iter().zip(&mut returns).enumerate() {
        if result < 0 {
            break;
        }
        (run.place, run.op_flags) = (place, op.flags);
        let step = match spec(op.code) {
            Some(spec) => {
                run.user_modify |= spec.user_modify;
                spec.run(&mut run, op)
            }
            None => {
                unsupported.get_or_insert(op.code.0);
                Err(refusal(op.code).errno.into())
            }
        };
        match step {
            Ok(said) => result = said.unwrap_or(result),
            Err(StepError::Fail(code)) => result = code,
            Err(StepError::Pending) => pending = true,
            Err(StepError::TooMuchToRead) => {
                let returns = vec![OpReturn::default(); ops.len()];
                return fail_request(run, object, Errno::EMSGSIZE.code(), returns, unsupported);
            }
            // What the operations before wanted is not waited for.
            Err(StepError::NotCopied(code)) => {
                *ret = OpReturn { rval: Errno::EINPROGRESS.code(), data: Rope::new() };
                if ctx.flags & OsdFlags::RETURNVEC == 0 {
                    returns.iter_mut().for_each(|r| r.data = Rope::new());
                }
                return fail_request(run, object, code, returns, unsupported);
            }
        }
        *ret = OpReturn { rval: result, data: std::mem::take(&mut run.data) };
        if result < 0 && op.flags & OpFlags::FAILOK != 0 {
            result = 0;
        }
        run.steps += 1;
    }
    if result < 0 {
        run.record = Record::Versioned;
    }
    match pending {
        true => ExecuteResult::Pending,
        false => finish(run, object, result, returns, unsupported),
    }
}

/// A write's snap context must descend, and with ORDERSNAP must not be older than what the object has seen. A read has none.
fn check_context(ctx: &OpContext<'_>, object: &ObjectState, ops: &[Op]) -> Option<(Errno, Record)> {
    let stale = ctx.flags & OsdFlags::ORDERSNAP != 0 && ctx.snapc.seq < object.snapset.seq;
    let writes = || classify(ops, ctx.flags, ctx.classes).map_or(true, |class| class.writes);
    match (ctx.snapc.is_valid(), stale) {
        (true, false) => None,
        _ if !writes() => None,
        (_, true) => Some((Errno::EOLDSNAPC, Record::Unversioned)),
        (false, false) => Some((Errno::EINVAL, Record::Nothing)),
    }
}

/// The request fails as a whole, with this result.
fn fail_request(
    mut run: Runner<'_>,
    object: &ObjectState,
    code: i32,
    returns: Vec<OpReturn>,
    unsupported: Option<u16>,
) -> ExecuteResult {
    run.record = Record::Unversioned;
    finish(run, object, code, returns, unsupported)
}

fn finish(
    run: Runner<'_>,
    object: &ObjectState,
    mut result: i32,
    mut returns: Vec<OpReturn>,
    unsupported: Option<u16>,
) -> ExecuteResult {
    let ctx = run.ctx;
    let Runner {
        mut mutations,
        mut effects,
        mut state,
        mut user_modify,
        mut record,
        copied_version,
        clean,
        modified,
        mut delta,
        extents,
        ..
    } = run;
    let ran_well = result >= 0;
    // A full pool takes a metadata server's writes: a full file system could not be emptied otherwise.
    let full = ctx.full.filter(|_| !ctx.caller.is_mds());
    if let (true, false, Some(full)) = (result >= 0, mutations.is_empty(), full) {
        let grows = delta.num_bytes > 0 || delta.num_objects > 0;
        if grows && ctx.flags & OsdFlags::FULL_FORCE == 0 {
            if ctx.flags & OsdFlags::FULL_TRY == 0 {
                return ExecuteResult::Dropped;
            }
            let errno = if full == FullKind::Quota { Errno::EDQUOT } else { Errno::ENOSPC };
            result = errno.code();
        }
    }
    if result >= 0 && !mutations.is_empty() && !object.exists && !state.exists {
        // The object was made and removed. As in Ceph, nothing is left to store or to log, and the answer is a read's.
        mutations.clear();
        (record, state, user_modify, delta) = (Record::Nothing, object.clone(), false, StatsDelta::default());
    }
    if result >= 0 && !mutations.is_empty() {
        result = check_reply(ctx, result, &mut returns);
    }
    if ran_well && result < 0 {
        record = Record::Unversioned;
    }
    let mut clone = None;
    if !mutations.is_empty() && result >= 0 {
        mark_written(object, &mut state, &mut delta);
        clone = clone::preserve(ctx, object, &mut state, modified.unwrap_or_default(), &mut delta);
    }
    if result < 0 {
        mutations.clear();
        effects.clear();
        state = object.clone();
        user_modify = false;
    }
    let clean_regions = clean;
    ExecuteResult::Done(Box::new(OpOutcome {
        result,
        returns,
        record,
        clone,
        mutations,
        effects,
        state,
        user_modify,
        copied_version,
        extents,
        clean_regions,
        delta,
        unsupported,
    }))
}

/// Flags a changed object DIRTY and counts it, as Ceph's make_writeable does in every pool; counts its omap.
fn mark_written(before: &ObjectState, after: &mut ObjectState, delta: &mut StatsDelta) {
    let was_dirty = before.exists && before.info.has(ObjectFlags::DIRTY);
    let had_omap = before.exists && before.info.is_omap();
    match after.exists {
        true => after.info.flags |= ObjectFlags::DIRTY,
        false => after.info.flags &= !ObjectFlags::DIRTY,
    }
    delta.num_objects_dirty += i64::from(after.exists) - i64::from(was_dirty);
    delta.num_objects_omap += i64::from(after.exists && after.info.is_omap()) - i64::from(had_omap);
}

/// A write returns results and data only if the client asked for them, and then only little.
fn check_reply(ctx: &OpContext<'_>, result: i32, returns: &mut [OpReturn]) -> i32 {
    if ctx.flags & OsdFlags::RETURNVEC == 0 {
        returns.iter_mut().for_each(|r| r.data = Rope::new());
        return 0;
    }
    let mut result = result;
    for ret in returns.iter_mut() {
        if ret.data.len() as u64 > ctx.limits.write_op_reply_len_max {
            result = Errno::EOVERFLOW.code();
            *ret = OpReturn { rval: result, data: Rope::new() };
        }
    }
    result
}
