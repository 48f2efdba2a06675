//! A client that encodes requests, and checks the replies. Nothing of it is counted.

use auth::ClientNone;
use messages::osd_op::{Op, OsdFlags};
use messages::{Message, OsdOp, OsdOpReply};
use msgr::{Connect, Connection, Effect};
use types::{EntityAddr, EntityId, EntityType, Name, ObjectLocator, Profile, ReqId, SnapId, SpgId, UTime};

use crate::HotpathError;
use crate::cluster::{Cluster, OSD, osd_addr};
use crate::server::{Server, Socket, local};

/// Ticks that a reply may take while the pool's PGs are being made.
const TICKS_MAX: u32 = 100;
const GLOBAL_ID: u64 = 4200;

/// What a reply must be.
pub(crate) enum Expected {
    Written,
    /// A read of these bytes.
    Data(Vec<u8>),
}

/// Both ends of one connection.
pub(crate) struct Client {
    connection: Connection,
    pub(crate) server: Server,
    tid: u64,
    /// Bytes for the server.
    written: Vec<u8>,
    reply: Option<Box<OsdOpReply>>,
}

fn failed(what: impl ToString) -> HotpathError {
    HotpathError::Cluster(what.to_string())
}

impl Client {
    /// Opens a session to the OSD's gate on a core.
    pub(crate) fn connect(cluster: &mut Cluster, core: u16) -> Result<Self, HotpathError> {
        let own = EntityAddr::v2(([127, 0, 0, 1], 0).into(), 99 + u32::from(core));
        let global_id = GLOBAL_ID + u64::from(core);
        let entity = EntityId { kind: EntityType::Client, id: "admin".into() };
        let connect = Connect {
            target: osd_addr(),
            peer_kind: EntityType::Osd,
            method: Box::new(ClientNone::new(auth::Service::Daemon, entity, global_id)),
            global_seq: 1,
            session: None,
        };
        let connection = Connection::connect(local(EntityType::Client, global_id as i64, own), connect);
        let server = Server::accept(OSD, osd_addr(), own, cluster.next_session(core));
        let mut client = Self { connection, server, tid: 0, written: Vec::new(), reply: None };
        let now = cluster.now();
        client.server.settle(&mut cluster.nodes, now)?;
        while !client.connection.is_open() {
            client.hear()?;
            let bytes = std::mem::take(&mut client.written);
            if bytes.is_empty() && !client.connection.is_open() {
                return Err(failed("the handshake did not end"));
            }
            client.server.serve(&mut cluster.nodes, now, &mut Socket::new(&bytes))?;
        }
        Ok(client)
    }

    /// The bytes of an operation on an object.
    pub(crate) fn request(
        &mut self,
        cluster: &Cluster,
        pool: &str,
        object: Name,
        op: Op,
    ) -> Result<Vec<u8>, HotpathError> {
        let map = cluster.mon().ok_or_else(|| failed("no monitor"))?.osdmap();
        let pool = map.pool_by_name(pool).ok_or_else(|| failed("no such pool"))?;
        let locator = ObjectLocator { pool, key: Name::new(), nspace: Name::new(), hash: -1 };
        let raw = map.object_to_pg(&locator, &object).ok_or_else(|| failed("no such pool"))?;
        let pg = map.raw_pg_to_pg(raw).ok_or_else(|| failed("no such PG"))?;
        let writes = op.code.writes();
        self.tid += 1;
        let request = OsdOp {
            tid: self.tid,
            pgid: SpgId::from(pg),
            hash: raw.seed,
            epoch: map.epoch,
            flags: if writes { OsdFlags::WRITE | OsdFlags::ONDISK } else { OsdFlags::READ },
            reqid: ReqId::default(),
            trace: Default::default(),
            otel_trace: None,
            client_inc: 0,
            mtime: UTime { sec: 1_800_000_000, nsec: 7 },
            locator,
            oid: object,
            ops: vec![op],
            snapid: SnapId::HEAD,
            snap_seq: 0,
            snaps: Vec::new(),
            retry_attempt: 0,
            features: Profile::PACIFIC.features_supported,
            data_offset: 0,
        };
        let message = Message::from(request);
        self.connection.send(message.encode_from(EntityType::Client, Profile::PACIFIC.features_supported));
        self.poll()?;
        Ok(std::mem::take(&mut self.written))
    }

    /// Has the server serve a request, and checks its reply.
    pub(crate) fn exchange(
        &mut self,
        cluster: &mut Cluster,
        request: Vec<u8>,
        expected: &Expected,
        counted: bool,
    ) -> Result<(), HotpathError> {
        let (now, socket) = (cluster.now(), &mut Socket::new(&request));
        match counted {
            true => self.server.hotpath_counted(&mut cluster.nodes, now, socket)?,
            false => self.server.serve(&mut cluster.nodes, now, socket)?,
        }
        self.hear()?;
        for _ in 0..TICKS_MAX {
            if self.reply.is_some() || counted {
                break;
            }
            // The PG is being made.
            cluster.tick()?;
            let now = cluster.now();
            self.server.settle(&mut cluster.nodes, now)?;
            self.hear()?;
            for message in std::mem::take(&mut cluster.to_client) {
                self.take(message);
            }
        }
        let reply = self.reply.take().ok_or_else(|| failed("a request got no reply"))?;
        check(&reply, self.tid, expected)
    }

    /// Takes what the server wrote.
    fn hear(&mut self) -> Result<(), HotpathError> {
        for rope in std::mem::take(&mut self.server.out) {
            rope.pieces().iter().for_each(|piece| self.connection.feed(piece));
        }
        self.poll()
    }

    fn poll(&mut self) -> Result<(), HotpathError> {
        while let Some(effect) = self.connection.poll() {
            match effect {
                Effect::Write(rope) => self.written.extend(rope.to_vec()),
                Effect::Message(raw) => self.take(Message::decode(&raw).map_err(failed)?),
                Effect::Established(_) => {}
                other => return Err(failed(format!("the client's connection: {other:?}"))),
            }
        }
        Ok(())
    }

    /// A reply, or a map, which this client doesn't need.
    fn take(&mut self, message: Message) {
        if let Message::OsdOpReply(reply) = message {
            self.reply = Some(reply);
        }
    }
}

fn check(reply: &OsdOpReply, tid: u64, expected: &Expected) -> Result<(), HotpathError> {
    let data: usize = reply.ops.iter().map(|op| op.outdata.len()).sum();
    let right = match expected {
        Expected::Written => data == 0,
        Expected::Data(bytes) => match &reply.ops[..] {
            [one] => one.outdata.to_piece().as_slice() == bytes,
            _ => false,
        },
    };
    match reply.tid == tid && reply.result == 0 && right {
        true => Ok(()),
        false => {
            Err(failed(format!("a wrong reply: tid {} result {} with {data} bytes", reply.tid, reply.result)))
        }
    }
}
