//! Limits of a messenger, and the counters that the cores of a process share.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counters over all cores of a process: the only state that its messengers share. Limits apply to the process.
#[derive(Debug, Default)]
pub struct ProcessUsage {
    connections: AtomicUsize,
    unfinished_bytes: AtomicUsize,
}

impl ProcessUsage {
    /// Sockets, dialled and accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes of memory held for messages that are not whole yet.
    pub fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_connection(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn add_unfinished(&self, bytes: usize) {
        self.unfinished_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_unfinished(&self, bytes: usize) {
        self.unfinished_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How a core's messenger behaves.
#[derive(Clone, Debug)]
pub struct MessengerConfig {
    /// The core's number, less than [`MessengerConfig::CORES_MAX`]. It is part of every session number.
    pub core: u16,
    /// Sockets of the process past which accepted ones are closed at once (ms_connections_max).
    pub connections_max: usize,
    /// Bytes of unfinished messages of the process past which stalled connections end and others wait
    /// (ms_receive_unfinished_bytes_max).
    pub unfinished_bytes_max: usize,
    /// How long a peer has to finish connecting, and then the handshake (ms_connection_ready_timeout).
    pub ready_timeout: Duration,
    /// The first pause before a peer whose connection did not open is dialled again (ms_initial_backoff); each further one
    /// is twice as long.
    pub initial_backoff: Duration,
    /// The longest such pause (ms_max_backoff).
    pub max_backoff: Duration,
    /// Bytes that a peer of a lossless session may owe the acknowledgement of before [`crate::PeerFull`]
    /// (ms_peer_unacked_bytes_max); the last message may run over it.
    pub peer_bytes_max: usize,
    /// Whether messages between OSDs of this process are encoded and decoded, so that nothing passes that could not pass a
    /// wire.
    pub check_in_memory: bool,
    /// Random, so that cookies of sessions differ between processes.
    pub cookie_seed: u64,
    pub usage: Arc<ProcessUsage>,
}

impl MessengerConfig {
    /// Cores that a process may have.
    pub const CORES_MAX: u32 = 1 << 16;
}
