//! An object's record: its size, and those of its parts that nearly every operation needs, while they are small.

use std::fmt;

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use store::AllocHint;

use crate::page::Key;
use crate::records::{Part, chunk_key, part_key};

/// A part of an object that lies in its onode while it is small: a small object is one key of the tree, and a write sets one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inline {
    /// The first record of the map of data.
    FirstChunk,
    /// The attribute with Ceph's object info, which every change of the object sets.
    Info,
    /// The attribute with Ceph's SnapSet.
    SnapSet,
}

impl Inline {
    pub const ALL: [Self; 3] = [Self::FirstChunk, Self::Info, Self::SnapSet];

    pub const ATTRS: [Self; 2] = [Self::Info, Self::SnapSet];

    pub fn of_chunk(number: u64) -> Option<Self> {
        (number == 0).then_some(Self::FirstChunk)
    }

    pub fn of_attr(name: &[u8]) -> Option<Self> {
        Self::ATTRS.into_iter().find(|part| part.attr_name() == Some(name))
    }

    /// The attribute's name, if it is one.
    pub fn attr_name(self) -> Option<&'static [u8]> {
        match self {
            Self::FirstChunk => None,
            Self::Info => Some(b"_"),
            Self::SnapSet => Some(b"snapset"),
        }
    }

    /// The longest value that lies in an onode, bytes. Who writes elsewhere in an object writes its onode, too: the map of a small
    /// object has its place there, and that of 256 KiB (267 bytes) has none.
    pub fn bytes_max(self) -> usize {
        match self {
            Self::FirstChunk => 64,
            Self::Info => 512,
            Self::SnapSet => 128,
        }
    }

    /// The key of its own that it has otherwise.
    pub fn key(self, number: u64) -> Key {
        match self.attr_name() {
            Some(name) => part_key(number, Part::Attr, name),
            None => chunk_key(number, 0),
        }
    }

    fn of_key(key: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.key(0).get(PART_AT..) == key.get(PART_AT..))
    }
}

impl fmt::Display for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstChunk => "first record of the map",
            Self::Info => "attribute _",
            Self::SnapSet => "attribute snapset",
        })
    }
}

/// Where in a key of an object's part its kind begins, behind the table and the number.
const PART_AT: usize = 9;

/// Where an inline part of an object is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Home {
    /// The object has no such part.
    #[default]
    Nowhere,
    /// In the onode.
    Here(Piece),
    /// Under its key, if anywhere. So are all parts of objects of builds that knew no others.
    Apart,
}

impl Home {
    fn code(&self) -> u8 {
        match self {
            Self::Nowhere => 0,
            Self::Here(_) => 1,
            Self::Apart => 2,
        }
    }
}

/// Parts of an object that have a key of their own: a bit for each of [`Inline::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnKeys(u8);

impl OwnKeys {
    pub fn note(&mut self, key: &[u8]) {
        self.0 |= Inline::of_key(key).map_or(0, |part| 1 << part as u8);
    }

    fn has(self, part: Inline) -> bool {
        self.0 & 1 << part as u8 != 0
    }
}

/// An object. Its other parts are found by numbers, so that a rename moves this record alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Onode {
    /// Never given twice.
    pub number: u64,
    /// The number under which its omap and the omap's header are: `number`, until a large omap is cleared.
    pub omap: u64,
    /// Bytes.
    pub size: u64,
    pub hint: Option<AllocHint>,
    /// Of [`Inline::ALL`].
    homes: [Home; 3],
    /// Whether keys of parts may belong to its numbers.
    has_keys: bool,
}

impl Onode {
    const HINT: u8 = 1;
    const OMAP: u8 = 2;
    const INLINE: u8 = 4;

    /// Beside the codes of homes.
    const HAS_KEYS: u8 = 1 << 6;

    /// One without any parts.
    pub fn new(number: u64) -> Self {
        Self { number, omap: number, ..Self::default() }
    }

    pub fn home(&self, part: Inline) -> &Home {
        &self.homes[part as usize]
    }

    pub fn set_home(&mut self, part: Inline, home: Home) {
        self.has_keys |= home == Home::Apart;
        self.homes[part as usize] = home;
    }

    /// Whether parts of it may have keys. A small object has none: what asks for one searches for nothing.
    pub fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// A part of it gets a key.
    pub fn note_key(&mut self) {
        self.has_keys = true;
    }

    /// What its number's keys and it contradict each other about, in words.
    pub fn contradiction(&self, own: OwnKeys) -> Option<String> {
        if !self.has_keys {
            return Some("has keys, and its onode says that it has none".to_owned());
        }
        let doubled = Inline::ALL.into_iter().find(|part| own.has(*part) && *self.home(*part) != Home::Apart);
        doubled.map(|part| format!("has a key of its {part}, which its onode contradicts"))
    }

    /// The number under which a part is.
    pub fn number_of(&self, part: Part) -> u64 {
        match part {
            Part::OmapHeader | Part::Omap => self.omap,
            Part::Attr | Part::Chunk => self.number,
        }
    }

    fn has_own_omap(&self) -> bool {
        self.omap != self.number
    }

    fn has_inline(&self) -> bool {
        self.homes.iter().any(|home| *home != Home::Apart)
    }

    /// Bytes of its encoding.
    fn encoded_bytes(&self) -> usize {
        let (hint, omap) = (usize::from(self.hint.is_some()), usize::from(self.has_own_omap()));
        let here =
            self.homes.iter().map(|home| if let Home::Here(value) = home { 2 + value.len() } else { 0 });
        17 + 20 * hint + 8 * omap + usize::from(self.has_inline()) + here.sum::<usize>()
    }

    pub fn encode(&self) -> Piece {
        let mut flags = if self.hint.is_some() { Self::HINT } else { 0 };
        if self.has_own_omap() {
            flags |= Self::OMAP;
        }
        if self.has_inline() {
            flags |= Self::INLINE;
        }
        let mut e = Encoder::with_capacity(0, self.encoded_bytes());
        e.put(&flags).put(&self.number).put(&self.size);
        if let Some(hint) = self.hint {
            e.put(&hint.object_size).put(&hint.write_size).put(&hint.flags);
        }
        if self.has_own_omap() {
            e.put(&self.omap);
        }
        if self.has_inline() {
            let codes = self.homes.iter().enumerate();
            let has_keys = if self.has_keys { Self::HAS_KEYS } else { 0 };
            e.put(&codes.fold(has_keys, |all, (at, home)| all | home.code() << (2 * at)));
            for home in &self.homes {
                if let Home::Here(value) = home {
                    e.put(&(value.len() as u16)).raw(value);
                }
            }
        }
        e.into_bytes().into()
    }

    /// # Errors
    /// The bytes are no onode, or one with something that this build does not know.
    pub fn decode(bytes: &Piece) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let flags: u8 = d.get()?;
        if flags & !(Self::HINT | Self::OMAP | Self::INLINE) != 0 {
            return Err(DecodeError::BadValue { what: "flags of an onode", value: flags.into() });
        }
        let (number, size) = (d.get()?, d.get()?);
        let hint = match flags & Self::HINT {
            0 => None,
            _ => Some(AllocHint { object_size: d.get()?, write_size: d.get()?, flags: d.get()? }),
        };
        let omap = if flags & Self::OMAP == 0 { number } else { d.get()? };
        let (has_keys, homes) = match flags & Self::INLINE {
            0 => (true, [Home::Apart, Home::Apart, Home::Apart]),
            _ => Self::homes(bytes, &mut d)?,
        };
        d.finish()?;
        Ok(Self { number, omap, size, hint, homes, has_keys })
    }

    fn homes(bytes: &Piece, d: &mut Decoder<'_>) -> Result<(bool, [Home; 3]), DecodeError> {
        let codes: u8 = d.get()?;
        let bad = || DecodeError::BadValue { what: "inline parts of an onode", value: codes.into() };
        let mut homes = [Home::Nowhere, Home::Nowhere, Home::Nowhere];
        for (part, home) in Inline::ALL.into_iter().zip(&mut homes) {
            *home = match codes >> (2 * part as u8) & 3 {
                0 => Home::Nowhere,
                1 => {
                    let len = usize::from(d.get::<u16>()?);
                    let start = d.position();
                    d.take(len, "inline part of an onode")?;
                    if len > part.bytes_max() {
                        return Err(bad());
                    }
                    Home::Here(bytes.slice(start..start + len))
                }
                2 => Home::Apart,
                _ => return Err(bad()),
            };
        }
        let has_keys = codes & Self::HAS_KEYS != 0;
        let apart = homes.iter().filter(|home| **home == Home::Apart).count();
        // An onode has one encoding.
        match codes & 1 << 7 == 0 && apart < homes.len() && (has_keys || apart == 0) {
            true => Ok((has_keys, homes)),
            false => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::table;

    fn all_homes() -> impl Iterator<Item = [Home; 3]> {
        let home = |n: usize| match n % 3 {
            0 => Home::Nowhere,
            1 => Home::Here(Piece::copy_from(&[5; 31])),
            _ => Home::Apart,
        };
        (0..27).map(move |n| [home(n), home(n / 3), home(n / 9)])
    }

    #[test]
    fn onodes_come_back_and_take_the_bytes_that_they_say() {
        let hint = Some(AllocHint { object_size: 1, write_size: 2, flags: 3 });
        for homes in all_homes() {
            for (omap, hint) in [(7, hint), (7, None), (9, hint), (9, None)] {
                for has_keys in [homes.contains(&Home::Apart), true] {
                    let onode = Onode { number: 7, omap, size: 9, hint, homes: homes.clone(), has_keys };
                    let bytes = onode.encode();
                    assert_eq!(Onode::decode(&bytes).as_ref(), Ok(&onode));
                    assert_eq!(bytes.len(), onode.encoded_bytes());
                }
            }
        }
    }

    #[test]
    fn an_onode_of_a_build_without_inline_parts_is_as_that_build_writes_it() {
        let bytes = Piece::copy_from(&[0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let onode = Onode::decode(&bytes).expect("an onode");
        assert!(onode.has_keys() && Inline::ALL.into_iter().all(|part| *onode.home(part) == Home::Apart));
        assert_eq!(onode.encode()[..], bytes[..]);
    }

    #[test]
    fn an_onode_has_one_encoding() {
        let onode = |codes: u8, rest: &[u8]| {
            let mut bytes = vec![Onode::INLINE];
            bytes.extend([0; 16]);
            bytes.push(codes);
            bytes.extend(rest);
            Onode::decode(&bytes.into())
        };
        assert!(onode(0, &[]).is_ok() && onode(1, &[2, 0, 8, 8]).is_ok());
        // All apart, one apart without keys, an unknown home, an unknown bit, too long a part, and parts that are cut off.
        assert!(
            onode(0b110_1010, &[]).is_err() && onode(0b100_1010, &[]).is_ok() && onode(0b1010, &[]).is_err()
        );
        assert!(onode(3, &[]).is_err() && onode(128, &[]).is_err());
        let mut long = vec![65, 0];
        long.extend([0; 65]);
        assert!(onode(1, &long).is_err() && onode(1, &[2, 0, 8]).is_err() && onode(1, &[2]).is_err());
    }

    #[test]
    fn a_part_with_a_key_of_its_own_is_found_beside_one_in_the_onode() {
        for part in Inline::ALL {
            let mut own = OwnKeys::default();
            own.note(&part_key(8, Part::Attr, b"_other"));
            own.note(&chunk_key(8, 1));
            own.note(&part_key(8, Part::Omap, b"_"));
            let mut onode = Onode::new(8);
            assert!(
                part.key(8)[0] == table::NUMBERED && onode.contradiction(own).is_some(),
                "it has no keys"
            );
            onode.note_key();
            assert_eq!(onode.contradiction(own), None);
            own.note(&part.key(8));
            assert!(onode.contradiction(own).is_some_and(|what| what.contains(&part.to_string())));
            onode.set_home(part, Home::Apart);
            assert_eq!(onode.contradiction(own), None);
        }
    }
}
