//! Power losses where the suite of every store seldom hits: blocks that are used again at once.

use crate::common::{Sim, check};
use blockdev::DeviceId;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{CollectionId, ReadOutcome, ReadRequest, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

const DATA_BYTES: usize = 1 << 20;

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into()
}

/// One record of the log: an object is written beside it and removed, and a number is noted.
fn burst<S: store::ObjectStore>(h: &mut Harness<S>, c: CollectionId, n: u32) -> Vec<store::Token> {
    let mut write = Transaction::new();
    write.write(c, &object("a"), 0, vec![(n % 251) as u8; DATA_BYTES].into());
    let mut remove = Transaction::new();
    remove.remove(c, &object("a")).set_attr(c, &object("keep"), "n", n.to_le_bytes().to_vec());
    vec![h.queue(write), h.queue(remove)]
}

#[test]
fn what_a_record_wrote_and_gave_up_is_used_again_only_when_the_log_says_that_it_is_durable() {
    for log_apart in [false, true] {
        blocks_are_used_again(Sim { log_apart, ..Sim::new(Options::default(), 4 << 20) });
    }
}

fn blocks_are_used_again(mut factory: Sim) {
    let mut random = SplitMix64::new(9);
    let mut h = Harness::new(factory.fresh(8 << 20), factory.properties());
    let c = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into());
    h.commit(|t| t.create_collection(c, 0));
    // So full that one burst has to use the blocks of the one before it.
    for n in 0.. {
        let free = h.statfs().bytes_available;
        if free < DATA_BYTES as u64 + (128 << 10) {
            break;
        }
        h.commit(|t| t.write(c, &object(&format!("full {n}")), 0, vec![7; 64 << 10].into()));
    }
    for round in 0..120u32 {
        for token in burst(&mut h, c, 2 * round) {
            assert_eq!(h.outcome(token), Ok(()));
        }
        burst(&mut h, c, 2 * round + 1);
        for _ in 0..random.below(300) {
            h.turn();
        }
        let store = factory.crash(h.abandon(), u64::from(round)).expect("power can be lost");
        h = Harness::new(store, factory.properties());
        let attr = ReadRequest::Attr { collection: c, object: object("keep"), name: "n".into() };
        let Ok(ReadOutcome::Attr(n)) = h.get(attr) else { panic!("round {round}: what was noted is gone") };
        let n = u32::from_le_bytes(n.as_slice().try_into().expect("four bytes"));
        assert!(n / 2 == round, "round {round}: {n} is there, {} was acknowledged", 2 * round);
    }
}

#[test]
fn deferred_blocks_go_to_their_places_only_when_the_log_says_that_their_record_is_durable() {
    for log_apart in [false, true] {
        deferred_blocks_go_to_their_places(Sim { log_apart, ..Sim::new(Options::default(), 4 << 20) });
    }
}

fn deferred_blocks_go_to_their_places(mut factory: Sim) {
    let mut random = SplitMix64::new(11);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let c = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into());
    h.commit(|t| t.create_collection(c, 0));
    for round in 0..120u32 {
        // One record has data beside it, and a change of the same block in it.
        let byte = (round % 251) as u8;
        let (mut write, mut overwrite) = (Transaction::new(), Transaction::new());
        write.write(c, &object("a"), 0, vec![byte; 128 << 10].into());
        overwrite.write(c, &object("a"), 100, vec![!byte; 100].into());
        for token in [h.queue(write), h.queue(overwrite)] {
            assert_eq!(h.outcome(token), Ok(()));
        }
        h.store().store.request_checkpoint();
        for _ in 0..random.below(100) {
            h.turn();
        }
        let store = factory.crash(h.abandon(), u64::from(round)).expect("power can be lost");
        h = Harness::new(store, factory.properties());
        let mut want = vec![byte; 128 << 10];
        want[100..200].fill(!byte);
        assert!(h.data(c, &object("a")) == want, "round {round}: what was acknowledged is lost");
    }
}

/// Whether any of these bytes can be found on a device after a power loss.
fn is_durable(disks: &blockdev::sim::SimDisks, device: DeviceId, size_bytes: u64, bytes: &[u8]) -> bool {
    let all = disks.durable(device, 0, size_bytes as usize);
    all.chunks_exact(512).any(|sector| sector.windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn either_of_two_devices_may_lose_what_was_not_flushed() {
    const SIZE: u64 = 8 << 20;
    const LOG: u64 = 256 << 10;
    let c = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into());
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60u64 {
        let factory =
            Sim { log_apart: true, clean: false, seed: 100 + seed, ..Sim::new(Options::default(), LOG) };
        let disks = factory.disks(SIZE);
        factory.make(&disks, factory.label(SIZE));
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        h.commit(|t| t.create_collection(c, 0).write(c, &object("a"), 0, vec![1; DATA_BYTES / 4].into()));
        // Its data go to one device, and its record to the other. Neither is flushed yet.
        let mut write = Transaction::new();
        let name = format!("attribute of {seed}");
        write.write(c, &object("a"), 0, vec![2; DATA_BYTES / 4].into()).set_attr(
            c,
            &object("a"),
            name.as_str(),
            vec![3],
        );
        h.queue(write);
        for _ in 0..1000 {
            let unflushed = [DeviceId::Data, DeviceId::Wal].map(|device| disks.unflushed_bytes(device));
            if unflushed[0] >= DATA_BYTES as u64 / 4 && unflushed[1] > 0 {
                break;
            }
            h.turn();
        }
        drop(h.abandon());
        disks.reseed(seed);
        disks.power_loss();
        let has_data = is_durable(&disks, DeviceId::Data, SIZE, &[2; 512]);
        let has_record =
            is_durable(&disks, DeviceId::Wal, factory.label(SIZE).log_device_bytes(), name.as_bytes());
        let mut opened = factory.open(&disks);
        check(&mut opened, &format!("after power loss {seed}"));
        let mut h = Harness::new(opened, factory.properties());
        let data = h.data(c, &object("a"));
        let is_new =
            h.get(ReadRequest::Attr { collection: c, object: object("a"), name: name.as_str().into() });
        let byte = if matches!(is_new, Ok(ReadOutcome::Attr(_))) { 2 } else { 1 };
        assert!(data == vec![byte; DATA_BYTES / 4], "seed {seed}: the write is there in part");
        seen.insert((has_data, has_record, byte));
    }
    for case in [(true, false, 1), (false, true, 1), (true, true, 2), (false, false, 1)] {
        assert!(seen.contains(&case), "no power loss left {case:?}: {seen:?}");
    }
}
