//! One socket: connecting, reading, writing.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use messenger::OutQueue;
use msgr::{Connection, ReceiveBuffer};
use rustix::event::PollFlags;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use types::{EntityAddr, UTime};

/// A socket to a daemon.
pub(crate) struct Link {
    pub(crate) target: EntityAddr,
    stream: TcpStream,
    /// Once the socket is connected.
    pub(crate) connection: Option<Connection>,
    pub(crate) out: OutQueue,
    /// When it is given up; `None` once the session is open.
    pub(crate) ready_by: Option<UTime>,
    /// Features of the open session.
    pub(crate) features: u64,
    /// Whether [`crate::Client`] has it among those to write.
    pub(crate) to_flush: bool,
}

/// What a read has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    /// As much came as was asked for.
    Full,
    /// Less came: nothing more is there now.
    Short,
    Nothing,
    End,
}

impl Link {
    /// Begins to connect.
    pub(crate) fn dial(target: EntityAddr, peer: SocketAddr, ready_by: UTime) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        runtime::unpaced(&socket, peer);
        // Without it the socket works too, with more delay.
        let _ = socket.set_tcp_nodelay(true);
        match socket.connect(&peer.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            target,
            stream: socket.into(),
            connection: None,
            out: OutQueue::default(),
            ready_by: Some(ready_by),
            features: 0,
            to_flush: false,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What to wait for.
    pub(crate) fn interest(&self) -> PollFlags {
        match (&self.connection, self.out.is_empty()) {
            (None, _) => PollFlags::OUT,
            (Some(_), true) => PollFlags::IN,
            (Some(_), false) => PollFlags::IN | PollFlags::OUT,
        }
    }

    /// The own address, once the system has connected the socket. `None`: not yet.
    pub(crate) fn connected(&self) -> io::Result<Option<SocketAddr>> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => self.stream.local_addr().map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes what the socket takes now.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut stream = &self.stream;
        self.out.write_to(|slices| stream.write_vectored(slices))
    }

    /// Reads once, where the connection wants it.
    pub(crate) fn read(&mut self, buffer: &mut ReceiveBuffer) -> io::Result<Read> {
        let Some(connection) = &mut self.connection else { return Ok(Read::Nothing) };
        let (result, asked) = {
            let mut slices = connection.read_slices(buffer, false);
            let asked: usize = slices.iter().map(|slice| slice.len()).sum();
            (rustix::io::retry_on_intr(|| rustix::io::readv(&self.stream, &mut slices)), asked)
        };
        match result {
            Ok(0) => Ok(Read::End),
            Ok(n) => {
                connection.received(buffer, n);
                Ok(if n == asked { Read::Full } else { Read::Short })
            }
            Err(Errno::AGAIN) => Ok(Read::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}
