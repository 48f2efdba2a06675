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
        return Err(bad("it is no object".to_owned()));
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
/// out. One that fell (a gauge, or a daemon that began anew) is negative.
#[must_use]
pub fn changes(before: &Counters, now: &Counters) -> Counters {
    let change = |(name, is): (&String, &f64)| {
        let by = is - before.get(name).copied().unwrap_or(0.0);
        (by != 0.0).then(|| (name.clone(), by))
    };
    now.iter().filter_map(change).collect()
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
