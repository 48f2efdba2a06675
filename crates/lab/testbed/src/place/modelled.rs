//! Modelled disks for Ceph: `loligo lab device` in a process of its own, and a loop device over the file that it serves.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use modelled::TransportOverhead;
use rustix::process::{Pid, Signal, kill_process};
use study::DeviceModel;

use crate::cluster::fresh_uuid;
use crate::error::{Doing, Error, Result};
use crate::ledger::Resource;
use crate::place::loops;
use crate::place::overhead;
use crate::processes::{self, Process, TOKEN};
use crate::run::{Stop, last_lines};
use crate::work_dir::WorkDir;
use process::mounts;

/// How long a disk may take to be there.
const UP: Duration = Duration::from_secs(20);

/// How long its process may take to end by itself after it was unmounted.
const END: Duration = Duration::from_secs(10);

/// How long a process that was just being started is looked for.
const STARTING: Duration = Duration::from_millis(200);

/// Size of the disk that the overhead is measured through.
const NONE_BYTES: u64 = 16 << 20;

/// Makes a modelled disk and gives its loop device. `loligo` is the program that serves it.
pub(crate) fn make(
    work_dir: &mut WorkDir,
    loligo: &Path,
    model: &DeviceModel,
    size: u64,
    name: &str,
) -> Result<PathBuf> {
    let overhead = measured_overhead(work_dir, loligo)?;
    serve(work_dir, loligo, arguments(model, overhead), size, name)
}

/// The transport overhead of modelled disks; measured once for a cluster, for its first disk.
pub(crate) fn measured_overhead(work_dir: &mut WorkDir, loligo: &Path) -> Result<TransportOverhead> {
    if let Some(overhead) = work_dir.overhead {
        return Ok(overhead);
    }
    let (time, mib) = (overhead::TIME.as_micros().to_string(), overhead::MIB_TIME.as_micros().to_string());
    let parameters = vec![("time_us".to_owned(), time), ("mib_us".to_owned(), mib)];
    let none = DeviceModel { name: "none".to_owned(), parameters };
    let device =
        serve(work_dir, loligo, arguments(&none, TransportOverhead::default()), NONE_BYTES, "overhead")?;
    let overhead = overhead::measure(&device)?;
    work_dir.overhead = Some(overhead);
    Ok(overhead)
}

/// The transport overhead of modelled disks on this machine, measured through a disk in `work_dir` that is removed after it.
/// `loligo` is the program that serves it.
///
/// # Errors
/// What a modelled disk needs and isn't there.
pub fn overhead(work_dir: &Path, loligo: &Path) -> Result<TransportOverhead> {
    let mut work_dir = WorkDir::open(work_dir, Stop::default())?;
    fs::create_dir_all(work_dir.paths.logs()).doing("making the directory", work_dir.paths.logs())?;
    let overhead = measured_overhead(&mut work_dir, loligo);
    work_dir.undo_all(&mut |_| ())?;
    overhead
}

fn serve(
    work_dir: &mut WorkDir,
    loligo: &Path,
    words: Vec<OsString>,
    size: u64,
    name: &str,
) -> Result<PathBuf> {
    let (backing, at) = (work_dir.paths.image(name), work_dir.paths.modelled(name));
    work_dir.make_file(&backing, size)?;
    work_dir.make_file(&at, 0)?;
    let token = fresh_uuid()?;
    work_dir.ledger.about_to_make(Resource::Modelled { at: at.clone(), token: token.clone() })?;
    let out = work_dir.paths.out(&format!("modelled.{name}"));
    let mut command = Command::new(loligo);
    command.args(words).args(["--size", &size.to_string()]).arg("--backing").arg(&backing);
    command.arg("--mount").arg(&at).env(TOKEN, token).process_group(0);
    let child = start(command, &out)?;
    work_dir.disks.push(child);
    wait(work_dir, &at, name, &out)?;
    loops::attach(work_dir, &at)
}

fn arguments(model: &DeviceModel, overhead: TransportOverhead) -> Vec<OsString> {
    let pairs: Vec<String> = model.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut words: Vec<OsString> = ["lab", "device", "--model", &model.name].map(OsString::from).to_vec();
    words.extend(["--parameters".into(), pairs.join(",").into()]);
    for (option, time) in [
        ("--overhead-us", overhead.request),
        ("--flush-overhead-us", overhead.flush),
        ("--mib-overhead-us", overhead.mib),
    ] {
        words.extend([option.into(), time.as_micros().to_string().into()]);
    }
    words
}

fn start(mut command: Command, out: &Path) -> Result<Child> {
    let file = File::options().create(true).append(true).open(out).doing("making", out)?;
    let second = file.try_clone().doing("making", out)?;
    command.stdin(Stdio::null()).stdout(file).stderr(second);
    command.spawn().doing("starting", Path::new(command.get_program()))
}

/// Waits until the disk is mounted and answers.
fn wait(work_dir: &mut WorkDir, at: &Path, name: &str, out: &Path) -> Result<()> {
    let begin = Instant::now();
    let what = format!("the modelled disk of {name}");
    loop {
        work_dir.runner.stop.check()?;
        if mounts::all().iter().any(|m| m.at == at) && fs::metadata(at).is_ok() {
            return Ok(());
        }
        if let Some(Ok(Some(status))) = work_dir.disks.last_mut().map(Child::try_wait) {
            return Err(Error::Ended { name: what, status: status.to_string(), output: last_lines(&[out]) });
        }
        if begin.elapsed() > UP {
            return Err(Error::Late { what, seconds: UP.as_secs(), output: last_lines(&[out]) });
        }
        sleep(Duration::from_millis(5));
    }
}

/// Tells a disk's process that nothing is measured any more: from here on it answers as fast as it can, so that what is
/// still to be written to a slow disk does not keep its file system from being unmounted.
pub(crate) fn hurry(token: &str) {
    for process in processes::with_token(token) {
        if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
            // Gone meanwhile: no thread waits for it.
            let _ = kill_process(pid, Signal::USR1);
        }
    }
}

/// Waits for a disk's process after it was unmounted, and ends it if it stays.
pub(crate) fn end(token: &str) -> Result<()> {
    let begin = Instant::now();
    let left = || processes::with_token(token);
    let mut seen = false;
    // One that was just being started when the run was killed does not carry its token at once.
    while begin.elapsed() < if seen { END } else { STARTING } {
        let found = left();
        if seen && found.is_empty() {
            return Ok(());
        }
        seen |= !found.is_empty();
        sleep(Duration::from_millis(10));
    }
    match processes::end(&left()).first() {
        None => Ok(()),
        Some(Process { pid, .. }) => Err(Error::Stays {
            what: format!("the process {pid} of a modelled disk"),
            why: "it does not end even by SIGKILL".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_asked_for_as_the_study_has_it() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let model = DeviceModel { name: "ssd".into(), parameters: vec![pair("a", "1"), pair("b", "2ms")] };
        let us = Duration::from_micros;
        let words = arguments(&model, TransportOverhead { request: us(30), flush: us(70), mib: us(400) });
        let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        assert_eq!(
            words.join(" "),
            "lab device --model ssd --parameters a=1,b=2ms --overhead-us 30 --flush-overhead-us 70 --mib-overhead-us 400"
        );
    }
}
