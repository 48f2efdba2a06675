//! What a PG costs per 4 KiB request, without store, socket or messages: `cargo run --release -p pg --example cost`.
//! Transactions are dropped and commits come back at once, so this is the PG and the interpreter alone.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it reads the clock")]

use std::sync::Arc;
use std::time::Instant;

use auth::SessionId;
use buffer::{PieceMut, Rope};
use maps::{Osd, OsdInfo, OsdMap, OsdState};
use messages::osd_op::{OsdFlags, Trace};
use messages::{Op, OpArgs, OpCode, OsdOp};
use pg::{ClientOp, MapView, Pg, PgConfig, PgEffect, PgEvent, PoolView, SetAside};
use store::{NoPeek, ReadOutcome, ReadRequest};
use types::{EntityName, EntityType, Epoch, Name, ObjectLocator, OsdId, PgId, PoolId, ReqId, SnapId, UTime};

const OBJECTS: u64 = 1000;
const ROUNDS: u64 = 200_000;

fn request(tid: u64, read: bool, data: &Rope) -> ClientOp {
    let code = if read { OpCode::READ } else { OpCode::WRITE };
    let op = Op::new(code, OpArgs::extent(0, 4096));
    let op = if read { op } else { op.with_indata(data.clone()) };
    let object = tid % OBJECTS;
    let op = OsdOp {
        tid,
        pgid: PgId { pool: PoolId(1), seed: 0 }.into(),
        hash: (object as u32).wrapping_mul(0x9E37_79B1),
        epoch: Epoch(5),
        flags: OsdFlags::ONDISK,
        reqid: ReqId::default(),
        trace: Trace::default(),
        otel_trace: None,
        client_inc: 0,
        mtime: UTime { sec: 1, nsec: 1 },
        locator: ObjectLocator { pool: PoolId(1), key: Name::new(), nspace: Name::new(), hash: -1 },
        oid: format!("benchmark_data_host_12345_object{object}").into(),
        ops: vec![op],
        snapid: SnapId::HEAD,
        snap_seq: 0,
        snaps: Vec::new(),
        retry_attempt: 0,
        features: 0,
        data_offset: 0,
    };
    let source = EntityName::new(EntityType::Client, 4123);
    ClientOp {
        session: SessionId(1),
        source,
        addrs: Arc::default(),
        features: u64::MAX,
        caps: auth::Caps::all(),
        op: Box::new(op),
    }
}

/// Handles an event and everything that follows from it; how many replies came.
fn drive(pg: &mut Pg, event: PgEvent, data: &Rope) -> u64 {
    let (mut events, mut out, mut replies) = (vec![event], Vec::new(), 0);
    while let Some(event) = events.pop() {
        pg.handle(UTime { sec: 2, nsec: 0 }, event, &mut NoPeek, &mut out);
        for effect in out.drain(..) {
            match effect {
                PgEffect::Reply { reply, .. } => replies += u64::from(reply.result == 0),
                PgEffect::Queue { token, .. } => events.push(PgEvent::Committed { token }),
                PgEffect::Read { token, request } => {
                    let outcome = match request {
                        ReadRequest::Object { .. } => ReadOutcome::Object(None),
                        _ => ReadOutcome::Data(data.clone()),
                    };
                    events.push(PgEvent::ReadDone { token, result: Ok(outcome) });
                }
                other => panic!("{other:?}"),
            }
        }
    }
    replies
}

fn main() {
    let mut out = Vec::new();
    let pool = PoolView { size: 1, min_size: 1, pg_num: 1, has_omap: true, ..PoolView::default() };
    let me = OsdId(0);
    let info = OsdInfo { up_thru: Epoch(5), ..OsdInfo::default() };
    let osd = Osd { state: OsdState::EXISTS, info, ..Osd::default() };
    let map = MapView {
        epoch: Epoch(5),
        osdmap: Arc::new(OsdMap { osds: vec![osd], ..OsdMap::default() }),
        up: vec![me],
        up_primary: me,
        acting: vec![me],
        acting_primary: me,
        pool,
    };
    let id = PgId { pool: PoolId(1), seed: 0 }.into();
    let config = PgConfig { object_contexts_idle_max: 2000, ..PgConfig::default() };
    let mut pg = Pg::create(
        id,
        me,
        Arc::new(config),
        pg::Origin::at(map, UTime::default()),
        UTime::default(),
        &mut out,
    );
    for effect in out {
        if let PgEffect::Queue { token, .. } = effect {
            pg.handle(UTime::default(), PgEvent::Committed { token }, &mut NoPeek, &mut Vec::new());
        }
    }
    let data: Rope = PieceMut::zeroed(4096).freeze().into();
    let mut tid = 0;
    for (name, read) in [("warm up", false), ("4 KiB write", false), ("4 KiB read", true)] {
        let requests: Vec<_> = (0..ROUNDS).map(|i| request(tid + i, read, &data)).collect();
        tid += ROUNDS;
        let started = Instant::now();
        let replies: u64 = requests
            .into_iter()
            .map(|op| drive(&mut pg, PgEvent::ClientOp(op, SetAside::default()), &data))
            .sum();
        let nanos = started.elapsed().as_nanos() as u64 / ROUNDS;
        println!("{name}: {nanos} ns a request, {replies} of {ROUNDS} answered");
    }
}
