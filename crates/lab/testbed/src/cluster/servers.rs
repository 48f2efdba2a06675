//! The servers of a cluster: started in the foreground as our children, in process groups of their own (Ctrl-C is not
//! for them), with their output in the log directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::error::{Doing, Error, Result};
use crate::ledger::Resource;
use crate::processes::{self, Process};
use crate::release::command;
use crate::run::last_lines;
use crate::work_dir::{Paths, WorkDir};

#[derive(Debug)]
struct Server {
    name: String,
    process: Process,
    /// Absent where it went to the background by itself.
    child: Option<Child>,
}

/// All servers of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    servers: Vec<Server>,
}

impl Servers {
    /// Starts one. `prefix` is put before its program.
    pub(crate) fn start(
        &mut self,
        work_dir: &mut WorkDir,
        prefix: &[OsString],
        name: &str,
        program: &str,
        arguments: &[&str],
    ) -> Result<()> {
        let out = work_dir.paths.out(name);
        let file = File::options().create(true).append(true).open(&out).doing("making", &out)?;
        let second = file.try_clone().doing("making", &out)?;
        let mut command: Command = command(prefix, program, arguments);
        command.stdin(Stdio::null()).stdout(file).stderr(second).process_group(0);
        let mut child = command.spawn().doing("starting", program)?;
        let Some(process) = processes::find(child.id()) else {
            let status = child.wait().doing("waiting for", program)?;
            return Err(ended(name, &status.to_string(), &work_dir.paths));
        };
        // A child that is not in the list would not be reaped, one without its line is still found by its token.
        self.servers.push(Server { name: name.to_owned(), process, child: Some(child) });
        write_down(work_dir, name, process)
    }

    /// Takes in a server that went to the background by itself.
    pub(crate) fn adopt(&mut self, work_dir: &mut WorkDir, name: &str, process: Process) -> Result<()> {
        self.servers.push(Server { name: name.to_owned(), process, child: None });
        write_down(work_dir, name, process)
    }

    /// An error if one of them has ended.
    pub(crate) fn check(&mut self, paths: &Paths) -> Result<()> {
        for server in &mut self.servers {
            let status = match &mut server.child {
                Some(child) => child.try_wait().doing("waiting for", &server.name)?.map(|s| s.to_string()),
                None => (!processes::runs(server.process)).then(|| "unknown".to_owned()),
            };
            if let Some(status) = status {
                return Err(ended(&server.name, &status, paths));
            }
        }
        Ok(())
    }

    /// Their process ids by name.
    pub(crate) fn pids(&self) -> BTreeMap<String, u32> {
        self.servers.iter().map(|s| (s.name.clone(), s.process.pid)).collect()
    }

    /// Collects those that were ended, so that nothing of them stays.
    pub(crate) fn reap(&mut self) {
        for server in &mut self.servers {
            if let Some(child) = &mut server.child {
                // Whoever still runs is not waited for: the ledger has it.
                let _ = child.try_wait();
            }
        }
        self.servers.clear();
    }
}

fn write_down(work_dir: &mut WorkDir, name: &str, process: Process) -> Result<()> {
    let resource = Resource::Process { name: name.to_owned(), pid: process.pid, start: process.start };
    work_dir.ledger.about_to_make(resource).map(drop)
}

fn ended(name: &str, status: &str, paths: &Paths) -> Error {
    let output = last_lines(&[&paths.out(name), &paths.log(name)]);
    Error::Ended { name: name.to_owned(), status: status.to_owned(), output }
}
