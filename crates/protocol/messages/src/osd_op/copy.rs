//! COPY_GET's cursor and answer: what an OSD that copies an object reads of it, a part at a time.

use std::collections::BTreeMap;

use buffer::{Piece, Rope};
use encoding::{DecodeError, Decoder, Encoder};
use types::{Name, ReqId, SnapId, UTime};

/// How far a copy has come (Ceph's object_copy_cursor_t).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CopyCursor {
    pub attr_complete: bool,
    /// Bytes of data that were read.
    pub data_offset: u64,
    pub data_complete: bool,
    /// The last omap key that was read.
    pub omap_offset: Name,
    pub omap_complete: bool,
}
crate::codec::fields!(CopyCursor "object_copy_cursor_t" version 1, compat 1,
    [attr_complete, data_offset, data_complete, omap_offset, omap_complete]);

impl CopyCursor {
    /// Whether everything was read.
    pub fn is_complete(&self) -> bool {
        self.attr_complete && self.data_complete && self.omap_complete
    }
}

/// A part of an object (Ceph's object_copy_data_t). The request ids that Ceph sends with the last part are for cache
/// tiers: they are read and not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyData {
    /// Where the next part begins.
    pub cursor: CopyCursor,
    /// Bytes of the whole object.
    pub size: u64,
    pub mtime: UTime,
    /// crc32c of the whole data from -1, where the object has it.
    pub data_digest: Option<u32>,
    /// crc32c of the omap's header and of its encoded pairs, where the object has it.
    pub omap_digest: Option<u32>,
    /// Clients' attributes by their names for them. In the first part only.
    pub attrs: BTreeMap<Name, Rope>,
    pub data: Rope,
    pub omap_header: Rope,
    /// A map of keys and values, encoded; empty where this part has none.
    pub omap_data: Rope,
    /// The snapshots that a clone preserves.
    pub snaps: Vec<SnapId>,
    /// The newest snapshot that a head has seen.
    pub snap_seq: u64,
    pub truncate_seq: u64,
    pub truncate_size: u64,
}

/// object_copy_data_t::FLAG_DATA_DIGEST.
const DATA_DIGEST: u32 = 1;
/// object_copy_data_t::FLAG_OMAP_DIGEST.
const OMAP_DIGEST: u32 = 2;
/// Bytes of version, compat and length before the fields.
const ENVELOPE: usize = 6;

impl CopyData {
    /// The encoding. The data's pieces are shared, not copied.
    pub fn to_rope(&self) -> Rope {
        let mut front = Encoder::new(0);
        front.put(&8u8).put(&5u8).put(&0u32).put(&self.size).put(&self.mtime);
        front.put(&(self.attrs.len() as u32));
        for (name, value) in &self.attrs {
            front.put(name).blob(&value.to_piece());
        }
        front.put(&(self.data.len() as u32));
        let mut back = Encoder::new(0);
        back.blob(&self.omap_data.to_piece()).put(&self.cursor).blob(&self.omap_header.to_piece());
        let flag = |digest: Option<u32>, flag| digest.map_or(0, |_| flag);
        let flags = flag(self.data_digest, DATA_DIGEST) | flag(self.omap_digest, OMAP_DIGEST);
        back.put(&self.snaps).put(&self.snap_seq).put(&flags);
        back.put(&self.data_digest.unwrap_or(u32::MAX)).put(&self.omap_digest.unwrap_or(u32::MAX));
        back.put(&Vec::<(ReqId, u64)>::new()).put(&self.truncate_seq).put(&self.truncate_size);
        back.put(&BTreeMap::<u32, i32>::new());
        let fields = front.len() - ENVELOPE + self.data.len() + back.len();
        front.patch_u32(ENVELOPE - 4, fields as u32);
        let mut all = Rope::from(front.into_bytes());
        all.append(self.data.clone());
        all.append(back.into_bytes().into());
        all
    }

    /// Reads the encoding. What is read shares `bytes`.
    ///
    /// # Errors
    /// Bytes that are no such encoding, or are of a release before Octopus.
    pub fn from_piece(bytes: &Piece) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        // A decoder of the fields counts from their begin, which is behind the envelope.
        let shared = |d: &mut Decoder<'_>, what| {
            let value = d.blob(what)?;
            let end = ENVELOPE + d.position();
            Ok::<Rope, DecodeError>(bytes.slice(end - value.len()..end).into())
        };
        d.versioned(8, "object_copy_data_t", |d, v| {
            if v < 8 {
                return Err(DecodeError::TooOld { what: "object_copy_data_t", version: v });
            }
            let (size, mtime) = (d.get()?, d.get()?);
            let count = d.count(8, "attributes")?;
            let mut attrs = BTreeMap::new();
            for _ in 0..count {
                attrs.insert(d.get()?, shared(d, "attribute")?);
            }
            let (data, omap_data) = (shared(d, "data")?, shared(d, "omap data")?);
            let (cursor, omap_header) = (d.get()?, shared(d, "omap header")?);
            let (snaps, snap_seq, flags) = (d.get()?, d.get()?, d.get::<u32>()?);
            let (data_digest, omap_digest) = (d.get::<u32>()?, d.get::<u32>()?);
            d.get::<Vec<(ReqId, u64)>>()?;
            let (truncate_seq, truncate_size) = (d.get()?, d.get()?);
            d.get::<BTreeMap<u32, i32>>()?;
            Ok(Self {
                cursor,
                size,
                mtime,
                data_digest: (flags & DATA_DIGEST != 0).then_some(data_digest),
                omap_digest: (flags & OMAP_DIGEST != 0).then_some(omap_digest),
                attrs,
                data,
                omap_header,
                omap_data,
                snaps,
                snap_seq,
                truncate_seq,
                truncate_size,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use encoding::{Decode, Encode};

    use super::*;

    fn part() -> CopyData {
        CopyData {
            cursor: CopyCursor { attr_complete: true, data_offset: 4, ..CopyCursor::default() },
            size: 10,
            mtime: UTime { sec: 3, nsec: 4 },
            data_digest: Some(7),
            omap_digest: None,
            attrs: [("a".into(), Rope::copy_from(b"1")), ("bc".into(), Rope::new())].into(),
            data: Rope::copy_from(b"data"),
            omap_header: Rope::copy_from(b"head"),
            omap_data: Rope::copy_from(b"pairs"),
            snaps: vec![SnapId(4), SnapId(2)],
            snap_seq: 5,
            truncate_seq: 1,
            truncate_size: 2,
        }
    }

    #[test]
    fn a_part_is_read_as_it_was_written_and_its_data_is_not_copied() {
        let part = part();
        let encoded = part.to_rope();
        assert_eq!(encoded.pieces().len(), 3, "the data between what comes before and after it");
        assert_eq!(CopyData::from_piece(&encoded.to_piece()), Ok(part));
    }

    #[test]
    fn what_is_cut_anywhere_is_an_error() {
        let encoded = part().to_rope().to_vec();
        for len in 0..encoded.len() {
            assert!(CopyData::from_piece(&Piece::copy_from(&encoded[..len])).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_copy_is_complete_with_attributes_data_and_omap() {
        let all = CopyCursor {
            attr_complete: true,
            data_complete: true,
            omap_complete: true,
            ..CopyCursor::default()
        };
        assert!(all.is_complete() && !CopyCursor { omap_complete: false, ..all.clone() }.is_complete());
        assert_eq!(CopyCursor::from_bytes(&all.to_bytes(0)), Ok(all));
    }
}
