//! What daemons say of themselves: over the admin sockets of ours, by `ceph tell` on a cluster that the lab did not start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::cluster::Testbed;
use crate::cluster::admin::Admin;
use crate::error::Result;

/// Asks the OSDs of a cluster by `ceph tell`.
#[derive(Clone, Debug)]
pub struct AdminClient {
    admin: Admin,
}

impl AdminClient {
    /// The OSDs' names, as `osd.0`.
    ///
    /// # Errors
    /// The cluster does not answer within a minute.
    pub fn osds(&self) -> Result<Vec<String>> {
        let found = self.admin.json(&["osd", "ls"])?;
        let ids = found.as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64);
        Ok(ids.map(|id| format!("osd.{id}")).collect())
    }

    /// A daemon's answer, as JSON text.
    ///
    /// # Errors
    /// It does not answer within a minute, or does not know the command.
    pub fn ask(&self, daemon: &str, words: &[&str]) -> Result<String> {
        let mut all = vec!["tell", daemon];
        all.extend(words);
        all.extend(["-f", "json"]);
        self.admin.ask(&all)
    }
}

impl Testbed {
    /// The admin sockets of the servers that have one, by name. Loligo's have none.
    #[must_use]
    pub fn sockets(&self) -> BTreeMap<String, PathBuf> {
        let names = self.processes().into_keys();
        let socket = |name: String| Some((name.clone(), self.work_dir.paths.socket(&name)?));
        names.filter_map(socket).filter(|(_, path)| path.exists()).collect()
    }

    /// For asking the cluster's daemons by `ceph tell`.
    #[must_use]
    pub fn admin_client(&self) -> AdminClient {
        AdminClient { admin: self.admin.clone() }
    }
}
