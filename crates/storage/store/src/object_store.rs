//! The trait.

use crate::{ReadOutcome, ReadRequest, StoreError, Transaction};

/// What a caller recognises its request by in a [`Completion`]. The store only hands it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// A request's outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The whole transaction is durable (for [`crate::MemStore`]: applied).
    Committed {
        /// The transaction's token.
        token: Token,
    },
    /// Nothing of the transaction is there, except that after [`StoreError::Io`] in the commit itself the disk decides:
    /// the store has stopped, and shows what it is when it is opened again. Transactions queued after it stand on their own: who depends on a refused
    /// one must check for that.
    Refused {
        /// The transaction's token.
        token: Token,
        error: StoreError,
    },
    /// A read is done.
    Read {
        /// The read's token.
        token: Token,
        /// What was read.
        result: Result<ReadOutcome, StoreError>,
    },
}

impl Completion {
    /// The request's token.
    pub fn token(&self) -> Token {
        match self {
            Self::Committed { token } | Self::Refused { token, .. } | Self::Read { token, .. } => *token,
        }
    }
}

/// A store of objects. Every request gets exactly one [`Completion`].
///
/// Neither [`ObjectStore::queue`] nor [`ObjectStore::read`] waits for a device. Completions are collected with
/// [`ObjectStore::completions`]: a store without threads ([`crate::MemStore`]) has them ready as soon as the request
/// returned, so a pure test asks right away; one with threads calls the waker it was opened with when there are some.
///
/// Order: transactions of one collection take effect, and complete, in the order queued. A read sees every transaction
/// that was queued on its collection before it and none queued after it; the store may delay the read to keep that, and
/// never shows what a loss of power could still take back. Nothing is said about requests of different collections,
/// except that a transaction is atomic across all that it names.
pub trait ObjectStore {
    /// Takes a transaction to be applied and made durable as a whole, or refused as a whole.
    fn queue(&mut self, txn: Transaction, token: Token);

    /// Takes a read.
    fn read(&mut self, request: ReadRequest, token: Token);

    /// Appends what completed since the last call to `out`.
    fn completions(&mut self, out: &mut Vec<Completion>);
}

impl<S: ObjectStore + ?Sized> ObjectStore for Box<S> {
    fn queue(&mut self, txn: Transaction, token: Token) {
        (**self).queue(txn, token);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        (**self).read(request, token);
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        (**self).completions(out);
    }
}
