//! Operations on the PG itself: listings of its objects.

use encoding::Encode;
use messages::osd_op::{ListCursor, ListEntry, PgLsResponse, PgNlsResponse};
use messages::{Op, OpArgs, OpCode};
use ops::{ListFilter, OpReturn};
use store::{AttrChoice, Attrs, ObjectPage, ReadOutcome, ReadRequest, StoreError};
use telemetry::Stage;
use types::{Errno, GHObject, HObject, Name, SnapId};

use crate::hash_range;
use crate::out::Out;
use crate::pg::{Delayed, DelayedOf, ReadFor};
use crate::request::Request;
use crate::{Notice, Pg, PgEffect};

/// The namespace that asks for those of all (LIBRADOS_ALL_NSPACES).
const ALL_NAMESPACES: &[u8] = b"\x01";
/// The namespace of hit sets, which no listing shows (osd_hit_set_namespace).
const HIT_SET_NAMESPACE: &[u8] = b".ceph-internal";

fn is_new_style(op: &Op) -> bool {
    matches!(op.code, OpCode::PGNLS | OpCode::PGNLS_FILTER)
}

impl Pg {
    pub(crate) fn start_list(&mut self, request: Request, out: &mut Out<'_>) {
        if let [op] = &request.op.ops[..]
            && op.code == OpCode::SCRUBLS
        {
            return self.answer_scrub_ls(&request, &op.indata.to_piece(), out);
        }
        match self.list_request(&request) {
            Ok(read) => match self.backend.peek(&read, &self.records, out) {
                Some(result) => self.on_list_read(request, result, out),
                None => {
                    out.reached(&request, Stage::Reading);
                    self.read(read, ReadFor::List(Box::new(request)), out);
                }
            },
            Err(errno) => {
                let code = request.op.ops.first().map_or(0, |op| op.code.0);
                if errno == Errno::EOPNOTSUPP && self.said_unsupported.insert(code) {
                    out.push(PgEffect::Notice(Notice::UnsupportedOp { code }));
                }
                let mut returns = vec![OpReturn::default(); request.op.ops.len()];
                if let Some(first) = returns.first_mut() {
                    first.rval = errno.code();
                }
                let reply = self.reply(&request, errno.code(), returns);
                out.push(PgEffect::Reply { session: request.session, reply });
            }
        }
    }

    fn answer_scrub_ls(&self, request: &Request, input: &[u8], out: &mut Out<'_>) {
        let returned = match self.list_inconsistent(input) {
            Ok(data) => OpReturn { rval: 0, data: data.into() },
            Err(errno) => OpReturn { rval: errno.code(), data: Default::default() },
        };
        let reply = self.reply(request, returned.rval, vec![returned]);
        out.push(PgEffect::Reply { session: request.session, reply });
    }

    /// The read that answers a request of exactly one listing.
    fn list_request(&self, request: &Request) -> Result<ReadRequest, Errno> {
        let [op] = &request.op.ops[..] else { return Err(Errno::EOPNOTSUPP) };
        if !ops::spec(op.code).is_some_and(ops::OpSpec::is_of_pg) {
            return Err(Errno::EOPNOTSUPP);
        }
        if request.op.snapid != SnapId::HEAD {
            return Err(Errno::EINVAL);
        }
        let ListCursor { filter, cursor } = self.list_cursor(op)?;
        let pg_num = self.map.as_ref().map_or(1, |m| m.pool.pg_num);
        let (start, end) = (hash_range::start(self.id.pg), hash_range::end(self.id.pg, pg_num));
        let (before, after) = (cursor < start && !cursor.is_min(), cursor >= end && !cursor.is_max());
        if is_new_style(op) && (before || after) {
            return Err(Errno::EINVAL);
        }
        // Temporary objects and the PG's own sort before all others: the listing starts after them.
        let from = if cursor.is_max() { GHObject::max() } else { GHObject::from(cursor.max(start)) };
        Ok(ReadRequest::List {
            collection: self.records.collection,
            start: GHObject { shard: self.id.shard, ..from },
            end: GHObject::max(),
            objects_max: self.list_entries(op),
            attrs: match filter.as_ref().and_then(|filter| filter.attribute()) {
                Some(attribute) => AttrChoice::These(vec![attribute.clone()]),
                None => AttrChoice::None,
            },
        })
    }

    fn list_cursor(&self, op: &Op) -> Result<ListCursor<Box<dyn ListFilter>>, Errno> {
        ListCursor::decode(op, |kind, d| self.config.classes.filter(kind, d))
    }

    fn list_entries(&self, op: &Op) -> usize {
        let OpArgs::Pgls { count, .. } = op.args else { return 1 };
        usize::try_from(count).unwrap_or(usize::MAX).clamp(1, self.config.list_entries_max)
    }

    pub(crate) fn on_list_read(
        &mut self,
        request: Request,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Out<'_>,
    ) {
        let (result, data) = match result {
            Ok(ReadOutcome::Objects(page)) => self.listing(&request, page),
            Ok(_) => (Errno::EIO.code(), Vec::new()),
            Err(error) => (error.errno().code(), Vec::new()),
        };
        let returns = vec![OpReturn { rval: result, data: data.into() }];
        let reply = self.reply(&request, result, returns);
        // The list may reflect a change that is not durable yet: the client gets it once the change is.
        let seen = self.in_flight.back().map_or(self.records.durable, |f| f.version);
        let session = request.session;
        if seen <= self.records.durable {
            out.push(PgEffect::Reply { session, reply });
        } else {
            let of = DelayedOf::Listing(Box::new(request));
            self.delayed.push_back(Delayed { version: seen, session, reply, of });
        }
    }

    /// 1 at the PG's end, 0 before it, and the answer.
    fn listing(&self, request: &Request, page: ObjectPage) -> (i32, Vec<u8>) {
        let wanted = &request.op.locator.nspace;
        let first = request.op.ops.first();
        let new_style = first.is_some_and(is_new_style);
        // It was read when the listing began, so that it is one.
        let filter = first.and_then(|op| self.list_cursor(op).ok()).and_then(|cursor| cursor.filter);
        let shown = |o: &HObject| {
            let namespace = match new_style {
                true => wanted.as_bytes() == ALL_NAMESPACES || o.nspace == *wanted,
                false => o.nspace == *wanted,
            };
            o.pool == self.id.pg.pool && o.is_head() && namespace && o.nspace.as_bytes() != HIT_SET_NAMESPACE
        };
        let passes = |object: &HObject, attrs: &Attrs| {
            let value = |filter: &dyn ListFilter| attrs.get(filter.attribute()?.as_bytes()).cloned();
            filter
                .as_ref()
                .is_none_or(|f| f.passes(object, value(&**f).as_ref().map(|value| value.as_slice())))
        };
        let objects = page.objects.into_iter().filter(|(o, attrs)| {
            let of_clients = !o.is_pgmeta() && o.generation == GHObject::NO_GEN;
            of_clients && shown(&o.hobj) && passes(&o.hobj, attrs)
        });
        let objects = objects.map(|(object, _)| object);
        let at_end = page.next == GHObject::max();
        let entry = |o: GHObject| (o.hobj.nspace, o.hobj.name, o.hobj.key);
        let pg_num = self.map.as_ref().map_or(1, |m| m.pool.pg_num);
        let handle = match (at_end, new_style) {
            (false, _) => page.next.hobj,
            (true, true) => hash_range::end(self.id.pg, pg_num),
            (true, false) => HObject::max(),
        };
        let data = if new_style {
            let entries =
                objects.map(entry).map(|(nspace, name, key)| ListEntry { nspace, name, key }).collect();
            PgNlsResponse { handle, entries }.to_bytes(0)
        } else {
            let entries: Vec<(Name, Name)> = objects.map(entry).map(|(_, name, key)| (name, key)).collect();
            PgLsResponse { handle, entries }.to_bytes(0)
        };
        (i32::from(at_end), data)
    }
}
