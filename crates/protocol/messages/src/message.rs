//! All messages as one enum, and the way between it and segments.

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use types::EntityType;

use crate::codec::{Envelope, Payload};
use crate::{MessageHeader, Priority, RawMessage, kind};

macro_rules! messages {
    (inline [$($(#[$idoc:meta])* $i:ident),* $(,)?] boxed [$($(#[$bdoc:meta])* $b:ident),* $(,)?]) => {
        /// A message. Types that we don't know come as [`Message::Unknown`] and go out as they came.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Message {
            $(#[doc = concat!("See [`crate::", stringify!($i), "`].")] $i(crate::$i),)*
            $(#[doc = concat!("See [`crate::", stringify!($b), "`].")] $b(Box<crate::$b>),)*
            /// A type of message that this crate does not know.
            Unknown {
                /// Its type number.
                kind: u16,
                /// The segments.
                raw: Box<RawMessage>,
            },
        }

        impl Message {
            /// Every type number that this crate decodes.
            pub const KNOWN: &'static [u16] = &[
                $(<crate::$i as Payload>::KIND,)*
                $(<crate::$b as Payload>::KIND,)*
            ];

            /// The type number.
            pub fn kind(&self) -> u16 {
                match self {
                    $(Self::$i(_) => <crate::$i as Payload>::KIND,)*
                    $(Self::$b(_) => <crate::$b as Payload>::KIND,)*
                    Self::Unknown { kind, .. } => *kind,
                }
            }

            /// Bytes that the message carries for others: objects' data, encoded maps. The rest of it, some hundred bytes, is
            /// not counted.
            pub fn payload_bytes(&self) -> usize {
                match self {
                    $(Self::$i(m) => Payload::payload_bytes(m),)*
                    $(Self::$b(m) => Payload::payload_bytes(&**m),)*
                    Self::Unknown { raw, .. } => raw.front.len() + raw.middle.len() + raw.data.len(),
                }
            }

            fn decode_counting(raw: &RawMessage) -> Result<(Self, usize), DecodeError> {
                match raw.header.kind {
                    $(<crate::$i as Payload>::KIND => {
                        decode(raw).map(|(m, unknown)| (Self::$i(m), unknown))
                    })*
                    $(<crate::$b as Payload>::KIND => {
                        decode(raw).map(|(m, unknown)| (Self::$b(Box::new(m)), unknown))
                    })*
                    kind => Ok((Self::Unknown { kind, raw: Box::new(raw.clone()) }, 0)),
                }
            }

            /// The segments, with encodings as a peer of these features reads them. The session still sets seq and
            /// ack_seq; the priority is the message's own or [`Priority::DEFAULT`].
            pub fn encode(&self, features: u64) -> RawMessage {
                match self {
                    $(Self::$i(m) => encode(m, features),)*
                    $(Self::$b(m) => encode(&**m, features),)*
                    Self::Unknown { raw, .. } => (**raw).clone(),
                }
            }
        }

        $(impl From<crate::$i> for Message {
            fn from(m: crate::$i) -> Self {
                Self::$i(m)
            }
        })*
        $(impl From<crate::$b> for Message {
            fn from(m: crate::$b) -> Self {
                Self::$b(Box::new(m))
            }
        })*
    };
}
messages! {
    inline [
        Command, CommandReply, Config, FsMap, FsMapUser, GetConfig, GetPoolStats, GetPoolStatsReply, KvData, Log, LogAck,
        MgrClose, MgrCommand, MgrCommandReply, MgrConfigure, MgrMap, MgrOpen, MgrUpdate, MonCommand, MonCommandAck, MonGetMap, MonGetOsdMap,
        MonGetPurgedSnaps, MonGetPurgedSnapsReply, MonGetVersion, MonGetVersionReply, MonMap, MonSubscribe,
        MonSubscribeAck, OsdAlive, OsdBeacon, OsdFailure, OsdFull, OsdMap, OsdMarkMeDead, OsdMarkMeDown,
        OsdPgCreate2, OsdPgCreated, OsdPgReadyToMerge, OsdPgTemp, OsdPing, OsdScrub2, PgInfoQuery, PgInfoReply, PgStatsAck, Ping, PoolOp,
        PoolOpReply, RemoveSnaps, ServiceMap, Statfs, StatfsReply, WatchNotify,
    ]
    boxed [MgrReport, OsdBackoff, OsdBoot, OsdOp, OsdOpReply, PgStats]
}

impl Message {
    /// Reads a message. Every error is the peer's fault. A front written by a newer version may hold more than we
    /// know; that is skipped.
    pub fn decode(raw: &RawMessage) -> Result<Self, DecodeError> {
        Ok(Self::decode_counting(raw)?.0)
    }

    /// As [`Message::decode`], and nothing may be left over anywhere.
    pub fn decode_exact(raw: &RawMessage) -> Result<Self, DecodeError> {
        match Self::decode_counting(raw)? {
            (message, 0) => Ok(message),
            (_, unknown) => Err(DecodeError::LeftOver(unknown)),
        }
    }

    /// As [`Message::encode`], with the priority that a sender of this type gives to messages without their own.
    pub fn encode_from(&self, sender: EntityType, features: u64) -> RawMessage {
        let mut raw = self.encode(features);
        if raw.header.priority == Priority::DEFAULT {
            raw.header.priority = Priority::of_sender(sender);
        }
        raw
    }

    /// Ceph's name of the message's type, for logs.
    pub fn name(&self) -> &'static str {
        kind::name(self.kind()).unwrap_or("unknown message")
    }
}

fn small(version: u16) -> u8 {
    u8::try_from(version).unwrap_or(u8::MAX)
}

fn decode<T: Payload>(raw: &RawMessage) -> Result<(T, usize), DecodeError> {
    let what = kind::name(T::KIND).unwrap_or("message");
    let MessageHeader { version, compat_version, tid, data_offset, .. } = raw.header;
    if compat_version > T::VERSION {
        return Err(DecodeError::TooNew { what, compat: small(compat_version), known: small(T::VERSION) });
    }
    if version < T::OLDEST {
        return Err(DecodeError::TooOld { what, version: small(version) });
    }
    let mut env = Envelope { version, tid, data_offset, data: raw.data.clone() };
    let mut d = Decoder::new(&raw.front);
    let message = T::decode(&mut d, &mut env)?;
    if version <= T::VERSION {
        d.finish()?;
    }
    match raw.middle.len() + env.data.len() {
        0 => Ok((message, d.unknown_bytes() + d.remaining())),
        n => Err(DecodeError::LeftOver(n)),
    }
}

fn encode<T: Payload>(message: &T, features: u64) -> RawMessage {
    let mut env = Envelope { version: T::VERSION, ..Envelope::default() };
    // Room for an operation's reply, so that it does not grow from nothing.
    let mut e = Encoder::with_capacity(features, 512);
    message.encode(&mut e, &mut env);
    let header = MessageHeader {
        tid: env.tid,
        kind: T::KIND,
        priority: T::PRIORITY.unwrap_or(Priority::DEFAULT),
        version: env.version,
        data_offset: env.data_offset,
        flags: MessageHeader::COMPLETE,
        compat_version: T::COMPAT,
        ..MessageHeader::default()
    };
    RawMessage { header, front: e.into_bytes().into(), middle: Piece::empty(), data: env.data }
}
