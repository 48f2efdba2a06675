//! The operations that are counted.

use messages::osd_op::{Op, OpArgs, OpCode};
use types::{Name, SplitMix64};

use crate::HotpathError;
use crate::client::{Client, Expected};
use crate::cluster::Cluster;

/// Operations of one kind and size.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    kind: Kind,
    /// Bytes of an object; each operation takes it whole.
    bytes: usize,
    /// Objects written before the count begins.
    prepared: usize,
    /// Operations counted.
    pub(crate) operations: usize,
    /// Cores of the OSD, with a client each.
    cores: u16,
    /// The case that is the same on one core.
    pub(crate) on_one_core: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A WRITE that makes a new object, as `rados bench write`.
    Write,
    /// A WRITE over the whole of an existing object.
    Overwrite,
    /// A READ of a random existing object.
    Read,
}

const SMALL: usize = 4 << 10;
const LARGE: usize = 4 << 20;

/// PGs of the pool. Few, so that the prepared objects are more than the PGs keep contexts of: half the reads find their
/// object's metadata in the store only, as in a pool of many objects.
pub(crate) const PG_NUM: u32 = 2;

impl Case {
    pub(crate) const ALL: [Self; 8] = [
        Self::small("write-4k", Kind::Write),
        Self::small("overwrite-4k", Kind::Overwrite),
        Self::small("read-4k", Kind::Read),
        Self::large("write-4m", Kind::Write, 4),
        Self::large("read-4m", Kind::Read, 8),
        Self::small("write-4k", Kind::Write).on_two_cores("write-4k-two-cores"),
        Self::small("overwrite-4k", Kind::Overwrite).on_two_cores("overwrite-4k-two-cores"),
        Self::small("read-4k", Kind::Read).on_two_cores("read-4k-two-cores"),
    ];

    const fn small(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, bytes: SMALL, prepared: 4096, operations: 1024, cores: 1, on_one_core: None }
    }

    const fn large(name: &'static str, kind: Kind, prepared: usize) -> Self {
        Self { name, kind, bytes: LARGE, prepared, operations: 8, cores: 1, on_one_core: None }
    }

    /// The same with two clients, each at a core of the OSD: half of what they ask for is in a PG of the other core.
    const fn on_two_cores(self, name: &'static str) -> Self {
        Self { name, cores: 2, on_one_core: Some(self.name), ..self }
    }

    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        const { &Self::ALL }.iter().find(|case| case.name == name)
    }
}

/// An object's name, of the length that `rados bench` gives.
pub(crate) fn name(n: usize) -> Name {
    format!("benchmark_data_host-with-a-name_12345_object{n}").into()
}

/// Bytes that distinguish objects and writes.
pub(crate) fn payload(n: usize, round: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 64) as u8 ^ n as u8 ^ round).collect()
}

pub(crate) fn write(n: usize, round: u8, bytes: usize) -> Op {
    Op::new(OpCode::WRITE, OpArgs::extent(0, bytes as u64)).with_indata(payload(n, round, bytes))
}

pub(crate) fn read(bytes: usize) -> Op {
    Op::new(OpCode::READ, OpArgs::extent(0, bytes as u64))
}

/// Serves the case. Only what happens in `hotpath_counted` is counted.
pub(crate) fn run(case: &Case) -> Result<(), HotpathError> {
    let mut cluster = Cluster::boot(case.cores)?;
    cluster.create_pool("bench", PG_NUM)?;
    let clients: Result<Vec<Client>, _> =
        (0..case.cores).map(|core| Client::connect(&mut cluster, core)).collect();
    let mut clients = clients?;
    for n in 0..case.prepared {
        let client = &mut clients[n % usize::from(case.cores)];
        let request = client.request(&cluster, "bench", name(n), write(n, 0, case.bytes))?;
        client.exchange(&mut cluster, request, &Expected::Written, false)?;
    }
    let mut random = SplitMix64::new(1);
    for i in 0..case.operations {
        let existing = random.below(case.prepared as u64) as usize;
        let (object, op, expected) = match case.kind {
            Kind::Write => {
                let n = case.prepared + i;
                (n, write(n, 0, case.bytes), Expected::Written)
            }
            Kind::Overwrite => (existing, write(existing, 1, case.bytes), Expected::Written),
            Kind::Read => (existing, read(case.bytes), Expected::Data(payload(existing, 0, case.bytes))),
        };
        let client = &mut clients[i % usize::from(case.cores)];
        let request = client.request(&cluster, "bench", name(object), op)?;
        client.exchange(&mut cluster, request, &expected, true)?;
    }
    Ok(())
}
