//! The cluster a load runs against, as its caller knows it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::bench;
use crate::error::{Error, Result};
use crate::hosts::{self, Hosts, Ssh};
use crate::supervisor::Program;

/// Everything that a load needs to reach a cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The clients' ceph.conf; empty for a system without a cluster.
    pub conf: PathBuf,
    /// Stands in front of Ceph's client programs (`rados`, `rbd`), say to run them inside a root of another release.
    /// It must end by executing what follows it, so that the process id stays the same.
    pub prefix: Vec<OsString>,
    /// Stands in front of programs of this machine (`fio`, `sh`): say, `env` with a variable that marks them. The same
    /// fio, with this machine's librados, drives every system.
    pub host_prefix: Vec<OsString>,
    /// One pool for each instance, made by the caller. Commands need none.
    pub pools: Vec<String>,
    /// What an NFS server exports, `host:/path`, for commands.
    pub export: Option<String>,
    /// A directory of this trial alone, visible to the programs at the same path. Their output is kept there.
    pub work_dir: PathBuf,
    /// Seconds beyond a phase's length before its programs are ended; prefilling has this long besides the time that
    /// the amount takes at 1 MiB a second.
    pub margin: u32,
    /// Set to end everything soon.
    pub stop: Arc<AtomicBool>,
    /// The way to client hosts.
    pub ssh: Ssh,
    /// Those of the load that runs.
    pub(crate) hosts: Arc<Hosts>,
}

/// A program of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    /// Ceph's, here behind the prefix.
    Ceph(&'static str),
    /// Any other.
    Host(&'static str),
    /// The program of this process; on a host the one in its PATH.
    Loligo,
}

/// An instance among all.
#[derive(Clone, Copy)]
pub(crate) struct InstanceSpec<'a> {
    pub pool: &'a str,
    /// From 0.
    pub index: u32,
    /// How many there are.
    pub of: u32,
    pub conf: &'a str,
}

impl Cluster {
    /// How many instances a load has: one for each pool.
    pub(crate) fn instances(&self) -> u32 {
        u32::try_from(self.pools.len()).unwrap_or(u32::MAX)
    }

    /// Fails unless each instance can have as many requests in flight as the others.
    pub(crate) fn check_shares(&self, in_flight: u32) -> Result<()> {
        let instances = self.instances();
        if instances > 0 && in_flight > 0 && in_flight % instances == 0 {
            return Ok(());
        }
        let what = format!("{in_flight} requests in flight can't be shared evenly by {instances} instances");
        Err(Error::Impossible { what })
    }

    /// A program for each instance, that should take so many seconds. `name` and `tool` are the program's, `remedy` what
    /// to do if it is not there.
    pub(crate) fn programs(
        &self,
        name: &str,
        (tool, remedy): (Tool, &'static str),
        seconds: u64,
        arguments: impl Fn(InstanceSpec<'_>) -> Vec<String>,
    ) -> Vec<Program> {
        let program = |(index, pool): (u32, &String)| {
            let conf = self.conf_of(index as usize);
            let words = arguments(InstanceSpec { pool, index, of: self.instances(), conf: &conf });
            self.instance(
                index as usize,
                format!("{name} in the pool {pool}"),
                (tool, words, remedy),
                seconds,
            )
        };
        (0..).zip(&self.pools).map(program).collect()
    }

    /// A cluster reached by this machine's own programs, with 120 s of margin.
    #[must_use]
    pub fn new(conf: impl Into<PathBuf>, work_dir: impl Into<PathBuf>, pools: Vec<String>) -> Self {
        Self {
            conf: conf.into(),
            prefix: Vec::new(),
            host_prefix: Vec::new(),
            pools,
            export: None,
            work_dir: work_dir.into(),
            margin: 120,
            stop: Arc::default(),
            ssh: Ssh::default(),
            hosts: Arc::default(),
        }
    }

    /// The ceph.conf, as an instance finds it where it runs.
    pub(crate) fn conf_of(&self, instance: usize) -> String {
        self.hosts.conf(instance).unwrap_or_else(|| self.conf.to_string_lossy().into_owned())
    }

    /// A program of an instance, on its host or here in the work directory. `seconds` is how long it should take.
    pub(crate) fn instance(
        &self,
        instance: usize,
        what: String,
        (tool, arguments, remedy): (Tool, Vec<String>, &'static str),
        seconds: u64,
    ) -> Program {
        let bound = Duration::from_secs(seconds + u64::from(self.margin));
        let name = match tool {
            Tool::Ceph(name) | Tool::Host(name) => name,
            Tool::Loligo => "loligo",
        };
        let words: Vec<String> = [name.to_owned()].into_iter().chain(arguments.iter().cloned()).collect();
        if let Some(command) = self.hosts.command(instance, self, &words, bound) {
            let what = format!("{what} on the host {}", self.hosts.name(instance).unwrap_or_default());
            return Program::new(what, command, hosts::REMEDY).elsewhere();
        }
        let mut command = match tool {
            Tool::Ceph(name) => self.ceph(name),
            Tool::Host(name) => self.host(name),
            Tool::Loligo => self.host(&bench::program_name()),
        };
        if matches!(tool, Tool::Host(_) | Tool::Loligo) {
            command.current_dir(&self.work_dir);
        }
        command.args(arguments);
        Program::new(what, command, remedy)
    }

    /// One of Ceph's programs.
    pub(crate) fn ceph(&self, program: &str) -> Command {
        self.command(&self.prefix, program)
    }

    /// One of this machine's programs.
    pub(crate) fn host(&self, program: &str) -> Command {
        self.command(&self.host_prefix, program)
    }

    fn command(&self, prefix: &[OsString], program: &str) -> Command {
        let mut words = prefix.iter().map(OsString::as_os_str).chain([OsStr::new(program)]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_remove("CEPH_ARGS");
        if !self.conf.as_os_str().is_empty() {
            command.env("CEPH_CONF", &self.conf);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_stands_in_front_of_ceph_programs_only() {
        let mut cluster = Cluster::new("/c/ceph.conf", "/w", vec![]);
        cluster.prefix = vec!["env".into(), "A=b".into()];
        let rados = cluster.ceph("rados");
        assert_eq!(rados.get_program(), "env");
        assert_eq!(rados.get_args().collect::<Vec<_>>(), ["A=b", "rados"]);
        assert_eq!(cluster.host("fio").get_program(), "fio");
        assert!(rados.get_envs().any(|(k, v)| k == "CEPH_CONF" && v == Some(OsStr::new("/c/ceph.conf"))));
    }
}
