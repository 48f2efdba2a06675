//! The mark of a run that is under way: an object beside those that it writes, removed with them. A run that is killed
//! leaves its mark, by which `cleanup` finds the others.

use messages::{Op, OpArgs, OpCode};
use types::{Errno, PoolId};

use crate::cleanup::{names_of, remove};
use crate::error::BenchError;
use crate::names;
use crate::session::{Session, failed, read_op, request};

/// A run's name is shorter.
const RUN_NAME_MAX: u64 = 4096;

/// Marks a run; its name is in the mark.
pub(crate) fn mark(
    session: &mut Session,
    pool: PoolId,
    prefix: &str,
    run_name: Option<&str>,
) -> Result<(), BenchError> {
    let name = run_name.unwrap_or_default().as_bytes().to_vec();
    let op = Op::new(OpCode::WRITEFULL, OpArgs::extent(0, name.len() as u64)).with_indata(name);
    // A pool that takes no mark takes no objects, which the run itself will report.
    session.call(request(pool, names::mark(prefix), vec![op])).map(drop)
}

/// Removes a run's mark, after its objects.
pub(crate) fn unmark(
    session: &mut Session,
    (pool, pool_name): (PoolId, &str),
    prefix: &str,
) -> Result<(), BenchError> {
    remove(session, (pool, pool_name), [names::mark(prefix)].into_iter()).map(drop)
}

/// What a cleanup has found of runs that did not end.
#[derive(Default, Debug)]
pub(crate) struct Found {
    /// Prefixes, and how many objects of each were removed.
    pub removed: Vec<(String, u64)>,
    /// Prefixes of runs that go on, or of other hosts, where that can't be told.
    pub perhaps_running: Vec<String>,
}

/// Removes the objects of runs of this host that have ended without removing them: all, or those of a name.
pub(crate) fn remove_unfinished(
    session: &mut Session,
    pool_name: &str,
    run_name: Option<&str>,
) -> Result<Found, BenchError> {
    let pool = session.pool(pool_name)?;
    let mut found = Found::default();
    for mark in names_of(session, pool_name, |name| names::marked(name).is_some())? {
        let Some(prefix) = names::marked(&mark) else { continue };
        if run_name.is_some() && marked_name(session, (pool, pool_name), &mark)?.as_deref() != run_name {
            continue;
        }
        if names::may_run(prefix) {
            found.perhaps_running.push(prefix.to_owned());
            continue;
        }
        // With what follows a prefix: another run's may go on with a digit.
        let objects = names::objects_prefix(prefix);
        let all = names_of(session, pool_name, |name| name.starts_with(&objects))?;
        let removed = remove(session, (pool, pool_name), all.into_iter())?;
        unmark(session, (pool, pool_name), prefix)?;
        found.removed.push((prefix.to_owned(), removed));
    }
    Ok(found)
}

/// The name of a marked run. `None`: the mark is gone.
fn marked_name(
    session: &mut Session,
    (pool, pool_name): (PoolId, &str),
    mark: &str,
) -> Result<Option<String>, BenchError> {
    let outcome = session.call(request(pool, mark.into(), vec![read_op(0, RUN_NAME_MAX)]))?;
    match outcome.result() {
        0.. => Ok(Some(String::from_utf8_lossy(&outcome.data().to_vec()).into_owned())),
        code if code == Errno::ENOENT.code() => Ok(None),
        _ => Err(failed(&format!("reading '{mark}'"), pool_name, &outcome)),
    }
}
