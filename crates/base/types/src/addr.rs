//! Addresses (Ceph's entity_addr_t and entity_addrvec_t).

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Which messenger protocol an address speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AddrType {
    /// No address.
    #[default]
    None,
    /// Messenger version 1.
    Legacy,
    /// Messenger version 2.
    Msgr2,
    /// Either (blocklist entries).
    Any,
    /// An address range (blocklist entries).
    Cidr,
}

impl AddrType {
    /// The wire's number.
    fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Legacy => 1,
            Self::Msgr2 => 2,
            Self::Any => 3,
            Self::Cidr => 4,
        }
    }
}

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// An address with its nonce, which distinguishes two instances on one address.
///
/// The order is that of Ceph's entity_addr_t, which compares memory: maps are encoded in it, and two peers that dial each
/// other at once decide by it whose connection stays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntityAddr {
    /// The protocol.
    pub kind: AddrType,
    /// The instance.
    pub nonce: u32,
    /// Where; `None` is the blank address.
    pub socket: Option<SocketAddr>,
}

impl EntityAddr {
    /// A messenger version 2 address.
    pub fn v2(socket: SocketAddr, nonce: u32) -> Self {
        Self { kind: AddrType::Msgr2, nonce, socket: Some(socket) }
    }

    /// The bytes of Ceph's structure on a little-endian machine: type, nonce, then a sockaddr of the largest size.
    fn memory(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        bytes[..4].copy_from_slice(&self.kind.number().to_le_bytes());
        bytes[4..8].copy_from_slice(&self.nonce.to_le_bytes());
        let Some(socket) = self.socket else { return bytes };
        let family = if socket.is_ipv4() { AF_INET } else { AF_INET6 };
        bytes[8..10].copy_from_slice(&family.to_le_bytes());
        bytes[10..12].copy_from_slice(&socket.port().to_be_bytes());
        match socket {
            SocketAddr::V4(a) => bytes[12..16].copy_from_slice(&a.ip().octets()),
            SocketAddr::V6(a) => {
                bytes[12..16].copy_from_slice(&a.flowinfo().to_le_bytes());
                bytes[16..32].copy_from_slice(&a.ip().octets());
                bytes[32..].copy_from_slice(&a.scope_id().to_le_bytes());
            }
        }
        bytes
    }

    fn prefix(&self) -> &'static str {
        match self.kind {
            AddrType::None => "-",
            AddrType::Legacy => "v1:",
            AddrType::Msgr2 => "v2:",
            AddrType::Any => "",
            AddrType::Cidr => "cidr:",
        }
    }
}

impl Ord for EntityAddr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.memory().cmp(&other.memory())
    }
}
impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EntityAddr {
    /// Ceph's form: `v2:127.0.0.1:6800/1234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket {
            None => f.write_str("-"),
            Some(socket) => write!(f, "{}{socket}/{}", self.prefix(), self.nonce),
        }
    }
}
impl fmt::Debug for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityAddr {
    fn encode(&self, e: &mut Encoder) {
        e.put(&1u8).versioned(1, 1, |e| {
            e.put(&self.kind.number()).put(&self.nonce);
            encode_sockaddr(e, self.socket.as_ref());
        });
    }
}

/// Length and `struct sockaddr`: family in little-endian, port and address in network order.
fn encode_sockaddr(e: &mut Encoder, socket: Option<&SocketAddr>) {
    match socket {
        // A blank address is an AF_UNSPEC sockaddr of the largest size.
        None => e.put(&28u32).raw(&[0; 28]),
        Some(SocketAddr::V4(a)) => {
            e.put(&16u32).put(&AF_INET).raw(&a.port().to_be_bytes()).raw(&a.ip().octets()).raw(&[0; 8])
        }
        Some(SocketAddr::V6(a)) => {
            e.put(&28u32).put(&AF_INET6).raw(&a.port().to_be_bytes());
            e.put(&a.flowinfo()).raw(&a.ip().octets()).put(&a.scope_id())
        }
    };
}

impl Decode for EntityAddr {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            0 => decode_legacy(d),
            1 => decode_body(d),
            marker => Err(DecodeError::BadValue { what: "entity_addr_t marker", value: marker.into() }),
        }
    }
}

fn decode_body(d: &mut Decoder<'_>) -> Result<EntityAddr, DecodeError> {
    d.versioned(1, "entity_addr_t", |d, _| {
        let kind = match d.get::<u32>()? {
            0 => AddrType::None,
            1 => AddrType::Legacy,
            2 => AddrType::Msgr2,
            3 => AddrType::Any,
            4 => AddrType::Cidr,
            n => return Err(DecodeError::BadValue { what: "entity_addr_t type", value: n.into() }),
        };
        let nonce = d.get()?;
        let bytes = d.blob("sockaddr")?;
        Ok(EntityAddr { kind, nonce, socket: decode_sockaddr(bytes, false)? })
    })
}

/// The form before MSG_ADDR2: three more marker bytes, nonce, a 128-byte sockaddr_storage with a big-endian family.
fn decode_legacy(d: &mut Decoder<'_>) -> Result<EntityAddr, DecodeError> {
    d.take(3, "legacy entity_addr_t")?;
    let nonce = d.get()?;
    let socket = decode_sockaddr(d.take(128, "sockaddr_storage")?, true)?;
    let kind = if socket.is_some() { AddrType::Legacy } else { AddrType::None };
    Ok(EntityAddr { kind, nonce, socket })
}

fn decode_sockaddr(bytes: &[u8], family_is_big_endian: bool) -> Result<Option<SocketAddr>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut d = Decoder::new(bytes);
    let family: [u8; 2] = d.array("sockaddr family")?;
    let family = if family_is_big_endian { u16::from_be_bytes(family) } else { u16::from_le_bytes(family) };
    if family == 0 {
        return Ok(None);
    }
    let port = u16::from_be_bytes(d.array("sockaddr port")?);
    match family {
        AF_INET => {
            let ip: [u8; 4] = d.array("sockaddr_in")?;
            Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port)))
        }
        AF_INET6 => {
            let flow = d.get()?;
            let ip: [u8; 16] = d.array("sockaddr_in6")?;
            Ok(Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, d.get()?).into()))
        }
        n => Err(DecodeError::BadValue { what: "sockaddr family", value: n.into() }),
    }
}

/// All addresses of one instance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    /// The messenger version 2 address, if there is one.
    pub fn v2(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|a| a.kind == AddrType::Msgr2)
    }
}

impl From<EntityAddr> for EntityAddrVec {
    fn from(addr: EntityAddr) -> Self {
        Self(vec![addr])
    }
}

impl fmt::Display for EntityAddrVec {
    /// One address bare, several in brackets: `[v2:…,v1:…]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            return one.fmt(f);
        }
        f.write_str("[")?;
        for (i, addr) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            addr.fmt(f)?;
        }
        f.write_str("]")
    }
}
impl fmt::Debug for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, e: &mut Encoder) {
        e.put(&2u8).put(&self.0);
    }
}
impl Decode for EntityAddrVec {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            0 => Ok(Self(vec![decode_legacy(d)?])),
            1 => Ok(Self(vec![decode_body(d)?])),
            2 => Ok(Self(d.get()?)),
            marker => Err(DecodeError::BadValue { what: "entity_addrvec_t marker", value: marker.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_address_is_28_zeros_as_ceph_writes_it() {
        let bytes = EntityAddr::default().to_bytes(!0);
        assert_eq!(bytes[..7], [1, 1, 1, 40, 0, 0, 0]);
        assert_eq!(bytes[15..19], [28, 0, 0, 0]);
        assert_eq!(bytes.len(), 7 + 12 + 28);
    }

    #[test]
    fn addresses_come_back() {
        for text in ["127.0.0.1:3300", "[::1]:6800"] {
            let addr = EntityAddr::v2(text.parse().unwrap(), 7);
            assert_eq!(EntityAddr::from_bytes_exact(&addr.to_bytes(!0)), Ok(addr));
            assert_eq!(addr.to_string(), format!("v2:{text}/7"));
            let vec = EntityAddrVec(vec![addr, EntityAddr::default()]);
            assert_eq!(EntityAddrVec::from_bytes_exact(&vec.to_bytes(!0)), Ok(vec));
        }
    }

    /// Each pair: the lower address first, as memcmp of Ceph's entity_addr_t has it on a little-endian machine.
    #[test]
    fn addresses_are_ordered_as_they_lie_in_ceph_s_memory() {
        let addr =
            |kind, socket: &str, nonce| EntityAddr { kind, nonce, socket: Some(socket.parse().unwrap()) };
        let v2 = |socket, nonce| addr(AddrType::Msgr2, socket, nonce);
        for (lower, higher) in [
            (addr(AddrType::Legacy, "10.0.0.9:9", 9), v2("10.0.0.1:1", 1)),
            (v2("10.0.0.9:6800", 1), v2("10.0.0.1:1", 2)),
            // The nonce's low byte counts most.
            (v2("10.0.0.1:6800", 0x0200), v2("10.0.0.1:6800", 0x0101)),
            // The port counts before the host, high byte first.
            (v2("10.0.0.9:6800", 1), v2("10.0.0.1:6801", 1)),
            (v2("10.0.0.1:255", 1), v2("10.0.0.1:256", 1)),
            (v2("10.0.0.1:6800", 1), v2("10.0.0.9:6800", 1)),
            // The family counts before the port.
            (v2("10.0.0.9:6801", 1), v2("[::1]:6800", 1)),
            (v2("[::1]:6800", 1), v2("[::2]:6800", 1)),
            (EntityAddr { kind: AddrType::Msgr2, nonce: 1, socket: None }, v2("0.0.0.0:0", 1)),
        ] {
            assert!(lower < higher, "{lower} {higher}");
            assert!(higher > lower && lower != higher, "{lower} {higher}");
        }
    }
}
