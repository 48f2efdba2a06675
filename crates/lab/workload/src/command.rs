//! A command of the user's: prepared, timed, cleaned up after.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use study::{CommandLoad, Phase};

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::phase::{Instance, PhaseResult};
use crate::run::{Load, OutputParser, PhaseRunner, keep_output};
use crate::supervisor::{Finished, ProcessEvent, Program, run_all};
use crate::timeline::Progress;

/// Runs it. The clean-up runs in any case, also when the caller wants to stop; its failure is the load's only if
/// nothing else has failed.
pub(crate) fn run(
    load: &CommandLoad,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
    phases: &mut Vec<PhaseResult>,
) -> Result<()> {
    let work = cluster.work_dir.join("command");
    match std::fs::create_dir(&work) {
        Ok(()) => {}
        Err(source) => return Err(Error::Io { doing: "making the directory", path: work, source }),
    }
    let ran = prepare(load, cluster, &work, runner).and_then(|()| {
        let timed =
            Load { phase: Phase::Run, label: Phase::Run.name().to_owned(), drop_caches: false, seconds: 0 };
        // The study gives the bound itself.
        let bounded = Cluster { margin: load.timeout, ..cluster.clone() };
        let programs = vec![shell("the command", &load.run, cluster, &work)];
        phases.push(runner.phase(&bounded, &timed, programs, vec![Silent])?);
        Ok(())
    });
    let cleaned = clean_up(load, cluster, &work, runner);
    ran.and(cleaned)
}

fn prepare(load: &CommandLoad, cluster: &Cluster, work: &Path, runner: &mut PhaseRunner<'_>) -> Result<()> {
    let Some(text) = &load.prepare else { return Ok(()) };
    runner.observer.step("preparing the command");
    let program = shell("the command's prepare", text, cluster, work);
    run_all(vec![program], bound(load), &cluster.stop, &mut keep_failed(cluster, "prepare")).map(drop)
}

fn clean_up(load: &CommandLoad, cluster: &Cluster, work: &Path, runner: &mut PhaseRunner<'_>) -> Result<()> {
    let Some(text) = &load.cleanup else { return Ok(()) };
    runner.observer.step("cleaning up after the command");
    let program = shell("the command's cleanup", text, cluster, work);
    let stop = AtomicBool::new(false);
    run_all(vec![program], bound(load), &stop, &mut keep_failed(cluster, "cleanup")).map(drop)
}

/// Writes what a part that failed has said.
fn keep_failed(cluster: &Cluster, part: &'static str) -> impl FnMut(ProcessEvent<'_>) {
    move |event| {
        if let ProcessEvent::Failed(index, out, err) = event {
            keep_output(&cluster.work_dir, part, index, [out, err]);
        }
    }
}

fn bound(load: &CommandLoad) -> Duration {
    Duration::from_secs(u64::from(load.timeout))
}

/// The study's text as a shell's: it ends at the first command that fails.
fn shell(what: &str, text: &str, cluster: &Cluster, work: &Path) -> Program {
    let mut command = cluster.host("sh");
    command.args(["-euc", &replaced(text, &cluster.conf, work, cluster.export.as_deref())]).current_dir(work);
    Program::new(what, command, "install a POSIX shell as sh")
}

/// `{conf}`, `{work}` and `{export}` as they are, once: a path that holds one of these words is left alone.
fn replaced(text: &str, conf: &Path, work: &Path, export: Option<&str>) -> String {
    let (conf, work) = (conf.to_string_lossy(), work.to_string_lossy());
    let words =
        [("{conf}", conf.as_ref()), ("{work}", work.as_ref()), ("{export}", export.unwrap_or_default())];
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let found = words.iter().find_map(|(word, value)| Some((*value, from.strip_prefix(word)?)));
        let (value, tail) = found.unwrap_or_else(|| ("{", from.get(1..).unwrap_or_default()));
        out.push_str(value);
        rest = tail;
    }
    out + rest
}

/// A command reports no progress; one run is one operation.
struct Silent;

impl OutputParser for Silent {
    fn line(&mut self, _line: &str) -> Option<Progress> {
        None
    }

    fn result(&self, finished: &Finished) -> std::result::Result<Instance, String> {
        Ok(Instance { seconds: finished.seconds, operations: 1, ..Instance::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Observer;
    use std::time::Instant;
    use study::WorkloadKind;

    fn load(run: &str, timeout: u32) -> CommandLoad {
        CommandLoad {
            prepare: Some("echo {conf} > {work}/conf".into()),
            run: run.into(),
            cleanup: Some("mv {work}/conf {work}/../cleaned".into()),
            needs: Vec::new(),
            file_system: false,
            timeout,
            expected: 1,
        }
    }

    #[derive(Default)]
    struct Calls(Vec<String>);

    impl Observer for Calls {
        fn before(&mut self, _: &str, _: bool) -> std::result::Result<(), String> {
            self.0.push("before".into());
            Ok(())
        }
        fn begins(&mut self, _: &str) {
            self.0.push("begins".into());
        }
        fn clients(&mut self, _: &str, pids: &[u32]) {
            self.0.push(format!("{} clients", pids.len()));
        }
        fn ends(&mut self, _: &str) {
            self.0.push("ends".into());
        }
        fn step(&mut self, what: &str) {
            self.0.push(what.into());
        }
    }

    fn run_it(load: CommandLoad) -> (crate::Ran, Vec<String>, bool) {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::new("/c/ceph.conf", dir.path().join("w"), Vec::new());
        let mut calls = Calls::default();
        let ran = crate::run(&WorkloadKind::Command(load), &cluster, Instant::now(), &mut calls);
        let cleaned = std::fs::read_to_string(dir.path().join("w/cleaned"));
        (ran, calls.0, cleaned.is_ok_and(|t| t == "/c/ceph.conf\n"))
    }

    #[test]
    fn only_the_run_is_timed() {
        let (ran, calls, cleaned) = run_it(load("sleep 0.3; test -f conf", 20));
        assert!(ran.failure.is_none(), "{:?}", ran.failure);
        let measurement = ran.phases[0].measurement();
        assert!((0.3..2.0).contains(&measurement.seconds), "{}", measurement.seconds);
        assert_eq!((measurement.operations, measurement.ops_per_s), (1, 1.0 / measurement.seconds));
        assert_eq!(
            calls.join(", "),
            "preparing the command, before, begins, 1 clients, ends, cleaning up after the command"
        );
        assert!(cleaned);
    }

    #[test]
    fn a_failure_has_the_commands_words_and_is_cleaned_up_after() {
        let (ran, calls, cleaned) = run_it(load("echo no such luck >&2; false; echo never", 20));
        let text = ran.failure.unwrap().to_string();
        assert!(text.contains("no such luck") && !text.contains("never"), "{text}");
        assert!(ran.phases.is_empty() && cleaned);
        assert!(calls.contains(&"ends".to_owned()));
    }

    #[test]
    fn what_a_failed_command_said_is_kept_and_shown_as_a_terminal_may_have_it() {
        let failed_with = |part: &str, command: CommandLoad| {
            let dir = tempfile::tempdir().unwrap();
            let cluster = Cluster::new("/c/ceph.conf", dir.path().join("w"), Vec::new());
            let ran =
                crate::run(&WorkloadKind::Command(command), &cluster, Instant::now(), &mut Calls::default());
            let kept = std::fs::read_to_string(dir.path().join(format!("w/{part}.0.out"))).unwrap();
            (ran.failure.unwrap().to_string(), kept)
        };
        let (text, kept) = failed_with("run", load("echo out; printf 'a\\033[31mred\\n' >&2; exit 3", 20));
        assert!(text.contains("a\\u{1b}[31mred"), "{text}");
        assert_eq!(kept, "out\na\u{1b}[31mred\n");
        let (text, kept) = failed_with("run", load("head -c 3000000 /dev/zero | tr '\\0' x; exit 1", 20));
        assert!(text.contains("xxx...") && text.len() < 1000, "{text}");
        assert_eq!(kept.len(), (1 << 20) + 1);
        let (_, kept) = failed_with("run", load("echo so far; sleep 60", 1));
        assert_eq!(kept, "so far\n");
        for part in ["prepare", "cleanup"] {
            let mut broken = load("true", 20);
            let text = Some("echo words; exit 1".to_owned());
            if part == "prepare" {
                broken.prepare = text
            } else {
                broken.cleanup = text
            }
            assert_eq!(failed_with(part, broken).1, "words\n");
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended_and_cleaned_up_after() {
        let (ran, _, cleaned) = run_it(load("sleep 60", 1));
        assert!(matches!(ran.failure, Some(Error::Late { seconds: 1, .. })) && cleaned);
    }

    #[test]
    fn words_in_braces_are_replaced_once() {
        let text = replaced(
            "a {conf} ${x} {work}/{} {export}{",
            Path::new("/{work}"),
            Path::new("/w"),
            Some("h:/e"),
        );
        assert_eq!(text, "a /{work} ${x} /w/{} h:/e{");
        assert_eq!(replaced("[{export}]", Path::new(""), Path::new(""), None), "[]");
    }
}
