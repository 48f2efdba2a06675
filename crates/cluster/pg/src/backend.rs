//! How a PG's changes become durable. Nothing above this seam counts copies.

use store::{Token, Transaction};

use crate::PgEffect;
use crate::out::Out;

/// A change of the PG: its own transaction, whole.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Names it.
    pub token: Token,
    /// What is to become durable.
    pub txn: Transaction,
}

/// Makes changes durable wherever the pool asks for.
pub(crate) trait Backend: std::fmt::Debug + Send {
    /// Takes a change; they take effect in the order submitted.
    fn submit(&mut self, change: Submission, out: &mut Out<'_>);

    /// The local store has made a change durable. The change that now is durable everywhere, if one is: changes become
    /// so in the order submitted.
    fn on_local_commit(&mut self, token: Token) -> Option<Token>;
}

/// One copy: the local store's.
#[derive(Debug, Default)]
pub(crate) struct LocalBackend;

impl Backend for LocalBackend {
    fn submit(&mut self, change: Submission, out: &mut Out<'_>) {
        let Submission { token, txn, .. } = change;
        out.push(PgEffect::Queue { token, txn });
    }

    fn on_local_commit(&mut self, token: Token) -> Option<Token> {
        Some(token)
    }
}
