//! The kernel's FUSE protocol (version 7), as far as one file needs it: requests parsed, answers put together. Pure.
//!
//! The file is the root of its file system: it is mounted on a file, so there are no names to look up. Structures are
//! those of the kernel's `linux/fuse.h`, in the machine's own byte order.

/// Bytes of the largest read or write.
pub(crate) const LARGEST: u32 = 1 << 20;

/// A buffer for a request: the largest write with its headers, rounded up.
pub(crate) const BUFFER: usize = LARGEST as usize + 4096;

/// Requests that the kernel may have under way: far more than a loop device's queue.
const IN_FLIGHT: u16 = 1024;

/// Bytes of a block, as stat and statfs say: the granularity of a loop device's discards.
const BLOCK: u32 = 4096;

/// Seconds that the kernel may remember attributes: only the file's content changes.
const FOREVER: u64 = 1 << 20;

/// `fallocate` with a hole as its result.
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

/// `open` with O_DSYNC, which O_SYNC holds too.
const DSYNC: u32 = 0o10000;

/// What the kernel asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation<'a> {
    /// The first request, with the kernel's version and what it can do.
    Init {
        minor: u32,
        readahead: u32,
        can: u32,
    },
    Attributes,
    Open,
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
        sync: bool,
    },
    Flush,
    /// A range that is to read as zeros.
    Hole {
        offset: u64,
        length: u64,
    },
    FileSystem,
    /// Done by saying so.
    Nothing,
    /// Not to be answered.
    Forget,
    /// A size can't be changed, nor an owner.
    Change,
    /// Something that a disk has no use for.
    Unknown,
}

/// A request and the number that its answer carries.
pub(crate) struct Message<'a> {
    pub(crate) unique: u64,
    pub(crate) operation: Operation<'a>,
}

/// Reads numbers one after the other; what lies beyond the end is 0 and marks it as short.
struct Fields<'a> {
    bytes: &'a [u8],
    short: bool,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.bytes.split_first_chunk::<N>() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => {
                self.short = true;
                [0; N]
            }
        }
    }
    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

/// Parses a request; none if it isn't whole.
pub(crate) fn parse(bytes: &[u8]) -> Option<Message<'_>> {
    let mut f = Fields { bytes, short: false };
    let (length, code, unique) = (f.u32(), f.u32(), f.u64());
    // The file's number, the asker's user, group and process, extensions: nothing that a disk minds.
    let _: [u8; 24] = f.take();
    if length as usize != bytes.len() {
        return None;
    }
    let operation = match code {
        2 | 42 => Operation::Forget,
        3 => Operation::Attributes,
        4 => Operation::Change,
        14 => Operation::Open,
        15 => {
            let (_, offset, length) = (f.u64(), f.u64(), f.u32());
            Operation::Read { offset, length: length.min(LARGEST) }
        }
        16 => write(&mut f)?,
        17 => Operation::FileSystem,
        18 | 38 => Operation::Nothing,
        20 => Operation::Flush,
        26 => {
            let (_, minor, readahead, can) = (f.u32(), f.u32(), f.u32(), f.u32());
            Operation::Init { minor, readahead, can }
        }
        43 => {
            let (_, offset, length, mode) = (f.u64(), f.u64(), f.u64(), f.u32());
            if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
                Operation::Unknown
            } else {
                Operation::Hole { offset, length }
            }
        }
        _ => Operation::Unknown,
    };
    (!f.short).then_some(Message { unique, operation })
}

fn write<'a>(f: &mut Fields<'a>) -> Option<Operation<'a>> {
    let (_, offset, length, _, _, flags, _) = (f.u64(), f.u64(), f.u32(), f.u32(), f.u64(), f.u32(), f.u32());
    let data = f.bytes.get(..length as usize)?;
    Some(Operation::Write { offset, data, sync: flags & DSYNC != 0 })
}

/// The head of an answer with a body of `length` bytes.
pub(crate) fn head(unique: u64, length: usize) -> [u8; 16] {
    header(unique, 0, length)
}

/// An answer that is an error, by its number.
pub(crate) fn error(unique: u64, errno: i32) -> [u8; 16] {
    header(unique, errno.saturating_neg(), 0)
}

fn header(unique: u64, error: i32, length: usize) -> [u8; 16] {
    let mut head = [0; 16];
    let length = u32::try_from(length + 16).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&length.to_ne_bytes());
    head[4..8].copy_from_slice(&error.to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// Puts numbers one after the other.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16s(mut self, all: &[u16]) -> Self {
        all.iter().for_each(|n| self.0.extend_from_slice(&n.to_ne_bytes()));
        self
    }
    fn u32s(mut self, all: &[u32]) -> Self {
        all.iter().for_each(|n| self.0.extend_from_slice(&n.to_ne_bytes()));
        self
    }
    fn u64s(mut self, all: &[u64]) -> Self {
        all.iter().for_each(|n| self.0.extend_from_slice(&n.to_ne_bytes()));
        self
    }
}

/// What we are and can do: requests side by side, also direct ones of the loop device, up to [`LARGEST`].
pub(crate) fn init(minor: u32, readahead: u32, can: u32) -> Vec<u8> {
    const NEWEST: u32 = 31;
    const ASYNC_READ: u32 = 1 << 0;
    const BIG_WRITES: u32 = 1 << 5;
    const ASYNC_DIO: u32 = 1 << 15;
    const MAX_PAGES: u32 = 1 << 22;
    let flags = can & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
    let pages = u16::try_from(LARGEST / 4096).unwrap_or(u16::MAX);
    Body::default()
        .u32s(&[7, minor.min(NEWEST), readahead, flags])
        .u16s(&[IN_FLIGHT, IN_FLIGHT])
        .u32s(&[LARGEST, 1])
        .u16s(&[pages, 0])
        .u32s(&[0; 8])
        .0
}

/// A file of `size` bytes that only its owner has.
pub(crate) fn attributes(size: u64, user: u32, group: u32) -> Vec<u8> {
    Body::default()
        .u64s(&[FOREVER])
        .u32s(&[0, 0])
        .u64s(&[1, size, size / 512, 0, 0, 0])
        .u32s(&[0, 0, 0])
        .u32s(&[MODE, 1, user, group, 0, BLOCK, 0])
        .0
}

/// A regular file that its owner reads and writes.
pub(crate) const MODE: u32 = 0o100_600;

/// An opened file: no page cache above the model, writes side by side, nothing to do when it is closed.
pub(crate) fn opened() -> Vec<u8> {
    const DIRECT_IO: u32 = 1 << 0;
    const NO_FLUSH: u32 = 1 << 5;
    const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    Body::default().u64s(&[0]).u32s(&[DIRECT_IO | NO_FLUSH | PARALLEL_DIRECT_WRITES, 0]).0
}

/// Bytes written.
pub(crate) fn written(length: u32) -> Vec<u8> {
    Body::default().u32s(&[length, 0]).0
}

/// A file system with one file.
pub(crate) fn file_system(size: u64) -> Vec<u8> {
    Body::default().u64s(&[size / u64::from(BLOCK), 0, 0, 1, 0]).u32s(&[BLOCK, 255, BLOCK, 0]).u32s(&[0; 6]).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel writes it.
    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let length = 40 + body.len() as u32;
        let head = Body::default().u32s(&[length, code]).u64s(&[7, 1]).u32s(&[0; 4]).0;
        [head, body.to_vec()].concat()
    }

    #[test]
    fn a_write_has_its_data_and_whether_it_is_synchronous() {
        let head = |flags| Body::default().u64s(&[0, 8192]).u32s(&[3, 0]).u64s(&[0]).u32s(&[flags, 0]).0;
        for (flags, sync) in [(0o2, false), (0o2 | DSYNC, true)] {
            let bytes = request(16, &[head(flags), b"abc".to_vec()].concat());
            let message = parse(&bytes).unwrap();
            assert_eq!(message.unique, 7);
            assert_eq!(message.operation, Operation::Write { offset: 8192, data: b"abc", sync });
        }
        assert!(parse(&request(16, &[head(0), b"ab".to_vec()].concat())).is_none(), "a byte is missing");
    }

    #[test]
    fn only_holes_are_made_and_what_is_cut_short_is_no_request() {
        let body = |mode| Body::default().u64s(&[0, 4096, 1 << 20]).u32s(&[mode, 0]).0;
        for (mode, operation) in
            [(PUNCH_HOLE | 1, Operation::Hole { offset: 4096, length: 1 << 20 }), (0, Operation::Unknown)]
        {
            assert_eq!(parse(&request(43, &body(mode))).unwrap().operation, operation);
        }
        assert!(parse(&request(43, &body(PUNCH_HOLE)[..20])).is_none());
        assert!(parse(&request(15, &[])[..30]).is_none());
        assert!(parse(&[]).is_none());
    }

    #[test]
    fn answers_have_the_lengths_that_the_kernel_checks() {
        assert_eq!(init(40, 0, u32::MAX).len(), 64);
        assert_eq!(attributes(1, 0, 0).len(), 104);
        assert_eq!(opened().len(), 16);
        assert_eq!(file_system(1).len(), 80);
        assert_eq!(written(1).len(), 8);
        assert_eq!(error(7, 5)[4..8], (-5_i32).to_ne_bytes());
        assert_eq!(head(7, 100)[..4], 116_u32.to_ne_bytes());
    }
}
