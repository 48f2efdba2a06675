//! Requests that a device was given, from the kernel's lines to what a seek plot needs. Pure.

use std::collections::BTreeMap;

use results::{Request, RequestKind, RequestSecond, Requests};

/// Requests that are kept of a device and phase at most; of more, one of 2, 4, 8, ...
const KEPT_MAX: usize = 60_000;

/// A device as the kernel's events name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Device {
    /// Its kernel name.
    pub name: String,
    /// Major and minor of the whole disk.
    pub number: (u32, u32),
    /// Where it begins on that disk, in sectors.
    pub first: u64,
    /// Sectors that it has.
    pub sectors: u64,
}

/// A line about a request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Line {
    pub number: (u32, u32),
    pub request: Request,
}

/// Reads a line of the event `block_rq_issue`:
/// `THREAD [CORE] FLAGS SECONDS: block_rq_issue: MAJOR,MINOR KIND BYTES (...) SECTOR + SECTORS ... [THREAD]`.
pub(crate) fn line(text: &str) -> Option<Line> {
    let (head, tail) = text.split_once(": block_rq_issue: ")?;
    let t: f64 = head.rsplit(' ').next()?.parse().ok()?;
    let mut words = tail.split(' ');
    let (major, minor) = words.next()?.split_once(',')?;
    let kind = words.next()?;
    // A command of a SCSI device is in the parentheses.
    let mut place = tail.split_once(") ")?.1.split(' ');
    let sector: u64 = place.next()?.parse().ok()?;
    let sectors: u64 = place.nth(1)?.parse().ok()?;
    let kind = match kind.chars().find(|c| "RWD".contains(*c)) {
        // What moves nothing only makes the device write back.
        _ if sectors == 0 => RequestKind::Flush,
        Some('R') => RequestKind::Read,
        Some('W') => RequestKind::Write,
        Some(_) => RequestKind::Discard,
        None => RequestKind::Flush,
    };
    let sector = if sectors == 0 { 0 } else { sector };
    let number = (major.parse().ok()?, minor.parse().ok()?);
    Some(Line { number, request: Request { t, sector, sectors, kind } })
}

/// How many events the kernel says it lost: `CPU:0 [LOST 17 EVENTS]`.
pub(crate) fn lost(text: &str) -> Option<u64> {
    text.split_once("[LOST ")?.1.split(' ').next()?.parse().ok()
}

/// Takes the requests of one device.
#[derive(Debug)]
pub(crate) struct Plot {
    device: Device,
    requests: Requests,
    seconds: BTreeMap<u64, RequestSecond>,
    /// Requests so far.
    count: u64,
    /// Where the one before ended.
    head: Option<u64>,
}

impl Plot {
    pub fn new(device: Device) -> Self {
        let requests = Requests {
            device: device.name.clone(),
            sectors: device.sectors,
            one_of: 1,
            ..Requests::default()
        };
        Self { device, requests, seconds: BTreeMap::new(), count: 0, head: None }
    }

    /// Takes a request of the whole disk, with its time since the trial began; another part's is not this device's.
    pub fn take(&mut self, mut request: Request) {
        if request.t < 0.0 {
            return;
        }
        let second = self.seconds.entry(request.t as u64).or_default();
        if request.kind == RequestKind::Flush {
            second.flushes += 1;
        } else {
            let end = self.device.first.saturating_add(self.device.sectors);
            if !(self.device.first..end).contains(&request.sector) {
                return;
            }
            request.sector -= self.device.first;
            match request.kind {
                RequestKind::Read => second.reads += 1,
                RequestKind::Write => second.writes += 1,
                RequestKind::Discard | RequestKind::Flush => {}
            }
            if let Some(head) = self.head.filter(|head| *head != request.sector) {
                second.seeks += 1;
                second.distance = second.distance.saturating_add(head.abs_diff(request.sector));
            }
            self.head = Some(request.sector.saturating_add(request.sectors));
        }
        self.keep(request);
    }

    fn keep(&mut self, request: Request) {
        if self.count % self.requests.one_of == 0 {
            if self.requests.requests.len() >= KEPT_MAX {
                let mut place = 0;
                self.requests.requests.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.requests.one_of *= 2;
            }
            if self.count % self.requests.one_of == 0 {
                self.requests.requests.push(request);
            }
        }
        self.count += 1;
    }

    /// All of it. What is lost is not known by device.
    pub fn finish(mut self, lost: u64) -> Requests {
        let second = |(at, second): (u64, RequestSecond)| RequestSecond { t: at as f64 + 1.0, ..second };
        self.requests.seconds = self.seconds.into_iter().map(second).collect();
        self.requests.lost = lost;
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(t: f64, sector: u64, sectors: u64, kind: RequestKind) -> Request {
        Request { t, sector, sectors, kind }
    }

    #[test]
    fn lines_of_several_kernels_are_read() {
        let cases = [
            (
                "  bstore_kv_sync-8915    [001] .....   786.112155: block_rq_issue: 254,0 WS 77824 () 34717824 + 152 be,0,4 [bstore_kv_sync]",
                ((254, 0), request(786.112155, 34717824, 152, RequestKind::Write)),
            ),
            (
                "    kworker/1:1H-44      [001] .....   786.111740: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]",
                ((254, 0), request(786.11174, 0, 0, RequestKind::Flush)),
            ),
            (
                " a b: c-1 [000] d... 5.5: block_rq_issue: 8,16 RA 4096 (28 00 1) 18446744073709551615 + 8 [a]",
                ((8, 16), request(5.5, u64::MAX, 8, RequestKind::Read)),
            ),
            (
                "x-1 [000] d... 5.5: block_rq_issue: 7,1 FWFS 4096 () 8 + 8 [x]",
                ((7, 1), request(5.5, 8, 8, RequestKind::Write)),
            ),
            (
                "x-1 [000] d... 5.5: block_rq_issue: 7,1 DS 4096 () 8 + 8 [x]",
                ((7, 1), request(5.5, 8, 8, RequestKind::Discard)),
            ),
        ];
        for (text, (number, request)) in cases {
            assert_eq!(line(text), Some(Line { number, request }), "{text}");
        }
        for bad in [
            "",
            "x: block_rq_issue: ",
            "x 5.5: block_rq_issue: 7,1 W 1 () x + 8",
            "x 5.5: block_rq_complete: 7,1 W () 8 + 8 [0]",
        ] {
            assert_eq!(line(bad), None, "{bad}");
        }
        assert_eq!(lost("CPU:1 [LOST 1234 EVENTS]"), Some(1234));
        assert_eq!(lost("CPU:1"), None);
    }

    fn plot(first: u64) -> Plot {
        Plot::new(Device { name: "sda1".into(), number: (8, 0), first, sectors: 1_000_000 })
    }

    #[test]
    fn a_seek_is_a_request_that_does_not_begin_where_the_last_one_ended() {
        let mut plot = plot(100);
        for (t, sector) in [(0.1, 100), (0.2, 108), (0.3, 116), (1.5, 1116), (1.6, 99)] {
            plot.take(request(t, sector, 8, RequestKind::Write));
        }
        plot.take(request(1.7, 0, 0, RequestKind::Flush));
        plot.take(request(1.8, 1124, 8, RequestKind::Read));
        let found = plot.finish(3);
        let [first, second] = found.seconds[..] else { panic!("{found:?}") };
        assert_eq!((first.t, first.writes, first.seeks), (1.0, 3, 0));
        assert_eq!(
            (second.writes, second.reads, second.flushes, second.seeks, second.distance),
            (1, 1, 1, 1, 992)
        );
        assert_eq!((found.requests.len(), found.lost, found.requests[0].sector), (6, 3, 0));
    }

    #[test]
    fn many_requests_are_thinned_evenly_and_counted_whole() {
        let mut plot = plot(0);
        let all = KEPT_MAX as u64 * 5;
        for i in 0..all {
            plot.take(request(i as f64 / 1e6, i % 1_000_000, 1, RequestKind::Read));
        }
        let found = plot.finish(0);
        assert!(found.requests.len() <= KEPT_MAX && found.requests.len() >= KEPT_MAX / 2);
        assert_eq!((found.seconds[0].reads, found.one_of), (all, 8));
        let steps = found.requests.windows(2).map(|w| ((w[1].t - w[0].t) * 1e6).round() as u64);
        assert!(steps.into_iter().all(|s| s == 8));
    }
}
