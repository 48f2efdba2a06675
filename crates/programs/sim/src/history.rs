//! The operations of clients with their results.

use std::collections::BTreeMap;
use std::rc::Rc;

use encoding::Encoder;
use messages::osd_op::{Op, OpArgs, OpCode, OpFlags};
use types::{Errno, Name, ObjectLocator, PoolId, SnapId};

use crate::model::{Contents, Context};

/// Bytes of which an object's contents are made: all 8-byte words of a block are equal.
pub const BLOCK: usize = 256;

/// A block whose words differ, or that is not whole: no write makes one.
pub const TORN: u64 = u64::MAX;

/// Names a change: no two have the same.
pub type Mark = u64;

/// An operation on an object. Sizes and offsets are in blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Read,
    /// Reads what the object was at a snapshot.
    ReadAt {
        snap: u64,
    },
    WriteFull {
        blocks: usize,
    },
    Write {
        at: usize,
        blocks: usize,
    },
    Append {
        blocks: usize,
    },
    Truncate {
        blocks: usize,
    },
    Remove,
    /// Makes the object if it does not exist.
    Create,
    /// Writes if `expected` was the last change.
    Swap {
        expected: Mark,
        blocks: usize,
    },
    /// Makes the object what it was at a snapshot.
    Rollback {
        snap: u64,
    },
    /// Makes the object what another is, by its place in [`History::objects`]. Its attribute comes along.
    Copy {
        source: usize,
    },
}

/// The answer to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A read's contents; of a change `None`.
    Ok(Option<Contents>),
    /// A result that follows from the object's state.
    Error(Errno),
    /// The operation had no effect, and its answer does not depend on the object.
    NoEffect,
    /// The operation may have taken effect, or may still take effect.
    Unknown,
}

/// An operation of a client.
#[derive(Clone, Debug)]
pub struct Operation {
    pub mark: Mark,
    /// The object's place in [`History::objects`].
    pub object: usize,
    pub client: usize,
    /// The client's process; after a restart it counts as another client.
    pub life: u32,
    pub action: Action,
    /// The snapshots that it named.
    pub context: Context,
    /// The image, and its lock's hold by the client, by number, under which it was begun.
    pub hold: Option<(usize, u64)>,
    /// Position in the order of all beginnings and ends.
    pub began: u64,
    /// The epoch of the client's map when it began.
    pub epoch: u32,
    /// The map's epoch and the PG's version that an OSD's log had of it, if it got that far; the latest, if it ran
    /// again.
    pub logged: (u32, u64),
    pub end: Option<End>,
    /// Virtual nanoseconds of beginning and end, for people.
    pub times: (u64, u64),
}

impl Operation {
    /// The last moment at which it may look at anything: that of its answer. What was given up may still run.
    pub fn over(&self) -> u64 {
        match &self.end {
            Some(end) if end.seen != Seen::Unknown => end.at,
            _ => u64::MAX,
        }
    }
}

/// An operation's end.
#[derive(Clone, Debug)]
pub struct End {
    pub at: u64,
    /// The epoch of the OSD's map; 0 if no OSD answered.
    pub epoch: u32,
    /// The object's version that the OSD named.
    pub version: u64,
    pub seen: Seen,
}

/// A client that the map shuts out from an epoch on.
#[derive(Clone, Debug)]
pub struct Fence {
    pub client: usize,
    pub life: u32,
    pub epoch: u32,
}

/// Everything that clients did.
#[derive(Default)]
pub struct History {
    pub objects: Vec<String>,
    pub operations: Vec<Operation>,
    pub fences: Vec<Fence>,
    /// The snapshots of the pool, where they are the pool's own, with the epoch from which the map has them.
    pub pool_snaps: Vec<(u32, Context)>,
    /// When the removal of a snapshot began.
    pub removals: BTreeMap<u64, u64>,
    stamps: u64,
}

impl History {
    pub fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// What a change may have taken for its snapshots: usually one context, as the OSD's answer has its epoch.
    pub fn contexts(&self, op: &Operation) -> Vec<Context> {
        let Some((first, _)) = self.pool_snaps.first().filter(|_| !self.is_elsewhere(op.object)) else {
            return vec![op.context.clone()];
        };
        let newest = op.end.as_ref().map_or(0, |end| end.epoch);
        let newest = if newest > 0 { newest } else { u32::MAX };
        let before = self.pool_snaps.iter().rev().find(|(epoch, _)| *epoch <= op.epoch);
        let during = self.pool_snaps.iter().filter(|(epoch, _)| *epoch > op.epoch && *epoch <= newest);
        let none = (op.epoch < *first).then(Context::default);
        let known = before.into_iter().chain(during).map(|(_, context)| context.clone());
        let mut contexts: Vec<Context> = none.into_iter().chain(known).collect();
        // The one that its OSD had when it logged the change is tried first.
        let logged = self.pool_snaps.iter().rev().find(|(epoch, _)| *epoch <= op.logged.0);
        contexts.sort_by_key(|context| logged.is_none_or(|(_, logged)| logged != context));
        contexts
    }

    /// Whether a snapshot's removal had begun when an operation was over.
    pub fn is_removed(&self, snap: u64, op: &Operation) -> bool {
        self.removals.get(&snap).is_some_and(|began| *began < op.over())
    }

    /// Whether an object is in another pool than the load, which has no snapshots.
    pub fn is_elsewhere(&self, object: usize) -> bool {
        self.objects[object].starts_with("src1")
    }

    /// What a source may have been while an operation was under way, the newest first. A source is only ever written whole,
    /// so each is what one of its changes wrote.
    pub fn sources(&self, source: usize, op: &Operation) -> Vec<Option<Rc<Contents>>> {
        let end =
            |op: &Operation| op.end.as_ref().filter(|end| matches!(end.seen, Seen::Ok(_))).map(|end| end.at);
        let writes = || self.of_object(source).filter(|w| matches!(w.action, Action::WriteFull { .. }));
        let has_effect = |w: &&Operation| w.end.as_ref().is_none_or(|end| end.seen != Seen::NoEffect);
        // Whether it was written again, from `since` on, before the operation began.
        let again =
            |since: u64| writes().any(|w| w.began > since && end(w).is_some_and(|end| end < op.began));
        let may = |w: &&Operation| w.began < op.over() && !end(w).is_some_and(again);
        let of = |w: &Operation| match w.action {
            Action::WriteFull { blocks } => {
                Some(Rc::new(Contents { mark: w.mark, blocks: words(w.mark, blocks) }))
            }
            _ => None,
        };
        let mut all: Vec<_> = writes().filter(has_effect).filter(may).map(of).collect();
        all.reverse();
        if !again(0) {
            all.push(None);
        }
        all
    }

    pub fn object(&mut self, name: String) -> usize {
        self.objects.push(name);
        self.objects.len() - 1
    }

    /// The operations on an object, in the order in which they began.
    pub fn of_object(&self, object: usize) -> impl Iterator<Item = &Operation> {
        self.operations.iter().filter(move |op| op.object == object)
    }
}

impl Action {
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Read | Self::ReadAt { .. })
    }

    /// Whether an object bears the mark of the change after it.
    pub fn marks(&self) -> bool {
        self.writes() && !matches!(self, Self::Remove | Self::Rollback { .. } | Self::Copy { .. })
    }

    /// The compound operation. Every change but a removal and a rollback also sets the attribute, so that half a change shows.
    ///
    /// `from` is of a copy: the source's pool and name.
    pub fn ops(&self, mark: Mark, from: (PoolId, &str)) -> Vec<Op> {
        let extent = |code, at: usize, blocks: usize| {
            let (offset, length) = ((at * BLOCK) as u64, (blocks * BLOCK) as u64);
            Op::new(code, OpArgs::Extent { offset, length, truncate_size: 0, truncate_seq: 0 })
        };
        let data = |code, at, blocks| extent(code, at, blocks).with_indata(bytes(mark, blocks));
        let note = || attribute(OpCode::SETXATTR, mark);
        match *self {
            Self::Read | Self::ReadAt { .. } => vec![extent(OpCode::READ, 0, 0), get_attribute()],
            Self::WriteFull { blocks } => vec![data(OpCode::WRITEFULL, 0, blocks), note()],
            Self::Write { at, blocks } => vec![data(OpCode::WRITE, at, blocks), note()],
            Self::Append { blocks } => vec![data(OpCode::APPEND, 0, blocks), note()],
            Self::Truncate { blocks } => vec![note(), extent(OpCode::TRUNCATE, blocks, 0)],
            Self::Remove => vec![extent(OpCode::DELETE, 0, 0)],
            Self::Rollback { snap } => {
                vec![Op::new(OpCode::ROLLBACK, OpArgs::Snap { snapid: SnapId(snap) })]
            }
            Self::Copy { .. } => vec![copy_from(from)],
            Self::Create => {
                vec![extent(OpCode::CREATE, 0, 0).with_flags(OpFlags::EXCL), note()]
            }
            Self::Swap { expected, blocks } => {
                vec![attribute(OpCode::CMPXATTR, expected), data(OpCode::WRITEFULL, 0, blocks), note()]
            }
        }
    }
}

/// The name of the attribute that bears an object's last change.
const ATTRIBUTE: &[u8] = b"mark";

fn attribute(code: OpCode, mark: Mark) -> Op {
    let value = mark.to_string();
    let (name_len, value_len) = (ATTRIBUTE.len() as u32, value.len() as u32);
    // Equality, of strings.
    let (cmp_op, cmp_mode) = if code == OpCode::CMPXATTR { (1, 1) } else { (0, 0) };
    Op::new(code, OpArgs::Xattr { name_len, value_len, cmp_op, cmp_mode })
        .with_indata([ATTRIBUTE, value.as_bytes()].concat())
}

fn copy_from((pool, name): (PoolId, &str)) -> Op {
    let locator = ObjectLocator { pool, key: Name::new(), nspace: Name::new(), hash: -1 };
    let mut source = Encoder::new(0);
    source.put(name).put(&locator);
    let args = OpArgs::CopyFrom { snapid: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise_flags: 0 };
    Op::new(OpCode::COPY_FROM, args).with_indata(source.into_bytes())
}

fn get_attribute() -> Op {
    let name_len = ATTRIBUTE.len() as u32;
    let args = OpArgs::Xattr { name_len, value_len: 0, cmp_op: 0, cmp_mode: 0 };
    Op::new(OpCode::GETXATTR, args).with_indata(ATTRIBUTE.to_vec())
}

/// The words of a change's blocks: each differs from all others of the history.
pub fn words(mark: Mark, blocks: usize) -> Vec<u64> {
    (0..blocks as u64).map(|i| (mark << 16) | (i + 1)).collect()
}

fn bytes(mark: Mark, blocks: usize) -> Vec<u8> {
    words(mark, blocks).into_iter().flat_map(|word| word.to_le_bytes().repeat(BLOCK / 8)).collect()
}

/// The contents that a read returned: data and attribute.
pub fn contents(data: &[u8], attribute: &[u8]) -> Contents {
    let word = |chunk: &[u8]| {
        let first: [u8; 8] = chunk[..8].try_into().unwrap();
        let whole = chunk.len() == BLOCK && chunk.chunks(8).all(|w| w == first);
        if whole { u64::from_le_bytes(first) } else { TORN }
    };
    let blocks = data.chunks(BLOCK).map(|chunk| if chunk.len() < 8 { TORN } else { word(chunk) }).collect();
    let mark = std::str::from_utf8(attribute).ok().and_then(|text| text.parse().ok()).unwrap_or(TORN);
    Contents { mark, blocks }
}
