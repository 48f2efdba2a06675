//! Removes the objects of runs: those of a run's record, or all whose names begin alike.

use encoding::Decode;
use messages::osd_op::{ListCursor, PgNlsResponse};
use messages::{Op, OpArgs, OpCode};
use objecter::Request;
use types::{Epoch, Errno, HObject, PgId, PoolId};

use crate::error::BenchError;
use crate::instance::read_record;
use crate::load::Objects;
use crate::names;
use crate::session::{Session, failed, request};

/// Removals at once.
const IN_FLIGHT: usize = 32;
/// Names of one answer of a listing.
const NAMES_MAX: u64 = 1000;

fn removal(pool: PoolId, name: String) -> Request {
    request(pool, name, vec![Op::new(OpCode::DELETE, OpArgs::none())])
}

/// Removes objects by their names. Those that do not exist do not count.
pub(crate) fn remove(
    session: &mut Session,
    (pool, pool_name): (PoolId, &str),
    mut names: impl Iterator<Item = String>,
) -> Result<u64, BenchError> {
    let mut removed = 0;
    let next = || names.next().map(|name| (name.clone(), removal(pool, name)));
    session.stream(IN_FLIGHT, next, |name, outcome| match outcome.result() {
        0.. => {
            removed += 1;
            Ok(())
        }
        code if code == Errno::ENOENT.code() => Ok(()),
        _ => Err(failed(&format!("removing '{name}'"), pool_name, outcome)),
    })?;
    Ok(removed)
}

/// Removes the first so many objects.
pub(crate) fn remove_objects(
    session: &mut Session,
    pool_name: &str,
    objects: &Objects,
    count: u64,
) -> Result<(), BenchError> {
    remove(session, (objects.pool, pool_name), (0..count).map(|number| objects.name(number))).map(drop)
}

/// Removes what the records of a run name in a pool. `None`: there is no such record.
pub(crate) fn by_record(
    session: &mut Session,
    pool_name: &str,
    run_name: Option<&str>,
) -> Result<Option<u64>, BenchError> {
    let pool = session.pool(pool_name)?;
    let mut removed = None;
    for nth in 0..names::INSTANCES_MAX {
        let name = names::record(run_name, nth);
        let Some(record) = read_record(session, pool, pool_name, &name)? else { break };
        let prefix = names::prefix(&names::host(), record.writer);
        let all = (0..record.objects()).map(|number| names::object(&prefix, number));
        let count = remove(session, (pool, pool_name), all)?;
        remove(session, (pool, pool_name), [name].into_iter())?;
        *removed.get_or_insert(0) += count;
    }
    Ok(removed)
}

/// Removes the objects of a pool whose names begin with `prefix`.
pub(crate) fn by_prefix(session: &mut Session, pool_name: &str, prefix: &str) -> Result<u64, BenchError> {
    let pool = session.pool(pool_name)?;
    let mut removed = 0;
    for_each_page(
        session,
        pool_name,
        |name| name.starts_with(prefix),
        |session, found| {
            removed += remove(session, (pool, pool_name), found.into_iter())?;
            Ok(())
        },
    )?;
    Ok(removed)
}

/// The names of a pool's objects that a condition holds for.
pub(crate) fn names_of(
    session: &mut Session,
    pool_name: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<String>, BenchError> {
    let mut names = Vec::new();
    for_each_page(session, pool_name, is_wanted, |_, found| {
        names.extend(found);
        Ok(())
    })?;
    Ok(names)
}

/// Lists the pool, and does something with the names of each answer that a condition holds for.
fn for_each_page(
    session: &mut Session,
    pool_name: &str,
    is_wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(&mut Session, Vec<String>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let pool = session.pool(pool_name)?;
    let mut cursor = HObject::min();
    // The answer of a PG's last objects has the beginning of the next PG's.
    while !cursor.is_max() {
        let pg = PgId { pool, seed: cursor.hash };
        let listed = list(session, pg, pool_name, &cursor)?;
        let plain =
            listed.entries.into_iter().filter(|entry| entry.nspace.is_empty() && entry.key.is_empty());
        let names = plain.map(|entry| entry.name.to_string());
        each(session, names.filter(|name| is_wanted(name)).collect())?;
        cursor = listed.handle;
    }
    Ok(())
}

fn list(
    session: &mut Session,
    pg: PgId,
    pool_name: &str,
    cursor: &HObject,
) -> Result<PgNlsResponse, BenchError> {
    let args = OpArgs::Pgls { count: NAMES_MAX, start_epoch: Epoch(0) };
    let op = Op::new(OpCode::PGNLS, args).with_indata(ListCursor::plain(cursor));
    let outcome = session.call(Request::on_pg(pg, vec![op]))?;
    if outcome.result() < 0 {
        return Err(failed(&format!("listing PG {pg}"), pool_name, &outcome));
    }
    PgNlsResponse::from_bytes(&outcome.data().to_vec()).map_err(|error| BenchError::Request {
        what: format!("listing PG {pg}"),
        pool: pool_name.into(),
        why: error.to_string(),
    })
}
