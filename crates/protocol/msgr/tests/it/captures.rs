//! Every captured stream of stock programs, through the frame codec and back.

use std::path::{Path, PathBuf};

use buffer::Rope;
use msgr::{
    Control, Frame, FrameBody, FrameReader, Limits, NeededBytes, Phase, Tag, encode_control, encode_message,
};
use types::SplitMix64;

const BANNER_LEN: usize = 26;

fn streams() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/captures");
    let mut dirs = vec![root];
    let mut out = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "c2s" || e == "s2c") {
                out.push(path);
            }
        }
    }
    out.sort();
    assert!(out.len() >= 200, "only {} captured streams found", out.len());
    out
}

fn reader() -> FrameReader {
    FrameReader::new(Limits::default(), Phase::Any)
}

/// All frames of `bytes`, given to the reader in chunks of the sizes that `size` says.
fn frames(bytes: &[u8], mut size: impl FnMut() -> usize) -> Vec<Frame> {
    let (mut reader, mut out, mut rest) = (reader(), Vec::new(), bytes);
    while !rest.is_empty() {
        let (mut chunk, after) = rest.split_at(size().min(rest.len()));
        rest = after;
        while !chunk.is_empty() {
            let (taken, frame) = reader.feed(chunk).expect("a frame of a stock peer");
            chunk = &chunk[taken..];
            out.extend(frame);
        }
    }
    assert_eq!(reader.held_bytes(), 0, "captures end after a whole frame");
    out
}

/// As a shell reads: what the reader wants, large segments straight into place.
fn frames_read_directly(bytes: &[u8]) -> Vec<Frame> {
    let (mut reader, mut out, mut rest) = (reader(), Vec::new(), bytes);
    while !rest.is_empty() {
        if let Some(tail) = reader.segment_tail() {
            let n = tail.len().min(rest.len()).min(5000);
            tail[..n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
            reader.advance(n);
            continue;
        }
        let NeededBytes::Bytes(n) = reader.want() else { panic!("a tail was not given") };
        let (taken, frame) = reader.feed(&rest[..n]).unwrap();
        assert_eq!(taken, n);
        rest = &rest[n..];
        out.extend(frame);
    }
    out
}

#[test]
fn every_stream_is_encoded_again_byte_for_byte() {
    let mut messages = 0;
    for path in streams() {
        let bytes = std::fs::read(&path).unwrap();
        let body = &bytes[BANNER_LEN..];
        let mut again = Rope::new();
        for frame in frames(body, || usize::MAX) {
            let rope = match (frame.preamble.tag, &frame.body) {
                (_, FrameBody::Message(message)) => {
                    messages += 1;
                    encode_message(message).unwrap()
                }
                (tag @ (Tag::CompressionRequest | Tag::CompressionDone), FrameBody::Control(payload)) => {
                    encode_control(tag, payload).into()
                }
                (tag, FrameBody::Control(payload)) => {
                    let control = Control::decode(tag, payload).unwrap();
                    assert_eq!(control.tag(), tag);
                    control.encode_frame().into()
                }
                (tag, FrameBody::Aborted) => panic!("an aborted frame: {tag:?}"),
            };
            assert_eq!(rope.len(), frame.preamble.frame_len());
            again.append(rope);
        }
        assert!(again.to_vec() == body, "{} differs", path.display());
    }
    assert!(messages > 1000, "only {messages} messages seen");
}

#[test]
fn the_size_of_chunks_changes_nothing() {
    let seed = 20_260_101;
    let mut seeded = SplitMix64::new(seed);
    println!("seed {seed}");
    for path in streams().into_iter().step_by(7) {
        let bytes = std::fs::read(&path).unwrap();
        let body = &bytes[BANNER_LEN..];
        let whole = frames(body, || usize::MAX);
        assert!(frames(body, || 1) == whole, "one byte at a time: {}", path.display());
        assert!(frames(body, || 1 + seeded.below(700) as usize) == whole, "{}", path.display());
        assert!(frames(body, || 1 + seeded.below(70_000) as usize) == whole, "{}", path.display());
        assert!(frames_read_directly(body) == whole, "{}", path.display());
    }
}

#[test]
fn the_data_of_a_message_starts_on_a_page_when_it_is_one_or_more() {
    let mut seen = 0;
    for path in streams() {
        let bytes = std::fs::read(&path).unwrap();
        for frame in frames(&bytes[BANNER_LEN..], || usize::MAX) {
            let FrameBody::Message(message) = frame.body else { continue };
            if message.data.len() >= buffer::ALIGN {
                let (last, front) = message.data.pieces().split_last().unwrap();
                assert!(front.iter().all(|piece| piece.len() % buffer::ALIGN == 0));
                assert!(front.iter().chain([last]).all(|p| p.as_ptr().align_offset(buffer::ALIGN) == 0));
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "only {seen} data segments of a page or more");
}
