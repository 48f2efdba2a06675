//! `pg scrub …`, `osd scrub …`, `osd pool scrub …`: the monitor tells OSDs to scrub PGs of which they are the primary, deeply or with repair.

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use messages::OsdScrub2;
use types::{EntityType, Errno, OsdId, PgId, SpgId};

use super::{Answer, Call, Command, Failure, args, fail, osd_rw};
use crate::mon::Mon;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    pg_rw("pg scrub name=pgid,type=CephPgid", "Scrub a PG: check the metadata of its objects"),
    pg_rw("pg deep-scrub name=pgid,type=CephPgid", "Scrub a PG deeply: read all its data too"),
    pg_rw("pg repair name=pgid,type=CephPgid", "Scrub a PG deeply and mend what can be mended"),
    osd_rw("osd scrub name=who,type=CephString", "Scrub the PGs that an OSD leads, or <all>", scrub_osd),
    osd_rw(
        "osd deep-scrub name=who,type=CephString",
        "Scrub the PGs deeply that an OSD leads, or <all>",
        scrub_osd,
    ),
    osd_rw("osd repair name=who,type=CephString", "Repair the PGs that an OSD leads, or <all>", scrub_osd),
    osd_rw("osd pool scrub name=who,type=CephPoolname,n=N", "Scrub pools", scrub_pools),
    osd_rw("osd pool deep-scrub name=who,type=CephPoolname,n=N", "Scrub pools deeply", scrub_pools),
    osd_rw("osd pool repair name=who,type=CephPoolname,n=N", "Repair pools", scrub_pools),
];

const fn pg_rw(signature: &'static str, help: &'static str) -> Command {
    Command { signature, help, module: "pg", perm: "rw", run: scrub_pg }
}

/// The command's last word: what is done to PGs.
fn verb<'a>(call: &Call<'a>) -> Result<&'a str, Failure> {
    Ok(call.args.prefix()?.rsplit(' ').next().unwrap_or_default())
}

fn scrub_pg(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = call.args.required("pgid")?;
    let Ok(pg) = text.parse::<PgId>() else {
        return fail(Errno::EINVAL, format!("invalid pgid '{text}'"));
    };
    if mon.osdmap.pools.get(&pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) {
        return fail(Errno::ENOENT, format!("pg {pg} does not exist"));
    }
    let Some(osd) = mon.osdmap.pg_to_up_acting(pg).acting_primary else {
        return fail(Errno::EAGAIN, format!("pg {pg} has no primary osd"));
    };
    let verb = verb(call)?;
    if !mon.order_scrub(osd, vec![pg], verb) {
        return fail(Errno::EAGAIN, format!("pg {pg} primary osd.{} is not currently connected", osd.0));
    }
    Ok(Answer::status(format!("instructing pg {pg} on osd.{} to {verb}", osd.0)))
}

fn scrub_osd(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let who = call.args.required("who")?;
    let up = |osd: &i32| osdmap::is_up(&mon.osdmap, *osd);
    let osds: BTreeSet<i32> = match (who.as_str(), args::parse_osd(&who)) {
        ("*" | "all" | "any", _) => osdmap::osds(&mon.osdmap).filter(up).collect(),
        (_, Some(osd)) if up(&osd) => [osd].into(),
        (_, Some(osd)) => return fail(Errno::EAGAIN, format!("osd.{osd} is not up")),
        (_, None) => return fail(Errno::EINVAL, format!("invalid osd '{who}'")),
    };
    let (verb, mut led) = (verb(call)?, mon.led_pgs(|_| true));
    let (told, failed): (Vec<i32>, Vec<i32>) = osds.into_iter().partition(|osd| {
        let pgs = led.remove(&OsdId(*osd)).unwrap_or_default();
        mon.order_scrub(OsdId(*osd), pgs, verb)
    });
    let list = |osds: &[i32]| osds.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    if told.is_empty() {
        let why = format!("failed to instruct osd(s) {} to {verb} (not connected)", list(&failed));
        return fail(Errno::EAGAIN, why);
    }
    let mut status = format!("instructed osd(s) {} to {verb}", list(&told));
    if !failed.is_empty() {
        status += &format!("; osd(s) {} were not connected", list(&failed));
    }
    Ok(Answer::status(status))
}

fn scrub_pools(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let names = call.args.list("who")?;
    if names.is_empty() {
        return fail(Errno::EINVAL, "must specify one or more pool names");
    }
    let mut pools = BTreeSet::new();
    for name in names {
        match mon.osdmap.pool_by_name(&name) {
            Some(id) => drop(pools.insert(id)),
            None => return fail(Errno::ENOENT, format!("unrecognized pool '{name}'")),
        }
    }
    let verb = verb(call)?;
    for (osd, pgs) in mon.led_pgs(|pg| pools.contains(&pg.pool)) {
        if !mon.order_scrub(osd, pgs, verb) {
            return fail(Errno::EAGAIN, format!("osd.{} is not currently connected", osd.0));
        }
    }
    Ok(Answer::default())
}

impl Mon {
    /// The PGs that are `wanted`, by the OSDs that the map makes their primaries.
    fn led_pgs(&self, wanted: impl Fn(&PgId) -> bool) -> BTreeMap<OsdId, Vec<PgId>> {
        let mut led: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
        for (id, pool) in &self.osdmap.pools {
            let pgs = (0..pool.pg_num).map(|seed| PgId { pool: *id, seed });
            for pg in pgs.filter(&wanted) {
                if let Some(osd) = self.osdmap.pg_to_up_acting(pg).acting_primary {
                    led.entry(osd).or_default().push(pg);
                }
            }
        }
        led
    }

    /// Tells an OSD to scrub PGs. Whether it has a session.
    fn order_scrub(&mut self, osd: OsdId, pgs: Vec<PgId>, verb: &str) -> bool {
        let id = osd.0.to_string();
        let of_osd = |session: &crate::session::Session| {
            session.info.entity.kind == EntityType::Osd && session.info.entity.id == id
        };
        let sessions: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| of_osd(session)).map(|(id, _)| *id).collect();
        let order = OsdScrub2 {
            fsid: self.config.fsid,
            epoch: self.osdmap.epoch,
            scrub_pgs: pgs.into_iter().map(SpgId::from).collect(),
            repair: verb == "repair",
            deep: verb == "deep-scrub",
        };
        self.orders.extend(sessions.iter().map(|session| (*session, order.clone().into())));
        !sessions.is_empty()
    }
}
