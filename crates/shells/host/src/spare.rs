//! Files kept open for the moment when the process may open no more: without one, the process could not see
//! whether a connection waits. A core has one for all its clients ([`SpareFile`]), of whom one ends for each that comes; the listeners
//! that an operator needs have files of their own ([`Reserve`]), and no client ends for their connections.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::io::{DupFlags, Errno, dup3};
use tokio::net::{TcpListener, TcpStream};

use crate::core::Core;

/// How often a log line says that connections can't be accepted.
pub(crate) const ACCEPT_WARNED_EVERY: Duration = Duration::from_secs(10);
/// How long to wait when a connection cannot be accepted, or another had to end for it: clients that connect again at once must not
/// keep a core busy with each other.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Whether an error says that no more files may be opened, by this process or at all.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The file, while it is open.
pub(crate) struct SpareFile(Option<File>);

impl SpareFile {
    pub(crate) fn open() -> Self {
        let mut spare = Self(None);
        spare.restore();
        spare
    }

    /// Opens it again, if that is possible by now.
    pub(crate) fn restore(&mut self) {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Takes a connection that waits in place of the file; `None` if none waits, or the file is not open.
    pub(crate) fn accept(
        &mut self,
        listener: &TcpListener,
        cx: &mut Context<'_>,
    ) -> Option<(TcpStream, SocketAddr)> {
        drop(self.0.take()?);
        match listener.poll_accept(cx) {
            Poll::Ready(Ok(accepted)) => Some(accepted),
            Poll::Ready(Err(_)) | Poll::Pending => {
                self.restore();
                None
            }
        }
    }
}

/// What a connection that ends becomes.
static NULL: LazyLock<Option<File>> = LazyLock::new(|| File::open("/dev/null").ok());

/// The files of one listener.
pub(crate) struct Reserve {
    /// Whose connections it is for.
    name: String,
    wanted: usize,
    files: RefCell<Vec<File>>,
    warned: Cell<Option<Instant>>,
}

impl Reserve {
    pub(crate) fn new(name: String, wanted: usize) -> Self {
        let reserve = Self { name, wanted, files: RefCell::default(), warned: Cell::new(None) };
        reserve.restore();
        reserve
    }

    /// Opens those that are missing, as far as that is possible by now.
    fn restore(&self) {
        let mut files = self.files.borrow_mut();
        while files.len() < self.wanted
            && let Some(file) = NULL.as_ref().and_then(|null| null.try_clone().ok())
        {
            files.push(file);
        }
    }

    /// Waits for the listener's next connection, which takes the place of a file if need be. Where those are gone, and stay so, a client
    /// that can be spared ends.
    pub(crate) async fn accept<T>(
        &self,
        core: &Core,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> T {
        let mut has_waited = false;
        loop {
            match poll_fn(|cx| self.poll_accept(cx, &mut poll)).await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if self.warned.get().is_none_or(|at| at.elapsed() >= ACCEPT_WARNED_EVERY) {
                        self.warned.set(Some(Instant::now()));
                        tracing::warn!("{}: accept: {error}; new connections wait", self.name);
                    }
                    if has_waited && is_out_of_files(&error) {
                        core.make_room();
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    has_waited = true;
                    self.restore();
                }
            }
        }
    }

    fn poll_accept<T>(
        &self,
        cx: &mut Context<'_>,
        poll: &mut impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = poll(cx);
        let has_failed = matches!(&polled, Poll::Ready(Err(error)) if is_out_of_files(error));
        if !has_failed || self.files.borrow_mut().pop().is_none() {
            return polled;
        }
        let again = poll(cx);
        if !matches!(again, Poll::Ready(Ok(_))) {
            // None waits: the system says that only where a file may be opened.
            self.restore();
        }
        again
    }

    /// Opens something for a connection, in place of files if need be.
    pub(crate) async fn open<T, F: Future<Output = io::Result<T>>>(
        &self,
        open: impl Fn() -> F,
    ) -> io::Result<T> {
        loop {
            match open().await {
                Err(error) if is_out_of_files(&error) && self.files.borrow_mut().pop().is_some() => {}
                done => return done,
            }
        }
    }

    /// Ends a connection. Where a file is missing it becomes one: no other connection may come in between.
    pub(crate) fn end<S: Into<OwnedFd>>(&self, stream: io::Result<S>) {
        let is_short = self.files.borrow().len() < self.wanted;
        if let (true, Ok(stream), Some(null)) = (is_short, stream, &*NULL) {
            let mut file = stream.into();
            if dup3(null, &mut file, DupFlags::CLOEXEC).is_ok() {
                self.files.borrow_mut().push(file.into());
            }
        }
        self.restore();
    }
}
