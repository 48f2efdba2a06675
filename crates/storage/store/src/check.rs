//! What is wrong with a transaction whatever a store holds: the same for every store.

use types::GHObject;

use crate::{
    CHECKSUM_BLOCK, CollectionChange, CollectionId, INFO_BYTES_MAX, OBJECT_BYTES_MAX, ObjectChange,
    ObjectRef, Step, StoreError, Transaction,
};

impl Transaction {
    /// Sentinels as objects, pairs of two pools, ends out of range, senseless splits, infos and checksums that don't fit.
    ///
    /// # Errors
    /// The first step's that is wrong; the caller's fault.
    pub fn check(&self) -> Result<(), StoreError> {
        self.steps.iter().try_for_each(|step| self.check_step(step))
    }

    /// See [`Transaction::check`], for one of its steps.
    ///
    /// # Errors
    /// The caller's fault.
    pub fn check_step(&self, step: &Step) -> Result<(), StoreError> {
        for object in step.references().into_iter().flatten() {
            let (_, name) = self.object(object);
            if is_sentinel(name) {
                return Err(StoreError::NotAnObject(Box::new(name.clone())));
            }
        }
        match step {
            Step::Object { change, .. } => {
                check_end(change.end())?;
                check_checksums(change)
            }
            Step::Clone { from, to } | Step::Rename { from, to } => self.check_pools(*from, *to),
            Step::CloneRange { from, to, to_offset, len, from_offset } => {
                self.check_pools(*from, *to)?;
                check_end(Some(from_offset.saturating_add(*len)))?;
                check_end(Some(to_offset.saturating_add(*len)))
            }
            Step::SetInfo { info, .. } if info.len() > INFO_BYTES_MAX => {
                Err(StoreError::InfoTooLarge { bytes: info.len() })
            }
            Step::Collection { collection, change } => check_collection(*collection, change),
            Step::SetInfo { .. } | Step::Log { .. } => Ok(()),
        }
    }

    fn check_pools(&self, from: ObjectRef, to: ObjectRef) -> Result<(), StoreError> {
        let ((from, _), (to, _)) = (self.object(from), self.object(to));
        match from.pool() == to.pool() {
            true => Ok(()),
            false => Err(StoreError::AcrossPools { from, to }),
        }
    }
}

/// Whether a split by `bits` for `rem` takes an object of this hash.
pub fn split_takes(bits: u32, rem: u32, hash: u32) -> bool {
    let mask = u32::MAX.checked_shr(32u32.saturating_sub(bits)).unwrap_or(0);
    hash & mask == rem & mask
}

fn is_sentinel(object: &GHObject) -> bool {
    object.max || object.hobj.max || object.hobj.is_min()
}

fn check_end(end: Option<u64>) -> Result<(), StoreError> {
    match end.filter(|&end| end > OBJECT_BYTES_MAX) {
        Some(end) => Err(StoreError::ObjectTooLarge { end, max: OBJECT_BYTES_MAX }),
        None => Ok(()),
    }
}

fn check_checksums(change: &ObjectChange) -> Result<(), StoreError> {
    let ObjectChange::Write { offset, data, checksums: Some(checksums), .. } = change else { return Ok(()) };
    let fits = offset % CHECKSUM_BLOCK as u64 == 0 && data.len() == checksums.len() * CHECKSUM_BLOCK;
    if fits {
        return Ok(());
    }
    Err(StoreError::BadChecksums { offset: *offset, bytes: data.len(), checksums: checksums.len() })
}

fn check_collection(from: CollectionId, change: &CollectionChange) -> Result<(), StoreError> {
    let (into, bits) = match change {
        CollectionChange::Split { into, bits, .. } | CollectionChange::Merge { into, bits } => (*into, *bits),
        CollectionChange::Create { .. } | CollectionChange::Remove => return Ok(()),
    };
    let is_apart = from.pool() != into.pool() || [from, into].contains(&CollectionId::Meta);
    if from == into || is_apart || bits > 32 {
        return Err(StoreError::BadSplit { from, into, bits });
    }
    Ok(())
}
