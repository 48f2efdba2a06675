//! Against a monitor and a daemon as small as can be. Real ones: tests/live/test_cephx.py.

use super::*;

fn key(byte: u8) -> CryptoKey {
    CryptoKey::new(UTime::default(), [byte; 16])
}

const CLIENT: u8 = 1;
const CHALLENGE: u64 = 0x1122_3344_5566_7788;

fn login(tickets: Option<Tickets>) -> Login {
    Login {
        entity: "client.x".parse().unwrap(),
        key: key(CLIENT),
        global_id: tickets.as_ref().map_or(0, |tickets| tickets.global_id),
        tickets,
        services: vec![EntityType::Osd],
        or_none: false,
        challenge: 99,
    }
}

fn challenge(number: u64) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.put(&1_u8).put(&number);
    e.into_bytes()
}

struct Sealed(Vec<u8>);

impl Encode for Sealed {
    fn encode(&self, e: &mut Encoder) {
        e.blob(&self.0);
    }
}

/// Tickets as a monitor makes them: of a service, with a session key, sealed with `with`.
fn reply(
    service: u32,
    session: CryptoKey,
    with: &CryptoKey,
    old: Option<&CryptoKey>,
    validity: u32,
) -> Vec<u8> {
    let mut e = Encoder::new(0);
    let validity = UTime { sec: validity, nsec: 0 };
    e.put(&1_u8).put(&1_u32).put(&service).put(&1_u8);
    e.blob(&with.seal(&ServiceTicket { session_key: session, validity }));
    let shown = TicketBlob { secret_id: 5, blob: vec![service as u8; 3] }.to_bytes(0);
    match old {
        None => e.put(&0_u8).blob(&shown),
        Some(old) => e.put(&1_u8).blob(&old.seal(&Sealed(shown))),
    };
    e.into_bytes()
}

/// AUTH_DONE of a monitor that gives the session key 2 for itself, and 4 for OSDs.
fn done(old: Option<&CryptoKey>) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.put(&GET_SESSION).put(&0_i32);
    e.raw(&reply(SERVICE_AUTH, key(2), &key(CLIENT), old, 7200));
    e.blob(b"").blob(&reply(4, key(4), &key(2), None, 3600));
    e.into_bytes()
}

fn logged_in() -> Tickets {
    let mut method = CephxLogin::new(login(None));
    method.start();
    method.more(&challenge(CHALLENGE)).unwrap();
    assert_eq!(method.done(4100, MODE_CRC, &done(None)), Ok(Some(SessionKey(vec![2; 16]))));
    let tickets = method.take_tickets().unwrap();
    assert_eq!(method.take_tickets(), None, "once");
    tickets
}

#[test]
fn a_login_proves_its_key_without_showing_it() {
    let mut method = CephxLogin::new(login(None));
    let request = method.start();
    assert_eq!((request.method, request.modes), (METHOD_CEPHX, vec![MODE_CRC]));
    assert_eq!(request.payload, [&[10, 8, 0, 0, 0, 1, 0, 0, 0, b'x'][..], &[0; 8]].concat());
    let answer = method.more(&challenge(CHALLENGE)).unwrap();
    let mut d = Decoder::new(&answer);
    assert_eq!(
        (d.get::<u16>().unwrap(), d.get::<u8>().unwrap(), d.get::<u64>().unwrap()),
        (GET_SESSION, 3, 99)
    );
    let proved: u64 = d.get().unwrap();
    assert_eq!(proved, proof(&key(CLIENT), CHALLENGE, 99));
    assert_ne!(proved, proof(&key(3), CHALLENGE, 99), "another key");
    assert_ne!(proved, proof(&key(CLIENT), CHALLENGE + 1, 99), "an answer to another challenge");
    assert_eq!(d.get::<TicketBlob>().unwrap(), TicketBlob::default());
    assert_eq!(d.get::<u32>().unwrap(), SERVICE_AUTH | 4, "the tickets it wants");
    d.finish().unwrap();
    assert!(method.more(&challenge(CHALLENGE)).is_err(), "one challenge");
}

#[test]
fn a_second_login_shows_the_ticket_of_the_first() {
    let first = logged_in();
    let mut method = CephxLogin::new(login(Some(first)));
    assert_eq!(method.start().payload[10..], 4100_u64.to_le_bytes());
    let answer = method.more(&challenge(CHALLENGE)).unwrap();
    let mut d = Decoder::new(&answer[2 + 1 + 8 + 8..]);
    assert_eq!(
        d.get::<TicketBlob>().unwrap(),
        TicketBlob { secret_id: 5, blob: vec![SERVICE_AUTH as u8; 3] }
    );
    assert!(method.done(4100, MODE_CRC, &done(Some(&key(2)))).is_ok(), "sealed with the old session key");
    let mut stranger = CephxLogin::new(login(None));
    stranger.more(&challenge(CHALLENGE)).unwrap();
    assert!(stranger.done(4100, MODE_CRC, &done(Some(&key(2)))).is_err(), "which a stranger does not have");
}

#[test]
fn a_ticket_opens_a_session_with_a_daemon_that_has_its_key() {
    let tickets = logged_in();
    assert_eq!(tickets.validity(), Duration::from_secs(3600), "the shortest of them");
    assert!(tickets.authorizer(EntityType::Mds, 1).is_none(), "none was asked for");
    let mut method = tickets.authorizer(EntityType::Osd, 41).unwrap();
    let first = method.start().payload;
    assert_eq!(first[..13], [&[1][..], &4100_u64.to_le_bytes(), &4_u32.to_le_bytes()].concat());
    let second = method.more(&key(4).seal(&Numbered(1, 1000))).unwrap();
    let sealed = |payload: &[u8]| {
        let mut d = Decoder::new(&payload[13..]);
        let shown: TicketBlob = d.get().unwrap();
        assert_eq!(shown.blob, [4; 3]);
        key(4).open::<Proof>(d.blob("authorize").unwrap(), "authorize").unwrap()
    };
    assert_eq!((sealed(&first), sealed(&second)), (Proof(41, 0, 0), Proof(41, 1, 1001)));
    let reply = |with: u8, nonce| Sealed(key(with).seal(&Numbered(1, nonce))).to_bytes(0);
    assert_eq!(method.done(0, MODE_CRC, &reply(4, 42)), Ok(Some(SessionKey(vec![4; 16]))));
    for (wrong, why) in [(reply(4, 41), "another nonce"), (reply(5, 42), "another key"), (vec![], "nothing")]
    {
        assert!(method.done(0, MODE_CRC, &wrong).is_err(), "{why}");
    }
    assert!(method.done(0, crate::MODE_SECURE, &reply(4, 42)).is_err());
    assert!(method.more(b"junk").is_err());
}

#[test]
fn a_cluster_without_cephx_is_taken_only_where_that_is_allowed() {
    let refusal = |or_none| {
        let mut method = CephxLogin::new(Login { or_none, ..login(None) });
        method.start();
        let request = method.bad_method(-95, &[METHOD_NONE], &[MODE_CRC]);
        (request, method)
    };
    assert!(matches!(refusal(false).0, Err(AuthError::Refused { .. })));
    let (request, mut method) = refusal(true);
    assert_eq!(request.unwrap().method, METHOD_NONE);
    assert!(method.bad_method(-95, &[METHOD_NONE], &[MODE_CRC]).is_err(), "once");
    assert!(method.more(&challenge(1)).is_err());
    assert_eq!(method.done(4100, MODE_CRC, b""), Ok(None));
    assert_eq!(method.take_tickets(), None);
}

#[test]
fn a_key_that_is_not_the_entitys_is_denied() {
    let mut method = CephxLogin::new(Login { or_none: true, ..login(None) });
    method.start();
    method.more(&challenge(CHALLENGE)).unwrap();
    let error = method.bad_method(-13, &[METHOD_CEPHX, METHOD_NONE], &[MODE_CRC]).unwrap_err();
    assert_eq!(error.to_string(), "the key is not accepted for client.x (error -13)");
}

#[test]
fn what_is_cut_ends_the_login() {
    let whole = done(None);
    for len in 0..whole.len() {
        let mut method = CephxLogin::new(login(None));
        assert!(method.done(4100, MODE_CRC, &whole).is_err(), "before a challenge");
        method.more(&challenge(CHALLENGE)).unwrap();
        assert!(method.done(4100, MODE_CRC, &whole[..len]).is_err(), "{len}");
        assert!(method.done(0, MODE_CRC, &whole).is_err(), "no global id");
    }
}

/// A version and a number.
struct Numbered(u8, u64);

impl Encode for Numbered {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0).put(&self.1);
    }
}

/// CephXAuthorize as a daemon reads it: the nonce, whether there is an answer, the answer.
#[derive(PartialEq, Eq, Debug)]
struct Proof(u64, u8, u64);

impl Decode for Proof {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let _version: u8 = d.get()?;
        Ok(Self(d.get()?, d.get()?, d.get()?))
    }
}
