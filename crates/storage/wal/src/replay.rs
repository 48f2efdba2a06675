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
    pub beside: Vec<Beside>,
    pub payload: Piece,
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
    /// The first record, from `from` on, that counts only if its data beside the log is there. The caller reads that data
    /// and calls [`Replayed::cut`] if it does not match.
    pub fn unproven(&self, from: u64) -> Option<&Record> {
        let above = from.max(self.flushed + 1);
        self.records.iter().find(|r| r.sequence >= above && !r.beside.is_empty())
    }

    /// Drops the record `sequence`, whose data isn't there, and all that follow.
    pub fn cut(&mut self, sequence: u64) {
        if let Some(first) = self.records.iter().position(|r| r.sequence >= sequence) {
            self.end = Position { at: self.records[first].at, sequence };
            self.records.truncate(first);
        }
    }
}

/// A log being read: the whole ring once, from the oldest record that is kept.
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
    salt: u64,
    flushed: u64,
    records: Vec<Record>,
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
        let Opening { kept, sealed, salt: _ } = opening;
        Self {
            layout,
            opening,
            read_bytes_max,
            read: 0,
            unparsed: Vec::new(),
            next: kept,
            scanned: None,
            salt: 0,
            flushed: kept.sequence.max(sealed.sequence).saturating_sub(1),
            records: Vec::new(),
        }
    }

    /// The read that is wanted next: first byte on the device and length. `None`: [`Replay::finish`] has the answer.
    pub fn wanted(&self) -> Option<(u64, usize)> {
        let left = self.layout.bytes - self.read;
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
    pub fn finish(mut self) -> Result<Replayed, WalError> {
        // A record that would reach past the ring isn't one: what was waited for does not come.
        if self.scanned.is_none() && !self.unparsed.is_empty() {
            self.scanned = Some(self.next.at);
            self.scan();
        }
        let invalid = self.next.sequence;
        if invalid <= self.flushed {
            let offset = self.layout.offset + self.next.at % self.layout.bytes;
            return Err(WalError::Corrupt { sequence: invalid, offset, flushed: self.flushed });
        }
        Ok(Replayed { records: self.records, flushed: self.flushed, end: self.next })
    }

    /// Where the bytes that were read end.
    fn window_end(&self) -> u64 {
        self.opening.kept.at + self.read
    }

    /// A record that an earlier opening wrote where it sealed the log was dropped then, and never comes back.
    fn salt_fits(&self, header: &Header) -> bool {
        match header.position.at < self.opening.sealed.at {
            true => header.salt < self.opening.salt,
            false => header.salt == self.opening.salt,
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
                    let Ok((beside, payload_at)) = decode_body(header.beside_runs, body) else {
                        self.scanned = Some(self.next.at);
                        break;
                    };
                    let payload = Piece::copy_from(&body[payload_at..]);
                    let Position { at, sequence } = self.next;
                    self.records.push(Record { sequence, at, beside, payload });
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
        if !expected || self.next.at + len > ring_end {
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
            if let Ok(header) = Header::decode(&self.unparsed[searched..]) {
                let later = header.log == self.layout.id
                    && header.position.at == at
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
