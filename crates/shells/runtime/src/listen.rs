//! Listening sockets and the process's file limit.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

/// Binds a listener (nonblocking, address reuse on, so that a restart need not wait for old connections to fade).
/// Port 0 takes a free one.
pub fn bind(addr: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Raises the soft limit of open files to the hard one and answers it: a connection is a file.
pub fn raise_file_limit() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum || maximum.is_none() {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}
