//! The client's half of cephx: to a monitor it proves that it has its key and gets tickets ([`CephxLogin`]); to any other
//! daemon it shows one of them ([`CephxAuthorizer`]).
//!
//! A ticket has two parts: a session key, sealed with a key that the client has, and a blob that only the daemons of its
//! service can open. Facts: Ceph's src/auth/cephx/CephxProtocol.h.

use core::time::Duration;
use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityId, EntityType, UTime};

use crate::client::{AuthRequest, ClientMethod};
use crate::{AuthError, ClientNone, CryptoKey, METHOD_CEPHX, METHOD_NONE, MODE_CRC, Service, SessionKey};

/// AUTH_MODE_MON: the first byte of a request for a monitor session.
const FOR_MONITOR: u8 = 10;
/// The version of an authorizer, the first byte of a request to any other daemon.
const AUTHORIZER: u8 = 1;
/// CEPHX_GET_AUTH_SESSION_KEY.
const GET_SESSION: u16 = 0x0100;
/// CEPH_ENTITY_TYPE_AUTH: the service of the ticket by which more tickets are had.
const SERVICE_AUTH: u32 = 0x20;
/// A monitor has fewer services.
const SERVICES_MAX: usize = 32;

/// Ceph's CephXTicketBlob: opaque to its owner.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct TicketBlob {
    secret_id: u64,
    blob: Vec<u8>,
}

impl Encode for TicketBlob {
    fn encode(&self, e: &mut Encoder) {
        e.put(&1_u8).put(&self.secret_id).blob(&self.blob);
    }
}

impl Decode for TicketBlob {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (_version, secret_id): (u8, u64) = (d.get()?, d.get()?);
        Ok(Self { secret_id, blob: d.blob("CephXTicketBlob")?.to_vec() })
    }
}

/// Ceph's CephXServiceTicket: the part of a ticket that is its owner's.
struct ServiceTicket {
    session_key: CryptoKey,
    validity: UTime,
}

impl Encode for ServiceTicket {
    fn encode(&self, e: &mut Encoder) {
        e.put(&1_u8).put(&self.session_key).put(&self.validity);
    }
}

impl Decode for ServiceTicket {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (_version, session_key, validity): (u8, CryptoKey, UTime) = (d.get()?, d.get()?, d.get()?);
        Ok(Self { session_key, validity })
    }
}

/// Ceph's CephXAuthorize: proves that whoever shows a ticket has its session key.
struct Authorize {
    nonce: u64,
    /// What the daemon asked for, plus one.
    answer: Option<u64>,
}

impl Encode for Authorize {
    fn encode(&self, e: &mut Encoder) {
        e.put(&2_u8).put(&self.nonce).put(&u8::from(self.answer.is_some())).put(&self.answer.unwrap_or(0));
    }
}

/// A number behind a version: CephXServerChallenge, CephXAuthorizeChallenge, the first fields of CephXAuthorizeReply.
struct Versioned(u64);

impl Decode for Versioned {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (_version, number): (u8, u64) = (d.get()?, d.get()?);
        Ok(Self(number))
    }
}

/// A byte string that is sealed as a whole.
struct Bytes(Vec<u8>);

impl Decode for Bytes {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self(d.blob("sealed ticket")?.to_vec()))
    }
}

/// A ticket: the key that it and the daemon that opens it share, and what it shows.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ticket {
    session_key: CryptoKey,
    shown: TicketBlob,
    validity: Duration,
}

/// What a monitor gives a client that has its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tickets {
    global_id: u64,
    /// The one for the next session with a monitor.
    own: Ticket,
    /// By the service's kind of daemon.
    services: BTreeMap<u32, Ticket>,
}

impl Tickets {
    /// How long all of them are valid, counted from their arrival.
    pub fn validity(&self) -> Duration {
        self.services.values().map(|ticket| ticket.validity).fold(self.own.validity, Duration::min)
    }

    /// Authentication to a daemon of a kind; `nonce` is random. `None`: there is no ticket for such daemons.
    pub fn authorizer(&self, kind: EntityType, nonce: u64) -> Option<CephxAuthorizer> {
        let service = u32::from(kind.number());
        let ticket = self.services.get(&service)?.clone();
        Some(CephxAuthorizer { global_id: self.global_id, service, ticket, nonce })
    }
}

/// With what a client comes to a monitor.
#[derive(Clone, Debug)]
pub struct Login {
    pub entity: EntityId,
    pub key: CryptoKey,
    /// The id it had before, 0 for a new one.
    pub global_id: u64,
    /// Those it had before: without them a monitor does not give the id again.
    pub tickets: Option<Tickets>,
    /// Kinds of daemons that it wants tickets for.
    pub services: Vec<EntityType>,
    /// Whether a cluster that has no cephx will do.
    pub or_none: bool,
    /// Random.
    pub challenge: u64,
}

/// Authentication to a monitor by cephx, or, where the cluster does without, by none.
#[derive(Debug)]
pub struct CephxLogin {
    login: Login,
    /// The request was sent that proves the key.
    has_proved: bool,
    tickets: Option<Tickets>,
    fallback: Option<ClientNone>,
}

impl CephxLogin {
    pub fn new(login: Login) -> Self {
        Self { login, has_proved: false, tickets: None, fallback: None }
    }

    /// Reads what AUTH_DONE carries.
    fn read_tickets(&self, global_id: u64, payload: &[u8]) -> Result<Tickets, AuthError> {
        let mut d = Decoder::new(payload);
        let (kind, status): (u16, i32) = (d.get()?, d.get()?);
        if status != 0 {
            return Err(AuthError::Denied { entity: self.login.entity.clone(), result: status });
        }
        if kind != GET_SESSION {
            return Err(AuthError::BadDone("an answer to another request of cephx"));
        }
        let old = self.login.tickets.as_ref().map(|tickets| &tickets.own.session_key);
        let own = read_reply(&mut d, &self.login.key, old)?.remove(&SERVICE_AUTH);
        let own = own.ok_or(AuthError::BadDone("no ticket for monitors"))?;
        // In secure mode the connection's secret.
        d.blob("connection secret")?;
        let extra = d.blob("tickets of services")?;
        d.finish()?;
        let services = match extra.is_empty() {
            true => BTreeMap::new(),
            false => read_reply(&mut Decoder::new(extra), &own.session_key, None)?,
        };
        Ok(Tickets { global_id, own, services })
    }
}

/// Reads tickets by their services: each one's own part is sealed with `key`, what it shows, if sealed, with the session
/// key that was had before.
fn read_reply(
    d: &mut Decoder<'_>,
    key: &CryptoKey,
    old: Option<&CryptoKey>,
) -> Result<BTreeMap<u32, Ticket>, AuthError> {
    let (_version, count): (u8, u32) = (d.get()?, d.get()?);
    if count as usize > SERVICES_MAX {
        return Err(DecodeError::BadValue { what: "count of tickets", value: count.into() }.into());
    }
    let mut tickets = BTreeMap::new();
    for _ in 0..count {
        let (service, _version): (u32, u8) = (d.get()?, d.get()?);
        let own: ServiceTicket = key.open(d.blob("CephXServiceTicket")?, "sealed CephXServiceTicket")?;
        let is_sealed = d.get::<u8>()? != 0;
        let shown = d.blob("CephXTicketBlob")?;
        let shown = match (is_sealed, old) {
            (false, _) => TicketBlob::from_bytes(shown)?,
            (true, Some(old)) => TicketBlob::from_bytes(&old.open::<Bytes>(shown, "sealed ticket")?.0)?,
            (true, None) => return Err(AuthError::BadDone("a ticket sealed with a key that nobody had")),
        };
        let validity = Duration::from_nanos(own.validity.as_nanos());
        tickets.insert(service, Ticket { session_key: own.session_key, shown, validity });
    }
    Ok(tickets)
}

/// What proves the key: both challenges, sealed with it, folded into eight bytes.
fn proof(key: &CryptoKey, theirs: u64, ours: u64) -> u64 {
    let mut e = Encoder::new(0);
    e.blob(&key.seal(&Challenges { theirs, ours }));
    e.as_slice()
        .chunks_exact(8)
        .fold(0, |sum, word| sum ^ word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Ceph's CephXChallengeBlob.
struct Challenges {
    theirs: u64,
    ours: u64,
}

impl Encode for Challenges {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.theirs).put(&self.ours);
    }
}

impl ClientMethod for CephxLogin {
    fn start(&mut self) -> AuthRequest {
        let mut e = Encoder::new(0);
        e.put(&FOR_MONITOR).put(&self.login.entity).put(&self.login.global_id);
        AuthRequest { method: METHOD_CEPHX, modes: vec![MODE_CRC], payload: e.into_bytes() }
    }

    fn bad_method(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<AuthRequest, AuthError> {
        if self.has_proved {
            return Err(AuthError::Denied { entity: self.login.entity.clone(), result });
        }
        let may_be_none = methods.contains(&METHOD_NONE) && !methods.contains(&METHOD_CEPHX);
        if !self.login.or_none || !may_be_none || self.fallback.is_some() {
            let (methods, modes) = (methods.to_vec(), modes.to_vec());
            return Err(match methods.contains(&METHOD_CEPHX) && modes.contains(&MODE_CRC) {
                // It would have the method; an unknown name is refused before any key is asked for.
                true => AuthError::Denied { entity: self.login.entity.clone(), result },
                false => AuthError::Refused { result, methods, modes },
            });
        }
        let none = ClientNone::new(Service::Monitor, self.login.entity.clone(), self.login.global_id);
        Ok(self.fallback.insert(none).start())
    }

    fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, AuthError> {
        if self.has_proved || self.fallback.is_some() {
            return Err(AuthError::OutOfTurn("cephx has one challenge"));
        }
        let theirs = Versioned::from_bytes(payload)?.0;
        self.has_proved = true;
        let login = &self.login;
        let none = TicketBlob::default();
        let old = login.tickets.as_ref().map_or(&none, |tickets| &tickets.own.shown);
        let services = login.services.iter().fold(0, |all, kind| all | u32::from(kind.number()));
        let mut e = Encoder::new(0);
        e.put(&GET_SESSION);
        // CephXAuthenticate.
        e.put(&3_u8).put(&login.challenge).put(&proof(&login.key, theirs, login.challenge));
        e.put(old).put(&(services | SERVICE_AUTH));
        Ok(e.into_bytes())
    }

    fn done(&mut self, global_id: u64, mode: u32, payload: &[u8]) -> Result<Option<SessionKey>, AuthError> {
        if let Some(none) = &mut self.fallback {
            return none.done(global_id, mode, payload);
        }
        if !self.has_proved {
            return Err(AuthError::OutOfTurn("cephx without a challenge"));
        }
        if mode != MODE_CRC {
            return Err(AuthError::BadDone("a connection mode that was not offered"));
        }
        if global_id == 0 {
            return Err(AuthError::BadDone("no global id"));
        }
        let tickets = self.read_tickets(global_id, payload)?;
        let key = SessionKey(tickets.own.session_key.secret().to_vec());
        self.tickets = Some(tickets);
        Ok(Some(key))
    }

    fn take_tickets(&mut self) -> Option<Tickets> {
        self.tickets.take()
    }
}

/// Authentication by a ticket to the daemons of its service.
#[derive(Debug)]
pub struct CephxAuthorizer {
    global_id: u64,
    service: u32,
    ticket: Ticket,
    nonce: u64,
}

impl CephxAuthorizer {
    fn payload(&self, answer: Option<u64>) -> Vec<u8> {
        let mut e = Encoder::new(0);
        e.put(&AUTHORIZER).put(&self.global_id).put(&self.service).put(&self.ticket.shown);
        e.blob(&self.ticket.session_key.seal(&Authorize { nonce: self.nonce, answer }));
        e.into_bytes()
    }
}

impl ClientMethod for CephxAuthorizer {
    fn start(&mut self) -> AuthRequest {
        AuthRequest { method: METHOD_CEPHX, modes: vec![MODE_CRC], payload: self.payload(None) }
    }

    fn bad_method(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { result, methods: methods.to_vec(), modes: modes.to_vec() })
    }

    fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, AuthError> {
        let challenge: Versioned = self.ticket.session_key.open(payload, "sealed challenge")?;
        Ok(self.payload(Some(challenge.0.wrapping_add(1))))
    }

    fn done(&mut self, _global_id: u64, mode: u32, payload: &[u8]) -> Result<Option<SessionKey>, AuthError> {
        if mode != MODE_CRC {
            return Err(AuthError::BadDone("a connection mode that was not offered"));
        }
        let sealed = Bytes::from_bytes(payload)?;
        let key = &self.ticket.session_key;
        let reply: Versioned = key.open(&sealed.0, "sealed CephXAuthorizeReply")?;
        match reply.0 == self.nonce.wrapping_add(1) {
            true => Ok(Some(SessionKey(key.secret().to_vec()))),
            false => Err(AuthError::BadDone("the daemon does not have the ticket's key")),
        }
    }
}

#[cfg(test)]
mod tests;
