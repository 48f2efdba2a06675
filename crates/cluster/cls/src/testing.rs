//! An object in memory to call methods on, as a PG would.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use messages::osd_op::OsdFlags;
use messages::{Op, OpArgs, OpCode};
use ops::{
    Caller, ClassTable, ExecuteResult, Fetched, Mutation, Need, NeedOf, ObjectState, ObjectView, OpContext,
    OpLimits, OpOutcome, classify, execute,
};
use types::{
    EntityAddr, EntityName, EntityType, Errno, HObject, Name, PoolId, Release, ReqId, SnapContext, UTime,
};

use crate::CLASSES;

/// What a client gets of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub result: i32,
    pub data: Vec<u8>,
}

impl Answer {
    /// The data of a call that succeeded with 0.
    ///
    /// # Panics
    /// If it did not.
    pub fn ok(self) -> Vec<u8> {
        assert_eq!(self.result, 0);
        self.data
    }

    pub fn is(&self, errno: Errno) -> bool {
        self.result == errno.code()
    }
}

/// An object, and the circumstances of requests for it.
pub struct Object {
    pub state: ObjectState,
    pub stored: Stored,
    pub now: UTime,
    pub caller: Caller,
    pub limits: OpLimits,
    /// Whether clients ask for the results of writes.
    pub returnvec: bool,
    pub release: Release,
    requests: u64,
}

/// What is stored of an object. Attributes by their names for clients.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Stored {
    pub data: Vec<u8>,
    pub attrs: BTreeMap<Name, Vec<u8>>,
    pub omap: BTreeMap<Name, Vec<u8>>,
    pub header: Vec<u8>,
}

/// Has nothing resident: a need is answered once the request has been run without.
struct View<'a> {
    stored: &'a Stored,
    known: BTreeSet<Need>,
    asked: BTreeSet<Need>,
}

impl ObjectView for View<'_> {
    fn fetch(&mut self, _: NeedOf, need: Need) -> Option<Fetched> {
        if self.known.contains(&need) {
            return Some(self.stored.answer(&need));
        }
        self.asked.insert(need);
        None
    }
}

impl Stored {
    fn answer(&self, need: &Need) -> Fetched {
        let pair = |(key, value): (&Name, &Vec<u8>)| (key.clone(), Rope::copy_from(value));
        match need {
            Need::Data { offset, len, .. } => {
                let from = (*offset as usize).min(self.data.len());
                let to = offset.saturating_add(*len).min(self.data.len() as u64) as usize;
                Fetched::Data(Rope::copy_from(&self.data[from..to]))
            }
            Need::Extents { offset, len } => {
                let end = offset.saturating_add(*len).min(self.data.len() as u64);
                Fetched::Extents((*offset < end).then(|| (*offset, end - offset)).into_iter().collect())
            }
            Need::Attr(name) => {
                let value = name.strip_prefix(b"_").and_then(|name| self.attrs.get(&Name::from(name)));
                Fetched::Attr(value.map(|v| Rope::copy_from(v)))
            }
            Need::Attrs => {
                let stored = |name: &Name| [b"_", name.as_bytes()].concat().into();
                Fetched::Attrs(self.attrs.iter().map(|(k, v)| (stored(k), Rope::copy_from(v))).collect())
            }
            Need::Copy(_) => unreachable!("no class copies"),
            Need::OmapHeader => Fetched::OmapHeader(Rope::copy_from(&self.header)),
            Need::OmapKeys(keys) => {
                let pairs = self.omap.iter().filter(|(key, _)| keys.contains(*key)).map(pair).collect();
                Fetched::Omap { pairs, more: false }
            }
            Need::OmapRange { after, prefix, max, .. } => {
                let in_range = |key: &Name| key > after && key.starts_with(prefix);
                let mut pairs: Vec<_> = self.omap.iter().filter(|(key, _)| in_range(key)).map(pair).collect();
                let more = pairs.len() as u64 > *max;
                pairs.truncate(*max as usize);
                Fetched::Omap { pairs, more }
            }
        }
    }

    fn apply(&mut self, mutation: Mutation) {
        let short = |name: Name| Name::from(name.strip_prefix(b"_").unwrap_or(&name));
        match mutation {
            Mutation::Create | Mutation::Touch | Mutation::AllocHint { .. } => {}
            Mutation::Write { offset, data, .. } => {
                let (from, to) = (offset as usize, offset as usize + data.len());
                self.data.resize(self.data.len().max(to), 0);
                self.data[from..to].copy_from_slice(&data.to_vec());
            }
            Mutation::Zero { offset, len } => {
                let (from, to) = (offset as usize, (offset + len) as usize);
                self.data.resize(self.data.len().max(to), 0);
                self.data[from..to].fill(0);
            }
            Mutation::Truncate(size) => self.data.resize(size as usize, 0),
            Mutation::BecomeClone(_) => unreachable!("no class rolls back"),
            Mutation::Remove => *self = Self::default(),
            Mutation::SetAttr(name, value) => {
                self.attrs.insert(short(name), value.to_vec());
            }
            Mutation::RemoveAttr(name) => {
                self.attrs.remove(&short(name));
            }
            Mutation::OmapSet(pairs) => self.omap.extend(pairs.into_iter().map(|(k, v)| (k, v.to_vec()))),
            Mutation::OmapRemove(keys) => keys.iter().for_each(|key| {
                self.omap.remove(key);
            }),
            Mutation::OmapRemoveRange(first, last) => {
                self.omap.retain(|key, _| !(first <= *key && *key < last));
            }
            Mutation::OmapHeader(header) => self.header = header.to_vec(),
            Mutation::OmapClear => {
                self.omap.clear();
                self.header.clear();
            }
        }
    }
}

impl Object {
    /// One that does not exist.
    pub fn absent() -> Self {
        let oid = HObject::head(PoolId(1), Name::new(), Name::new(), "o".into(), 7);
        Self {
            state: ObjectState::absent(oid),
            stored: Stored::default(),
            now: UTime { sec: 1000, nsec: 0 },
            caller: Caller {
                name: EntityName::new(EntityType::Client, 4123),
                reqid: ReqId::default(),
                addrs: std::sync::Arc::new(EntityAddr::v2(([127, 0, 0, 1], 0).into(), 77).into()),
                features: u64::MAX,
            },
            limits: OpLimits::default(),
            returnvec: false,
            release: Release::TENTACLE,
            requests: 0,
        }
    }

    /// One that exists and is empty.
    pub fn empty() -> Self {
        let mut object = Self::absent();
        object.run(&[Op::new(OpCode::CREATE, OpArgs::none())]);
        object
    }

    /// Makes client `num` the one that calls.
    pub fn as_client(&mut self, num: i64) -> &mut Self {
        self.caller.name = EntityName::new(EntityType::Client, num);
        self
    }

    pub fn exists(&self) -> bool {
        self.state.is_visible()
    }

    /// Calls a method with this input.
    pub fn call(&mut self, class: &str, method: &str, input: &[u8]) -> Answer {
        self.run(&[call(class, method, input)]).remove(0)
    }

    /// Runs a request: each operation's answer, or the whole request's error as the first one's.
    pub fn run(&mut self, ops: &[Op]) -> Vec<Answer> {
        let refused = |errno: Errno| vec![Answer { result: errno.code(), data: Vec::new() }];
        let classes = ClassTable::new(CLASSES, "*", "*");
        self.requests += 1;
        let class = match classify(ops, 0, &classes) {
            Ok(class) => class,
            Err(errno) => return refused(errno),
        };
        if !class.writes && !self.exists() {
            return refused(Errno::ENOENT);
        }
        let ctx = OpContext {
            caller: &self.caller,
            limits: &self.limits,
            snapc: &SnapContext::default(),
            removed_snaps: None,
            flags: if self.returnvec { OsdFlags::RETURNVEC } else { 0 },
            pool_has_omap: true,
            full: None,
            classes: &classes,
            now: self.now,
            mtime: self.now,
            seed: self.requests,
            last_user_version: self.state.info.user_version,
            require_osd_release: self.release,
            require_min_compat_client: self.release,
            watches: Default::default(),
        };
        let mut view = View { stored: &self.stored, known: BTreeSet::new(), asked: BTreeSet::new() };
        let outcome = loop {
            match execute(&mut view, &ctx, &self.state, ops) {
                ExecuteResult::Done(outcome) => break *outcome,
                ExecuteResult::Pending => {
                    assert!(!view.asked.is_empty(), "a request waits for nothing");
                    view.known.append(&mut view.asked);
                }
                ExecuteResult::Dropped => unreachable!("the pool is not full"),
            }
        };
        let OpOutcome { result, returns, mutations, state, user_modify, .. } = outcome;
        if !mutations.is_empty() {
            let absent = || ObjectState::absent(self.state.info.oid.clone());
            self.state = if state.exists { state } else { absent() };
            self.state.info.user_version += u64::from(user_modify);
            self.state.info.mtime = self.now;
            mutations.into_iter().for_each(|mutation| self.stored.apply(mutation));
        }
        let mut answers: Vec<Answer> =
            returns.into_iter().map(|r| Answer { result: r.rval, data: r.data.to_vec() }).collect();
        // What the message says as a whole, which is what a client of one operation sees.
        if let [only] = answers.as_mut_slice() {
            only.result = result;
        }
        answers
    }
}

/// The operation that calls a method.
///
/// # Panics
/// Where a name is longer than 255 bytes.
pub fn call(class: &str, method: &str, input: &[u8]) -> Op {
    let len = |name: &str| u8::try_from(name.len()).expect("a name of at most 255 bytes");
    let args = OpArgs::Class {
        class_len: len(class),
        method_len: len(method),
        argc: 0,
        indata_len: input.len() as u32,
    };
    Op::new(OpCode::CALL, args).with_indata([class.as_bytes(), method.as_bytes(), input].concat())
}
