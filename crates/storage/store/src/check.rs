//! What is wrong with a step whatever a store holds: the same for every store.

use types::GHObject;

use crate::{CollectionId, OBJECT_BYTES_MAX, StoreError, TxOp};

impl TxOp {
    /// Sentinels as objects, ends out of range, senseless splits.
    ///
    /// # Errors
    /// The caller's fault.
    pub fn check(&self) -> Result<(), StoreError> {
        let names: [Option<&GHObject>; 2] = match self {
            Self::Clone { from, to, .. }
            | Self::CloneRange { from, to, .. }
            | Self::Rename { from, to, .. } => [Some(from), Some(to)],
            op => [op.object(), None],
        };
        if let Some(bad) = names.into_iter().flatten().find(|o| is_sentinel(o)) {
            return Err(StoreError::NotAnObject(Box::new(bad.clone())));
        }
        if let Some(end) = self.end().filter(|&end| end > OBJECT_BYTES_MAX) {
            return Err(StoreError::ObjectTooLarge { end, max: OBJECT_BYTES_MAX });
        }
        match self {
            Self::SplitCollection { collection, into, bits, .. }
            | Self::MergeCollection { collection, into, bits } => check_split(*collection, *into, *bits),
            _ => Ok(()),
        }
    }

    /// Whether a split by `bits` for `rem` takes an object of this hash.
    pub fn split_takes(bits: u32, rem: u32, hash: u32) -> bool {
        let mask = u32::MAX.checked_shr(32u32.saturating_sub(bits)).unwrap_or(0);
        hash & mask == rem & mask
    }
}

fn is_sentinel(object: &GHObject) -> bool {
    object.max || object.hobj.max || object.hobj.is_min()
}

fn check_split(from: CollectionId, into: CollectionId, bits: u32) -> Result<(), StoreError> {
    match from == into || from == CollectionId::Meta || into == CollectionId::Meta || bits > 32 {
        true => Err(StoreError::BadSplit { from, into, bits }),
        false => Ok(()),
    }
}
