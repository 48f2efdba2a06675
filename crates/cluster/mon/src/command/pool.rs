//! `osd pool …`: making, listing, renaming and removing pools.

use maps::{PgPool, PoolFlags, PoolOption, PoolOptionKey};
use options::opt;
use types::{Errno, OsdId, PoolId, UTime};

use super::pool_show::{applications_json, pool_json, pool_line};
use super::status::{rates_into, rates_text};
use super::{Answer, Call, Command, Failure, fail};
use crate::crush_view;
use crate::fmt::Json;
use crate::mon::{Claim, Mon};
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false name=pgp_num,type=CephInt,range=0,req=false name=pool_type,type=CephChoices,strings=replicated|erasure,req=false name=erasure_code_profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.] name=rule,type=CephString,req=false name=expected_num_objects,type=CephInt,range=0,req=false name=size,type=CephInt,range=0,req=false name=pg_num_min,type=CephInt,range=0,req=false name=pg_num_max,type=CephInt,range=0,req=false name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false name=bulk,type=CephBool,req=false name=target_size_bytes,type=CephInt,range=0,req=false name=target_size_ratio,type=CephFloat,range=0.0,req=false",
        help: "Make a pool",
        module: "osd",
        perm: "rw",
        run: create,
    },
    Command {
        signature: "osd pool ls name=detail,type=CephChoices,strings=detail,req=false",
        help: "Names of the pools; with 'detail', everything about them",
        module: "osd",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "osd lspools",
        help: "Numbers and names of the pools",
        module: "osd",
        perm: "r",
        run: lspools,
    },
    Command {
        signature: "osd pool rm name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        help: "Remove a pool and everything in it",
        module: "osd",
        perm: "rw",
        run: remove,
    },
    Command {
        signature: "osd pool delete name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        help: "Remove a pool and everything in it",
        module: "osd",
        perm: "rw",
        run: remove,
    },
    Command {
        signature: "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname",
        help: "Give a pool another name",
        module: "osd",
        perm: "rw",
        run: rename,
    },
    Command {
        signature: "osd pool stats name=pool_name,type=CephPoolname,req=false",
        help: "What clients do to a pool (or all pools) at the moment",
        module: "osd",
        perm: "r",
        run: stats,
    },
    Command {
        signature: "osd pool application enable name=pool,type=CephPoolname name=app,type=CephString,goodchars=[A-Za-z0-9-_.] name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Say which application a pool is for",
        module: "osd",
        perm: "rw",
        run: application_enable,
    },
    Command {
        signature: "osd pool application disable name=pool,type=CephPoolname name=app,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Take an application off a pool",
        module: "osd",
        perm: "rw",
        run: application_disable,
    },
    Command {
        signature: "osd pool application set name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString,goodchars=[A-Za-z0-9-_.] name=value,type=CephString,goodchars=[A-Za-z0-9-_.=]",
        help: "Keep a value of an application with a pool",
        module: "osd",
        perm: "rw",
        run: application_set,
    },
    Command {
        signature: "osd pool application rm name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString",
        help: "Remove a value of an application from a pool",
        module: "osd",
        perm: "rw",
        run: application_rm,
    },
    Command {
        signature: "osd pool application get name=pool,type=CephPoolname,req=false name=app,type=CephString,req=false name=key,type=CephString,req=false",
        help: "Applications of a pool (or of all pools) and their values",
        module: "osd",
        perm: "r",
        run: application_get,
    },
];

/// The pool that a command names.
pub(super) fn find(mon: &Mon, name: &str) -> Result<PoolId, Failure> {
    match mon.osdmap.pool_by_name(name) {
        Some(id) => Ok(id),
        None => fail(Errno::ENOENT, format!("unrecognized pool '{name}'")),
    }
}

impl Mon {
    /// Takes a pool for a change and changes it.
    pub(crate) fn change_pool(
        &mut self,
        now: UTime,
        id: PoolId,
        change: impl FnOnce(&mut PgPool),
    ) -> Result<(), Failure> {
        self.claim_or_wait(Claim::Pool(id.0))?;
        let Some(mut pool) = self.osdmap.pools.get(&id).cloned() else {
            return fail(Errno::ENOENT, format!("there is no pool {id}"));
        };
        change(&mut pool);
        self.osdmap_change(now).new_pools.insert(id, pool);
        Ok(())
    }

    /// librados' MPoolOp: a pool with the defaults.
    pub(crate) fn pool_op_create(&mut self, now: UTime, m: &messages::PoolOp) -> Result<(), Failure> {
        let name = String::from_utf8(m.name.as_bytes().to_vec())
            .map_err(|_| Failure::Errno(Errno::EINVAL, "a pool's name is text".into()))?;
        if self.osdmap.pool_by_name(&name).is_some() {
            return fail(Errno::EEXIST, String::new());
        }
        let plan = Plan { rule: u32::try_from(m.crush_rule).ok(), ..Plan::default() };
        self.make_pool(now, &name, plan)
    }

    /// librados' MPoolOp.
    pub(crate) fn pool_op_delete(&mut self, now: UTime, id: PoolId) -> Result<(), Failure> {
        if self.osdmap.pools.contains_key(&id) {
            return self.drop_pool(now, id);
        }
        fail(Errno::ENOENT, String::new())
    }

    fn drop_pool(&mut self, now: UTime, id: PoolId) -> Result<(), Failure> {
        if !self.options.get(opt::MON_ALLOW_POOL_DELETE) {
            return fail(
                Errno::EPERM,
                "removing pools is switched off; set mon_allow_pool_delete to true for the monitor first",
            );
        }
        if self.osdmap.pools.get(&id).is_some_and(|p| p.has_flags(PoolFlags::NODELETE)) {
            return fail(Errno::EPERM, "the pool's nodelete flag is set; unset it before removing the pool");
        }
        self.claim_or_wait(Claim::Pools)?;
        self.claim_or_wait(Claim::Pool(id.0))?;
        let temp: Vec<_> = self.osdmap.pg_temp.keys().filter(|pg| pg.pool == id).copied().collect();
        let change = self.osdmap_change(now);
        change.old_pools.insert(id);
        change.new_pg_temp.extend(temp.into_iter().map(|pg| (pg, Vec::<OsdId>::new())));
        self.keep_pool_created(id, None);
        Ok(())
    }

    /// PGs each OSD would hold on average with `more` added (copies counted).
    pub(super) fn check_pgs_per_osd(
        &self,
        of: Option<PoolId>,
        pg_num: u32,
        size: u32,
        rule: u32,
    ) -> Result<(), Failure> {
        let max = self.options.get(opt::MON_MAX_PG_PER_OSD);
        let crush = &self.osdmap.crush;
        let mut inside = std::collections::BTreeSet::new();
        if let Some(rule) = crush.rule(rule) {
            for step in rule.steps.iter().filter(|step| step.op == crush::op::TAKE) {
                let below = crush_view::walk_from(crush, step.arg1).into_iter().map(|node| node.id);
                inside.extend(below.filter(|id| *id >= 0 && osdmap::is_in(&self.osdmap, *id)));
            }
        }
        let osds = inside.len().max(1) as u64;
        let held: u64 = self
            .osdmap
            .pools
            .iter()
            .filter(|(id, pool)| u32::from(pool.crush_rule) == rule && of != Some(**id))
            .map(|(_, pool)| u64::from(pool.pg_num_target) * u64::from(pool.size))
            .sum();
        let wanted = held + u64::from(pg_num) * u64::from(size);
        if wanted > max * osds {
            let in_now = if osds == 1 { "OSD that is in" } else { "OSDs that are in" };
            fail(
                Errno::ERANGE,
                format!(
                    "pg_num {pg_num} size {size} would make {} PGs an OSD and {wanted} in all, more than \
                     mon_max_pg_per_osd ({max}) allows on the {osds} {in_now}",
                    wanted / osds
                ),
            )
        } else {
            Ok(())
        }
    }

    fn make_pool(&mut self, now: UTime, name: &str, plan: Plan) -> Result<(), Failure> {
        check_name(name)?;
        let size = plan.size.filter(|s| *s > 0).unwrap_or(self.options.get(opt::OSD_POOL_DEFAULT_SIZE));
        check_size(size)?;
        let (pg_num, pgp_num) = self.pg_numbers_of(&plan)?;
        let rule = self.rule_of(&plan)?;
        self.check_pgs_per_osd(None, pg_num as u32, size as u32, rule)?;
        self.claim_or_wait(Claim::Pools)?;
        let min_size = match self.options.get(opt::OSD_POOL_DEFAULT_MIN_SIZE) {
            0 => size - size / 2,
            n => n.min(size),
        };
        let mut pool = PgPool::replicated(size as u8, min_size as u8, pg_num as u32, rule as u8);
        pool.pgp_num = pgp_num as u32;
        pool.pgp_num_target = pgp_num as u32;
        pool.create_time = now;
        pool.expected_num_objects = plan.expected_num_objects;
        pool.pg_autoscale_mode = match plan.autoscale_mode.as_deref() {
            Some(mode) => autoscale_number(mode)?,
            None => autoscale_number(self.options.get(opt::OSD_POOL_DEFAULT_PG_AUTOSCALE_MODE)).unwrap_or(0),
        };
        if plan.bulk {
            pool.flags |= PoolFlags::BULK;
        }
        if !self.options.get(opt::OSD_POOL_DEFAULT_FLAG_HASHPSPOOL) {
            pool.flags &= !PoolFlags::HASHPSPOOL;
        }
        // Until every PG exists: an OSD creates a PG only in a pool that was never complete.
        pool.flags |= PoolFlags::CREATING;
        pool.opts.extend(plan.opts);
        // The default that Ceph's CACHE fields have even without a cache.
        pool.use_gmt_hitset = true;
        let id = PoolId(i64::from(self.osdmap.pool_max) + 1);
        let epoch = self.osdmap.epoch.next();
        pool.last_change = epoch;
        let change = self.osdmap_change(now);
        change.new_pool_max = Some(id.0);
        change.new_pools.insert(id, pool);
        change.new_pool_names.insert(id, name.to_string());
        self.keep_pool_created(id, Some(epoch));
        Ok(())
    }

    /// A new pool's pg_num and pgp_num.
    fn pg_numbers_of(&self, plan: &Plan) -> Result<(u64, u64), Failure> {
        let default = self.options.get(opt::OSD_POOL_DEFAULT_PG_NUM);
        let pg_num = plan.pg_num.filter(|n| *n > 0).unwrap_or(default);
        let pg_max = self.options.get(opt::MON_MAX_POOL_PG_NUM);
        if pg_num == 0 || pg_num > pg_max {
            return fail(Errno::ERANGE, format!("pg_num must be from 1 to {pg_max} (mon_max_pool_pg_num)"));
        }
        let pgp_num =
            plan.pgp_num.filter(|n| *n > 0).or(Some(self.options.get(opt::OSD_POOL_DEFAULT_PGP_NUM)));
        let pgp_num =
            pgp_num.filter(|n| *n > 0 && (plan.pgp_num.is_some() || *n <= pg_num)).unwrap_or(pg_num);
        match pgp_num > pg_num {
            true => fail(Errno::ERANGE, format!("pgp_num must not exceed pg_num, which is {pg_num}")),
            false => Ok((pg_num, pgp_num)),
        }
    }

    /// A new pool's CRUSH rule: the one named, the options' one, or the first for replicated pools.
    fn rule_of(&self, plan: &Plan) -> Result<u32, Failure> {
        let default = || u32::try_from(self.options.get(opt::OSD_POOL_DEFAULT_CRUSH_RULE)).ok();
        let of_replicated = || {
            let mut rules = crush_view::rules(&self.osdmap.crush);
            rules.find(|(_, rule)| rule.kind == crush::Rule::REPLICATED).map(|(number, _)| number)
        };
        let Some(rule) = plan.rule.or_else(default).or_else(of_replicated) else {
            return fail(Errno::ENOENT, "there is no CRUSH rule for replicated pools");
        };
        match self.osdmap.crush.rule(rule) {
            Some(_) => Ok(rule),
            None => fail(Errno::ENOENT, format!("there is no CRUSH rule {rule}")),
        }
    }
}

/// What a new pool is to be like; what is not given comes from the options.
#[derive(Default)]
struct Plan {
    pg_num: Option<u64>,
    pgp_num: Option<u64>,
    size: Option<u64>,
    rule: Option<u32>,
    expected_num_objects: u64,
    autoscale_mode: Option<String>,
    bulk: bool,
    opts: Vec<(i32, PoolOption)>,
}

fn check_name(name: &str) -> Result<(), Failure> {
    match name {
        "" => fail(Errno::EINVAL, "the pool's name is empty"),
        name if name.len() > 1024 => fail(Errno::ENAMETOOLONG, "the pool's name is longer than 1024 bytes"),
        name if name.chars().any(char::is_control) => {
            fail(Errno::EINVAL, "the pool's name contains a control character")
        }
        _ => Ok(()),
    }
}

/// Only one copy is accepted until replication is supported.
pub(super) fn check_size(size: u64) -> Result<(), Failure> {
    match size {
        1 => Ok(()),
        2..=10 => fail(
            Errno::EINVAL,
            format!("size {size} needs replication, which is not supported yet; use size 1"),
        ),
        _ => fail(Errno::EINVAL, "size must be from 1 to 10"),
    }
}

pub(super) fn autoscale_number(mode: &str) -> Result<u8, Failure> {
    match mode {
        "off" => Ok(0),
        "warn" => Ok(1),
        "on" => Ok(2),
        _ => fail(Errno::EINVAL, format!("'{mode}' is not an autoscale mode (expected off, warn or on)")),
    }
}

/// A non-negative argument.
fn unsigned(call: &Call<'_>, name: &str) -> Result<Option<u64>, Failure> {
    match call.args.int(name)? {
        None => Ok(None),
        Some(n) => match u64::try_from(n) {
            Ok(n) => Ok(Some(n)),
            Err(_) => fail(Errno::EINVAL, format!("{name} must not be negative")),
        },
    }
}

fn create(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("pool")?;
    if mon.osdmap.pool_by_name(&name).is_some() {
        return Ok(Answer::status(format!("pool '{name}' already exists")));
    }
    // For a replicated pool a rule's name may be in the place of the erasure-code profile.
    let mut rule = call.args.text("rule")?;
    match call.args.text("pool_type")?.as_deref() {
        Some("erasure") => {
            return fail(
                Errno::EINVAL,
                "erasure-coded pools are not supported yet; make a replicated pool of size 1",
            );
        }
        None | Some("replicated") => {}
        Some(other) => {
            return fail(Errno::EINVAL, format!("'{other}' is not a pool type (expected replicated)"));
        }
    }
    if let Some(given) = call.args.text("erasure_code_profile")? {
        if rule.is_none() {
            rule = Some(given)
        } else {
            return fail(Errno::EINVAL, "an erasure-code profile is only for an erasure-coded pool");
        }
    }
    let rule = match rule.filter(|r| !r.is_empty()) {
        None => None,
        Some(name) => match mon.osdmap.crush.rule_by_name(&name) {
            Some(rule) => Some(rule),
            None => return fail(Errno::ENOENT, format!("there is no CRUSH rule '{name}'")),
        },
    };
    let mut opts = Vec::new();
    for (key, option) in [
        (PoolOptionKey::PG_NUM_MIN, "pg_num_min"),
        (PoolOptionKey::PG_NUM_MAX, "pg_num_max"),
        (PoolOptionKey::TARGET_SIZE_BYTES, "target_size_bytes"),
    ] {
        if let Some(value) = unsigned(call, option)?.filter(|v| *v > 0) {
            opts.push((key, PoolOption::Int(value as i64)));
        }
    }
    if let Some(value) = call.args.float("target_size_ratio")?.filter(|v| *v > 0.0) {
        opts.push((PoolOptionKey::TARGET_SIZE_RATIO, PoolOption::Double(value)));
    }
    let plan = Plan {
        pg_num: unsigned(call, "pg_num")?,
        pgp_num: unsigned(call, "pgp_num")?,
        size: unsigned(call, "size")?,
        rule,
        expected_num_objects: unsigned(call, "expected_num_objects")?.unwrap_or(0),
        autoscale_mode: call.args.text("autoscale_mode")?,
        bulk: call.args.flag("bulk"),
        opts,
    };
    mon.make_pool(call.now, &name, plan)?;
    Ok(Answer::status(format!("pool '{name}' created")))
}

fn remove(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("pool")?;
    let Some(id) = mon.osdmap.pool_by_name(&name) else {
        return Ok(Answer::status(format!("pool '{name}' does not exist")));
    };
    let twice = call.args.text("pool2")?.as_deref() == Some(name.as_str());
    let sure = call.args.flag("yes_i_really_really_mean_it")
        || call.args.flag("yes_i_really_really_mean_it_not_faking");
    if !twice || !sure {
        return fail(
            Errno::EPERM,
            format!(
                "everything in pool '{name}' would be gone for good; if that is wanted, give the pool's name twice \
                 and --yes-i-really-really-mean-it"
            ),
        );
    }
    mon.drop_pool(call.now, id)?;
    Ok(Answer::status(format!("pool '{name}' removed")))
}

fn rename(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (from, to) = (call.args.required("srcpool")?, call.args.required("destpool")?);
    let Some(id) = mon.osdmap.pool_by_name(&from) else {
        return match mon.osdmap.pool_by_name(&to) {
            Some(_) => Ok(Answer::status(format!("pool '{from}' is gone; '{to}' exists"))),
            None => fail(Errno::ENOENT, format!("unrecognized pool '{from}'")),
        };
    };
    if mon.osdmap.pool_by_name(&to).is_some() {
        return fail(Errno::EEXIST, format!("pool '{to}' already exists"));
    }
    check_name(&to)?;
    mon.claim_or_wait(Claim::Pools)?;
    mon.osdmap_change(call.now).new_pool_names.insert(id, to.clone());
    Ok(Answer::status(format!("pool '{from}' renamed to '{to}'")))
}

fn lspools(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let pools = || osdmap::pools(&mon.osdmap);
    let json = || {
        Json::array(pools().map(|(id, name, _)| Json::object().with("poolnum", id.0).with("poolname", name)))
    };
    Ok(call.show(json, || pools().map(|(id, name, _)| format!("{id} {name}\n")).collect()))
}

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let pools = || osdmap::pools(&mon.osdmap);
    if call.args.text("detail")?.is_some_and(|d| d == "detail") {
        let json = || Json::array(pools().map(|(id, name, pool)| pool_json("pool_id", id, &name, pool)));
        let text = || {
            let mut out: String = pools().map(|(id, name, pool)| pool_line(id, &name, pool) + "\n").collect();
            out.push('\n');
            out
        };
        return Ok(call.show(json, text));
    }
    let text = || pools().map(|(_, name, _)| name + "\n").collect();
    Ok(call.show(|| Json::array(pools().map(|(_, name, _)| name)), text))
}

fn stats(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let wanted = match call.args.text("pool_name")? {
        Some(name) => Some(find(mon, &name)?),
        None => None,
    };
    let pools: Vec<(PoolId, String)> = osdmap::pools(&mon.osdmap)
        .filter(|(id, ..)| wanted.is_none_or(|w| w == *id))
        .map(|(id, name, _)| (id, name))
        .collect();
    let json = || {
        Json::array(pools.iter().map(|(id, name)| {
            let mut rates = Json::object();
            rates_into(&mut rates, &mon.pgmap.rates(Some(*id)));
            Json::object()
                .with("pool_name", name.as_str())
                .with("pool_id", id.0)
                .with("recovery", Json::object())
                .with("recovery_rate", Json::object())
                .with("client_io_rate", rates)
        }))
    };
    let text = || {
        if pools.is_empty() {
            return "there are no pools\n".to_string();
        }
        let lines = pools.iter().map(|(id, name)| {
            let work = rates_text(&mon.pgmap.rates(Some(*id)));
            if work.is_empty() {
                format!("pool {name} id {id}\n  nothing is going on\n\n")
            } else {
                format!("pool {name} id {id}\n  client io {work}\n\n")
            }
        });
        lines.collect()
    };
    Ok(call.show(json, text))
}

fn application_enable(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, app) = (call.args.required("pool")?, call.args.required("app")?);
    let id = find(mon, &name)?;
    if app.is_empty() || app.len() > 128 {
        return fail(Errno::EINVAL, "an application's name must have 1 to 128 bytes");
    }
    let enabled = mon.osdmap.pools.get(&id).map(|p| p.application_metadata.clone()).unwrap_or_default();
    let said = format!("enabled application '{app}' on pool '{name}'");
    if enabled.contains_key(&app) {
        return Ok(Answer::status(said));
    }
    if !enabled.is_empty() && !call.args.flag("yes_i_really_mean_it") {
        return fail(
            Errno::EPERM,
            format!(
                "pool '{name}' is for another application already; add --yes-i-really-mean-it to use it for both"
            ),
        );
    }
    mon.change_pool(call.now, id, |pool| {
        pool.application_metadata.insert(app.clone(), Default::default());
    })?;
    Ok(Answer::status(said))
}

fn application_disable(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, app) = (call.args.required("pool")?, call.args.required("app")?);
    let id = find(mon, &name)?;
    if !call.args.flag("yes_i_really_mean_it") {
        return fail(
            Errno::EPERM,
            "an application may stop working without its pool; add --yes-i-really-mean-it to go on",
        );
    }
    mon.change_pool(call.now, id, |pool| drop(pool.application_metadata.remove(&app)))?;
    Ok(Answer::status(format!("disable application '{app}' on pool '{name}'")))
}

fn enabled(mon: &Mon, name: &str, app: &str) -> Result<PoolId, Failure> {
    let id = find(mon, name)?;
    if mon.osdmap.pools.get(&id).is_some_and(|p| p.application_metadata.contains_key(app)) {
        Ok(id)
    } else {
        fail(Errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"))
    }
}

fn application_set(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, app) = (call.args.required("pool")?, call.args.required("app")?);
    let (key, value) = (call.args.required("key")?, call.args.required("value")?);
    let id = enabled(mon, &name, &app)?;
    if key.len() > 128 || value.len() > 128 {
        return fail(Errno::EINVAL, "a key or value is longer than 128 bytes");
    }
    let said = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    mon.change_pool(call.now, id, |pool| {
        pool.application_metadata.entry(app).or_default().insert(key, value);
    })?;
    Ok(Answer::status(said))
}

fn application_rm(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, app) = (call.args.required("pool")?, call.args.required("app")?);
    let key = call.args.required("key")?;
    let id = enabled(mon, &name, &app)?;
    let said = format!("removed application '{app}' key '{key}' on pool '{name}'");
    mon.change_pool(call.now, id, |pool| {
        pool.application_metadata.entry(app).or_default().remove(&key);
    })?;
    Ok(Answer::status(said))
}

fn application_get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let Some(name) = call.args.text("pool")? else {
        let all = osdmap::pools(&mon.osdmap)
            .fold(Json::object(), |out, (_, name, pool)| out.with(&name, applications_json(pool)));
        return Ok(call.show_json(all));
    };
    let id = find(mon, &name)?;
    let Some(pool) = mon.osdmap.pools.get(&id) else { return fail(Errno::ENOENT, "no such pool") };
    let Some(app) = call.args.text("app")? else { return Ok(call.show_json(applications_json(pool))) };
    let Some(values) = pool.application_metadata.get(&app) else {
        return fail(Errno::ENOENT, format!("pool '{name}' has no application '{app}'"));
    };
    match call.args.text("key")? {
        None => {
            let json = values.iter().fold(Json::object(), |out, (k, v)| out.with(k, v.as_str()));
            Ok(call.show_json(json))
        }
        Some(key) => match values.get(&key) {
            Some(value) => Ok(call.show(|| Json::from(value.as_str()), || format!("{value}\n"))),
            None => fail(Errno::ENOENT, format!("application '{app}' has no key '{key}'")),
        },
    }
}
