//! Method none: the peer is believed. For clusters on loopback.

use encoding::{DecodeError, Decoder};
use types::{EntityId, Errno};

use crate::{AuthError, AuthStep, Caps, Identity, METHOD_NONE, MODE_CRC, ServerMethod};

/// AUTH_MODE_MON: the first byte of a request for a monitor session.
const FOR_MONITOR: u8 = 10;
/// AUTH_MODE_AUTHORIZER, and the version of AuthNoneAuthorizer: the first byte of a request to any daemon.
const FOR_DAEMON: u8 = 1;

/// What kind of daemon the peer authenticates to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// A monitor: it gives global ids.
    Monitor,
    /// Any other daemon: the peer already has its id.
    Daemon,
}

/// The server's half of method none (Ceph's AuthNoneServiceHandler and AuthNoneAuthorizeHandler): every session gets
/// `allow *`.
#[derive(Debug)]
pub struct ServerNone {
    service: Service,
    waiting: Option<EntityId>,
}

impl ServerNone {
    /// For one connection to a daemon of this kind.
    pub fn new(service: Service) -> Self {
        Self { service, waiting: None }
    }

    fn done(entity: EntityId, global_id: u64) -> AuthStep {
        let caps = Caps::all();
        AuthStep::Done(Identity {
            entity,
            global_id,
            caps,
            mode: MODE_CRC,
            payload: Vec::new(),
            session_key: None,
        })
    }
}

impl ServerMethod for ServerNone {
    fn start(&mut self, method: u32, modes: &[u32], payload: &[u8]) -> Result<AuthStep, AuthError> {
        if self.waiting.is_some() {
            return Err(AuthError::OutOfTurn("a request while one waits for a global id"));
        }
        if method != METHOD_NONE || !modes.contains(&MODE_CRC) {
            let result = -Errno::EOPNOTSUPP.0;
            return Ok(AuthStep::Bad { result, methods: vec![METHOD_NONE], modes: vec![MODE_CRC] });
        }
        let mut d = Decoder::new(payload);
        let kind: u8 = d.get()?;
        let (entity, asked): (EntityId, u64) = (d.get()?, d.get()?);
        d.finish()?;
        match (self.service, kind) {
            (Service::Monitor, FOR_MONITOR) => {
                self.waiting = Some(entity.clone());
                Ok(AuthStep::GlobalIdWanted { entity, asked })
            }
            (_, FOR_DAEMON) => Ok(Self::done(entity, asked)),
            (_, kind) => {
                Err(DecodeError::BadValue { what: "authentication mode", value: kind.into() }.into())
            }
        }
    }

    fn more(&mut self, _payload: &[u8]) -> Result<AuthStep, AuthError> {
        Err(AuthError::OutOfTurn("method none has one step"))
    }

    fn global_id(&mut self, id: u64) -> Result<AuthStep, AuthError> {
        match self.waiting.take() {
            Some(entity) => Ok(Self::done(entity, id)),
            None => Err(AuthError::OutOfTurn("no session waits for a global id")),
        }
    }
}
