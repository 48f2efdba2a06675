//! Entities with their keys and capabilities, as `ceph auth` keeps them. Authentication is off: the keys open nothing and
//! the capabilities bound nothing yet, but programs that hand them out find them.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use types::UTime;

use crate::state::{Batch, State, StateKey, names};

const SERVICE: &str = "auth_entities";

/// An entity's key and capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthEntity {
    /// As keyrings have it; empty for an entity without one.
    pub key: String,
    /// By the service that they are for (`mon`, `osd`).
    pub caps: BTreeMap<String, String>,
}

impl Encode for AuthEntity {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(self.key.as_str()).put(&self.caps);
        });
    }
}
impl Decode for AuthEntity {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "auth entity", |d, _| Ok(Self { key: d.get()?, caps: d.get()? }))
    }
}

/// All entities, by name. A record that does not decode counts as missing.
pub fn all(state: &State) -> BTreeMap<String, AuthEntity> {
    let read = |(name, bytes): (&str, &[u8])| Some((name.to_owned(), AuthEntity::from_bytes(bytes).ok()?));
    names(state, SERVICE).filter_map(read).collect()
}

pub fn get(state: &State, name: &str) -> Option<AuthEntity> {
    state.get(&StateKey::name(SERVICE, name)).and_then(|bytes| AuthEntity::from_bytes(bytes).ok())
}

pub fn put(name: &str, entity: &AuthEntity, batch: &mut Batch) {
    batch.put(StateKey::name(SERVICE, name), entity.to_bytes(0));
}

pub fn remove(name: &str, batch: &mut Batch) {
    batch.delete(StateKey::name(SERVICE, name));
}

/// A new key in the form of keyrings: a CryptoKey of type AES (u16 type, when it was made, u16 length, 16 bytes), in
/// base64. The bytes come from the process's random seed, so that nobody else can make them.
pub fn new_key(seed: &[u8; 32], name: &str, now: UTime) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(seed).unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(&now.as_nanos().to_le_bytes());
    mac.update(name.as_bytes());
    let secret = mac.finalize().into_bytes();
    let mut bytes = vec![1, 0];
    bytes.extend(now.sec.to_le_bytes());
    bytes.extend(now.nsec.to_le_bytes());
    bytes.extend([16, 0]);
    bytes.extend(&secret[..16]);
    base64(&bytes)
}

/// Whether a text is a key as [`new_key`] makes them.
pub fn is_key(text: &str) -> bool {
    text.len() == 40 && text.ends_with("==") && text[..38].bytes().all(|b| DIGITS.contains(&b))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_looks_like_ceph_s_and_depends_on_the_seed() {
        assert_eq!(base64(b"Man"), "TWFu");
        assert_eq!((base64(b"Ma"), base64(b"M")), ("TWE=".into(), "TQ==".into()));
        let now = UTime { sec: 1_800_000_000, nsec: 5 };
        let key = new_key(&[1; 32], "client.x", now);
        assert!(is_key(&key), "{key}");
        assert!(key.starts_with("AQ"));
        assert_ne!(key, new_key(&[2; 32], "client.x", now));
        assert_ne!(key, new_key(&[1; 32], "client.y", now));
        assert!(!is_key("AQ") && !is_key(&"!".repeat(40)));
    }
}
