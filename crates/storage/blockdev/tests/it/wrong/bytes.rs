//! Bytes in the wrong place, or not there.

use std::collections::BTreeMap;

use blockdev::sim::SimQueue;
use blockdev::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Op, Request, Token};
use buffer::{PieceMut, Rope};
use types::UTime;

use super::Flaw;

/// A flaw that changes requests one by one.
pub struct Changes(pub fn(&mut Request));

impl Flaw for Changes {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        requests.iter_mut().for_each(|request| (self.0)(request));
        inner.submit(now, requests);
    }
}

pub const BLOCK: u64 = 4096;
pub const SIZE: u64 = 32 << 20;

pub fn drops_the_last_block(request: &mut Request) {
    if let Op::Write { data, .. } = &mut request.op {
        if data.len() as u64 > 4 * BLOCK && data.len() as u64 % BLOCK == 0 {
            *data = data.slice(0..data.len() - BLOCK as usize);
        }
    }
}

/// As `writev` does with more pieces than it takes.
pub fn writes_1024_pieces(request: &mut Request) {
    if let Op::Write { data, .. } = &mut request.op {
        let mut first = Rope::new();
        data.pieces().iter().take(1024).for_each(|piece| first.push(piece.clone()));
        if first.len() < data.len() && data.len() as u64 % BLOCK == 0 {
            let rest = data.len() - first.len();
            first.append(Rope::zeros(rest));
            *data = first;
        }
    }
}

pub fn writes_one_block_too_much(request: &mut Request) {
    if let Op::Write { offset, data, .. } = &mut request.op {
        if data.len() as u64 % BLOCK == 0 && *offset + (data.len() as u64) + BLOCK <= SIZE && !data.is_empty()
        {
            data.append(Rope::zeros(BLOCK as usize));
        }
    }
}

pub fn rounds_offsets(request: &mut Request) {
    if let Op::Read { offset, .. } | Op::Write { offset, .. } | Op::Discard { offset, .. } = &mut request.op {
        *offset = *offset / BLOCK * BLOCK;
    }
}

pub fn wraps_around_its_end(request: &mut Request) {
    if let Op::Read { offset, .. } | Op::Write { offset, .. } | Op::Discard { offset, .. } = &mut request.op {
        if *offset > SIZE {
            *offset %= SIZE;
        }
    }
}

pub fn ignores_the_device(request: &mut Request) {
    request.device = DeviceId::Data;
}

pub fn takes_an_unknown_device_for_its_first(request: &mut Request) {
    if request.device == DeviceId::Wal {
        request.device = DeviceId::Data;
    }
}

pub fn discards_the_block_behind(request: &mut Request) {
    if let Op::Discard { offset, len } = &mut request.op {
        if *len % BLOCK == 0 && *len > 0 && offset.saturating_add(*len) < SIZE {
            *len += BLOCK;
        }
    }
}

/// Takes discards at once, and performs them at the next flush.
#[derive(Default)]
pub struct DiscardsLate {
    held: Vec<Request>,
    tokens: Vec<(usize, Token)>,
}

impl Flaw for DiscardsLate {
    fn submit(&mut self, queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter_mut() {
            match request.op {
                Op::Discard { offset, len } => {
                    self.held.push(Request::new(super::OWN, request.device, Op::Discard { offset, len }));
                    self.tokens.push((queue, request.token));
                    request.op = Op::Read { offset, buffer: PieceMut::zeroed(BLOCK as usize) };
                }
                Op::Flush => inner.submit(now, &mut self.held),
                Op::Read { .. } | Op::Write { .. } => {}
            }
        }
        inner.submit(now, requests);
    }

    fn completed(&mut self, queue: usize, done: &mut Vec<Completion>) {
        for completion in done {
            if let Some(at) = self.tokens.iter().position(|known| *known == (queue, completion.token)) {
                self.tokens.swap_remove(at);
                completion.result = Ok(Done::Discarded);
            }
        }
    }
}

/// Keeps what it has read in a cache of its queue, which writes of that queue update.
#[derive(Default)]
pub struct StaleCache {
    cache: BTreeMap<(usize, DeviceId, u64, usize), Vec<u8>>,
    reads: BTreeMap<(usize, Token), (DeviceId, u64)>,
}

impl Flaw for StaleCache {
    fn submit(&mut self, queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter() {
            match &request.op {
                Op::Read { offset, .. } => {
                    self.reads.insert((queue, request.token), (request.device, *offset));
                }
                Op::Write { .. } => self.cache.retain(|key, _| key.0 != queue),
                Op::Flush | Op::Discard { .. } => {}
            }
        }
        inner.submit(now, requests);
    }

    fn completed(&mut self, queue: usize, done: &mut Vec<Completion>) {
        for completion in done {
            let Some((device, offset)) = self.reads.remove(&(queue, completion.token)) else { continue };
            let Ok(Done::Read(buffer)) = &mut completion.result else { continue };
            let key = (queue, device, offset, buffer.len());
            let cached = self.cache.entry(key).or_insert_with(|| buffer.as_mut_slice().to_vec());
            buffer.as_mut_slice().copy_from_slice(cached);
        }
    }
}

/// A flaw that changes completions one by one.
pub struct Answers(pub fn(&mut Completion));

impl Flaw for Answers {
    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        done.iter_mut().for_each(|completion| (self.0)(completion));
    }
}

pub fn hands_back_another_buffer(completion: &mut Completion) {
    if let Ok(Done::Read(buffer)) = &mut completion.result {
        let mut other = PieceMut::zeroed(buffer.len());
        other.as_mut_slice().copy_from_slice(buffer.as_mut_slice());
        *buffer = other;
    }
}

pub fn leaves_buffers_below_a_page_empty(completion: &mut Completion) {
    if let Ok(Done::Read(buffer)) = &mut completion.result {
        if (buffer.len() as u64) < BLOCK {
            buffer.as_mut_slice().fill(0xa5);
        }
    }
}

pub fn says_written_for_a_discard(completion: &mut Completion) {
    if let Ok(done @ Done::Discarded) = &mut completion.result {
        *done = Done::Written;
    }
}

pub fn names_the_first_byte_of_the_device(completion: &mut Completion) {
    if let Err(DeviceError::Io { offset, .. }) = &mut completion.result {
        *offset = 0;
    }
}

/// Tears sectors that are read while a write to them is in flight: the second half is of the next sector read before.
#[derive(Default)]
pub struct TearsReads {
    writes: usize,
}

impl Flaw for TearsReads {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        self.writes += requests.iter().filter(|r| matches!(r.op, Op::Write { .. })).count();
        inner.submit(now, requests);
    }

    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        let beside_a_write = self.writes > 0;
        for completion in done {
            match &mut completion.result {
                Ok(Done::Read(buffer)) if beside_a_write && buffer.len() >= 1024 => {
                    buffer.as_mut_slice().copy_within(768..1024, 256);
                }
                Ok(Done::Written) => self.writes -= 1,
                _ => {}
            }
        }
    }
}
