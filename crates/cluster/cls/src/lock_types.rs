//! What the class `lock` keeps and exchanges.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddr, EntityName, Name, UTime};

/// How a lock is held (ClsLockType).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct LockType(pub u8);

impl LockType {
    pub const EXCLUSIVE: Self = Self(1);
    pub const SHARED: Self = Self(2);
    /// Exclusive; its object is removed with it.
    pub const EXCLUSIVE_EPHEMERAL: Self = Self(3);

    pub fn is_valid(self) -> bool {
        self == Self::SHARED || self.is_exclusive()
    }

    pub fn is_exclusive(self) -> bool {
        self == Self::EXCLUSIVE || self.is_ephemeral()
    }

    pub fn is_ephemeral(self) -> bool {
        self == Self::EXCLUSIVE_EPHEMERAL
    }
}

/// Who holds a lock (rados::cls::lock::locker_id_t).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LockerId {
    pub locker: EntityName,
    pub cookie: Name,
}

impl Encode for LockerId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.locker).put(&self.cookie);
        });
    }
}
impl Decode for LockerId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "locker_id_t", |d, _| Ok(Self { locker: d.get()?, cookie: d.get()? }))
    }
}

/// How it is held (rados::cls::lock::locker_info_t).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockerInfo {
    /// Zero: never.
    pub expiration: UTime,
    pub addr: EntityAddr,
    pub description: Name,
}

impl Encode for LockerInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.expiration).put(&self.addr).put(&self.description);
        });
    }
}
impl Decode for LockerInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "locker_info_t", |d, _| {
            Ok(Self { expiration: d.get()?, addr: d.get()?, description: d.get()? })
        })
    }
}

/// A lock, as its attribute has it (rados::cls::lock::lock_info_t) and as get_info returns it (cls_lock_get_info_reply).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct LockInfo {
    pub lockers: BTreeMap<LockerId, LockerInfo>,
    pub kind: LockType,
    /// While it is held, only who names the same tag can do anything with it.
    pub tag: Name,
}

impl Encode for LockInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.lockers).put(&self.kind.0).put(&self.tag);
        });
    }
}
impl Decode for LockInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "lock_info_t", |d, _| {
            Ok(Self { lockers: d.get()?, kind: LockType(d.get()?), tag: d.get()? })
        })
    }
}

/// Input of `lock` (cls_lock_lock_op).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LockOp {
    pub name: Name,
    pub kind: LockType,
    pub cookie: Name,
    pub tag: Name,
    pub description: Name,
    /// Zero: without end.
    pub duration: UTime,
    pub flags: u8,
}

impl LockOp {
    /// The caller may hold the lock already.
    pub const MAY_RENEW: u8 = 1;
    /// The caller must hold the lock already.
    pub const MUST_RENEW: u8 = 2;
}

impl Decode for LockOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_lock_op", |d, _| {
            let (name, kind) = (d.get()?, LockType(d.get()?));
            let (cookie, tag, description) = (d.get()?, d.get()?, d.get()?);
            Ok(Self { name, kind, cookie, tag, description, duration: d.get()?, flags: d.get()? })
        })
    }
}

/// Input of `unlock` (cls_lock_unlock_op).
pub(crate) struct UnlockOp {
    pub name: Name,
    pub cookie: Name,
}

impl Decode for UnlockOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_unlock_op", |d, _| Ok(Self { name: d.get()?, cookie: d.get()? }))
    }
}

/// Input of `break_lock` (cls_lock_break_op).
pub(crate) struct BreakOp {
    pub name: Name,
    pub id: LockerId,
}

impl Decode for BreakOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_break_op", |d, _| {
            Ok(Self { name: d.get()?, id: LockerId { locker: d.get()?, cookie: d.get()? } })
        })
    }
}

/// Input of `get_info` (cls_lock_get_info_op).
pub(crate) struct GetInfoOp {
    pub name: Name,
}

impl Decode for GetInfoOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_get_info_op", |d, _| Ok(Self { name: d.get()? }))
    }
}

/// Output of `list_locks` (cls_lock_list_locks_reply).
pub(crate) struct ListLocksReply {
    pub locks: Vec<Name>,
}

impl Encode for ListLocksReply {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.locks);
        });
    }
}

/// Input of `assert_locked` (cls_lock_assert_op), and the first part of that of `set_cookie`.
pub(crate) struct AssertOp {
    pub name: Name,
    pub kind: LockType,
    pub cookie: Name,
    pub tag: Name,
}

impl AssertOp {
    fn body(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { name: d.get()?, kind: LockType(d.get()?), cookie: d.get()?, tag: d.get()? })
    }
}

impl Decode for AssertOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_assert_op", |d, _| Self::body(d))
    }
}

/// Input of `set_cookie` (cls_lock_set_cookie_op).
pub(crate) struct SetCookieOp {
    pub held: AssertOp,
    pub new_cookie: Name,
}

impl Decode for SetCookieOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_lock_set_cookie_op", |d, _| {
            Ok(Self { held: AssertOp::body(d)?, new_cookie: d.get()? })
        })
    }
}
