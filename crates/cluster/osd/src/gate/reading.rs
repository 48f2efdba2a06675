//! What a session's large reads have under way. Their answers wait in memory until the peer takes them: one that asks for more than
//! it takes gets no more read for it, and what it takes next is still in the processor's caches.

/// Reads that ask for less are neither counted nor held up.
const LARGE: u64 = 64 << 10;

/// No object is longer (`osd_max_object_size`).
const OBJECT_MAX: u64 = 4 << 30;

/// A session's reads.
#[derive(Default, Debug)]
pub(crate) struct Reading {
    /// Bytes that are expected of the reads which PGs have.
    under_way: u64,
    /// Bytes of the longest answers lately.
    brought: Option<u64>,
    /// The peer has not taken what it was sent.
    pub is_behind: bool,
}

impl Reading {
    /// Bytes that a request counts for which asks for `asked`; 0 for one that is not counted. Many ask for more than their objects
    /// have, so that earlier answers say what to expect.
    pub(crate) fn expected(&self, asked: u64) -> u64 {
        match asked.min(OBJECT_MAX) {
            asked if asked < LARGE => 0,
            asked => self.brought.map_or(asked, |brought| brought.clamp(1, asked)),
        }
    }

    /// Whether the session may begin a read that counts for `bytes`. `max` limits the bytes of all its reads under way; 0 sets no
    /// limit.
    pub(crate) fn has_room(&self, bytes: u64, max: u64) -> bool {
        let fits = || !self.is_behind && (self.under_way == 0 || self.under_way + bytes <= max);
        max == 0 || bytes == 0 || fits()
    }

    pub(crate) fn begin(&mut self, bytes: u64) {
        self.under_way += bytes;
    }

    /// A request that counted for `bytes` has an answer that brought so many, or failed or was dropped.
    pub(crate) fn end(&mut self, bytes: u64, brought: Option<u64>) {
        self.under_way -= bytes;
        if let Some(now) = brought {
            // A long answer is remembered for some time, so that short ones between do not let many begin.
            self.brought = Some(self.brought.map_or(now, |before| (before - before.div_ceil(8)).max(now)));
        }
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 4 << 20;

    #[test]
    fn large_reads_wait_for_each_other_and_for_the_peer_and_small_ones_for_neither() {
        let mut reading = Reading::default();
        let (small, large) = (reading.expected(LARGE - 1), reading.expected(3 << 20));
        assert_eq!((small, large), (0, 3 << 20));
        assert!(reading.has_room(large, MAX));
        reading.begin(large);
        assert!(!reading.has_room(large, MAX) && reading.has_room(1 << 20, MAX));
        assert!(reading.has_room(large, 0), "no limit");
        assert!(reading.has_room(small, MAX));
        reading.end(large, None);
        assert!(reading.has_room(8 << 20, MAX), "one that is above the limit goes alone");
        reading.is_behind = true;
        assert!(!reading.has_room(large, MAX) && reading.has_room(small, MAX));
    }

    #[test]
    fn what_answers_brought_counts_for_more_than_what_is_asked() {
        let mut reading = Reading::default();
        let whole = u64::MAX;
        assert_eq!(reading.expected(whole), OBJECT_MAX);
        reading.begin(OBJECT_MAX);
        reading.end(OBJECT_MAX, Some(4096));
        assert_eq!((reading.expected(whole), reading.expected(1 << 20)), (4096, 4096));
        reading.begin(4096);
        reading.end(4096, Some(1 << 20));
        assert_eq!(reading.expected(4 << 20), 1 << 20);
        assert_eq!(reading.expected(100_000), 100_000, "no more than is asked for");
        for _ in 0..100 {
            let bytes = reading.expected(4 << 20);
            reading.begin(bytes);
            reading.end(bytes, Some(0));
        }
        assert_eq!(reading.expected(4 << 20), 1, "what brings nothing is counted still");
        assert_eq!(reading.under_way(), 0);
    }
}
