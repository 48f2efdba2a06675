//! Whether a new epoch can be read by those who will get it. A map that its maker alone understands stops every OSD that
//! takes it, and the monitor itself at its next start: it is found here, before it is durable anywhere.

use encoding::{Decode, DecodeError};

use crate::{ApplyError, Incremental, OsdMap, Publication};

/// Why others could not follow to a new epoch: a mistake of who made it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnreadableMap {
    #[error("its encoded full map can't be read: {0}")]
    Full(DecodeError),
    #[error("its encoded full map says something else when it is read (from byte {at} on)")]
    FullDiffers { at: usize },
    #[error("its encoded increment can't be read: {0}")]
    Increment(DecodeError),
    #[error("its encoded increment says something else when it is read (from byte {at} on)")]
    IncrementDiffers { at: usize },
    #[error("its encoded increment does not apply to the map before it: {0}")]
    Apply(ApplyError),
    #[error("its encoded increment leads to another map (from byte {at} on)")]
    LeadsElsewhere { at: usize },
}

/// Where two encodings begin to differ.
fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    (a != b).then(|| a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_else(|| a.len().min(b.len())))
}

fn same(a: &[u8], b: &[u8], or: impl FnOnce(usize) -> UnreadableMap) -> Result<(), UnreadableMap> {
    difference(a, b).map_or(Ok(()), |at| Err(or(at)))
}

impl Publication {
    /// Reads both encodings as who gets them does, with their checksums, and takes the way from `previous` that OSDs take.
    pub fn check_readable(&self, previous: &OsdMap) -> Result<(), UnreadableMap> {
        let read = OsdMap::from_bytes(&self.full).map_err(UnreadableMap::Full)?;
        same(&self.full, &read.encode_full(), |at| UnreadableMap::FullDiffers { at })?;
        let increment = Incremental::from_bytes(&self.incremental).map_err(UnreadableMap::Increment)?;
        let again = increment.encode_for(self.map.require_osd_release);
        same(&self.incremental, &again, |at| UnreadableMap::IncrementDiffers { at })?;
        let mut next = previous.clone();
        let full = next.apply_checked(&increment).map_err(UnreadableMap::Apply)?;
        same(&self.full, &full, |at| UnreadableMap::LeadsElsewhere { at })
    }
}

#[cfg(test)]
mod tests {
    use types::{Epoch, Fsid, OsdId, Release, UTime};

    use super::*;
    use crate::{MapFlags, NewCluster, publish};

    const NOW: UTime = UTime { sec: 1_800_000_000, nsec: 0 };

    fn first() -> OsdMap {
        let cluster = NewCluster {
            fsid: Fsid([7; 16]),
            created: NOW,
            release: Release::PACIFIC,
            failure_domain: "osd".into(),
        };
        let first = cluster.first_increment().unwrap();
        let published = publish(&OsdMap::default(), first).unwrap();
        published.check_readable(&OsdMap::default()).unwrap();
        published.map
    }

    fn next(previous: &OsdMap) -> Publication {
        let mut increment = Incremental::new(previous.fsid, previous.epoch.next(), NOW);
        increment.new_max_osd = Some(3);
        increment.new_weight.insert(OsdId(1), OsdMap::WEIGHT_IN);
        increment.new_flags = Some(previous.flags | MapFlags::NOOUT);
        publish(previous, increment).unwrap()
    }

    #[test]
    fn a_map_that_reads_as_it_was_written_passes() {
        let previous = first();
        let published = next(&previous);
        assert_eq!(published.check_readable(&previous), Ok(()));
        assert_eq!(published.map.epoch, Epoch(2));
    }

    #[test]
    fn a_full_map_that_does_not_decode_is_found() {
        let previous = first();
        let mut increment = Incremental::new(previous.fsid, previous.epoch.next(), NOW);
        increment.new_flags = Some(MapFlags::NOOUT);
        // A table that is longer than the others: it can be encoded, and no reader takes it.
        let mut bad = previous.clone();
        bad.weights.push(0);
        let published = publish(&bad, increment).unwrap();
        let found = published.check_readable(&bad).unwrap_err();
        assert!(matches!(found, UnreadableMap::Full(DecodeError::BadValue { .. })), "{found:?}");
        assert!(found.to_string().contains("full map can't be read: OSDMap max_osd"), "{found}");
    }

    #[test]
    fn a_wrong_byte_of_either_encoding_is_found() {
        let previous = first();
        for damage in 0..2 {
            let mut published = next(&previous);
            let bytes = if damage == 0 { &mut published.full } else { &mut published.incremental };
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            let found = published.check_readable(&previous).unwrap_err();
            let checksum = |e: &DecodeError| matches!(e, DecodeError::Checksum { .. });
            match (damage, &found) {
                (0, UnreadableMap::Full(e)) | (1, UnreadableMap::Increment(e)) if checksum(e) => {}
                _ => panic!("{damage}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_full_map_that_reads_as_another_one_is_found() {
        let previous = first();
        let mut published = next(&previous);
        // A reader adds the flag that every release since Luminous has.
        let map = OsdMap { flags: 0, ..published.map.clone() };
        published.full = map.encode_full();
        let found = published.check_readable(&previous).unwrap_err();
        assert!(matches!(found, UnreadableMap::FullDiffers { .. }), "{found:?}");
    }

    #[test]
    fn an_increment_that_leads_elsewhere_is_found() {
        let previous = first();
        let mut published = next(&previous);
        let mut map = published.map.clone();
        map.pool_max += 1;
        published.full = map.encode_full();
        let found = published.check_readable(&previous).unwrap_err();
        assert!(matches!(found, UnreadableMap::LeadsElsewhere { .. }), "{found:?}");
        // The checksum in it is of another map.
        let mut published = next(&previous);
        let mut increment = Incremental::from_bytes(&published.incremental).unwrap();
        increment.full_crc ^= 1;
        published.incremental = increment.encode_for(Release::PACIFIC);
        let found = published.check_readable(&previous).unwrap_err();
        assert!(matches!(found, UnreadableMap::Apply(ApplyError::Checksum { .. })), "{found:?}");
    }
}
