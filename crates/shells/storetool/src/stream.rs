//! A PG in a file: records in checksummed frames (docs/formats/export.md).

use std::io::{self, Read, Write};

use buffer::{Piece, crc32c};
use encoding::{DecodeError, Decoder, Encoder};
use store::{AllocHint, Attrs, LogRecord, LogRecordKind, ObjectStat};
use types::{Epoch, Fsid, Name, OsdId, PgId};

use crate::{Progress, Record};

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"LoligoPG";

/// The format that is written and read.
const FORMAT: u32 = 1;

/// The longest frame, bytes: a record of data has 4 MiB, and a single value of an omap may be longer.
const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Bytes before a frame's body: its length, and its checksum.
const FRAME_HEAD: usize = 8;

/// What the first frame says of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub cluster: Fsid,
    /// The OSD that had the PG.
    pub osd: OsdId,
    /// The newest map that the OSD had, 0 for none.
    pub epoch: Epoch,
    /// The pool in that map: its name and its number of PGs; empty and 0 where it was not there.
    pub pool: String,
    pub pg_num: u32,
    pub pg: PgId,
}

/// Why a file can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is no export of a PG: it does not begin with '{}'", String::from_utf8_lossy(MAGIC))]
    NoExport,
    #[error("it has the format {0} of a newer version, this one knows {FORMAT}")]
    Newer(u32),
    #[error("it ends at byte {0}, in the middle: the export did not get to its end, or the file was cut")]
    Cut(u64),
    #[error("it goes on behind the PG's end at byte {0}: an import takes one PG, as one export wrote it")]
    GoesOn(u64),
    #[error("it is damaged at byte {at}: {why}")]
    Damaged { at: u64, why: String },
}

mod kind {
    pub const HEADER: u8 = 1;
    pub const COLLECTION: u8 = 2;
    pub const OBJECT: u8 = 3;
    pub const DATA: u8 = 4;
    pub const OMAP_HEADER: u8 = 5;
    pub const OMAP: u8 = 6;
    pub const LOG: u8 = 7;
    pub const END: u8 = 8;
}

/// Writes a file. What it has written is whole only after the record `End`.
pub struct StreamWriter<W> {
    out: W,
    /// Of the frame before: each frame's checksum goes on from it, so that none can be missing.
    checksum: u32,
    progress: Progress,
}

impl<W: Write> StreamWriter<W> {
    /// # Errors
    /// Writing fails.
    pub fn new(mut out: W, header: &Header) -> Result<Self, StreamError> {
        out.write_all(MAGIC)?;
        let mut stream = Self { out, checksum: !0, progress: Progress::default() };
        let mut e = Encoder::new(0);
        e.put(&kind::HEADER).put(&FORMAT).put(&header.cluster).put(&header.osd.0).put(&header.epoch);
        e.put(&header.pool).put(&header.pg_num).put(&header.pg);
        stream.frame(e.as_slice(), &[])?;
        Ok(stream)
    }

    /// # Errors
    /// Writing fails.
    pub fn put(&mut self, record: &Record) -> Result<(), StreamError> {
        self.progress.count(record);
        let mut e = Encoder::new(0);
        if let Record::Data { offset, data } = record {
            // Not copied.
            e.put(&kind::DATA).put(offset);
            return self.frame(e.as_slice(), &data.to_piece());
        }
        encode(&mut e, record, &self.progress);
        self.frame(e.as_slice(), &[])?;
        if let Record::End { .. } = record {
            self.out.flush()?;
        }
        Ok(())
    }

    /// A frame of a body in two parts.
    fn frame(&mut self, head: &[u8], rest: &[u8]) -> Result<(), StreamError> {
        let bytes = head.len() as u64 + rest.len() as u64;
        let length = u32::try_from(bytes).ok().filter(|length| *length <= FRAME_BYTES_MAX);
        let length =
            length.ok_or_else(|| io::Error::other(format!("a record of {bytes} bytes is too long")))?;
        self.checksum = crc32c(crc32c(self.checksum, head), rest);
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&self.checksum.to_le_bytes())?;
        self.out.write_all(head)?;
        Ok(self.out.write_all(rest)?)
    }
}

fn encode(e: &mut Encoder, record: &Record, progress: &Progress) {
    match record {
        Record::Collection { collection, bits, log_tail } => {
            e.put(&kind::COLLECTION).put(collection).put(bits).put(log_tail);
        }
        Record::Object { object, stat, attrs } => {
            e.put(&kind::OBJECT).put(object).put(&stat.size).put(&u8::from(stat.hint.is_some()));
            if let Some(AllocHint { object_size, write_size, flags }) = &stat.hint {
                e.put(object_size).put(write_size).put(flags);
            }
            put_pairs(e, attrs.len(), attrs.iter());
        }
        Record::Data { offset, data } => {
            e.put(&kind::DATA).put(offset).raw(&data.to_piece());
        }
        Record::OmapHeader(header) => {
            e.put(&kind::OMAP_HEADER).raw(header);
        }
        Record::Omap(entries) => {
            e.put(&kind::OMAP);
            put_pairs(e, entries.len(), entries.iter());
        }
        Record::Log(records) => {
            e.put(&kind::LOG).put(&(records.len() as u32));
            for LogRecord { version, kind, bytes } in records {
                let kind = match kind {
                    LogRecordKind::Entry => 1u8,
                    LogRecordKind::Duplicate => 2,
                };
                e.put(version).put(&kind).blob(bytes);
            }
        }
        Record::End { log_head, info } => {
            e.put(&kind::END).put(log_head).blob(info).put(&progress.objects).put(&progress.bytes);
        }
    }
}

fn put_pairs<'a>(e: &mut Encoder, count: usize, pairs: impl Iterator<Item = &'a (Name, Piece)>) {
    e.put(&(count as u32));
    for (name, value) in pairs {
        e.blob(name.as_bytes()).blob(value);
    }
}

/// Reads a file.
pub struct StreamReader<R> {
    input: R,
    checksum: u32,
    /// Bytes read.
    at: u64,
    progress: Progress,
    ended: bool,
}

impl<R: Read> StreamReader<R> {
    /// # Errors
    /// See [`StreamError`].
    pub fn new(input: R) -> Result<(Self, Header), StreamError> {
        let (checksum, progress) = (!0, Progress::default());
        let mut stream = Self { input, checksum, at: 0, progress, ended: false };
        match stream.bytes(MAGIC.len()) {
            Ok(found) if found == MAGIC => {}
            Ok(_) | Err(StreamError::Cut(_)) => return Err(StreamError::NoExport),
            Err(error) => return Err(error),
        }
        let body = stream.frame()?;
        let mut d = Decoder::new(&body);
        let format = decode_format(&mut d).map_err(|error| stream.damaged(error))?;
        if format > FORMAT {
            return Err(StreamError::Newer(format));
        }
        let header = decode_header(&mut d).map_err(|error| stream.damaged(error))?;
        Ok((stream, header))
    }

    /// The next record; `None` behind the last.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn next_record(&mut self) -> Result<Option<Record>, StreamError> {
        if self.ended {
            return Ok(None);
        }
        let body: Piece = self.frame()?.into();
        let (record, totals) = decode(&body).map_err(|error| self.damaged(error))?;
        self.progress.count(&record);
        if let Some((objects, bytes)) = totals {
            self.ended = true;
            if (objects, bytes) != (self.progress.objects, self.progress.bytes) {
                return Err(self.damaged(format!("{objects} objects are announced, and others are there")));
            }
            let end = self.at;
            match self.bytes(1) {
                Err(StreamError::Cut(_)) => {}
                Err(error) => return Err(error),
                Ok(_) => return Err(StreamError::GoesOn(end)),
            }
        }
        Ok(Some(record))
    }

    fn damaged(&self, why: impl std::fmt::Display) -> StreamError {
        StreamError::Damaged { at: self.at, why: why.to_string() }
    }

    /// A frame's body. Memory is taken as its bytes come.
    fn frame(&mut self) -> Result<Vec<u8>, StreamError> {
        let head = self.bytes(FRAME_HEAD)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, checksum) = (word(0), word(4));
        if length > FRAME_BYTES_MAX {
            return Err(self.damaged(format!("a record of {length} bytes is announced")));
        }
        let body = self.bytes(length as usize)?;
        self.checksum = crc32c(self.checksum, &body);
        match self.checksum == checksum {
            true => Ok(body),
            false => Err(self.damaged("wrong checksum of a record, or one before it is missing")),
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, StreamError> {
        let mut bytes = Vec::new();
        (&mut self.input).take(length as u64).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        if bytes.len() < length {
            return Err(StreamError::Cut(self.at));
        }
        Ok(bytes)
    }
}

fn decode_format(d: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    match d.get()? {
        kind::HEADER => d.get(),
        other => Err(DecodeError::BadValue { what: "first record", value: other.into() }),
    }
}

fn decode_header(d: &mut Decoder<'_>) -> Result<Header, DecodeError> {
    let (cluster, osd, epoch) = (d.get()?, OsdId(d.get()?), d.get()?);
    let header = Header { cluster, osd, epoch, pool: d.get()?, pg_num: d.get()?, pg: d.get()? };
    d.finish()?;
    Ok(header)
}

/// A record, and with the last one the objects and bytes that were written.
fn decode(body: &Piece) -> Result<(Record, Option<(u64, u64)>), DecodeError> {
    let mut d = Decoder::new(body);
    let rest = |d: &Decoder<'_>| body.slice(d.position()..body.len());
    let record = match d.get::<u8>()? {
        kind::COLLECTION => Record::Collection { collection: d.get()?, bits: d.get()?, log_tail: d.get()? },
        kind::OBJECT => {
            let (object, size) = (d.get()?, d.get()?);
            let hint = match d.get::<u8>()? {
                0 => None,
                1 => Some(AllocHint { object_size: d.get()?, write_size: d.get()?, flags: d.get()? }),
                other => return Err(DecodeError::BadValue { what: "hint", value: other.into() }),
            };
            let attrs: Attrs = pairs(&mut d)?.into_iter().collect();
            Record::Object { object, stat: ObjectStat { size, hint }, attrs }
        }
        kind::DATA => {
            let offset = d.get()?;
            return Ok((Record::Data { offset, data: rest(&d).into() }, None));
        }
        kind::OMAP_HEADER => return Ok((Record::OmapHeader(rest(&d)), None)),
        kind::OMAP => Record::Omap(pairs(&mut d)?),
        kind::LOG => Record::Log(log(&mut d)?),
        kind::END => {
            let (log_head, info) = (d.get()?, Piece::copy_from(d.blob("info")?));
            let totals = (d.get()?, d.get()?);
            d.finish()?;
            return Ok((Record::End { log_head, info }, Some(totals)));
        }
        other => return Err(DecodeError::BadValue { what: "record of an export", value: other.into() }),
    };
    d.finish()?;
    Ok((record, None))
}

fn pairs(d: &mut Decoder<'_>) -> Result<Vec<(Name, Piece)>, DecodeError> {
    let count = d.count(8, "pairs")?;
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        pairs.push((d.blob("name")?.to_vec().into(), Piece::copy_from(d.blob("value")?)));
    }
    Ok(pairs)
}

fn log(d: &mut Decoder<'_>) -> Result<Vec<LogRecord>, DecodeError> {
    let count = d.count(17, "log records")?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let version = d.get()?;
        let kind = match d.get::<u8>()? {
            1 => LogRecordKind::Entry,
            2 => LogRecordKind::Duplicate,
            other => return Err(DecodeError::BadValue { what: "kind of a log record", value: other.into() }),
        };
        records.push(LogRecord { version, kind, bytes: Piece::copy_from(d.blob("log record")?) });
    }
    Ok(records)
}
