//! One socket of the messenger's: the task that connects it, reads it and writes it.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use messenger::{Event, OutQueue, SocketId};
use tokio::io::Interest;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};

use crate::core::Core;

/// Reads of one wake-up, so that one busy peer cannot hold a core.
const READS_MAX: usize = 16;

/// How long a peer gets to take the last bytes.
const LINGER: Duration = Duration::from_secs(1);

async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    runtime::unpaced(&socket, addr);
    socket.connect(addr).await
}

/// Wakes one task of the same thread.
#[derive(Default)]
pub(crate) struct Wake {
    woken: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    pub(crate) fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether it was woken since the last time; if not, the task is woken when it is.
    fn poll(&self, cx: &mut Context<'_>) -> bool {
        let woken = self.woken.take();
        if !woken {
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|has| has.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        woken
    }

    pub(crate) async fn wait(&self) {
        poll_fn(|cx| if self.poll(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// A socket. Lives on its core.
pub(crate) struct Link {
    id: SocketId,
    /// Once it is connected.
    write: OnceCell<OwnedWriteHalf>,
    /// What was left to write when the messenger closed the socket.
    closed: RefCell<Option<OutQueue>>,
    /// Wakes the task when something changed that the socket does not show.
    pub(crate) wake: Wake,
}

impl Link {
    pub(crate) fn new(id: SocketId) -> Self {
        Self { id, write: OnceCell::new(), closed: RefCell::default(), wake: Wake::default() }
    }

    /// Takes the socket; its read half belongs to [`Link::serve`].
    pub(crate) fn connected(&self, stream: TcpStream) -> OwnedReadHalf {
        // Without it the socket works too, with more delay.
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        // The one call of a link's life.
        let _ = self.write.set(write);
        read
    }

    /// The messenger closed the socket with these bytes left to write.
    pub(crate) fn close(&self, rest: OutQueue) {
        *self.closed.borrow_mut() = Some(rest);
        self.wake.wake();
    }

    fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    async fn closed(&self) {
        while !self.is_closed() {
            self.wake.wait().await;
        }
    }

    /// The task of a socket to be connected.
    pub(crate) async fn dial(self: Rc<Self>, core: Rc<Core>, addr: SocketAddr) {
        let connecting = connect(addr);
        let result = tokio::select! {
            result = connecting => result,
            () = self.closed() => return,
        };
        let event = match result {
            Ok(stream) => {
                let read = self.connected(stream);
                tokio::task::spawn_local(self.clone().serve(core.clone(), read));
                Event::Connected(self.id)
            }
            Err(error) => Event::Failed(self.id, error.to_string()),
        };
        core.handle_socket(core.now(), event);
        core.settle();
    }

    /// The task of a connected socket: reads and writes until the messenger closes it, then writes what is left.
    pub(crate) async fn serve(self: Rc<Self>, core: Rc<Core>, read: OwnedReadHalf) {
        poll_fn(|cx| self.poll_serve(&core, &read, cx)).await;
        let rest = self.closed.take();
        if let (Some(rest), Some(write)) = (rest, self.write.get()) {
            // The peer need not take it.
            let _ = tokio::time::timeout(LINGER, goodbye(rest, write)).await;
        }
    }

    fn poll_serve(&self, core: &Core, read: &OwnedReadHalf, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_MAX {
            // Whatever woke the task, all is looked at.
            while self.wake.poll(cx) {}
            if self.is_closed() {
                return Poll::Ready(());
            }
            let wrote = self.poll_write(core, cx);
            let did_read = self.poll_read(core, read, cx);
            // To make room for what is read, the messenger may have ended others.
            if !wrote && !did_read && !core.messenger().has_effects() {
                return Poll::Pending;
            }
            core.settle();
        }
        // Others of this core have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the socket took bytes or failed.
    fn poll_write(&self, core: &Core, cx: &mut Context<'_>) -> bool {
        let wanted = core.messenger().interest(self.id).is_some_and(|interest| interest.write);
        let Some(write) = self.write.get().filter(|_| wanted) else { return false };
        match write.as_ref().poll_write_ready(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => self.flush(core),
            Poll::Ready(Err(error)) => self.failed(core, &format!("socket: {error}")),
        }
        true
    }

    /// Writes what the socket takes now.
    pub(crate) fn flush(&self, core: &Core) {
        // Before the socket is connected there is nothing to write to.
        let Some(write) = self.write.get() else { return };
        let result = match core.messenger().out_queue(self.id) {
            Some(out) => out.write_to(|slices| write.try_write_vectored(slices)).map(|()| out.is_empty()),
            // Closed since.
            None => return,
        };
        core.messenger().wrote(self.id);
        match result {
            Ok(true) => {}
            // The task must now wait for the socket to take more.
            Ok(false) => self.wake.wake(),
            Err(error) => self.failed(core, &format!("write: {error}")),
        }
    }

    fn failed(&self, core: &Core, reason: &str) {
        core.handle_socket(core.now(), Event::Failed(self.id, reason.to_owned()));
    }

    /// Reads once, where the messenger wants it. Whether something came of it.
    fn poll_read(&self, core: &Core, read: &OwnedReadHalf, cx: &mut Context<'_>) -> bool {
        let now = core.now();
        let result = match read.as_ref().poll_read_ready(cx) {
            Poll::Pending => return false,
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => match core.messenger().read_slices(now, self.id) {
                Some(mut slices) => try_read(read.as_ref(), &mut slices),
                None => return false,
            },
        };
        let event = match result {
            Ok(0) => Event::EndOfStream(self.id),
            Ok(n) => Event::Read(self.id, n),
            // Nothing was there. Looking again has the task woken when something is.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) => Event::Failed(self.id, format!("read: {error}")),
        };
        core.handle_socket(now, event);
        true
    }
}

/// Reads once. A read that brings less than was asked for shows that the socket is empty: its readiness is taken back, as
/// if the system had been asked again and had said so.
fn try_read(stream: &TcpStream, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let asked: usize = slices.iter().map(|slice| slice.len()).sum();
    let mut short = None;
    let result = stream.try_io(Interest::READABLE, || {
        match rustix::io::retry_on_intr(|| rustix::io::readv(stream, slices))? {
            n if 0 < n && n < asked => {
                short = Some(n);
                Err(io::ErrorKind::WouldBlock.into())
            }
            n => Ok(n),
        }
    });
    short.map_or(result, Ok)
}

/// Gives the last bytes (a refusal, a reset) a moment to go out.
async fn goodbye(mut rest: OutQueue, write: &OwnedWriteHalf) {
    while !rest.is_empty() && write.writable().await.is_ok() {
        if rest.write_to(|slices| write.try_write_vectored(slices)).is_err() {
            // The peer is gone.
            return;
        }
    }
}
