//! Before a run: whether each host answers and has what the load needs.

use std::sync::atomic::AtomicBool;
use std::thread;

use study::{Clients, WorkloadKind};

use crate::bench;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::hosts::{ANSWER, REMEDY, script};
use crate::supervisor::{Program, run_all};

/// What a program on a host is for, and Debian's package that has it.
const PACKAGES: [(&str, &str); 5] = [
    ("rados", "ceph-common"),
    ("fio", "fio"),
    ("setsid", "util-linux"),
    ("timeout", "coreutils"),
    ("mktemp", "coreutils"),
];

/// What every load needs on a host, beside its own program.
const ALWAYS: [&str; 3] = ["setsid", "timeout", "mktemp"];

/// A load's clients and its program on hosts; none where it has no hosts.
fn needs(kind: &WorkloadKind) -> Option<(&Clients, &'static str)> {
    let (clients, program) = match kind {
        WorkloadKind::RadosBench(bench) => (&bench.clients, "rados"),
        WorkloadKind::Fio(fio) => (&fio.clients, "fio"),
        WorkloadKind::LoligoBench(bench) => (&bench.clients, "loligo"),
        WorkloadKind::Command(_) => return None,
    };
    (!clients.hosts.is_empty()).then_some((clients, program))
}

/// Sentences on hosts that don't answer within half a minute, or lack a program. `cluster` gives the way to ssh.
pub fn in_the_way(kind: &WorkloadKind, cluster: &Cluster) -> Vec<String> {
    let Some((clients, program)) = needs(kind) else { return Vec::new() };
    let programs = [&[program], &ALWAYS[..]].concat();
    let told = |(host, answer): (&String, Result<String>)| match answer {
        Err(error) => vec![format!("the host {host} can't be used: {error}")],
        Ok(answer) => missing(host, &programs, &answer),
    };
    clients.hosts.iter().zip(ask_all(&clients.hosts, &programs, cluster)).flat_map(told).collect()
}

/// The load's words on its version on each host: one where all agree.
///
/// # Errors
/// The first host that does not answer.
pub fn versions(kind: &WorkloadKind, cluster: &Cluster) -> Result<Option<String>> {
    let Some((clients, program)) = needs(kind) else { return Ok(None) };
    let answers: Vec<String> =
        ask_all(&clients.hosts, &[program], cluster).into_iter().collect::<Result<_>>()?;
    let version = |answer: &String| {
        let has = format!("has {program} ");
        answer.lines().find_map(|l| l.strip_prefix(&has)).unwrap_or("not there").trim().to_owned()
    };
    let versions: Vec<String> = answers.iter().map(version).collect();
    Ok(Some(match versions.split_first() {
        Some((first, rest)) if rest.iter().all(|v| v == first) => first.clone(),
        _ => {
            let each = clients.hosts.iter().zip(&versions).map(|(host, v)| format!("{host}: {v}"));
            each.collect::<Vec<_>>().join("; ")
        }
    }))
}

/// Asks all hosts at once.
fn ask_all(hosts: &[String], programs: &[&str], cluster: &Cluster) -> Vec<Result<String>> {
    thread::scope(|scope| {
        let all: Vec<_> = hosts.iter().map(|host| scope.spawn(|| ask(host, programs, cluster))).collect();
        all.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn ask(host: &str, programs: &[&str], cluster: &Cluster) -> Result<String> {
    let words: Vec<String> = programs.iter().map(|p| (*p).to_owned()).collect();
    let mut command = cluster.host("ssh");
    command.args(cluster.ssh.arguments(host, script::LOOK, &words));
    let program = Program::new(format!("ssh to {host}"), command, REMEDY);
    let finished = run_all(vec![program], ANSWER, &AtomicBool::new(false), &mut |_| ())?;
    let answer = finished.into_iter().next().map(|f| f.out).unwrap_or_default();
    match answer.lines().any(|l| l.starts_with("has ") || l.starts_with("lacks ")) {
        true => Ok(answer),
        false => Err(Error::Impossible { what: "its login shell does not run what ssh hands it".to_owned() }),
    }
}

fn missing(host: &str, programs: &[&str], answer: &str) -> Vec<String> {
    let has = |program: &str| answer.lines().any(|l| l.starts_with(&format!("has {program} ")));
    let package = |program: &str| {
        PACKAGES.iter().find(|(name, _)| *name == program).map_or("its package", |(_, package)| package)
    };
    let absent = programs.iter().filter(|program| !has(program));
    let remedy = |program: &str| match program {
        "loligo" => bench::REMEDY.to_owned(),
        program => format!("apt-get install {}", package(program)),
    };
    absent.map(|p| format!("{p} is not installed on the host {host}: {}", remedy(p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_lacks_is_named_with_its_package() {
        let answer = "motd\nhas setsid setsid from util-linux 2.38\nlacks fio\nhas mktemp x\nhas timeout x\n";
        assert_eq!(
            missing("a", &["fio", "setsid", "timeout", "mktemp"], answer),
            ["fio is not installed on the host a: apt-get install fio"]
        );
    }
}
