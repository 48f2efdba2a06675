//! The file of a PG that was exported.

use buffer::crc32c;
use storetool::{Record, StreamReader, StreamWriter};

/// Bytes before the first frame.
const MAGIC_BYTES: usize = 8;

/// Reads a file, its frames' checksums put right. What was read is written again and reads the same.
pub fn export(data: &[u8]) {
    let mut file = data.to_vec();
    repair(&mut file);
    // The reader refuses a file whose header it can't decode: there is nothing to compare.
    let Ok((mut stream, header)) = StreamReader::new(&file[..]) else { return };
    let (records, is_whole) = read(&mut stream);
    let mut copy = Vec::new();
    let mut writer = StreamWriter::new(&mut copy, &header).expect("memory takes all");
    records.iter().for_each(|record| writer.put(record).expect("what was read is short enough"));
    let (mut again, same) = StreamReader::new(&copy[..]).expect("what was written is an export");
    assert_eq!(same, header);
    assert_eq!(read(&mut again), (records, is_whole));
}

/// The records up to the end, or to the first that can't be read; whether that was the end.
fn read(stream: &mut StreamReader<&[u8]>) -> (Vec<Record>, bool) {
    let mut records = Vec::new();
    loop {
        match stream.next_record() {
            Ok(Some(record)) => records.push(record),
            end => return (records, end.is_ok()),
        }
    }
}

/// Puts each frame's length, where the file is shorter, and checksum right.
fn repair(file: &mut [u8]) {
    let (mut at, mut checksum) = (MAGIC_BYTES, !0);
    while let Some((head, rest)) = file.get_mut(at..).and_then(|rest| rest.split_at_mut_checked(8)) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]).min(rest.len() as u32);
        checksum = crc32c(checksum, &rest[..length as usize]);
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..].copy_from_slice(&checksum.to_le_bytes());
        at += 8 + length as usize;
    }
}
