//! Which of a shard's superblocks counts: the newest that can be read, of all places.

use blockdev::DeviceError;
use buffer::Piece;
use encoding::DecodeError;

use crate::layout::{Label, ShardLayout, Superblock, features};
use crate::open::OpenError;

/// What a shard's places of superblocks were found to hold.
pub struct Choice {
    pub newest: Superblock,
    /// The bytes of those that were written and can't be read.
    pub unread: Vec<u64>,
    /// The byte of one that may have been the newest: where it could be a second time, it can't be read either.
    pub lost: Option<u64>,
}

/// A place, and what was read there: a superblock's generation, or the device's error.
struct Place {
    at: u64,
    /// Whether even generations are written there (0) or odd ones (1).
    parity: u64,
    generation: Option<u64>,
    error: Option<DeviceError>,
}

/// Chooses among what was read of the places that [`ShardLayout::superblock_places`] has, in their order.
///
/// # Errors
/// There is no superblock of the shard; or the device can't read one that may be newer than all others.
pub fn choose(
    label: &Label,
    shard: u32,
    layout: &ShardLayout,
    read: &[Result<Piece, DeviceError>],
) -> Result<Choice, OpenError> {
    let mut error = DecodeError::Truncated { what: "superblocks", needed: 1, left: 0 };
    let mut newest: Option<Superblock> = None;
    let mut places = Vec::new();
    for ((parity, at), read) in layout.superblock_places().zip(read) {
        let mut place = Place { at, parity, generation: None, error: read.as_ref().err().cloned() };
        match read.as_ref().map(|bytes| decode(label, shard, bytes)) {
            Ok(Ok(found)) => {
                place.generation = Some(found.generation);
                if newest.as_ref().is_none_or(|n| n.generation < found.generation) {
                    newest = Some(found);
                }
            }
            Ok(Err(other)) => error = other,
            Err(_) => {}
        }
        places.push(place);
    }
    let failed = || places.iter().find_map(|place| place.error.clone());
    let Some(newest) = newest else {
        return Err(failed().map_or(OpenError::NoSuperblock { shard, error }, OpenError::Device));
    };
    let unread = places.iter().filter(|place| place.generation.is_none());
    let may_be_newest = |place: &&Place| is_missed(&places, place.parity, newest.generation);
    // It may be read the next time, and a superblock would be written over it.
    if let Some(error) = unread.clone().filter(may_be_newest).find_map(|place| place.error.clone()) {
        return Err(OpenError::Device(error));
    }
    // The first opening writes the second one.
    let unread = unread.filter(|place| place.parity == 0 || newest.generation > 0);
    let lost = unread.clone().find(may_be_newest).map(|place| place.at);
    let unread = unread.map(|place| place.at).collect();
    Ok(Choice { newest, unread, lost })
}

/// Whether no place for the superblocks of this parity has the one before the newest, or the newest itself.
fn is_missed(places: &[Place], parity: u64, newest: u64) -> bool {
    let has = places.iter().filter(|place| place.parity == parity).filter_map(|place| place.generation);
    has.max().is_none_or(|generation| generation + 1 < newest)
}

/// # Errors
/// It is no superblock of this shard.
fn decode(label: &Label, shard: u32, bytes: &[u8]) -> Result<Superblock, DecodeError> {
    let found = Superblock::decode(bytes)?;
    if (found.store, found.shard) != (label.id, shard) {
        return Err(DecodeError::BadValue { what: "superblock of another store", value: found.store });
    }
    if found.features & features::SUPERBLOCK_COPIES != label.features() & features::SUPERBLOCK_COPIES {
        let what = "features of a superblock, which its store's label contradicts";
        return Err(DecodeError::BadValue { what, value: found.features });
    }
    Ok(found)
}
