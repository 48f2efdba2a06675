//! What a client is configured with.

use core::time::Duration;

use msgr::Limits;
use objecter::ObjecterConfig;
use types::{EntityId, EntityType};

use crate::Credentials;

#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub objecter: ObjecterConfig,
    /// Who it is: `client.admin`.
    pub entity: EntityId,
    /// How it proves that.
    pub credentials: Credentials,
    /// How long an OSD has to take a connection and open the session (ms_connection_ready_timeout). A monitor has the
    /// objecter's own limit.
    pub ready_timeout: Duration,
    /// What a peer may ask of this process's memory.
    pub limits: Limits,
}

impl ClientConfig {
    /// As `client.admin` without a key, with Ceph's times.
    pub fn new(objecter: ObjecterConfig) -> Self {
        Self {
            objecter,
            entity: EntityId { kind: EntityType::Client, id: "admin".into() },
            credentials: Credentials::None,
            ready_timeout: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}
