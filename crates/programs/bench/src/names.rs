//! Names of objects, as `rados bench` gives them.

/// Where the record of a run without a name is.
pub(crate) const RECORD: &str = "benchmark_last_metadata";
const PREFIX: &str = "benchmark_data";
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
    format!("{prefix}_object{number}")
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
        assert_eq!((record(None, 0), record(Some("x"), 2)), (RECORD.into(), "x.2".into()));
    }
}
