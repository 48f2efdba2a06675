//! The log on simulated disks: whatever a power loss takes, what was acknowledged is replayed, in order and whole, and
//! nothing else comes back later.

use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token};
use buffer::{PieceMut, Rope, crc32c};
use devmodel::Model;
use types::{SplitMix64, UTime};
use wal::{Beside, Layout, Log, Opening, Replay, Replayed, WalError, Write};

const LAYOUT: Layout = Layout { offset: 64 << 10, bytes: 64 << 10, unit_bytes: 512, id: 0x1234_5678_9abc };
const DISK_BYTES: u64 = 1 << 20;
/// Data beside the log lies from here on.
const DATA_OFFSET: u64 = 256 << 10;
/// Payloads beside the log.
const PAYLOAD_OFFSET: u64 = 768 << 10;

fn disks(seed: u64) -> SimDisks {
    let geometry = Geometry {
        size_bytes: DISK_BYTES,
        block_bytes: 512,
        request_bytes_max: 8 << 10,
        queue_depth: 8,
        discards: true,
        rotational: false,
        durable_flushes: false,
    };
    let model = Model::named("ssd", &[], DISK_BYTES).expect("a model");
    let devices = vec![SimDevice { id: DeviceId::Data, geometry, model }];
    SimDisks::new(SimOptions { seed, jitter_ns: 0..300_000, devices })
}

/// One user of the disks.
struct Disk {
    queue: SimQueue,
    now: UTime,
    random: SplitMix64,
}

/// A power loss happened while something was under way.
struct PowerLoss;

impl Disk {
    fn submit(&mut self, ops: Vec<Op>) -> usize {
        let mut batch: Vec<_> =
            ops.into_iter().map(|op| Request::new(Token(0), DeviceId::Data, op)).collect();
        let count = batch.len();
        self.queue.submit(self.now, &mut batch);
        count
    }

    /// Does some requests, and loses power in between by chance.
    fn perform(&mut self, ops: Vec<Op>, crash_one_in: Option<u64>) -> Result<Vec<Done>, PowerLoss> {
        let mut open = self.submit(ops);
        let mut done = Vec::new();
        loop {
            let mut out = Vec::new();
            self.queue.completions(&mut out);
            open -= out.len();
            done.extend(out.into_iter().map(|c| c.result.expect("no faults but power losses")));
            if crash_one_in.is_some_and(|n| self.random.one_in(n)) {
                return Err(PowerLoss);
            }
            if open == 0 {
                return Ok(done);
            }
            self.now = self.queue.deadline().expect("something is in flight");
            self.queue.turn(self.now);
        }
    }

    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for start in (0..len).step_by(8 << 10) {
            let buffer = PieceMut::zeroed((len - start).min(8 << 10));
            let op = Op::Read { offset: offset + start as u64, buffer };
            match self.perform(vec![op], None).ok().and_then(|mut done| done.pop()) {
                Some(Done::Read(buffer)) => bytes.extend_from_slice(&buffer.freeze()),
                _ => panic!("a read completes as one"),
            }
        }
        bytes
    }
}

fn writes(parts: Vec<Write>, durability: Durability) -> Vec<Op> {
    let cut = |w: Write| {
        let (offset, data) = (w.offset, w.data);
        (0..data.len()).step_by(8 << 10).map(move |from| Op::Write {
            offset: offset + from as u64,
            data: data.slice(from..data.len().min(from + (8 << 10))),
            durability,
        })
    };
    parts.into_iter().flat_map(cut).collect()
}

fn replay(disk: &mut Disk, opening: Opening) -> Result<Replayed, WalError> {
    let mut replay = Replay::new(LAYOUT, opening, 8 << 10);
    while let Some((offset, len)) = replay.wanted() {
        let bytes = disk.read(offset, len);
        replay.on_read(&bytes);
    }
    let mut replayed = replay.finish()?;
    let mut from = 0;
    while let Some((sequence, runs)) = replayed.unread(from) {
        from = sequence + 1;
        let bytes: Vec<u8> = runs.iter().flat_map(|run| disk.read(run.offset, run.bytes())).collect();
        replayed.on_beside(sequence, &LAYOUT, &bytes.into())?;
    }
    Ok(replayed)
}

/// What is known of the log's contents.
struct History {
    disks: SimDisks,
    disk: Disk,
    opening: Opening,
    log: Log,
    /// The payloads from `opening.kept` on; the last may not be durable.
    kept: Vec<Vec<u8>>,
    acknowledged: u64,
    /// Blocks of data used in turn.
    next_block: u64,
    /// Bytes of payloads beside the log since the last trim.
    payloads: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let disks = disks(seed);
        let disk = Disk {
            queue: disks.open(),
            now: UTime { sec: 1, nsec: 0 },
            random: SplitMix64::new(seed ^ 0x55),
        };
        let opening = Opening::FIRST;
        let log = Log::new(LAYOUT, opening.salt, opening.kept, opening.sealed);
        Self { disks, disk, opening, log, kept: Vec::new(), acknowledged: 0, next_block: 0, payloads: 0 }
    }

    /// Data of so many blocks, at places that no record above the durable mark uses.
    fn data(&mut self, blocks: u64) -> (Write, Beside) {
        let all = (PAYLOAD_OFFSET - DATA_OFFSET) / 4096;
        let first = if self.next_block + blocks > all { 0 } else { self.next_block };
        self.next_block = first + blocks;
        let mut piece = PieceMut::zeroed(blocks as usize * 4096);
        piece.as_mut_slice().fill_with(|| self.disk.random.next_u64() as u8);
        let data = piece.freeze();
        let offset = DATA_OFFSET + first * 4096;
        let checksums = data.chunks(4096).map(|b| crc32c(!0, b)).collect();
        (Write { offset, data: data.into() }, Beside { offset, checksums })
    }

    /// Appends a record and makes it durable.
    fn append(&mut self, crash_one_in: u64) -> Result<(), PowerLoss> {
        let len = match self.disk.random.below(8) {
            0 => 0,
            1 => 12 << 10,
            _ => self.disk.random.below(2000),
        };
        let mut payload = vec![0; len as usize];
        payload.fill_with(|| self.disk.random.next_u64() as u8);
        let (mut ops, mut beside) = (Vec::new(), Vec::new());
        if self.disk.random.one_in(3) {
            for _ in 0..1 + self.disk.random.below(2) {
                let blocks = 1 + self.disk.random.below(3);
                let (write, run) = self.data(blocks);
                ops.extend(writes(vec![write], Durability::Volatile));
                beside.push(run);
            }
        }
        let placed = len > 0 && self.disk.random.one_in(4);
        let room = PAYLOAD_OFFSET + self.payloads + len.next_multiple_of(4096) <= DISK_BYTES;
        let bytes = self.log.record_bytes(len, &beside) + 512;
        if bytes > self.log.room_bytes() || placed && !room || self.disk.random.one_in(20) {
            self.trim(crash_one_in)?;
        }
        let begun = match placed {
            true => {
                let mut whole = payload.clone();
                whole.resize(len.next_multiple_of(4096) as usize, 0);
                let offset = PAYLOAD_OFFSET + self.payloads;
                self.payloads += whole.len() as u64;
                let checksums = whole.chunks(4096).map(|b| crc32c(!0, b)).collect();
                ops.extend(writes(vec![Write { offset, data: whole.into() }], Durability::Volatile));
                beside.push(Beside { offset, checksums });
                self.log.begin_beside(len, &beside, 1)
            }
            false => self.log.begin(Rope::copy_from(&payload), &beside),
        };
        let begun = begun.expect("a trimmed log has room");
        self.kept.push(payload);
        let one = ops.is_empty() && begun.writes.len() == 1 && bytes <= 8 << 10;
        if one {
            self.disk.perform(writes(begun.writes, Durability::Durable), Some(crash_one_in))?;
        } else {
            ops.extend(writes(begun.writes, Durability::Volatile));
            self.disk.perform(ops, Some(crash_one_in))?;
            self.disk.perform(vec![Op::Flush], Some(crash_one_in))?;
        }
        self.log.on_durable();
        self.acknowledged = begun.sequence;
        Ok(())
    }

    /// Drops everything that is durable. What the owner keeps is durable at once here.
    fn trim(&mut self, _crash_one_in: u64) -> Result<(), PowerLoss> {
        self.log.trim(self.log.end());
        self.opening.kept = self.log.end();
        self.kept.clear();
        self.payloads = 0;
        Ok(())
    }

    /// Loses power, opens the log again and checks what is there.
    fn crash(&mut self, seed: u64) {
        self.disks.reseed(seed);
        self.disks.power_loss();
        self.disk.queue = self.disks.open();
        let replayed = replay(&mut self.disk, self.opening).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let first = self.opening.kept.sequence;
        let found: Vec<&[u8]> = replayed.records.iter().map(|r| &r.payload[..]).collect();
        let acknowledged = (self.acknowledged + 1 - first) as usize;
        assert!(found.len() >= acknowledged, "seed {seed}: {} of {acknowledged} records", found.len());
        assert!(found.len() <= self.kept.len(), "seed {seed}: records that were never written");
        for (i, payload) in found.iter().enumerate() {
            assert!(*payload == self.kept[i], "seed {seed}: record {i} has other bytes");
            assert_eq!(replayed.records[i].sequence, first + i as u64);
        }
        // What it wrote beside the log is as durable as the last record is. (Earlier records' data may be overwritten.)
        for run in replayed.records.last().map_or(&[][..], |last| &last.beside) {
            assert!(
                run.matches(&self.disk.read(run.offset, run.bytes())),
                "seed {seed}: a record without its data"
            );
        }
        self.kept.truncate(found.len());
        self.acknowledged = replayed.end.sequence - 1;
        // The same once more: a second crash during the replay changes nothing.
        self.disks.power_loss();
        self.disk.queue = self.disks.open();
        assert_eq!(replay(&mut self.disk, self.opening), Ok(replayed.clone()), "seed {seed}: replayed twice");
        let Opening { kept, salt, flushed, .. } = self.opening;
        self.opening = Opening { kept, sealed: replayed.end, salt: salt + 1, flushed };
        self.log = Log::new(LAYOUT, salt + 1, kept, replayed.end);
    }
}

fn history(seed: u64) -> u64 {
    let mut history = History::new(seed);
    for round in 0..6 {
        let crash_one_in = [200, 40, 10][(seed + round) as usize % 3];
        for _ in 0..60 {
            if history.append(crash_one_in).is_err() {
                break;
            }
        }
        history.crash(seed * 100 + round);
    }
    history.log.end().at / LAYOUT.bytes
}

#[test]
fn what_was_acknowledged_survives_power_losses_and_what_was_dropped_stays_gone() {
    let laps: u64 = (0..150).map(history).sum();
    assert!(laps > 100, "the logs wrapped {laps} times");
}

/// A log of some records, and where each begins on the device.
fn written(records: u64) -> (History, Vec<u64>) {
    let mut history = History::new(3);
    let mut places = Vec::new();
    for _ in 0..records {
        let end = history.log.end();
        places.push(LAYOUT.offset + end.at % LAYOUT.bytes);
        let payload = vec![end.sequence as u8; 700];
        let begun = history.log.begin(Rope::copy_from(&payload), &[]).expect("room");
        let done = history.disk.perform(writes(begun.writes, Durability::Durable), None);
        assert!(done.is_ok());
        history.log.on_durable();
    }
    (history, places)
}

#[test]
fn a_flipped_bit_below_the_flushed_mark_is_corruption_and_above_it_the_end() {
    const RECORDS: u64 = 6;
    for sequence in 1..=RECORDS {
        // In the header, in the payload's first unit, in its second.
        for place in [20, 100, 700] {
            let (mut history, places) = written(RECORDS);
            let offset = places[sequence as usize - 1];
            history.disks.flip_bit(DeviceId::Data, offset + place, 3);
            let replayed = replay(&mut history.disk, history.opening);
            match sequence {
                RECORDS => assert_eq!(replayed.map(|r| r.records.len() as u64), Ok(RECORDS - 1)),
                _ => {
                    let flushed = RECORDS - 1;
                    assert_eq!(replayed, Err(WalError::Corrupt { sequence, offset, flushed }), "{place}");
                }
            }
        }
    }
}

#[test]
fn the_last_record_is_known_durable_once_an_opening_has_sealed_the_log() {
    let (mut history, places) = written(3);
    let replayed = replay(&mut history.disk, history.opening).expect("nothing is wrong");
    let opening = Opening { sealed: replayed.end, salt: 2, ..history.opening };
    history.disks.flip_bit(DeviceId::Data, places[2] + 100, 0);
    let corrupt = WalError::Corrupt { sequence: 3, offset: places[2], flushed: 3 };
    assert_eq!(replay(&mut history.disk, opening), Err(corrupt));
}

#[test]
fn a_log_that_lost_what_was_known_durable_is_missed() {
    let (mut history, places) = written(3);
    let opening = Opening { flushed: 2, ..history.opening };
    assert_eq!(replay(&mut history.disk, opening).map(|r| r.records.len()), Ok(3));
    // Without a record left nothing in the log says that there was one.
    for place in places.iter().rev() {
        let zeros = wal::Write { offset: *place, data: Rope::zeros(512) };
        assert!(history.disk.perform(writes(vec![zeros], Durability::Durable), None).is_ok());
    }
    assert_eq!(replay(&mut history.disk, history.opening).map(|r| r.records.len()), Ok(0));
    let corrupt = WalError::Corrupt { sequence: 1, offset: places[0], flushed: 2 };
    assert_eq!(replay(&mut history.disk, opening), Err(corrupt));
}

#[test]
fn a_record_that_an_opening_dropped_does_not_come_back_when_its_data_does() {
    let mut history = History::new(5);
    let (write, beside) = history.data(1);
    let begun = history.log.begin(Rope::copy_from(b"never durable"), std::slice::from_ref(&beside));
    let begun = begun.expect("room");
    assert!(history.disk.perform(writes(begun.writes, Durability::Durable), None).is_ok());
    let replayed = replay(&mut history.disk, history.opening).expect("not corrupt");
    assert_eq!(replayed.records, [], "its data isn't there");
    let opening = Opening { sealed: replayed.end, salt: 2, ..history.opening };
    // The next opening writes the same bytes to the same place, and loses power before its record is written.
    assert!(history.disk.perform(writes(vec![write], Durability::Durable), None).is_ok());
    assert_eq!(replay(&mut history.disk, opening).map(|r| r.records), Ok(vec![]));
    assert_eq!(replay(&mut history.disk, history.opening).map(|r| r.records.len()), Ok(1), "it is all there");
}

/// Appends small records, which are durable at once.
fn append(history: &mut History, records: u64) {
    for _ in 0..records {
        let begun = history.log.begin(Rope::copy_from(&[7; 700]), &[]).expect("room");
        assert!(history.disk.perform(writes(begun.writes, Durability::Durable), None).is_ok());
        history.log.on_durable();
    }
}

#[test]
fn an_opening_that_was_lost_is_missed_at_its_first_record() {
    let (mut history, _) = written(3);
    let earlier = history.opening;
    history.opening = Opening { sealed: history.log.end(), salt: 2, ..earlier };
    history.log = Log::new(LAYOUT, 2, earlier.kept, history.log.end());
    assert_eq!(
        replay(&mut history.disk, earlier).map(|r| r.end),
        Ok(history.log.end()),
        "it wrote nothing yet"
    );
    let offset = LAYOUT.offset + history.log.end().at;
    append(&mut history, 2);
    let outdated = WalError::Outdated { sequence: 4, offset };
    assert_eq!(replay(&mut history.disk, earlier), Err(outdated.clone()));
    // A tool that only reads the log has all of it.
    let mut log = Replay::new(LAYOUT, earlier, 8 << 10);
    while let Some((offset, len)) = log.wanted() {
        log.on_read(&history.disk.read(offset, len));
    }
    let (replayed, error) = log.finish_damaged();
    assert_eq!((replayed.records.len(), replayed.end, error), (5, history.log.end(), Some(outdated.clone())));
    // Also where that record was never whole.
    history.disks.flip_bit(DeviceId::Data, offset + 100, 3);
    assert_eq!(replay(&mut history.disk, earlier), Err(outdated));
}

#[test]
fn what_an_opening_has_no_room_for_says_that_a_later_one_was_lost() {
    let (mut history, _) = written(3);
    let earlier = history.opening;
    for _ in 0..20 {
        history.log.trim(history.log.end());
        append(&mut history, 5);
        let lapped = history.log.end().at > LAYOUT.bytes;
        let found = replay(&mut history.disk, earlier);
        assert_eq!(matches!(found, Err(WalError::Outdated { .. })), lapped, "{found:?}");
    }
    assert!(history.log.end().at > LAYOUT.bytes);
}

/// The newest state of a log's owner may be lost, so that the one before counts: what was acknowledged since is there or is missed.
#[test]
fn no_opening_that_was_lost_goes_unnoticed() {
    let (mut missed, mut whole) = (0, 0);
    for seed in 0..300 {
        let mut history = History::new(seed);
        let mut before = history.opening;
        for round in 0..6 {
            let crash_one_in = [200, 40, 10][(seed + round) as usize % 3];
            for _ in 0..60 {
                let newest = history.opening;
                let crashed = history.append(crash_one_in).is_err();
                if newest != history.opening {
                    before = newest;
                }
                if crashed {
                    break;
                }
            }
            let newest = history.opening;
            history.crash(seed * 100 + round);
            let end = history.log.end();
            // What a crash leaves, and the state that is written when the log is opened after it.
            for earlier in [before, newest] {
                if newest.kept == end {
                    // No record says that the last one before was durable, and its data may be overwritten.
                    continue;
                }
                match replay(&mut history.disk, earlier) {
                    Ok(found) => {
                        assert_eq!(found.end, end, "seed {seed}: {earlier:?} for {newest:?}");
                        whole += 1;
                    }
                    Err(WalError::Outdated { .. }) => missed += 1,
                    Err(WalError::Corrupt { .. }) => {}
                }
            }
            before = newest;
        }
    }
    assert!(missed > 100 && whole > 100, "{missed} were missed, {whole} lost nothing");
}

#[test]
fn a_log_on_a_disk_full_of_noise_is_empty() {
    for seed in 0..20 {
        let mut history = History::new(seed);
        let replayed = replay(&mut history.disk, Opening::FIRST).expect("noise is not corruption");
        assert_eq!((replayed.records.len(), replayed.end.sequence), (0, 1));
    }
}

#[test]
fn a_record_of_another_log_in_the_same_place_does_not_count() {
    let (mut history, _) = written(2);
    let mut replay = Replay::new(Layout { id: 77, ..LAYOUT }, Opening::FIRST, 8 << 10);
    while let Some((offset, len)) = replay.wanted() {
        let bytes = history.disk.read(offset, len);
        replay.on_read(&bytes);
    }
    assert_eq!(replay.finish().map(|r| r.records), Ok(vec![]));
}
