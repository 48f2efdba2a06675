//! What the monitor keeps of a session.

use std::collections::BTreeMap;

use auth::SessionInfo;
use types::UTime;

/// The most subscriptions of a session; real programs use half a dozen.
pub const SUBSCRIPTIONS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The next version to send.
    pub next: u64,
    /// Whether it ends with an answer.
    pub onetime: bool,
    /// A one-time subscription that was answered goes on until then nevertheless.
    pub until: Option<UTime>,
}

/// As what a peer sees the monitor: at which of its addresses it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Monitor,
    Manager,
}

#[derive(Clone, Debug)]
pub struct Session {
    pub info: SessionInfo,
    pub service: Service,
    /// What it subscribed to.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// The configuration it was sent last.
    pub config_sent: Option<BTreeMap<String, String>>,
    /// Its requests that wait for a commit.
    pub waiting: usize,
}

impl Session {
    pub fn new(info: SessionInfo, service: Service) -> Self {
        Self { info, service, subscriptions: BTreeMap::new(), config_sent: None, waiting: 0 }
    }
}
