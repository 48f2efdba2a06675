//! Names of objects, as `rados bench` gives them.

/// Where the record of a run without a name is.
pub(crate) const RECORD: &str = "benchmark_last_metadata";
const PREFIX: &str = "benchmark_data";
/// Ends the name of a mark.
const MARK: &str = "_unfinished";
/// Process ids are below this.
const PIDS: i32 = 1 << 22;

/// Instances that a process may have, so that each has a number of its own in its objects' names.
pub(crate) const INSTANCES_MAX: usize = (i32::MAX / PIDS) as usize;

/// The host's name and a number make a run's prefix: those of process and instance.
pub(crate) fn writer(pid: i32, instance: usize) -> i32 {
    pid % PIDS + (instance as i32) * PIDS
}

/// What the names of an instance's objects begin with.
pub(crate) fn prefix(host: &str, writer: i32) -> String {
    format!("{PREFIX}_{host}_{writer}")
}

pub(crate) fn object(prefix: &str, number: u64) -> String {
    format!("{}{number}", objects_prefix(prefix))
}

/// What the names of an instance's objects begin with, and those of no other instance.
pub(crate) fn objects_prefix(prefix: &str) -> String {
    format!("{prefix}_object")
}

/// The mark of a run with objects of this prefix. `rados cleanup` removes it with them.
pub(crate) fn mark(prefix: &str) -> String {
    format!("{prefix}{MARK}")
}

/// The prefix that a mark's object name stands for; `None` if the name is not a mark's.
pub(crate) fn marked(name: &str) -> Option<&str> {
    name.strip_suffix(MARK).filter(|prefix| prefix.starts_with(PREFIX))
}

/// Whether the run of a prefix may go on: that of a process of this host that is there, or of another host.
pub(crate) fn may_run(prefix: &str) -> bool {
    let writer = prefix.strip_prefix(&format!("{PREFIX}_{}_", host())).and_then(|writer| writer.parse().ok());
    // An own process that has the number of one that has ended is another program, or this one.
    writer.is_none_or(|writer: i32| is_bench(writer % PIDS))
}

/// Whether a process is another one of this program.
fn is_bench(pid: i32) -> bool {
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    pid != std::process::id() as i32 && name(&pid.to_string()).is_some_and(|comm| Some(comm) == name("self"))
}

/// Where the record of an instance is: the n-th of those in its pool.
pub(crate) fn record(run_name: Option<&str>, nth_in_pool: usize) -> String {
    let name = run_name.unwrap_or(RECORD);
    if nth_in_pool == 0 { name.to_owned() } else { format!("{name}.{nth_in_pool}") }
}

/// This host's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_of_a_process_has_its_own_prefix() {
        let mut all: Vec<i32> = (0..INSTANCES_MAX).map(|instance| writer(4_194_303, instance)).collect();
        assert!(all.iter().all(|number| *number >= 0));
        all.dedup();
        assert_eq!(all.len(), INSTANCES_MAX);
        assert_eq!(object(&prefix("host", writer(77, 0)), 5), "benchmark_data_host_77_object5");
        let mark = mark(&prefix("host", 77));
        assert_eq!(
            (mark.as_str(), marked(&mark)),
            ("benchmark_data_host_77_unfinished", Some("benchmark_data_host_77"))
        );
        assert_eq!((marked("benchmark_data_host_77_object5"), marked("other_unfinished")), (None, None));
        assert!(
            may_run(&prefix("another host", 1))
                && !may_run(&prefix(&host(), writer(std::process::id() as i32, 3)))
        );
        assert_eq!((record(None, 0), record(Some("x"), 2)), (RECORD.into(), "x.2".into()));
    }
}
