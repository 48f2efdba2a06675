//! The Ceph release that a peer sees: the only place with feature words.

/// Bits of the feature word that encodings depend on (names of Ceph's ceph_features.h, incarnations included).
pub struct FeatureBits;

impl FeatureBits {
    /// A mask for a bit of the given incarnation: 1 needs the bit alone, 2 bit 57 too, 3 bits 57 and 28 too.
    const fn incarnation(bit: u32, incarnation: u32) -> u64 {
        let marks = match incarnation {
            1 => 0,
            2 => 1 << 57,
            _ => (1 << 57) | (1 << 28),
        };
        (1 << bit) | marks
    }

    pub const SERVER_JEWEL: u64 = Self::incarnation(57, 1);
    pub const SERVER_LUMINOUS: u64 = Self::incarnation(21, 2);
    pub const SERVER_MIMIC: u64 = Self::incarnation(28, 2);
    pub const SERVER_NAUTILUS: u64 = Self::incarnation(2, 3);
    pub const SERVER_OCTOPUS: u64 = Self::incarnation(16, 3);
    pub const SERVER_PACIFIC: u64 = Self::incarnation(20, 3);
    pub const SERVER_QUINCY: u64 = Self::incarnation(33, 3);
    /// SERVER_REEF. Pacific's word satisfies this mask too (a known trap): ask the profile, not the bit, when it
    /// decides what we write.
    pub const SERVER_REEF: u64 = Self::incarnation(31, 3);
    pub const SERVER_SQUID: u64 = Self::incarnation(49, 2);
    pub const SERVER_TENTACLE: u64 = Self::incarnation(50, 2);
    /// MSG_ADDR2.
    pub const MSG_ADDR2: u64 = 1 << 59;
    pub const OSDENC: u64 = 1 << 13;
    /// PGID64.
    pub const PGID64: u64 = 1 << 9;
    pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
    /// OS_PERF_STAT_NS. No release from 16.2 to 18.2 advertises it on the wire.
    pub const OS_PERF_STAT_NS: u64 = Self::incarnation(17, 3);
    pub const OSD_POOLRESEND: u64 = 1 << 43;
    pub const RESEND_ON_SPLIT: u64 = Self::incarnation(21, 2);
    pub const RADOS_BACKOFF: u64 = Self::incarnation(21, 2);
    /// Multi-step retry rules, in CRUSH maps since Squid.
    pub const CRUSH_MSR: u64 = Self::incarnation(38, 2);
    pub const STRETCH_MODE: u64 = Self::incarnation(32, 3);
    pub const RANGE_BLOCKLIST: u64 = Self::incarnation(34, 3);
}

/// A Ceph release's number (ceph_release_t), as in `require_osd_release`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Release(pub u8);

impl Release {
    /// The feature word with which every daemon writes the canonical OSDMap of a cluster whose `require_osd_release` is
    /// this one (Ceph's OSDMap::get_encoding_features); the checksums in increments are of that form.
    pub fn map_features(self) -> u64 {
        let since = |release, bit| if self >= release { 1u64 << bit } else { 0 };
        MAP_FEATURES_PACIFIC | since(Self::REEF, 31) | since(Self::TENTACLE, 50)
    }

    /// Luminous, 12.2.
    pub const LUMINOUS: Self = Self(12);
    /// Nautilus, 14.2.
    pub const NAUTILUS: Self = Self(14);
    /// Octopus, 15.2.
    pub const OCTOPUS: Self = Self(15);
    /// Pacific, 16.2.
    pub const PACIFIC: Self = Self(16);
    /// Reef, 18.2.
    pub const REEF: Self = Self(18);
    /// Squid, 19.2.
    pub const SQUID: Self = Self(19);
    /// Tentacle, 20.2.
    pub const TENTACLE: Self = Self(20);

    /// The release's name in lower case.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 21] = [
            "unknown",
            "argonaut",
            "bobtail",
            "cuttlefish",
            "dumpling",
            "emperor",
            "firefly",
            "giant",
            "hammer",
            "infernalis",
            "jewel",
            "kraken",
            "luminous",
            "mimic",
            "nautilus",
            "octopus",
            "pacific",
            "quincy",
            "reef",
            "squid",
            "tentacle",
        ];
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

/// A release as a value: what we advertise and the encoding versions that we write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    pub release: Release,
    /// The version that `ceph versions` and metadata show, `16.2.15`.
    pub version: &'static str,
    /// The features we advertise on connections.
    pub features_supported: u64,
    /// The features that canonical (file and map) encodings are written with, as Ceph's OSDMap names them in its
    /// increments: an OSD encodes the full map again with this very word and compares checksums.
    pub features_encode: u64,
    /// The client part of a full OSDMap.
    pub osdmap_client_version: u8,
    /// The osd part of a full OSDMap (without stretch mode and range blocklists).
    pub osdmap_osd_version: u8,
    /// The client part of an Incremental.
    pub incremental_client_version: u8,
    /// The osd part of an Incremental.
    pub incremental_osd_version: u8,
    /// pg_pool_t.
    pub pool_version: u8,
}

/// What the canonical OSDMap of a Pacific cluster is written with.
const MAP_FEATURES_PACIFIC: u64 = 0x0f00_0880_1021_2a04;
/// What 16.2 servers advertise on the wire.
const PACIFIC_FEATURES: u64 = 0x3f01_cfbd_fffd_ffff;
/// What 18.2 servers advertise on the wire.
const REEF_FEATURES: u64 = 0x3f01_cfbf_fffd_ffff;

impl Profile {
    /// Pacific: serves clients of 16, 18 and 20. The default.
    pub const PACIFIC: Self = Self {
        release: Release::PACIFIC,
        version: "16.2.15",
        features_supported: PACIFIC_FEATURES,
        features_encode: MAP_FEATURES_PACIFIC,
        osdmap_client_version: 9,
        osdmap_osd_version: 9,
        incremental_client_version: 8,
        incremental_osd_version: 9,
        pool_version: 29,
    };

    /// Reef: what a 20.2 monitor asks of an OSD at least.
    pub const REEF: Self = Self {
        release: Release::REEF,
        version: "18.2.7",
        features_supported: REEF_FEATURES,
        features_encode: MAP_FEATURES_PACIFIC | (1 << 31),
        osdmap_client_version: 10,
        osdmap_osd_version: 9,
        incremental_client_version: 9,
        incremental_osd_version: 9,
        pool_version: 30,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacifics_word_passes_for_pacific_and_by_the_known_trap_for_reef() {
        let word = Profile::PACIFIC.features_supported;
        for mask in [FeatureBits::SERVER_PACIFIC, FeatureBits::SERVER_REEF, FeatureBits::MSG_ADDR2] {
            assert_eq!(word & mask, mask, "{mask:#x}");
        }
        assert_eq!(word & (1 << 33), 0, "Quincy's bit is not Pacific's");
        assert_ne!(word & FeatureBits::OS_PERF_STAT_NS, FeatureBits::OS_PERF_STAT_NS);
    }
}
