//! One socket: its connection's state, the bytes that wait, and the task that moves them.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use auth::SessionId;
use monclient::Attempt;
use msgr::Connection;
use runtime::OutQueue;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use types::OsdId;

use crate::core::Core;

/// Bytes that may wait for a peer before its requests are no longer read.
const OUT_BYTES_MAX: usize = 64 << 20;

/// Reads of one wake-up, so that one busy peer cannot hold a core.
const READS_MAX: usize = 16;

/// How long a socket is left alone when the memory for unfinished messages is spent.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(2);

/// How long a peer that goes is waited for to take what was written.
const LINGER: Duration = Duration::from_secs(1);

/// Whose socket it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A peer of the monitor.
    Mon,
    /// A peer of an OSD.
    Osd(OsdId),
    /// An OSD's own session to the monitor.
    Dial(OsdId, Attempt),
}

/// A socket and all that belongs to it. Lives on its core.
pub(crate) struct Link {
    pub(crate) id: SessionId,
    pub(crate) owner: Owner,
    pub(crate) peer: SocketAddr,
    pub(crate) stream: TcpStream,
    pub(crate) connection: RefCell<Connection>,
    pub(crate) out: RefCell<OutQueue>,
    /// Features of the open session.
    pub(crate) features: Cell<u64>,
    /// Whether the daemon was told of the session.
    pub(crate) open: Cell<bool>,
    /// Whether the daemon asked not to read.
    pub(crate) paused: Cell<bool>,
    /// Why it ended, once it has.
    pub(crate) ended: RefCell<Option<String>>,
    /// Bytes held of an unfinished message, as last counted.
    pub(crate) held: Cell<usize>,
    /// Whether it waits for memory, with bytes to read perhaps: that is no stalling of the peer's.
    pub(crate) waiting: Cell<bool>,
    /// When bytes came last.
    pub(crate) progress: Cell<Instant>,
    /// Whether it stands in the core's list of those to settle.
    pub(crate) dirty: Cell<bool>,
    /// Wakes the task when something changed that the socket does not tell.
    pub(crate) wake: Notify,
}

/// The reason that is everyday: a session's peer is done.
pub(crate) const PEER_CLOSED: &str = "the peer closed the connection";

impl Link {
    pub(crate) fn new(
        id: SessionId,
        owner: Owner,
        peer: SocketAddr,
        stream: TcpStream,
        connection: Connection,
    ) -> Rc<Self> {
        Rc::new(Self {
            id,
            owner,
            peer,
            stream,
            connection: RefCell::new(connection),
            out: RefCell::default(),
            features: Cell::new(0),
            open: Cell::new(false),
            paused: Cell::new(false),
            ended: RefCell::default(),
            held: Cell::new(0),
            waiting: Cell::new(false),
            progress: Cell::new(Instant::now()),
            dirty: Cell::new(false),
            wake: Notify::new(),
        })
    }

    /// Ends the link; the first reason given is the one that counts.
    pub(crate) fn end(&self, reason: impl Into<String>) {
        let mut ended = self.ended.borrow_mut();
        if ended.is_none() {
            *ended = Some(reason.into());
            self.wake.notify_one();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Writes what the socket takes now.
    pub(crate) fn flush(&self) {
        let result = self.out.borrow_mut().write_to(|slices| self.stream.try_write_vectored(slices));
        match result {
            Err(error) => self.end(format!("write: {error}")),
            // The task must now wait for the socket to take more.
            Ok(()) if !self.out.borrow().is_empty() => self.wake.notify_one(),
            Ok(()) => {}
        }
    }

    fn interest(&self) -> Option<Interest> {
        let waiting = self.out.borrow().bytes();
        let read = !self.paused.get() && waiting < OUT_BYTES_MAX;
        match (read, waiting > 0) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        }
    }

    /// One read: straight into a large segment, or through the core's scratch buffer. `Ok(false)`: nothing there now.
    fn read_once(&self, scratch: &mut [u8]) -> io::Result<bool> {
        let mut connection = self.connection.borrow_mut();
        let direct = connection.segment_tail().map(|tail| self.stream.try_read(tail));
        let result = match direct {
            Some(result) => result.inspect(|&n| connection.advance(n)),
            None => self.stream.try_read(scratch).inspect(|&n| connection.feed(&scratch[..n])),
        };
        match result {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads what is there, within a turn's share.
    fn read(self: &Rc<Self>, core: &Core) {
        for _ in 0..READS_MAX {
            if core.short_of_memory(self) {
                break;
            }
            let read = self.read_once(&mut core.scratch.borrow_mut()[..core.scratch_len()]);
            match read {
                Ok(true) => self.progress.set(Instant::now()),
                Ok(false) => break,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let connection = self.connection.borrow();
                    self.end(match (connection.held_bytes(), connection.announced_bytes()) {
                        (0, 0) => PEER_CLOSED.to_owned(),
                        _ => format!("{PEER_CLOSED} in the middle of a frame"),
                    });
                    break;
                }
                Err(error) => {
                    self.end(format!("read: {error}"));
                    break;
                }
            }
            core.settle_one(self);
            if self.has_ended() || self.paused.get() {
                break;
            }
        }
    }

    /// The link's task: runs until it has ended, then takes it off the core.
    pub(crate) async fn drive(self: Rc<Self>, core: Rc<Core>, ready_timeout: Duration) {
        let began = tokio::time::Instant::now();
        core.mark_dirty(&self);
        core.settle();
        while !self.has_ended() {
            if self.waiting.get() && core.short_of_memory(&self) {
                tokio::time::sleep(SHORT_OF_MEMORY).await;
                continue;
            }
            tokio::select! {
                ready = self.ready() => match ready {
                    Ok(ready) => {
                        if ready.is_readable() || ready.is_read_closed() {
                            self.read(&core);
                        }
                        if ready.is_writable() {
                            self.flush();
                        }
                        core.settle();
                    }
                    Err(error) => self.end(format!("socket: {error}")),
                },
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(began + ready_timeout), if !self.open.get() => {
                    if !self.open.get() {
                        self.end(format!("no session within {} s", ready_timeout.as_secs_f64()));
                    }
                }
            }
        }
        core.detach(&self);
        self.flush_and_close().await;
    }

    async fn ready(&self) -> io::Result<tokio::io::Ready> {
        match self.interest() {
            Some(interest) => self.stream.ready(interest).await,
            None => std::future::pending().await,
        }
    }

    /// Gives the last bytes (a refusal, a reset) a moment to go out.
    async fn flush_and_close(&self) {
        let goodbye = async {
            while !self.out.borrow().is_empty() && self.stream.writable().await.is_ok() {
                let result = self.out.borrow_mut().write_to(|s| self.stream.try_write_vectored(s));
                if result.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, goodbye).await;
    }
}
