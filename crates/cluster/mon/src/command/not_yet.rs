//! Commands that Ceph has and Loligo does not have yet. They are described to clients, so that `ceph` passes them on and
//! shows the answer, where it would otherwise call them invalid and list others. What is listed by its first word alone
//! covers every command that begins with it.

use types::Errno;

use super::{Answer, Call, Command, Failure, fail, signature};
use crate::mon::Mon;

macro_rules! not_yet {
    ($($prefix:literal,)*) => {
        &[$(Command {
            signature: concat!($prefix, " name=args,type=CephString,n=N,req=false"),
            help: $crate::command::not_yet::HELP,
            module: "mon",
            perm: "r",
            run: $crate::command::not_yet::refuse,
        }),*]
    };
}
pub(super) use not_yet;

pub(super) const HELP: &str = "Not supported yet";

pub(super) fn refuse(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let command = call.args.prefix()?;
    fail(Errno::EOPNOTSUPP, format!("'{command}' is not supported yet; nothing was changed"))
}

/// The row that stands for a command which begins with its words. librados and the modules of Ceph's programs send a
/// command with all of its words, and `ceph` those that are described.
pub(super) fn covering(prefix: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|row| {
        prefix.strip_prefix(&signature::prefix(row.signature)).is_some_and(|rest| rest.starts_with(' '))
    })
}

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = not_yet![
    "alerts",
    "auth clear-pending",
    "auth commit-pending",
    "auth dump-keys",
    "auth get-or-create-pending",
    "auth rotate",
    "balancer eval",
    "balancer execute",
    "balancer on",
    "balancer optimize",
    "compact",
    "crash archive",
    "crash info",
    "crash post",
    "crash prune",
    "dashboard",
    "device info",
    "device monitoring",
    "fs authorize",
    "fs clone",
    "fs new",
    "fs rm",
    "fs set",
    "fs snap-schedule",
    "fs snapshot mirror",
    "fs subvolume",
    "fs subvolumegroup",
    "fs volume",
    "healthcheck",
    "influx",
    "insights",
    "iostat",
    "k8sevents",
    "mds fail",
    "nfs",
    "orch",
    "osd crush rule create-erasure",
    "osd crush weight-set create",
    "osd crush weight-set create-compat",
    "osd crush weight-set dump",
    "osd crush weight-set reweight",
    "osd crush weight-set reweight-compat",
    "osd crush weight-set rm",
    "osd crush weight-set rm-compat",
    "osd pg-upmap-primary",
    "osd reweight-by-pg",
    "osd rm-pg-upmap-primary",
    "osd test-reweight-by-pg",
    "osd test-reweight-by-utilization",
    "osd tier add",
    "osd tier add-cache",
    "osd tier cache-mode",
    "osd tier remove",
    "osd tier remove-overlay",
    "osd tier set-overlay",
    "pg getmap",
    "pg repeer",
    "prometheus",
    "rbd",
    "rgw",
    "telegraf",
    "telemetry",
    "zabbix",
];
