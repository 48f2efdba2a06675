//! How a message's struct and its segments become each other.

use buffer::Rope;
use encoding::{DecodeError, Decoder, Encoder};

/// The parts of a message outside its front.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    /// The header's version: set when decoding; when encoding the payload may lower it for the peer.
    pub version: u16,
    /// The header's transaction id.
    pub tid: u64,
    /// The header's data offset.
    pub data_offset: u16,
    /// The data segment.
    pub data: Rope,
}

/// A message's struct.
pub(crate) trait Payload: Sized {
    /// Its type number.
    const KIND: u16;
    /// The newest version of the front that we know and (unless the peer lacks features) write.
    const VERSION: u16;
    /// The oldest version that a reader of ours must know.
    const COMPAT: u16;
    /// The oldest version that we read.
    const OLDEST: u16 = Self::VERSION;
    /// The message's priority, where it does not depend on the sender.
    const PRIORITY: Option<u16> = None;

    /// Reads the front and takes from `env` what belongs to the struct. Data left in `env` is an error.
    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError>;

    /// Writes the front, and the parts outside it into `env`.
    fn encode(&self, e: &mut Encoder, env: &mut Envelope);

    /// Bytes that it carries for others: objects' data, encoded maps. What has a bounded size is not counted.
    fn payload_bytes(&self) -> usize {
        0
    }
}

/// A [`Payload`] whose front is the named fields in this order. `outside` names fields that the header or the data
/// segment carries: `tid`, `data`, `data_offset`.
macro_rules! payload {
    ($t:ident = $kind:ident, version $v:literal, compat $c:literal, [$($f:ident),* $(,)?]) => {
        $crate::codec::payload!($t = $kind, version $v, compat $c, [$($f),*], outside []);
    };
    ($t:ident = $kind:ident, version $v:literal, compat $c:literal, [$($f:ident),* $(,)?],
     outside [$($o:ident),* $(,)?]) => {
        impl $crate::codec::Payload for $t {
            const KIND: u16 = $crate::kind::$kind;
            const VERSION: u16 = $v;
            const COMPAT: u16 = $c;

            #[allow(unused_variables)]
            fn decode(
                d: &mut encoding::Decoder<'_>,
                env: &mut $crate::codec::Envelope,
            ) -> Result<Self, encoding::DecodeError> {
                $(let $f = d.get()?;)*
                Ok(Self { $($f,)* $($o: std::mem::take(&mut env.$o),)* })
            }

            #[allow(unused_variables)]
            fn encode(&self, e: &mut encoding::Encoder, env: &mut $crate::codec::Envelope) {
                $(e.put(&self.$f);)*
                $(env.$o = self.$o.clone();)*
            }
        }
    };
}
pub(crate) use payload;

/// [`encoding::Encode`] and [`encoding::Decode`] of a struct whose encoding is its fields in this order, bare or
/// (`version V, compat C`) in an envelope that is exactly of version V or newer.
macro_rules! fields {
    ($t:ident [$($f:ident),* $(,)?]) => {
        impl encoding::Encode for $t {
            fn encode(&self, e: &mut encoding::Encoder) {
                $(e.put(&self.$f);)*
            }
        }
        impl encoding::Decode for $t {
            fn decode(d: &mut encoding::Decoder<'_>) -> Result<Self, encoding::DecodeError> {
                $(let $f = d.get()?;)*
                Ok(Self { $($f,)* })
            }
        }
    };
    ($t:ident $ceph:literal version $v:literal, compat $c:literal, [$($f:ident),* $(,)?]) => {
        impl encoding::Encode for $t {
            fn encode(&self, e: &mut encoding::Encoder) {
                e.versioned($v, $c, |e| {
                    $(e.put(&self.$f);)*
                });
            }
        }
        impl encoding::Decode for $t {
            fn decode(d: &mut encoding::Decoder<'_>) -> Result<Self, encoding::DecodeError> {
                d.versioned($v, $ceph, |d, version| {
                    if version < $v {
                        return Err(encoding::DecodeError::TooOld { what: $ceph, version });
                    }
                    $(let $f = d.get()?;)*
                    Ok(Self { $($f,)* })
                })
            }
        }
    };
}
pub(crate) use fields;
