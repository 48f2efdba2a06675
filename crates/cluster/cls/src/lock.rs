//! Class `lock`: advisory locks on an object, each in an attribute.

use std::time::Duration;

use buffer::Rope;
use encoding::{Decode, DecodeError, Encode};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input, decode_stored};
use types::{AddrType, EntityAddr, EntityName, Errno, Name, UTime};

use crate::lock_types::{
    AssertOp, BreakOp, GetInfoOp, ListLocksReply, LockInfo, LockOp, LockerId, LockerInfo, SetCookieOp,
    UnlockOp,
};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "lock",
    methods: &[
        Method::read_write("lock", lock),
        Method::read_write("unlock", unlock),
        Method::read_write("break_lock", break_lock),
        Method::read("get_info", get_info),
        Method::read("list_locks", list_locks),
        Method::read("assert_locked", assert_locked),
        Method::read_write("set_cookie", set_cookie),
    ],
};

/// What the names of locks' attributes begin with.
const ATTR_PREFIX: &[u8] = b"lock.";

fn attr_of(name: &Name) -> Name {
    [ATTR_PREFIX, name.as_bytes()].concat().into()
}

/// The lock without holders whose time is over. An ephemeral one that nobody holds any more takes its object along, which
/// fails with EIO in a method that only reads, as in Ceph.
fn read_lock(ctx: &mut ClassContext<'_, '_>, name: &Name) -> Result<LockInfo, StepError> {
    let Some(value) = ctx.xattr(attr_of(name))? else { return Ok(LockInfo::default()) };
    let mut lock: LockInfo = decode_stored(&value)?;
    let now = ctx.now();
    lock.lockers.retain(|_, info| info.expiration == UTime::default() || info.expiration >= now);
    if lock.lockers.is_empty() && lock.kind.is_ephemeral() {
        ctx.remove()?;
    }
    Ok(lock)
}

fn write_lock(ctx: &mut ClassContext<'_, '_>, name: &Name, lock: &LockInfo) -> Result<i32, StepError> {
    ctx.set_xattr(attr_of(name), lock.to_bytes(ctx.client_features()))?;
    Ok(0)
}

fn lock(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: LockOp = decode_input(input)?;
    let (may_renew, must_renew) = (op.flags & LockOp::MAY_RENEW != 0, op.flags & LockOp::MUST_RENEW != 0);
    if !op.kind.is_valid() || op.name.is_empty() || (may_renew && must_renew) {
        return Err(Errno::EINVAL.into());
    }
    let mut lock = match read_lock(ctx, &op.name) {
        Err(e) if e.is(Errno::ENOENT) => LockInfo::default(),
        lock => lock?,
    };
    // Before the caller's own hold is taken off.
    if !lock.lockers.is_empty() && op.tag != lock.tag {
        return Err(Errno::EBUSY.into());
    }
    let (locker, addr) = ctx.origin();
    let id = LockerId { locker, cookie: op.cookie };
    match lock.lockers.remove(&id) {
        Some(_) if !may_renew && !must_renew => return Err(Errno::EEXIST.into()),
        None if must_renew => return Err(Errno::ENOENT.into()),
        Some(_) | None => {}
    }
    if !lock.lockers.is_empty() && (op.kind.is_exclusive() || lock.kind != op.kind) {
        return Err(Errno::EBUSY.into());
    }
    let expiration = match op.duration.as_nanos() {
        0 => UTime::default(),
        nanos => ctx.now().after(Duration::from_nanos(nanos)),
    };
    // Of the old form whatever the client speaks: its kind does not tell clients apart, and old ones read it too.
    let addr = EntityAddr { kind: AddrType::Legacy, ..addr };
    lock.lockers.insert(id, LockerInfo { expiration, addr, description: op.description });
    (lock.kind, lock.tag) = (op.kind, op.tag);
    write_lock(ctx, &op.name, &lock)
}

fn remove_locker(ctx: &mut ClassContext<'_, '_>, name: &Name, id: &LockerId) -> Result<i32, StepError> {
    let mut lock = read_lock(ctx, name)?;
    lock.lockers.remove(id).ok_or(Errno::ENOENT)?;
    if lock.kind.is_ephemeral() {
        ctx.remove()?;
        return Ok(0);
    }
    write_lock(ctx, name, &lock)
}

fn unlock(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: UnlockOp = decode_input(input)?;
    let id = LockerId { locker: ctx.origin().0, cookie: op.cookie };
    remove_locker(ctx, &op.name, &id)
}

fn break_lock(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: BreakOp = decode_input(input)?;
    remove_locker(ctx, &op.name, &op.id)
}

fn get_info(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: GetInfoOp = decode_input(input)?;
    let lock = read_lock(ctx, &op.name)?;
    ctx.reply(&lock)
}

/// The holders of a lock, by the output of `get_info`: name, cookie, address.
///
/// # Errors
/// Where the output does not decode.
pub fn lock_holders(output: &[u8]) -> Result<Vec<(EntityName, Name, EntityAddr)>, DecodeError> {
    let lockers = LockInfo::from_bytes(output)?.lockers.into_iter();
    Ok(lockers.map(|(id, info)| (id.locker, id.cookie, info.addr)).collect())
}

fn list_locks(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let attrs = ctx.xattrs()?;
    let locks = attrs.keys().filter_map(|name| Some(name.strip_prefix(ATTR_PREFIX)?.into())).collect();
    ctx.reply(&ListLocksReply { locks })
}

/// The lock, if the caller holds it as `op` says; fails with EBUSY if not.
fn held(ctx: &mut ClassContext<'_, '_>, op: &AssertOp) -> Result<(LockInfo, LockerId), StepError> {
    if !op.kind.is_valid() || op.name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let lock = read_lock(ctx, &op.name)?;
    let id = LockerId { locker: ctx.origin().0, cookie: op.cookie.clone() };
    match lock.kind == op.kind && lock.tag == op.tag && lock.lockers.contains_key(&id) {
        true => Ok((lock, id)),
        false => Err(Errno::EBUSY.into()),
    }
}

fn assert_locked(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: AssertOp = decode_input(input)?;
    held(ctx, &op).map(|_| 0)
}

fn set_cookie(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: SetCookieOp = decode_input(input)?;
    let (mut lock, id) = held(ctx, &op.held)?;
    let new_id = LockerId { cookie: op.new_cookie, ..id.clone() };
    if lock.lockers.contains_key(&new_id) {
        return Err(Errno::EBUSY.into());
    }
    let info = lock.lockers.remove(&id).ok_or(Errno::EBUSY)?;
    lock.lockers.insert(new_id, info);
    write_lock(ctx, &op.held.name, &lock)
}
