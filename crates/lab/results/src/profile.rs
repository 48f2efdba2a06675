//! What a profiled trial leaves: stacks that were seen, and the requests that reached a device.
//!
//! ```text
//! DIR/profiles/ID/PHASE.folded          Stacks: `process;thread;outermost;...;innermost COUNT` a line
//! DIR/profiles/ID/PHASE.DEVICE.json     Requests
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// Stacks by how often each was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stacks {
    /// Samples a second on each core.
    pub hertz: u32,
    /// Samples of stacks that were too many to keep.
    pub left_out: u64,
    /// What was in the way, for a user; empty if nothing.
    pub note: String,
    /// Frames from the outermost, joined by `;`.
    pub counts: BTreeMap<String, u64>,
}

impl Stacks {
    /// As other programs that draw flame graphs read it; data of the lab's own is in lines that begin with `#`.
    #[must_use]
    pub fn text(&self) -> String {
        let note = self.note.replace('\n', " ");
        let mut text = format!("# hertz {}\n# left_out {}\n# note {note}\n", self.hertz, self.left_out);
        for (stack, count) in &self.counts {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{stack} {count}");
        }
        text
    }

    /// Reads the text. Lines that are none of ours are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut stacks = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                match rest.split_once(' ') {
                    Some(("hertz", value)) => stacks.hertz = value.parse().unwrap_or(0),
                    Some(("left_out", value)) => stacks.left_out = value.parse().unwrap_or(0),
                    Some(("note", value)) => value.clone_into(&mut stacks.note),
                    _ => {}
                }
            } else if let Some((stack, count)) = line.rsplit_once(' ') {
                if let Ok(count) = count.parse::<u64>() {
                    let sum = stacks.counts.entry(stack.to_owned()).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
        }
        stacks
    }

    /// Samples that are kept.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum RequestKind {
    /// Reads.
    #[serde(rename = "R")]
    Read,
    /// Writes.
    #[serde(rename = "W")]
    Write,
    /// Discards.
    #[serde(rename = "D")]
    Discard,
    /// Moves no data: a flush.
    #[serde(rename = "F")]
    Flush,
}

/// A request, when the device was given it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Seconds since the trial began.
    pub t: f64,
    /// Its first sector of 512 bytes; 0 for a flush.
    pub sector: u64,
    /// Sectors.
    pub sectors: u64,
    /// What it does.
    pub kind: RequestKind,
}

/// A second of a device.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RequestSecond {
    /// Its end, seconds since the trial began.
    pub t: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests that did not begin where the one before ended.
    pub seeks: u64,
    /// Sectors that lay between, of all seeks.
    pub distance: u64,
}

/// The requests of a device in a phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Requests {
    /// Its kernel name.
    pub device: String,
    /// Sectors of 512 bytes that it has.
    pub sectors: u64,
    /// What was in the way, for a user; empty if nothing.
    pub note: String,
    /// Requests that the kernel had no room to record.
    pub lost: u64,
    /// Each second that had a request, counted whole.
    pub seconds: Vec<RequestSecond>,
    /// One of so many requests is in `requests`.
    pub one_of: u64,
    /// In order.
    pub requests: Vec<Request>,
}

/// A profiled phase.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PhaseProfile {
    /// Which.
    pub phase: String,
    /// Of the servers.
    pub stacks: Option<Stacks>,
    /// By device.
    pub requests: Vec<Requests>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_read_back_as_they_were_written() {
        let counts = [("osd.0;tp;main;<a as b>::c d".to_owned(), 3), ("x".to_owned(), 1)].into();
        let stacks = Stacks { hertz: 99, left_out: 4, note: "two\nlines".into(), counts };
        let read = Stacks::parse(&stacks.text());
        assert_eq!(read, Stacks { note: "two lines".into(), ..stacks });
        assert_eq!(read.samples(), 4);
        assert_eq!(Stacks::parse("garbage\n\n# \nno count x\n"), Stacks::default());
    }
}
