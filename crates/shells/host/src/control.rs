//! DIR/loligo.sock: what a running process can be asked.
//!
//! A request is one of three:
//! - nothing: the process answers with its status as JSON, once the peer has written nothing for a moment or has closed
//!   its side;
//! - a line of JSON with the member `loligo`, the version of this protocol: `{"loligo": 1, "request": "status"}`, or
//!   `"stop-osd"` with `"osd": N`, or `"start-osd"` with `"osd": N` and perhaps `"replace": true` and `"confirmed": true`.
//!   The answer is a line: `{"loligo": 1, "ok": true, ...}` with `status` or `text`, or `"ok": false` and `error`;
//! - JSON that ends with a zero byte or a newline, as Ceph's programs send it to an admin socket (`ceph daemon
//!   DIR/loligo.sock COMMAND`): the monitor answers it as `ceph tell mon.a COMMAND`. The answer is its length (u32,
//!   big-endian) and the text.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use runtime::SocketPath;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use types::{Errno, OsdId};

use crate::CoreReport;
use crate::admin_socket::encode_answer;
use crate::core::Core;
use crate::mon_command::{MonAnswer, MonCommand};
use crate::osds::OsdState;
use crate::spare::Reserve;

/// The version of the requests that this build makes and takes.
pub const CONTROL_VERSION: u64 = 1;

/// How long a peer may take to write its first byte before it gets the status.
const FIRST_BYTE: Duration = Duration::from_millis(200);
/// How long a peer may take to write a request.
const WHOLE_REQUEST: Duration = Duration::from_secs(5);
/// Bytes of the longest request.
const REQUEST_MAX: usize = 64 << 10;
/// How long a peer may take to take its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that get through where the process may open no more files: some may wait for an OSD to stop or start.
const RESERVED_FILES: usize = 4;

/// What is asked of one OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OsdRequest {
    Stop(OsdId),
    Start {
        osd: OsdId,
        /// With an empty store in place of the one that it has.
        replace: bool,
        /// Also if objects are lost by that.
        confirmed: bool,
    },
}

/// How an OSD's request is answered: a sentence, or why it was refused.
pub(crate) type OsdReply = oneshot::Sender<Result<String, String>>;

/// A request as it came.
#[derive(PartialEq, Debug)]
enum Request {
    Status,
    /// The status, in an answer of this protocol.
    ControlStatus,
    Osd(OsdRequest),
    /// For the monitor, in Ceph's protocol.
    Admin(Vec<u8>),
    /// Of this protocol, and no request of it.
    Bad(String),
}

/// Serves the socket for good. One that can't be made costs `loligo status` its details, and the commands to single OSDs.
pub(crate) async fn serve(core: Rc<Core>, path: PathBuf) {
    // What a killed process left.
    let _ = std::fs::remove_file(&path);
    let listener = match SocketPath::of(&path).and_then(|at| UnixListener::bind(at.as_path())) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("{}: {error}; `loligo status` will know less", path.display()),
    };
    let reserve = Rc::new(Reserve::new(path.display().to_string(), RESERVED_FILES));
    loop {
        let (mut stream, _) = reserve.accept(&core, |cx| listener.poll_accept(cx)).await;
        let (core, reserve) = (core.clone(), reserve.clone());
        tokio::task::spawn_local(async move {
            converse(&core, &mut stream).await;
            reserve.end(stream.into_std());
        });
    }
}

async fn converse(core: &Core, stream: &mut UnixStream) {
    // A peer that is gone, or that stops in the middle of its request, gets no answer.
    let Ok(text) = read_request(stream).await else { return };
    let answer = match parse(&text) {
        Request::Status => status(core).to_string().into_bytes(),
        Request::ControlStatus => line(json!({ "ok": true, "status": status(core) })),
        Request::Bad(error) => line(json!({ "ok": false, "error": error })),
        Request::Osd(request) => match ask_osd(core, request).await {
            Ok(text) => line(json!({ "ok": true, "text": text })),
            Err(error) => line(json!({ "ok": false, "error": error })),
        },
        Request::Admin(text) => admin_answer(ask_mon(core, text).await),
    };
    let write = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    // A peer that does not take the answer loses it.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, write).await;
}

/// The bytes up to the zero byte or the newline that ends a request, that byte included; fewer where the peer closes its
/// side first.
async fn read_request(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match tokio::time::timeout(FIRST_BYTE, stream.read_buf(&mut text)).await {
        Err(_) | Ok(Ok(0)) => return Ok(text),
        Ok(read) => drop(read?),
    }
    let rest = async {
        while !text.iter().any(|byte| matches!(byte, 0 | b'\n')) && text.len() <= REQUEST_MAX {
            if stream.read_buf(&mut text).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    tokio::time::timeout(WHOLE_REQUEST, rest).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
    Ok(text)
}

fn parse(text: &[u8]) -> Request {
    if text.is_empty() {
        return Request::Status;
    }
    let end = text.iter().position(|byte| matches!(byte, 0 | b'\n')).unwrap_or(text.len());
    let text = &text[..end];
    let Ok(json) = serde_json::from_slice::<Value>(text) else { return Request::Admin(text.to_vec()) };
    match json.get("loligo").map(Value::as_u64) {
        None => Request::Admin(text.to_vec()),
        Some(Some(CONTROL_VERSION)) => parse_control(&json),
        Some(_) => {
            let version = &json["loligo"];
            Request::Bad(format!("version {version} of a request is not known here; {CONTROL_VERSION} is"))
        }
    }
}

fn parse_control(json: &Value) -> Request {
    let osd = json["osd"].as_i64().and_then(|osd| i32::try_from(osd).ok()).map(OsdId);
    let flag = |name: &str| json[name].as_bool().unwrap_or(false);
    match (json["request"].as_str(), osd) {
        (Some("status"), _) => Request::ControlStatus,
        (Some("stop-osd"), Some(osd)) => Request::Osd(OsdRequest::Stop(osd)),
        (Some("start-osd"), Some(osd)) => {
            let (replace, confirmed) = (flag("replace"), flag("confirmed"));
            Request::Osd(OsdRequest::Start { osd, replace, confirmed })
        }
        (Some("stop-osd" | "start-osd"), None) => Request::Bad("the request names no OSD".into()),
        (Some(other), _) => Request::Bad(format!("'{other}' is not a request that this process knows")),
        (None, _) => Request::Bad("the request has no member 'request'".into()),
    }
}

fn line(mut answer: Value) -> Vec<u8> {
    answer["loligo"] = CONTROL_VERSION.into();
    (answer.to_string() + "\n").into_bytes()
}

fn status(core: &Core) -> Value {
    let node = core.node();
    // The socket is served where the monitor is.
    let Some(mon) = node.mon() else { return Value::Null };
    let map = mon.osdmap();
    let osds_up = map.existing_osds().filter(|(_, osd)| osd.is_up()).count();
    let health = mon.health(core.shared.clock.now());
    let (mut osds, mut failed) = (serde_json::Map::new(), serde_json::Map::new());
    for (osd, state) in &*core.shared.osds() {
        let mut shown = json!({ "state": state.name() });
        if let OsdState::Failed(reason) = state {
            shown["reason"] = reason.as_str().into();
            failed.insert(osd.to_string(), reason.as_str().into());
        }
        osds.insert(osd.to_string(), shown);
    }
    json!({
        "epoch": map.epoch.0, "osds_up": osds_up, "health": health.status().name(), "checks": health.summaries(),
        "osds": osds, "failed_osds": failed,
    })
}

/// Has the main thread do it: it may take as long as an OSD needs.
async fn ask_osd(core: &Core, request: OsdRequest) -> Result<String, String> {
    let (reply, answer) = oneshot::channel();
    core.report(CoreReport::Asked(request, reply));
    answer.await.unwrap_or_else(|_| Err("the process is ending, and its OSDs with it".into()))
}

async fn ask_mon(core: &Core, text: Vec<u8>) -> MonAnswer {
    let (reply, answer) = oneshot::channel();
    // The peer may be gone by the time of the answer.
    core.command_mon(MonCommand::Tell(text), Box::new(move |answer| drop(reply.send(answer))));
    let ends =
        |_| MonAnswer { result: Errno::EIO.code(), status: "the process is ending".into(), data: vec![] };
    answer.await.unwrap_or_else(ends)
}

fn admin_answer(answer: MonAnswer) -> Vec<u8> {
    let MonAnswer { result, status, data } = answer;
    encode_answer(match (result, data.is_empty()) {
        (0, false) => Ok(data),
        (0, true) => Ok(status.into_bytes()),
        (code, _) => Err((code, status)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(text: &str) -> String {
        match parse(text.as_bytes()) {
            Request::Bad(why) => why,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(parse(b""), Request::Status);
        assert_eq!(parse(b"{\"loligo\":1,\"request\":\"status\"}\n"), Request::ControlStatus);
        let stop = OsdRequest::Stop(OsdId(2));
        assert_eq!(parse(br#"{"loligo":1,"request":"stop-osd","osd":2}"#), Request::Osd(stop));
        let start = OsdRequest::Start { osd: OsdId(0), replace: true, confirmed: false };
        let text = br#"{"loligo":1,"request":"start-osd","osd":0,"replace":true}"#;
        assert_eq!(parse(text), Request::Osd(start));
        let admin = br#"{"prefix":"version"}"#;
        assert_eq!(parse(&[admin.as_slice(), b"\0"].concat()), Request::Admin(admin.to_vec()));
        // The oldest form of Ceph's: it names a version of the protocol.
        assert_eq!(parse(b"0\0"), Request::Admin(b"0".to_vec()));
    }

    #[test]
    fn requests_that_cannot_be_served_say_why() {
        assert!(bad(r#"{"loligo":2,"request":"status"}"#).contains("version 2"));
        assert!(bad(r#"{"loligo":"x"}"#).contains("not known here"));
        assert!(bad(r#"{"loligo":1}"#).contains("'request'"));
        assert!(bad(r#"{"loligo":1,"request":"stop-osd"}"#).contains("no OSD"));
        assert!(bad(r#"{"loligo":1,"request":"stop-osd","osd":99999999999}"#).contains("no OSD"));
        assert!(bad(r#"{"loligo":1,"request":"fly"}"#).contains("'fly'"));
    }

    #[test]
    fn an_admin_socket_s_answer_has_its_length_before_it() {
        let answer = |result, status: &str, data: &str| {
            admin_answer(MonAnswer { result, status: status.into(), data: data.into() })
        };
        assert_eq!(answer(0, "", "ab"), b"\0\0\0\x02ab");
        assert_eq!(answer(0, "done", ""), b"\0\0\0\x04done");
        assert_eq!(&answer(-22, "no", "")[4..], b"ERROR: (22) no\n");
    }
}
