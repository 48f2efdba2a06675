//! Who is who: entity types, instance names (`client.4123`), authentication names (`client.admin`).

use std::fmt;
use std::str::FromStr;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// A kind of participant (CEPH_ENTITY_TYPE_*).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EntityType {
    /// Monitor.
    Mon,
    /// Metadata server.
    Mds,
    /// Object storage daemon.
    Osd,
    Client,
    /// Manager.
    Mgr,
    /// Anything else, by its number (0 is "not set").
    Other(u8),
}

impl EntityType {
    /// The wire's number.
    pub fn number(self) -> u8 {
        match self {
            Self::Mon => 1,
            Self::Mds => 2,
            Self::Osd => 4,
            Self::Client => 8,
            Self::Mgr => 16,
            Self::Other(n) => n,
        }
    }

    /// The name used in `TYPE.ID`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mon => "mon",
            Self::Mds => "mds",
            Self::Osd => "osd",
            Self::Client => "client",
            Self::Mgr => "mgr",
            Self::Other(_) => "unknown",
        }
    }
}

impl From<u8> for EntityType {
    fn from(n: u8) -> Self {
        match n {
            1 => Self::Mon,
            2 => Self::Mds,
            4 => Self::Osd,
            8 => Self::Client,
            16 => Self::Mgr,
            n => Self::Other(n),
        }
    }
}

/// A running instance (Ceph's entity_name_t): type and number, `osd.0`, `client.4123`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityName {
    pub kind: EntityType,
    /// The rank, OSD number or global id; -1 is "not known yet".
    pub num: i64,
}

impl EntityName {
    /// The name of `kind` number `num`.
    pub fn new(kind: EntityType, num: i64) -> Self {
        Self { kind, num }
    }
}

impl Default for EntityName {
    fn default() -> Self {
        Self { kind: EntityType::Other(0), num: 0 }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.num {
            n if n < 0 => write!(f, "{}.?", self.kind.as_str()),
            n => write!(f, "{}.{n}", self.kind.as_str()),
        }
    }
}
impl fmt::Debug for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityName {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.kind.number()).put(&self.num);
    }
}
impl Decode for EntityName {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kind: d.get::<u8>()?.into(), num: d.get()? })
    }
}

/// An authentication name (Ceph's EntityName): type and id, `client.admin`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    pub kind: EntityType,
    /// The id after the dot.
    pub id: String,
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.as_str(), self.id)
    }
}
impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `TYPE.ID`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an entity name (like client.admin): '{0}'")]
pub struct ParseEntityError(String);

impl FromStr for EntityId {
    type Err = ParseEntityError;
    fn from_str(s: &str) -> Result<Self, ParseEntityError> {
        let (kind, id) = s.split_once('.').ok_or_else(|| ParseEntityError(s.into()))?;
        let kinds = [EntityType::Mon, EntityType::Mds, EntityType::Osd, EntityType::Client, EntityType::Mgr];
        let kind =
            kinds.into_iter().find(|k| k.as_str() == kind).ok_or_else(|| ParseEntityError(s.into()))?;
        Ok(Self { kind, id: id.into() })
    }
}

impl EntityId {
    /// The instance whose number is this id, if the id is one; -1 where it is not known (`client.?`).
    pub fn instance(&self) -> Option<EntityName> {
        let num = if self.id == "?" { -1 } else { self.id.parse().ok()? };
        Some(EntityName { kind: self.kind, num })
    }
}

impl Encode for EntityId {
    fn encode(&self, e: &mut Encoder) {
        e.put(&u32::from(self.kind.number())).put(&self.id);
    }
}
impl Decode for EntityId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let kind: u32 = d.get()?;
        let kind = u8::try_from(kind)
            .map_err(|_| DecodeError::BadValue { what: "entity type", value: kind.into() })?;
        Ok(Self { kind: kind.into(), id: d.get()? })
    }
}
