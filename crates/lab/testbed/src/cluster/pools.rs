//! Pools: made, removed, and waited for until every PG is active and clean.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::Testbed;
use crate::cluster::admin::{Admin, Wait};
use crate::error::{Error, Result};
use crate::ledger::Resource;

/// A pool to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    pub name: String,
    /// PGs, from its start.
    pub pg_num: u32,
    /// Copies.
    pub size: u32,
    /// What uses it: `rados`, `rbd`, ...
    pub application: String,
}

/// How long PGs have to become clean: this, and a second more for each of so many.
const CLEAN: Duration = Duration::from_secs(120);
const PGS_A_SECOND: u64 = 20;

/// How often a wait reports its progress.
const TELL: Duration = Duration::from_secs(3);

/// PGs by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    all: u64,
    clean: u64,
}

/// Reads the answer to `pg stat`: its numbers stand at the top or, in newer releases, in `pg_summary`.
fn counts(answer: &Value) -> Option<Counts> {
    let summary = answer.get("pg_summary").unwrap_or(answer);
    let all = summary.get("num_pgs")?.as_u64()?;
    let states = summary.get("num_pg_by_state")?.as_array()?;
    let is_clean = |state: &&Value| {
        let name = state.get("name").and_then(Value::as_str).unwrap_or_default();
        ["active", "clean"].iter().all(|word| name.split('+').any(|w| w == *word))
    };
    let clean = states.iter().filter(is_clean).filter_map(|s| s.get("num").and_then(Value::as_u64)).sum();
    Some(Counts { all, clean })
}

/// The PGs that all pools have together, as the map says.
fn expected(answer: &Value) -> Option<u64> {
    answer.as_array()?.iter().map(|pool| pool.get("pg_num").and_then(Value::as_u64)).sum()
}

fn make(admin: &Admin, pool: &Pool) -> Result<()> {
    let (pgs, size) = (pool.pg_num.to_string(), pool.size.to_string());
    admin.ask(&["osd", "pool", "create", &pool.name, &pgs, &pgs, "replicated", "--size", &size])?;
    admin.ask(&["osd", "pool", "application", "enable", &pool.name, &pool.application])?;
    Ok(())
}

impl Testbed {
    /// Makes a pool. Its PGs may not be ready yet: [`Testbed::wait_clean`].
    ///
    /// # Errors
    /// What the cluster says against it.
    pub fn make_pool(&mut self, pool: &Pool) -> Result<()> {
        if self.running {
            let (conf, name) = (self.conf.clone(), pool.name.clone());
            self.work_dir.ledger.about_to_make(Resource::Pool { conf, name })?;
        }
        make(&self.admin, pool)?;
        if self.running {
            // Else the cluster may change its PGs while it is measured; one that never does so knows no such thing.
            let _ = self.admin.ask(&["osd", "pool", "set", &pool.name, "pg_autoscale_mode", "off"]);
        }
        Ok(())
    }

    /// The name of the pool of an instance.
    #[must_use]
    pub fn pool_name(&self, instance: u32) -> String {
        format!("{}{instance}", self.pools)
    }

    /// Removes a pool with everything in it.
    ///
    /// # Errors
    /// What the cluster says against it (a running cluster may not allow it).
    pub fn remove_pool(&self, name: &str) -> Result<()> {
        self.admin.ask(&["osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it"]).map(drop)
    }

    /// Waits until every PG of every pool is active and clean: two minutes, and a second more for each 20 PGs.
    ///
    /// # Errors
    /// [`Error::NotUp`] with how many are not; [`Error::Ended`] when a server ended meanwhile.
    pub fn wait_clean(&mut self, say: &mut dyn FnMut(&str)) -> Result<()> {
        let admin = self.admin.clone();
        let pools = admin.json(&["osd", "pool", "ls", "detail"])?;
        let wanted = expected(&pools).ok_or_else(|| Error::Answer {
            command: "ceph osd pool ls detail".to_owned(),
            why: "it has no pg_num".to_owned(),
        })?;
        let limit = CLEAN + Duration::from_secs(wanted / PGS_A_SECOND);
        let mut seen = Counts::default();
        let (begin, mut told) = (Instant::now(), Instant::now());
        let stop = admin.runner.stop.clone();
        let wait = Wait { what: String::new(), limit, logs: &[], stop: &stop };
        let done = wait.until(|| {
            self.check()?;
            let answer = admin.json(&["pg", "stat"])?;
            seen = counts(&answer).ok_or_else(|| Error::Answer {
                command: "ceph pg stat".to_owned(),
                why: "it has no num_pg_by_state".to_owned(),
            })?;
            if told.elapsed() > TELL {
                told = Instant::now();
                say(&format!("{} of {wanted} PGs are active and clean", seen.clean));
            }
            // More than wanted: the manager makes a pool of its own some time after the start.
            Ok(seen.all >= wanted && seen.clean == seen.all)
        });
        done.map_err(|error| match error {
            Error::NotUp { .. } => Error::NotUp {
                what: format!("{} of {wanted} PGs", wanted.saturating_sub(seen.clean)),
                seconds: begin.elapsed().as_secs(),
                output: admin.ask(&["health", "detail"]).unwrap_or_else(|e| e.to_string()),
            },
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_active_and_clean_counts_whatever_else_a_pg_does() {
        let states = json!([
            {"name": "active+clean", "num": 5}, {"name": "active+clean+scrubbing+deep", "num": 1},
            {"name": "active+undersized", "num": 2}, {"name": "unknown", "num": 3}
        ]);
        let old = json!({"num_pg_by_state": states, "num_pgs": 11});
        let new = json!({"pg_ready": true, "pg_summary": old});
        assert_eq!(counts(&old), Some(Counts { all: 11, clean: 6 }));
        assert_eq!(counts(&new), counts(&old));
        assert_eq!(counts(&json!({"error": 1})), None);
    }

    #[test]
    fn pgs_of_all_pools_are_wanted() {
        assert_eq!(expected(&json!([{"pg_num": 32}, {"pg_num": 2048}])), Some(2080));
        assert_eq!(expected(&json!([])), Some(0));
        assert_eq!(expected(&json!([{"pool": 1}])), None);
    }
}
