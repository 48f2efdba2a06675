//! Listings of a placement group: the cursor that PGLS and PGNLS bring and the entries that they return.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{HObject, Name};

use super::{Op, OpCode};

/// The input of PGLS, PGNLS and their forms with a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListCursor {
    /// Only objects that pass this.
    pub filter: Option<ListFilter>,
    /// Where to go on: the first object to consider.
    pub cursor: HObject,
}

/// A filter on listings (Ceph's PGLSPlainFilter, the only one that is built in).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListFilter {
    /// The attribute.
    pub xattr: Name,
    /// The value that it must have.
    pub value: Name,
}

impl ListCursor {
    /// Reads a listing operation's input. A filter other than `plain` is a bad value: the caller's error, which Ceph
    /// answers with -EINVAL.
    pub fn decode(op: &Op) -> Result<Self, DecodeError> {
        let bytes = op.indata.to_piece();
        let mut d = Decoder::new(&bytes);
        let filter = match op.code {
            OpCode::PGLS_FILTER | OpCode::PGNLS_FILTER => Some(decode_filter(&mut d)?),
            _ => None,
        };
        Ok(Self { filter, cursor: d.get()? })
    }

    /// The input of a listing operation without a filter.
    pub fn plain(cursor: &HObject) -> Rope {
        cursor.to_bytes(0).into()
    }
}

fn decode_filter(d: &mut Decoder<'_>) -> Result<ListFilter, DecodeError> {
    // Class and method, which are no longer used.
    let (_, _): (Name, Name) = (d.get()?, d.get()?);
    let kind: Name = d.get()?;
    match kind.as_bytes() {
        b"plain" => Ok(ListFilter { xattr: d.get()?, value: d.get()? }),
        other => Err(DecodeError::BadValue { what: "listing filter", value: other.len() as u64 }),
    }
}

/// An object in a listing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListEntry {
    /// The namespace.
    pub nspace: Name,
    pub name: Name,
    /// The locator key; empty when the name places the object.
    pub key: Name,
}
crate::codec::fields!(ListEntry [nspace, name, key]);

/// Ceph's pg_nls_response_t: the output of PGNLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgNlsResponse {
    /// Where to go on.
    pub handle: HObject,
    /// The objects, in order.
    pub entries: Vec<ListEntry>,
}
crate::codec::fields!(PgNlsResponse "pg_nls_response_t" version 1, compat 1, [handle, entries]);

/// Ceph's pg_ls_response_t: the output of PGLS, for one namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgLsResponse {
    /// Where to go on.
    pub handle: HObject,
    /// Names and locator keys, in order.
    pub entries: Vec<(Name, Name)>,
}

impl Encode for PgLsResponse {
    fn encode(&self, e: &mut Encoder) {
        e.put(&1u8).put(&self.handle).put(&self.entries);
    }
}
impl Decode for PgLsResponse {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            1 => Ok(Self { handle: d.get()?, entries: d.get()? }),
            n => Err(DecodeError::BadValue { what: "pg_ls_response_t version", value: n.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpArgs;

    #[test]
    fn a_cursor_is_read_with_and_without_filter() {
        let op = Op::new(OpCode::PGNLS, OpArgs::none()).with_indata(ListCursor::plain(&HObject::min()));
        assert_eq!(ListCursor::decode(&op), Ok(ListCursor { filter: None, cursor: HObject::min() }));
        let mut e = Encoder::new(0);
        e.put("pg").put("filter").put("plain").put("_key").put("v").put(&HObject::max());
        let op = Op::new(OpCode::PGLS_FILTER, OpArgs::none()).with_indata(e.into_bytes());
        let filter = Some(ListFilter { xattr: "_key".into(), value: "v".into() });
        assert_eq!(ListCursor::decode(&op), Ok(ListCursor { filter, cursor: HObject::max() }));
        assert!(ListCursor::decode(&Op::new(OpCode::PGLS, OpArgs::none())).is_err());
    }
}
