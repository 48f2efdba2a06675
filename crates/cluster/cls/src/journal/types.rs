//! What the class `journal` keeps and exchanges.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::Name;

/// An entry of a journal (cls::journal::ObjectPosition).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectPosition {
    /// The object that has it.
    pub object_number: u64,
    pub tag_tid: u64,
    pub entry_tid: u64,
}

impl Encode for ObjectPosition {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.object_number).put(&self.tag_tid).put(&self.entry_tid);
        });
    }
}
impl Decode for ObjectPosition {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls::journal::ObjectPosition", |d, _| {
            Ok(Self { object_number: d.get()?, tag_tid: d.get()?, entry_tid: d.get()? })
        })
    }
}

/// How far a client is (cls::journal::ObjectSetPosition): an entry of each object, the newest one first.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ObjectSetPosition(pub Vec<ObjectPosition>);

impl Encode for ObjectSetPosition {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for ObjectSetPosition {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls::journal::ObjectSetPosition", |d, _| Ok(Self(d.get()?)))
    }
}

/// A client of a journal (cls::journal::Client).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Client {
    pub id: Name,
    pub data: Name,
    pub position: ObjectSetPosition,
    /// CLIENT_STATE_*.
    pub state: u8,
}

impl Client {
    pub const CONNECTED: u8 = 0;
    /// It keeps no tag from being removed.
    pub const DISCONNECTED: u8 = 1;
}

impl Encode for Client {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.id).put(&self.data).put(&self.position).put(&self.state);
        });
    }
}
impl Decode for Client {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls::journal::Client", |d, _| {
            Ok(Self { id: d.get()?, data: d.get()?, position: d.get()?, state: d.get()? })
        })
    }
}

/// An epoch of a journal (cls::journal::Tag).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    pub tid: u64,
    pub class: u64,
    pub data: Name,
}

impl Encode for Tag {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.tid).put(&self.class).put(&self.data);
        });
    }
}
impl Decode for Tag {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls::journal::Tag", |d, _| {
            Ok(Self { tid: d.get()?, class: d.get()?, data: d.get()? })
        })
    }
}
