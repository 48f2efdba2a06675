//! Sessions that end with their connection: how they begin, what they carry, and how they end.

use std::time::Duration;

use crate::common::{Client, Harness, addr, message, mgr, mon, number, osd};
use buffer::Rope;
use messages::{Message, MessageHeader, PgInfoQuery, RawMessage};
use messenger::{Event, Interest, SocketId};
use monclient::{Attempt, MonClientIo};
use types::{EntityAddrVec, EntityType, LogLevel, OsdId};

#[test]
fn a_client_s_messages_arrive_in_order_and_are_answered_with_one_write_a_burst() {
    let mut harness = Harness::new();
    let mut client = harness.client(osd());
    let session = client.session(&harness);
    (1..=20).for_each(|n| client.send(&message(n)));
    client.exchange(&mut harness);
    assert_eq!(
        harness.received.iter().map(|(_, m)| number(m)).collect::<Vec<_>>(),
        (1..=20).collect::<Vec<_>>()
    );
    assert!(harness.received.iter().all(|(from, _)| *from == session));

    harness.flushes.clear();
    (1..=20).for_each(|n| harness.send(session, &message(n)));
    harness.settle();
    assert_eq!(harness.flushes, [client.socket], "one write for twenty messages");
    client.exchange(&mut harness);
    assert_eq!(client.received.iter().map(number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    assert_eq!(harness.usage.connections(), 1);
}

#[test]
fn messages_of_loligo_s_own_go_only_to_osds_that_say_they_take_them() {
    let mut harness = Harness::new();
    let own: Message = PgInfoQuery::default().into();
    for (kind, takes_it) in [(EntityType::Osd, true), (EntityType::Client, false)] {
        let mut peer = harness.peer(kind, osd());
        let session = peer.session(&harness);
        harness.send(session, &own);
        harness.send(session, &message(1));
        peer.exchange(&mut harness);
        let expected = if takes_it { vec![own.clone(), message(1)] } else { vec![message(1)] };
        assert_eq!(peer.received, expected);
    }
}

#[test]
fn a_monitor_s_client_gets_its_global_id_before_its_session_opens() {
    let mut harness = Harness::new();
    harness.client(mon());
    let info = harness.opened.last().unwrap();
    assert_eq!((info.global_id, info.name.num, info.local_nonce), (4100, 4100, 0));
}

#[test]
fn a_manager_s_client_brings_the_global_id_that_it_has_and_finds_a_manager() {
    let mut harness = Harness::new();
    // The client gives up a daemon of another kind; it shows the id that the monitor gave it.
    let mut client = harness.client(mgr());
    let info = harness.opened.last().unwrap();
    assert_eq!((info.global_id, info.local_nonce), (4100, 5));
    harness.send(client.session(&harness), &message(1));
    client.exchange(&mut harness);
    assert_eq!(client.received.iter().map(number).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_session_ends_once_and_later_news_of_its_socket_count_for_nothing() {
    let mut harness = Harness::new();
    let mut client = harness.client(osd());
    let session = client.session(&harness);
    client.send(&message(1));
    harness.messenger.close(session, "enough");
    harness.handle(Event::Bytes(client.socket, &client.to_send));
    harness.handle(Event::EndOfStream(client.socket));
    harness.handle(Event::Failed(client.socket, "read: reset".into()));
    harness.send(session, &message(2));
    harness.messenger.close(session, "again");
    harness.settle();
    assert_eq!((harness.closed.clone(), harness.received.len(), harness.ended.len()), (vec![session], 0, 1));
    assert_eq!(harness.last_log(), "127.0.0.9:40000: connection ended: enough");
    assert_eq!((harness.usage.connections(), harness.messenger.sockets()), (0, 0));
    // Its place is taken by another, which has another number.
    let next = harness.client(osd());
    assert_eq!(next.socket.index(), client.socket.index());
    assert_ne!(next.session(&harness), session);
    assert!(harness.messenger.interest(client.socket).is_none());
}

#[test]
fn a_daemon_that_ended_has_no_session_and_accepts_nothing_until_it_is_there_again() {
    let mut harness = Harness::new();
    let client = harness.client(osd());
    let other = harness.client(mon());
    harness.messenger.remove_daemon(osd().daemon, "the OSD ended");
    harness.settle();
    assert_eq!(harness.closed, [client.session(&harness)]);
    assert_eq!((harness.ended.len(), harness.messenger.sockets()), (1, 1), "the monitor's session stays");
    assert!(harness.messenger.interest(other.socket).is_some());
    assert!(harness.messenger.accept(harness.now(), osd(), "127.0.0.9:40009".parse().unwrap()).is_none());
    assert_eq!(harness.usage.connections(), 1);
}

#[test]
fn what_was_sent_before_a_session_s_end_is_left_to_be_written() {
    let mut harness = Harness::new();
    let mut client = harness.client(osd());
    let session = client.session(&harness);
    harness.send(session, &message(7));
    harness.messenger.close(session, "enough");
    harness.settle();
    let (_, rest) = harness.ended.pop().unwrap();
    client.connection.feed(&rest);
    client.exchange(&mut harness);
    assert_eq!(client.received.iter().map(number).collect::<Vec<_>>(), [7]);
}

#[test]
fn an_orderly_end_is_no_news_and_one_in_the_middle_of_a_frame_is() {
    let mut harness = Harness::new();
    let orderly = harness.client(osd());
    harness.handle(Event::EndOfStream(orderly.socket));
    assert_eq!(harness.log.last().unwrap().0, LogLevel::Debug);

    let mut midway = harness.client(osd());
    midway.send(&message(1));
    harness.read(midway.socket, &midway.to_send[..50]);
    harness.handle(Event::EndOfStream(midway.socket));
    let (level, text) = harness.log.last().unwrap();
    assert_eq!((*level, harness.closed.len()), (LogLevel::Info, 2));
    assert!(text.ends_with("the peer closed the connection in the middle of a frame"), "{text}");
}

#[test]
fn a_peer_without_a_session_in_time_is_closed_and_the_daemon_never_hears_of_it() {
    let mut harness = Harness::new();
    let idle = harness.accept(osd()).unwrap();
    let open = harness.client(osd());
    harness.pass(Duration::from_millis(9_990));
    assert!(harness.ended.is_empty());
    harness.pass(Duration::from_millis(20));
    assert_eq!(harness.ended.len(), 1);
    assert_eq!((harness.ended[0].0, harness.closed.len()), (idle, 0));
    assert!(harness.last_log().ends_with("no session within 10 s"), "{}", harness.last_log());
    harness.pass(Duration::from_secs(1000));
    assert!(harness.messenger.interest(open.socket).is_some(), "an open session may be silent");
    assert_eq!(harness.messenger.deadline(), None);
}

#[test]
fn connections_past_the_limit_are_refused_until_one_ends() {
    let mut harness = Harness::with(1 << 20, 3);
    let clients: Vec<Client> = (0..3).map(|_| harness.client(osd())).collect();
    assert_eq!(harness.accept(mon()), None);
    assert!(
        harness.last_log().ends_with("refused: ms_connections_max (3) reached"),
        "{}",
        harness.last_log()
    );
    harness.handle(Event::EndOfStream(clients[1].socket));
    assert!(harness.accept(mon()).is_some());
}

#[test]
fn garbage_ends_a_connection_with_its_reason() {
    let mut harness = Harness::new();
    let socket = harness.accept(osd()).unwrap();
    harness.read(socket, b"GET / HTTP/1.1\r\nHost: loligo\r\n\r\n");
    assert!(harness.last_log().contains("not a messenger 2 peer"), "{}", harness.last_log());

    let mut client = harness.client(osd());
    client.to_send = vec![0xff; 100];
    client.exchange(&mut harness);
    assert!(harness.last_log().contains("bad frame"), "{}", harness.last_log());
    assert_eq!(harness.closed.len(), 1);
}

#[test]
fn a_message_of_an_unknown_type_or_that_cannot_be_read_ends_a_client_s_session() {
    let unknown = MessageHeader { kind: 999, version: 1, ..MessageHeader::default() };
    let unreadable = MessageHeader { kind: messages::kind::OSD_OP, version: 8, ..MessageHeader::default() };
    for (header, what) in [(unknown, "message of the unknown type 999"), (unreadable, "message of type 42: ")]
    {
        let mut harness = Harness::new();
        let mut client = harness.client(osd());
        client.send(&message(1));
        client.connection.send(RawMessage {
            header,
            front: buffer::Piece::copy_from(b"x"),
            middle: buffer::Piece::empty(),
            data: Rope::new(),
        });
        client.send(&message(2));
        client.exchange(&mut harness);
        assert!(harness.last_log().contains(what), "{}", harness.last_log());
        assert_eq!(harness.received.len(), 1, "what came before it counts, what came after does not");
        assert_eq!(harness.closed.len(), 1);
    }
}

#[test]
fn a_global_id_out_of_range_ends_the_connection_before_its_session_opens() {
    let mut harness = Harness::new();
    let socket = harness.accept(osd()).unwrap();
    Client::new(socket, osd(), u64::MAX).exchange(&mut harness);
    assert_eq!((harness.opened.len(), harness.closed.len(), harness.ended.len()), (0, 0, 1));
    assert!(harness.last_log().ends_with("a global id above 2^63"), "{}", harness.last_log());
}

#[test]
fn a_paused_session_is_not_read_until_it_is_resumed() {
    let mut harness = Harness::new();
    let mut client = harness.client(osd());
    let session = client.session(&harness);
    harness.messenger.pause(session, true);
    harness.settle();
    assert_eq!(harness.interests, [client.socket]);
    client.send(&message(1));
    client.exchange(&mut harness);
    assert!(harness.received.is_empty());
    harness.messenger.pause(session, false);
    client.exchange(&mut harness);
    assert_eq!(harness.received.len(), 1);
}

/// A message of 1 MiB.
fn large() -> Message {
    let raw = RawMessage {
        header: MessageHeader { kind: messages::kind::OSD_OP, ..MessageHeader::default() },
        front: buffer::Piece::empty(),
        middle: buffer::Piece::empty(),
        data: Rope::zeros(1 << 20),
    };
    Message::Unknown { kind: 42, raw: Box::new(raw) }
}

/// The host writes what a socket takes: `bytes` of the queue.
fn write(harness: &mut Harness, socket: SocketId, bytes: usize) {
    let mut left = bytes;
    let out = harness.messenger.out_queue(socket).unwrap();
    let taken = out.write_to(|slices| match left {
        0 => Err(std::io::ErrorKind::WouldBlock.into()),
        _ => {
            let n = slices.iter().map(|slice| slice.len()).sum::<usize>().min(left);
            left -= n;
            Ok(n)
        }
    });
    taken.unwrap();
    harness.messenger.wrote(socket);
    harness.settle();
}

#[test]
fn an_osd_learns_which_peers_do_not_take_what_they_are_sent() {
    let mut harness = Harness::new();
    let client = harness.client(osd());
    let session = client.session(&harness);
    harness.send(session, &large());
    write(&mut harness, client.socket, 10);
    assert_eq!(harness.events, [format!("osd.0: {session} behind")]);
    harness.send(session, &large());
    write(&mut harness, client.socket, 10);
    assert_eq!(harness.events.len(), 1, "it knows");
    write(&mut harness, client.socket, (1 << 20) + 1000);
    assert_eq!(harness.events[1..], [format!("osd.0: {session} not behind")]);
    harness.send(session, &message(1));
    write(&mut harness, client.socket, usize::MAX);
    assert_eq!(harness.events.len(), 2);

    let client = harness.client(mon());
    harness.send(client.session(&harness), &large());
    write(&mut harness, client.socket, 10);
    assert_eq!(harness.events.len(), 2, "a monitor reads nothing for its peers");
}

#[test]
fn a_peer_that_takes_no_replies_is_not_read_until_it_does() {
    let mut harness = Harness::new();
    let mut client = harness.client(osd());
    let session = client.session(&harness);
    let large = large();
    (0..63).for_each(|_| harness.send(session, &large));
    assert_eq!(harness.messenger.interest(client.socket), Some(Interest { read: true, write: true }));
    harness.send(session, &large);
    assert_eq!(harness.messenger.interest(client.socket), Some(Interest { read: false, write: true }));
    client.send(&message(1));
    assert_eq!(harness.read_all(client.socket, &client.to_send), 0);
    assert!(harness.take_out(client.socket).len() > 64 << 20);
    assert_eq!(harness.messenger.interest(client.socket), Some(Interest { read: true, write: false }));
    assert!(harness.read_all(client.socket, &client.to_send) > 0);
    assert_eq!(harness.received.len(), 1);
}

// An OSD's own session to a monitor.

fn connect(harness: &mut Harness, attempt: u64, to: impl Into<EntityAddrVec>) {
    let io = MonClientIo::Connect(Attempt(attempt), to.into());
    harness.messenger.monitor_io(harness.now(), OsdId(0), io);
    harness.settle();
}

#[test]
fn a_monitor_that_cannot_be_reached_is_reported_with_the_reason() {
    let mut harness = Harness::new();
    connect(&mut harness, 1, addr(3300, 0));
    let (socket, to) = harness.dials.pop().unwrap();
    assert_eq!(to, "127.0.0.1:3300".parse().unwrap());
    assert!(harness.messenger.out_queue(socket).is_none() && harness.flushes.is_empty(), "not connected yet");
    harness.handle(Event::Failed(socket, "Connection refused".into()));
    assert_eq!(harness.events.pop().unwrap(), r#"osd.0: Disconnected(Attempt(1), "Connection refused")"#);

    connect(&mut harness, 2, addr(3300, 0));
    harness.pass(Duration::from_secs(11));
    assert_eq!(
        harness.events.pop().unwrap(),
        r#"osd.0: Disconnected(Attempt(2), "not connected within 10 s")"#
    );
    assert_eq!((harness.ended.len(), harness.usage.connections()), (2, 0));

    connect(&mut harness, 3, EntityAddrVec::default());
    assert!(harness.events.pop().unwrap().contains("has no messenger 2 address"));
}

#[test]
fn an_osd_talks_to_the_monitor_of_the_same_messenger_through_two_sockets() {
    let mut harness = Harness::new();
    connect(&mut harness, 1, addr(3300, 0));
    let (ours, _) = harness.dials.pop().unwrap();
    harness.handle(Event::Connected(ours));
    let theirs = harness.accept(mon()).unwrap();
    let carry = |harness: &mut Harness| {
        for _ in 0..20 {
            for (from, to) in [(ours, theirs), (theirs, ours)] {
                let bytes = harness.take_out(from);
                assert_eq!(harness.read_all(to, &bytes), bytes.len());
            }
        }
    };
    carry(&mut harness);
    assert_eq!(harness.events.pop().unwrap(), "osd.0: Connected(Attempt(1))");
    let io = |harness: &mut Harness, io| {
        harness.messenger.monitor_io(harness.now(), OsdId(0), io);
        harness.settle();
    };
    io(&mut harness, MonClientIo::Send(Attempt(1), message(3)));
    io(&mut harness, MonClientIo::Keepalive(Attempt(1)));
    carry(&mut harness);
    assert_eq!(number(&harness.received.pop().unwrap().1), 3);
    assert_eq!(harness.events.pop().unwrap(), "osd.0: KeepaliveAcked(Attempt(1))");
    io(&mut harness, MonClientIo::Disconnect(Attempt(1)));
    assert!(harness.events.pop().unwrap().contains("the OSD ends its session"));
    // A session that is gone takes nothing more, and disturbs nothing.
    io(&mut harness, MonClientIo::Send(Attempt(1), message(4)));
    io(&mut harness, MonClientIo::Keepalive(Attempt(1)));
    assert_eq!(harness.messenger.sockets(), 1);
}
