//! A client and what may listen where it seeks its monitor. (Clusters that serve it: tests/live/test_bench.py.)

#![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{AuthError, AuthStep, METHOD_CEPHX, MODE_CRC, ServerMethod};
use client::{Client, ClientConfig, ClientEvent};
use monclient::MonClientConfig;
use msgr::{Accept, Connection, Effect, Limits, Local};
use objecter::ObjecterConfig;
use runtime::Clock;
use types::{EntityAddr, EntityType, Errno, Profile};

/// A bound on what must come; no verdict.
const BOUND: Duration = Duration::from_secs(120);

fn seeking(monitor: SocketAddr) -> Client {
    let monitors = MonClientConfig::new(vec![EntityAddr::v2(monitor, 0).into()], None);
    let config = ClientConfig::new(ObjecterConfig::new(monitors, Profile::PACIFIC));
    Client::start(config, Clock::start()).unwrap()
}

/// The first thing that the client warns of.
fn warning(mut client: Client) -> String {
    let end = client.now().after(BOUND);
    let mut events = Vec::new();
    while client.now() < end {
        client.turn(Some(end), &mut events).unwrap();
        for event in events.drain(..) {
            if let ClientEvent::Warning(text) = event {
                return text;
            }
        }
    }
    panic!("no warning within {BOUND:?}");
}

/// Accepts a connection on a thread of its own.
fn serve(with: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || with(listener.accept().unwrap().0));
    addr
}

#[test]
fn a_port_that_nothing_listens_on_is_named_with_the_systems_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let said = warning(seeking(addr));
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn a_peer_that_speaks_another_protocol_is_left() {
    let addr = serve(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 1000]);
    });
    let said = warning(seeking(addr));
    assert!(said.contains("not a messenger 2 peer"), "{said}");
}

#[test]
fn a_peer_that_closes_at_once_is_left() {
    let said = warning(seeking(serve(drop)));
    assert!(said.contains("closed the connection") || said.contains("reset"), "{said}");
}

/// A monitor that wants keys.
struct OnlyCephx;

impl ServerMethod for OnlyCephx {
    fn start(&mut self, _: u32, _: &[u32], _: &[u8]) -> Result<AuthStep, AuthError> {
        let (methods, modes) = (vec![METHOD_CEPHX], vec![MODE_CRC]);
        Ok(AuthStep::Bad { result: Errno::EOPNOTSUPP.code(), methods, modes })
    }

    fn more(&mut self, _: &[u8]) -> Result<AuthStep, AuthError> {
        Err(AuthError::OutOfTurn("nothing was begun"))
    }

    fn global_id(&mut self, _: u64) -> Result<AuthStep, AuthError> {
        Err(AuthError::OutOfTurn("nothing was begun"))
    }
}

/// Serves a connection until its peer has gone.
fn talk(mut stream: TcpStream) {
    let own = EntityAddr::v2(stream.local_addr().unwrap(), 0);
    let peer = EntityAddr::v2(stream.peer_addr().unwrap(), 0);
    let local = Local {
        kind: EntityType::Mon,
        num: 0,
        addrs: own.into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    };
    let accept = Accept { peer, method: Box::new(OnlyCephx), global_seq: 1 };
    let mut connection = Connection::accept(Arc::new(local), accept);
    let mut bytes = [0; 4096];
    loop {
        while let Some(effect) = connection.poll() {
            if let Effect::Write(rope) = effect {
                stream.write_all(&rope.to_vec()).unwrap();
            }
        }
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(n) => connection.feed(&bytes[..n]),
        }
    }
}

#[test]
fn a_cluster_with_cephx_is_told_from_one_that_is_broken() {
    let said = warning(seeking(serve(talk)));
    assert!(said.contains("it requires cephx, and this client has no key for client.admin"), "{said}");
}

#[test]
fn a_turn_waits_as_long_as_asked_and_no_less() {
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = seeking(listener.local_addr().unwrap());
    let mut events = Vec::new();
    // The socket's being connected ends the first turns early.
    let end = Instant::now() + Duration::from_millis(50);
    while Instant::now() < end {
        let until = client.now().after(Duration::from_millis(5));
        client.turn(Some(until), &mut events).unwrap();
    }
    let until = client.now().after(Duration::from_micros(1500));
    client.turn(Some(until), &mut events).unwrap();
    assert!(client.now() >= until, "it returned early");
    assert!(events.is_empty(), "{events:?}");
}
