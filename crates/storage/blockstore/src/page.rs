//! Pages of the tree: sorted keys and values on whole blocks, found by pointers that carry their checksum.

use std::cmp::Ordering;

use buffer::{Piece, crc32c};
use encoding::{DecodeError, Decoder, Encoder};

use crate::bitmap::Run;
use crate::layout::BLOCK;

/// A key of the tree.
pub use store::keys::Key;

/// Bytes of entries that a page is meant to have at most. An entry that is larger has a page for itself.
pub const PAGE_BYTES_MAX: usize = 8192 - PAGE_HEAD_BYTES;

/// A page with fewer is joined with its neighbour when it is written.
pub const PAGE_BYTES_MIN: usize = PAGE_BYTES_MAX / 3;

/// Level and number of entries.
const PAGE_HEAD_BYTES: usize = 5;

/// Where a page is, and how its bytes are known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PagePtr {
    /// Its blocks in order, at least one.
    pub runs: Vec<Run>,
    /// The blocks of its copy, if it has one ([`crate::pass`] says which have): as many.
    pub copy: Vec<Run>,
    /// Bytes used; what is left of the last block is zeros.
    pub bytes: u32,
    /// The crc32c (seed -1) of the bytes used.
    pub crc: u32,
}

impl PagePtr {
    /// Also those of its copy.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().chain(&self.copy).flat_map(|run| run.blocks())
    }

    /// Also those of its copy.
    pub fn block_count(&self) -> u64 {
        count(&self.runs) + count(&self.copy)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::new(0);
        e.put(&self.bytes).put(&self.crc);
        put_runs(&mut e, &self.runs);
        if !self.copy.is_empty() {
            put_runs(&mut e, &self.copy);
        }
        e.into_bytes()
    }

    /// # Errors
    /// The bytes are no pointer, or its blocks don't fit its bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let (bytes, crc) = (d.get()?, d.get()?);
        let runs = get_runs(&mut d)?;
        let copy = if d.remaining() > 0 { Some(get_runs(&mut d)?) } else { None };
        d.finish()?;
        let blocks = u64::from(bytes).div_ceil(BLOCK);
        let fits = count(&runs) == blocks && copy.as_ref().is_none_or(|copy| count(copy) == blocks);
        match fits && bytes > 0 {
            true => Ok(Self { runs, copy: copy.unwrap_or_default(), bytes, crc }),
            false => Err(DecodeError::BadValue { what: "blocks of a page", value: count(&runs) }),
        }
    }
}

/// Blocks of runs.
fn count(runs: &[Run]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

pub fn put_runs(e: &mut Encoder, runs: &[Run]) {
    e.put(&(runs.len() as u32));
    for run in runs {
        e.put(&run.start).put(&run.count);
    }
}

pub fn get_runs(d: &mut Decoder<'_>) -> Result<Vec<Run>, DecodeError> {
    /// More blocks than any device has.
    const BLOCKS_MAX: u64 = 1 << 48;
    let count = d.count(12, "runs of blocks")?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let run = Run { start: d.get()?, count: d.get()? };
        if run.start >= BLOCKS_MAX || run.count == 0 {
            return Err(DecodeError::BadValue { what: "run of blocks", value: run.start });
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Bytes that an entry takes in a page.
pub fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
    8 + key.len() + value.len()
}

/// Entries in the order of their keys, as pages have them: they are copied once, and none takes memory of its own.
#[derive(Debug, Default)]
pub struct Entries {
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<u32>,
}

impl Entries {
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.reserve(entry_bytes(key, value));
        self.starts.push(self.bytes.len() as u32);
        for blob in [key, value] {
            self.bytes.extend_from_slice(&(blob.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(blob);
        }
    }

    /// Adds an entry of a page as it is there.
    pub fn push_of(&mut self, page: &Page, entry: usize) {
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(page.encoded(entry));
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.iter().map(|start| blob(&self.bytes, *start as usize))
    }

    pub fn first_key(&self) -> Option<&[u8]> {
        self.keys().next()
    }

    /// Bytes of each entry.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len() as u32]);
        self.starts.iter().zip(ends).map(|(start, end)| (end - start) as usize)
    }

    /// Drops the first entries; the memory stays for others.
    pub fn drop_first(&mut self, count: usize) {
        let at = self.starts.get(count).map_or(self.bytes.len(), |start| *start as usize);
        self.bytes.drain(..at);
        self.starts.drain(..count);
        self.starts.iter_mut().for_each(|start| *start -= at as u32);
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for Entries {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut entries = Self::default();
        all.into_iter().for_each(|(key, value)| entries.push(key.as_ref(), value.as_ref()));
        entries
    }
}

/// The bytes of a page of the first entries on the device, whole blocks, and how many of them are used.
pub fn encode_page(level: u8, entries: &Entries, count: usize) -> (Piece, u32) {
    let end = entries.starts.get(count).map_or(entries.bytes.len(), |start| *start as usize);
    let used = PAGE_HEAD_BYTES + end;
    let count = (count as u32).to_le_bytes();
    let parts = [&[level], &count[..], &entries.bytes[..end]];
    (Piece::joined(parts.into_iter(), used.next_multiple_of(BLOCK as usize)), used as u32)
}

/// A page as it lies on the device: a search reads neighbouring bytes, and an entry takes no memory of its own. On level 0
/// the values are the tree's; above they are pointers to pages of the level below, and their keys are the lowest keys that
/// those pages may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub level: u8,
    bytes: Piece,
    /// Where each entry begins. Invariant: a whole key and a whole value follow, and keys ascend.
    starts: Box<[u32]>,
    /// How many bytes all keys begin with together.
    common: usize,
    /// Of each key the next 8 bytes, as a number: a search compares these, which lie side by side, and looks at keys only
    /// where they don't decide.
    heads: Box<[u64]>,
}

/// The first bytes as a number that orders as they do; zeros stand for those that are missing.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => bytes.iter().zip((0..8).rev()).map(|(byte, at)| u64::from(*byte) << (8 * at)).sum(),
    }
}

/// How many bytes both begin with.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Page {
    /// # Errors
    /// The bytes are no page, or its keys don't ascend.
    pub fn decode(bytes: &Piece) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let level = d.get()?;
        let count = d.count(8, "entries of a page")?;
        let mut starts = Vec::with_capacity(count);
        let mut before: Option<&[u8]> = None;
        for _ in 0..count {
            let start = d.position() as u32;
            let key = d.blob("key of a page")?;
            d.blob("value of a page")?;
            if before.is_some_and(|before| before >= key) {
                let value = starts.len() as u64;
                return Err(DecodeError::BadValue { what: "order of keys in a page", value });
            }
            before = Some(key);
            starts.push(start);
        }
        d.finish()?;
        let key = |start: &u32| blob(bytes, *start as usize);
        let common = match (starts.first(), starts.last()) {
            (Some(first), Some(last)) => common(key(first), key(last)),
            _ => 0,
        };
        let heads = starts.iter().map(|start| head(&key(start)[common..])).collect();
        Ok(Self { level, bytes: bytes.clone(), starts: starts.into(), common, heads })
    }

    /// The page that a pointer leads to.
    ///
    /// # Errors
    /// The bytes are not those that were written.
    pub fn read(ptr: &PagePtr, bytes: &Piece) -> Result<Self, DecodeError> {
        let used = ptr.bytes as usize;
        if used > bytes.len() {
            return Err(DecodeError::Truncated { what: "page", needed: used, left: bytes.len() });
        }
        let bytes = bytes.slice(0..used);
        let actual = crc32c(!0, &bytes);
        match actual == ptr.crc {
            true => Self::decode(&bytes),
            false => Err(DecodeError::Checksum { what: "page", expected: ptr.crc, actual }),
        }
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn key(&self, entry: usize) -> &[u8] {
        blob(&self.bytes, self.starts[entry] as usize)
    }

    /// A value, which keeps the page's memory.
    pub fn value(&self, entry: usize) -> Piece {
        let start = self.starts[entry] as usize;
        let at = start + 4 + blob(&self.bytes, start).len();
        let end = at + 4 + blob(&self.bytes, at).len();
        self.bytes.slice(at + 4..end)
    }

    pub fn value_bytes(&self, entry: usize) -> &[u8] {
        let start = self.starts[entry] as usize;
        blob(&self.bytes, start + 4 + blob(&self.bytes, start).len())
    }

    /// An entry as it lies in the page.
    fn encoded(&self, entry: usize) -> &[u8] {
        let start = self.starts[entry] as usize;
        let end = self.starts.get(entry + 1).map_or(self.bytes.len(), |next| *next as usize);
        &self.bytes[start..end]
    }

    /// The entries in order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|entry| (self.key(entry), self.value_bytes(entry)))
    }

    /// The last entry that begins at or before `key`.
    pub fn place(&self, key: &[u8]) -> Option<usize> {
        let (from, to) = self.around(key);
        let within = self.starts[from..to].partition_point(|start| blob(&self.bytes, *start as usize) <= key);
        (from + within).checked_sub(1)
    }

    /// How many entries lie before `key`.
    pub fn before(&self, key: &[u8]) -> usize {
        let (from, to) = self.around(key);
        from + self.starts[from..to].partition_point(|start| blob(&self.bytes, *start as usize) < key)
    }

    /// The entries that can't be told from `key` by their heads: those before them lie before it, those behind them behind.
    fn around(&self, key: &[u8]) -> (usize, usize) {
        let Some(first) = self.starts.first() else { return (0, 0) };
        let shared = &blob(&self.bytes, *first as usize)[..self.common];
        match key[..key.len().min(self.common)].cmp(shared) {
            Ordering::Less => (0, 0),
            Ordering::Greater => (self.len(), self.len()),
            Ordering::Equal => {
                let wanted = head(&key[self.common..]);
                let from = self.heads.partition_point(|head| *head < wanted);
                let same = self.heads[from..].iter().take_while(|head| **head == wanted).count();
                (from, from + same)
            }
        }
    }
}

/// The bytes behind their length.
fn blob(bytes: &[u8], at: usize) -> &[u8] {
    let (len, rest) = bytes[at..].split_first_chunk().expect("decoding has seen it");
    &rest[..u32::from_le_bytes(*len) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_back_by_its_pointer_and_damage_is_noticed() {
        let entry = |i: u8| (Key::from_slice(&[i, 0]), Piece::copy_from(&[i; 100]));
        let (bytes, used) = encode_page(0, &(0..60).map(entry).collect(), 60);
        let page = Page::decode(&bytes.slice(0..used as usize)).unwrap();
        assert_eq!((bytes.len(), used), (8192, 5 + 60 * 110));
        let runs = vec![Run { start: 7, count: 1 }, Run { start: 3, count: 1 }];
        let ptr = PagePtr { runs, copy: vec![], bytes: used, crc: crc32c(!0, &bytes[..used as usize]) };
        assert_eq!(PagePtr::decode(&ptr.encode()), Ok(ptr.clone()));
        assert_eq!(Page::read(&ptr, &bytes), Ok(page.clone()));
        assert!(Page::read(&ptr, &bytes.slice(0..4096)).is_err());
        let mut bad = bytes.to_vec();
        bad[1000] ^= 1;
        assert!(Page::read(&ptr, &bad.into()).is_err());
        assert_eq!((page.place(&[5, 0]), page.place(&[5, 9]), page.place(&[])), (Some(5), Some(5), None));
        assert_eq!((page.before(&[5, 0]), page.before(&[5, 9]), page.before(&[99])), (5, 6, 60));
        assert_eq!(
            (page.key(7), page.value_bytes(7), &page.value(7)[..]),
            (&[7, 0][..], &[7; 100][..], &[7; 100][..])
        );
        assert!(
            page.entries()
                .map(|(key, value)| (Key::from_slice(key), Piece::copy_from(value)))
                .eq((0..60).map(entry))
        );
    }

    #[test]
    fn a_search_finds_the_same_as_one_through_all_keys() {
        let names =
            ["", "a", "a\0", "a\0\0", "ab", "ab12345678", "ab123456780", "ab123456781", "b", "\u{7f}"];
        let prefixes = ["", "collection-of-a-page-", "\0\0\0\0\0\0\0\0\0"];
        for prefix in prefixes {
            for first in 0..names.len() {
                for last in first..names.len() {
                    let keys: Vec<Key> = names[first..=last]
                        .iter()
                        .map(|n| store::keys::joined(prefix.as_bytes(), n.as_bytes()))
                        .collect();
                    let entries = keys.iter().map(|key| (key, Piece::empty()));
                    let (bytes, used) = encode_page(0, &entries.collect(), keys.len());
                    let page = Page::decode(&bytes.slice(0..used as usize)).unwrap();
                    let asked =
                        prefixes.iter().flat_map(|p| names.map(|n| [p.as_bytes(), n.as_bytes()].concat()));
                    for asked in asked.chain([vec![], vec![0], vec![0xff; 40], prefix.as_bytes().to_vec()]) {
                        let before = keys.iter().filter(|key| key[..] < asked[..]).count();
                        let place = keys.iter().filter(|key| key[..] <= asked[..]).count().checked_sub(1);
                        assert_eq!(
                            (page.before(&asked), page.place(&asked)),
                            (before, place),
                            "{asked:?} in {keys:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn pointers_and_pages_that_make_no_sense_are_refused() {
        let ptr = PagePtr { runs: vec![Run { start: 7, count: 2 }], copy: vec![], bytes: 5000, crc: 1 };
        for (bytes, runs) in [(9000, ptr.runs.clone()), (0, ptr.runs.clone()), (5000, vec![])] {
            assert!(PagePtr::decode(&PagePtr { bytes, runs, copy: vec![], crc: 1 }.encode()).is_err());
        }
        let far = PagePtr { runs: vec![Run { start: u64::MAX, count: 2 }], ..ptr };
        assert!(PagePtr::decode(&far.encode()).is_err());
        let (bytes, used) = encode_page(0, &[2, 1].map(|key| ([key], [])).into_iter().collect(), 2);
        assert!(Page::decode(&bytes.slice(0..used as usize)).is_err());
    }
}
