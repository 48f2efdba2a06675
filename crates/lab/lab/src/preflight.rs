//! What a workload needs of a system and of this machine, looked at before anything starts.

use std::path::Path;

use study::{Engine, Setting, Study, System, Target, Variant, Workload, WorkloadKind};

/// A sentence for each system on which fio would measure librbd's cache.
pub(crate) fn of_librbd(study: &Study) -> Vec<String> {
    let images = |w: &&Workload| matches!(&w.kind, WorkloadKind::Fio(fio) if fio.engine == Engine::Rbd);
    let loads: Vec<&str> = study.workloads.iter().filter(images).map(|w| w.name.as_str()).collect();
    if loads.is_empty() {
        return Vec::new();
    }
    let has_images = |s: &&System| !matches!(s.target, Target::Nfs { .. });
    let told = |system: &System| {
        let cached = |v: &&Variant| has_cache(&study::settings_of(study, system, v));
        let variants = study.variants.iter().filter(cached).count();
        (variants > 0).then(|| {
            format!(
                "{}: {} of {} variants leave librbd's cache on, which gathers small writes and answers before an OSD \
                 has them ({}); rbd_cache = false in [client] turns it off",
                system.name,
                variants,
                study.variants.len(),
                loads.join(", ")
            )
        })
    };
    study.systems.iter().filter(has_images).filter_map(told).collect()
}

/// Whether a client with these settings has librbd's cache; the later of two of a section counts, `client` before
/// `global`.
fn has_cache(settings: &[Setting]) -> bool {
    let of = |section: &str| {
        settings.iter().rev().find(|s| s.section == section && options::normalize(&s.name) == "rbd_cache")
    };
    let off =
        |s: &Setting| matches!(s.value.trim().to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0");
    !["client.admin", "client", "global"].iter().find_map(|section| of(section)).is_some_and(off)
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
        // The program is this one.
        WorkloadKind::LoligoBench(bench) if bench.clients.hosts.is_empty() => Vec::new(),
        WorkloadKind::LoligoBench(_) => vec![("ssh".to_owned(), None)],
        WorkloadKind::Command(command) => {
            command.needs.iter().map(|(program, package)| (program.clone(), Some(package.clone()))).collect()
        }
    };
    let absent = needed.into_iter().filter(|(program, _)| testbed::program(program).is_err());
    absent
        .map(|(program, package)| {
            let package = package.or_else(|| testbed::package_of(&program).map(str::to_owned));
            match package {
                Some(package) => {
                    format!("{program} is not installed on this machine: apt-get install {package}")
                }
                None => format!("{program} is not installed on this machine"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(client: &str) -> Vec<String> {
        let text = format!(
            "name: n\ntitle: t\nsystems: [{{name: s, ceph: {{release: 16.2, store: memstore}}}}]\nworkloads:\n\
             - {{name: w, fio: {{engine: rbd, block_size: 4K, size: 1G, in_flight: 1, seconds: 1, phases: [write]}}}}\n\
             default: {{{client}}}\nparametric: {{client/rbd_cache: ['true']}}\n"
        );
        of_librbd(&study::parse(&text, "f").unwrap())
    }

    #[test]
    fn librbds_cache_is_told_unless_it_is_off() {
        assert!(notes("debug_ms: 0")[0].starts_with("s: 2 of 2 variants leave librbd's cache on"));
        assert!(notes("client: {rbd cache: off}")[0].starts_with("s: 1 of 2 variants"));
        assert!(notes("global: {rbd_cache: 'false'}")[0].starts_with("s: 1 of 2"));
        assert!(
            notes("global: {rbd_cache: 'false'}, client: {rbd_cache: 'true'}")[0].starts_with("s: 2 of 2")
        );
    }
}
