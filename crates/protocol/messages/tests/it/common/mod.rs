//! Takes the messages out of captured connections: a frame splitter for messenger 2.1 in crc mode, for tests only.

use std::path::{Path, PathBuf};

use buffer::{Piece, Rope};
use encoding::{Decode, Decoder};
use messages::{MessageHeader, RawMessage};
use types::EntityAddrVec;

const TAG_CLIENT_IDENT: u8 = 8;
const TAG_SERVER_IDENT: u8 = 9;
const TAG_MESSAGE: u8 = 17;

/// One direction of a captured connection.
pub struct Stream {
    pub path: PathBuf,
    /// The release whose cluster was recorded: "16.2".
    pub server: String,
    pub messages: Vec<RawMessage>,
    /// The features that the sender said it has, where the stream holds its ident frame.
    pub features: Option<u64>,
}

impl Stream {
    pub fn is_from_server(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "s2c")
    }

    /// Who was called: "mon", "osd0", "osd0-hbfront".
    pub fn role(&self) -> &str {
        let stem = self.path.file_stem().unwrap().to_str().unwrap();
        stem.split_once('-').unwrap().1
    }
}

/// Both directions of every connection under tests/captures.
pub fn streams() -> Vec<(Stream, Stream)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/captures");
    let mut out = Vec::new();
    for server in directories(&root) {
        let name = server.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        for scenario in directories(&server) {
            for path in files(&scenario, "c2s") {
                let back = path.with_extension("s2c");
                out.push((stream(path, &name), stream(back, &name)));
            }
        }
    }
    out
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}
fn directories(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|p| p.is_dir()).collect()
}
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

fn stream(path: PathBuf, server: &str) -> Stream {
    let bytes = std::fs::read(&path).unwrap();
    let mut out = Stream { path, server: server.to_owned(), messages: Vec::new(), features: None };
    let mut d = Decoder::new(&bytes);
    assert_eq!(d.take(8, "banner").unwrap(), b"ceph v2\n");
    let len: u16 = d.get().unwrap();
    d.take(len.into(), "banner payload").unwrap();
    while d.remaining() > 0 {
        let (tag, segments) = frame(&mut d);
        match tag {
            TAG_MESSAGE => out.messages.push(message(&segments)),
            TAG_CLIENT_IDENT => out.features = Some(ident_features(segments[0], true)),
            TAG_SERVER_IDENT => out.features = Some(ident_features(segments[0], false)),
            _ => {}
        }
    }
    out
}

fn frame<'a>(d: &mut Decoder<'a>) -> (u8, Vec<&'a [u8]>) {
    let mut preamble = Decoder::new(d.take(32, "preamble").unwrap());
    let (tag, count): (u8, u8) = preamble.get().unwrap();
    let lengths: Vec<u32> = (0..4).map(|_| preamble.get::<(u32, u16)>().unwrap().0).collect();
    let mut segments = Vec::new();
    for (i, &len) in lengths.iter().enumerate().take(count.into()) {
        segments.push(d.take(len as usize, "segment").unwrap());
        if i == 0 && len > 0 {
            d.take(4, "first segment's crc").unwrap();
        }
    }
    if count > 1 {
        d.take(13, "epilogue").unwrap();
    }
    (tag, segments)
}

fn message(segments: &[&[u8]]) -> RawMessage {
    let segment = |i: usize| segments.get(i).copied().unwrap_or(&[]);
    RawMessage {
        header: MessageHeader::from_bytes_exact(segment(0)).unwrap(),
        front: Piece::copy_from(segment(1)),
        middle: Piece::copy_from(segment(2)),
        data: Rope::copy_from(segment(3)),
    }
}

fn ident_features(bytes: &[u8], from_client: bool) -> u64 {
    let mut d = Decoder::new(bytes);
    d.get::<EntityAddrVec>().unwrap();
    if from_client {
        d.get::<types::EntityAddr>().unwrap();
    }
    let (_gid, _global_seq): (u64, u64) = d.get().unwrap();
    d.get().unwrap()
}
