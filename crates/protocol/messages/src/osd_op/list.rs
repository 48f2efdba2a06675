//! Listings of a placement group: the cursor that PGLS and PGNLS bring and the entries that they return.

use core::convert::Infallible;

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Errno, HObject, Name};

use super::{Op, OpCode};

/// The input of PGLS, PGNLS and their forms with a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListCursor<F = Infallible> {
    /// Only objects that pass this.
    pub filter: Option<F>,
    /// Where to go on: the first object to consider.
    pub cursor: HObject,
}

impl<F> ListCursor<F> {
    /// Reads a listing operation's input. `filter` reads the arguments of a filter of the type that it is given.
    ///
    /// # Errors
    /// EINVAL for input that ends too early; those of `filter`.
    pub fn decode(
        op: &Op,
        filter: impl FnOnce(&Name, &mut Decoder<'_>) -> Result<F, Errno>,
    ) -> Result<Self, Errno> {
        let bytes = op.indata.to_piece();
        let mut d = Decoder::new(&bytes);
        let name = |d: &mut Decoder<'_>| d.get::<Name>().map_err(|_| Errno::EINVAL);
        let filter = match op.code {
            OpCode::PGLS_FILTER | OpCode::PGNLS_FILTER => {
                // A class and a method that are no longer used.
                name(&mut d)?;
                name(&mut d)?;
                let kind = name(&mut d)?;
                Some(filter(&kind, &mut d)?)
            }
            _ => None,
        };
        Ok(Self { filter, cursor: d.get().map_err(|_| Errno::EINVAL)? })
    }
}

impl ListCursor {
    /// The input of a listing operation without a filter.
    pub fn plain(cursor: &HObject) -> Rope {
        cursor.to_bytes(0).into()
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
        let read = |kind: &Name, d: &mut Decoder<'_>| {
            d.get::<Name>().map(|value| (kind.clone(), value)).map_err(|_| Errno::EIO)
        };
        let op = Op::new(OpCode::PGNLS, OpArgs::none()).with_indata(ListCursor::plain(&HObject::min()));
        assert_eq!(ListCursor::decode(&op, read), Ok(ListCursor { filter: None, cursor: HObject::min() }));
        let mut e = Encoder::new(0);
        e.put("pg").put("filter").put("plain").put("_key").put(&HObject::max());
        let op = Op::new(OpCode::PGLS_FILTER, OpArgs::none()).with_indata(e.into_bytes());
        let filter = Some(("plain".into(), "_key".into()));
        assert_eq!(ListCursor::decode(&op, read), Ok(ListCursor { filter, cursor: HObject::max() }));
        let nothing = Op::new(OpCode::PGLS, OpArgs::none());
        assert_eq!(ListCursor::decode(&nothing, read), Err(Errno::EINVAL));
    }
}
