//! Secrets of cephx: Ceph's CryptoKey, and what is sealed with one.

use std::fmt;

use aes::Aes128;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::UTime;

/// CEPH_CRYPTO_AES: AES-128 in CBC mode.
const TYPE_AES: u16 = 1;
const BLOCK: usize = 16;
/// CEPH_AES_IV: everything that is sealed begins with this vector.
const IV: [u8; BLOCK] = *b"cephsageyudagreg";
/// AUTH_ENC_MAGIC: what was opened with the right key has it.
const MAGIC: u64 = 0xff00_9cad_8826_aa55;
const SEALED_VERSION: u8 = 1;

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("it is not base64")]
    Base64,
    #[error("it is of type {0}; only keys of AES-128 (type 1, they begin with AQ) are supported")]
    Type(u16),
    #[error("its length is not that of a key")]
    Length,
}

/// A secret that two sides share (Ceph's CryptoKey, of type AES). Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptoKey {
    created: UTime,
    secret: [u8; BLOCK],
}

impl CryptoKey {
    /// A key of these bytes.
    pub fn new(created: UTime, secret: [u8; BLOCK]) -> Self {
        Self { created, secret }
    }

    /// Reads a key as keyrings and `ceph auth get-key` have it: base64 of its encoding.
    ///
    /// # Errors
    /// It is none, or one of another cipher.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bytes = base64(text.trim()).ok_or(KeyError::Base64)?;
        match Self::from_bytes(&bytes) {
            Ok(key) => Ok(key),
            Err(DecodeError::BadValue { what: CIPHER, value }) => Err(KeyError::Type(value as u16)),
            Err(_) => Err(KeyError::Length),
        }
    }

    /// The bytes, as the messenger signs with them.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Encrypts a value so that whoever opens it knows whether it had the right key.
    pub(crate) fn seal(&self, value: &impl Encode) -> Vec<u8> {
        let mut e = Encoder::new(0);
        e.put(&SEALED_VERSION).put(&MAGIC).put(value);
        cbc::Encryptor::<Aes128>::new(&self.secret.into(), &IV.into())
            .encrypt_padded_vec::<Pkcs7>(e.as_slice())
    }

    /// Opens what [`CryptoKey::seal`] has made.
    ///
    /// # Errors
    /// It was made with another key, or is cut.
    pub(crate) fn open<T: Decode>(&self, sealed: &[u8], what: &'static str) -> Result<T, DecodeError> {
        let wrong = DecodeError::BadValue { what, value: sealed.len() as u64 };
        let plain = cbc::Decryptor::<Aes128>::new(&self.secret.into(), &IV.into())
            .decrypt_padded_vec::<Pkcs7>(sealed)
            .map_err(|_| wrong.clone())?;
        let mut d = Decoder::new(&plain);
        let (_version, magic): (u8, u64) = (d.get()?, d.get()?);
        if magic == MAGIC { d.get() } else { Err(wrong) }
    }
}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CryptoKey")
    }
}

const CIPHER: &str = "cipher of a CryptoKey";

impl Encode for CryptoKey {
    fn encode(&self, e: &mut Encoder) {
        e.put(&TYPE_AES).put(&self.created).put(&(BLOCK as u16)).raw(&self.secret);
    }
}

impl Decode for CryptoKey {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (kind, created, len): (u16, UTime, u16) = (d.get()?, d.get()?, d.get()?);
        if kind != TYPE_AES {
            return Err(DecodeError::BadValue { what: CIPHER, value: kind.into() });
        }
        if usize::from(len) != BLOCK {
            return Err(DecodeError::BadValue { what: "length of a CryptoKey", value: len.into() });
        }
        Ok(Self { created, secret: d.array("CryptoKey")? })
    }
}

/// The bytes of a text in base64, padded.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() % 4 != 0 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (word, bits) = (word << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ceph-authtool --gen-print-key` of Ceph 16.2 made it.
    const KEY: &str = "AQCgzgNr6fJgKRAA8Y4LVxO9p3MmcKab/6VFbQ==";

    #[test]
    fn a_key_is_read_from_its_text_and_encoded_again() {
        let key = CryptoKey::parse(&format!(" {KEY}\n")).unwrap();
        assert_eq!(key.to_bytes(0), base64(KEY).unwrap());
        assert_eq!(format!("{key:?}"), "CryptoKey", "logs do not have it");
    }

    #[test]
    fn what_is_no_key_says_why() {
        for (text, why) in [
            ("not base64!", KeyError::Base64),
            ("AQ==", KeyError::Length),
            (&KEY[..36], KeyError::Length),
            // Type 2, which came with 20.2.4.
            (&format!("Ag{}", &KEY[2..]), KeyError::Type(2)),
        ] {
            assert_eq!(CryptoKey::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_only() {
        let key = CryptoKey::new(UTime::default(), [7; 16]);
        let sealed = key.seal(&0x1234_u64);
        assert_eq!(sealed.len() % 16, 0);
        assert_eq!(key.open(&sealed, "a number"), Ok(0x1234_u64));
        assert!(CryptoKey::new(UTime::default(), [8; 16]).open::<u64>(&sealed, "a number").is_err());
        for len in 0..sealed.len() {
            assert!(key.open::<u64>(&sealed[..len], "a number").is_err(), "{len}");
        }
    }
}
