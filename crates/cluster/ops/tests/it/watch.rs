//! WATCH, NOTIFY and NOTIFY_ACK, held against Ceph's PrimaryLogPG::do_osd_ops.

use encoding::{Encode, Encoder};
use messages::osd_op::{OpConst, OpFlags};
use messages::{Blob, Op, OpArgs, OpCode};
use ops::{
    Caller, ClassTable, ExecuteResult, Fetched, Mutation, Need, NeedOf, ObjectState, ObjectView, OpContext,
    OpEffect, OpLimits, OpOutcome, WatchContext, WatchInfo, execute,
};
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Errno, HObject, Name, PoolId, Release, ReqId,
    SnapContext,
};

const COOKIE: u64 = 94;
const NEXT_NOTIFY: u64 = 70;

struct NoView;

impl ObjectView for NoView {
    fn fetch(&mut self, _: NeedOf, need: Need) -> Option<Fetched> {
        panic!("nothing of the stored object is needed, but {need:?} is asked for")
    }
}

struct Case {
    state: ObjectState,
    client: i64,
    limits: OpLimits,
    connected: Vec<u64>,
}

fn addr(client: i64) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 0).into(), client as u32)
}

fn name(client: i64) -> EntityName {
    EntityName::new(EntityType::Client, client)
}

fn info(timeout_seconds: u32) -> WatchInfo {
    WatchInfo { cookie: COOKIE, timeout_seconds, addr: addr(4123) }
}

impl Case {
    fn new() -> Self {
        let mut state =
            ObjectState::absent(HObject::head(PoolId(1), Name::new(), Name::new(), "o".into(), 7));
        state.exists = true;
        state.info.user_version = 5;
        Self { state, client: 4123, limits: OpLimits::default(), connected: Vec::new() }
    }

    /// An object that is watched under [`COOKIE`].
    fn watched() -> Self {
        let mut case = Self::new();
        case.state = case.run(&[watch(OpConst::WATCH_WATCH, 0)]).state;
        case
    }

    fn run(&mut self, ops: &[Op]) -> OpOutcome {
        let addrs = EntityAddrVec(vec![addr(self.client)]);
        let caller = Caller {
            name: name(self.client),
            reqid: ReqId { name: name(self.client), tid: 9, inc: 0 },
            addrs: addrs.into(),
            features: 0,
        };
        let ctx = OpContext {
            caller: &caller,
            limits: &self.limits,
            snapc: &SnapContext::default(),
            removed_snaps: None,
            flags: 0,
            pool_has_omap: true,
            full: None,
            classes: &ClassTable::default(),
            now: Default::default(),
            mtime: Default::default(),
            seed: 0,
            last_user_version: 0,
            require_osd_release: Release::PACIFIC,
            require_min_compat_client: Release::LUMINOUS,
            watches: WatchContext {
                connected: &self.connected,
                next_notify_id: NEXT_NOTIFY,
                notify_bytes: 1000,
            },
        };
        match execute(&mut NoView, &ctx, &self.state, ops) {
            ExecuteResult::Done(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }
}

fn watch(action: u32, timeout: u32) -> Op {
    let op = action as u8;
    Op::new(OpCode::WATCH, OpArgs::Watch { cookie: COOKIE, ver: 0, op, generation: 0, timeout })
}

fn notify(code: OpCode, cookie: u64, put: impl Fn(&mut Encoder)) -> Op {
    let mut e = Encoder::new(0);
    put(&mut e);
    Op::new(code, OpArgs::Notify { cookie }).with_indata(e.into_bytes())
}

fn blob(bytes: &[u8]) -> Blob {
    bytes.into()
}

#[test]
fn a_watch_is_kept_with_its_object_and_connected_to_its_session() {
    let mut case = Case::new();
    let outcome = case.run(&[watch(OpConst::WATCH_WATCH, 12)]);
    assert_eq!((outcome.result, outcome.mutations), (0, vec![Mutation::Touch]));
    assert_eq!(outcome.effects, [OpEffect::Watch { info: info(12), pings: true }]);
    assert_eq!(
        outcome.state.info.watchers.into_iter().collect::<Vec<_>>(),
        [((COOKIE, name(4123)), info(12))]
    );
    assert!(!outcome.user_modify, "users see no new version");
}

#[test]
fn a_watch_that_asks_for_no_timeout_gets_the_default() {
    let mut case = Case::new();
    case.limits.watch_timeout_seconds = 77;
    let outcome = case.run(&[watch(OpConst::WATCH_LEGACY_WATCH, 0)]);
    assert_eq!(outcome.effects, [OpEffect::Watch { info: info(77), pings: false }]);
}

#[test]
fn a_watch_that_is_known_changes_nothing_and_is_connected_again() {
    let outcome = Case::watched().run(&[watch(OpConst::WATCH_WATCH, 12)]);
    assert_eq!((outcome.result, outcome.mutations), (0, vec![]));
    assert_eq!(outcome.effects, [OpEffect::Watch { info: info(12), pings: true }]);
    assert_eq!(
        outcome.state.info.watchers[&(COOKIE, name(4123))].timeout_seconds,
        30,
        "as it was registered"
    );
}

#[test]
fn reconnecting_and_pinging_need_a_watch() {
    for action in [OpConst::WATCH_RECONNECT, OpConst::WATCH_PING] {
        let mut case = Case::watched();
        case.client = 4124;
        let outcome = case.run(&[watch(action, 0)]);
        assert_eq!((outcome.result, outcome.effects), (Errno::ENOTCONN.code(), vec![]));
    }
    let outcome = Case::watched().run(&[watch(OpConst::WATCH_RECONNECT, 0)]);
    assert_eq!(outcome.mutations, []);
    assert_eq!(outcome.effects, [OpEffect::Watch { info: info(30), pings: true }]);
}

#[test]
fn a_ping_of_a_watch_without_a_session_asks_its_client_to_reconnect() {
    let mut case = Case::watched();
    case.connected = vec![COOKIE + 1];
    assert_eq!(case.run(&[watch(OpConst::WATCH_PING, 0)]).result, Errno::ETIMEDOUT.code());
    case.connected = vec![COOKIE];
    let outcome = case.run(&[watch(OpConst::WATCH_PING, 0)]);
    assert_eq!((outcome.result, outcome.mutations), (0, vec![]));
    assert_eq!(outcome.effects, [OpEffect::Ping { cookie: COOKIE }]);
}

#[test]
fn a_watch_that_ends_leaves_the_object() {
    let mut case = Case::watched();
    let outcome = case.run(&[watch(OpConst::WATCH_UNWATCH, 0)]);
    assert_eq!(outcome.mutations, [Mutation::Touch]);
    assert_eq!(outcome.effects, [OpEffect::Unwatch { watcher: (COOKIE, name(4123)), disconnect: false }]);
    assert!(outcome.state.info.watchers.is_empty());
    case.client = 4124;
    let outcome = case.run(&[watch(OpConst::WATCH_UNWATCH, 0)]);
    assert_eq!((outcome.result, outcome.mutations, outcome.effects), (0, vec![], vec![]), "not its own");
}

#[test]
fn an_object_that_is_removed_takes_its_watches_with_it() {
    let mut case = Case::watched();
    case.client = 4124;
    let outcome = case.run(&[Op::new(OpCode::DELETE, OpArgs::none())]);
    assert_eq!(outcome.effects, [OpEffect::Unwatch { watcher: (COOKIE, name(4123)), disconnect: true }]);
}

#[test]
fn a_rollback_removes_an_object_that_nobody_watched_before_its_request() {
    let rollback = || Op::new(OpCode::ROLLBACK, OpArgs::Snap { snapid: types::SnapId(1) });
    let watched_now = |mut case: Case| {
        case.state.snapset.seq = 3;
        case.run(&[watch(OpConst::WATCH_WATCH, 12), rollback()])
    };
    let outcome = watched_now(Case::new());
    assert_eq!((outcome.result, outcome.state.exists), (0, false));
    assert_eq!(watched_now(Case::watched()).result, Errno::EBUSY.code());
}

#[test]
fn there_is_no_watch_of_an_absent_object_nor_more_than_the_limit() {
    let mut case = Case::new();
    case.state.exists = false;
    assert_eq!(case.run(&[watch(OpConst::WATCH_WATCH, 0)]).result, Errno::ENOENT.code());
    let mut case = Case::watched();
    case.limits.object_watchers_max = 1;
    assert_eq!(case.run(&[watch(OpConst::WATCH_WATCH, 0)]).result, 0, "it is one of them");
    case.client = 4124;
    assert_eq!(case.run(&[watch(OpConst::WATCH_WATCH, 0)]).result, Errno::EUSERS.code());
}

#[test]
fn a_notify_returns_its_number() {
    let one = |timeout: u32| {
        notify(OpCode::NOTIFY, 5, |e| {
            e.put(&1u32).put(&timeout).blob(b"hello");
        })
    };
    let mut case = Case::new();
    case.limits.notify_timeout_seconds = 44;
    let outcome = case.run(&[one(9), one(0)]);
    assert_eq!((outcome.result, outcome.mutations), (0, vec![]));
    let numbers: Vec<_> = outcome.returns.iter().map(|ret| ret.data.to_vec()).collect();
    assert_eq!(numbers, [NEXT_NOTIFY.to_le_bytes(), (NEXT_NOTIFY + 1).to_le_bytes()]);
    let effect =
        |id, timeout_seconds| OpEffect::Notify { id, cookie: 5, timeout_seconds, payload: blob(b"hello") };
    assert_eq!(outcome.effects, [effect(NEXT_NOTIFY, 9), effect(NEXT_NOTIFY + 1, 44)]);
}

#[test]
fn a_notify_may_come_without_arguments() {
    let outcome = Case::new().run(&[notify(OpCode::NOTIFY, 5, |_| {})]);
    let (id, payload) = (NEXT_NOTIFY, Blob::default());
    assert_eq!(outcome.effects, [OpEffect::Notify { id, cookie: 5, timeout_seconds: 30, payload }]);
}

#[test]
fn an_ack_names_notify_and_watch_or_the_notify_alone() {
    let ack = |put: &dyn Fn(&mut Encoder)| {
        Case::new().run(&[notify(OpCode::NOTIFY_ACK, 3, |e| put(e))]).effects.remove(0)
    };
    let new = ack(&|e| {
        7u64.encode(e);
        COOKIE.encode(e);
        e.blob(b"yes");
    });
    assert_eq!(new, OpEffect::NotifyAck { id: 7, cookie: Some(COOKIE), reply: blob(b"yes") });
    let without_reply = ack(&|e| {
        e.put(&7u64).put(&COOKIE);
    });
    assert_eq!(without_reply, OpEffect::NotifyAck { id: 7, cookie: Some(COOKIE), reply: Blob::default() });
    assert_eq!(ack(&|_| {}), OpEffect::NotifyAck { id: 3, cookie: None, reply: Blob::default() });
}

#[test]
fn a_request_that_fails_has_no_effects() {
    let failing = Op::new(OpCode::ASSERT_VER, OpArgs::AssertVer { unused: 0, ver: 6 });
    let outcome = Case::new().run(&[watch(OpConst::WATCH_WATCH, 0), failing.clone()]);
    assert_eq!((outcome.result, outcome.effects), (Errno::EOVERFLOW.code(), vec![]));
    let tolerated = failing.with_flags(OpFlags::FAILOK);
    assert_eq!(Case::new().run(&[watch(OpConst::WATCH_WATCH, 0), tolerated]).effects.len(), 1);
}

#[test]
fn notifies_and_their_answers_are_refused_that_would_hold_too_much() {
    let mut case = Case::new();
    case.limits.notify_bytes_max = 1004;
    let new = |payload: &[u8]| {
        notify(OpCode::NOTIFY, 5, |e| {
            e.put(&1u32).put(&9u32).blob(payload);
        })
    };
    let ack = |reply: &[u8]| {
        notify(OpCode::NOTIFY_ACK, 5, |e| {
            e.put(&7u64).put(&COOKIE).blob(reply);
        })
    };
    let mut result = |op: Op| case.run(&[op]).result;
    assert_eq!((result(new(b"four")), result(new(b"more than four"))), (0, Errno::ENOMEM.code()));
    assert_eq!((result(ack(b"four")), result(ack(b"more than four"))), (0, Errno::ENOMEM.code()));
    case.limits.notify_bytes_max = 0;
    assert_eq!(case.run(&[ack(b"")]).result, 0, "it may end a notify");
}
