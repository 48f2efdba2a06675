//! What simulations rely on beside the contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::Sim;
use blockdev::DeviceId::{Data, Wal};
use blockdev::conformance::Factory as _;
use blockdev::sim::{Counts, SimDisks, SimQueue, WriteFault};
use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Op, Request, Token};
use buffer::{PieceMut, Rope};
use devmodel::Model;
use types::UTime;

const SECTOR: usize = 512;

fn disks(seed: u64) -> SimDisks {
    let mut sim = Sim::new("ssd", 512, &[Data, Wal]);
    sim.make(seed);
    sim.disks().clone()
}

fn at(seconds: u32) -> UTime {
    UTime { sec: seconds, nsec: 0 }
}

fn write(offset: u64, bytes: &[u8], durability: Durability) -> Op {
    Op::Write { offset, data: Rope::copy_from(bytes), durability }
}

fn read(offset: u64, len: usize) -> Op {
    Op::Read { offset, buffer: PieceMut::zeroed(len) }
}

/// Everything that completes until nothing is due any more, with its time.
fn trace(queue: &mut SimQueue, mut now: UTime) -> Vec<(UTime, Completion)> {
    let mut all = Vec::new();
    loop {
        let mut out = Vec::new();
        queue.completions(&mut out);
        all.extend(out.into_iter().map(|completion| (now, completion)));
        let Some(deadline) = queue.deadline() else { return all };
        now = deadline;
        queue.turn(now);
    }
}

fn perform(queue: &mut SimQueue, device: DeviceId, op: Op) -> Result<Done, DeviceError> {
    queue.submit(at(1), &mut vec![Request::new(Token(7), device, op)]);
    trace(queue, at(1)).pop().expect("one request, one completion").1.result
}

fn seen(queue: &mut SimQueue, device: DeviceId, offset: u64, len: usize) -> Vec<u8> {
    match perform(queue, device, read(offset, len)) {
        Ok(Done::Read(mut buffer)) => buffer.as_mut_slice().to_vec(),
        other => panic!("a read gives {other:?}"),
    }
}

fn a_busy_minute(seed: u64) -> (String, Vec<u8>) {
    let disks = disks(seed);
    let mut queue = disks.open();
    let mut log = String::new();
    for n in 0..20u64 {
        let mut batch: Vec<Request> = (0..10)
            .map(|i| {
                let offset = (n * 7 + i * 3) % 40 * 4096;
                let op = match (n + i) % 4 {
                    0 => read(offset, 4096),
                    1 => write(offset, &[n as u8; 4096], Durability::Durable),
                    2 => write(offset, &[n as u8 + 100; 8192], Durability::Volatile),
                    _ => Op::Discard { offset, len: 4096 },
                };
                Request::new(Token(n * 100 + i), if i % 2 == 0 { Data } else { Wal }, op)
            })
            .collect();
        queue.submit(at(10 + n as u32), &mut batch);
        if n % 3 == 0 {
            for (time, completion) in trace(&mut queue, at(10 + n as u32)) {
                log += &format!("{time} {completion:?}\n");
            }
        }
    }
    disks.power_loss();
    (log, [disks.visible(Data, 0, 200_000), disks.visible(Wal, 0, 200_000)].concat())
}

#[test]
fn the_same_seed_gives_the_same_trace_and_the_same_bytes() {
    let first = a_busy_minute(1);
    assert!(first == a_busy_minute(1));
    let other = a_busy_minute(2);
    assert!(first.0 != other.0 && first.1 != other.1);
}

#[test]
fn without_jitter_a_request_takes_the_models_time() {
    let size_bytes = 32 << 20;
    let model = Model::named("disk-7200", &[], size_bytes).unwrap();
    let geometry = blockdev::Geometry {
        size_bytes,
        block_bytes: 512,
        request_bytes_max: 1 << 20,
        queue_depth: 1,
        discards: false,
        rotational: true,
        durable_flushes: false,
    };
    let device = blockdev::sim::SimDevice { id: Data, geometry, model: model.clone() };
    let options = blockdev::sim::SimOptions { seed: 1, jitter_ns: 0..0, devices: vec![device] };
    let mut queue = SimDisks::new(options).open();
    let requests = [(0, 4096), (20 << 20, 4096), (1 << 20, 65536)];
    let mut batch = requests.map(|(o, len)| Request::new(Token(o), Data, read(o, len))).into();
    queue.submit(at(100), &mut batch);
    // One after the other, as the queue is one deep.
    let (mut model, mut now, mut want) = (model, 0, Vec::new());
    for (offset, len) in requests {
        model.arrive(now, offset, devmodel::Request::read(offset, len as u64));
        let done = loop {
            now = model.next_event().unwrap();
            if let [done] = model.complete(now)[..] {
                break done;
            }
        };
        want.push((at(100).as_nanos() + done.at, Token(offset)));
    }
    let seen: Vec<_> =
        trace(&mut queue, at(100)).into_iter().map(|(time, c)| (time.as_nanos(), c.token)).collect();
    assert_eq!(seen, want);
}

#[test]
fn a_power_loss_tears_a_write_by_sectors_but_no_sector() {
    let (mut nothing, mut everything, mut parts) = (0, 0, 0);
    for seed in 0..60 {
        let disks = disks(seed);
        let mut queue = disks.open();
        let old = [1; 64 * SECTOR];
        perform(&mut queue, Data, write(0, &old, Durability::Durable)).unwrap();
        perform(&mut queue, Data, write(0, &[2; 64 * SECTOR], Durability::Volatile)).unwrap();
        assert!(disks.durable(Data, 0, old.len()) == old, "nothing is durable before a flush");
        assert_eq!(disks.unflushed_bytes(Data), 64 * SECTOR as u64);
        disks.power_loss();
        let left = disks.visible(Data, 0, old.len());
        assert!(left == disks.durable(Data, 0, old.len()));
        let twos = left.chunks(SECTOR).filter(|s| **s == [2; SECTOR]).count();
        let ones = left.chunks(SECTOR).filter(|s| **s == [1; SECTOR]).count();
        assert_eq!(ones + twos, 64, "no sector is torn");
        match twos {
            0 => nothing += 1,
            64 => everything += 1,
            _ => parts += 1,
        }
    }
    assert!(nothing > 5 && everything > 5 && parts > 5, "{nothing}, {everything}, {parts}");
}

#[test]
fn a_power_loss_leaves_any_part_of_what_was_in_flight() {
    let mut survived = Vec::new();
    for seed in 0..30 {
        let disks = disks(seed);
        let mut queue = disks.open();
        perform(&mut queue, Data, write(0, &[1; 64 * SECTOR], Durability::Durable)).unwrap();
        let op = write(0, &[2; 64 * SECTOR], Durability::Durable);
        queue.submit(at(2), &mut vec![Request::new(Token(1), Data, op)]);
        disks.power_loss();
        let left = disks.visible(Data, 0, 64 * SECTOR);
        survived.push(left.iter().filter(|b| **b == 2).count() / SECTOR);
        let mut out = Vec::new();
        queue.turn(at(100));
        queue.completions(&mut out);
        assert!(out.is_empty(), "what was in flight never completes");
        let closed = perform(&mut queue, Data, Op::Flush).unwrap_err();
        assert_eq!(closed, DeviceError::Closed { device: Data });
        assert!(disks.visible(Data, 0, 64 * SECTOR) == left, "and is never done afterwards");
    }
    assert!(survived.contains(&0) && survived.iter().any(|n| (1..64).contains(n)), "{survived:?}");
}

#[test]
fn a_process_that_ends_loses_nothing_that_was_done() {
    let disks = disks(1);
    let mut queue = disks.open();
    perform(&mut queue, Data, write(0, &[3; 4096], Durability::Volatile)).unwrap();
    disks.close();
    assert!(seen(&mut disks.open(), Data, 0, 4096) == [3; 4096]);
    assert_eq!(disks.unflushed_bytes(Data), 4096, "a power loss can still take it");
}

#[test]
fn writes_are_lost_and_misdirected_and_bits_flip() {
    for durability in [Durability::Volatile, Durability::Durable] {
        let disks = disks(1);
        let mut queue = disks.open();
        perform(&mut queue, Data, write(0, &[1; 16384], Durability::Durable)).unwrap();
        disks.fault_next_write(Data, WriteFault::Lost);
        disks.fault_next_write(Data, WriteFault::Misdirected(8192));
        for byte in [2, 3] {
            assert!(matches!(
                perform(&mut queue, Data, write(0, &[byte; 4096], durability)),
                Ok(Done::Written)
            ));
        }
        perform(&mut queue, Data, Op::Flush).unwrap();
        let mut want = [1; 16384];
        want[8192..12288].fill(3);
        assert!(disks.durable(Data, 0, 16384) == want);
        disks.flip_bit(Data, 5000, 6);
        want[5000] = 65;
        assert!(seen(&mut queue, Data, 0, 16384) == want);
        disks.power_loss();
        assert!(disks.durable(Data, 0, 16384) == want);
    }
}

#[test]
fn a_flipped_bit_of_what_is_volatile_stays_flipped_after_a_flush() {
    let disks = disks(1);
    let mut queue = disks.open();
    perform(&mut queue, Data, write(0, &[1; 4096], Durability::Volatile)).unwrap();
    disks.flip_bit(Data, 700, 0);
    perform(&mut queue, Data, Op::Flush).unwrap();
    assert_eq!(disks.durable(Data, 699, 3), [1, 0, 1]);
}

#[test]
fn a_block_that_cannot_be_read_can_be_when_it_was_written() {
    let disks = disks(1);
    let mut queue = disks.open();
    disks.fail_reads(Data, 4096..12288);
    let io = |offset| DeviceError::Io { device: Data, offset, errno: types::Errno::EIO };
    assert_eq!(perform(&mut queue, Data, read(0, 16384)).unwrap_err(), io(4096));
    perform(&mut queue, Data, write(4096, &[5; 4096], Durability::Volatile)).unwrap();
    assert_eq!(perform(&mut queue, Data, read(0, 16384)).unwrap_err(), io(8192));
    assert!(seen(&mut queue, Data, 4096, 4096) == [5; 4096]);
    disks.heal(Data);
    seen(&mut queue, Data, 0, 16384);
}

#[test]
fn what_becomes_ready_for_another_queue_wakes_it() {
    let disks = disks(1);
    let (mut a, mut b) = (disks.open(), disks.open());
    let woken = Arc::new(AtomicU32::new(0));
    let called = woken.clone();
    b.set_waker(Arc::new(move || {
        called.fetch_add(1, Ordering::SeqCst);
    }));
    b.submit(at(1), &mut vec![Request::new(Token(1), Data, read(0, 512))]);
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    a.turn(at(50));
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    let mut out = Vec::new();
    b.completions(&mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn requests_are_counted() {
    let disks = disks(1);
    let mut queue = disks.open();
    perform(&mut queue, Wal, write(0, &[1; 1024], Durability::Durable)).unwrap();
    perform(&mut queue, Wal, write(0, &[1; 512], Durability::Volatile)).unwrap();
    perform(&mut queue, Wal, Op::Flush).unwrap();
    perform(&mut queue, Wal, read(7, 512)).unwrap_err();
    seen(&mut queue, Wal, 0, 512);
    perform(&mut queue, Wal, Op::Discard { offset: 0, len: 512 }).unwrap();
    let want = Counts {
        reads: 1,
        read_bytes: 512,
        writes: 2,
        durable_writes: 1,
        written_bytes: 1536,
        flushes: 1,
        discards: 1,
    };
    assert_eq!((disks.counts(Wal), disks.counts(Data)), (want, Counts::default()));
}
