//! Runs the phases of an fio load.
//!
//! Latency is from the making of a request to its end. With a fixed rate, requests come at random moments (a Poisson
//! process) whose mean is the rate. fio (3.33) could make them apart from those that wait for answers
//! (`io_submit_mode=offload`), but not with the rados and rbd engines: it hangs, since each of its submitters would need
//! an engine of its own. So whenever fio is ahead of its plan it waits for all that is in flight before it pauses, and
//! then catches up at once: arrivals come in batches where answers take longer than the time between two requests, and
//! the time that a late request waited before fio made it is in no latency. Percentiles of a stalling server are too good
//! by that; the achieved rate tells a server that can't follow.
//!
//! fio's rados engine (3.33) does not look at what became of a request: reads of an object that does not exist count as
//! tens of thousands of reads a second without an error, and so would refused writes. So reads are refused unless
//! everything was written before, and after each phase an object is written and read by `rados`; if that fails (a full
//! cluster), so has the phase. An error that comes and goes stays unseen. The rbd engine does look.
//!
//! With the rbd engine librbd's cache, on unless the ceph.conf says `rbd_cache = false`, gathers small sequential writes
//! and answers before an OSD has them: what is measured is librbd with its cache.

use std::time::Duration;

use results::Latency;
use study::{Engine, FioLoad, Phase};

use crate::climb::run_phases;
use crate::cluster::{Cluster, InstanceSpec, Tool};
use crate::error::{Error, Result};
use crate::fio::arguments::{self, IMAGE};
use crate::fio::document::Documents;
use crate::fio::histogram::of_bins;
use crate::phase::{Instance, PhaseResult};
use crate::run::{Load, OutputParser, PhaseRunner};
use crate::supervisor::{Finished, Program, run_all};
use crate::timeline::Progress;

/// What to do if there is no `fio`.
pub(crate) const REMEDY: &str = "apt-get install fio";

/// What one object may take on a cluster that has just been loaded; a full one never takes it.
const PROBE: Duration = Duration::from_secs(30);

/// Runs all phases; those that ended well are in `phases`, also after an error.
pub(crate) fn run(
    load: &FioLoad,
    cluster: &Cluster,
    runner: &mut PhaseRunner<'_>,
    phases: &mut Vec<PhaseResult>,
) -> Result<()> {
    check(load, cluster)?;
    if load.engine == Engine::Rbd {
        runner.observer.step("making the images");
        make_images(load, cluster)?;
    }
    if load.prefill {
        runner.observer.step("writing everything once");
        fill(load, cluster)?;
        if load.engine == Engine::Rados {
            probe(cluster)?;
        }
    }
    let shares = (cluster.instances(), load.block_size);
    run_phases(&load.phases, load.ladder.as_ref(), shares, phases, |phase, wanted| match wanted {
        None => measure(load, phase, phase.name(), cluster, runner),
        Some(wanted) => {
            let step = FioLoad { in_flight: wanted.in_flight, rate: wanted.rate, ..load.clone() };
            measure(&step, phase, &wanted.label, cluster, runner)
        }
    })
}

/// One depth or one rate.
fn measure(
    load: &FioLoad,
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
    let parser = |pool: &String| FioOutput { pool: pool.clone(), documents: Documents::default() };
    let result = runner.phase(cluster, &timed, programs, cluster.pools.iter().map(parser).collect())?;
    if load.engine == Engine::Rados {
        probe(cluster)?;
    }
    Ok(result)
}

fn check(load: &FioLoad, cluster: &Cluster) -> Result<()> {
    cluster.check_shares(load.in_flight)?;
    let reads = load.phases.iter().any(|p| matches!(p, Phase::Read | Phase::RandRead));
    if load.engine == Engine::Rados && reads && !load.prefill {
        let what = "fio's rados engine counts reads of what was never written as reads; let the load prefill";
        return Err(Error::Impossible { what: what.to_owned() });
    }
    if let Some(odd) = load.phases.iter().find(|p| matches!(p, Phase::Mixed | Phase::Run)) {
        return Err(Error::Impossible { what: format!("fio has no phase {}", odd.name()) });
    }
    Ok(())
}

fn make_images(load: &FioLoad, cluster: &Cluster) -> Result<()> {
    for pool in &cluster.pools {
        let mut command = cluster.ceph("rbd");
        // In bytes: rbd's own unit is MiB.
        command.args(["create", &format!("{pool}/{IMAGE}"), "--size", &format!("{}B", load.size)]);
        let what = format!("rbd create in the pool {pool}");
        let program = Program::new(what, command, "apt-get install ceph-common");
        run_all(vec![program], Duration::from_secs(u64::from(cluster.margin)), &cluster.stop, &mut |_| ())?;
    }
    Ok(())
}

/// Whether the cluster still takes and gives objects.
fn probe(cluster: &Cluster) -> Result<()> {
    let path = cluster.work_dir.join("probe");
    std::fs::write(&path, "lab").map_err(|source| Error::Io {
        doing: "writing",
        path: path.clone(),
        source,
    })?;
    for pool in &cluster.pools {
        for direction in ["put", "get"] {
            let mut command = cluster.ceph("rados");
            command.args(["-p", pool, direction, "lab.probe"]).arg(&path);
            let what = format!("after the phase, rados {direction} in the pool {pool}");
            let program = Program::new(what, command, "apt-get install ceph-common");
            run_all(vec![program], PROBE, &cluster.stop, &mut |_| ())?;
        }
    }
    Ok(())
}

fn fill(load: &FioLoad, cluster: &Cluster) -> Result<()> {
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
    cluster.programs("fio", (Tool::Host("fio"), REMEDY), seconds, arguments)
}

/// What an instance says.
struct FioOutput {
    pool: String,
    documents: Documents,
}

impl OutputParser for FioOutput {
    fn line(&mut self, line: &str) -> Option<Progress> {
        self.documents.line(line)
    }

    fn result(&self, _finished: &Finished) -> std::result::Result<Instance, String> {
        let last = self.documents.last().ok_or("it has no complete JSON document")?;
        if let Some(job) = last.jobs.iter().find(|j| j.error != 0) {
            return Err(format!("it reports error {}", job.error));
        }
        let direction = last.direction().ok_or("it has no job")?;
        let times = &direction.lat_ns;
        Ok(Instance {
            pool: self.pool.clone(),
            seconds: direction.runtime as f64 / 1e3,
            operations: direction.total_ios,
            bytes: direction.io_bytes,
            latency: Latency {
                mean_us: times.mean / 1e3,
                max_us: times.max / 1e3,
                histogram: Some(of_bins(&times.bins)),
            },
            min_us: times.min / 1e3,
            stddev_us: Some(times.stddev / 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Clients;

    fn load(engine: Engine, phases: &[Phase]) -> FioLoad {
        FioLoad {
            clients: Clients { instances: 1, hosts: Vec::new(), pg_num: 8 },
            engine,
            block_size: 4096,
            size: 1 << 20,
            in_flight: 4,
            ladder: None,
            seconds: 1,
            phases: phases.to_vec(),
            rate: None,
            prefill: true,
            drop_caches: false,
        }
    }

    #[test]
    fn reads_of_objects_that_were_never_written_are_refused() {
        let cluster = Cluster::new("/c", "/w", vec!["p".into()]);
        let empty = |engine, phase| FioLoad { prefill: false, ..load(engine, &[phase]) };
        assert!(matches!(
            check(&empty(Engine::Rados, Phase::RandRead), &cluster),
            Err(Error::Impossible { .. })
        ));
        assert!(check(&empty(Engine::Rados, Phase::RandWrite), &cluster).is_ok());
        assert!(check(&empty(Engine::Rbd, Phase::RandRead), &cluster).is_ok());
    }
}
