//! Admin sockets, DIR/osd.N.asok: what `ceph daemon PATH COMMAND` asks an OSD.
//!
//! Ceph's protocol: a request is JSON that ends with a zero byte; the answer is its length (u32, big-endian) and the text.
//! A connection has one request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use node::{AdminAnswer, NodeEvent};
use osd::OsdEvent;
use runtime::SocketPath;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use types::{Errno, OsdId};

use crate::core::Core;
use crate::spare::Reserve;

/// Bytes of the longest request. The OSD has a limit of its own, with a sentence.
const REQUEST_MAX: usize = 1 << 20;
/// How long a peer may take to write its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a peer may take to take its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that get through where the process may open no more files.
const RESERVED_FILES: usize = 1;

/// The admin sockets of a core's OSDs.
#[derive(Default)]
pub(crate) struct AdminSockets {
    served: RefCell<BTreeMap<OsdId, (PathBuf, JoinHandle<()>)>>,
    /// Commands that are not answered, by their numbers.
    waiting: RefCell<BTreeMap<u64, (OsdId, oneshot::Sender<AdminAnswer>)>>,
    last: Cell<u64>,
}

impl AdminSockets {
    /// An OSD has ended: its socket goes, and what is not answered gets an error.
    pub(crate) fn end(&self, osd: OsdId) {
        if let Some((path, task)) = self.served.borrow_mut().remove(&osd) {
            task.abort();
            remove(&path);
        }
        self.waiting.borrow_mut().retain(|_, (of, _)| *of != osd);
    }

    /// The process ends.
    pub(crate) fn end_all(&self) {
        let all: Vec<OsdId> = self.served.borrow().keys().copied().collect();
        all.into_iter().for_each(|osd| self.end(osd));
    }
}

impl Core {
    /// Serves an OSD's admin socket until the OSD ends. One that can't be made costs only `ceph daemon`.
    pub(crate) fn serve_admin_socket(self: &Rc<Self>, osd: OsdId, path: PathBuf) {
        // What a killed process left.
        remove(&path);
        let listener = match SocketPath::of(&path).and_then(|at| UnixListener::bind(at.as_path())) {
            Ok(listener) => listener,
            Err(error) => {
                return tracing::warn!("osd.{osd}: no admin socket {}: {error}", path.display());
            }
        };
        let task = tokio::task::spawn_local(serve(self.clone(), osd, listener));
        self.admin.served.borrow_mut().insert(osd, (path, task));
    }

    /// An OSD answers a command.
    pub(crate) fn admin_answer(&self, osd: OsdId, id: u64, answer: AdminAnswer) {
        match self.admin.waiting.borrow_mut().remove(&id) {
            // A peer that is gone needs no answer.
            Some((_, waiting)) => drop(waiting.send(answer)),
            None => tracing::debug!("osd.{osd} answers a command that nobody waits for"),
        }
    }

    async fn ask_osd(&self, osd: OsdId, command: Vec<u8>) -> AdminAnswer {
        let (sender, answer) = oneshot::channel();
        let id = self.admin.last.get() + 1;
        self.admin.last.set(id);
        self.admin.waiting.borrow_mut().insert(id, (osd, sender));
        self.dispatch(NodeEvent::Osd(osd, OsdEvent::AdminCommand { id, command }));
        answer.await.unwrap_or_else(|_| Err((Errno::ESHUTDOWN, "the OSD has ended".into())))
    }
}

fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("{}: {error}", path.display()),
    }
}

async fn serve(core: Rc<Core>, osd: OsdId, listener: UnixListener) {
    let reserve = Rc::new(Reserve::new(format!("osd.{osd}: admin socket"), RESERVED_FILES));
    loop {
        let (mut stream, _) = reserve.accept(&core, |cx| listener.poll_accept(cx)).await;
        let (core, reserve) = (core.clone(), reserve.clone());
        tokio::task::spawn_local(async move {
            converse(&core, osd, &mut stream).await;
            reserve.end(stream.into_std());
        });
    }
}

async fn converse(core: &Core, osd: OsdId, stream: &mut UnixStream) {
    let request = tokio::time::timeout(REQUEST_TIMEOUT, read_request(stream)).await;
    // A peer that is gone, or stops in the middle of its request, gets no answer.
    let Ok(Ok(request)) = request else { return };
    let answer = core.ask_osd(osd, request).await;
    let answer = encode_answer(answer.map_err(|(errno, why)| (errno.code(), why)));
    // A peer that does not take the answer loses it.
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, stream.write_all(&answer)).await;
}

/// The bytes before the zero byte or the newline that ends a request.
async fn read_request(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        if let Some(end) = text.iter().position(|byte| matches!(byte, 0 | b'\n')) {
            text.truncate(end);
            return Ok(text);
        }
        if text.len() > REQUEST_MAX || stream.read_buf(&mut text).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// An answer with its length before it. A refusal, whose number is negative, is a text, too: `ceph daemon` shows it.
pub(crate) fn encode_answer(answer: Result<Vec<u8>, (i32, String)>) -> Vec<u8> {
    let text =
        answer.unwrap_or_else(|(code, sentence)| format!("ERROR: ({}) {sentence}\n", -code).into_bytes());
    let mut out = (text.len() as u32).to_be_bytes().to_vec();
    out.extend(text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_length_before_it_and_a_refusal_is_a_text() {
        assert_eq!(encode_answer(Ok(b"{}\n".to_vec())), b"\0\0\0\x03{}\n");
        let refused = encode_answer(Err((Errno::EINVAL.code(), "no such command".into())));
        assert_eq!(refused[..4], (refused.len() as u32 - 4).to_be_bytes());
        assert_eq!(&refused[4..], b"ERROR: (22) no such command\n");
    }

    #[tokio::test]
    async fn a_request_ends_with_a_zero_byte_however_it_comes() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let text = async {
            for part in [&b"{\"prefix\":"[..], b"\"version\"}\0rest"] {
                theirs.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (read, ()) = tokio::join!(read_request(&mut ours), text);
        assert_eq!(read.unwrap(), b"{\"prefix\":\"version\"}");
        drop(theirs);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(read_request(&mut ours).await.is_err(), "a peer that goes without a request");
    }

    /// What `ceph daemon PATH` gets for a command.
    fn ask(path: &Path, command: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        stream.write_all(b"\0").unwrap();
        let (mut len, mut text) = ([0; 4], String::new());
        stream.read_exact(&mut len).unwrap();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), u32::from_be_bytes(len) as usize);
        text
    }

    #[test]
    fn each_osd_answers_at_its_socket_until_the_cluster_stops() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("c");
        let settings = vec![("mon_data_avail_warn".to_owned(), "0".to_owned())];
        let request = crate::UpRequest {
            dir: dir.clone(),
            osds: Some(2),
            store: Some(crate::StoreKind::Mem),
            osd_size: Some(64 << 20),
            port: Some(0),
            cores: Some(2),
            settings,
            ..crate::UpRequest::default()
        };
        let started = crate::Cluster::start(request).unwrap();
        let cluster = started.ready(Duration::from_secs(60)).unwrap();
        for osd in 0..2 {
            let path = dir.join(format!("osd.{osd}.asok"));
            let status: serde_json::Value =
                serde_json::from_str(&ask(&path, r#"{"prefix":"status"}"#)).unwrap();
            assert_eq!((&status["whoami"], &status["state"]), (&osd.into(), &"active".into()));
            let refused = ask(&path, r#"{"prefix":"dump"}"#);
            assert!(refused.starts_with("ERROR: (22) unknown command 'dump'"), "{refused}");
            assert!(ask(&path, "no json").starts_with("ERROR: (22)"));
        }
        cluster.stop().unwrap();
        assert!(!dir.join("osd.0.asok").exists());
    }
}
