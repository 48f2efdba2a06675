//! Each byte of data is looked at once: its pages' checksums come with it from the wire, and go with it to the wire.

use crate::common::Sim;
use blockstore::Options;
use buffer::{Piece, PieceMut, checksummed_bytes};
use store::conformance::{Factory, Harness};
use store::{CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Token};
use types::{GHObject, HObject, Name, PgId, PoolId};

fn object() -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), "a".into(), 1).into()
}

/// Memory as a connection leaves it: filled, with the checksums that were taken on the way.
fn received(len: usize, byte: u8) -> Piece {
    let mut piece = PieceMut::zeroed(len);
    piece.as_mut_slice().iter_mut().enumerate().for_each(|(i, b)| *b = byte ^ (i / 4096 + i) as u8);
    let pages = piece.as_mut_slice().chunks_exact(4096).map(|page| buffer::crc32c(!0, page)).collect();
    let crc = buffer::crc32c(!0, piece.as_mut_slice());
    piece.freeze_with_sums(!0, crc, pages)
}

#[test]
fn aligned_data_is_checksummed_once_on_the_way_in_and_once_on_the_way_out() {
    for (len, deferred) in [(4 << 20, false), (128 << 10, false), (4096, true), (32 << 10, true)] {
        let mut factory = Sim::new(Options::default(), 12 << 20);
        let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
        let c = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into());
        h.commit(|t| t.create_collection(c, 0).touch(c, &object()));
        let data = received(len, 7);
        let before = checksummed_bytes();
        h.commit(|t| t.write(c, &object(), 0, data.clone().into()));
        let written = checksummed_bytes() - before;
        // The record of the log has metadata, 4 bytes for each block, and headers.
        assert!(written < 2048 + 16 * (len as u64 / 4096), "{written} bytes for a write of {len}");

        let mut store = h.take();
        store.store.request_checkpoint();
        factory.drain(&mut store);
        let (collection, object, advice) = (c, object(), Default::default());
        let read = ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify: false };
        let before = checksummed_bytes();
        store.read(read, Token(1));
        factory.drain(&mut store);
        let mut completions = Vec::new();
        store.completions(&mut completions);
        let Some(Completion::Read { result: Ok(ReadOutcome::Data(found)), .. }) = completions.pop() else {
            panic!("it is there")
        };
        let looked_at = checksummed_bytes() - before;
        assert_eq!(looked_at, len as u64, "each byte from the device is checked (deferred: {deferred})");
        let before = checksummed_bytes();
        assert_eq!(
            (found.crc32c(!0), checksummed_bytes() - before),
            (data.crc32c(!0), 0),
            "{len}: sent as it is"
        );
    }
}
