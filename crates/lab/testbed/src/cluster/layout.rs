//! What a Ceph cluster's ceph.conf has for its places, stores, sizes and ports. Pure.

use std::path::PathBuf;

use study::{CephStore, Setting, System};

use crate::conf::Conf;
use crate::place::space::Sizes;
use crate::ports::Ports;
use crate::work_dir::Paths;

/// PGs an OSD may have on every system: far beyond any study's.
const MAX_PG_PER_OSD: &str = "100000";

/// PGs that a pool may begin with.
const MAX_INITIAL_PGS: &str = "65536";

/// Ceph's own default of `osd_memory_target`, and the smallest that it takes.
const MEMORY_TARGET: u64 = 4 << 30;
const MEMORY_TARGET_MIN: u64 = 896 << 20;

/// What a ceph.conf is made from.
pub(crate) struct Layout<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) system: &'a System,
    pub(crate) store: CephStore,
    pub(crate) settings: &'a [Setting],
    pub(crate) sizes: &'a Sizes,
    pub(crate) fsid: &'a str,
    pub(crate) ports: Ports,
    /// Where each OSD's journal is (FileStore).
    pub(crate) journals: &'a [PathBuf],
    /// The file systems that OSDs' data live on, by the kernel's names; of FileStore alone.
    pub(crate) file_systems: &'a [String],
    /// Whether there is a metadata server.
    pub(crate) file_system: bool,
    /// Bytes of memory that the machine has.
    pub(crate) memory: u64,
}

/// A store's name in `osd_objectstore`.
pub(crate) fn store_name(store: CephStore) -> &'static str {
    match store {
        CephStore::BlueStore => "bluestore",
        CephStore::FileStore => "filestore",
        CephStore::MemStore => "memstore",
    }
}

/// The ceph.conf, and sentences on what it has that the study did not ask for.
pub(crate) fn ceph_conf(layout: &Layout<'_>) -> (Conf, Vec<String>) {
    let mut conf = Conf::of_study(layout.settings);
    let mut notes = Vec::new();
    cluster(layout, &mut conf);
    limits(&mut conf, &mut notes);
    stores(layout, &mut conf, &mut notes);
    server(layout, &mut conf, "mon", "a");
    server(layout, &mut conf, "mgr", "x");
    for id in 0..layout.system.osds {
        let id = id.to_string();
        server(layout, &mut conf, "osd", &id);
        conf.must(&format!("osd.{id}"), "osd_objectstore", store_name(layout.store));
    }
    for (id, journal) in layout.journals.iter().enumerate() {
        conf.must(&format!("osd.{id}"), "osd_journal", journal.display().to_string());
    }
    if layout.file_system {
        server(layout, &mut conf, "mds", "a");
    }
    notes.extend(conf.notes().iter().cloned());
    (conf, notes)
}

/// Who and where the cluster is.
fn cluster(layout: &Layout<'_>, conf: &mut Conf) {
    let (Ports { mon, .. }, listen) = (layout.ports, layout.system.listen);
    conf.must("global", "fsid", layout.fsid);
    conf.must("global", "mon_host", format!("[v2:{listen}:{mon},v1:{listen}:{}]", mon + 1));
    for name in ["auth_cluster_required", "auth_service_required", "auth_client_required"] {
        conf.must("global", name, "none");
    }
    conf.unless_set("global", "osd_pool_default_size", layout.system.pool_size.to_string());
    conf.unless_set("global", "osd_pool_default_pg_autoscale_mode", "off");
    // All OSDs are on one host: copies go to different OSDs, not hosts.
    conf.unless_set("global", "osd_crush_chooseleaf_type", "0");
    conf.must("global", "mon_allow_pool_delete", "true");
    conf.unless_set("global", "mon_allow_pool_size_one", "true");
    conf.unless_set("global", "mon_warn_on_pool_no_redundancy", "false");
    conf.unless_set("global", "mon_data_avail_warn", "0");
    conf.unless_set("global", "auth_allow_insecure_global_id_reclaim", "false");
}

fn limits(conf: &mut Conf, notes: &mut Vec<String>) {
    for (name, value) in
        [("mon_max_pg_per_osd", MAX_PG_PER_OSD), ("mon_osd_max_initial_pgs", MAX_INITIAL_PGS)]
    {
        if conf.unless_set("global", name, value) {
            notes
                .push(format!("raised on every system so that no study's PGs are refused: {name} = {value}"));
        }
    }
}

fn stores(layout: &Layout<'_>, conf: &mut Conf, notes: &mut Vec<String>) {
    match layout.store {
        CephStore::FileStore => {
            let size = (layout.sizes.journal >> 20).to_string();
            if conf.unless_set("osd", "osd_journal_size", size.as_str()) {
                notes.push(format!("FileStore's journals have {size} MiB (osd_journal_size)"));
            }
            // The monitor refuses pools of 100 PGs an OSD and more, for which it wants an estimate of the objects,
            // unless it believes that directories may be merged. OSDs have this option from elsewhere.
            conf.must("mon.a", "filestore_merge_threshold", "10");
            // ext4 can't keep the attributes of objects with longer names; the OSD would refuse to start.
            if layout.file_systems.iter().any(|fs| fs.starts_with("ext")) {
                let names = conf.unless_set("osd", "osd_max_object_name_len", "256");
                if names | conf.unless_set("osd", "osd_max_object_namespace_len", "64") {
                    notes.push(
                        "FileStore on ext4: object names are limited to 256 bytes, as it needs".to_owned(),
                    );
                }
            }
            const EXPERIMENTAL: &str = "enable_experimental_unrecoverable_data_corrupting_features";
            if layout.file_systems.iter().any(|fs| fs == "btrfs")
                && conf.unless_set("osd", EXPERIMENTAL, "btrfs")
            {
                notes.push(format!("{EXPERIMENTAL} = btrfs is set: without it an OSD refuses btrfs"));
            }
        }
        CephStore::BlueStore => {
            conf.unless_set("osd", "bluestore_block_size", layout.sizes.store.to_string());
            memory_target(layout, conf, notes);
        }
        CephStore::MemStore => {
            conf.unless_set("osd", "memstore_device_bytes", layout.sizes.store.to_string());
        }
    }
}

/// OSDs that want more memory than the machine has would be ended by the kernel: together they get half of it.
fn memory_target(layout: &Layout<'_>, conf: &mut Conf, notes: &mut Vec<String>) {
    let share = layout.memory / 2 / u64::from(layout.system.osds.max(1));
    if share >= MEMORY_TARGET {
        return;
    }
    let target = share.max(MEMORY_TARGET_MIN) >> 20 << 20;
    if conf.unless_set("osd", "osd_memory_target", target.to_string()) {
        notes.push(format!(
            "osd_memory_target = {target} instead of {MEMORY_TARGET}: the OSDs together get half of this machine's memory"
        ));
    }
}

/// What every server needs, in its own section: it wins over what a study has for all of them.
fn server(layout: &Layout<'_>, conf: &mut Conf, kind: &str, id: &str) {
    let name = format!("{kind}.{id}");
    let paths = layout.paths;
    let mut must = |option: &str, value: String| conf.must(&name, option, value);
    must(&format!("{kind}_data"), paths.data(&name).display().to_string());
    must("keyring", paths.keyring().display().to_string());
    must("run_dir", paths.run().display().to_string());
    must("log_file", paths.log(&name).display().to_string());
    must("crash_dir", paths.run().display().to_string());
    // In the foreground no server needs a pid file.
    must("pid_file", String::new());
    must("admin_socket", paths.socket(&name).map(|p| p.display().to_string()).unwrap_or_default());
    must("public_addr", layout.system.listen.to_string());
    if kind == "mon" {
        must("mon_cluster_log_file", paths.log("cluster").display().to_string());
    } else {
        must("cluster_addr", layout.system.listen.to_string());
        must("ms_bind_port_min", layout.ports.first.to_string());
        must("ms_bind_port_max", layout.ports.last.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::{Place, Target};

    fn conf_of(store: CephStore, settings: &[Setting], fs: &str) -> (String, Vec<String>) {
        let system = System {
            name: "s".into(),
            target: Target::Ceph { release: "16.2".into(), store },
            osds: 2,
            pool_size: 1,
            cores: None,
            listen: std::net::Ipv4Addr::LOCALHOST,
            place: Place::Directory,
            journal: None,
            settings: Vec::new(),
            line: 1,
        };
        let layout = Layout {
            paths: &Paths { root: "/w".into() },
            system: &system,
            store,
            settings,
            sizes: &Sizes { store: 7 << 30, journal: 1 << 30, ..Sizes::default() },
            fsid: "F",
            ports: Ports { mon: 12_000, first: 12_002, last: 12_050 },
            journals: &[PathBuf::from("/w/data/osd.0/journal"), PathBuf::from("/dev/loop7")],
            file_systems: &[fs.to_owned()],
            file_system: false,
            memory: 16 << 30,
        };
        let (conf, notes) = ceph_conf(&layout);
        (conf.text(), notes)
    }

    fn setting(section: &str, name: &str, value: &str) -> Setting {
        Setting { section: section.into(), name: name.into(), value: value.into(), line: 3 }
    }

    #[test]
    fn the_articles_settings_stand_in_it_and_do_not_break_it() {
        let settings = [
            setting("global", "log_file", "/var/log/ceph/$name.log"),
            setting("global", "auth_client_required", "none"),
            setting("mon.a", "mon_addr", "127.0.0.1:6789"),
            setting("osd", "debug_osd", "0/0"),
        ];
        let (text, notes) = conf_of(CephStore::FileStore, &settings, "xfs");
        assert!(text.contains("\nlog_file = /var/log/ceph/$name.log\n"));
        assert!(text.contains("\ndebug_osd = 0/0\n"));
        assert!(text.contains("\nlog_file = /w/log/osd.1.log\n"), "a server's own section wins");
        assert_eq!(text.matches("auth_client_required").count(), 1);
        assert!(notes.iter().all(|n| !n.contains("not used")), "{notes:?}");
    }

    #[test]
    fn raised_limits_are_said_and_a_studys_own_stay() {
        let (text, notes) = conf_of(CephStore::MemStore, &[], "xfs");
        assert!(text.contains("mon_max_pg_per_osd = 100000\n"));
        assert!(notes.iter().any(|n| n.contains("mon_max_pg_per_osd")));
        let (text, notes) =
            conf_of(CephStore::MemStore, &[setting("global", "mon max pg per osd", "300")], "xfs");
        assert!(text.contains("mon max pg per osd = 300\n") && !text.contains("mon_max_pg_per_osd"));
        assert!(notes.iter().all(|n| !n.contains("mon_max_pg_per_osd")));
    }

    #[test]
    fn btrfs_is_allowed_only_where_an_osd_lives_on_it_and_is_said() {
        let has = |fs| conf_of(CephStore::FileStore, &[], fs);
        assert!(has("btrfs").0.contains("data_corrupting_features = btrfs\n"));
        assert!(has("btrfs").1.iter().any(|n| n.contains("btrfs")));
        assert!(!has("xfs").0.contains("btrfs"));
    }

    #[test]
    fn names_are_limited_only_where_ext4_needs_it_and_not_where_the_study_says_so() {
        let limit = "osd_max_object_name_len";
        assert!(conf_of(CephStore::FileStore, &[], "ext4").0.contains(limit));
        assert!(!conf_of(CephStore::FileStore, &[], "xfs").0.contains(limit));
        let (text, _) = conf_of(CephStore::FileStore, &[setting("osd", limit, "200")], "ext4");
        assert!(text.contains("osd_max_object_name_len = 200\n") && text.matches(limit).count() == 1);
    }

    #[test]
    fn nothing_is_written_outside_the_work_directory() {
        let (text, _) = conf_of(CephStore::BlueStore, &[], "");
        for name in ["log_file", "mon_cluster_log_file", "crash_dir", "run_dir", "osd_data", "admin_socket"] {
            let mut lines = text.lines().filter_map(|l| l.strip_prefix(name)).peekable();
            assert!(lines.peek().is_some(), "{name} is not set");
            assert!(lines.all(|value| value.starts_with(" = /w/")), "{name}");
        }
    }

    #[test]
    fn each_osd_has_its_own_journal_and_store() {
        let (text, _) = conf_of(CephStore::FileStore, &[], "xfs");
        assert!(
            text.contains("osd_journal = /w/data/osd.0/journal\n")
                && text.contains("osd_journal = /dev/loop7\n")
        );
        assert_eq!(text.matches("osd_objectstore = filestore\n").count(), 2);
        assert!(text.contains("osd_journal_size = 1024\n"));
    }

    #[test]
    fn what_the_monitor_is_told_of_filestore_does_not_reach_the_osds() {
        let (text, _) =
            conf_of(CephStore::FileStore, &[setting("osd", "filestore_merge_threshold", "-50")], "xfs");
        let section = |name: &str| text.split('[').find(|s| s.starts_with(name)).unwrap().to_owned();
        assert!(section("mon.a]").contains("filestore_merge_threshold = 10\n"));
        assert!(section("osd]").contains("filestore_merge_threshold = -50\n"));
        assert_eq!(text.matches("merge_threshold").count(), 2);
    }

    #[test]
    fn memory_of_the_osds_stays_below_the_machines_and_is_said() {
        let (text, notes) = conf_of(CephStore::BlueStore, &[], "xfs");
        assert!(!text.contains("osd_memory_target"), "two of 4 GiB are half of 16 GiB");
        assert!(notes.iter().all(|n| !n.contains("memory")));
        assert!(text.contains("bluestore_block_size = 7516192768\n"));
    }
}
