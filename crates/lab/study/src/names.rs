//! The words by which a study's parts are known in records, reports and file names.

use crate::model::{
    CephStore, Clients, Engine, FileSystem, FsKind, LoligoStore, Phase, Place, System, Target, Workload,
    WorkloadKind,
};

impl Phase {
    /// `write`, `read`, `rand_write`, `rand_read`, `mixed`, `run`: as study files and records have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::RandWrite => "rand_write",
            Self::RandRead => "rand_read",
            Self::Mixed => "mixed",
            Self::Run => "run",
        }
    }

    /// Whether it reads.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead | Self::Mixed)
    }
}

impl FsKind {
    /// As in `mkfs.NAME` and `mount -t NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
            Self::Ext2 => "ext2",
        }
    }
}

impl Target {
    /// `loligo`, `ceph`, `running`, `nfs`.
    pub fn program(&self) -> &'static str {
        match self {
            Self::Loligo { .. } => "loligo",
            Self::Ceph { .. } => "ceph",
            Self::Running { .. } => "running",
            Self::Nfs { .. } => "nfs",
        }
    }

    /// Ceph's release line, empty for others.
    pub fn release(&self) -> &str {
        match self {
            Self::Ceph { release, .. } => release,
            _ => "",
        }
    }

    /// The store as study files have it; for NFS `sync` or `async`; empty for a running cluster.
    pub fn store(&self) -> &'static str {
        match self {
            Self::Loligo { store: LoligoStore::Simple } => "simple",
            Self::Loligo { store: LoligoStore::Block } => "block",
            Self::Loligo { store: LoligoStore::Mem } => "mem",
            Self::Ceph { store: CephStore::BlueStore, .. } => "bluestore",
            Self::Ceph { store: CephStore::FileStore, .. } => "filestore",
            Self::Ceph { store: CephStore::MemStore, .. } => "memstore",
            Self::Running { .. } => "",
            Self::Nfs { sync: true } => "sync",
            Self::Nfs { sync: false } => "async",
        }
    }

    /// Whether the lab starts and configures it, so that variants can differ on it.
    pub fn configurable(&self) -> bool {
        matches!(self, Self::Loligo { .. } | Self::Ceph { .. })
    }
}

impl Place {
    /// `directory`, `image`, `devices`, `loop`, `modelled`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Image { .. } => "image",
            Self::Devices { .. } => "devices",
            Self::Loop { .. } => "loop",
            Self::Modelled { .. } => "modelled",
        }
    }

    /// The file system that is made on it, if one is.
    pub fn file_system(&self) -> Option<&FileSystem> {
        match self {
            Self::Directory | Self::Image { .. } => None,
            Self::Devices { fs, .. } | Self::Loop { fs, .. } | Self::Modelled { fs, .. } => fs.as_ref(),
        }
    }

    /// Whether a file system is made on it; `None` for a directory, which lies on one that is there.
    pub fn has_file_system(&self) -> Option<bool> {
        match self {
            Self::Directory => None,
            Self::Image { .. } => Some(false),
            Self::Devices { fs, .. } | Self::Loop { fs, .. } | Self::Modelled { fs, .. } => {
                Some(fs.is_some())
            }
        }
    }
}

impl System {}

impl Clients {
    /// Client processes on all hosts.
    pub fn total(&self) -> u32 {
        let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        self.instances.saturating_mul(hosts)
    }
}

impl Workload {
    /// Its client processes; none for a command.
    pub fn clients(&self) -> Option<&Clients> {
        match &self.kind {
            WorkloadKind::RadosBench(bench) => Some(&bench.clients),
            WorkloadKind::Fio(fio) => Some(&fio.clients),
            WorkloadKind::LoligoBench(bench) => Some(&bench.clients),
            WorkloadKind::Command(_) => None,
        }
    }

    /// `rados bench`, `loligo bench`, `fio rados`, `fio rbd`, `command`.
    pub fn load(&self) -> &'static str {
        match &self.kind {
            WorkloadKind::RadosBench(_) => "rados bench",
            WorkloadKind::LoligoBench(_) => "loligo bench",
            WorkloadKind::Fio(fio) => match fio.engine {
                Engine::Rados => "fio rados",
                Engine::Rbd => "fio rbd",
            },
            WorkloadKind::Command(_) => "command",
        }
    }

    /// Whether it needs a file system beside pools (CephFS).
    pub fn needs_file_system(&self) -> bool {
        matches!(&self.kind, WorkloadKind::Command(command) if command.file_system)
    }

    /// What its trials are samples of, as records name it: its phases, or what a ladder finds in each.
    pub fn sampled_phases(&self) -> Vec<String> {
        let ladder = match &self.kind {
            WorkloadKind::RadosBench(bench) => bench.ladder.as_ref(),
            WorkloadKind::Fio(fio) => fio.ladder.as_ref(),
            WorkloadKind::LoligoBench(bench) => bench.ladder.as_ref(),
            WorkloadKind::Command(_) => None,
        };
        let found: &[&str] = match ladder {
            None => &[""],
            Some(ladder) if ladder.target.is_some() => &[".saturation", ".held_rate"],
            Some(_) => &[".saturation"],
        };
        let of =
            |phase: &Phase| found.iter().map(|what| format!("{}{what}", phase.name())).collect::<Vec<_>>();
        self.phases().iter().flat_map(of).collect()
    }

    /// Its phases, in order; a command has one.
    pub fn phases(&self) -> &[Phase] {
        match &self.kind {
            WorkloadKind::RadosBench(bench) => &bench.phases,
            WorkloadKind::Fio(fio) => &fio.phases,
            WorkloadKind::LoligoBench(bench) => &bench.phases,
            WorkloadKind::Command(_) => &[Phase::Run],
        }
    }
}
