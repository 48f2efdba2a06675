//! Aligned payload is where the socket put it: in the store, and in what is written to the socket for a read. It is looked
//! at once, for its checksum, when it is received.

use std::ops::Range;

use buffer::{ALIGN, checksummed_bytes, copied_bytes};
use messages::osd_op::{Op, OpArgs, OpCode};

use crate::HotpathError;
use crate::cases::{PG_NUM, name, payload, read, write};
use crate::client::{Client, Expected};
use crate::cluster::Cluster;
use crate::server::Socket;

/// What serving a request did with payload.
struct Served {
    /// Payload bytes that were copied.
    copied: u64,
    /// Bytes of which a checksum was taken, payload and all else.
    checksummed: u64,
    /// The addresses that the request was read to.
    read_to: Vec<Range<usize>>,
    /// The addresses of the pages that wait for the socket.
    written_from: Vec<Range<usize>>,
}

fn serve(client: &mut Client, cluster: &mut Cluster, object: usize, op: Op) -> Result<Served, HotpathError> {
    let request = client.request(cluster, "bench", name(object), op)?;
    let mut socket = Socket::new(&request);
    socket.read_to = Some(Vec::new());
    let (now, before, checksummed) = (cluster.now(), copied_bytes(), checksummed_bytes());
    client.server.serve(&mut cluster.nodes, now, &mut socket)?;
    let (copied, checksummed) = (copied_bytes() - before, checksummed_bytes() - checksummed);
    let out = std::mem::take(&mut client.server.out);
    let pages = out.iter().flat_map(|rope| rope.pieces()).filter(|piece| piece.len() >= ALIGN);
    let written_from = pages.map(|p| p.as_ptr() as usize..p.as_ptr_range().end as usize).collect();
    Ok(Served { copied, checksummed, read_to: socket.read_to.unwrap_or_default(), written_from })
}

#[test]
fn aligned_payload_of_4_kib_and_4_mib_is_never_copied_and_checksummed_once() -> Result<(), HotpathError> {
    let mut cluster = Cluster::boot(1)?;
    cluster.create_pool("bench", PG_NUM)?;
    let mut client = Client::connect(&mut cluster, 0)?;
    for bytes in [4 << 20, 4 << 10] {
        // The PGs are made, and half of the objects exist. Their names are of one length: a payload's place is foretold
        // by that of the one before.
        for object in 100..108 {
            let request = client.request(&cluster, "bench", name(object), write(object, 0, bytes))?;
            client.exchange(&mut cluster, request, &Expected::Written, false)?;
        }
        for object in 100..116 {
            let written = serve(&mut client, &mut cluster, object, write(object, 1, bytes))?;
            assert_eq!(written.copied, 0, "a write of {bytes} bytes to object {object}");
            let found = serve(&mut client, &mut cluster, object, read(bytes))?;
            assert_eq!(found.copied, 0, "a read of {bytes} bytes of object {object}");
            let of_payload = [&written, &found].map(|served| served.checksummed / bytes as u64);
            assert_eq!(of_payload, [1, 0], "checksums of {bytes} bytes of object {object}");
            let from: usize = found.written_from.iter().map(Range::len).sum();
            assert_eq!(from, bytes, "the reply's payload is in pages of its own");
            for page in &found.written_from {
                let at_home = written.read_to.iter().any(|to| to.start <= page.start && page.end <= to.end);
                assert!(at_home, "{bytes} bytes of object {object} are not where the socket put them");
            }
            let request = client.request(&cluster, "bench", name(object), read(bytes))?;
            client.exchange(&mut cluster, request, &Expected::Data(payload(object, 1, bytes)), false)?;
        }
    }
    Ok(())
}

#[test]
fn what_a_clone_takes_from_its_parent_is_copied_into_pages_once() -> Result<(), HotpathError> {
    let mut cluster = Cluster::boot(1)?;
    cluster.create_pool("bench", PG_NUM)?;
    let mut client = Client::connect(&mut cluster, 0)?;
    let bytes = 4 << 20;
    let extents = [1, 0, bytes as u64, bytes as u64].map(u64::to_le_bytes).concat();
    // A count of four bytes, the extent, and the length of what follows.
    let head = [&extents[..4], &extents[8..24], &extents[24..28]].concat();
    for (object, method, head) in [(100, "copyup", vec![]), (101, "sparse_copyup", head)] {
        let input = [head, payload(object, 0, bytes)].concat();
        let args = OpArgs::Class {
            class_len: 3,
            method_len: method.len() as u8,
            argc: 0,
            indata_len: input.len() as u32,
        };
        let indata = [b"rbd", method.as_bytes(), &input].concat();
        let served =
            serve(&mut client, &mut cluster, object, Op::new(OpCode::CALL, args).with_indata(indata))?;
        assert_eq!(served.copied / bytes as u64, 1, "{method} copied {} bytes", served.copied);
        // When they were received, and in their pages.
        assert_eq!(served.checksummed / bytes as u64, 2, "{method}");
        let request = client.request(&cluster, "bench", name(object), read(bytes))?;
        client.exchange(&mut cluster, request, &Expected::Data(payload(object, 0, bytes)), false)?;
    }
    Ok(())
}
