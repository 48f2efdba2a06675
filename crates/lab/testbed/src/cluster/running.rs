//! A cluster that runs already: asked whether it answers, never started, stopped or configured. Pools of the lab's own
//! are made in it and removed after each trial, or at the next start.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cluster::admin::Admin;
use crate::cluster::{Order, Parts};
use crate::error::{Doing, Error, Result};
use crate::release::Release;
use crate::run::Runner;
use crate::work_dir::{Paths, WorkDir};

/// How long the cluster may take to answer before a run.
const ANSWER: Duration = Duration::from_secs(40);

/// Whatever prevents measuring it: that it does not answer, or does not let pools go.
pub(crate) fn check(conf: &Path) -> Result<()> {
    let prefix = vec!["env".into(), format!("CEPH_CONF={}", conf.display()).into()];
    let admin = Admin { prefix, runner: Runner::default() };
    let status = admin.json(&["status"]).map_err(|error| not_up(conf, error))?;
    let monitor = status.pointer("/quorum_names/0").and_then(|v| v.as_str()).unwrap_or("a").to_owned();
    let option = ["tell", &format!("mon.{monitor}"), "config", "get", "mon_allow_pool_delete"];
    // One that can't tell is believed to; what it says later names the pool.
    let allows = admin.json(&option).ok().and_then(|v| v.get("mon_allow_pool_delete").cloned());
    match allows.is_some_and(|v| v.as_str() == Some("false") || v.as_bool() == Some(false)) {
        false => Ok(()),
        true => Err(Error::Impossible {
            what: format!(
                "the running cluster of {} does not let pools go (mon_allow_pool_delete is false), and the lab's \
                 would stay there; allow it for the time of the run: ceph config set mon mon_allow_pool_delete true",
                conf.display()
            ),
        }),
    }
}

pub(crate) fn not_up(conf: &Path, error: Error) -> Error {
    match error {
        Error::Failed { output, .. } | Error::Late { output, .. } => {
            Error::NotUp { what: format!("the running cluster of {}", conf.display()), seconds: 20, output }
        }
        other => other,
    }
}

/// Removes a pool that the lab made. One that was never made, or is gone, is fine.
pub(crate) fn remove_pool(conf: &Path, name: &str, paths: &Paths) -> Result<()> {
    let mut command = Command::new("ceph");
    command.env("CEPH_CONF", conf).env_remove("CEPH_ARGS");
    command.args([
        "--connect-timeout",
        "20",
        "osd",
        "pool",
        "rm",
        name,
        name,
        "--yes-i-really-really-mean-it",
    ]);
    // Not to be stopped: a caller who wants to stop wants this done.
    match Runner::default().run("removing the pool", command, ANSWER) {
        Ok(_) => Ok(()),
        Err(Error::Failed { output, .. } | Error::Late { output, .. }) => Err(Error::Stays {
            what: format!("the pool {name} in the running cluster of {}", conf.display()),
            why: format!(
                "{output}; run the lab again when the cluster can, or remove the pool by hand and then {}",
                paths.ledger().display()
            ),
        }),
        Err(other) => Err(other),
    }
}

/// Checks that it answers.
pub(crate) fn attach(
    work_dir: &mut WorkDir,
    order: &Order<'_>,
    conf: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    let conf = fs::canonicalize(conf).doing("finding", conf)?;
    say("asking the running cluster");
    let prefix = Release::installed().prefix(&conf, &work_dir.paths.root.clone(), order.token);
    let admin = Admin { prefix, runner: work_dir.runner.clone() };
    let status = admin.json(&["status"]).map_err(|error| not_up(&conf, error))?;
    let health = status.pointer("/health/status").and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    if health != "HEALTH_OK" {
        work_dir.note(format!("the running cluster says {health}"));
    }
    if !order.settings.is_empty() {
        work_dir.note("a running cluster is measured as it is: the study's settings do not reach it");
    }
    work_dir.note("which processes and devices belong to a running cluster is not known");
    let answer = admin.json(&["version"])?;
    let version = answer.get("version").and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    Ok(Parts { conf, devices: BTreeMap::new(), version, admin, export: None })
}
