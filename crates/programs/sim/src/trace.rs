//! The trace of a run: always a hash, and lines to read when asked for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use messages::RawMessage;

/// The trace of a run.
#[derive(Default)]
pub struct Trace {
    hasher: DefaultHasher,
    /// Events hashed.
    pub events: u64,
    lines: Option<Lines>,
}

struct Lines {
    to: Box<dyn Write>,
    /// The object whose lines alone are written, beside those of no object.
    object: Option<String>,
}

impl Trace {
    /// A trace that also writes lines: all, or those of one object and of no object.
    pub fn to(to: Box<dyn Write>, object: Option<String>) -> Self {
        Self { lines: Some(Lines { to, object }), ..Self::default() }
    }

    /// Notes an event: `what` goes into the hash, the words only into the lines.
    pub fn note(&mut self, now: u64, what: impl Hash, words: impl FnOnce() -> String) {
        self.events += 1;
        now.hash(&mut self.hasher);
        what.hash(&mut self.hasher);
        let Some(lines) = &mut self.lines else { return };
        let words = words();
        let of_another = |object: &String| words.contains("obj") && !words.contains(object.as_str());
        if !lines.object.as_ref().is_some_and(of_another) {
            // The run goes on without its trace.
            let _ = writeln!(lines.to, "{:>12.6} {words}", now as f64 / 1e9);
        }
    }

    /// Equal for equal runs.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

/// A message's bytes as a number.
pub fn digest(raw: &RawMessage) -> u64 {
    let mut front = buffer::Rope::new();
    front.push(raw.front.clone());
    u64::from(front.crc32c(!0)) << 32 | u64::from(raw.data.crc32c(!0))
}
