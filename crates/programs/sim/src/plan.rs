//! The plan of a run, from its seed. Each run has some kinds of faults and not others, few or many of them: defects that
//! hide each other are then found in different runs.

use std::ops::Range;

use types::SplitMix64;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A connection ends; each end learns of it in its time.
    Reset,
    /// Some processes cannot reach the others for a while.
    Partition,
    /// An OSD's process ends, and is started again.
    KillOsd,
    /// An OSD's machine loses power: its store keeps a part of what was not durable.
    PowerLossOsd,
    /// All of them lose power.
    PowerLossAll,
    /// An OSD is stopped cleanly, and is started again.
    StopOsd,
    KillMon,
    /// The monitor marks a running OSD down.
    MarkDown,
    /// A flag of the map stops reads and writes for a while.
    Pause,
    /// The limit from which OSDs are full goes down for a while.
    FullRatio,
    /// A store refuses data for a while.
    RefuseSpace,
    /// A store stops: its OSD fails, and is started again.
    StoreFails,
    /// A client's process ends; another takes its place.
    KillClient,
    /// A client is fenced; another takes its place.
    FenceClient,
    /// An OSD's options change while it runs.
    OsdOption,
    /// A client or an OSD can't reach another process for a while; both reach the others.
    CutLinks,
    /// Stored bytes of an object go bad.
    BitRot,
    /// The pool gets more PGs.
    RaisePgs,
    /// An OSD can't read what its PGs keep of themselves: they fail until it is started again.
    FailPgs,
    /// The monitor marks an OSD out, and in again after a while: its PGs are another's meanwhile.
    MarkOut,
    /// An OSD's process ends while it takes a map in which a snapshot has come or gone, and is started again.
    EndInMap,
}

impl Fault {
    /// Those of plans of every kind.
    pub const ALL: [Self; 20] = [
        Self::Reset,
        Self::Partition,
        Self::KillOsd,
        Self::PowerLossOsd,
        Self::PowerLossAll,
        Self::StopOsd,
        Self::KillMon,
        Self::MarkDown,
        Self::Pause,
        Self::FullRatio,
        Self::RefuseSpace,
        Self::StoreFails,
        Self::KillClient,
        Self::FenceClient,
        Self::OsdOption,
        Self::CutLinks,
        Self::BitRot,
        Self::RaisePgs,
        Self::FailPgs,
        Self::MarkOut,
    ];
}

const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// Bytes of a store that becomes full.
const SMALL_STORE: u64 = 4 << 20;
/// Bytes of one that does not.
pub const LARGE_STORE: u64 = 1 << 30;

/// Bytes of a shard's part of an OSD's disks: little, so that blocks are used again.
const DISK_BYTES: u64 = 24 << 20;

/// Bytes of a shard on disks that becomes full, of the disk behind it that it gets at the end, and blocks that a change
/// writes at most there: in a burst all free blocks are taken, and given up again.
const SMALL_DISK: u64 = 3 << 20;
const SPARE_BYTES: u64 = 24 << 20;
const LARGE_CHANGE: usize = 2_000;

/// A log so short that resends are recognised by the records of trimmed entries.
const SHORT_LOG: [(&str, &str); 4] = [
    ("osd_target_pg_log_entries_per_osd", "1"),
    ("osd_min_pg_log_entries", "5"),
    ("osd_max_pg_log_entries", "5"),
    ("osd_pg_log_trim_min", "2"),
];

/// Where an OSD's gates and shards may be: on one core, together, apart, more shards than cores.
const CORES: [(&[u16], &[u16]); 6] = [
    (&[0], &[0]),
    (&[0, 1], &[0, 1]),
    (&[1], &[0]),
    (&[0, 1, 2], &[2, 1, 0]),
    (&[0, 1], &[1]),
    (&[1, 2], &[0, 0, 1]),
];

/// Whose the snapshots of a run are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapKind {
    None,
    /// The pool's.
    Pool,
    /// The clients'.
    Own,
}

/// The disks of a run whose OSDs have block stores, and how these use them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disks {
    /// The device that is modelled: a name that [`devmodel::Model::named`] knows.
    pub model: &'static str,
    /// The unit of the log's records, and of the disk's requests.
    pub block_bytes: u32,
    /// Whether the log has a disk of its own.
    pub log_apart: bool,
    pub log_bytes: u64,
    /// Bytes of the disk that the store gets when everything is healed.
    pub spare_bytes: u64,
    pub deferred_bytes: u64,
    pub cache_bytes: u64,
    pub changes_bytes_max: u64,
    pub discards: bool,
}

/// A planted defect, to show that the simulator finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    Pg(pg::Bug),
    /// The store takes what follows a refused change.
    StoreStaysOpen,
    /// Messages from one core to another overtake each other.
    CoresLoseOrder,
    /// A client that wants a lock breaks it without fencing its holder.
    LockIsOnlyBroken,
    /// The store returns what has gone bad.
    StoreServesBadBytes,
    BlockStore(blockstore::Bug),
}

impl Defect {
    /// All, by their names.
    pub fn all() -> impl Iterator<Item = (String, Self)> {
        let of_pg = pg::Bug::ALL.into_iter().map(|bug| (format!("{bug:?}"), Self::Pg(bug)));
        let others = [
            ("StoreStaysOpen", Self::StoreStaysOpen),
            ("CoresLoseOrder", Self::CoresLoseOrder),
            ("LockIsOnlyBroken", Self::LockIsOnlyBroken),
            ("StoreServesBadBytes", Self::StoreServesBadBytes),
        ];
        let of_store =
            blockstore::Bug::ALL.into_iter().map(|bug| (format!("{bug:?}"), Self::BlockStore(bug)));
        of_pg.chain(others.map(|(name, defect)| (name.into(), defect))).chain(of_store)
    }
}

/// A kind of plans. Each has a plan for every seed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PlanKind {
    /// Some of everything.
    #[default]
    Any,
    /// PGs trim snapshots while their OSDs are started again.
    Trims,
}

impl PlanKind {
    pub const ALL: [Self; 2] = [Self::Any, Self::Trims];

    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Trims => "trims",
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub osds: i32,
    pub clients: usize,
    pub pgs: u32,
    /// Objects in use at once.
    pub objects: usize,
    /// Operations that a client has under way at most.
    pub window: usize,
    /// Mean time between two operations of a client, nanoseconds.
    pub think: u64,
    /// Blocks that a change writes at most.
    pub blocks_max: usize,
    /// Images under exclusive locks.
    pub images: usize,
    /// Objects that clients watch.
    pub notes: usize,
    /// Whether clients copy objects.
    pub copies: bool,
    /// Whether clients list the pool.
    pub listings: bool,
    pub snaps: SnapKind,
    /// Snapshots that there are at once, at most.
    pub snaps_max: usize,
    /// Mean time between two changes of the snapshots, nanoseconds.
    pub snap_interval: u64,
    pub faults: Vec<Fault>,
    /// Mean time between two faults, nanoseconds.
    pub fault_interval: u64,
    /// How long a fault lasts at most, nanoseconds.
    pub fault_length: u64,
    /// The safety phase's length, nanoseconds; operations begin in it.
    pub length: u64,
    /// How long a message takes, microseconds.
    pub delay_us: Range<u64>,
    pub commit_us: Range<u64>,
    pub read_us: Range<u64>,
    pub store_bytes: u64,
    /// `None`: stores in memory.
    pub disks: Option<Disks>,
    /// The cores of an OSD that have a gate, and the core of each of its shards.
    pub gates: Vec<u16>,
    pub shards: Vec<u16>,
    /// How long a message from one core to another takes at most, microseconds.
    pub core_delay_us: u64,
    /// Whether an OSD ends a client's older session when a newer one comes.
    pub replaces_sessions: bool,
    /// Seconds after which clients give a request up; 0 for never.
    pub request_timeout: u64,
    pub defect: Option<Defect>,
    /// Options of the OSDs.
    pub options: Vec<(&'static str, &'static str)>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed ^ 0x51ed_270b);
        let rng = &mut rng;
        let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        let delay_max = pick(&[200, 1_000, 20_000, 200_000]);
        let commit_max = pick(&[300, 3_000, 30_000, 300_000]);
        let mut plan = Self {
            seed,
            osds: pick(&[1, 2, 3, 4]) as i32,
            clients: pick(&[2, 3, 4]) as usize,
            pgs: pick(&[1, 2, 4, 8]) as u32,
            objects: pick(&[1, 2, 4, 8]) as usize,
            window: pick(&[1, 2, 4, 8]) as usize,
            think: pick(&[5, 50, 200]) * MS,
            blocks_max: pick(&[1, 4, 40]) as usize,
            snaps: [SnapKind::None, SnapKind::Pool, SnapKind::Own][pick(&[0, 0, 1, 2]) as usize],
            images: pick(&[0, 0, 1, 2]) as usize,
            notes: pick(&[0, 0, 1, 2]) as usize,
            copies: false,
            listings: false,
            snaps_max: 4,
            snap_interval: pick(&[1, 4]) * SECOND,
            faults: Vec::new(),
            fault_interval: pick(&[1, 3, 10]) * SECOND,
            fault_length: 20 * SECOND,
            length: pick(&[20, 40, 80]) * SECOND,
            delay_us: pick(&[5, 50])..delay_max,
            commit_us: 50..commit_max,
            read_us: 10..pick(&[100, 2_000, 50_000]),
            store_bytes: pick(&[LARGE_STORE, LARGE_STORE, LARGE_STORE, SMALL_STORE]),
            disks: None,
            gates: vec![0],
            shards: vec![0],
            core_delay_us: pick(&[5, 500, 50_000]),
            replaces_sessions: pick(&[0, 1, 1]) == 1,
            request_timeout: pick(&[0, 0, 0, 5, 30]),
            defect: None,
            options: Vec::new(),
        };
        let (gates, shards) = CORES[pick(&[0, 0, 0, 1, 2, 3, 4, 5]) as usize];
        (plan.gates, plan.shards) = (gates.to_vec(), shards.to_vec());
        let share = pick(&[0, 1, 2, 2, 3, 4]);
        let others = Fault::ALL.into_iter().filter(|fault| *fault != Fault::MarkOut);
        plan.faults = others.filter(|_| pick(&[0, 1, 2, 3]) < share).collect();
        if plan.store_bytes == SMALL_STORE {
            // Maps and logs need space that clients must not take. A log of the default length is of 10,000 entries a PG, and
            // what needs no space makes entries too: removals, errors.
            plan.options.push(("osd_failsafe_full_ratio", "0.6"));
            plan.options.extend(SHORT_LOG);
            plan.blocks_max = 100;
        }
        if pick(&[0, 1, 2]) == 0 {
            plan.options.push(("osd_client_message_cap", "3"));
        }
        if pick(&[0, 1]) == 0 {
            plan.options.extend(SHORT_LOG);
        }
        // A copy that waits for its source keeps its client's snapshots for so long that they may be purged meanwhile.
        plan.copies = pick(&[0, 0, 1]) == 1 && plan.snaps != SnapKind::Own;
        plan.listings = pick(&[0, 1]) == 1;
        // One of four, where nothing asks for what only stores in memory can do.
        if pick(&[0, 0, 1]) == 1 && plan.store_bytes == LARGE_STORE {
            plan.store_bytes = DISK_BYTES * plan.shards.len() as u64;
            // An entry of a log takes about 1 KiB there, and no writer waits in vain at the end.
            plan.options.push(("osd_target_pg_log_entries_per_osd", "5000"));
            plan.faults.retain(|fault| *fault != Fault::RefuseSpace);
            plan.disks = Some(Disks {
                model: ["ssd", "disk-7200", "disk-7200-write-back"][pick(&[0, 0, 1, 2]) as usize],
                block_bytes: pick(&[512, 4096]) as u32,
                log_apart: pick(&[0, 0, 1]) == 1,
                log_bytes: pick(&[256 << 10, 1 << 20]),
                spare_bytes: 0,
                deferred_bytes: pick(&[0, 4 << 10, 32 << 10]),
                cache_bytes: pick(&[16 << 10, 1 << 20]),
                changes_bytes_max: pick(&[64 << 10, 1 << 20]),
                discards: pick(&[0, 1]) == 1,
            });
        }
        let fills = pick(&[0, 0, 1]) == 1;
        if let Some(disks) = plan.disks.take_if(|_| fills) {
            plan.use_small_disks(disks);
        }
        if pick(&[0, 0, 1]) == 1 {
            // What an object's metadata say is read again and again, and its requests wait for that.
            plan.options.push(("osd_object_contexts_max", "0"));
        }
        if pick(&[0, 1, 2, 3]) < share {
            plan.faults.push(Fault::MarkOut);
        }
        plan
    }

    /// The plan of a seed among those of one kind.
    pub fn of_kind(kind: PlanKind, seed: u64) -> Self {
        match kind {
            PlanKind::Any => Self::of(seed),
            PlanKind::Trims => Self::of(seed).with_trims(),
        }
    }

    /// Makes snapshots come and go so fast that PGs trim all the time, while OSDs are started again and maps move PGs. What
    /// it draws is of a stream of its own: the other plans stay what they are.
    fn with_trims(mut self) -> Self {
        let mut rng = SplitMix64::new(self.seed ^ 0x7219_5a4d);
        let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        self.snaps = [SnapKind::Pool, SnapKind::Own][pick(&[0, 1]) as usize];
        // See `of`.
        self.copies &= self.snaps != SnapKind::Own;
        (self.snaps_max, self.snap_interval) = (pick(&[3, 6]) as usize, pick(&[50, 200, 600]) * MS);
        (self.pgs, self.objects) = (pick(&[2, 4, 8]) as u32, pick(&[4, 8, 12]) as usize);
        (self.think, self.window) = (pick(&[5, 20, 50]) * MS, pick(&[2, 4]) as usize);
        (self.images, self.notes) = (pick(&[0, 0, 0, 1]) as usize, pick(&[0, 0, 0, 1]) as usize);
        // The stores of several shards are not equally far when an OSD ends.
        let (gates, shards) = CORES[pick(&[0, 1, 1, 3, 3, 4, 5, 5]) as usize];
        (self.gates, self.shards) = (gates.to_vec(), shards.to_vec());
        (self.core_delay_us, self.commit_us.end) =
            (pick(&[500, 50_000, 200_000]), pick(&[3_000, 30_000, 300_000]));
        // Clones need room; that stores refuse data is a fault of its own.
        (self.blocks_max, self.store_bytes) = (self.blocks_max.min(40), LARGE_STORE);
        if let Some(disks) = &mut self.disks {
            disks.spare_bytes = 0;
            self.store_bytes = DISK_BYTES * shards.len() as u64;
        }
        let may_refuse = self.disks.is_none();
        let others = [
            Fault::PowerLossAll,
            Fault::StopOsd,
            Fault::MarkDown,
            Fault::MarkOut,
            Fault::RaisePgs,
            Fault::StoreFails,
            Fault::Reset,
            Fault::KillMon,
            Fault::FailPgs,
            Fault::CutLinks,
            Fault::RefuseSpace,
        ];
        let others = others.into_iter().filter(|fault| may_refuse || *fault != Fault::RefuseSpace);
        self.faults = others.filter(|_| pick(&[0, 0, 0, 1]) == 1).collect();
        let restart = [Fault::KillOsd, Fault::PowerLossOsd][pick(&[0, 1]) as usize];
        self.faults.extend([restart, Fault::EndInMap, Fault::EndInMap]);
        (self.fault_interval, self.fault_length) =
            (pick(&[500, 1_500, 4_000]) * MS, pick(&[1, 1, 5]) * SECOND);
        self.length = pick(&[15, 30]) * SECOND;
        match pick(&[0, 1, 2]) {
            0 => {}
            // A snapshot is not trimmed yet when the next maps come.
            1 => self.options.push(("osd_snap_trim_sleep", "0.05")),
            _ => self.options.push(("osd_snap_trim_sleep", "0.4")),
        }
        if pick(&[0, 1]) == 0 {
            self.options.push(("osd_pg_max_concurrent_snap_trims", "1"));
        }
        self
    }

    /// Puts the OSDs' stores on disks that become full, with changes so large that they need all that is free.
    pub fn use_small_disks(&mut self, disks: Disks) {
        // So slow that a record has the changes of a burst.
        self.disks = Some(Disks { model: "disk-7200", spare_bytes: SPARE_BYTES, ..disks });
        (self.objects, self.window, self.blocks_max) = (4, self.window.max(4), LARGE_CHANGE);
        self.store_bytes = SMALL_DISK * self.shards.len() as u64;
        // Maps, logs and more PGs need space that clients must not take.
        self.options.push(("osd_failsafe_full_ratio", "0.8"));
        self.options.extend(SHORT_LOG);
        self.snaps = SnapKind::None;
        (self.fault_interval, self.length) =
            (self.fault_interval.max(3 * SECOND), self.length.min(40 * SECOND));
        self.faults.retain(|fault| ![Fault::RaisePgs, Fault::PowerLossOsd].contains(fault));
        // What was given up too early shows when power is lost.
        self.faults.push(Fault::PowerLossOsd);
    }
}
