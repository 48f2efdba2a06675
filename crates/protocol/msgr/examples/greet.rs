//! Listens on an address as a monitor of method none and prints what a stock client does up to its first messages:
//! `cargo run -p msgr --example greet -- 127.0.0.1:22000`, then `ceph -m v2:127.0.0.1:22000 --connect-timeout 5 -s`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it is a shell")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use auth::{ServerNone, Service};
use msgr::{Accept, Connection, Effect, Limits, Local, ReceiveBuffer};
use types::{EntityAddr, EntityType, Profile};

fn main() -> std::io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:22000".into());
    let listener = TcpListener::bind(&addr)?;
    let own = EntityAddr::v2(listener.local_addr()?, 0);
    let local = Arc::new(Local {
        kind: EntityType::Mon,
        num: 0,
        addrs: own.into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    });
    println!("listening on {own}");
    for (number, stream) in listener.incoming().enumerate() {
        let (stream, local) = (stream?, local.clone());
        std::thread::spawn(move || {
            let end = serve(number as u64 + 1, stream, local);
            println!("{number}: socket ended: {end:?}");
        });
    }
    Ok(())
}

fn serve(number: u64, mut stream: TcpStream, local: Arc<Local>) -> std::io::Result<()> {
    let peer = EntityAddr::v2(stream.peer_addr()?, 0);
    let method = Box::new(ServerNone::new(Service::Monitor));
    let mut connection = Connection::accept(local, Accept { peer, method, global_seq: number });
    let mut buffer = ReceiveBuffer::default();
    loop {
        while let Some(effect) = connection.poll() {
            match effect {
                Effect::Write(rope) => rope.pieces().iter().try_for_each(|p| stream.write_all(p))?,
                Effect::GlobalIdWanted { entity, asked } => {
                    println!("{number}: {entity} wants a global id (asks for {asked})");
                    connection.global_id(4100 + number);
                }
                Effect::Established(info) => println!("{number}: established {info:?}"),
                Effect::Message(m) => println!("{number}: message {:?}, front {}", m.header, m.front.len()),
                Effect::SessionWanted(_) | Effect::SessionReset => {}
                Effect::KeepaliveAcked(time) => println!("{number}: keepalive of {time} acked"),
                Effect::Close(reason) => {
                    println!("{number}: close ({:?}): {reason}", reason.fault());
                    return Ok(());
                }
            }
        }
        let n = stream.read_vectored(&mut connection.read_slices(&mut buffer, false))?;
        if n == 0 {
            return Ok(());
        }
        connection.received(&mut buffer, n);
    }
}
