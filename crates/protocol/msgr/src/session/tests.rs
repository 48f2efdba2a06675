//! The rules of lossless sessions, a test each.

use buffer::Piece;

use super::*;
use crate::MessageHeader;

const COOKIE: u64 = 7;

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 1).into()
}

fn ident(port: u16, cookie: u64, global_seq: u64) -> ClientIdent {
    ClientIdent {
        addrs: addrs(port),
        target: addrs(2).0[0],
        gid: 0,
        global_seq,
        supported: 0,
        required: 0,
        flags: 0,
        cookie,
    }
}

fn reconnect(port: u16, connect_seq: u64, global_seq: u64, msg_seq: u64) -> Reconnect {
    let (client_cookie, server_cookie) = (COOKIE, 9);
    Reconnect { addrs: addrs(port), client_cookie, server_cookie, global_seq, connect_seq, msg_seq }
}

/// A server's end of an established session that has sent `sent` messages.
fn established(sent: u64) -> Session {
    let mut session = Session::lossless();
    session.open_for_ident(&ident(1, COOKIE, 5), 9);
    for n in 0..sent {
        let message = RawMessage::new(MessageHeader::default(), Piece::copy_from(&n.to_le_bytes()));
        assert!(session.send(message).unwrap().is_some());
    }
    session
}

#[test]
fn a_message_that_came_before_is_not_new() {
    let mut session = established(0);
    let came = [1, 2, 2, 1, 3, 3].map(|seq| session.receive(seq, 0));
    assert_eq!(came, [true, true, false, false, true, false]);
}

#[test]
fn only_what_the_peer_lacks_is_sent_again_after_a_reconnection() {
    let mut server = established(3);
    server.disconnected();
    server.open_for_reconnect(&reconnect(1, 1, 6, 2));
    assert_eq!(server.replay().count(), 1);
    let mut client = established(3);
    client.disconnected();
    client.reconnected(3);
    assert!(client.is_drained() && client.unacked_bytes() == 0);
}

#[test]
fn a_reconnection_that_is_behind_is_told_to_retry_above() {
    let mut session = established(0);
    session.open_for_reconnect(&reconnect(1, 4, 6, 0));
    session.disconnected();
    let judge = |connect_seq, global_seq| {
        let request = SessionRequest::Reconnect(reconnect(1, connect_seq, global_seq, 0));
        Session::judge(Some(&session), &request, &addrs(2))
    };
    assert_eq!(judge(3, 7), AcceptDecision::Reply(Control::Retry(4)));
    assert_eq!(judge(5, 5), AcceptDecision::Reply(Control::RetryGlobal(6)));
    assert_eq!(judge(5, 7), AcceptDecision::TakeOver);
}

#[test]
fn when_both_dial_the_connection_of_the_lower_address_wins() {
    // Never established: both say CLIENT_IDENT.
    let mut fresh = Session::lossless();
    fresh.start_dialling();
    fresh.introduction(addrs(5), 1, COOKIE);
    let judge = |port| Session::judge(Some(&fresh), &SessionRequest::Ident(ident(port, 8, 1)), &addrs(5));
    assert_eq!((judge(4), judge(6)), (AcceptDecision::TakeOver, AcceptDecision::Reply(Control::Wait)));
    // The order is that of Ceph's memory: the port before the host, the nonce's low byte first.
    let at = |host, port, nonce| EntityAddr::v2(([10, 0, 0, host], port).into(), nonce).into();
    let judge = |peer, own: EntityAddrVec| {
        Session::judge(
            Some(&fresh),
            &SessionRequest::Ident(ClientIdent { addrs: peer, ..ident(4, 8, 1) }),
            &own,
        )
    };
    assert_eq!(judge(at(9, 6800, 1), at(1, 6801, 1)), AcceptDecision::TakeOver);
    assert_eq!(judge(at(1, 6800, 0x0101), at(1, 6800, 0x0200)), AcceptDecision::Reply(Control::Wait));
    // Established before, both take it up again.
    let mut known = established(0);
    known.disconnected();
    known.start_dialling();
    let request = |port| SessionRequest::Reconnect(reconnect(port, 1, 6, 0));
    let judge = |port| Session::judge(Some(&known), &request(port), &addrs(5));
    assert_eq!((judge(4), judge(6)), (AcceptDecision::TakeOver, AcceptDecision::Reply(Control::Wait)));
}

#[test]
fn a_side_that_pauses_before_it_dials_again_is_still_dialling() {
    let mut fresh = Session::lossless();
    fresh.start_dialling();
    fresh.introduction(addrs(5), 1, COOKIE);
    fresh.disconnected();
    fresh.await_dial();
    let judge = |port| Session::judge(Some(&fresh), &SessionRequest::Ident(ident(port, 8, 1)), &addrs(5));
    assert_eq!((judge(4), judge(6)), (AcceptDecision::TakeOver, AcceptDecision::Reply(Control::Wait)));
    let mut known = established(0);
    known.disconnected();
    known.await_dial();
    let request = |port| SessionRequest::Reconnect(reconnect(port, 1, 6, 0));
    let judge = |port| Session::judge(Some(&known), &request(port), &addrs(5));
    assert_eq!((judge(4), judge(6)), (AcceptDecision::TakeOver, AcceptDecision::Reply(Control::Wait)));
    // The pause and the dial are one attempt.
    known.start_dialling();
    assert_eq!((known.connect_seq, known.link()), (1, LinkState::Dialling));
}

#[test]
fn a_session_that_nobody_remembers_begins_anew() {
    let request = SessionRequest::Reconnect(reconnect(1, 1, 6, 0));
    let reset = |full| AcceptDecision::Reply(Control::Reset { full });
    assert_eq!(Session::judge(None, &request, &addrs(2)), reset(true));
    let mut other = established(2);
    other.disconnected();
    let stranger = Reconnect { client_cookie: COOKIE + 1, ..reconnect(1, 1, 6, 0) };
    assert_eq!(Session::judge(Some(&other), &SessionRequest::Reconnect(stranger), &addrs(2)), reset(true));
    // A peer that restarted has another cookie: what was queued for the one before it is gone.
    assert!(other.open_for_ident(&ident(1, COOKIE + 1, 6), 10));
    assert!(other.is_drained() && other.receive(1, 0));
}
