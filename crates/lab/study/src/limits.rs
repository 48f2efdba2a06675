//! Limits that would refuse a study's placement groups, and what they are raised to.

use crate::model::{Setting, Study, System, Workload, WorkloadKind};

/// The defaults of Ceph and of Loligo.
const USUAL: u64 = 250;
/// Pools beside the clients' own: the manager's, and a file system's data and metadata with 32 each.
const BESIDE: u64 = 1;
const FILE_SYSTEM: u64 = 64;

/// Placement groups, copies counted, that each OSD of a system holds on average under the workload with the most.
pub fn pgs_per_osd(study: &Study, system: &System) -> u64 {
    let pgs = study.workloads.iter().map(pgs).max().unwrap_or(0).saturating_add(BESIDE);
    pgs.saturating_mul(u64::from(system.pool_size)).div_ceil(u64::from(system.osds.max(1)))
}

/// What must be set on every system so that none refuses the study's pools; empty if none would. The same for all
/// systems of a study, so that they differ in nothing more than they must. To be put before the study's own settings,
/// which then win, and to be said to the user.
pub fn raised_limits(study: &Study) -> Vec<Setting> {
    let started = study.systems.iter().filter(|s| s.target.configurable());
    let most = started.map(|s| pgs_per_osd(study, s)).max().unwrap_or(0);
    if most <= USUAL {
        return Vec::new();
    }
    let section = "global".to_owned();
    // The hard limit of an OSD is a multiple of this one (3), which leaves room for uneven placement.
    vec![Setting { section, name: "mon_max_pg_per_osd".into(), value: most.to_string(), line: 0 }]
}

fn pgs(workload: &Workload) -> u64 {
    match &workload.kind {
        WorkloadKind::Command(command) if command.file_system => FILE_SYSTEM,
        _ => workload.clients().map_or(0, |c| u64::from(c.total()).saturating_mul(u64::from(c.pg_num))),
    }
}
