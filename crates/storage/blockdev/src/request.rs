//! What a device is asked and what it answers.

use buffer::{Piece, Rope};
use types::Errno;

/// What a caller recognises its request by. The device only hands it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// A request. Requests in flight may be done in any order; only a flush's completion says that writes which completed
/// before it was asked for are durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Bytes `offset..offset + len`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// Puts bytes at an offset.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Rope,
    },
    /// Makes completed writes durable.
    Flush,
}

/// A request's outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Bytes read.
    Read {
        /// The request's token.
        token: Token,
        /// As many as asked for.
        data: Piece,
    },
    /// A write is done: later reads see it, a loss of power may take it back.
    Written {
        /// The request's token.
        token: Token,
    },
    /// A flush is done.
    Flushed {
        /// The request's token.
        token: Token,
    },
    /// The device failed the request.
    Failed {
        /// The request's token.
        token: Token,
        /// Its error.
        errno: Errno,
    },
}
