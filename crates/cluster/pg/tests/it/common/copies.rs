//! A backend of several copies in one process: each has records and a store of its own, a change is durable when every
//! copy has it, and what a copy says is heard late, so that several changes become durable at once.
//!
//! A token of another copy has the backend's bit and names the copy below that; the rig gives each copy's transactions and reads to that copy's store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ops::StatsDelta;
use pg::{BACKEND_TOKEN_BIT, Backend, Before, Change, Context, Progress, ReadResult, Records, TOKEN_BITS};
use store::{Fault, Peek, ReadRequest, StoreError, Token, Transaction};
use types::{GHObject, SplitMix64};

use super::pgid;

const COPY_SHIFT: u32 = TOKEN_BITS - 4;
const COPY_MASK: u64 = 7;
/// Marks the transaction by which a copy is given the primary's info before a change, as activation does.
const SYNC: u64 = 1 << (COPY_SHIFT - 1);
/// Not a transaction's token: what the copies have said is heard now.
pub const HEAR: Token = Token(u64::MAX);

/// Who makes a change durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    /// The store alone.
    One,
    /// Three copies, and one that only keeps the log, for as long as no power is lost.
    Several { seed: u64 },
}

impl Copies {
    /// Copies that have all objects.
    pub fn whole(self) -> usize {
        match self {
            Self::One => 1,
            Self::Several { .. } => 3,
        }
    }
}

pub fn copy_of(token: Token) -> usize {
    match token.0 & BACKEND_TOKEN_BIT {
        0 => 0,
        _ => (token.0 >> COPY_SHIFT & COPY_MASK) as usize,
    }
}

/// The change that a copy's token belongs to.
pub fn change_of(token: Token) -> u64 {
    token.0 & (SYNC - 1)
}

fn at_copy(token: Token, copy: usize) -> Token {
    match copy {
        0 => token,
        _ => Token(token.0 | BACKEND_TOKEN_BIT | (copy as u64) << COPY_SHIFT),
    }
}

pub fn is_sync(token: Token) -> bool {
    token.0 & SYNC != 0
}

/// A copy other than the primary's own.
#[derive(Debug)]
struct Other {
    only_logs: bool,
    /// `None` until the first change.
    records: Option<Records>,
}

#[derive(Debug)]
struct Flight {
    token: Token,
    /// What the change replaced at each of the other copies, and what it counted there.
    before: Vec<(Before, StatsDelta)>,
    refused: BTreeSet<usize>,
    error: Option<StoreError>,
}

#[derive(Debug)]
pub struct SeveralCopies {
    rng: SplitMix64,
    others: Vec<Other>,
    /// Whether the other copies' stores have the PG.
    stored: bool,
    /// Whether the other copies have the primary's info of this interval.
    synced: bool,
    last_sync: u64,
    in_flight: VecDeque<Flight>,
    /// Of each copy, the newest change that it has durably, and the newest that was heard of.
    committed: Vec<u64>,
    heard: Vec<u64>,
    /// Refusals to come of changes that are undone.
    undone: BTreeSet<Token>,
    /// The PG's reads, and the copies not asked yet.
    reads: BTreeMap<Token, (ReadRequest, Vec<usize>)>,
}

impl SeveralCopies {
    /// `stored`: whether the other copies' stores have the PG already, as the primary has it.
    pub fn new(seed: u64, stored: bool) -> Self {
        let whole = Copies::Several { seed }.whole();
        let others: Vec<Other> = (1..=whole)
            .filter(|&copy| copy < whole || !stored)
            .map(|copy| Other { only_logs: copy == whole, records: None })
            .collect();
        Self {
            rng: SplitMix64::new(seed),
            committed: vec![0; others.len() + 1],
            heard: vec![0; others.len() + 1],
            others,
            stored,
            synced: false,
            last_sync: 0,
            in_flight: VecDeque::new(),
            undone: BTreeSet::new(),
            reads: BTreeMap::new(),
        }
    }

    /// Gives the other copies the primary's info, as peering and activation do.
    fn sync(&mut self, token: Token, ctx: &mut Context<'_, '_>) {
        for (other, copy) in self.others.iter_mut().zip(1..) {
            let mut txn = Transaction::new();
            match &other.records {
                Some(records) => assert_eq!(records.log().entries(), ctx.records.log().entries()),
                None if !self.stored => {
                    let id = pgid();
                    txn.create_collection(id.into(), 0);
                    txn.touch(id.into(), &GHObject::pgmeta(id.pg.pool, id.pg.seed, id.shard));
                }
                None => {}
            }
            ctx.records.write_whole_info(&mut txn);
            other.records = Some(ctx.records.clone());
            ctx.queue(at_copy(Token(token.0 | SYNC), copy), txn);
        }
        (self.stored, self.synced, self.last_sync) = (true, true, token.0);
    }

    /// What every copy is known to have, if that is news.
    fn progress(&mut self) -> Progress {
        let through = self.heard.iter().copied().min().unwrap_or(0);
        let mut news = false;
        while self.in_flight.front().is_some_and(|f| f.token.0 <= through) {
            self.in_flight.pop_front();
            news = true;
        }
        if news { Progress::Durable { through: Token(through) } } else { Progress::Nothing }
    }

    /// All copies have refused the change at `at`: no copy has it, nor any after it.
    fn undo(&mut self, at: usize, ctx: &mut Context<'_, '_>) -> Progress {
        let undone = self.in_flight.split_off(at);
        let first = &undone[0];
        for (i, other) in self.others.iter_mut().enumerate() {
            let mut stats = StatsDelta::default();
            undone.iter().for_each(|f| stats += f.before[i].1);
            let records = other.records.as_mut().expect("a copy that has got a change");
            records.go_back(&first.before[i].0, stats);
        }
        for copy in 0..=self.others.len() {
            ctx.acknowledge(at_copy(first.token, copy));
            let coming = undone.iter().filter(|f| !f.refused.contains(&copy));
            self.undone.extend(coming.map(|f| at_copy(f.token, copy)));
        }
        // Nor has it the info that was queued behind it.
        self.synced &= self.last_sync <= first.token.0;
        let error = first.error.clone().expect("a reason");
        Progress::Undone { from: first.token, error }
    }
}

impl Backend for SeveralCopies {
    fn submit(&mut self, token: Token, change: Change, ctx: &mut Context<'_, '_>) {
        if !self.synced {
            self.sync(token, ctx);
        }
        let txn = ctx.records.apply(change.clone(), ctx.limits);
        ctx.queue(token, txn);
        let mut before = Vec::new();
        for (other, copy) in self.others.iter_mut().zip(1..) {
            let change = if other.only_logs { change.log_only() } else { change.clone() };
            let records = other.records.as_mut().expect("synced");
            before.push((records.before(), change.stats));
            let txn = records.apply(change, ctx.limits);
            ctx.queue(at_copy(token, copy), txn);
        }
        self.in_flight.push_back(Flight { token, before, refused: BTreeSet::new(), error: None });
    }

    fn on_committed(&mut self, token: Token, _: &mut Context<'_, '_>) -> Progress {
        if token == HEAR {
            self.heard.clone_from(&self.committed);
            return self.progress();
        }
        let (copy, change) = (copy_of(token), change_of(token));
        let follows_refusal = |f: &Flight| f.token.0 < change && f.refused.contains(&copy);
        if self.undone.contains(&token) || self.in_flight.iter().any(follows_refusal) {
            return Progress::Broken("the store made durable what followed a refusal");
        }
        if is_sync(token) {
            return Progress::Nothing;
        }
        if !self.in_flight.iter().any(|f| f.token.0 == change) || self.committed[copy] >= change {
            return Progress::Broken("a change became durable that is not in flight");
        }
        self.committed[copy] = change;
        // The primary's own store is heard at once; the others' messages come late, each with all before it.
        for copy in 0..self.heard.len() {
            if copy == 0 || self.rng.below(2) == 0 {
                self.heard[copy] = self.committed[copy];
            }
        }
        self.progress()
    }

    fn on_refused(&mut self, token: Token, error: StoreError, ctx: &mut Context<'_, '_>) -> Progress {
        if is_sync(token) || self.undone.remove(&token) {
            return Progress::Nothing;
        }
        let (copy, change) = (copy_of(token), change_of(token));
        let Some(at) = self.in_flight.iter().position(|f| f.token.0 == change) else {
            return Progress::Broken("the store refused a change that is not in flight");
        };
        if error.fault() == Fault::Disk && !error.is_local()
            || matches!(error, StoreError::NoSuchCollection(_))
        {
            return Progress::Failed(error);
        }
        self.in_flight[at].refused.insert(copy);
        if !matches!(error, StoreError::AfterRefused(_)) {
            self.in_flight[at].error = Some(error);
        }
        let everyone = self.others.len() + 1;
        let first = self.in_flight.iter().position(|f| f.error.is_some() && f.refused.len() == everyone);
        first.map_or(Progress::Nothing, |first| self.undo(first, ctx))
    }

    fn awaits_store(&self) -> bool {
        // A change that this store has refused is not acknowledged before all copies have.
        let newest = self.in_flight.back().map_or(0, |f| f.token.0);
        newest > self.committed[0] || self.undone.iter().any(|token| copy_of(*token) == 0)
    }

    fn on_interval(&mut self) {
        self.synced = false;
        self.reads.clear();
    }

    fn read(&mut self, token: Token, request: ReadRequest, ctx: &mut Context<'_, '_>) {
        let whole = self.others.iter().zip(1..).filter(|(other, _)| !other.only_logs && self.stored);
        let mut copies: Vec<usize> = std::iter::once(0).chain(whole.map(|(_, copy)| copy)).collect();
        let first = copies.swap_remove(self.rng.below(copies.len() as u64) as usize);
        ctx.read(at_copy(token, first), request.clone());
        self.reads.insert(token, (request, copies));
    }

    fn peek(&mut self, request: &ReadRequest, _: &Records, memory: &mut dyn Peek) -> Option<ReadResult> {
        memory.peek_at(request)
    }

    fn on_read_done(
        &mut self,
        token: Token,
        result: ReadResult,
        ctx: &mut Context<'_, '_>,
    ) -> Option<(Token, ReadResult)> {
        let token = Token(change_of(token));
        if let Some((request, mut copies)) = self.reads.remove(&token) {
            let bad = result.as_ref().is_err_and(|error| error.fault() == Fault::Disk);
            if let Some(next) = copies.pop().filter(|_| bad) {
                ctx.read(at_copy(token, next), request.clone());
                self.reads.insert(token, (request, copies));
                return None;
            }
        }
        Some((token, result))
    }
}
