//! The parts of Ceph that read options, the processes that hold them, and which of those a system has.

use study::{CephStore, Engine, Setting, Study, WorkloadKind};

/// A part of Ceph's programs, as the tables name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    /// In every program: messenger, log, authentication, CRUSH.
    Common,
    Mon,
    Mgr,
    Osd,
    Mds,
    BlueStore,
    FileStore,
    KStore,
    MemStore,
    /// RocksDB, below monitors and stores.
    Kv,
    /// What clients (and managers, metadata servers) reach OSDs by.
    Objecter,
    /// `rados`, with its bench.
    Rados,
    Rbd,
    /// ceph-fuse and libcephfs.
    FsClient,
    Cephx,
    Rdma,
    Dpdk,
    Rgw,
    Mirror,
    ObjectCache,
    Exporter,
    NvmeOf,
    Crimson,
    /// Offline tools.
    Tool,
}

use Part::*;

/// A part, its word in the tables, and what a sentence calls it.
const PARTS: [(Part, &str, &str); 24] = [
    (Common, "common", "every program"),
    (Mon, "mon", "the monitor"),
    (Mgr, "mgr", "the manager"),
    (Osd, "osd", "the OSD"),
    (Mds, "mds", "the metadata server"),
    (BlueStore, "bluestore", "BlueStore"),
    (FileStore, "filestore", "FileStore"),
    (KStore, "kstore", "KStore"),
    (MemStore, "memstore", "MemStore"),
    (Kv, "kv", "RocksDB"),
    (Objecter, "objecter", "clients"),
    (Rados, "client", "the rados command"),
    (Rbd, "rbd", "librbd"),
    (FsClient, "fsclient", "the file system's client"),
    (Cephx, "cephx", "cephx"),
    (Rdma, "rdma", "the messenger over RDMA"),
    (Dpdk, "dpdk", "the messenger over DPDK"),
    (Rgw, "rgw", "the object gateway"),
    (Mirror, "mirror", "mirroring daemons"),
    (ObjectCache, "object-cache", "the cache daemon of librbd"),
    (Exporter, "exporter", "the metrics exporter"),
    (NvmeOf, "nvmeof", "the NVMe-oF gateway"),
    (Crimson, "crimson", "the Crimson OSD"),
    (Tool, "tool", "offline tools"),
];

impl Part {
    pub(crate) fn named(word: &str) -> Option<Self> {
        PARTS.iter().find(|(_, w, _)| *w == word).map(|(part, _, _)| *part)
    }

    /// As a sentence calls it.
    pub(crate) fn called(self) -> &'static str {
        PARTS.iter().find(|(part, _, _)| *part == self).map_or("", |(_, _, called)| called)
    }
}

/// A kind of process that an option acts in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Process {
    /// Loligo's servers, which share one process.
    Loligo,
    /// ceph-mon.
    Mon,
    /// ceph-mgr.
    Mgr,
    /// ceph-osd.
    Osd,
    /// ceph-mds.
    Mds,
    /// Programs of the load: rados, fio, ceph-fuse.
    Client,
}

impl Process {
    /// `loligo`, or the section of ceph.conf that it reads beside `global`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loligo => "loligo",
            Self::Mon => "mon",
            Self::Mgr => "mgr",
            Self::Osd => "osd",
            Self::Mds => "mds",
            Self::Client => "client",
        }
    }

    /// Whether it reads a section of ceph.conf (as Ceph's programs do; Loligo is told by its arguments).
    pub(crate) fn reads(self, section: &str) -> bool {
        let kind = section.split('.').next().unwrap_or_default();
        kind == "global" || kind == self.name()
    }
}

/// What the loads of a study bring beside the cluster and the objecter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loads {
    pub(crate) rbd: bool,
    /// A metadata server, and clients of the file system.
    pub(crate) file_system: bool,
    /// A user's command, which may make pools of its own.
    pub(crate) command: bool,
}

impl Loads {
    /// All that the lab can run.
    pub(crate) const ALL: Self = Self { rbd: true, file_system: true, command: true };

    /// What a study runs. Nobody knows what a user's command starts, so it may be librbd too.
    pub(crate) fn of(study: &Study) -> Self {
        let any = |test: fn(&WorkloadKind) -> bool| study.workloads.iter().any(|w| test(&w.kind));
        Self {
            rbd: any(|kind| match kind {
                WorkloadKind::Fio(fio) => fio.engine == Engine::Rbd,
                WorkloadKind::Command(_) => true,
                WorkloadKind::RadosBench(_) | WorkloadKind::LoligoBench(_) => false,
            }),
            file_system: any(|kind| matches!(kind, WorkloadKind::Command(command) if command.file_system)),
            command: any(|kind| matches!(kind, WorkloadKind::Command(_))),
        }
    }
}

/// The parts of each process on a system of real Ceph. `in_force`: all options that it gets.
pub(crate) fn processes(store: CephStore, loads: Loads, in_force: &[Setting]) -> Vec<(Process, Vec<Part>)> {
    let store = match store {
        CephStore::BlueStore => &[BlueStore, Kv][..],
        CephStore::FileStore => &[FileStore, Kv],
        CephStore::MemStore => &[MemStore],
    };
    let mut all = vec![
        (Process::Mon, vec![Common, Mon, Kv]),
        (Process::Mgr, vec![Common, Mgr, Objecter]),
        // An OSD has an objecter too, but for cache tiers alone, which no study has.
        (Process::Osd, [&[Common, Osd], store].concat()),
    ];
    if loads.file_system {
        all.push((Process::Mds, vec![Common, Mds, Objecter]));
    }
    all.push(client(loads));
    let transport = |word: &str| {
        let types = ["ms_type", "ms_cluster_type", "ms_public_type"];
        in_force
            .iter()
            .any(|s| types.contains(&options::normalize(&s.name).as_str()) && s.value.contains(word))
    };
    for (part, word) in [(Rdma, "rdma"), (Dpdk, "dpdk")] {
        if transport(word) {
            all.iter_mut().for_each(|(_, parts)| parts.push(part));
        }
    }
    all
}

/// The parts of the programs of the load.
pub(crate) fn client(loads: Loads) -> (Process, Vec<Part>) {
    let mut parts = vec![Common, Objecter, Rados];
    parts.extend(loads.rbd.then_some(Rbd));
    parts.extend(loads.file_system.then_some(FsClient));
    (Process::Client, parts)
}
