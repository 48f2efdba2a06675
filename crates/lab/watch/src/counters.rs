//! Ceph's perf counters: a daemon's JSON as flat names, and what changed between two of them.
//!
//! Over a daemon's admin socket on this machine ([`over_socket`]); where there is none, the caller gets the same text
//! from `ceph tell osd.N perf dump` and gives it to [`parse`]. A cluster that has no counters gives an empty map.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::error::Error;

/// How long a daemon has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// No dump is longer: 256 times a small OSD's.
const LONGEST: u32 = 8 << 20;

/// Values by `daemon.section.counter`, means as `.avgcount` and `.sum`.
pub type Counters = BTreeMap<String, f64>;

/// Asks a daemon on this machine.
///
/// # Errors
/// The socket does not answer within 10 s, or not with JSON.
pub fn over_socket(daemon: &str, path: &Path) -> Result<Counters, Error> {
    let text = ask(path).map_err(|source| Error::Socket { path: path.to_owned(), source })?;
    parse(daemon, &text)
}

/// A command as JSON with a zero at its end; back come the answer's length as four bytes, the highest first, and the
/// answer.
fn ask(path: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"{\"prefix\": \"perf dump\", \"format\": \"json\"}\0")?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(io::Error::other(format!("it announces {length} bytes")));
    }
    let mut text = String::new();
    stream.take(u64::from(length)).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a dump.
///
/// # Errors
/// It is no JSON object.
pub fn parse(daemon: &str, text: &str) -> Result<Counters, Error> {
    let bad = |why: String| Error::Counters { daemon: daemon.to_owned(), why };
    let value: Value = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    if !value.is_object() {
        return Err(bad("it is not a JSON object".to_owned()));
    }
    let mut counters = Counters::new();
    flatten(daemon, &value, &mut counters);
    Ok(counters)
}

fn flatten(name: &str, value: &Value, into: &mut Counters) {
    match value {
        Value::Object(parts) => {
            for (key, part) in parts {
                // A mean since the daemon's start has no difference; sum and count have.
                if key != "avgtime" {
                    flatten(&format!("{name}.{key}"), part, into);
                }
            }
        }
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                into.insert(name.to_owned(), number);
            }
        }
        // Names and axes of histograms.
        _ => {}
    }
}

/// What changed, `now - before`. A counter that is new counts from 0; one that is gone, or that did not change, is left
/// out. One that fell (a gauge, or a daemon that began again) is negative.
#[must_use]
pub fn changes(before: &Counters, now: &Counters) -> Counters {
    let change = |(name, is): (&String, &f64)| {
        let by = is - before.get(name).copied().unwrap_or(0.0);
        (by != 0.0).then(|| (name.clone(), by))
    };
    now.iter().filter_map(change).collect()
}

/// An informative counter: section, its names by release, what it is, and its name in records.
struct Telling {
    section: &'static str,
    names: &'static [&'static str],
    kind: Kind,
    name: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Differences of all OSDs, added up.
    Sum,
    /// Time by number over all OSDs, in milliseconds.
    Milliseconds,
}

const fn telling_one(
    section: &'static str,
    names: &'static [&'static str],
    kind: Kind,
    name: &'static str,
) -> Telling {
    Telling { section, names, kind, name }
}

use Kind::{Milliseconds, Sum};

/// In the order in which a report has them.
static TELLING: &[Telling] = &[
    telling_one("osd", &["op"], Sum, "osd.op"),
    telling_one("osd", &["op_in_bytes"], Sum, "osd.op_in_bytes"),
    telling_one("osd", &["op_out_bytes"], Sum, "osd.op_out_bytes"),
    telling_one("osd", &["op_latency"], Milliseconds, "osd.op_latency_ms"),
    telling_one("osd", &["op_r_latency"], Milliseconds, "osd.op_r_latency_ms"),
    telling_one("osd", &["op_w_latency"], Milliseconds, "osd.op_w_latency_ms"),
    telling_one("osd", &["op_before_queue_op_lat"], Milliseconds, "osd.op_before_queue_op_lat_ms"),
    telling_one("osd", &["op_process_latency"], Milliseconds, "osd.op_process_latency_ms"),
    telling_one("osd", &["subop_latency"], Milliseconds, "osd.subop_latency_ms"),
    telling_one("filestore", &["journal_wr_bytes"], Sum, "filestore.journal_wr_bytes"),
    telling_one("filestore", &["journal_latency"], Milliseconds, "filestore.journal_latency_ms"),
    telling_one("filestore", &["commitcycle_latency"], Milliseconds, "filestore.commitcycle_latency_ms"),
    telling_one("filestore", &["apply_latency"], Milliseconds, "filestore.apply_latency_ms"),
    telling_one(
        "bluestore",
        &["throttle_lat", "txc_throttle_lat"],
        Milliseconds,
        "bluestore.throttle_lat_ms",
    ),
    telling_one("bluestore", &["commit_lat", "txc_commit_lat"], Milliseconds, "bluestore.commit_lat_ms"),
    telling_one("bluestore", &["kv_flush_lat"], Milliseconds, "bluestore.kv_flush_lat_ms"),
    telling_one("bluestore", &["kv_commit_lat"], Milliseconds, "bluestore.kv_commit_lat_ms"),
    telling_one("bluestore", &["kv_sync_lat"], Milliseconds, "bluestore.kv_sync_lat_ms"),
    telling_one("bluestore", &["read_lat"], Milliseconds, "bluestore.read_lat_ms"),
];

/// Of what changed, the informative counters, over all OSDs.
#[must_use]
pub fn telling(changed: &Counters) -> Counters {
    TELLING.iter().filter_map(|t| Some((t.name.to_owned(), value(t, changed)?))).collect()
}

fn value(telling: &Telling, changed: &Counters) -> Option<f64> {
    let sum = |tail: &str| {
        let is_it = |name: &str| {
            let counter =
                name.strip_prefix("osd.").and_then(|n| n.split_once('.')).map(|(_, counter)| counter);
            let counter = counter.and_then(|c| c.strip_prefix(telling.section)?.strip_prefix('.'));
            counter.and_then(|c| c.strip_suffix(tail)).is_some_and(|c| telling.names.contains(&c))
        };
        changed.iter().filter(|(name, _)| is_it(name)).map(|(_, value)| value).copied().reduce(|a, b| a + b)
    };
    match telling.kind {
        Sum => sum(""),
        Milliseconds => {
            let (time, count) = (sum(".sum")?, sum(".avgcount")?);
            (count > 0.0).then(|| time / count * 1e3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_dump_becomes_flat_names() {
        let found = parse("osd.0", include_str!("../tests/data/perf-dump.json")).unwrap();
        assert_eq!(found["osd.0.AsyncMessenger::Worker-1.msgr_created_connections"], 3.0);
        assert!(found.contains_key("osd.0.AsyncMessenger::Worker-1.msgr_send_messages_queue_lat.avgcount"));
        assert!(found.contains_key("osd.0.osd.op"));
        assert!(!found.keys().any(|k| k.ends_with("avgtime")));
        assert!(parse("osd.0", "no such command").is_err() && parse("osd.0", "[]").is_err());
    }

    #[test]
    fn only_what_changed_is_told() {
        let counters = |list: &[(&str, f64)]| list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let before: Counters = counters(&[("a", 1.0), ("b", 5.0), ("gone", 2.0), ("gauge", 9.0)]);
        let now: Counters = counters(&[("a", 1.0), ("b", 7.5), ("new", 3.0), ("gauge", 4.0)]);
        assert_eq!(changes(&before, &now), counters(&[("b", 2.5), ("new", 3.0), ("gauge", -5.0)]));
    }

    #[test]
    fn what_tells_much_is_taken_over_all_osds() {
        let changed: Counters = [
            ("osd.0.osd.op", 10.0),
            ("osd.1.osd.op", 30.0),
            ("mon.a.osd.op", 99.0),
            ("osd.0.osd.op_w_latency.sum", 0.5),
            ("osd.0.osd.op_w_latency.avgcount", 10.0),
            ("osd.1.osd.op_w_latency.sum", 1.5),
            ("osd.1.osd.op_w_latency.avgcount", 30.0),
            ("osd.1.bluestore.txc_commit_lat.sum", 0.2),
            ("osd.1.bluestore.txc_commit_lat.avgcount", 100.0),
            ("osd.1.bluestore.read_lat.sum", 0.2),
        ]
        .map(|(n, v)| (n.to_owned(), v))
        .into();
        let found = telling(&changed);
        assert_eq!((found["osd.op"], found["osd.op_w_latency_ms"]), (40.0, 50.0));
        assert_eq!(found["bluestore.commit_lat_ms"], 2.0);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    fn answered(answer: &'static [u8]) -> Result<Counters, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("osd.0.asok");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [1];
            while byte != [0] {
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(asked).unwrap()
        });
        let found = over_socket("osd.0", &path);
        assert!(server.join().unwrap().contains("perf dump"));
        found
    }

    #[test]
    fn a_daemon_is_asked_over_its_socket() {
        let found = answered(b"\0\0\0\x0f{\"a\": {\"b\": 3}}").unwrap();
        assert_eq!(found["osd.0.a.b"], 3.0);
    }

    #[test]
    fn a_cut_or_endless_answer_is_an_error() {
        assert!(answered(b"\0\0\0\x0f{\"a\": {").is_err());
        assert!(answered(b"\xff\0\0\0{").is_err());
        assert!(over_socket("osd.0", Path::new("/nonexistent/x.asok")).is_err());
    }
}
