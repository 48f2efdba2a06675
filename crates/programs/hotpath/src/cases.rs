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
    pub(crate) const ALL: [Self; 5] = [
        Self { name: "write-4k", kind: Kind::Write, bytes: SMALL, prepared: 4096, operations: 1024 },
        Self { name: "overwrite-4k", kind: Kind::Overwrite, bytes: SMALL, prepared: 4096, operations: 1024 },
        Self { name: "read-4k", kind: Kind::Read, bytes: SMALL, prepared: 4096, operations: 1024 },
        Self { name: "write-4m", kind: Kind::Write, bytes: LARGE, prepared: 4, operations: 8 },
        Self { name: "read-4m", kind: Kind::Read, bytes: LARGE, prepared: 8, operations: 8 },
    ];

    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        const { &Self::ALL }.iter().find(|case| case.name == name)
    }
}

/// An object's name, of the length that `rados bench` gives.
pub(crate) fn name(n: usize) -> Name {
    format!("benchmark_data_host-with-a-name_12345_object{n}").into()
}

/// Bytes that tell objects and writes apart.
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
    let mut cluster = Cluster::boot()?;
    cluster.create_pool("bench", PG_NUM)?;
    let mut client = Client::connect(&mut cluster)?;
    for n in 0..case.prepared {
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
        let request = client.request(&cluster, "bench", name(object), op)?;
        client.exchange(&mut cluster, request, &expected, true)?;
    }
    Ok(())
}
