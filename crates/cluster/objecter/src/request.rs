//! Requests and what becomes of them.

use buffer::Rope;
use maps::OsdMap;
use messages::osd_op::OsdFlags;
use messages::{Op, OpArgs, OpResult, OsdOp};
use types::{
    Epoch, Errno, HObject, Name, ObjectLocator, OsdId, PgId, PoolId, ReqId, SnapContext, SnapId, UTime,
};

use crate::placement::Placement;

/// A request's number, never used twice by a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Object {
        name: Name,
        locator: ObjectLocator,
    },
    /// A placement group, for listings.
    Pg(PgId),
}

/// A compound operation on one object or placement group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub target: Target,
    /// What to do, in order, all or nothing.
    pub ops: Vec<Op>,
    /// Bits of [`OsdFlags`] beside those that every request has. READ or WRITE follows from `ops`; CALL needs it here
    /// if the method writes.
    pub flags: u32,
    /// What a read reads.
    pub snapid: SnapId,
    /// What a write keeps.
    pub snapc: SnapContext,
    /// The modification time that a write sets; `None`: when it is submitted.
    pub mtime: Option<UTime>,
}

impl Request {
    fn new(target: Target, ops: Vec<Op>, flags: u32) -> Self {
        Self { target, ops, flags, snapid: SnapId::HEAD, snapc: SnapContext::default(), mtime: None }
    }

    /// On an object in the default namespace, placed by its name.
    pub fn on(pool: PoolId, object: impl Into<Name>, ops: Vec<Op>) -> Self {
        let locator = ObjectLocator { pool, key: Name::new(), nspace: Name::new(), hash: -1 };
        Self::new(Target::Object { name: object.into(), locator }, ops, 0)
    }

    /// On a placement group: PGNLS and its like.
    pub fn on_pg(pg: PgId, ops: Vec<Op>) -> Self {
        Self::new(Target::Pg(pg), ops, OsdFlags::PGOP | OsdFlags::IGNORE_OVERLAY)
    }

    pub fn pool(&self) -> PoolId {
        match &self.target {
            Target::Object { locator, .. } => locator.pool,
            Target::Pg(pg) => pg.pool,
        }
    }

    /// Bytes that it sends or asks for.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |op: &Op| match op.args {
            OpArgs::Extent { length, .. } if op.code.reads() => length.saturating_add(op.indata.len() as u64),
            _ => op.indata.len() as u64,
        };
        self.ops.iter().map(of).fold(0, u64::saturating_add)
    }

    fn all_flags(&self) -> u32 {
        let writes = self.ops.iter().any(|op| op.code.writes());
        let mode = if writes { OsdFlags::WRITE } else { OsdFlags::READ };
        // A CALL that writes has WRITE among its own flags; READ beside it is true as well.
        self.flags | mode
    }
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its OSD answered.
    Replied {
        /// 0 or more, or a negated error number.
        result: i32,
        ops: Vec<OpResult>,
        /// The object's version after a write; of a read, the version read.
        user_version: u64,
        /// The OSD's map.
        epoch: Epoch,
    },
    /// It was ended here without an answer: ETIMEDOUT, ENOENT (its pool does not exist), EIO (its pool fails all
    /// requests). If it was `sent`, it may have taken effect, or may still.
    Ended { errno: Errno, sent: bool },
}

impl Outcome {
    /// 0 or more, or a negated error number.
    pub fn result(&self) -> i32 {
        match self {
            Self::Replied { result, .. } => *result,
            Self::Ended { errno, .. } => errno.code(),
        }
    }

    /// The output of all operations, joined.
    pub fn data(&self) -> Rope {
        let mut data = Rope::new();
        if let Self::Replied { ops, .. } = self {
            ops.iter().for_each(|op| data.append(op.outdata.clone()));
        }
        data
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub id: RequestId,
    pub request: Request,
    /// See [`OsdFlags`]; replica reads lose theirs when they are sent to the primary.
    pub flags: u32,
    pub mtime: UTime,
    pub bytes: u64,
    /// Where the map puts it; `None` before a map with its pool has come.
    pub placement: Option<Placement>,
    /// The OSD whose session it is in.
    pub home: Option<OsdId>,
    /// Whether the map's flags or the epoch barrier hold it back.
    pub paused: bool,
    /// How often it was sent with its present tid.
    pub attempts: i32,
    pub ever_sent: bool,
    pub sent_at: UTime,
    /// The epoch from which on a map without its pool says that there is no such pool.
    pub pool_gone_from: Option<Epoch>,
    pub deadline: Option<UTime>,
}

impl Pending {
    pub fn new(id: RequestId, request: Request, now: UTime, deadline: Option<UTime>) -> Self {
        Self {
            id,
            flags: request.all_flags(),
            mtime: request.mtime.unwrap_or(now),
            bytes: request.bytes(),
            request,
            placement: None,
            home: None,
            paused: false,
            attempts: 0,
            ever_sent: false,
            sent_at: now,
            pool_gone_from: None,
            deadline,
        }
    }

    pub fn has_flag(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Whether it waits while its pool or the cluster is full.
    pub fn respects_full(&self) -> bool {
        self.has_flag(OsdFlags::WRITE | OsdFlags::RWORDERED)
            && !self.has_flag(OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE)
    }

    fn name_and_locator(&self) -> (Name, ObjectLocator) {
        match &self.request.target {
            Target::Object { name, locator } => (name.clone(), locator.clone()),
            Target::Pg(pg) => {
                let locator =
                    ObjectLocator { pool: pg.pool, key: Name::new(), nspace: Name::new(), hash: -1 };
                (Name::new(), locator)
            }
        }
    }

    /// What backoffs hold back by.
    pub fn hobject(&self, placement: &Placement) -> HObject {
        let (name, locator) = self.name_and_locator();
        HObject {
            snap: self.request.snapid,
            ..HObject::head(locator.pool, locator.nspace, locator.key, name, placement.raw.seed)
        }
    }

    /// Forgets the snapshots that the newest epoch removed: an OSD refuses a write that names them.
    pub fn prune_snaps(&mut self, map: &OsdMap) {
        if let Some(removed) = map.new_removed_snaps.get(&self.request.pool()) {
            self.request.snapc.snaps.retain(|snap| !removed.contains(snap.0));
        }
    }

    /// The message. `map` is the map that `placement` is of.
    pub fn message(&self, tid: u64, placement: &Placement, map: Epoch, features: u64) -> OsdOp {
        let (oid, locator) = self.name_and_locator();
        OsdOp {
            tid,
            pgid: placement.pg,
            hash: placement.raw.seed,
            epoch: map,
            flags: self.flags | OsdFlags::ONDISK | OsdFlags::KNOWN_REDIR | OsdFlags::SUPPORTSPOOLEIO,
            reqid: ReqId::default(),
            trace: Default::default(),
            otel_trace: None,
            client_inc: 0,
            mtime: self.mtime,
            locator,
            oid,
            ops: self.request.ops.clone(),
            snapid: self.request.snapid,
            snap_seq: self.request.snapc.seq,
            snaps: self.request.snapc.snaps.clone(),
            retry_attempt: self.attempts,
            features,
            data_offset: 0,
        }
    }
}
