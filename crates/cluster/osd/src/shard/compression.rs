//! What a shard's store compresses: by the options, and by the settings of pools, which go before them.

use std::collections::BTreeMap;

use maps::{OsdMap, PoolOption, PoolOptionKey};
use store::{ByMedium, Compression, CompressionAlgorithm, CompressionMode, StoreShard};
use types::PoolId;

use crate::OsdEffect;
use crate::parts::Out;

/// What the store was told last. A store that was opened compresses nothing.
#[derive(Debug, Default)]
pub(super) struct Told {
    by_options: Compression,
    pools: BTreeMap<PoolId, Compression>,
}

impl Told {
    /// Tells the store what is different now.
    pub(super) fn tell(
        &mut self,
        shard: StoreShard,
        by_options: Compression,
        map: Option<&OsdMap>,
        out: &mut Out,
    ) {
        let mut say = |pool, how| out.push(OsdEffect::StoreCompression { shard, pool, how });
        if by_options != self.by_options {
            self.by_options = by_options;
            say(None, Some(by_options));
        }
        // Without a map nothing is known of pools.
        let Some(map) = map else { return };
        let of_pool = |(id, pool): (&PoolId, &maps::PgPool)| Some((*id, with_pool(by_options, &pool.opts)?));
        let wanted: BTreeMap<PoolId, Compression> = map.pools.iter().filter_map(of_pool).collect();
        for pool in self.pools.keys().filter(|pool| !wanted.contains_key(pool)) {
            say(Some(*pool), None);
        }
        for (pool, how) in wanted.iter().filter(|(pool, how)| self.pools.get(pool) != Some(how)) {
            say(Some(*pool), Some(*how));
        }
        self.pools = wanted;
    }
}

/// How a store that no OSD serves compresses what is written for a pool: by the pool's settings, with the options at their defaults.
/// `None`: as a store that was told nothing.
pub fn compression_of_pool(pool: &maps::PgPool) -> Option<Compression> {
    with_pool(Compression::default(), &pool.opts)
}

/// The options with a pool's own settings in their place; `None`: it has none. What the pool names and this build does not
/// know stays as the options have it: another monitor may have taken it.
fn with_pool(by_options: Compression, opts: &BTreeMap<i32, PoolOption>) -> Option<Compression> {
    let text = |key| match opts.get(&key) {
        Some(PoolOption::Str(text)) => Some(text.as_str()),
        _ => None,
    };
    let bytes = |key| match opts.get(&key) {
        Some(PoolOption::Int(bytes)) => u64::try_from(*bytes).ok().filter(|bytes| *bytes > 0),
        _ => None,
    };
    let mut how = by_options;
    if let Some(mode) = text(PoolOptionKey::COMPRESSION_MODE).and_then(CompressionMode::of_name) {
        how.mode = mode;
    }
    let algorithm = text(PoolOptionKey::COMPRESSION_ALGORITHM).and_then(CompressionAlgorithm::of_name);
    how.algorithm = algorithm.unwrap_or(how.algorithm);
    if let Some(PoolOption::Double(ratio)) = opts.get(&PoolOptionKey::COMPRESSION_REQUIRED_RATIO) {
        how.required_ratio = ratio.clamp(0.0, 1.0);
    }
    let both = |bytes| ByMedium { hdd: bytes, ssd: bytes };
    if let Some(bytes) = bytes(PoolOptionKey::COMPRESSION_MIN_BLOB_SIZE) {
        how.blob_bytes_min = both(bytes);
    }
    if let Some(bytes) = bytes(PoolOptionKey::COMPRESSION_MAX_BLOB_SIZE) {
        how.blob_bytes_max = both(bytes);
    }
    (how != by_options).then_some(how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pools_settings_go_before_the_options_and_what_is_unknown_does_not() {
        let by_options = Compression { mode: CompressionMode::Passive, ..Compression::default() };
        let with = |all: &[(i32, PoolOption)]| with_pool(by_options, &all.iter().cloned().collect());
        let text = |text: &str| PoolOption::Str(text.to_owned());
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[(PoolOptionKey::CSUM_TYPE, PoolOption::Int(3))]), None);
        assert_eq!(with(&[(PoolOptionKey::COMPRESSION_ALGORITHM, text("snappy"))]), None);
        assert_eq!(with(&[(PoolOptionKey::COMPRESSION_MIN_BLOB_SIZE, PoolOption::Int(-1))]), None);
        let found = with(&[
            (PoolOptionKey::COMPRESSION_MODE, text("force")),
            (PoolOptionKey::COMPRESSION_ALGORITHM, text("zstd")),
            (PoolOptionKey::COMPRESSION_REQUIRED_RATIO, PoolOption::Double(0.5)),
            (PoolOptionKey::COMPRESSION_MIN_BLOB_SIZE, PoolOption::Int(16384)),
            (PoolOptionKey::COMPRESSION_MAX_BLOB_SIZE, PoolOption::Int(131_072)),
        ]);
        let want = Compression {
            mode: CompressionMode::Force,
            algorithm: CompressionAlgorithm::Zstd,
            required_ratio: 0.5,
            blob_bytes_min: ByMedium { hdd: 16384, ssd: 16384 },
            blob_bytes_max: ByMedium { hdd: 131_072, ssd: 131_072 },
            ..by_options
        };
        assert_eq!(found, Some(want));
    }

    #[test]
    fn every_choice_of_the_options_is_known_to_the_store() {
        let choices = |name: &str| options::lookup(name).expect("an option").choices;
        let modes = choices("bluestore_compression_mode");
        assert!(modes.len() == 4 && modes.iter().all(|mode| CompressionMode::of_name(mode).is_some()));
        let algorithms = choices("bluestore_compression_algorithm");
        assert!(!algorithms.is_empty());
        assert!(algorithms.iter().all(|name| CompressionAlgorithm::of_name(name).is_some()));
    }

    #[test]
    fn the_options_defaults_are_the_stores() {
        assert_eq!(crate::config::compression(&options::Values::new()), Compression::default());
    }
}
