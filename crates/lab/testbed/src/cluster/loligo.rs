//! Starting Loligo by its own program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use options::{OptionStatus, normalize, status};
use study::{LoligoStore, Place, Setting, Target};

use crate::cluster::admin::Admin;
use crate::cluster::servers::Servers;
use crate::cluster::{Order, Parts};
use crate::conf::Conf;
use crate::error::{Doing, Error, Result};
use crate::place::space::Sizes;
use crate::place::{self, VolumeKind};
use crate::processes;
use crate::release::{Release, command};
use crate::work_dir::WorkDir;
use process::mounts;

/// How long a start may take; the program has a bound of its own below it.
const UP: Duration = Duration::from_secs(60);

/// Options of every Loligo that is started, unless the study sets them.
const OURS: [(&str, &str); 3] =
    [("mon_data_avail_warn", "0"), ("mon_max_pg_per_osd", "100000"), ("mon_allow_pool_delete", "true")];

/// The options that put a model into the device layer.
const MODEL: [&str; 2] = ["bdev_model", "bdev_model_parameters"];
/// The same for the logs, where they lie apart.
const LOG_MODEL: [&str; 2] = ["bdev_log_model", "bdev_log_model_parameters"];

/// What can't be had from Loligo yet.
///
/// # Errors
/// [`Error::NotYet`].
pub(crate) fn check(system: &study::System, file_system: bool) -> Result<()> {
    let not_yet = |what: &str| Err(Error::NotYet { what: what.to_owned() });
    if file_system {
        return not_yet("a file system (CephFS) on Loligo");
    }
    if system.pool_size > 1 {
        return not_yet("pools of more than one copy on Loligo");
    }
    match (&system.journal, &system.target) {
        (Some(Place::Devices { .. }), _) => return not_yet("Loligo's log on raw devices"),
        (Some(_), Target::Loligo { store: LoligoStore::Simple }) => {
            return not_yet("a log of Loligo's simple store, which has none");
        }
        _ => {}
    }
    match &system.place {
        Place::Modelled { .. } if status(MODEL[0]) == OptionStatus::Unknown => {
            not_yet("modelled disks inside Loligo's device layer")
        }
        Place::Directory | Place::Image { .. } | Place::Modelled { .. } => Ok(()),
        Place::Devices { .. } => not_yet("Loligo on raw devices"),
        Place::Loop { .. } => not_yet("Loligo on loop devices; give it a directory or an image"),
    }
}

/// The arguments of `--set`, and sentences on settings that can't be passed.
fn settings(all: &[Setting]) -> (Vec<(String, String)>, Vec<String>) {
    let (mut passed, mut notes): (Vec<(String, String)>, Vec<String>) = Default::default();
    // What a section says of all daemons of a kind wins over `global`, wherever they are.
    for wanted in ["global", "mon", "mgr", "osd"] {
        for setting in all.iter().filter(|s| s.section == wanted) {
            let name = normalize(&setting.name);
            if status(&name) == OptionStatus::Unknown {
                notes.push(format!("Loligo does not know {}: not passed", setting.name));
                continue;
            }
            if let Some(instead) = options::instead(&name) {
                notes.push(format!("{name} is not passed: {instead}"));
                continue;
            }
            passed.retain(|(other, _)| *other != name);
            passed.push((name, setting.value.clone()));
        }
    }
    let single = |s: &&Setting| s.section.contains('.') && !s.section.starts_with("client");
    for setting in all.iter().filter(single) {
        let (section, name) = (&setting.section, &setting.name);
        notes.push(format!("Loligo's servers share one process: [{section}] {name} is not passed"));
    }
    for (name, value) in OURS {
        if !passed.iter().any(|(other, _)| other == name) {
            passed.push((name.to_owned(), value.to_owned()));
        }
    }
    (passed, notes)
}

/// The model of a modelled place, as options: it is inside the device layer of each OSD.
fn model_options(place: &Place, [name, parameters]: [&str; 2]) -> Vec<(String, String)> {
    let Place::Modelled { model, .. } = place else { return Vec::new() };
    let pairs: Vec<String> = model.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut options = vec![(name.to_owned(), model.name.clone())];
    if !pairs.is_empty() {
        options.push((parameters.to_owned(), pairs.join(",")));
    }
    options
}

/// Makes the places of the logs, where they lie apart from the data: what each OSD's log gets, and the devices below that.
fn logs(work_dir: &mut WorkDir, order: &Order<'_>) -> Result<Vec<(PathBuf, Vec<String>)>> {
    let Some(place) = &order.system.journal else { return Ok(Vec::new()) };
    // The model is in the device layer, and below that is a file.
    let (place, is_modelled) = match place {
        Place::Modelled { size, .. } => (&Place::Image { size: *size }, true),
        place => (place, false),
    };
    let mut all = Vec::new();
    for index in 0..order.system.osds as usize {
        let name = format!("journal.{index}");
        // No mark of ours is put on what the run makes itself.
        let volume = place::make(work_dir, place, &order.site.loligo, (&name, index), "")?;
        let path = match volume.kind {
            VolumeKind::Dir(dir, _) => dir.join("log"),
            VolumeKind::Raw(path) => path,
        };
        all.push((path, if is_modelled { Vec::new() } else { volume.devices }));
    }
    Ok(all)
}

/// The arguments of `loligo up`.
fn arguments(
    order: &Order<'_>,
    store: LoligoStore,
    sizes: &Sizes,
    dir: &Path,
    logs: &[(PathBuf, Vec<String>)],
    set: &[(String, String)],
) -> Vec<String> {
    let store = match store {
        LoligoStore::Simple => "simple",
        LoligoStore::Block => "block",
        LoligoStore::Mem => "mem",
    };
    let mut words: Vec<String> =
        ["up", "--store", store, "--port", "0", "--detach"].map(str::to_owned).to_vec();
    if !order.system.listen.is_loopback() {
        // The study asks for it by its `listen`.
        words.extend([
            "--mon-addr".to_owned(),
            format!("{}:0", order.system.listen),
            "--insecure-bind".to_owned(),
        ]);
    }
    words.extend(["--dir".to_owned(), dir.display().to_string()]);
    words.extend(["--osds".to_owned(), order.system.osds.to_string()]);
    words.extend(["--osd-size".to_owned(), sizes.store.to_string()]);
    if let Some(cores) = order.system.cores {
        words.extend(["--cores".to_owned(), cores.to_string()]);
    }
    for (path, _) in logs {
        words.extend(["--log-device".to_owned(), path.display().to_string()]);
    }
    for (name, value) in set {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    words
}

/// Starts a cluster.
pub(crate) fn start(
    work_dir: &mut WorkDir,
    order: &Order<'_>,
    store: LoligoStore,
    sizes: &Sizes,
    servers: &mut Servers,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    say("starting Loligo");
    let dir = work_dir.paths.data("loligo");
    let conf_path = work_dir.paths.conf();
    let client = Release::installed().prefix(&conf_path, &work_dir.paths.root.clone(), order.token);
    let program = order.site.loligo.display().to_string();
    let version = work_dir.runner.run("loligo --version", command(&client, &program, &["--version"]), UP)?;

    let (mut set, notes) = settings(order.settings);
    set.extend(model_options(&order.system.place, MODEL));
    order.system.journal.iter().for_each(|place| set.extend(model_options(place, LOG_MODEL)));
    notes.into_iter().for_each(|note| work_dir.note(note));
    work_dir.note("raised on every system so that no study's PGs are refused: mon_max_pg_per_osd = 100000");
    work_dir.make_dir(&dir)?;
    let logs = logs(work_dir, order)?;
    let words = arguments(order, store, sizes, &dir, &logs, &set);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let prefix: Vec<OsString> = order.affinity.iter().cloned().chain(client.iter().cloned()).collect();
    let mut up: Command = command(&prefix, &program, &words);
    std::os::unix::process::CommandExt::process_group(&mut up, 0);
    work_dir.runner.run("loligo up", up, UP)?;

    let process = processes::with_token(order.token).into_iter().next().ok_or_else(|| Error::Ended {
        name: "loligo".to_owned(),
        status: "after it reported that it was up".to_owned(),
        output: crate::run::last_lines(&[&dir.join("log")]),
    })?;
    servers.adopt(work_dir, "loligo", process)?;

    let conf = client_conf(&dir.join("ceph.conf"), order.settings)?;
    work_dir.write_file(&conf_path, &conf.text())?;
    let below: Vec<String> = match store {
        // The disk below is not the one that is modelled.
        LoligoStore::Simple | LoligoStore::Block if matches!(order.system.place, Place::Modelled { .. }) => {
            Vec::new()
        }
        LoligoStore::Simple | LoligoStore::Block => mounts::device_below(&dir).into_iter().collect(),
        LoligoStore::Mem => Vec::new(),
    };
    let of_osd = |id: u32| {
        let log = logs.get(id as usize).map_or(&[][..], |(_, devices)| devices);
        let all: BTreeSet<String> = below.iter().chain(log).cloned().collect();
        (format!("osd.{id}"), all.into_iter().collect())
    };
    let devices = (0..order.system.osds).map(of_osd).collect();
    let admin = Admin { prefix: client.clone(), runner: work_dir.runner.clone() };
    let version = version.trim().to_owned();
    Ok(Parts { conf: conf_path, devices, version, admin, export: None })
}

/// The clients' ceph.conf: where the cluster is, from Loligo's own, and what the study has for clients.
fn client_conf(own: &Path, settings: &[Setting]) -> Result<Conf> {
    let text = fs::read_to_string(own).doing("reading", own)?;
    let for_clients: Vec<Setting> = settings
        .iter()
        .filter(|s| s.section == "global" || s.section.starts_with("client"))
        .cloned()
        .collect();
    let mut conf = Conf::of_study(&for_clients);
    for (name, value) in text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once('=')) {
        conf.must("global", name.trim(), value.trim());
    }
    Ok(conf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(section: &str, name: &str, value: &str) -> Setting {
        Setting { section: section.into(), name: name.into(), value: value.into(), line: 3 }
    }

    #[test]
    fn what_loligo_takes_is_passed_as_written_and_the_rest_is_said() {
        let all = [
            setting("osd", "osd max write size", "010"),
            setting("global", "osd_max_write_size", "90"),
            setting("osd", "osd_op_thraeds", "4"),
            setting("osd.0", "osd_max_write_size", "7"),
            setting("client", "rbd_cache", "true"),
            setting("osd", "bluestore_block_wal_path", "/dev/sdb1"),
        ];
        let (passed, notes) = settings(&all);
        assert_eq!(passed[0], ("osd_max_write_size".to_owned(), "010".to_owned()));
        assert_eq!(passed.len(), 1 + OURS.len());
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("--log-device")), "{notes:?}");
    }

    #[test]
    fn a_modelled_place_becomes_options() {
        let model = study::DeviceModel {
            name: "ssd".into(),
            parameters: vec![("a".into(), "1".into()), ("b".into(), "2".into())],
        };
        let place = Place::Modelled { model, size: 1 << 30, fs: None };
        let options = model_options(&place, MODEL);
        assert_eq!(options[0], ("bdev_model".to_owned(), "ssd".to_owned()));
        assert_eq!(options[1], ("bdev_model_parameters".to_owned(), "a=1,b=2".to_owned()));
        assert_eq!(model_options(&Place::Directory, MODEL), []);
        let of_log = model_options(&place, LOG_MODEL);
        assert_eq!(of_log[0], ("bdev_log_model".to_owned(), "ssd".to_owned()));
        for (name, _) in options.iter().chain(&of_log) {
            assert_eq!(status(name), OptionStatus::Own, "{name}");
        }
    }

    #[test]
    fn a_studys_own_limit_is_not_raised() {
        let (passed, _) = settings(&[setting("global", "mon_max_pg_per_osd", "300")]);
        let values: Vec<_> = passed.iter().filter(|(n, _)| n == "mon_max_pg_per_osd").collect();
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].1, "300");
    }
}
