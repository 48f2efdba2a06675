//! `osd pool set POOL pg_num|pgp_num N`: the checks of Ceph's prepare_command_pool_set, and what can't be done yet.

use maps::{PgPool, PoolFlags, PoolOption, PoolOptionKey};
use options::opt;
use types::{Errno, PoolId};

use super::{Answer, Call, Failure, fail};
use crate::homes::NO_MOVES;
use crate::mon::Mon;

/// Sets a pool's `pg_num`, which may rise, and with it `pgp_num` where the two were the same and nothing moves.
pub(super) fn set_pg_num(mon: &mut Mon, call: &Call<'_>, id: PoolId, n: u64) -> Result<Answer, Failure> {
    let Some(pool) = mon.osdmap.pools.get(&id).cloned() else { return fail(Errno::ENOENT, "no such pool") };
    let done = format!("set pool {id} pg_num to {n}");
    check_may_change(&pool, "pg_num")?;
    if n == u64::from(pool.pg_num_target) {
        return Ok(Answer::status(done));
    }
    let max = mon.options.get(opt::MON_MAX_POOL_PG_NUM);
    let pg_num = match u32::try_from(n) {
        Ok(pg_num) if n > 0 && n <= max => pg_num,
        _ => return fail(Errno::ERANGE, format!("pg_num must be from 1 to {max} (mon_max_pool_pg_num)")),
    };
    if pg_num < pool.pg_num_target {
        let target = pool.pg_num_target;
        return fail(
            Errno::EOPNOTSUPP,
            format!("pg_num can't be lowered from {target} to {pg_num}: PGs can't be merged yet"),
        );
    }
    mon.check_pgs_per_osd(Some(id), pg_num, pool.size.into(), pool.crush_rule.into())?;
    let bound = |key: i32| match pool.opts.get(&key) {
        Some(PoolOption::Int(bound)) if *bound > 0 => Some(*bound),
        Some(_) | None => None,
    };
    if let Some(least) = bound(PoolOptionKey::PG_NUM_MIN).filter(|least| i64::from(pg_num) < *least) {
        return fail(
            Errno::EINVAL,
            format!("pg_num {pg_num} is below the pool's pg_num_min, which is {least}"),
        );
    }
    if let Some(most) = bound(PoolOptionKey::PG_NUM_MAX).filter(|most| i64::from(pg_num) > *most) {
        return fail(
            Errno::EINVAL,
            format!("pg_num {pg_num} is above the pool's pg_num_max, which is {most}"),
        );
    }
    if let Some(pg) = mon.splits_elsewhere(id, pg_num) {
        let from = pool.raw_pg_to_pg(pg);
        return fail(
            Errno::EOPNOTSUPP,
            format!(
                "pg {from} is not where CRUSH places it, so pg {pg}, which would come out of it, would be on other \
                 OSDs: {NO_MOVES}; take the exception of pg {from} away first (upmap or pg_temp)"
            ),
        );
    }
    let follows = pool.pg_num_target == pool.pgp_num_target;
    let may_follow = mon.leaving(id, &PgPool { pg_num, pgp_num: pg_num, ..pool.clone() }).is_none();
    let mut wanted = PgPool { pg_num_target: pg_num, ..pool };
    if follows && may_follow {
        wanted.pgp_num_target = pg_num;
    }
    let (next, epoch) = (mon.next_pg_numbers(id, &wanted), mon.osdmap.epoch.next());
    let (targets, waits) = ((wanted.pg_num_target, wanted.pgp_num_target), next.pg_num < pg_num);
    mon.change_pool(call.now, id, |pool| {
        (pool.pg_num_target, pool.pgp_num_target) = targets;
        next.apply(pool, epoch);
    })?;
    let mut status = done;
    if waits {
        status += &format!("; it is {} until every PG of the pool is active", next.pg_num);
    }
    if follows && !may_follow {
        status += &format!("; pgp_num stays {}: {NO_MOVES}", targets.1);
    }
    Ok(Answer::status(status))
}

/// Sets a pool's `pgp_num`, as far as that takes no PG from its objects.
pub(super) fn set_pgp_num(
    mon: &mut Mon,
    call: &Call<'_>,
    id: PoolId,
    (var, n): (&str, u64),
) -> Result<Answer, Failure> {
    let Some(pool) = mon.osdmap.pools.get(&id).cloned() else { return fail(Errno::ENOENT, "no such pool") };
    let done = Answer::status(format!("set pool {id} {var} to {n}"));
    check_may_change(&pool, "pgp_num")?;
    let pg_num = pool.pg_num_target;
    let pgp_num = match u32::try_from(n) {
        Ok(pgp_num) if n > 0 && pgp_num <= pg_num => pgp_num,
        _ => return fail(Errno::EINVAL, format!("{var} must be from 1 to pg_num, which is {pg_num}")),
    };
    if pgp_num == pool.pgp_num_target && pgp_num == pool.pgp_num {
        return Ok(done);
    }
    if let Some(leaving) = mon.leaving(id, &PgPool { pg_num, pgp_num, ..pool.clone() }) {
        let stays = pool.pgp_num;
        return fail(
            Errno::EOPNOTSUPP,
            format!(
                "{var} {pgp_num} would place PGs on other OSDs ({leaving}): {NO_MOVES}; it stays {stays}"
            ),
        );
    }
    let wanted = PgPool { pgp_num_target: pgp_num, ..pool };
    let (next, epoch) = (mon.next_pg_numbers(id, &wanted), mon.osdmap.epoch.next());
    mon.change_pool(call.now, id, |pool| {
        pool.pgp_num_target = pgp_num;
        next.apply(pool, epoch);
    })?;
    Ok(done)
}

fn check_may_change(pool: &PgPool, var: &str) -> Result<(), Failure> {
    match pool.has_flags(PoolFlags::NOPGCHANGE) {
        true => {
            fail(Errno::EPERM, format!("the pool's flag nopgchange keeps {var} as it is; clear it first"))
        }
        false => Ok(()),
    }
}
