//! Operations on attributes. A client's attribute `x` is stored as `_x`; other stored names are the PG's own.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use buffer::Rope;
use encoding::{Decoder, Encode, Encoder};
use types::{Errno, Name};

use crate::run::{Runner, StepError, StepResult, unasked};
use crate::{Fetched, Mutation, Need};

/// The arguments of the attribute operations; name and value are in the data, one after the other.
pub(crate) struct XattrArgs {
    pub name_len: u32,
    pub value_len: u32,
    pub cmp_op: u8,
    pub cmp_mode: u8,
}

/// CEPH_OSD_CMPXATTR_OP_*: whether `order` (of the request's value to the stored one) satisfies it.
pub fn compare(op: u8, order: Ordering) -> Result<bool, StepError> {
    match op {
        1 => Ok(order.is_eq()),
        2 => Ok(order.is_ne()),
        3 => Ok(order.is_gt()),
        4 => Ok(order.is_ge()),
        5 => Ok(order.is_lt()),
        6 => Ok(order.is_le()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Splits the store's name and the value off the data.
fn name_and_value<'a>(
    args: &XattrArgs,
    indata: &'a [u8],
    value: bool,
) -> Result<(Name, &'a [u8]), StepError> {
    let mut d = Decoder::new(indata);
    let bad = |_| StepError::from(Errno::EINVAL);
    let name = d.take(args.name_len as usize, "attribute name").map_err(bad)?;
    let value = if value { d.take(args.value_len as usize, "attribute value").map_err(bad)? } else { &[] };
    Ok((stored_name(name), value))
}

/// A client's attribute as the store names it.
pub(crate) fn stored_name(name: &[u8]) -> Name {
    let mut stored = Vec::with_capacity(name.len() + 1);
    stored.push(b'_');
    stored.extend_from_slice(name);
    stored.into()
}

/// A number in decimal at the start of an attribute; none at all is 0.
fn leading_number(text: &[u8]) -> Result<u64, StepError> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let number = std::str::from_utf8(&text[..digits]).ok().and_then(|s| s.parse().ok());
    number.ok_or(Errno::EINVAL.into())
}

impl Runner<'_> {
    pub fn get_xattr(&mut self, args: &XattrArgs, indata: &Rope) -> StepResult {
        self.delta.num_rd += 1;
        let (name, _) = name_and_value(args, &indata.to_piece(), false)?;
        let value = self.fetch_attr(name)?.ok_or(Errno::ENODATA)?;
        self.delta.read(value.len() as u64);
        self.delta.num_rd -= 1;
        self.data = value;
        Ok(Some(0))
    }

    /// The attributes of clients, by their names for them.
    pub fn client_attrs(&mut self) -> Result<BTreeMap<Name, Rope>, StepError> {
        let attrs = match self.fetch(Need::Attrs)? {
            Fetched::Attrs(attrs) => attrs,
            other => return Err(unasked(&other)),
        };
        let of_client = |(name, value): (Name, Rope)| match name.strip_prefix(b"_") {
            Some(short) if !short.is_empty() => Some((Name::from(short), value)),
            _ => None,
        };
        Ok(attrs.into_iter().filter_map(of_client).collect())
    }

    pub fn get_xattrs(&mut self) -> StepResult {
        let attrs = match self.client_attrs() {
            Err(StepError::Fail(code)) => {
                // Ceph returns no attributes beside the error.
                self.data = 0_u32.to_bytes(0).into();
                return Err(StepError::Fail(code));
            }
            attrs => attrs?,
        };
        let mut e = Encoder::new(0);
        e.put(&(attrs.len() as u32));
        attrs.iter().for_each(|(name, value)| {
            e.put(name).blob(&value.to_piece());
        });
        self.data = e.into_bytes().into();
        self.delta.read(self.data.len() as u64);
        Ok(Some(0))
    }

    /// 1 when the comparison holds, ECANCELED when it does not.
    pub fn compare_xattr(&mut self, args: &XattrArgs, indata: &Rope) -> StepResult {
        let indata = indata.to_piece();
        let (name, given) = name_and_value(args, &indata, args.cmp_mode == 1)?;
        let stored = self.fetch_attr(name)?.unwrap_or_default().to_piece();
        self.delta.read(stored.len() as u64);
        let order = match args.cmp_mode {
            1 => given.cmp(&stored),
            2 => {
                let mut d = Decoder::new(&indata);
                d.take(args.name_len as usize, "attribute name")
                    .map_err(|_| StepError::from(Errno::EINVAL))?;
                let given: u64 = Self::parse(&mut d)?;
                given.cmp(&leading_number(&stored)?)
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        match compare(args.cmp_op, order)? {
            true => Ok(Some(1)),
            false => Err(Errno::ECANCELED.into()),
        }
    }

    pub fn set_xattr(&mut self, args: &XattrArgs, indata: &Rope) -> StepResult {
        self.check_attr(u64::from(args.name_len), u64::from(args.value_len))?;
        let indata = indata.to_piece();
        let (name, value) = name_and_value(args, &indata, true)?;
        self.put_xattr(name, Rope::copy_from(value))
    }

    /// EFBIG and ENAMETOOLONG for more bytes than an attribute may have.
    fn check_attr(&self, name_len: u64, value_len: u64) -> Result<(), StepError> {
        let limits = self.ctx.limits;
        if limits.attr_size_max > 0 && value_len > limits.attr_size_max {
            return Err(Errno::EFBIG.into());
        }
        if name_len > limits.attr_name_len_max {
            return Err(Errno::ENAMETOOLONG.into());
        }
        Ok(())
    }

    /// Sets an attribute by the store's name.
    pub fn put_xattr(&mut self, stored: Name, value: Rope) -> StepResult {
        self.check_attr(stored.len() as u64 - 1, value.len() as u64)?;
        self.create_if_absent();
        self.mutations.push(Mutation::SetAttr(stored, value));
        self.delta.num_wr += 1;
        Ok(Some(0))
    }

    pub fn remove_xattr(&mut self, args: &XattrArgs, indata: &Rope) -> StepResult {
        let (name, _) = name_and_value(args, &indata.to_piece(), false)?;
        self.check_visible()?;
        self.mutations.push(Mutation::RemoveAttr(name));
        self.delta.num_wr += 1;
        Ok(Some(0))
    }
}
