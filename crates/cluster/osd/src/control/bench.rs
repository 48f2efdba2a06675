//! `ceph tell osd.N bench`: how fast the OSD's store takes writes, without network and placement groups.
//!
//! The blocks go into a few objects of the meta collection, over each other, some in flight at a time; they are removed at
//! the end.

use buffer::Rope;
use serde_json::{Map, Value, json};
use store::{CollectionId, Completion, Transaction};
use types::{Errno, GHObject, UTime};

use super::command::{Refusal, answer};
use super::superblock::bench_object;
use super::{Control, META, OwnIo};
use crate::OsdEffect;
use crate::parts::{Asker, Out};

/// Bytes written where the command gives none (Ceph: 1 GiB).
const COUNT: u64 = 1 << 30;
const COUNT_MAX: u64 = 1 << 40;
const BLOCK: u64 = 4 << 20;
const BLOCK_MAX: u64 = 64 << 20;
/// Objects that the blocks go to, and so blocks in flight.
const OBJECTS: u64 = 16;
/// Bytes in flight at a time.
const IN_FLIGHT_MAX: u64 = 64 << 20;

/// A bench under way.
#[derive(Debug)]
pub(super) struct Bench {
    asked: Asker,
    began: UTime,
    block: u64,
    total: u64,
    /// Blocks queued and blocks durable.
    queued: u64,
    done: u64,
    data: Rope,
    refused: Option<String>,
    ended: Option<UTime>,
}

/// A number of a command, given as such or as text; `None`: it is not given.
fn number(args: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refusal> {
    match args.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let given = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            given
                .map(Some)
                .ok_or_else(|| (Errno::EINVAL, format!("bench: '{name}' is not a number of bytes")))
        }
    }
}

/// Bytes that do not compress; the same at every bench.
fn noise(len: u64) -> Rope {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len as usize);
    while (bytes.len() as u64) < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend(word.to_le_bytes());
    }
    bytes.truncate(len as usize);
    Rope::from(bytes)
}

impl Bench {
    fn blocks(&self) -> u64 {
        self.total.div_ceil(self.block)
    }

    fn in_flight_max(&self) -> u64 {
        (IN_FLIGHT_MAX / self.block).clamp(1, OBJECTS)
    }

    fn object(block: u64) -> GHObject {
        bench_object(block % OBJECTS)
    }
}

impl Control {
    pub(super) fn start_bench(
        &mut self,
        now: UTime,
        args: &Map<String, Value>,
        asked: Asker,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let total = number(args, "count")?.unwrap_or(COUNT);
        let block = number(args, "size")?.unwrap_or(BLOCK);
        if self.bench.is_some() {
            return Err((Errno::EBUSY, "bench: another one is under way".into()));
        }
        if !(1..=BLOCK_MAX).contains(&block) || !(1..=COUNT_MAX).contains(&total) {
            let text =
                format!("bench: blocks have 1 to {BLOCK_MAX} bytes, and the count is at most {COUNT_MAX}");
            return Err((Errno::EINVAL, text));
        }
        // What is written over is freed later; a store that runs full under a bench would cost the OSD.
        let needed = block * OBJECTS * 4;
        let free = self.statfs().bytes_available;
        if free < needed {
            let text =
                format!("bench: blocks of {block} bytes need {needed} bytes free, the store has {free}");
            return Err((Errno::ENOSPC, text));
        }
        let data = noise(block);
        let (queued, done, refused, ended) = (0, 0, None, None);
        self.bench = Some(Bench { asked, began: now, block, total, queued, done, data, refused, ended });
        self.go_on_with_bench(now, out);
        Ok(())
    }

    /// A block is durable, or the end's removal.
    pub(super) fn on_bench_write(&mut self, now: UTime, completion: &Completion, out: &mut Out) {
        let Some(bench) = self.bench.as_mut() else {
            return out.broken("a bench's write is complete, and there is no bench");
        };
        bench.done += 1;
        if let Completion::Refused { token, error } = completion {
            bench.refused = Some(error.to_string());
            out.push(OsdEffect::Acknowledge { shard: META, token: *token });
        }
        self.go_on_with_bench(now, out);
    }

    fn go_on_with_bench(&mut self, now: UTime, out: &mut Out) {
        let Some(bench) = self.bench.as_mut() else { return out.broken("a bench goes on that is not there") };
        let mut queue = Vec::new();
        while bench.refused.is_none()
            && bench.queued < bench.blocks()
            && bench.queued - bench.done < bench.in_flight_max()
        {
            let mut txn = Transaction::new();
            txn.write(CollectionId::Meta, &Bench::object(bench.queued), 0, bench.data.clone());
            bench.queued += 1;
            queue.push(txn);
        }
        if queue.is_empty() && bench.queued == bench.done {
            if bench.ended.is_some() {
                return self.end_bench(out);
            }
            bench.ended = Some(now);
            let mut txn = Transaction::new();
            for object in 0..OBJECTS.min(bench.queued) {
                txn.remove(CollectionId::Meta, &Bench::object(object));
            }
            bench.queued += 1;
            queue.push(txn);
        }
        for txn in queue {
            self.queue(txn, OwnIo::Bench, out);
        }
    }

    fn end_bench(&mut self, out: &mut Out) {
        let Some(bench) = self.bench.take() else { return out.broken("a bench ends that is not there") };
        let ended = bench.ended.unwrap_or(bench.began);
        let seconds = ended.as_nanos().saturating_sub(bench.began.as_nanos()).max(1) as f64 / 1e9;
        let written = bench.blocks() * bench.block;
        let result = match bench.refused {
            Some(why) => Err((Errno::EIO, format!("bench: the store refused a write: {why}"))),
            None => Ok(json!({
                "bytes_written": written, "blocksize": bench.block, "elapsed_sec": seconds,
                "bytes_per_sec": written as f64 / seconds, "iops": bench.blocks() as f64 / seconds,
            })),
        };
        answer(bench.asked, result, out);
    }
}
