//! Client hosts, reached by ssh: a directory with the ceph.conf on each while a load runs, programs started there,
//! and what is looked at before a run. ssh's own configuration gives ports, users and keys.
//!
//! A load has one connection a host that keeps the directory, and one for each program that runs. What runs or lies
//! on a host goes when its connection ends: also when the lab is killed.

mod check;
pub(crate) mod script;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::error::{Error, Result};
pub use check::{in_the_way, versions};
use process::last_words;

/// How long a host has to answer with what it was asked for.
const ANSWER: Duration = Duration::from_secs(30);

/// How long a host has to end a connection that is over.
const END: Duration = Duration::from_secs(6);

/// What to do if there is no `ssh`.
pub(crate) const REMEDY: &str = "apt-get install openssh-client";

/// How ssh is called.
#[derive(Clone, Default, Debug)]
pub struct Ssh {
    /// Its configuration file (`ssh -F`), if not the user's own.
    pub config: Option<PathBuf>,
}

impl Ssh {
    /// The arguments that run a shell text with its words on a host.
    pub(crate) fn arguments(&self, host: &str, text: &str, words: &[String]) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["-T".into()];
        if let Some(config) = &self.config {
            all.extend(["-F".into(), config.into()]);
        }
        let options = [
            // Nobody is there to type a password.
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            // A shared connection would outlive its program.
            "ControlMaster=no",
            "ControlPath=none",
        ];
        all.extend(options.iter().flat_map(|o| ["-o".into(), (*o).into()]));
        all.extend(["--".into(), host.into(), script::line(text, words).into()]);
        all
    }
}

/// The hosts of a load, each with its directory.
#[derive(Default, Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    /// Instances on each.
    each: usize,
}

/// A host and the connection that keeps its directory.
#[derive(Debug)]
struct Host {
    name: String,
    dir: String,
    keeper: Child,
    /// What ends the connection when it is closed.
    stdin: Option<ChildStdin>,
}

impl Hosts {
    /// Makes the directories. Nothing is done where there are no hosts.
    pub fn open(names: &[String], each: u32, cluster: &Cluster) -> Result<Self> {
        let mut hosts = Self { hosts: Vec::new(), each: each as usize };
        if names.is_empty() {
            return Ok(hosts);
        }
        let path = &cluster.conf;
        let conf = std::fs::read_to_string(path).map_err(|source| Error::Io {
            doing: "reading",
            path: path.clone(),
            source,
        })?;
        for name in names {
            hosts.hosts.push(Host::open(name, &conf, cluster)?);
        }
        Ok(hosts)
    }

    /// The host of an instance; none: this machine.
    fn of(&self, instance: usize) -> Option<&Host> {
        self.hosts.get(instance / self.each.max(1))
    }

    /// The name of an instance's host.
    pub fn name(&self, instance: usize) -> Option<&str> {
        self.of(instance).map(|host| host.name.as_str())
    }

    /// The ceph.conf as an instance finds it.
    pub fn conf(&self, instance: usize) -> Option<String> {
        self.of(instance).map(|host| format!("{}/ceph.conf", host.dir))
    }

    /// A program on an instance's host, that ends after `bound` in any case: started there by a line on its input.
    pub fn command(
        &self,
        instance: usize,
        cluster: &Cluster,
        program: &[String],
        bound: Duration,
    ) -> Option<Command> {
        let host = self.of(instance)?;
        let mut words = script::run_words(&host.dir, bound);
        words.extend(["env", "-u", "CEPH_ARGS"].map(str::to_owned));
        words.push(format!("CEPH_CONF={}/ceph.conf", host.dir));
        words.extend(program.iter().cloned());
        let mut command = cluster.host("ssh");
        command.args(cluster.ssh.arguments(&host.name, script::RUN, &words));
        Some(command)
    }
}

impl Host {
    fn open(name: &str, conf: &str, cluster: &Cluster) -> Result<Self> {
        let mut command = cluster.host("ssh");
        command.args(cluster.ssh.arguments(name, script::KEEP, &[script::END.to_owned()]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Not in the caller's group: a terminal's Ctrl-C must not end it before its load.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut keeper = command.spawn().map_err(|source| Error::Start {
            program: "ssh".to_owned(),
            source,
            remedy: REMEDY.to_owned(),
        })?;
        let stdin = keeper.stdin.take();
        let mut host = Self { name: name.to_owned(), dir: String::new(), keeper, stdin };
        if let Some(stdin) = &mut host.stdin {
            // What can't be sent shows in the answer that does not come.
            let _ = stdin.write_all(format!("{}\n{}\n", conf.trim_end(), script::END).as_bytes());
        }
        host.dir = host.answer()?;
        Ok(host)
    }

    /// The directory that it says it made.
    fn answer(&mut self) -> Result<String> {
        let (send, output) = channel();
        if let Some(out) = self.keeper.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(std::result::Result::ok);
                // Nobody listens any more once it was heard; what else comes is read away.
                lines.for_each(|line| drop(send.send(line)));
            });
        }
        let began = Instant::now();
        while let Ok(line) = output.recv_timeout(ANSWER.saturating_sub(began.elapsed())) {
            if let Some(dir) = line.strip_prefix(script::READY) {
                return Ok(dir.trim().to_owned());
            }
        }
        let late = began.elapsed() >= ANSWER;
        let status = self.end();
        let mut err = String::new();
        if let Some(from) = self.keeper.stderr.take() {
            let _ = from.take(1 << 16).read_to_string(&mut err);
        }
        let (what, output) = (format!("making a directory on the host {}", self.name), last_words(&err, ""));
        Err(match late {
            true => Error::Late { what, seconds: ANSWER.as_secs(), output },
            false => Error::Failed { what, status, output },
        })
    }

    /// Ends the connection, waits until the host has cleaned up, and gives how it ended.
    fn end(&mut self) -> String {
        self.stdin = None;
        let began = Instant::now();
        loop {
            match self.keeper.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if began.elapsed() < END => thread::sleep(Duration::from_millis(10)),
                _ => break,
            }
        }
        // The host cleans up by itself when it notices.
        let _ = self.keeper.kill();
        self.keeper.wait().map_or_else(|e| e.to_string(), |status| status.to_string())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_never_an_option_and_nobody_is_asked_for_a_password() {
        let ssh = Ssh { config: Some("/c".into()) };
        let words: Vec<String> =
            ssh.arguments("h", "true", &[]).iter().map(|w| w.to_string_lossy().into_owned()).collect();
        let at = |word: &str| words.iter().position(|w| w == word).unwrap();
        assert_eq!(at("--") + 1, at("h"));
        assert_eq!(at("-F") + 1, at("/c"));
        assert!(at("BatchMode=yes") < at("--"));
    }

    #[test]
    fn instances_are_on_this_machine_unless_there_are_hosts() {
        let cluster = Cluster::new("/no/such/conf", "/w", vec!["p".into()]);
        let hosts = Hosts::open(&[], 2, &cluster).unwrap();
        assert_eq!((hosts.name(0), hosts.conf(1)), (None, None));
        assert!(hosts.command(0, &cluster, &[], Duration::from_secs(1)).is_none());
    }
}
