//! Memory of unfinished messages: bounded over all connections, and no peer that goes on is ended for it.

use std::time::Duration;

use crate::common::{Client, Harness, osd};
use buffer::Rope;
use messages::Command;

const LIMIT: usize = 1 << 20;

/// A client that has a message of `bytes` under way.
fn sender(harness: &mut Harness, bytes: usize) -> Client {
    let mut client = harness.client(osd());
    client.send(&Command { data: Rope::zeros(bytes), ..Command::default() }.into());
    client
}

/// Reads some more of the client's bytes; how many.
fn go_on(harness: &mut Harness, client: &mut Client, bytes: usize) -> usize {
    let n = bytes.min(client.to_send.len());
    let taken = harness.read_all(client.socket, &client.to_send[..n]);
    client.to_send.drain(..taken);
    taken
}

#[test]
fn a_peer_that_stalls_with_memory_is_ended_when_another_needs_it() {
    let mut harness = Harness::with(LIMIT, 100);
    let mut stalled = sender(&mut harness, 2 << 20);
    go_on(&mut harness, &mut stalled, 700 << 10);
    let mut busy = sender(&mut harness, 2 << 20);
    harness.pass(Duration::from_millis(100));
    go_on(&mut harness, &mut busy, 700 << 10);
    assert!(harness.ended.is_empty(), "a moment's silence is no stall");
    harness.pass(Duration::from_millis(200));
    while go_on(&mut harness, &mut busy, 100 << 10) > 0 {}
    assert_eq!(harness.ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [stalled.socket]);
    assert!(harness.last_log().contains("stalled in the middle of a message"), "{}", harness.last_log());
    assert_eq!((harness.received.len(), harness.usage.unfinished_bytes()), (1, 0));
}

#[test]
fn when_all_are_busy_the_eldest_finishes_and_the_others_wait_their_turn() {
    let mut harness = Harness::with(LIMIT, 100);
    let mut clients: Vec<Client> = (0..8).map(|_| sender(&mut harness, 3 << 20)).collect();
    let mut highest = 0;
    // 64 KiB in 2 ms: the last one waits for more than half a second, and is not taken for one that has stalled.
    for _ in 0..20_000 {
        for client in &mut clients {
            go_on(&mut harness, client, 64 << 10);
            highest = highest.max(harness.usage.unfinished_bytes());
        }
        if harness.received.len() == clients.len() {
            break;
        }
        harness.pass(Duration::from_millis(2));
    }
    assert_eq!((harness.received.len(), harness.ended.len()), (8, 0));
    // Each may hold one step of its segment beyond the limit.
    assert!(highest < LIMIT + 8 * (4 << 20), "{highest} bytes held");
    assert_eq!(harness.usage.unfinished_bytes(), 0);
    assert_eq!(harness.messenger.deadline(), None);
}

#[test]
fn a_small_unfinished_message_is_never_ended_for_memory() {
    let mut harness = Harness::with(LIMIT, 100);
    let mut small = sender(&mut harness, 3000);
    go_on(&mut harness, &mut small, 1000);
    let mut large = sender(&mut harness, 4 << 20);
    harness.pass(Duration::from_secs(60));
    while go_on(&mut harness, &mut large, 64 << 10) > 0 {}
    assert_eq!((harness.received.len(), harness.ended.len()), (1, 0));
    go_on(&mut harness, &mut small, 10_000);
    assert_eq!(harness.received.len(), 2);
}

#[test]
fn a_connection_that_ends_gives_its_memory_back() {
    let mut harness = Harness::with(LIMIT, 100);
    let mut client = sender(&mut harness, 4 << 20);
    go_on(&mut harness, &mut client, 500 << 10);
    assert!(harness.usage.unfinished_bytes() > 500 << 10);
    let session = client.session(&harness);
    harness.messenger.close(session, "enough");
    harness.settle();
    assert_eq!(harness.usage.unfinished_bytes(), 0);
}
