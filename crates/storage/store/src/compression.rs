//! How data are compressed: what the owner of a store asks for, and what an object's hint makes of it.

use crate::AllocHint;

/// When data are compressed, by Ceph's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompressionMode {
    /// Never.
    #[default]
    None,
    /// Where a hint says that it is worth it.
    Passive,
    /// Unless a hint says that it is not.
    Aggressive,
    /// Whatever the hint says.
    Force,
}

impl CompressionMode {
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "passive" => Some(Self::Passive),
            "aggressive" => Some(Self::Aggressive),
            "force" => Some(Self::Force),
            _ => None,
        }
    }
}

/// What compresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum CompressionAlgorithm {
    /// A block of LZ4, without a frame around it.
    #[default]
    Lz4,
    /// A frame of Zstandard.
    Zstd,
}

impl CompressionAlgorithm {
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Ceph's number (Compressor::CompressionAlgorithm).
    pub fn code(self) -> u8 {
        match self {
            Self::Zstd => 3,
            Self::Lz4 => 4,
        }
    }

    pub fn of_code(code: u8) -> Option<Self> {
        match code {
            3 => Some(Self::Zstd),
            4 => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// Bytes that depend on whether the device has to seek.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByMedium {
    pub hdd: u64,
    pub ssd: u64,
}

impl ByMedium {
    /// Those for a device that has to seek, or for one that has not.
    pub fn of(self, rotational: bool) -> u64 {
        if rotational { self.hdd } else { self.ssd }
    }
}

/// How data are compressed. Data are cut into blobs, and a blob is kept compressed where that pays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compression {
    pub mode: CompressionMode,
    pub algorithm: CompressionAlgorithm,
    pub zstd_level: i32,
    /// A blob is kept compressed if it takes at most this share of its bytes, in whole units of allocation.
    pub required_ratio: f64,
    /// Bytes of a blob of an object that may be read or written in parts.
    pub blob_bytes_min: ByMedium,
    /// Bytes of a blob of an object that is only read in sequence and never written over.
    pub blob_bytes_max: ByMedium,
}

impl Default for Compression {
    /// The defaults of Ceph's BlueStore, but for the algorithm.
    fn default() -> Self {
        Self {
            mode: CompressionMode::None,
            algorithm: CompressionAlgorithm::Lz4,
            zstd_level: 1,
            required_ratio: 0.875,
            blob_bytes_min: ByMedium { hdd: 8 << 10, ssd: 64 << 10 },
            blob_bytes_max: ByMedium { hdd: 64 << 10, ssd: 64 << 10 },
        }
    }
}

impl Compression {
    /// Whether data of an object with these hints are compressed.
    pub fn concerns(&self, hint: Option<AllocHint>) -> bool {
        let said = |flag| hint.is_some_and(|hint| hint.flags & flag != 0);
        match self.mode {
            CompressionMode::None => false,
            CompressionMode::Passive => said(AllocHint::COMPRESSIBLE),
            CompressionMode::Aggressive => !said(AllocHint::INCOMPRESSIBLE),
            CompressionMode::Force => true,
        }
    }

    /// Bytes of a blob of an object with these hints.
    pub fn blob_bytes(&self, rotational: bool, hint: Option<AllocHint>) -> u64 {
        let bytes = if hint.is_some_and(AllocHint::is_read_whole) {
            self.blob_bytes_max
        } else {
            self.blob_bytes_min
        };
        bytes.of(rotational)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(flags: u32) -> Option<AllocHint> {
        Some(AllocHint { flags, ..AllocHint::default() })
    }

    #[test]
    fn hints_count_as_the_mode_says() {
        use CompressionMode::{Aggressive, Force, None as Never, Passive};
        let none = None;
        let (good, bad) = (hint(AllocHint::COMPRESSIBLE), hint(AllocHint::INCOMPRESSIBLE));
        for (mode, want) in [
            (Never, [false, false, false]),
            (Passive, [false, true, false]),
            (Aggressive, [true, true, false]),
            (Force, [true, true, true]),
        ] {
            let how = Compression { mode, ..Compression::default() };
            assert_eq!([none, good, bad].map(|hint| how.concerns(hint)), want, "{mode:?}");
        }
    }

    #[test]
    fn blobs_are_large_where_only_whole_objects_are_read() {
        let how = Compression {
            blob_bytes_min: ByMedium { hdd: 1, ssd: 2 },
            blob_bytes_max: ByMedium { hdd: 3, ssd: 4 },
            ..Compression::default()
        };
        let whole = AllocHint::SEQUENTIAL_READ | AllocHint::IMMUTABLE;
        for (flags, want) in [
            (whole, (3, 4)),
            (AllocHint::SEQUENTIAL_READ | AllocHint::APPEND_ONLY, (3, 4)),
            (AllocHint::SEQUENTIAL_READ, (1, 2)),
            (whole | AllocHint::RANDOM_WRITE, (1, 2)),
            (whole | AllocHint::RANDOM_READ, (1, 2)),
            (0, (1, 2)),
        ] {
            let found = (how.blob_bytes(true, hint(flags)), how.blob_bytes(false, hint(flags)));
            assert_eq!(found, want, "flags {flags}");
        }
        assert_eq!(how.blob_bytes(false, None), 2);
    }

    #[test]
    fn an_algorithm_has_cephs_number_and_name() {
        for (name, code) in [("lz4", 4), ("zstd", 3)] {
            let algorithm = CompressionAlgorithm::of_name(name);
            assert_eq!(algorithm.map(|a| (a.code(), a.name())), Some((code, name)));
            assert_eq!(CompressionAlgorithm::of_code(code), algorithm);
        }
        assert_eq!((CompressionAlgorithm::of_name("snappy"), CompressionAlgorithm::of_code(1)), (None, None));
    }
}
