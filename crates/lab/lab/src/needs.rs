//! What a workload needs of a system and of this machine, looked at before anything starts.

use std::path::Path;

use study::{Engine, Target, WorkloadKind};

/// Why a system can't run a workload yet.
pub(crate) fn not_yet(load: &WorkloadKind, target: &Target) -> Option<String> {
    let images = matches!(load, WorkloadKind::Fio(fio) if fio.engine == Engine::Rbd);
    let ours = matches!(target, Target::Loligo { .. });
    (images && ours).then(|| "not yet: RBD images on Loligo".to_owned())
}

/// Sentences on client hosts that don't answer, or lack what the load needs.
pub(crate) fn of_hosts(load: &WorkloadKind, ssh_config: Option<&Path>) -> Vec<String> {
    let mut cluster = workload::Cluster::new("", "", Vec::new());
    cluster.ssh.config = ssh_config.map(Path::to_owned);
    workload::in_the_way(load, &cluster)
}

/// What this machine needs for a load's program: with client hosts, only the way to them.
fn here(program: &str, hosts: &[String]) -> String {
    if hosts.is_empty() { program } else { "ssh" }.to_owned()
}

/// Sentences on programs that are missing.
pub(crate) fn missing(load: &WorkloadKind) -> Vec<String> {
    let needed: Vec<(String, Option<String>)> = match load {
        WorkloadKind::RadosBench(bench) => vec![(here("rados", &bench.clients.hosts), None)],
        WorkloadKind::Fio(fio) => {
            let mut programs = vec![(here("fio", &fio.clients.hosts), None)];
            programs.extend((fio.engine == Engine::Rbd).then(|| ("rbd".to_owned(), None)));
            programs
        }
        WorkloadKind::Command(command) => {
            command.needs.iter().map(|(program, package)| (program.clone(), Some(package.clone()))).collect()
        }
    };
    let absent = needed.into_iter().filter(|(program, _)| testbed::program(program).is_err());
    absent
        .map(|(program, package)| {
            let package = package.or_else(|| testbed::package_of(&program).map(str::to_owned));
            match package {
                Some(package) => format!("there is no {program} on this machine: apt-get install {package}"),
                None => format!("there is no {program} on this machine"),
            }
        })
        .collect()
}
