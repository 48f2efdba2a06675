//! The seam between a PG and its copies: how changes become durable wherever the pool asks for, and how objects are
//! read and listed. Nothing above it counts copies.

use std::collections::VecDeque;

use store::{Peek, ReadOutcome, ReadRequest, StoreError, Token, Transaction};

use crate::out::Out;
use crate::{Change, LogLimits, PgEffect, Records};

/// Bits of a token that a PG gives its store: the OSD has the others. It ends when a token has more.
pub const TOKEN_BITS: u32 = 44;

/// The bit that every token of a backend's own has, and no token of the PG's: enough of those are left for 150,000
/// requests a second through a year and a half.
pub const BACKEND_TOKEN_BIT: u64 = 1 << (TOKEN_BITS - 1);

/// A read's answer.
pub type ReadResult = Result<ReadOutcome, StoreError>;

/// Makes a PG's changes durable on every copy that counts, and reads and lists its objects.
///
/// Changes are named by tokens that ascend, and take effect in the order submitted. Each is reported once, as durable or
/// as undone, unless the backend fails; also one of an interval that has ended.
///
/// A backend may queue and read under the PG's token, and under others of [`TOKEN_BITS`] bits that have
/// [`BACKEND_TOKEN_BIT`].
pub trait Backend: std::fmt::Debug + Send {
    /// Takes a change. Applies it to this OSD's records at once: the next change builds on it.
    fn submit(&mut self, token: Token, change: Change, ctx: &mut Context<'_, '_>);

    /// A transaction that the backend queued is durable in the store.
    fn on_committed(&mut self, token: Token, ctx: &mut Context<'_, '_>) -> Progress;

    /// The store refused a transaction that the backend queued, and refuses what follows until it is acknowledged.
    fn on_refused(&mut self, token: Token, error: StoreError, ctx: &mut Context<'_, '_>) -> Progress;

    /// Whether this OSD's store has still to answer a transaction of a change, or takes no transactions until a refusal
    /// is acknowledged. What other copies have to say does not count: they may be gone.
    fn awaits_store(&self) -> bool;

    /// Another interval began: requests of the old one are not answered. What is read is dropped; changes go on.
    fn on_interval(&mut self);

    /// Reads of an object, or lists the PG's objects, as every submitted change leaves them.
    fn read(&mut self, token: Token, request: ReadRequest, ctx: &mut Context<'_, '_>);

    /// What [`Backend::read`] would give, if memory alone holds it. `records` are this copy's: they say how far
    /// it is behind.
    fn peek(&mut self, request: &ReadRequest, records: &Records, memory: &mut dyn Peek)
    -> Option<ReadResult>;

    /// The store answered a read. The PG's read that is answered now, if one is: a read that is not the backend's (the
    /// PG reads its own records past it) is given back as it is.
    fn on_read_done(
        &mut self,
        token: Token,
        result: ReadResult,
        ctx: &mut Context<'_, '_>,
    ) -> Option<(Token, ReadResult)>;
}

/// What a backend reports of changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing that the PG waits for.
    Nothing,
    /// Every change up to this one is durable on every copy that counts.
    Durable { through: Token },
    /// The change could not be made. It and all changes after it are on no copy, and never will be; the stores take
    /// changes again. Only the PG's own records are still to go back.
    Undone { from: Token, error: StoreError },
    /// This OSD's copy can't go on.
    Failed(StoreError),
    /// The store reported what can't be.
    Broken(&'static str),
}

/// What a backend works with while it is called.
#[derive(Debug)]
pub struct Context<'a, 'o> {
    /// This OSD's.
    pub records: &'a mut Records,
    pub limits: &'a LogLimits,
    pub(crate) out: &'a mut Out<'o>,
}

impl Context<'_, '_> {
    pub fn queue(&mut self, token: Token, txn: Transaction) {
        self.out.push(PgEffect::Queue { token, txn });
    }

    /// Tells the store that the refused transaction `token`, and what was built on it, is undone.
    pub fn acknowledge(&mut self, token: Token) {
        self.out.push(PgEffect::Acknowledge { token });
    }

    pub fn read(&mut self, token: Token, request: ReadRequest) {
        self.out.push(PgEffect::Read { token, request });
    }
}

/// One copy: this OSD's.
#[derive(Debug, Default)]
pub struct LocalBackend {
    in_flight: VecDeque<Token>,
    /// Changes after one that the store refused, whose own refusals are still to come.
    undone: VecDeque<Token>,
}

impl Backend for LocalBackend {
    fn submit(&mut self, token: Token, change: Change, ctx: &mut Context<'_, '_>) {
        self.in_flight.push_back(token);
        let txn = ctx.records.apply(change, ctx.limits);
        ctx.queue(token, txn);
    }

    fn on_committed(&mut self, token: Token, _: &mut Context<'_, '_>) -> Progress {
        if self.in_flight.front() == Some(&token) {
            self.in_flight.pop_front();
            return Progress::Durable { through: token };
        }
        Progress::Broken(match self.undone.contains(&token) {
            true => "the store made durable what followed a refusal",
            false => "a change became durable that is not in flight",
        })
    }

    fn on_refused(&mut self, token: Token, error: StoreError, ctx: &mut Context<'_, '_>) -> Progress {
        if self.undone.front() == Some(&token) {
            self.undone.pop_front();
            return Progress::Nothing;
        }
        if self.in_flight.front() != Some(&token) {
            return Progress::Broken("the store refused a change that is not in flight");
        }
        if !concerns_this_change_alone(&error) {
            return Progress::Failed(error);
        }
        self.in_flight.pop_front();
        self.undone.append(&mut self.in_flight);
        ctx.acknowledge(token);
        Progress::Undone { from: token, error }
    }

    fn awaits_store(&self) -> bool {
        !(self.in_flight.is_empty() && self.undone.is_empty())
    }

    // Reads are the store's to answer, each by itself.
    fn on_interval(&mut self) {}

    fn read(&mut self, token: Token, request: ReadRequest, ctx: &mut Context<'_, '_>) {
        ctx.read(token, request);
    }

    fn peek(&mut self, request: &ReadRequest, _: &Records, memory: &mut dyn Peek) -> Option<ReadResult> {
        memory.peek_at(request)
    }

    fn on_read_done(
        &mut self,
        token: Token,
        result: ReadResult,
        _: &mut Context<'_, '_>,
    ) -> Option<(Token, ReadResult)> {
        Some((token, result))
    }
}

/// Whether a refusal says nothing of the rest of the store, and the PG built a proper transaction.
fn concerns_this_change_alone(error: &StoreError) -> bool {
    error.is_local() || matches!(error, StoreError::ObjectTooLarge { .. })
}
