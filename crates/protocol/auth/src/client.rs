//! The client's half of an authentication method.

use encoding::{Encode, Encoder};
use types::EntityId;

use crate::{AuthError, METHOD_NONE, MODE_CRC, Service, SessionKey, Tickets};

/// What AUTH_REQUEST carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthRequest {
    pub method: u32,
    /// Connection modes we accept, best first.
    pub modes: Vec<u32>,
    /// The method's payload.
    pub payload: Vec<u8>,
}

/// One connection's authentication, seen from the side that dialled.
pub trait ClientMethod: Send {
    /// The first AUTH_REQUEST.
    fn start(&mut self) -> AuthRequest;

    /// AUTH_BAD_METHOD: another request, or the end.
    fn bad_method(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<AuthRequest, AuthError>;

    /// AUTH_REPLY_MORE: the payload of our AUTH_REQUEST_MORE.
    fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, AuthError>;

    /// AUTH_DONE: the key for the handshake's signatures, if the method makes one.
    fn done(&mut self, global_id: u64, mode: u32, payload: &[u8]) -> Result<Option<SessionKey>, AuthError>;

    /// After `done`, once: what a monitor gave for connections to other daemons. `None`: they ask for no tickets.
    fn take_tickets(&mut self) -> Option<Tickets> {
        None
    }
}

/// The client's half of method none.
#[derive(Debug)]
pub struct ClientNone {
    service: Service,
    entity: EntityId,
    global_id: u64,
}

impl ClientNone {
    /// As `entity`, to a daemon of this kind; `global_id` is 0 towards a monitor that shall give one.
    pub fn new(service: Service, entity: EntityId, global_id: u64) -> Self {
        Self { service, entity, global_id }
    }
}

impl ClientMethod for ClientNone {
    fn start(&mut self) -> AuthRequest {
        let mut e = Encoder::new(0);
        let kind: u8 = match self.service {
            Service::Monitor => 10,
            Service::Daemon => 1,
        };
        e.put(&kind);
        self.entity.encode(&mut e);
        e.put(&self.global_id);
        AuthRequest { method: METHOD_NONE, modes: vec![MODE_CRC], payload: e.into_bytes() }
    }

    fn bad_method(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { result, methods: methods.to_vec(), modes: modes.to_vec() })
    }

    fn more(&mut self, _payload: &[u8]) -> Result<Vec<u8>, AuthError> {
        Err(AuthError::OutOfTurn("method none has one step"))
    }

    fn done(&mut self, global_id: u64, mode: u32, _payload: &[u8]) -> Result<Option<SessionKey>, AuthError> {
        match (global_id, mode) {
            (_, mode) if mode != MODE_CRC => {
                Err(AuthError::BadDone("a connection mode that was not offered"))
            }
            (0, _) if self.service == Service::Monitor => Err(AuthError::BadDone("no global id")),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AuthStep, METHOD_CEPHX, MODE_SECURE, ServerMethod, ServerNone};

    fn admin() -> EntityId {
        "client.admin".parse().unwrap()
    }

    #[test]
    fn a_monitor_session_waits_for_the_daemons_global_id_and_ends_with_it() {
        let request = ClientNone::new(Service::Monitor, admin(), 0).start();
        let mut server = ServerNone::new(Service::Monitor);
        let step = server.start(request.method, &request.modes, &request.payload).unwrap();
        assert_eq!(step, AuthStep::GlobalIdWanted { entity: admin(), asked: 0 });
        assert!(server.start(request.method, &request.modes, &request.payload).is_err(), "one at a time");
        let AuthStep::Done(identity) = server.global_id(4123).unwrap() else { panic!("not done") };
        assert_eq!((identity.global_id, identity.mode, identity.entity), (4123, MODE_CRC, admin()));
        assert!(identity.caps.permits(Access::ADMIN));
        assert!(server.global_id(4124).is_err(), "an id is taken once");
    }

    #[test]
    fn a_daemon_believes_the_id_that_the_peer_brings() {
        let request = ClientNone::new(Service::Daemon, admin(), 77).start();
        let mut server = ServerNone::new(Service::Daemon);
        match server.start(request.method, &request.modes, &request.payload).unwrap() {
            AuthStep::Done(identity) => assert_eq!(identity.global_id, 77),
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn cephx_and_secure_mode_are_answered_by_what_would_do() {
        let bad = AuthStep::Bad { result: -95, methods: vec![1], modes: vec![1] };
        let mut server = ServerNone::new(Service::Monitor);
        assert_eq!(server.start(METHOD_CEPHX, &[MODE_SECURE, MODE_CRC], b"junk"), Ok(bad.clone()));
        assert_eq!(server.start(METHOD_NONE, &[MODE_SECURE], b""), Ok(bad));
        let request = ClientNone::new(Service::Monitor, admin(), 0).start();
        let step = server.start(request.method, &request.modes, &request.payload);
        assert!(matches!(step, Ok(AuthStep::GlobalIdWanted { .. })), "and the peer may ask again");
    }

    #[test]
    fn a_payload_that_is_cut_or_of_an_unknown_kind_ends_the_connection() {
        let request = ClientNone::new(Service::Monitor, admin(), 0).start();
        for len in 0..request.payload.len() {
            let got =
                ServerNone::new(Service::Monitor).start(METHOD_NONE, &[MODE_CRC], &request.payload[..len]);
            assert!(matches!(got, Err(AuthError::Malformed(_))), "{len}");
        }
        let mut other = request.payload.clone();
        other[0] = 9;
        assert!(ServerNone::new(Service::Monitor).start(METHOD_NONE, &[MODE_CRC], &other).is_err());
        assert!(ServerNone::new(Service::Daemon).start(METHOD_NONE, &[MODE_CRC], &request.payload).is_err());
    }

    #[test]
    fn the_client_ends_on_a_refusal_and_on_a_mode_that_it_did_not_offer() {
        let mut client = ClientNone::new(Service::Monitor, admin(), 0);
        assert!(client.bad_method(-95, &[METHOD_CEPHX], &[MODE_CRC]).is_err());
        assert!(client.done(5, MODE_SECURE, b"").is_err());
        assert!(client.done(0, MODE_CRC, b"").is_err());
        assert_eq!(client.done(5, MODE_CRC, b""), Ok(None));
    }
}
