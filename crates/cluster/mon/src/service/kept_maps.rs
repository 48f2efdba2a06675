//! The OSD maps that are kept: an increment for every epoch, the whole map for some, the others made again out of both.

use encoding::{Decode, DecodeError};
use maps::{ApplyError, OsdMap, Publication, is_kept_whole};

use crate::event::MonOpenError;
use crate::state::{Batch, State, StateKey, versions};

/// Increments by the epoch that they lead to.
const INCREMENTS: &str = "osdmap";
/// Whole maps by epoch. Of a state from before maps were left out it has every epoch.
const WHOLE: &str = "osdmap_full";

/// Epochs kept beyond those wanted before the oldest are trimmed together.
pub const TRIM_SLACK: u64 = 250;

/// Why a map cannot be had though it is among those kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeptMapError {
    #[error("the stored OSD map {epoch} does not decode: {source}")]
    Bad { epoch: u64, source: DecodeError },
    #[error("the OSD map {epoch} can't be made out of the stored map {whole}: {source}")]
    Unmade { epoch: u64, whole: u64, source: ApplyError },
    #[error("an increment between the stored OSD map {whole} and map {epoch} is missing")]
    Hole { epoch: u64, whole: u64 },
}

/// Puts a published epoch into a batch.
pub fn put(batch: &mut Batch, published: &Publication) {
    let epoch = u64::from(published.map.epoch.0);
    batch.put(StateKey::version(INCREMENTS, epoch), published.incremental.clone());
    if is_kept_whole(published.map.epoch) {
        batch.put(StateKey::version(WHOLE, epoch), published.full.clone());
    }
}

/// The newest committed map, decoded and encoded. The whole map that it begins with and the last increment each carry a
/// checksum.
pub fn open(state: &State) -> Result<(OsdMap, Vec<u8>), MonOpenError> {
    let newest = last_committed(state);
    let found = map(state, newest).map_err(|e| MonOpenError::Wrong(e.to_string()))?;
    let (map, full) = found.ok_or_else(|| MonOpenError::Missing("the OSD map".into()))?;
    match u64::from(map.epoch.0) == newest {
        true => Ok((map, full)),
        false => Err(MonOpenError::Wrong(format!("OSD map {newest} says it is {}", map.epoch))),
    }
}

/// The oldest epoch kept: a whole one. 0: there is none.
pub fn first_committed(state: &State) -> u64 {
    versions(state, WHOLE, 0).next().map_or(0, |(epoch, _)| epoch)
}

/// The newest epoch; 0: there is none.
pub fn last_committed(state: &State) -> u64 {
    let newest = |service| versions(state, service, 0).next_back().map_or(0, |(epoch, _)| epoch);
    newest(INCREMENTS).max(newest(WHOLE))
}

/// A map of those kept, decoded and encoded: made again if it is not stored whole. `None`: it is not kept (any more, or
/// yet).
pub fn map(state: &State, epoch: u64) -> Result<Option<(OsdMap, Vec<u8>)>, KeptMapError> {
    if epoch > last_committed(state) {
        return Ok(None);
    }
    let Some((whole, bytes)) = versions(state, WHOLE, 0).rfind(|(at, _)| *at <= epoch) else {
        return Ok(None);
    };
    let mut map = OsdMap::from_bytes(bytes).map_err(|source| KeptMapError::Bad { epoch: whole, source })?;
    let mut next = whole;
    let later = increments(state, whole + 1).take_while(|(at, _)| {
        next += 1;
        *at == next && next <= epoch
    });
    let applied = map.apply_all(later.map(|(_, bytes)| bytes)).map_err(|source| KeptMapError::Unmade {
        epoch,
        whole,
        source,
    })?;
    if u64::from(map.epoch.0) != epoch {
        return Err(KeptMapError::Hole { epoch, whole });
    }
    Ok(Some((map, applied.unwrap_or_else(|| bytes.to_vec()))))
}

/// The maps that are kept among those of some epochs, in order, encoded. Each is made of the one before where that was
/// asked for too.
pub fn fulls(
    state: &State,
    epochs: impl Iterator<Item = u64>,
) -> impl Iterator<Item = (u64, Result<Vec<u8>, KeptMapError>)> {
    let mut before: Option<OsdMap> = None;
    epochs.filter_map(move |epoch| {
        if let Some(bytes) = state.get(&StateKey::version(WHOLE, epoch)) {
            before = None;
            return Some((epoch, Ok(bytes.clone())));
        }
        let follows = before.take().filter(|map| u64::from(map.epoch.0) + 1 == epoch);
        let increment = state.get(&StateKey::version(INCREMENTS, epoch));
        let made = match (follows, increment) {
            (Some(mut map), Some(bytes)) => map
                .apply_all([bytes.as_slice()])
                .map(|full| full.map(|full| (map, full)))
                .map_err(|source| KeptMapError::Unmade { epoch, whole: epoch - 1, source }),
            _ => map(state, epoch),
        };
        match made.transpose()? {
            Ok((map, full)) => {
                before = Some(map);
                Some((epoch, Ok(full)))
            }
            Err(error) => Some((epoch, Err(error))),
        }
    })
}

/// Increments from an epoch on, encoded.
pub fn increments(state: &State, from: u64) -> impl Iterator<Item = (u64, &[u8])> {
    versions(state, INCREMENTS, from)
}

/// Deletes the oldest epochs beyond the `keep` newest, up to a whole one.
pub fn trim(state: &State, keep: u64, batch: &mut Batch) {
    let wanted = last_committed(state).saturating_sub(keep.max(1));
    let floor = maps::trim_bound(types::Epoch(wanted as u32)).0.into();
    for service in [INCREMENTS, WHOLE] {
        for (epoch, _) in versions(state, service, 0).take_while(|(epoch, _)| *epoch < floor) {
            batch.delete(StateKey::version(service, epoch));
        }
    }
}
