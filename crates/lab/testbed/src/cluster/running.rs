//! A cluster that runs already: asked whether it answers, never started, stopped or configured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cluster::admin::Admin;
use crate::cluster::{Order, Parts};
use crate::error::{Doing, Error, Result};
use crate::ground::Ground;
use crate::release::Release;

/// Checks that it answers.
pub(crate) fn attach(
    ground: &mut Ground,
    order: &Order<'_>,
    conf: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Parts> {
    let conf = fs::canonicalize(conf).doing("finding", conf)?;
    say("asking the running cluster");
    let prefix = Release::installed().prefix(&conf, &ground.work.root.clone(), order.token);
    let admin = Admin { prefix, runner: ground.runner.clone() };
    let status = admin.json(&["status"]).map_err(|error| match error {
        Error::Failed { said, .. } | Error::Late { said, .. } => {
            Error::NotUp { what: format!("the running cluster of {}", conf.display()), seconds: 20, said }
        }
        other => other,
    })?;
    let health = status.pointer("/health/status").and_then(|v| v.as_str()).unwrap_or_default().to_owned();
    if health != "HEALTH_OK" {
        ground.note(format!("the running cluster says {health}"));
    }
    if !order.settings.is_empty() {
        ground.note("a running cluster is measured as it is: the study's settings do not reach it");
    }
    ground.note("which processes and devices belong to a running cluster is not known");
    let version = admin.ask(&["version"])?.trim().to_owned();
    Ok(Parts { conf, devices: BTreeMap::new(), version, admin })
}
