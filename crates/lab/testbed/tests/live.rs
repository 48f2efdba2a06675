//! Clusters that are really started. They need root, the programs that each names, and Loligo's program in
//! LOLIGO_PROGRAM: `cargo test -p testbed --test live -- --ignored --test-threads 1 --nocapture`.

#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use study::{CephStore, FileSystem, FsKind, LoligoStore, Place, Setting, System, Target};
use testbed::{Error, Pool, Site, Testbed, Wanted};

const GIB: u64 = 1 << 30;

fn site(dir: &Path) -> Site {
    let loligo = std::env::var_os("LOLIGO_PROGRAM").map_or_else(|| PathBuf::from("loligo"), PathBuf::from);
    Site { loligo, ..Site::new(dir) }
}

fn system(target: Target, place: Place) -> System {
    System {
        name: "s".into(),
        target,
        osds: 2,
        pool_size: 1,
        cores: None,
        listen: std::net::Ipv4Addr::LOCALHOST,
        place,
        journal: None,
        settings: Vec::new(),
        line: 1,
    }
}

fn ceph(release: &str, store: CephStore) -> Target {
    Target::Ceph { release: release.into(), store }
}

fn loop_with(kind: FsKind, mkfs: &str, mount: &str) -> Place {
    Place::Loop { size: 2 * GIB, fs: Some(FileSystem { kind, mkfs: mkfs.into(), mount: mount.into() }) }
}

fn setting(section: &str, name: &str, value: &str) -> Setting {
    Setting { section: section.into(), name: name.into(), value: value.into(), line: 7 }
}

fn started(site: &Site, system: &System, settings: &[Setting], file_system: bool) -> Testbed {
    let wanted = Wanted { system, settings, file_system };
    let problems = testbed::check(site, &wanted);
    assert!(problems.is_empty(), "{problems:?}");
    let begin = Instant::now();
    let mut say = |line: &str| println!("  {:6.1} s  {line}", begin.elapsed().as_secs_f64());
    let bed = testbed::start(site, &wanted, &mut say).unwrap_or_else(|e| panic!("{e}"));
    println!("  {:6.1} s  up: {}", begin.elapsed().as_secs_f64(), bed.version());
    bed
}

/// What is left of a work directory: mounts, loop devices, files other than logs.
fn nothing_is_left(dir: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dir_text = dir.to_str().unwrap();
    assert!(!mounts.contains(&format!(" {dir_text}/")), "a mount is left");
    let loops =
        Command::new("losetup").args(["--list", "--noheadings", "--output", "BACK-FILE"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&loops.stdout).contains(dir_text), "a loop device is left");
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| n != "log" && n != "ledger.jsonl");
    assert!(names.is_empty(), "left: {names:?}");
    assert_eq!(fs::metadata(dir.join("ledger.jsonl")).unwrap().len(), 0, "the ledger is not empty");
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("environ")).unwrap_or_default();
        let conf = format!("CEPH_CONF={dir_text}/ceph.conf");
        assert!(!line.split(|b| *b == 0).any(|v| v == conf.as_bytes()), "{:?} still runs", entry.path());
    }
}

/// Servers write nothing outside the work directory but to devices.
fn outside_is_untouched(bed: &Testbed) {
    let own = bed.conf().parent().unwrap();
    for (name, pid) in bed.processes() {
        for file in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
            let Ok(target) = fs::read_link(file.path()) else { continue };
            let flags =
                fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", file.file_name().to_string_lossy()));
            let flags = flags.unwrap_or_default();
            let mode = flags.lines().find_map(|l| l.strip_prefix("flags:")?.trim().chars().last());
            let writes = mode.is_some_and(|digit| digit != '0' && digit != '4');
            let fine = !target.is_absolute()
                || target.components().any(|c| c.as_os_str() == "dev")
                || target.starts_with(own);
            let inside_root = target.to_string_lossy().contains(own.to_str().unwrap());
            assert!(!writes || fine || inside_root, "{name} writes to {}", target.display());
        }
    }
}

/// Makes a pool, writes and reads an object by the release's own client, removes the pool, takes all down.
fn used_and_taken_down(mut bed: Testbed, dir: &Path) {
    let begin = Instant::now();
    let mut say = |line: &str| println!("  {:6.1} s  {line}", begin.elapsed().as_secs_f64());
    let pool = Pool { name: "p0".into(), pg_num: 128, size: 1, application: "rados".into() };
    bed.make_pool(&pool).unwrap_or_else(|e| panic!("{e}"));
    bed.wait_clean(&mut say).unwrap_or_else(|e| panic!("{e}"));
    say("clean");
    let bench = bed.client("rados").args(["-p", "p0", "bench", "2", "write", "-b", "4096"]).output().unwrap();
    let output = String::from_utf8_lossy(&bench.stdout).into_owned();
    assert!(bench.status.success() && output.contains("Average IOPS"), "{output} {:?}", bench.stderr);
    testbed::drop_caches().unwrap();
    println!("  {:?}", bed.processes());
    println!("  {:?} work: {:?}", bed.devices(), bed.work_device());
    bed.notes().iter().for_each(|note| println!("  note: {note}"));
    bed.check().unwrap();
    outside_is_untouched(&bed);
    bed.remove_pool("p0").unwrap_or_else(|e| panic!("{e}"));
    let mut say = |line: &str| println!("  {:6.1} s  {line}", begin.elapsed().as_secs_f64());
    bed.take_down(&mut say).unwrap_or_else(|e| panic!("{e}"));
    say("down");
    assert!(!testbed::logs(dir).is_empty());
    nothing_is_left(dir);
}

/// A work directory that is cleaned up before it is removed, also when the test fails.
struct WorkDir(tempfile::TempDir);

impl WorkDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if let Err(error) = testbed::clean_up(self.path(), &mut |_| ()) {
            println!("  {} stays: {error}", self.path().display());
            self.0.disable_cleanup(true);
        }
    }
}

fn works(system: &System, settings: &[Setting]) -> Vec<String> {
    let dir = WorkDir::new();
    let site = site(dir.path());
    let bed = started(&site, system, settings, false);
    for (name, pid) in bed.processes() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let cores = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed:\t")).unwrap();
        let allowed: u32 = cores.chars().filter_map(|c| c.to_digit(16)).map(u32::count_ones).sum();
        assert!(system.cores.is_none_or(|n| n == allowed), "{name} may use {allowed} cores");
    }
    let notes = bed.notes().to_vec();
    used_and_taken_down(bed, dir.path());
    notes
}

#[test]
#[ignore = "needs Loligo's program in LOLIGO_PROGRAM and a ceph client"]
fn loligo_simple_in_a_directory_and_an_image() {
    let target = Target::Loligo { store: LoligoStore::Simple };
    let settings = [setting("osd", "osd_op_threads", "4"), setting("osd", "filestore_op_threads", "4")];
    works(&system(target.clone(), Place::Directory), &settings);
    works(&System { cores: Some(1), ..system(target, Place::Image { size: 3 * GIB }) }, &[]);
}

#[test]
#[ignore = "needs Loligo's program in LOLIGO_PROGRAM and a ceph client"]
fn loligo_mem() {
    works(&system(Target::Loligo { store: LoligoStore::Mem }, Place::Directory), &[]);
}

#[test]
#[ignore = "needs root, Ceph 16.2 and xfsprogs"]
fn ceph_filestore_on_loop_xfs_with_the_articles_options() {
    let place = loop_with(FsKind::Xfs, "-f -i size=2048", "noatime");
    let settings = [
        setting("global", "log_file", "/var/log/ceph/$name.log"),
        setting("global", "filestore_xattr_use_omap", "true"),
        setting("osd", "debug_osd", "0/0"),
    ];
    works(&system(ceph("16.2", CephStore::FileStore), place), &settings);
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn ceph_filestore_on_loop_ext4() {
    let place = loop_with(FsKind::Ext4, "", "noatime,user_xattr");
    works(&system(ceph("16.2", CephStore::FileStore), place), &[]);
}

#[test]
#[ignore = "needs root, Ceph 16.2 and btrfs-progs"]
fn ceph_filestore_on_loop_btrfs() {
    let place = loop_with(FsKind::Btrfs, "-n 64k", "noatime");
    let notes = works(&system(ceph("16.2", CephStore::FileStore), place), &[]);
    assert!(notes.iter().any(|n| n.contains("data_corrupting_features = btrfs")));
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn ceph_filestore_in_a_directory_and_with_journals_elsewhere() {
    let filestore = system(ceph("16.2", CephStore::FileStore), Place::Directory);
    works(&filestore, &[]);
    let raw = Place::Loop { size: GIB, fs: None };
    works(&System { journal: Some(raw), ..filestore.clone() }, &[]);
    works(&System { journal: Some(Place::Image { size: GIB }), ..filestore.clone() }, &[]);
    let mounted = loop_with(FsKind::Xfs, "", "");
    works(&System { journal: Some(mounted), ..filestore }, &[]);
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn ceph_bluestore_on_loop_image_and_directory() {
    let bluestore = |place| system(ceph("16.2", CephStore::BlueStore), place);
    works(&bluestore(Place::Loop { size: 4 * GIB, fs: None }), &[]);
    works(&System { cores: Some(1), ..bluestore(Place::Image { size: 4 * GIB }) }, &[]);
    works(&bluestore(Place::Directory), &[]);
    works(&bluestore(loop_with(FsKind::Xfs, "", "")), &[]);
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn ceph_bluestore_with_its_database_elsewhere() {
    let bluestore = system(ceph("16.2", CephStore::BlueStore), Place::Image { size: 4 * GIB });
    works(&System { journal: Some(Place::Loop { size: GIB, fs: None }), ..bluestore.clone() }, &[]);
    works(&System { journal: Some(Place::Directory), ..bluestore }, &[]);
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn ceph_memstore() {
    works(&system(ceph("16.2", CephStore::MemStore), Place::Directory), &[]);
}

#[test]
#[ignore = "needs root and a root of Ceph 18.2"]
fn ceph_18_2_bluestore() {
    works(&system(ceph("18.2", CephStore::BlueStore), Place::Loop { size: 4 * GIB, fs: None }), &[]);
    works(&system(ceph("18.2", CephStore::MemStore), Place::Directory), &[]);
}

#[test]
#[ignore = "needs root and a root of Ceph 20.2"]
fn ceph_20_2_bluestore() {
    works(&system(ceph("20.2", CephStore::BlueStore), Place::Loop { size: 4 * GIB, fs: None }), &[]);
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn two_thousand_pgs_are_not_refused() {
    let dir = WorkDir::new();
    let memstore = system(ceph("16.2", CephStore::MemStore), Place::Directory);
    let mut bed = started(&site(dir.path()), &memstore, &[], false);
    let pool = Pool { name: "p0".into(), pg_num: 2048, size: 1, application: "rados".into() };
    bed.make_pool(&pool).unwrap_or_else(|e| panic!("{e}"));
    bed.wait_clean(&mut |line| println!("  {line}")).unwrap_or_else(|e| panic!("{e}"));
    bed.take_down(&mut |_| ()).unwrap();
    nothing_is_left(dir.path());
}

#[test]
#[ignore = "needs root, Ceph 16.2, ceph-mds and ceph-fuse"]
fn a_file_system_mounts() {
    let dir = WorkDir::new();
    let memstore = system(ceph("16.2", CephStore::MemStore), Place::Directory);
    let mut bed = started(&site(dir.path()), &memstore, &[], true);
    bed.wait_clean(&mut |line| println!("  {line}")).unwrap_or_else(|e| panic!("{e}"));
    assert!(bed.processes().contains_key("mds.a"));
    let at = tempfile::tempdir().unwrap();
    let mounted = bed.client("ceph-fuse").arg(at.path()).output().unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    fs::write(at.path().join("file"), "x").unwrap();
    assert!(Command::new("umount").arg(at.path()).status().unwrap().success());
    bed.take_down(&mut |_| ()).unwrap();
    nothing_is_left(dir.path());
}

#[test]
#[ignore = "needs root, Ceph 16.2 and xfsprogs"]
fn a_running_cluster_is_asked_and_left_as_it_is() {
    let dir = WorkDir::new();
    let memstore = system(ceph("16.2", CephStore::MemStore), Place::Directory);
    let owner = started(&site(dir.path()), &memstore, &[], false);
    let other = WorkDir::new();
    let running = system(Target::Running { conf: owner.conf().to_owned() }, Place::Directory);
    let bed = started(&site(other.path()), &running, &[], false);
    assert!(bed.version().contains("16.2") && bed.processes().is_empty());
    bed.take_down(&mut |_| ()).unwrap();
    assert_eq!(owner.client("ceph").arg("health").status().unwrap().code(), Some(0));
    owner.take_down(&mut |_| ()).unwrap();
    nothing_is_left(dir.path());
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn a_cluster_that_fails_says_why_leaves_its_logs_and_nothing_else() {
    let dir = WorkDir::new();
    let tiny = system(ceph("16.2", CephStore::BlueStore), Place::Image { size: 1 << 20 });
    let wanted = Wanted { system: &tiny, settings: &[], file_system: false };
    let error = testbed::start(&site(dir.path()), &wanted, &mut |_| ()).unwrap_err();
    println!("  {error}");
    assert!(matches!(error, Error::Failed { .. }) && error.to_string().contains("osd.0"), "{error}");
    for kept in ["osd.0.log", "ceph.conf"] {
        assert!(testbed::logs(dir.path()).iter().any(|p| p.ends_with(kept)), "no {kept}");
    }
    nothing_is_left(dir.path());
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn a_server_that_ends_by_itself_is_named_with_its_last_words() {
    let dir = WorkDir::new();
    let memstore = system(ceph("16.2", CephStore::MemStore), Place::Directory);
    let mut bed = started(&site(dir.path()), &memstore, &[], false);
    let pid = bed.processes()["osd.1"];
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    sleep(Duration::from_millis(500));
    let error = bed.check().unwrap_err().to_string();
    println!("  {error}");
    assert!(error.contains("osd.1") && error.contains('9'), "{error}");
    drop(bed);
    nothing_is_left(dir.path());
}

#[test]
#[ignore = "needs root and Ceph 16.2"]
fn a_start_ends_soon_when_the_caller_wants_to_stop_and_leaves_nothing() {
    let dir = WorkDir::new();
    let flag = Arc::new(AtomicBool::new(false));
    let site = Site { stop: testbed::Stop::new(flag.clone()), ..site(dir.path()) };
    let bluestore = system(ceph("16.2", CephStore::BlueStore), Place::Loop { size: 4 * GIB, fs: None });
    let wanted = Wanted { system: &bluestore, settings: &[], file_system: false };
    let mut asked = None;
    let error = testbed::start(&site, &wanted, &mut |line| {
        if line.contains("making the OSDs' stores") {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
            asked = Some(Instant::now());
        }
    });
    assert!(matches!(error, Err(Error::Stopped)), "{error:?}");
    let took = asked.unwrap().elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    nothing_is_left(dir.path());
}

/// A raw device for tests: a loop device that the lab knows nothing of.
struct Device(PathBuf, #[expect(dead_code, reason = "removes the file when dropped")] tempfile::TempDir);

impl Device {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        fs::File::create(&file).unwrap().set_len(4 * GIB).unwrap();
        let out = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        Self(PathBuf::from(String::from_utf8(out.stdout).unwrap().trim()), dir)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        Command::new("losetup").arg("--detach").arg(&self.0).status().unwrap();
    }
}

#[test]
#[ignore = "needs root, Ceph 16.2 and xfsprogs"]
fn a_raw_device_is_taken_only_when_named_and_empty_and_is_empty_again_afterwards() {
    let device = Device::new();
    let devices = |fs| Place::Devices { paths: vec![device.0.clone()], fs };
    let xfs = FileSystem { kind: FsKind::Xfs, mkfs: "-f".into(), mount: String::new() };
    let raw = System { osds: 1, ..system(ceph("16.2", CephStore::BlueStore), devices(None)) };
    let mounted = System { osds: 1, ..system(ceph("16.2", CephStore::FileStore), devices(Some(xfs))) };
    let dir = WorkDir::new();
    let mut site = site(dir.path());
    let refused = |site: &Site| {
        let problems = testbed::check(site, &Wanted { system: &raw, settings: &[], file_system: false });
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert!(refused(&site).contains("name it with the flag"), "{}", refused(&site));
    site.allowed_devices.push(device.0.clone());
    assert_eq!(refused(&site), "");
    // Empty again afterwards: else the second and third would be refused.
    for system in [&raw, &mounted, &raw] {
        used_and_taken_down(started(&site, system, &[], false), dir.path());
    }
    assert!(Command::new("mkfs.ext4").args(["-q"]).arg(&device.0).status().unwrap().success());
    assert!(refused(&site).contains("it holds data (ext4"), "{}", refused(&site));
    let at = tempfile::tempdir().unwrap();
    assert!(Command::new("mount").arg(&device.0).arg(at.path()).status().unwrap().success());
    assert!(refused(&site).contains("is mounted on"), "{}", refused(&site));
    assert!(Command::new("umount").arg(at.path()).status().unwrap().success());
}

/// Names the work directory of the run that is killed.
const VICTIM: &str = "TESTBED_TEST_VICTIM";

fn victims_system() -> System {
    system(ceph("16.2", CephStore::FileStore), loop_with(FsKind::Xfs, "-f", "noatime"))
}

/// Not a test: the program that the next test kills.
#[test]
#[ignore = "run by another test"]
fn a_run_that_is_killed() {
    let Some(dir) = std::env::var_os(VICTIM) else { return };
    let bed = started(&site(Path::new(&dir)), &victims_system(), &[], false);
    let mut client = bed.client("ceph").arg("--watch").stdout(std::process::Stdio::null()).spawn().unwrap();
    sleep(Duration::from_secs(60));
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
#[ignore = "needs root, Ceph 16.2 and xfsprogs"]
fn whatever_moment_a_run_is_killed_at_the_next_start_removes_what_it_left() {
    let dir = WorkDir::new();
    let mut leftovers = 0;
    // By lines of the ledger, so that each step is hit however fast the machine is.
    for lines in [1, 3, 5, 6, 8, 10, 13, 16, 18, 20, 22, 23] {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "a_run_that_is_killed"])
            .env(VICTIM, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        let ledger = dir.path().join("ledger.jsonl");
        while fs::read_to_string(&ledger).unwrap_or_default().lines().count() < lines
            && begin.elapsed() < Duration::from_secs(25)
        {
            sleep(Duration::from_millis(1));
        }
        if lines == 23 {
            sleep(Duration::from_secs(8));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let left = fs::read_to_string(&ledger).unwrap();
        leftovers += left.lines().count();
        println!("  killed with {} lines: {}", left.lines().count(), left.lines().last().unwrap_or_default());
        if lines < 23 {
            testbed::clean_up(dir.path(), &mut |line| println!("  {line}")).unwrap_or_else(|e| panic!("{e}"));
            nothing_is_left(dir.path());
        }
    }
    assert!(leftovers > 50, "the runs were killed before they made anything");
    used_and_taken_down(started(&site(dir.path()), &victims_system(), &[], false), dir.path());
}
