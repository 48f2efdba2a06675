//! Class `cmpomap`: compares values of an omap with given ones, and sets or removes those for which that holds.

use std::collections::BTreeMap;

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder};
use ops::{ClassContext, Method, ObjectClass, StepError, compare, decode_input};
use types::{Errno, Name};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "cmpomap",
    methods: &[
        Method::read("cmp_vals", cmp_vals),
        Method::read_write("cmp_set_vals", cmp_set_vals),
        Method::read_write("cmp_rm_keys", cmp_rm_keys),
    ],
};

/// What is compared how: `values` are the left sides, stored values the right ones.
struct Comparison {
    /// CEPH_OSD_CMPXATTR_MODE_*.
    mode: u8,
    /// CEPH_OSD_CMPXATTR_OP_*.
    op: u8,
    values: BTreeMap<Name, Name>,
}

impl Comparison {
    fn body(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { mode: d.get()?, op: d.get()?, values: d.get()? })
    }

    /// Fails with EINVAL where the comparison itself is not possible, EIO where `stored` is not a number and is
    /// compared as one.
    fn holds(&self, given: &[u8], stored: &[u8]) -> Result<bool, StepError> {
        const STRING: u8 = 1;
        const U64: u8 = 2;
        let order = match self.mode {
            STRING => given.cmp(stored),
            U64 => {
                let given = leading_u64(given).ok_or(Errno::EINVAL)?;
                // An empty value counts as 0.
                let stored = if stored.is_empty() { Some(0) } else { leading_u64(stored) };
                given.cmp(&stored.ok_or(Errno::EIO)?)
            }
            _ => return Err(Errno::EINVAL.into()),
        };
        compare(self.op, order)
    }

    /// As [`Comparison::holds`], but nothing holds for a stored value that is not a number.
    fn holds_for_change(&self, given: &[u8], stored: &[u8]) -> Result<bool, StepError> {
        match self.holds(given, stored) {
            Err(e) if e.is(Errno::EIO) => Ok(false),
            result => result,
        }
    }

    /// The stored values of the keys that are compared.
    fn stored(&self, ctx: &mut ClassContext<'_, '_>) -> Result<BTreeMap<Name, Rope>, StepError> {
        ctx.omap_values(self.values.keys().cloned().collect())
    }
}

fn leading_u64(bytes: &[u8]) -> Option<u64> {
    Decoder::new(bytes).get().ok()
}

/// Input of `cmp_rm_keys` (cmp_rm_keys_op).
struct RemoveOp(Comparison);

impl Decode for RemoveOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cmp_rm_keys_op", |d, _| Ok(Self(Comparison::body(d)?)))
    }
}

/// Input of `cmp_vals` and `cmp_set_vals` (cmp_vals_op, cmp_set_vals_op).
struct CompareOp {
    comparison: Comparison,
    /// Stands for the values of keys that there are not.
    default: Option<Name>,
}

impl Decode for CompareOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cmp_vals_op", |d, _| Ok(Self { comparison: Comparison::body(d)?, default: d.get()? }))
    }
}

impl CompareOp {
    /// The value to compare with; `None` if there is no such key and no default.
    fn right_side(&self, stored: &BTreeMap<Name, Rope>, key: &Name) -> Option<Vec<u8>> {
        let default = || self.default.as_ref().map(|value| value.to_vec());
        stored.get(key).map(Rope::to_vec).or_else(default)
    }
}

/// Fails with ECANCELED unless all comparisons hold.
fn cmp_vals(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: CompareOp = decode_input(input)?;
    let stored = op.comparison.stored(ctx)?;
    for (key, given) in &op.comparison.values {
        let right = op.right_side(&stored, key).ok_or(Errno::ECANCELED)?;
        if !op.comparison.holds(given, &right)? {
            return Err(Errno::ECANCELED.into());
        }
    }
    Ok(0)
}

/// Stores the given values for which the comparison holds.
fn cmp_set_vals(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: CompareOp = decode_input(input)?;
    let stored = op.comparison.stored(ctx)?;
    let mut pairs = Vec::new();
    for (key, given) in &op.comparison.values {
        let Some(right) = op.right_side(&stored, key) else { continue };
        if op.comparison.holds_for_change(given, &right)? {
            pairs.push((key.clone(), Rope::copy_from(given)));
        }
    }
    if !pairs.is_empty() {
        ctx.omap_set_all(pairs)?;
    }
    Ok(0)
}

/// Removes the keys for whose values the comparison holds.
fn cmp_rm_keys(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let RemoveOp(comparison) = decode_input(input)?;
    let stored = comparison.stored(ctx)?;
    for (key, right) in stored {
        if let Some(given) = comparison.values.get(&key)
            && comparison.holds_for_change(given, &right.to_vec())?
        {
            ctx.omap_remove(key)?;
        }
    }
    Ok(0)
}
