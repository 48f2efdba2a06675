//! A file kept open for the moment when the process may open no more: without one, the process could not see
//! whether a connection waits.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

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
