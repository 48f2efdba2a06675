//! Listening sockets, what the process's sockets have in common, and its file limit.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockRef, Socket, Type};

/// Binds a listener (nonblocking, address reuse on, so that a restart need not wait for old connections to fade).
/// Port 0 takes a free one.
pub fn bind(addr: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Connections that are accepted have it from the beginning.
    unpaced(&socket, addr);
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Has the system send at once what goes from this machine to itself. Where BBR is its choice it paces each connection with timers,
/// which is a quarter of the processor time of large reads, and of no use where nothing lies between. Must be called before the
/// socket is connected, or listens: what BBR began stays paced.
pub fn unpaced(socket: &impl AsFd, addr: SocketAddr) {
    if addr.ip().is_loopback() {
        // Every system has Reno. Without it the socket works too, with more processor time.
        let _ = SockRef::from(socket).set_tcp_congestion(b"reno");
    }
}

/// Raises the soft limit of open files to the hard one and answers it: a connection is a file.
///
/// # Errors
/// The system refuses: the limit in force, and why.
pub fn raise_file_limit() -> Result<u64, (u64, io::Error)> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if number(current) < number(maximum) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        raised.map_err(|error| (number(current), error.into()))?;
    }
    Ok(number(maximum))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn congestion(socket: &impl AsFd) -> String {
        let name = SockRef::from(socket).tcp_congestion().unwrap();
        name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
    }

    #[test]
    fn what_is_accepted_on_a_loopback_address_is_not_paced() {
        let listener = bind("127.0.0.1:0".parse().unwrap(), 5).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = loop {
            match listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                accepted => break accepted.unwrap(),
            }
        };
        assert_eq!(congestion(&accepted), "reno");
        let default = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let others = bind("0.0.0.0:0".parse().unwrap(), 5).unwrap();
        assert_eq!(congestion(&others), congestion(&default), "the system's choice");
    }
}
