//! What a client is configured with.

use core::time::Duration;

use monclient::MonClientConfig;
use types::{Fsid, Profile};

/// The defaults of [`ObjecterConfig::new`] are Ceph's.
#[derive(Clone, Debug)]
pub struct ObjecterConfig {
    pub monitors: MonClientConfig,
    /// The cluster, as commands to the monitor carry it; zero if it is not known beforehand.
    pub fsid: Fsid,
    pub profile: Profile,
    /// Requests under way at once (objecter_inflight_ops).
    pub requests_max: usize,
    /// Bytes that requests under way send or ask for (objecter_inflight_op_bytes). A request of more bytes than this is
    /// accepted when nothing else is under way.
    pub request_bytes_max: u64,
    /// Time after which a request is given up (rados_osd_op_timeout); zero waits for ever.
    pub request_timeout: Duration,
    /// Time after which a command is given up (rados_mon_op_timeout); zero waits for ever.
    pub command_timeout: Duration,
    /// How often requests are looked through for laggy ones (objecter_tick_interval).
    pub tick_interval: Duration,
    /// Age from which an unanswered request counts as laggy (objecter_timeout): its OSD gets a ping, which shows a
    /// connection that is dead.
    pub laggy_after: Duration,
    /// Pause before an OSD that could not be reached is tried again (ms_initial_backoff); doubles up to
    /// `reconnect_delay_max` (ms_max_backoff).
    pub reconnect_delay_min: Duration,
    pub reconnect_delay_max: Duration,
    /// What choices among replicas are drawn from.
    pub seed: u64,
}

impl ObjecterConfig {
    pub fn new(monitors: MonClientConfig, profile: Profile) -> Self {
        Self {
            fsid: monitors.fsid.unwrap_or_default(),
            monitors,
            profile,
            requests_max: 1024,
            request_bytes_max: 100 << 20,
            request_timeout: Duration::ZERO,
            command_timeout: Duration::ZERO,
            tick_interval: Duration::from_secs(5),
            laggy_after: Duration::from_secs(10),
            reconnect_delay_min: Duration::from_millis(200),
            reconnect_delay_max: Duration::from_secs(15),
            seed: 0,
        }
    }
}
