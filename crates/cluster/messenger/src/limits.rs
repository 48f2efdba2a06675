//! Time and memory: handshakes that take too long, and unfinished messages that take too much.

use core::time::Duration;

use msgr::ReadSlices;
use types::UTime;

use crate::messenger::Timer;
use crate::{Effect, Messenger, SocketEffect, SocketId};

/// A connection that holds this little of an unfinished message never waits and is never ended for it.
const HELD_SMALL: usize = 4 << 10;

/// A peer that sent nothing for this long has stalled.
const STALLED: Duration = Duration::from_millis(250);

/// How long a socket is not read when the memory for unfinished messages is spent.
const MEMORY_WAIT: Duration = Duration::from_millis(2);

impl Messenger {
    pub(crate) fn on_tick(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Socket(id) => self.on_socket_timer(at, id),
                Timer::Redial(session) => self.on_redial(session),
            }
        }
    }

    fn on_socket_timer(&mut self, at: UTime, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            debug_assert!(false, "a timer of {id}, which has ended");
            return;
        };
        if socket.wait_until == Some(at) {
            socket.wait_until = None;
            self.effects.push_back(Effect::Socket(SocketEffect::Interest(id)));
        }
        if socket.ready_by == Some(at) {
            let what = if socket.connected { "no session" } else { "not connected" };
            return self.end(id, format!("{what} within {} s", self.config.ready_timeout.as_secs_f64()));
        }
        if socket.check_at == Some(at) {
            socket.check_at = None;
            self.check_peer_socket(id);
        }
    }

    /// What the host reads a socket's next bytes into, in order, just before it reads; then [`crate::Event::Read`]. `None`:
    /// nothing is read now, and [`SocketEffect::Interest`] follows when that changes. May end connections that have stalled
    /// in the middle of a message, to make room.
    pub fn read_slices(&mut self, now: UTime, id: SocketId) -> Option<ReadSlices<'_>> {
        self.now = now;
        if self.interest(id).is_none_or(|interest| !interest.read) || self.is_short_of_memory(now, id) {
            return None;
        }
        // Less when memory runs short, so that many peers together cannot run far over the limit.
        let tight = self.config.usage.unfinished_bytes() > self.config.unfinished_bytes_max / 2;
        let socket = self.sockets.get_mut(id)?;
        Some(socket.connection.read_slices(&mut self.receive, tight))
    }

    /// Whether this socket must wait before more of an unfinished message is read. Makes room by ending those of this
    /// core's sockets that hold most of it and have stalled longest.
    fn is_short_of_memory(&mut self, now: UTime, asking: SocketId) -> bool {
        // A socket that has ended is not read: `read_slices` finds that out by itself.
        let Some(socket) = self.sockets.get(asking) else { return false };
        if socket.held <= HELD_SMALL {
            return false;
        }
        while self.config.usage.unfinished_bytes() > self.config.unfinished_bytes_max {
            let holders = || self.sockets.iter().filter(|(_, s)| s.held > HELD_SMALL);
            let stalled = holders().filter(|(_, s)| !s.waiting && s.progress.after(STALLED) < now);
            let Some((oldest, _)) = stalled.min_by_key(|(_, s)| (s.progress, s.ordinal)) else {
                // No holder has stalled. The oldest socket goes on, so that one always finishes; the others wait.
                if holders().min_by_key(|(_, s)| s.ordinal).is_some_and(|(oldest, _)| oldest == asking) {
                    break;
                }
                self.wait_for_memory(now, asking);
                return true;
            };
            let max = self.config.unfinished_bytes_max;
            self.end(
                oldest,
                format!(
                    "stalled in the middle of a message while memory for unfinished messages is short \
                     (ms_receive_unfinished_bytes_max {max})"
                ),
            );
            if oldest == asking {
                return true;
            }
        }
        if let Some(socket) = self.sockets.get_mut(asking).filter(|socket| socket.waiting) {
            // The peer has not stalled: this side did not read.
            socket.waiting = false;
            socket.progress = now;
        }
        false
    }

    fn wait_for_memory(&mut self, now: UTime, id: SocketId) {
        let until = now.after(MEMORY_WAIT);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.waiting = true;
            if let Some(before) = socket.wait_until.replace(until) {
                self.timers.remove(&(before, Timer::Socket(id)));
            }
            self.timers.insert((until, Timer::Socket(id)));
        }
    }
}
