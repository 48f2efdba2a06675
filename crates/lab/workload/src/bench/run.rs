//! Runs the phases of a `loligo bench` load.
//!
//! With a fixed rate, requests come at random moments (a Poisson process), whatever the server does, and the latency of
//! each counts from the moment that was planned: a server that stalls shows in the percentiles.

use std::time::Duration;

use study::{BenchLoad, Phase};

use crate::bench::arguments;
use crate::bench::output::BenchOutput;
use crate::climb::run_phases;
use crate::cluster::{Cluster, InstanceSpec, Tool};
use crate::error::{Error, Result};
use crate::phase::PhaseResult;
use crate::run::{Load, PhaseRunner};
use crate::supervisor::{Program, run_all};

/// What to do if there is no `loligo`.
pub(crate) const REMEDY: &str = "put the program loligo into a directory of PATH";

/// The program: the one that runs the lab.
pub(crate) fn program_name() -> String {
    let own = std::env::current_exe().ok();
    own.map_or_else(|| "loligo".into(), |path| path.to_string_lossy().into_owned())
}

/// Runs all phases; those that ended well are in `phases`, also after an error.
pub(crate) fn run(
    load: &BenchLoad,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
    phases: &mut Vec<PhaseResult>,
) -> Result<()> {
    check(load, cluster)?;
    runner.observer.step("writing everything once");
    fill(load, cluster)?;
    let shares = (cluster.instances(), load.block_size);
    run_phases(&load.phases, load.ladder.as_ref(), shares, phases, |phase, wanted| match wanted {
        None => measure(load, phase, phase.name(), cluster, runner),
        Some(wanted) => {
            let step = BenchLoad { in_flight: wanted.in_flight, rate: wanted.rate, ..load.clone() };
            measure(&step, phase, &wanted.label, cluster, runner)
        }
    })
}

/// One depth or one rate.
fn measure(
    load: &BenchLoad,
    phase: Phase,
    label: &str,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
) -> Result<PhaseResult> {
    let timed = Load {
        phase,
        label: label.to_owned(),
        drop_caches: load.drop_caches && phase.reads(),
        seconds: load.seconds,
    };
    let programs = programs(cluster, load.seconds.into(), |instance| arguments::phase(load, phase, instance));
    let parsers = cluster.pools.iter().map(|pool| BenchOutput { pool: pool.clone() }).collect();
    runner.phase(cluster, &timed, programs, parsers)
}

fn check(load: &BenchLoad, cluster: &Cluster) -> Result<()> {
    cluster.check_shares(load.in_flight)?;
    if load.phases.contains(&Phase::Run) {
        return Err(Error::Impossible { what: "loligo bench has no phase run".to_owned() });
    }
    Ok(())
}

fn fill(load: &BenchLoad, cluster: &Cluster) -> Result<()> {
    let total = load.size.saturating_mul(cluster.pools.len() as u64);
    let limit = Duration::from_secs(u64::from(cluster.margin) + (total >> 20));
    let programs = programs(cluster, total >> 20, |instance| arguments::fill(load, instance));
    run_all(programs, limit, &cluster.stop, &mut |_| ()).map(drop)
}

/// One for each instance, that should take so many seconds.
fn programs(
    cluster: &Cluster,
    seconds: u64,
    arguments: impl Fn(InstanceSpec<'_>) -> Vec<String>,
) -> Vec<Program> {
    cluster.programs("loligo bench", (Tool::Loligo, REMEDY), seconds, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Clients;

    #[test]
    fn what_can_t_be_shared_or_is_no_phase_of_it_is_refused() {
        let load = |in_flight, phase| BenchLoad {
            clients: Clients { instances: 2, hosts: Vec::new(), pg_num: 8 },
            block_size: 4096,
            size: 1 << 20,
            in_flight,
            ladder: None,
            seconds: 1,
            phases: vec![phase],
            reads_percent: None,
            rate: None,
            drop_caches: false,
        };
        let cluster = Cluster::new("/c", "/w", vec!["p0".into(), "p1".into()]);
        assert!(check(&load(32, Phase::RandRead), &cluster).is_ok());
        assert!(check(&load(33, Phase::RandRead), &cluster).is_err());
        assert!(check(&load(32, Phase::Run), &cluster).is_err());
    }
}
