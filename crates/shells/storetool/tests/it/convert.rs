//! Simple stores become block stores: whatever a conversion is ended at, the next one brings it to its end.

use std::fs;
use std::path::Path;

use crate::common::{
    bytes, expect_equal, fill, make_block, make_simple, object, open_block, open_simple, pg,
};
use host::{ClusterDir, Description, DirState, StoreKind};
use simplestore::SimpleStore;
use store::Transaction;
use storetool::{ConvertError, Ended, Listener, Step, Wanted};
use tempfile::TempDir;
use types::Fsid;

type Simple = blockfile::Blocking<SimpleStore>;

/// A directory of a cluster that does not run, with a filled simple store for each OSD, and the same stores elsewhere.
struct Cluster {
    dir: TempDir,
    reference: TempDir,
    osds: u32,
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["meta.redb", "block"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

impl Cluster {
    fn new(osds: u32) -> Self {
        let in_memory = || TempDir::new_in("/dev/shm").unwrap();
        let (dir, reference) = (in_memory(), in_memory());
        let addr = "127.0.0.1:3300".parse().unwrap();
        let new = Description::new(Fsid([1; 16]), StoreKind::Simple, osds, crate::common::SIZE_BYTES, addr);
        let locked = ClusterDir::lock(dir.path()).unwrap();
        locked.write_description(&Description { starts: 1, ..new }).unwrap();
        for osd in 0..osds {
            let mut store = make_simple(&reference.path().join(format!("osd.{osd}")), osd);
            fill(&mut store);
        }
        drop(locked);
        let cluster = Self { dir, reference, osds };
        cluster.put_back();
        cluster
    }

    /// The directory as before any conversion.
    fn put_back(&self) {
        let mut description = self.description();
        for osd in 0..self.osds {
            let of = self.dir.path().join(format!("osd.{osd}"));
            let _ = fs::remove_dir_all(&of);
            copy_files(&self.reference.path().join(format!("osd.{osd}")), &of);
            description.set_store_of(osd, StoreKind::Simple);
            description.set_places_of(osd, None, None);
        }
        ClusterDir::lock(self.dir.path()).unwrap().write_description(&description).unwrap();
    }

    fn description(&self) -> Description {
        match host::inspect(self.dir.path()).unwrap() {
            DirState::Cluster(description) => *description,
            _ => panic!("no cluster"),
        }
    }

    fn osd(&self, osd: u32) -> std::path::PathBuf {
        self.dir.path().join(format!("osd.{osd}"))
    }

    fn reference(&self, osd: u32) -> Simple {
        open_simple(&self.reference.path().join(format!("osd.{osd}")))
    }

    /// Everything is there, as the one store that counts.
    fn expect_converted(&self, when: &str) {
        self.expect_converted_to(&["block", "lock"], when);
    }

    fn expect_converted_to(&self, files: &[&str], when: &str) {
        assert_eq!(
            (self.description().store, self.description().osd_stores),
            (StoreKind::Block, vec![]),
            "{when}"
        );
        for osd in 0..self.osds {
            let mut block = open_block(&self.osd(osd));
            expect_equal(&mut self.reference(osd), &mut block, when);
            let found = blockfile::fsck(&mut block, true, &mut |_| ());
            assert_eq!(found.problems, [""; 0], "{when}");
            let mut names: Vec<_> =
                fs::read_dir(self.osd(osd)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, files, "{when}: files of osd.{osd}");
        }
    }
}

fn convert(
    dir: &Path,
    osd: Option<u32>,
    keep: bool,
    on: Listener<'_>,
) -> Result<Vec<storetool::Converted>, ConvertError> {
    storetool::convert(dir, &Wanted { osd, keep, ..Wanted::default() }, on)
}

/// A conversion that is ended at its step number `at`. Returns whether it was.
fn ended_at(cluster: &Cluster, at: usize) -> bool {
    wanted_ended_at(cluster, &Wanted::default(), at)
}

fn wanted_ended_at(cluster: &Cluster, wanted: &Wanted, at: usize) -> bool {
    let mut steps = 0;
    let done = storetool::convert(cluster.dir.path(), wanted, &mut |_, _| {
        steps += 1;
        if steps > at { Err(Ended) } else { Ok(()) }
    });
    match done {
        Ok(_) => false,
        Err(ConvertError::Ended(_)) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_store_is_converted_with_everything_and_its_clones_share_their_data() {
    let cluster = Cluster::new(2);
    let mut seen = Vec::new();
    let done = convert(cluster.dir.path(), None, false, &mut |osd, step| {
        seen.push((osd, step.clone()));
        Ok(())
    });
    let done = done.unwrap();
    assert_eq!(done.iter().map(|of| (of.osd, of.was_simple)).collect::<Vec<_>>(), [(0, true), (1, true)]);
    assert_eq!((done[0].compared.collections, done[0].compared.objects), (7, 22));
    // Of each image's three copies two take next to nothing.
    assert!(done[0].bytes_after < done[0].bytes_before / 2, "{done:?}");
    cluster.expect_converted("at once");
    assert_eq!(seen.last(), Some(&(1, Step::Moved)));
    // Nothing is left to do.
    let again = convert(cluster.dir.path(), None, false, &mut |_, _| Err(Ended)).unwrap();
    assert!(again.iter().all(|of| !of.was_simple), "{again:?}");
}

#[test]
fn a_conversion_that_is_ended_at_any_step_goes_on_to_the_same() {
    let cluster = Cluster::new(1);
    // The first steps are many and alike; those behind the decision are few.
    let mut steps = 0;
    let mut decided = None;
    convert(cluster.dir.path(), None, false, &mut |_, step| {
        steps += 1;
        if *step == Step::Moving {
            decided.get_or_insert(steps - 1);
        }
        Ok(())
    })
    .unwrap();
    let decided = decided.unwrap();
    let early = (0..decided).step_by(decided / 6);
    for at in early.chain(decided - 1..steps) {
        cluster.put_back();
        assert!(ended_at(&cluster, at), "step {at}");
        if at < decided {
            // The old store counts, and is as it was.
            assert_eq!(cluster.description().store_of(0), StoreKind::Simple);
            expect_equal(&mut cluster.reference(0), &mut open_simple(&cluster.osd(0)), "ended early");
        }
        // Ended twice, at another place.
        ended_at(&cluster, at / 2);
        convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
        cluster.expect_converted(&format!("ended at step {at} of {steps}"));
    }
}

#[test]
fn an_old_store_is_not_opened_once_the_new_one_counts() {
    let cluster = Cluster::new(1);
    let at = cluster.osd(0);
    let open = || storetool::open(&at, StoreKind::Simple).map(drop);
    let mut was_refused = Vec::new();
    let ended = convert(cluster.dir.path(), None, false, &mut |_, step| match step {
        Step::Moving => Err(Ended),
        _ => {
            was_refused.push(open().unwrap_err().to_string());
            Ok(())
        }
    });
    assert!(matches!(ended, Err(ConvertError::Ended(_))));
    assert!(was_refused.iter().all(|why| why.contains("in use")), "{was_refused:?}");
    // It has its files still. What an import would put there would be removed with them.
    let why = open().unwrap_err().to_string();
    assert!(why.contains("run `loligo store convert` again"), "{why}");
    assert!(storetool::open_to_read(&at, StoreKind::Simple).is_err());
    convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
    cluster.expect_converted("opened meanwhile");
}

#[test]
fn a_conversion_that_fails_once_the_new_store_counts_says_that_it_goes_on() {
    let cluster = Cluster::new(1);
    let obstacle = cluster.dir.path().join("cluster.json.new");
    fs::create_dir(&obstacle).unwrap();
    for _ in 0..2 {
        let why = convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(why.contains("cluster.json") && why.contains("the new store counts"), "{why}");
        assert!(why.contains("run the same command again"), "{why}");
    }
    fs::remove_dir(&obstacle).unwrap();
    convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
    cluster.expect_converted("failed after the decision");
    // A conversion that fails before the decision leaves the old store, and its error does not name the new one.
    cluster.put_back();
    fs::write(cluster.osd(0).join("converting"), "in the way").unwrap();
    let why = convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap_err().to_string();
    assert!(!why.contains("the new store counts"), "{why}");
}

#[test]
fn what_the_old_store_took_between_two_tries_is_in_the_new_one() {
    let cluster = Cluster::new(1);
    let mut copied = 0;
    let ended = convert(cluster.dir.path(), None, false, &mut |_, step| match step {
        Step::Comparing(_) => Err(Ended),
        Step::Copying(progress) => {
            copied = progress.objects;
            Ok(())
        }
        _ => Ok(()),
    });
    assert!(matches!(ended, Err(ConvertError::Ended(_))) && copied > 0);
    // The cluster ran again with the old store.
    let change = |store: &mut Simple| {
        let mut txn = Transaction::new();
        txn.write(pg(0), &object("image"), 100_000, bytes(77, 10).into());
        txn.remove(pg(1), &object("far")).create_collection(pg(7), 3);
        store.commit(txn).unwrap();
    };
    change(&mut open_simple(&cluster.osd(0)));
    change(&mut cluster.reference(0));
    let mut again = 0;
    convert(cluster.dir.path(), None, false, &mut |_, step| {
        if let Step::Copying(progress) = step {
            again = progress.objects;
        }
        Ok(())
    })
    .unwrap();
    assert!(
        again > 0 && again < copied,
        "only two collections were copied again: {again} objects of {copied}"
    );
    cluster.expect_converted("changed meanwhile");
}

#[test]
fn one_osd_at_a_time_and_the_old_store_is_kept_where_that_is_asked() {
    let cluster = Cluster::new(2);
    let done = convert(cluster.dir.path(), Some(1), true, &mut |_, _| Ok(())).unwrap();
    let kept = done[0].kept.clone().unwrap();
    expect_equal(&mut cluster.reference(1), &mut open_simple(&kept), "kept");
    let description = cluster.description();
    assert_eq!((description.store_of(0), description.store_of(1)), (StoreKind::Simple, StoreKind::Block));
    // The next run without `keep` removes it.
    convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
    cluster.expect_converted("both");
}

#[test]
fn what_is_no_simple_store_of_a_stopped_cluster_is_refused() {
    let cluster = Cluster::new(1);
    let refused = |at: &Path, osd| convert(at, osd, false, &mut |_, _| Ok(())).unwrap_err().to_string();
    assert!(refused(cluster.dir.path(), Some(3)).contains("no osd.3"));
    assert!(refused(&cluster.dir.path().join("nothing"), None).contains("no cluster"));
    let held = ClusterDir::lock(cluster.dir.path()).unwrap();
    assert!(refused(cluster.dir.path(), None).contains("in use"));
    drop(held);
    let open = open_simple(&cluster.osd(0));
    assert!(refused(cluster.dir.path(), None).contains("in use"));
    drop(open);
    // Of another store's file nothing is taken over.
    make_block(&cluster.osd(0).join("converting"), 5);
    convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
    cluster.expect_converted("beside another's file");
}

/// The new stores' logs in files of this name, one for each OSD.
fn with_logs(cluster: &Cluster, name: &str) -> Wanted {
    let log = |osd| cluster.reference.path().join(format!("{name}.{osd}"));
    Wanted { log_devices: (0..cluster.osds).map(log).collect(), ..Wanted::default() }
}

const WITH_LOG: [&str; 3] = ["block", "block.wal", "lock"];

#[test]
fn a_conversion_to_logs_apart_that_is_ended_at_any_step_goes_on_to_the_same() {
    let cluster = Cluster::new(1);
    let wanted = with_logs(&cluster, "log");
    let log = &wanted.log_devices[0];
    let (mut steps, mut decided) = (0, None);
    let done = storetool::convert(cluster.dir.path(), &wanted, &mut |_, step| {
        steps += 1;
        if *step == Step::Moving {
            decided.get_or_insert(steps - 1);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((done[0].places.log.as_ref(), &done[0].places.device), (Some(log), &None));
    cluster.expect_converted_to(&WITH_LOG, "at once");
    let decided = decided.unwrap();
    for at in (0..decided).step_by(decided / 3).chain(decided - 1..steps) {
        cluster.put_back();
        assert!(wanted_ended_at(&cluster, &wanted, at), "step {at}");
        if at < decided {
            assert_eq!(cluster.description().store_of(0), StoreKind::Simple);
            expect_equal(&mut cluster.reference(0), &mut open_simple(&cluster.osd(0)), "ended early");
        }
        wanted_ended_at(&cluster, &wanted, at / 2);
        // What is decided is known without being named again.
        let named = if at >= decided { Wanted::default() } else { wanted.clone() };
        storetool::convert(cluster.dir.path(), &named, &mut |_, _| Ok(())).unwrap();
        cluster.expect_converted_to(&WITH_LOG, &format!("ended at step {at} of {steps}"));
        assert_eq!(cluster.description().log_devices, wanted.log_devices);
    }
}

#[test]
fn what_is_wanted_otherwise_at_the_second_try_is_made_anew_and_leaves_no_log_behind() {
    let cluster = Cluster::new(1);
    let (first, second) = (with_logs(&cluster, "first"), with_logs(&cluster, "second"));
    let copying = |wanted: &Wanted| {
        let ended = storetool::convert(cluster.dir.path(), wanted, &mut |_, step| match step {
            Step::Comparing(_) => Err(Ended),
            _ => Ok(()),
        });
        assert!(matches!(ended, Err(ConvertError::Ended(_))));
    };
    copying(&first);
    assert!(first.log_devices[0].exists());
    copying(&second);
    assert!(!first.log_devices[0].exists() && second.log_devices[0].exists());
    convert(cluster.dir.path(), None, false, &mut |_, _| Ok(())).unwrap();
    assert!(!second.log_devices[0].exists());
    cluster.expect_converted("beside the data after all");
    assert!(cluster.description().log_devices.is_empty());
}

#[test]
fn logs_that_can_not_be_had_are_refused_before_anything_is_changed() {
    let cluster = Cluster::new(2);
    let dir = cluster.dir.path();
    let refused = |wanted: &Wanted| {
        storetool::convert(dir, wanted, &mut |_, _| panic!("something is changed")).unwrap_err().to_string()
    };
    let logs = with_logs(&cluster, "log");
    let (a, b) = (logs.log_devices[0].clone(), logs.log_devices[1].clone());
    fs::write(&b, "years of work").unwrap();
    let named = |log_devices: &[&std::path::PathBuf]| Wanted {
        log_devices: log_devices.iter().map(|path| (*path).clone()).collect(),
        ..Wanted::default()
    };
    for (wanted, says) in [
        (logs.clone(), "holds data"),
        (named(&[&a]), "--log-device is named 1 times for 2 OSDs"),
        (named(&[&a, &a]), "is named twice"),
        (Wanted { overwrite: vec![b.clone()], ..Wanted::default() }, "no --device or --log-device names it"),
        (Wanted { devices: vec![a.clone(), b.clone()], ..Wanted::default() }, "osd.0, the new store"),
        (Wanted { devices: vec![b.clone()], osd: Some(1), ..Wanted::default() }, "is no block device"),
        (Wanted { devices: vec![a.clone(), b.clone()], ..logs.clone() }, "it can be one of them"),
    ] {
        let why = refused(&wanted);
        assert!(why.contains(says), "{why}");
    }
    assert!(!a.exists() && fs::read(&b).unwrap() == b"years of work");
    // One at a time; the other one's log is taken then, and a store that is there does not move.
    storetool::convert(dir, &Wanted { osd: Some(0), ..named(&[&a]) }, &mut |_, _| Ok(())).unwrap();
    assert_eq!(cluster.description().log_devices, [a.clone(), std::path::PathBuf::new()]);
    let why = refused(&Wanted { osd: Some(1), overwrite: vec![a.clone()], ..named(&[&a]) });
    assert!(why.contains("is osd.0's"), "{why}");
    let why = refused(&Wanted { overwrite: vec![b.clone()], osd: Some(0), ..named(&[&b]) });
    assert!(why.contains("has a block store already, in an image file with its log on"), "{why}");
    storetool::convert(dir, &Wanted { overwrite: vec![b.clone()], ..logs }, &mut |_, _| Ok(())).unwrap();
    assert_eq!(cluster.description().log_devices, [a, b]);
    cluster.expect_converted_to(&WITH_LOG, "both");
}
