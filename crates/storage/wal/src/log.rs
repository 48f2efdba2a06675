//! Writing.

use buffer::{Piece, Rope};

use crate::record::{Header, beside_bytes, encode_body, record_bytes};
use crate::{Beside, Layout, Position};

/// Bytes to write to the log's device.
#[derive(Clone, Debug)]
pub struct Write {
    /// First byte on the device.
    pub offset: u64,
    /// Whole units.
    pub data: Rope,
}

/// A record that is to be written. It is durable when all of `writes` and what lies beside the log are: each by a durable write, or all
/// by a flush that is submitted when they have completed.
#[derive(Clone, Debug)]
pub struct Begun {
    pub sequence: u64,
    /// One, or two where the record wraps around the ring's end.
    pub writes: Vec<Write>,
}

/// The writing end of a log.
///
/// Invariant: `kept.at <= end.at <= kept.at + layout.bytes`.
#[derive(Debug)]
pub struct Log {
    layout: Layout,
    salt: u64,
    /// Records from here on are kept.
    kept: Position,
    /// Where the next record goes.
    end: Position,
    /// Every record up to this sequence is durable.
    flushed: u64,
    /// The highest flushed mark that a durable record carries.
    marked: u64,
    /// The record being written, and the mark that it carries.
    in_flight: Option<(u64, u64)>,
}

impl Log {
    /// A log whose records from `kept` to `end` are durable. `salt` is larger than that of every opening before.
    pub fn new(layout: Layout, salt: u64, kept: Position, end: Position) -> Self {
        debug_assert!((kept.at..=kept.at + layout.bytes).contains(&end.at), "the log ends where it is kept");
        let durable = end.sequence - 1;
        // What was replayed is durable, but the last record's mark says so of the one before it only.
        let marked = if kept == end { durable } else { durable.saturating_sub(1) };
        Self { layout, salt, kept, end, flushed: durable, marked, in_flight: None }
    }

    /// Where the next record goes.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Where the oldest record that is kept begins.
    pub fn kept(&self) -> Position {
        self.kept
    }

    /// Bytes that records take.
    pub fn used_bytes(&self) -> u64 {
        self.end.at - self.kept.at
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every record up to this sequence is durable.
    pub fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Every record up to this sequence is known durable to a replay, whatever the power loss takes: a durable record says
    /// so. Data of records up to here is not checked by a replay, so what they gave up may be used again.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// Bytes that a record takes in the ring.
    pub fn record_bytes(&self, payload_bytes: u64, beside: &[Beside]) -> u64 {
        record_bytes(&self.layout, payload_bytes + beside_bytes(beside))
    }

    /// Bytes that the next record may take.
    pub fn room_bytes(&self) -> u64 {
        self.layout.bytes - self.used_bytes()
    }

    /// Begins the next record. `None` if there is no room for it, it is too long, or one is in flight.
    pub fn begin(&mut self, payload: Rope, beside: &[Beside]) -> Option<Begun> {
        self.begin_record(payload, beside, 0)
    }

    /// The same where the last `payload_runs` of what lies beside the log are the payload of so many bytes.
    pub fn begin_beside(
        &mut self,
        payload_bytes: u64,
        beside: &[Beside],
        payload_runs: u32,
    ) -> Option<Begun> {
        self.begin_record(Rope::copy_from(&payload_bytes.to_le_bytes()), beside, payload_runs)
    }

    fn begin_record(&mut self, payload: Rope, beside: &[Beside], payload_runs: u32) -> Option<Begun> {
        let bytes = self.record_bytes(payload.len() as u64, beside);
        if self.in_flight.is_some() || bytes > self.room_bytes().min(self.layout.record_bytes_max()) {
            return None;
        }
        let body = encode_body(beside, payload);
        let header = Header {
            log: self.layout.id,
            salt: self.salt,
            position: self.end,
            flushed: self.flushed,
            body_bytes: u32::try_from(body.len()).ok()?,
            beside_runs: beside.len() as u32,
            body_crc: body.crc32c(!0),
            payload_runs,
        };
        // Small records are one piece, so that a device that wants aligned memory has it without a copy.
        let header = header.encode();
        let parts = body.pieces().iter().map(|piece| piece.as_slice());
        let record = Piece::joined(std::iter::once(&header[..]).chain(parts), bytes as usize).into();
        let sequence = self.end.sequence;
        let writes = self.place(record);
        self.end = Position { at: self.end.at + bytes, sequence: sequence + 1 };
        self.in_flight = Some((sequence, self.flushed));
        Some(Begun { sequence, writes })
    }

    /// The record in flight and what lies beside it are durable.
    pub fn on_durable(&mut self) {
        if let Some((sequence, mark)) = self.in_flight.take() {
            self.flushed = sequence;
            self.marked = self.marked.max(mark);
        }
    }

    /// Records before `to` are not needed any more; whoever opens the log next knows that.
    pub fn trim(&mut self, to: Position) {
        if to.at > self.kept.at && to.at <= self.end.at {
            self.kept = to;
        }
    }

    /// Divides a record at the ring's end.
    fn place(&self, record: Rope) -> Vec<Write> {
        let start = self.end.at % self.layout.bytes;
        let before_end = (self.layout.bytes - start) as usize;
        if record.len() <= before_end {
            return vec![Write { offset: self.layout.offset + start, data: record }];
        }
        let (head, tail) = (record.slice(0..before_end), record.slice(before_end..record.len()));
        vec![
            Write { offset: self.layout.offset + start, data: head },
            Write { offset: self.layout.offset, data: tail },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let layout = Layout { offset: 1 << 20, bytes: 8192, unit_bytes: 512, id: 9 };
        Log::new(layout, 1, Position::START, Position::START)
    }

    #[test]
    fn a_record_wraps_around_the_end_and_room_comes_back_with_a_trim() {
        let mut log = log();
        let mut ends = vec![log.end()];
        for (sequence, at) in [(1, 0), (2, 1536), (3, 3072), (4, 4608), (5, 6144)] {
            let begun = log.begin(Rope::zeros(1400), &[]).expect("there is room");
            assert_eq!(
                (begun.sequence, begun.writes.len(), begun.writes[0].offset),
                (sequence, 1, (1 << 20) + at)
            );
            assert!(log.begin(Rope::zeros(1), &[]).is_none(), "one record is in flight");
            log.on_durable();
            ends.push(log.end());
        }
        assert_eq!(log.room_bytes(), 512);
        assert!(log.begin(Rope::zeros(1400), &[]).is_none(), "there is no room");
        log.trim(ends[1]);
        assert_eq!(log.used_bytes(), 4 * 1536);
        let sixth = log.begin(Rope::zeros(1400), &[]).expect("a trim makes room");
        let places: Vec<_> = sixth.writes.iter().map(|w| (w.offset, w.data.len())).collect();
        assert_eq!(places, [((1 << 20) + 7680, 512), (1 << 20, 1024)]);
        log.on_durable();
        log.trim(log.end());
        assert!(log.begin(Rope::zeros(2048), &[]).is_none(), "longer than a record may be");
    }

    #[test]
    fn the_mark_follows_what_is_durable_by_one_record() {
        let mut log = log();
        for sequence in 1..=3 {
            log.begin(Rope::new(), &[]).expect("room");
            log.on_durable();
            assert_eq!((log.flushed(), log.marked()), (sequence, sequence - 1));
        }
        let opened = Log::new(*log.layout(), 2, Position::START, log.end());
        assert_eq!((opened.flushed(), opened.marked()), (3, 2));
    }
}
