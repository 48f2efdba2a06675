//! Room for a new connection where the process may open no more files: which one of those that there are ends.

use core::time::Duration;

use types::UTime;

use crate::socket::{Owner, Socket};
use crate::{Messenger, SocketId};

/// A connection that was heard from, or accepted, more recently is not ended.
const QUIET: Duration = Duration::from_secs(1);

impl Messenger {
    /// Ends the connection that is needed least: of those whose handshake goes on for long, the one that began first, else the client
    /// that is at rest and was heard from longest ago. It connects again if it has something to ask. Whether there was one: those of
    /// OSDs and monitors stay, and those to them.
    pub fn make_room(&mut self, now: UTime) -> bool {
        self.now = now;
        let Some(id) = self.needed_least(now) else { return false };
        self.end(id, "the process may open no more files, and another connection waits".into());
        true
    }

    fn needed_least(&self, now: UTime) -> Option<SocketId> {
        let long_ago = now.after(self.config.ready_timeout.saturating_sub(QUIET));
        let unready = self.sockets.iter().filter(|(_, socket)| match socket.owner {
            Owner::Accepted(endpoint) => {
                !endpoint.role.is_for_peers() && socket.ready_by.is_some_and(|by| by <= long_ago)
            }
            Owner::Monitor(..) | Owner::Peer { .. } => false,
        });
        let resting = self.sockets.iter().filter(|(_, socket)| socket.is_client_at_rest(now));
        let longest_unready = unready.min_by_key(|(_, socket)| socket.ordinal);
        let found =
            longest_unready.or_else(|| resting.min_by_key(|(_, socket)| (socket.progress, socket.ordinal)));
        found.map(|(id, _)| id)
    }
}

impl Socket {
    fn is_client_at_rest(&self, now: UTime) -> bool {
        let is_quiet = self.progress.after(QUIET) <= now;
        // What is not read, for want of room, has not stopped talking.
        let is_read = !self.paused && !self.waiting;
        self.is_client && is_quiet && is_read && self.held == 0 && self.out.is_empty()
    }
}
