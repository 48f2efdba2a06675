//! The first bytes of a connection: `ceph v2\n`, a le16 length, supported and required messenger features.

use encoding::{Decode, Decoder, Encoder};

use crate::CloseReason;

const PREFIX: &[u8] = b"ceph v2\n";
/// How a peer of messenger version 1 begins (its banner is `ceph v027`).
const PREFIX_V1: &[u8] = b"ceph v0";
const HEAD_LEN: usize = PREFIX.len() + 2;
/// Two feature words are 16 bytes; a later release may add some.
const PAYLOAD_MAX: usize = 256;
/// Revision 2.1. Compression is the next bit; we don't offer it, so that peers don't ask for it.
const REVISION_1: u64 = 1;
/// Ours: the sender takes the messages that Loligo's OSDs have for each other (`messages::kind::is_ours`). Ceph counts its
/// features from the lowest bit on, and none of its programs minds one that it does not know.
const PEER_MESSAGES: u64 = 1 << 63;

/// Our banner, of an OSD or another daemon.
pub(crate) fn encode(of_osd: bool) -> Vec<u8> {
    let supported = if of_osd { REVISION_1 | PEER_MESSAGES } else { REVISION_1 };
    let mut e = Encoder::new(0);
    e.raw(PREFIX).put(&16u16).put(&supported).put(&0u64);
    e.into_bytes()
}

/// Reads the peer's banner as it comes.
#[derive(Debug, Default)]
pub(crate) struct BannerReader {
    bytes: Vec<u8>,
    /// The peer's messenger features, once the banner is whole.
    supported: u64,
}

impl BannerReader {
    /// Bytes still missing, as far as is known.
    fn missing(&self) -> usize {
        self.len() - self.bytes.len()
    }

    /// Takes what belongs to the banner: how many bytes, and whether it is whole. What cannot become a banner is
    /// refused at its first wrong byte.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), CloseReason> {
        let mut taken = 0;
        while taken < bytes.len() && self.missing() > 0 {
            let n = self.missing().min(bytes.len() - taken);
            self.bytes.extend_from_slice(&bytes[taken..taken + n]);
            taken += n;
            self.check_start()?;
        }
        if self.missing() > 0 {
            return Ok((taken, false));
        }
        self.check_features()?;
        Ok((taken, true))
    }

    /// Whether the peer takes the messages of Loligo's own.
    pub(crate) fn takes_peer_messages(&self) -> bool {
        self.supported & PEER_MESSAGES != 0
    }

    /// The whole banner: part of what is signed.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes of the banner, as far as is known.
    fn len(&self) -> usize {
        match self.bytes.get(PREFIX.len()..HEAD_LEN) {
            Some(&[low, high]) => HEAD_LEN + usize::from(u16::from_le_bytes([low, high])),
            _ => HEAD_LEN,
        }
    }

    fn check_start(&self) -> Result<(), CloseReason> {
        let got = &self.bytes[..self.bytes.len().min(PREFIX.len())];
        if PREFIX.starts_with(got) {
            return match self.len() - HEAD_LEN {
                n if n > PAYLOAD_MAX => Err(CloseReason::Banner("absurdly long")),
                n if self.bytes.len() >= HEAD_LEN && n < 16 => Err(CloseReason::Banner("too short")),
                _ => Ok(()),
            };
        }
        match got.starts_with(PREFIX_V1) {
            true => Err(CloseReason::MessengerV1),
            false => Err(CloseReason::NotMessenger(got.to_vec())),
        }
    }

    fn check_features(&mut self) -> Result<(), CloseReason> {
        let mut d = Decoder::new(self.bytes.get(HEAD_LEN..).unwrap_or(&[]));
        let words = (u64::decode(&mut d), u64::decode(&mut d));
        let (Ok(supported), Ok(required)) = words else {
            return Err(CloseReason::Banner("too short"));
        };
        self.supported = supported;
        match (supported & REVISION_1, required & !REVISION_1) {
            (0, _) => Err(CloseReason::Revision { supported }),
            (_, 0) => Ok(()),
            _ => Err(CloseReason::RequiredByPeer { required }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_peer_messages(banner: &[u8]) -> bool {
        let mut reader = BannerReader::default();
        assert_eq!(reader.feed(banner), Ok((banner.len(), true)));
        reader.takes_peer_messages()
    }

    #[test]
    fn osds_alone_announce_the_messages_of_loligos_own() {
        assert!(takes_peer_messages(&encode(true)));
        assert!(!takes_peer_messages(&encode(false)));
        // Ceph 20.2: revision 1 and compression.
        let stock = [b"ceph v2\n\x10\0".to_vec(), 3u64.to_le_bytes().to_vec(), vec![0; 8]].concat();
        assert!(!takes_peer_messages(&stock));
    }
}
