//! `debug_SUBSYSTEM`: Ceph's log levels, an option for each part of its programs.
//!
//! There is one log here, so the highest of them sets the level of all, at the start of the process.

use crate::ValueError;

/// The levels of Ceph's subsystems, of all releases that we speak with; sorted.
static NAMES: &[&str] = &[
    "debug_alienstore",
    "debug_asok",
    "debug_auth",
    "debug_bdev",
    "debug_bluefs",
    "debug_bluestore",
    "debug_bluestore_compression",
    "debug_buffer",
    "debug_ceph_dedup",
    "debug_ceph_exporter",
    "debug_cephfs_mirror",
    "debug_cephsqlite",
    "debug_civetweb",
    "debug_client",
    "debug_compressor",
    "debug_context",
    "debug_crimson_interrupt",
    "debug_crush",
    "debug_crypto",
    "debug_cyanstore",
    "debug_dpdk",
    "debug_eventtrace",
    "debug_filer",
    "debug_filestore",
    "debug_finisher",
    "debug_fuse",
    "debug_heartbeatmap",
    "debug_immutable_obj_cache",
    "debug_javaclient",
    "debug_journal",
    "debug_journaler",
    "debug_kstore",
    "debug_leveldb",
    "debug_lockdep",
    "debug_mclock",
    "debug_mds",
    "debug_mds_balancer",
    "debug_mds_locker",
    "debug_mds_log",
    "debug_mds_log_expire",
    "debug_mds_migrator",
    "debug_mds_quiesce",
    "debug_memdb",
    "debug_memstore",
    "debug_mgr",
    "debug_mgrc",
    "debug_mon",
    "debug_monc",
    "debug_ms",
    "debug_none",
    "debug_objclass",
    "debug_objectcacher",
    "debug_objecter",
    "debug_optracker",
    "debug_osd",
    "debug_paxos",
    "debug_perfcounter",
    "debug_prioritycache",
    "debug_rados",
    "debug_rbd",
    "debug_rbd_mirror",
    "debug_rbd_pwl",
    "debug_rbd_replay",
    "debug_refs",
    "debug_reserver",
    "debug_rgw",
    "debug_rgw_access",
    "debug_rgw_bucket_logging",
    "debug_rgw_datacache",
    "debug_rgw_dbstore",
    "debug_rgw_dedup",
    "debug_rgw_flight",
    "debug_rgw_lifecycle",
    "debug_rgw_notification",
    "debug_rgw_restore",
    "debug_rgw_sync",
    "debug_rocksdb",
    "debug_seastore",
    "debug_seastore_backref",
    "debug_seastore_cache",
    "debug_seastore_cleaner",
    "debug_seastore_device",
    "debug_seastore_epm",
    "debug_seastore_fixedkv_tree",
    "debug_seastore_journal",
    "debug_seastore_lba",
    "debug_seastore_odata",
    "debug_seastore_omap",
    "debug_seastore_onode",
    "debug_seastore_t",
    "debug_seastore_tm",
    "debug_striper",
    "debug_test",
    "debug_throttle",
    "debug_timer",
    "debug_tp",
    "debug_trace",
];

/// The highest level that Ceph takes.
const LEVEL_MAX: u8 = 99;

/// Whether a normalized name is the log level of one of Ceph's subsystems.
pub fn is_log_level(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// The names of all log levels.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied()
}

/// Reads `N` or `N/M`: the level of the log, and that of what Ceph keeps in memory for a crash (N without one).
pub fn parse_log_level(text: &str) -> Option<(u8, u8)> {
    let number = |text: &str| text.trim().parse::<u8>().ok().filter(|n| *n <= LEVEL_MAX);
    match text.split_once('/') {
        Some((log, memory)) => Some((number(log)?, number(memory)?)),
        None => number(text).map(|n| (n, n)),
    }
}

/// The highest level among settings (names as they were given); `None` if there is none among them. A value that is not a
/// level is not counted.
pub fn highest_log_level<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<u8> {
    let levels = settings.into_iter().filter(|(name, _)| is_log_level(&crate::normalize(name)));
    // The log in memory, after the slash, is Ceph's.
    levels.filter_map(|(_, value)| Some(parse_log_level(value)?.0)).max()
}

/// A level as it is stored: `N/M`.
pub(crate) fn canonical(text: &str) -> Result<String, ValueError> {
    match parse_log_level(text) {
        Some((log, memory)) => Ok(format!("{log}/{memory}")),
        None => Err(ValueError::NotOfKind {
            text: text.into(),
            kind: "log level",
            example: "N or N/M, each 0 to 99, as 1 or 5/20",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted() {
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn a_level_is_one_or_two_numbers_up_to_99() {
        for (text, want) in
            [("20", "20/20"), ("0", "0/0"), ("5/20", "5/20"), (" 1 / 5 ", "1/5"), ("99/99", "99/99")]
        {
            assert_eq!(canonical(text), Ok(want.to_owned()), "{text}");
        }
        for text in ["", "foo", "100", "1/100", "-1", "1/", "/5", "1/2/3", "1.5"] {
            assert!(canonical(text).is_err(), "{text}");
        }
        assert!(is_log_level("debug_osd") && !is_log_level("debug_nonsense") && !is_log_level("osd"));
    }
}
