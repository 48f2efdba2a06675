//! `loligo up --metrics ADDR`: Prometheus reads the cluster over HTTP, as it reads a Ceph manager and ceph-exporter.
//!
//! A request has one line and headers, which are read and not looked at; the answer ends the connection. Only GET and HEAD
//! of `/metrics` are served. A peer that is slow, long or one too many gets no answer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use mon::metrics::MetricsText;
use runtime::SocketPath;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use types::OsdId;

use crate::core::Core;
use crate::spare::Reserve;

/// Bytes of the longest request: its line and its headers.
const REQUEST_MAX: usize = 8 << 10;
/// How long a peer may take to write its request, and to take the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an OSD may take to answer.
const OSD_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an OSD's longest answer.
const OSD_ANSWER_MAX: u32 = 1 << 20;
/// Connections at a time; more are ended at once.
const CONNECTIONS_MAX: usize = 16;
/// For one connection where the process may open no more files, and what asks an OSD for it: a socket, and the directory of one that has
/// a long path.
const RESERVED_FILES: usize = 3;

/// Serves for good. `dir`: the cluster's, where the OSDs' admin sockets are.
pub(crate) async fn serve(core: Rc<Core>, listener: std::net::TcpListener, dir: PathBuf) {
    let listener = match listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("--metrics: the listener can't be used: {error}"),
    };
    let (open, reserve) = (Rc::new(Cell::new(0)), Rc::new(Reserve::new("--metrics".into(), RESERVED_FILES)));
    loop {
        let (mut stream, peer) = reserve.accept(&core, |cx| listener.poll_accept(cx)).await;
        if open.get() >= CONNECTIONS_MAX {
            tracing::debug!("--metrics: {peer} is one connection too many");
            reserve.end(stream.into_std());
            continue;
        }
        open.set(open.get() + 1);
        let (core, dir, open, reserve) = (core.clone(), dir.clone(), open.clone(), reserve.clone());
        tokio::task::spawn_local(async move {
            converse(&core, &mut stream, &dir, &reserve).await;
            reserve.end(stream.into_std());
            open.set(open.get() - 1);
        });
    }
}

async fn converse(core: &Core, stream: &mut TcpStream, dir: &Path, reserve: &Reserve) {
    let request = tokio::time::timeout(REQUEST_TIMEOUT, read_head(stream)).await;
    // A peer that is gone, or stops in the middle of its request, gets no answer.
    let Ok(Ok(head)) = request else { return };
    let answer = match wanted(&head) {
        Wanted::Metrics { with_body } => {
            let text = all_metrics(core, dir, reserve).await;
            response("200 OK", "text/plain; version=0.0.4; charset=utf-8", &text, with_body)
        }
        Wanted::Nothing(status) => response(status, "text/plain; charset=utf-8", "see /metrics\n", true),
    };
    let write = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    // A peer that does not take the answer loses it.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, write).await;
}

/// The bytes of a request up to the empty line.
async fn read_head<S: AsyncReadExt + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && !head.windows(2).any(|end| end == b"\n\n") {
        if head.len() > REQUEST_MAX || stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

#[derive(PartialEq, Debug)]
enum Wanted {
    Metrics {
        with_body: bool,
    },
    /// An error, with its status line.
    Nothing(&'static str),
}

fn wanted(head: &[u8]) -> Wanted {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { return Wanted::Nothing("400 Bad Request") };
    if !version.starts_with("HTTP/1.") {
        return Wanted::Nothing("505 HTTP Version Not Supported");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => Wanted::Metrics { with_body: method == "GET" },
        ("GET" | "HEAD", _) => Wanted::Nothing("404 Not Found"),
        _ => Wanted::Nothing("405 Method Not Allowed"),
    }
}

fn response(status: &str, kind: &str, body: &str, with_body: bool) -> String {
    let body_len = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {body_len}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// What the monitor knows, and every OSD's counters.
async fn all_metrics(core: &Core, dir: &Path, reserve: &Reserve) -> String {
    let mut text = match core.node().mon() {
        Some(mon) => mon.metrics(core.shared.clock.now()),
        // The listener is where the monitor is.
        None => String::new(),
    };
    let osds: Vec<OsdId> =
        core.shared.osds().iter().filter(|(_, state)| state.runs()).map(|(osd, _)| *osd).collect();
    let mut counters: BTreeMap<(String, String), OsdCounter> = BTreeMap::new();
    for osd in osds {
        let path = dir.join(format!("osd.{osd}.asok"));
        let ask = |prefix| ask_socket(&path, prefix, reserve);
        let (Some(dump), Some(schema)) = (ask("perf dump").await, ask("perf schema").await) else {
            tracing::debug!("--metrics: osd.{osd} gives no counters");
            continue;
        };
        gather(osd, &dump, &schema, &mut counters);
    }
    text += &counters_text(&counters);
    text
}

/// What an OSD's admin socket answers; `None` where the OSD stops, or is too slow.
async fn ask_socket(path: &Path, prefix: &str, reserve: &Reserve) -> Option<Value> {
    let connect = || async { UnixStream::connect(SocketPath::of(path)?.as_path()).await };
    let mut stream = tokio::time::timeout(OSD_TIMEOUT, reserve.open(connect)).await.ok()?.ok()?;
    let ask = async {
        stream.write_all(format!("{{\"prefix\":\"{prefix}\"}}\0").as_bytes()).await?;
        let len = stream.read_u32().await?;
        if len > OSD_ANSWER_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; len as usize];
        stream.read_exact(&mut text).await?;
        io::Result::Ok(text)
    };
    let text = tokio::time::timeout(OSD_TIMEOUT, ask).await;
    reserve.end(stream.into_std());
    let text = text.ok()?.ok()?;
    serde_json::from_slice(&text).ok()
}

/// Of an OSD: a value, or an average's sum and count.
type OsdValue = (OsdId, f64, Option<f64>);

/// A counter of OSDs.
#[derive(Default)]
struct OsdCounter {
    about: String,
    is_gauge: bool,
    values: Vec<OsdValue>,
}

fn gather(osd: OsdId, dump: &Value, schema: &Value, out: &mut BTreeMap<(String, String), OsdCounter>) {
    for (section, names) in dump.as_object().into_iter().flatten() {
        for (name, value) in names.as_object().into_iter().flatten() {
            let about = &schema[section][name];
            let (first, second) = match value {
                Value::Object(average) => (
                    average.get("sum").and_then(Value::as_f64),
                    average.get("avgcount").and_then(Value::as_f64),
                ),
                other => (other.as_f64(), None),
            };
            let Some(first) = first else { continue };
            let counter = out.entry((section.clone(), name.clone())).or_default();
            counter.about = about["description"].as_str().unwrap_or_default().to_owned();
            counter.is_gauge = about["metric_type"] == "gauge";
            counter.values.push((osd, first, second));
        }
    }
}

/// A section's or counter's name as Prometheus takes it (ceph-exporter's rule).
fn metric_name(section: &str, name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{section}_{name}").replace("::", "_").chars().map(fit).collect()
}

fn counters_text(counters: &BTreeMap<(String, String), OsdCounter>) -> String {
    let mut out = MetricsText::default();
    for ((section, name), counter) in counters {
        let name = metric_name(section, name);
        let is_average = counter.values.iter().any(|(.., count)| count.is_some());
        let kind = if counter.is_gauge { "gauge" } else { "counter" };
        let mut each = |name: &str, about: String, pick: &dyn Fn(&OsdValue) -> f64| {
            out.metric(name, kind, &about);
            for value in &counter.values {
                let daemon = format!("osd.{}", value.0);
                out.value(name, &[("ceph_daemon", &daemon)], pick(value));
            }
        };
        if is_average {
            each(&format!("{name}_sum"), format!("{} Total", counter.about), &|(_, sum, _)| *sum);
            each(&format!("{name}_count"), format!("{} Count", counter.about), &|(.., count)| {
                count.unwrap_or_default()
            });
        } else {
            each(&name, counter.about.clone(), &|(_, value, _)| *value);
        }
    }
    out.into_text()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_metrics_are_served() {
        let of = |line: &str| wanted(format!("{line}\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(of("GET /metrics HTTP/1.1"), Wanted::Metrics { with_body: true });
        assert_eq!(of("HEAD /metrics?x=1 HTTP/1.0"), Wanted::Metrics { with_body: false });
        assert_eq!(of("GET / HTTP/1.1"), Wanted::Nothing("404 Not Found"));
        assert_eq!(of("POST /metrics HTTP/1.1"), Wanted::Nothing("405 Method Not Allowed"));
        assert_eq!(of("GET /metrics HTTP/2"), Wanted::Nothing("505 HTTP Version Not Supported"));
        for bad in ["", "GET", "GET /metrics", "GET  /metrics HTTP/1.1 x", "\u{ff}"] {
            assert_eq!(of(bad), Wanted::Nothing("400 Bad Request"), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_request_without_end_is_given_up() {
        let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
        let flood = async {
            let _ = theirs.write_all(&vec![b'a'; 3 * REQUEST_MAX]).await;
        };
        let (read, ()) = tokio::join!(read_head(&mut ours), flood);
        assert!(read.is_err());
        let (mut ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        assert!(read_head(&mut ours).await.is_err(), "a peer that goes");
    }

    #[test]
    fn counters_of_several_osds_share_their_heading_and_averages_have_two_values() {
        let dump = json!({"osd": {"op": 5, "op_latency": {"avgcount": 2, "sum": 0.5, "avgtime": 0.25}}});
        let schema = json!({"osd": {
            "op": {"metric_type": "counter", "description": "Client operations"},
            "op_latency": {"metric_type": "counter", "description": "Latency"}}});
        let mut counters = BTreeMap::new();
        gather(OsdId(0), &dump, &schema, &mut counters);
        gather(OsdId(1), &dump, &schema, &mut counters);
        let text = counters_text(&counters);
        assert_eq!(text.matches("# TYPE ceph_osd_op counter\n").count(), 1, "{text}");
        assert!(text.contains("ceph_osd_op{ceph_daemon=\"osd.1\"} 5\n"), "{text}");
        assert!(text.contains("ceph_osd_op_latency_sum{ceph_daemon=\"osd.0\"} 0.5\n"), "{text}");
        assert!(text.contains("ceph_osd_op_latency_count{ceph_daemon=\"osd.0\"} 2\n"), "{text}");
        assert_eq!(metric_name("AsyncMessenger::Worker-0", "x.y"), "AsyncMessenger_Worker_0_x_y");
    }
}
