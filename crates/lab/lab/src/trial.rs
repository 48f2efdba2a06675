//! One trial: a fresh cluster, its pools, the load with the machine watched, the record; taken down whatever happens.

use std::path::Path;
use std::time::Instant;

use results::{Build, Directory, FORMAT, Outcome, Parameters, Record, Status};
use study::{Clients, Place, System, Trial, Workload, WorkloadKind};
use testbed::{Pool, Site, Testbed, Wanted};
use workload::Cluster;

use crate::args::RunArgs;
use crate::clock;
use crate::interrupt::Interrupt;
use crate::observe::Observed;
use crate::prepare::Prepared;
use crate::progress::Progress;

/// What trials are run with.
pub(crate) struct Bench<'a> {
    pub prepared: &'a Prepared,
    pub site: &'a Site,
    pub directory: &'a Directory,
    pub interrupt: &'a Interrupt,
    pub args: &'a RunArgs,
}

/// Why a trial failed, for its record.
type Words = String;

impl Bench<'_> {
    /// Runs a trial. Errors go into the record.
    pub fn run(&self, trial: &Trial, progress: &mut Progress) -> Record {
        let began = Instant::now();
        let mut record = self.blank(trial);
        let result = self.measure(trial, &mut record, progress);
        let (status, error) = match result {
            Ok(()) => (Status::Ok, String::new()),
            Err(_) if self.interrupt.is_set() => (Status::Interrupted, "stopped by the user".to_owned()),
            Err(words) => (Status::Failed, words),
        };
        let keep = status == Status::Failed || self.args.keep_logs;
        let logs = if keep { self.keep_logs(&trial.id) } else { String::new() };
        record.outcome = Outcome { status, error, logs };
        record.took_s = began.elapsed().as_secs_f64();
        record
    }

    fn measure(&self, trial: &Trial, record: &mut Record, progress: &mut Progress) -> Result<(), Words> {
        let (system, workload) = self.parts(trial);
        let variant = &self.prepared.study.variants[trial.cell.variant];
        let settings = self.prepared.settings(system, variant);
        let wanted = Wanted { system, settings: &settings, file_system: workload.needs_file_system() };
        let mut bed = testbed::start(self.site, &wanted, &mut |words| progress.step(words)).map_err(words)?;
        let measured =
            self.load(trial, &mut bed, record, progress).map_err(|why| match bed.still_answers() {
                Ok(()) => why,
                Err(gone) => format!("{gone}\n{why}"),
            });
        let still_there = bed.check().map_err(words);
        let down = bed.take_down(&mut |words| progress.step(words)).map_err(words);
        // The first error is reported.
        measured.and(still_there).and(down.map(drop))
    }

    fn parts(&self, trial: &Trial) -> (&System, &Workload) {
        let study = &self.prepared.study;
        (&study.systems[trial.cell.system], &study.workloads[trial.cell.workload])
    }

    /// Puts the load on and notes what it gave, phase by phase; phases that ended before a failure are kept.
    fn load(
        &self,
        trial: &Trial,
        bed: &mut Testbed,
        record: &mut Record,
        progress: &mut Progress,
    ) -> Result<(), Words> {
        let (system, workload) = self.parts(trial);
        let scratch = bed.scratch().map_err(words)?;
        let mut cluster = Cluster::new(bed.conf(), scratch, Vec::new());
        cluster.export = bed.export().map(str::to_owned);
        cluster.prefix = bed.client_prefix().to_vec();
        cluster.host_prefix = bed.host_prefix().to_vec();
        cluster.ssh = workload::Ssh { config: self.args.ssh_config.clone() };
        cluster.stop = self.interrupt.flag();
        cluster.pools = make_pools(bed, system, workload, progress)?;
        record.build = Build {
            lab: env!("CARGO_PKG_VERSION").to_owned(),
            server: bed.version().to_owned(),
            client: workload::client_version(&workload.kind, &cluster).unwrap_or_default(),
        };
        let mut observed = Observed::new(bed, progress)?;
        if trial.profiled {
            observed.profile(bed, self.directory, &trial.id, &cluster.work_dir);
        }
        let ran = workload::run(&workload.kind, &cluster, observed.origin(), &mut observed);
        record.measurements = observed.finish(&ran.phases, (self.directory, &trial.id))?;
        let Some(failure) = ran.failure else { return Ok(()) };
        keep_output(&cluster.work_dir, &self.site.work_dir.join("log"));
        Err(failure.to_string())
    }

    fn blank(&self, trial: &Trial) -> Record {
        Record {
            format: FORMAT,
            id: trial.id.clone(),
            order: trial.order,
            block: trial.block,
            confirms: trial.confirms,
            profiled: trial.profiled,
            started: clock::now_text(),
            took_s: 0.0,
            parameters: self.parameters(trial),
            build: Build::default(),
            outcome: Outcome { status: Status::Interrupted, error: String::new(), logs: String::new() },
            measurements: Vec::new(),
        }
    }

    fn parameters(&self, trial: &Trial) -> Parameters {
        let (system, workload) = self.parts(trial);
        let variant = &self.prepared.study.variants[trial.cell.variant];
        let set = variant.settings.iter().map(|s| (format!("{}/{}", s.section, s.name), s.value.clone()));
        let (block_size, in_flight, open_loop) = match &workload.kind {
            WorkloadKind::RadosBench(bench) if bench.ladder.is_some() => (bench.object_size, 0, false),
            WorkloadKind::RadosBench(bench) => (bench.object_size, bench.in_flight, false),
            // Each step of a ladder reports its own.
            WorkloadKind::Fio(fio) if fio.ladder.is_some() => (fio.block_size, 0, false),
            WorkloadKind::Fio(fio) => (fio.block_size, fio.in_flight, fio.rate.is_some()),
            WorkloadKind::LoligoBench(bench) if bench.ladder.is_some() => (bench.block_size, 0, false),
            WorkloadKind::LoligoBench(bench) => (bench.block_size, bench.in_flight, bench.rate.is_some()),
            WorkloadKind::Command(_) => (0, 0, false),
        };
        let clients = workload.clients();
        Parameters {
            system: system.name.clone(),
            program: system.target.program().to_owned(),
            release: system.target.release().to_owned(),
            store: system.target.store().to_owned(),
            place: system.place.to_string(),
            journal: system.journal.as_ref().map(Place::to_string).unwrap_or_default(),
            modelled: is_modelled(&system.place) || system.journal.as_ref().is_some_and(is_modelled),
            osds: system.osds,
            pool_size: system.pool_size,
            variant: variant.name.clone(),
            parameter: variant.parameter.clone(),
            settings: set.collect(),
            workload: workload.name.clone(),
            load: workload.load().to_owned(),
            block_size,
            in_flight,
            instances: clients.map_or(1, Clients::total),
            hosts: clients.map(|c| c.hosts.join(" ")).unwrap_or_default(),
            pg_num: clients.map_or(0, |c| c.pg_num),
            open_loop,
        }
    }

    /// Copies the last cluster's logs; where to is told relative to the results. What can't be copied is left.
    fn keep_logs(&self, id: &str) -> String {
        let logs = testbed::logs(&self.site.work_dir);
        if logs.is_empty() {
            return String::new();
        }
        let Ok(into) = self.directory.logs(id) else { return String::new() };
        for log in logs {
            if let Some(name) = log.file_name() {
                let _ = std::fs::copy(&log, into.join(name));
            }
        }
        let relative = into.strip_prefix(self.directory.path()).unwrap_or(&into);
        relative.display().to_string()
    }
}

/// Puts what the load's programs said beside the servers' logs. What can't be copied is left.
fn keep_output(from: &Path, logs: &Path) {
    let _ = std::fs::create_dir_all(logs);
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|e| e == "out")) {
            let _ = std::fs::copy(&path, logs.join(name));
        }
    }
}

fn words(error: impl std::fmt::Display) -> Words {
    error.to_string()
}

/// A pool for each client instance; they are waited for until every PG is clean.
fn make_pools(
    bed: &mut Testbed,
    system: &System,
    workload: &Workload,
    progress: &mut Progress,
) -> Result<Vec<String>, Words> {
    let Some(clients) = workload.clients() else { return Ok(Vec::new()) };
    let application = match &workload.kind {
        WorkloadKind::Fio(fio) if fio.engine == study::Engine::Rbd => "rbd",
        _ => "rados",
    };
    let names: Vec<String> = (0..clients.total()).map(|i| bed.pool_name(i)).collect();
    for name in &names {
        progress.step(&format!("making pool {name}"));
        let pool = Pool {
            name: name.clone(),
            pg_num: clients.pg_num,
            size: system.pool_size,
            application: application.to_owned(),
        };
        bed.make_pool(&pool).map_err(words)?;
    }
    bed.wait_clean(&mut |words| progress.step(words)).map_err(words)?;
    Ok(names)
}

fn is_modelled(place: &Place) -> bool {
    matches!(place, Place::Modelled { .. })
}
