//! Runs the phases of a `rados bench` load.

use results::Latency;
use study::{Phase, RadosBench};

use crate::climb::run_phases;
use crate::cluster::{Cluster, Tool};
use crate::error::{Error, Result};
use crate::phase::{Instance, PhaseResult};
use crate::rados::live::Live;
use crate::rados::totals::totals;
use crate::run::{Load, OutputParser, PhaseRunner};
use crate::supervisor::{Finished, Program};
use crate::timeline::Progress;

/// What to do if there is no `rados`.
const REMEDY: &str = "apt-get install ceph-common";

/// Runs all phases; those that ended well are in `phases`, also after an error.
pub(crate) fn run(
    bench: &RadosBench,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
    phases: &mut Vec<PhaseResult>,
) -> Result<()> {
    check(bench, cluster)?;
    let shares = (cluster.instances(), bench.object_size);
    run_phases(&bench.phases, bench.ladder.as_ref(), shares, phases, |phase, wanted| match wanted {
        None => measure(bench, phase, phase.name(), cluster, runner),
        Some(wanted) => {
            let step = RadosBench { in_flight: wanted.in_flight, ..bench.clone() };
            measure(&step, phase, &wanted.label, cluster, runner)
        }
    })
}

/// One depth.
fn measure(
    bench: &RadosBench,
    phase: Phase,
    label: &str,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
) -> Result<PhaseResult> {
    let load = Load {
        phase,
        label: label.to_owned(),
        drop_caches: bench.drop_caches && phase.reads(),
        seconds: bench.seconds,
    };
    let programs = (0..cluster.pools.len()).map(|index| program(bench, cluster, index, phase)).collect();
    let parser = |pool: &String| RadosOutput { pool: pool.clone(), live: Live::new(bench.object_size) };
    runner.phase(cluster, &load, programs, cluster.pools.iter().map(parser).collect())
}

/// What the study's own check can't know.
fn check(bench: &RadosBench, cluster: &Cluster) -> Result<()> {
    cluster.check_shares(bench.in_flight)?;
    let odd = |p: &&Phase| matches!(p, Phase::RandWrite | Phase::Mixed | Phase::Run);
    if let Some(odd) = bench.phases.iter().find(odd) {
        return Err(Error::Impossible { what: format!("rados bench has no phase {}", odd.name()) });
    }
    Ok(())
}

fn program(bench: &RadosBench, cluster: &Cluster, index: usize, phase: Phase) -> Program {
    let pool = cluster.pools.get(index).map_or("", String::as_str);
    let share = bench.in_flight / cluster.instances().max(1);
    let kind = match phase {
        Phase::Read => "seq".to_owned(),
        Phase::RandRead => "rand".to_owned(),
        _ => format!("write -b {} --no-cleanup", bench.object_size),
    };
    // No word of it holds a blank: pools have names of ours.
    let words = format!("-p {pool} bench {} {kind} -t {share} --run-name lab-{pool}", bench.seconds);
    let words = words.split(' ').map(str::to_owned).collect();
    let what = format!("rados bench in the pool {pool}");
    cluster.instance(index, what, (Tool::Ceph("rados"), words, REMEDY), bench.seconds.into())
}

/// What an instance says.
struct RadosOutput {
    pool: String,
    live: Live,
}

impl OutputParser for RadosOutput {
    fn line(&mut self, line: &str) -> Option<Progress> {
        self.live.line(line)
    }

    fn result(&self, finished: &Finished) -> std::result::Result<Instance, String> {
        let totals = totals(&finished.out)?;
        let object_size = self.live.object_size();
        if totals.object_size != object_size {
            return Err(format!("it speaks of objects of {} bytes, not {object_size}", totals.object_size));
        }
        Ok(Instance {
            pool: self.pool.clone(),
            seconds: totals.seconds,
            operations: totals.operations,
            bytes: totals.operations * object_size,
            latency: Latency { mean_us: totals.mean_us, max_us: totals.max_us, histogram: None },
            min_us: totals.min_us,
            stddev_us: totals.stddev_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Clients;

    fn bench(in_flight: u32, phases: &[Phase]) -> RadosBench {
        RadosBench {
            clients: Clients { instances: 2, hosts: Vec::new(), pg_num: 32 },
            object_size: 4096,
            in_flight,
            ladder: None,
            seconds: 7,
            phases: phases.to_vec(),
            drop_caches: true,
        }
    }

    #[test]
    fn each_instance_has_its_pool_and_its_share() {
        let cluster = Cluster::new("/c", "/w", vec!["p0".into(), "p1".into()]);
        let words = |phase| {
            let program = program(&bench(32, &[]), &cluster, 1, phase);
            let words: Vec<_> =
                program.command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
            words.join(" ")
        };
        assert_eq!(words(Phase::Write), "-p p1 bench 7 write -b 4096 --no-cleanup -t 16 --run-name lab-p1");
        assert_eq!(words(Phase::Read), "-p p1 bench 7 seq -t 16 --run-name lab-p1");
        assert_eq!(words(Phase::RandRead), "-p p1 bench 7 rand -t 16 --run-name lab-p1");
    }

    #[test]
    fn what_can_t_be_shared_or_is_no_phase_of_it_is_refused() {
        let two = Cluster::new("/c", "/w", vec!["p0".into(), "p1".into()]);
        assert!(check(&bench(32, &[Phase::Write, Phase::Read]), &two).is_ok());
        assert!(check(&bench(33, &[Phase::Write]), &two).is_err());
        assert!(check(&bench(32, &[Phase::RandWrite]), &two).is_err());
        assert!(check(&bench(32, &[Phase::Write]), &Cluster::new("/c", "/w", Vec::new())).is_err());
    }
}
