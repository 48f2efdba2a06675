//! Reading a log when it is opened.

use buffer::{Piece, crc32c};

use crate::record::{Header, decode_body, record_bytes};
use crate::{Beside, HEADER_BYTES, Layout, Opening, Position, WalError};

/// A record that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub sequence: u64,
    /// Where it begins; see [`Position::at`].
    pub at: u64,
    /// Data that was written beside the log.
    pub beside: Vec<Beside>,
    pub payload: Piece,
    /// Where the payload is, if it is not in the log: `payload` is empty until it was read.
    pub payload_beside: Vec<Beside>,
    pub payload_bytes: u64,
}

/// What a log holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// In order, without a gap.
    pub records: Vec<Record>,
    /// Every record up to this sequence was durable before the log was closed.
    pub flushed: u64,
    /// Where the log goes on.
    pub end: Position,
}

impl Replayed {
    /// The first record, from `from` on, of which something beside the log has to be read, and what. The caller gives what it
    /// has read to [`Replayed::on_beside`].
    pub fn unread(&self, from: u64) -> Option<(u64, Vec<Beside>)> {
        let runs = |r: &Record| {
            let data = if r.sequence > self.flushed { &r.beside[..] } else { &[] };
            [data, &r.payload_beside].concat()
        };
        let later = self.records.iter().filter(|r| r.sequence >= from);
        later.map(|r| (r.sequence, runs(r))).find(|(_, runs)| !runs.is_empty())
    }

    /// Takes what was read for a record: a payload is put into the record. A record above the flushed mark counts only if
    /// everything beside the log is there: otherwise it and all that follow are dropped.
    ///
    /// # Errors
    /// The record was durable, and its payload is not what was written.
    pub fn on_beside(&mut self, sequence: u64, layout: &Layout, bytes: &Piece) -> Result<(), WalError> {
        let flushed = self.flushed;
        let Some(record) = self.records.iter_mut().find(|r| r.sequence == sequence) else { return Ok(()) };
        let data = if sequence > flushed { &record.beside[..] } else { &[] };
        let mut at = 0;
        let mut payload_at = 0;
        let there =
            data.iter().map(|run| (run, true)).chain(record.payload_beside.iter().map(|run| (run, false)));
        let there = there.fold(true, |there, (run, is_data)| {
            let end = at + run.bytes();
            let matches = bytes.get(at..end).is_some_and(|bytes| run.matches(bytes));
            at = end;
            payload_at = if is_data { end } else { payload_at };
            there && matches
        });
        if there {
            if !record.payload_beside.is_empty() {
                // Runs hold at least so many bytes.
                record.payload = bytes.slice(payload_at..payload_at + record.payload_bytes as usize);
            }
            return Ok(());
        }
        if sequence <= flushed {
            let offset = layout.offset + record.at % layout.bytes;
            return Err(WalError::Corrupt { sequence, offset, flushed });
        }
        self.cut(sequence);
        Ok(())
    }

    /// Drops the record `sequence`, whose data isn't there, and all that follow.
    pub fn cut(&mut self, sequence: u64) {
        if let Some(first) = self.records.iter().position(|r| r.sequence >= sequence) {
            self.end = Position { at: self.records[first].at, sequence };
            self.records.truncate(first);
        }
    }
}

/// A log being read, from the oldest record that is kept to the last one, and so far behind it as others may begin.
#[derive(Debug)]
pub struct Replay {
    layout: Layout,
    opening: Opening,
    read_bytes_max: u64,
    /// Bytes of the ring that were read.
    read: u64,
    /// Bytes that were read and not parsed, which begin at `next` (or, once the log has ended, at `scanned`).
    unparsed: Vec<u8>,
    /// Where the next record is expected.
    next: Position,
    /// Once an invalid record was found: how far the rest was searched for later records.
    scanned: Option<u64>,
    /// Whether a header of this log was found there.
    has_seen_record: bool,
    salt: u64,
    flushed: u64,
    records: Vec<Record>,
    /// Sequence and place in the ring of the first record that was found and says that a later opening was durable.
    newer: Option<(u64, u64)>,
}

/// What lies at the place of the next record.
enum Next {
    Record(Header),
    /// More bytes are needed to say.
    More,
    Invalid,
}

impl Replay {
    /// Reads the log as its last opening left it. `read_bytes_max` limits one read, bytes: a multiple of the unit.
    pub fn new(layout: Layout, opening: Opening, read_bytes_max: u64) -> Self {
        let Opening { kept, sealed, salt: _, flushed } = opening;
        Self {
            layout,
            opening,
            read_bytes_max,
            read: 0,
            unparsed: Vec::new(),
            next: kept,
            scanned: None,
            has_seen_record: false,
            salt: 0,
            flushed: kept.sequence.max(sealed.sequence).saturating_sub(1).max(flushed),
            records: Vec::new(),
            newer: None,
        }
    }

    /// The read that is wanted next: first byte on the device and length. `None`: [`Replay::finish`] has the answer.
    pub fn wanted(&self) -> Option<(u64, usize)> {
        let mut left = self.layout.bytes - self.read;
        if self.scanned.is_some() {
            // A later record was begun when this one was durable, right behind it. Of a lap that the opening does not know, the last
            // record may lie here, and behind it the rest of a torn one, and of one that is a lap older.
            let records = if self.has_seen_record { 1 } else { 3 };
            let end =
                self.next.at + records * self.layout.record_bytes_max() + u64::from(self.layout.unit_bytes);
            left = left.min(end.saturating_sub(self.window_end()));
        }
        let place = (self.opening.kept.at + self.read) % self.layout.bytes;
        let len = left.min(self.layout.bytes - place).min(self.read_bytes_max);
        (len > 0).then_some((self.layout.offset + place, len as usize))
    }

    /// Takes the bytes of the read that was wanted.
    pub fn on_read(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        self.unparsed.extend_from_slice(bytes);
        if self.scanned.is_none() {
            self.parse();
        }
        if self.scanned.is_some() {
            self.scan();
        }
    }

    /// The records, or the corruption that was found.
    ///
    /// # Errors
    /// See there.
    pub fn finish(self) -> Result<Replayed, WalError> {
        let (replayed, corrupt) = self.finish_damaged();
        corrupt.map_or(Ok(replayed), Err)
    }

    /// The records before the corruption that was found, if there is some, those of later openings included: for a log that is only
    /// to be read.
    pub fn finish_damaged(mut self) -> (Replayed, Option<WalError>) {
        // A record that would reach past the ring isn't one: what was waited for does not come.
        if self.scanned.is_none() && !self.unparsed.is_empty() {
            self.scanned = Some(self.next.at);
            self.scan();
        }
        let (sequence, flushed) = (self.next.sequence, self.flushed);
        let offset = |at: u64| self.layout.offset + at % self.layout.bytes;
        let corrupt = match self.newer {
            Some((sequence, at)) => Some(WalError::Outdated { sequence, offset: offset(at) }),
            None => (sequence <= flushed).then_some(WalError::Corrupt {
                sequence,
                offset: offset(self.next.at),
                flushed,
            }),
        };
        (Replayed { records: self.records, flushed, end: self.next }, corrupt)
    }

    /// Where the bytes that were read end.
    fn window_end(&self) -> u64 {
        self.opening.kept.at + self.read
    }

    /// A record that an earlier opening wrote where this one sealed the log was dropped then, and never comes back.
    fn salt_fits(&self, header: &Header) -> bool {
        match header.position.at < self.opening.sealed.at {
            true => header.salt < self.opening.salt,
            false => header.salt >= self.opening.salt,
        }
    }

    /// Notes a record of this log at this place that the opening can't have had written: with a later salt, or where it keeps older
    /// records.
    fn look_for_newer(&mut self, header: &Header, at: u64) {
        let (ring, position) = (self.layout.bytes, header.position);
        let is_newer = position.at % ring == at % ring
            && (header.salt > self.opening.salt || position.at >= self.opening.kept.at + ring);
        if is_newer {
            self.newer.get_or_insert((position.sequence, position.at));
        }
    }

    /// Takes whole records off the front of what was read.
    fn parse(&mut self) {
        let mut parsed = 0;
        loop {
            match self.next_record(&self.unparsed[parsed..]) {
                Next::More => break,
                Next::Record(header) => {
                    let body = &self.unparsed[parsed + HEADER_BYTES..][..header.body_bytes as usize];
                    let Some(record) = self.record(&header, body) else {
                        self.scanned = Some(self.next.at);
                        break;
                    };
                    let Position { at, sequence } = self.next;
                    self.look_for_newer(&header, at);
                    self.records.push(record);
                    (self.salt, self.flushed) = (header.salt, self.flushed.max(header.flushed));
                    let bytes = header.record_bytes(&self.layout);
                    self.next = Position { at: at + bytes, sequence: sequence + 1 };
                    parsed += bytes as usize;
                }
                Next::Invalid => {
                    self.scanned = Some(self.next.at);
                    break;
                }
            }
        }
        self.unparsed.drain(..parsed);
    }

    fn record(&self, header: &Header, body: &[u8]) -> Option<Record> {
        let (mut beside, payload_at) = decode_body(header.beside_runs, body).ok()?;
        let Position { at, sequence } = self.next;
        let payload_beside = beside.split_off(beside.len().checked_sub(header.payload_runs as usize)?);
        // Aligned memory would take nearly twice as much, and a replay holds all of the log.
        let mut payload = Piece::from(body[payload_at..].to_vec());
        let mut payload_bytes = payload.len() as u64;
        if !payload_beside.is_empty() {
            payload_bytes = u64::from_le_bytes(payload[..].try_into().ok()?);
            payload = Piece::empty();
            let room: u64 = payload_beside.iter().map(|run| run.bytes() as u64).sum();
            if payload_bytes > room {
                return None;
            }
        }
        Some(Record { sequence, at, beside, payload, payload_beside, payload_bytes })
    }

    fn next_record(&self, bytes: &[u8]) -> Next {
        let unit = self.layout.unit_bytes as usize;
        if bytes.len() < unit {
            return if self.read < self.layout.bytes { Next::More } else { Next::Invalid };
        }
        let Ok(header) = Header::decode(bytes) else { return Next::Invalid };
        let expected = header.log == self.layout.id
            && header.position == self.next
            && header.salt >= self.salt
            && self.salt_fits(&header)
            && header.flushed < header.position.sequence;
        let len = record_bytes(&self.layout, u64::from(header.body_bytes));
        let ring_end = self.opening.kept.at + self.layout.bytes;
        if !expected || self.next.at + len > ring_end || len > self.layout.record_bytes_max() {
            return Next::Invalid;
        }
        if (bytes.len() as u64) < len {
            return Next::More;
        }
        let body = &bytes[HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize];
        if crc32c(!0, body) == header.body_crc { Next::Record(header) } else { Next::Invalid }
    }

    /// Looks behind the log's end for records that say that the invalid one was durable.
    fn scan(&mut self) {
        let unit = u64::from(self.layout.unit_bytes);
        let Some(mut at) = self.scanned else { return };
        let mut searched = 0;
        while at + unit <= self.window_end() {
            let header = Header::decode(&self.unparsed[searched..]).ok();
            if let Some(header) = header.filter(|header| header.log == self.layout.id) {
                self.has_seen_record = true;
                self.look_for_newer(&header, at);
                let later = header.position.at == at
                    && header.position.sequence > self.next.sequence
                    && self.salt_fits(&header);
                if later {
                    self.flushed = self.flushed.max(header.flushed);
                }
            }
            at += unit;
            searched += unit as usize;
        }
        self.unparsed.drain(..searched);
        self.scanned = Some(at);
    }
}
