//! What a workload needs of a system and of this machine, looked at before anything starts.

use study::{Engine, Target, WorkloadKind};

/// Why a system can't run a workload yet.
pub(crate) fn not_yet(load: &WorkloadKind, target: &Target) -> Option<String> {
    let images = matches!(load, WorkloadKind::Fio(fio) if fio.engine == Engine::Rbd);
    let ours = matches!(target, Target::Loligo { .. });
    (images && ours).then(|| "not yet: RBD images on Loligo".to_owned())
}

/// Sentences on programs that are missing.
pub(crate) fn missing(load: &WorkloadKind) -> Vec<String> {
    let needed: Vec<(String, Option<String>)> = match load {
        WorkloadKind::RadosBench(_) => vec![("rados".to_owned(), None)],
        WorkloadKind::Fio(fio) => {
            let mut programs = vec![("fio".to_owned(), None)];
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
