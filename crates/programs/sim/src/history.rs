//! The operations of clients with their results, and the model of an object.

use messages::osd_op::{Op, OpArgs, OpCode, OpFlags};
use types::Errno;

/// Bytes of which an object's contents are made: all 8-byte words of a block are equal.
pub const BLOCK: usize = 256;

/// A block whose words differ, or that is not whole: no write makes one.
pub const TORN: u64 = u64::MAX;

/// Names a change: no two have the same.
pub type Mark = u64;

/// An object that exists.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Contents {
    /// Its attribute: the last change.
    pub mark: Mark,
    /// The word of each block; 0 where nothing was written.
    pub blocks: Vec<u64>,
}

/// An object's state; `None`: it does not exist.
pub type State = Option<Contents>;

/// An operation on an object. Sizes and offsets are in blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Read,
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
    /// Position in the order of all beginnings and ends.
    pub began: u64,
    /// The epoch of the client's map when it began.
    pub epoch: u32,
    pub end: Option<End>,
    /// Virtual nanoseconds of beginning and end, for people.
    pub times: (u64, u64),
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
    stamps: u64,
}

impl History {
    pub fn stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
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
        *self != Self::Read
    }

    /// The object after the action, and the answer to the client.
    pub fn apply(&self, mark: Mark, state: &State) -> (State, Seen) {
        let old = || state.clone().unwrap_or_default();
        let changed = |blocks: Vec<u64>| (Some(Contents { mark, blocks }), Seen::Ok(None));
        let failed = |errno| (state.clone(), Seen::Error(errno));
        match *self {
            Self::Read => match state {
                Some(contents) => (state.clone(), Seen::Ok(Some(contents.clone()))),
                None => failed(Errno::ENOENT),
            },
            Self::WriteFull { blocks } => changed(words(mark, blocks)),
            Self::Write { at, blocks } => {
                let mut new = old().blocks;
                new.resize(new.len().max(at + blocks), 0);
                new[at..at + blocks].copy_from_slice(&words(mark, blocks));
                changed(new)
            }
            Self::Append { blocks } => changed([old().blocks, words(mark, blocks)].concat()),
            Self::Truncate { blocks } => {
                let mut new = old().blocks;
                new.resize(blocks, 0);
                changed(new)
            }
            Self::Remove if state.is_some() => (None, Seen::Ok(None)),
            Self::Remove => failed(Errno::ENOENT),
            Self::Create if state.is_none() => changed(Vec::new()),
            Self::Create => failed(Errno::EEXIST),
            Self::Swap { expected, blocks } => match state {
                Some(contents) if contents.mark == expected => changed(words(mark, blocks)),
                Some(_) => failed(Errno::ECANCELED),
                None => failed(Errno::ENOENT),
            },
        }
    }

    /// The compound operation. Every change but a removal also sets the attribute, so that half a change shows.
    pub fn ops(&self, mark: Mark) -> Vec<Op> {
        let extent = |code, at: usize, blocks: usize| {
            let (offset, length) = ((at * BLOCK) as u64, (blocks * BLOCK) as u64);
            Op::new(code, OpArgs::Extent { offset, length, truncate_size: 0, truncate_seq: 0 })
        };
        let data = |code, at, blocks| extent(code, at, blocks).with_indata(bytes(mark, blocks));
        let note = || attribute(OpCode::SETXATTR, mark);
        match *self {
            Self::Read => vec![extent(OpCode::READ, 0, 0), get_attribute()],
            Self::WriteFull { blocks } => vec![data(OpCode::WRITEFULL, 0, blocks), note()],
            Self::Write { at, blocks } => vec![data(OpCode::WRITE, at, blocks), note()],
            Self::Append { blocks } => vec![data(OpCode::APPEND, 0, blocks), note()],
            Self::Truncate { blocks } => vec![note(), extent(OpCode::TRUNCATE, blocks, 0)],
            Self::Remove => vec![extent(OpCode::DELETE, 0, 0)],
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
pub const ATTRIBUTE: &[u8] = b"mark";

fn attribute(code: OpCode, mark: Mark) -> Op {
    let value = mark.to_string();
    let (name_len, value_len) = (ATTRIBUTE.len() as u32, value.len() as u32);
    // Equality, of strings.
    let (cmp_op, cmp_mode) = if code == OpCode::CMPXATTR { (1, 1) } else { (0, 0) };
    Op::new(code, OpArgs::Xattr { name_len, value_len, cmp_op, cmp_mode })
        .with_indata([ATTRIBUTE, value.as_bytes()].concat())
}

fn get_attribute() -> Op {
    let name_len = ATTRIBUTE.len() as u32;
    let args = OpArgs::Xattr { name_len, value_len: 0, cmp_op: 0, cmp_mode: 0 };
    Op::new(OpCode::GETXATTR, args).with_indata(ATTRIBUTE.to_vec())
}

/// The words of a change's blocks: each differs from all others of the history.
fn words(mark: Mark, blocks: usize) -> Vec<u64> {
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
