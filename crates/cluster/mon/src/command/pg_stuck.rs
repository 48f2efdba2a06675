//! `pg dump_stuck`: PGs that have been in a bad state for too long.

use messages::{PgStat, PgState};
use options::opt;
use types::{Errno, PgId, UTime};

use super::osd::set_text;
use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::{Align, Json, Table};
use crate::mon::Mon;
use crate::stats::json::pg_json;

pub(super) const COMMANDS: &[Command] = &[Command {
    signature: "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded,n=N,req=false name=threshold,type=CephInt,req=false",
    help: "PGs that have been in a bad state for too long (default: unclean)",
    module: "pg",
    perm: "r",
    run: dump_stuck,
}];

/// Since when a PG is in a bad state, if it is.
fn since(pg: &PgStat, what: &str) -> Option<UTime> {
    let is = |state: PgState| pg.state.has(state);
    let (bad, last_good) = match what {
        "inactive" => (!is(PgState::ACTIVE), pg.last_active),
        "unclean" => (!is(PgState::CLEAN), pg.last_clean),
        "stale" => (is(PgState::STALE), pg.last_unstale),
        "undersized" => (is(PgState::UNDERSIZED), pg.last_fullsized),
        _ => (is(PgState::DEGRADED), pg.last_undegraded),
    };
    bad.then_some(last_good)
}

fn dump_stuck(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut wanted = call.args.list("stuckops")?;
    if wanted.is_empty() {
        wanted.push("unclean".into());
    }
    for what in &wanted {
        if !["inactive", "unclean", "stale", "undersized", "degraded"].contains(&what.as_str()) {
            return fail(Errno::EINVAL, format!("'{what}' is not a way to be stuck"));
        }
    }
    let seconds = match call.args.int("threshold")? {
        Some(seconds) => u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
        None => mon.options.get(opt::MON_PG_STUCK_THRESHOLD).min(u32::MAX.into()) as u32,
    };
    let cutoff = UTime { sec: call.now.sec.saturating_sub(seconds), nsec: call.now.nsec };
    let stuck = |pg: &PgStat| wanted.iter().any(|what| since(pg, what).is_some_and(|since| since < cutoff));
    let pgs: Vec<(&PgId, &PgStat)> = mon.pgmap.pgs.iter().filter(|(_, pg)| stuck(pg)).collect();
    let json = || {
        Json::object()
            .with("pg_ready", true)
            .with("stuck_pg_stats", Json::array(pgs.iter().map(|(id, pg)| pg_json(**id, pg))))
    };
    let text = || {
        if pgs.is_empty() {
            return String::new();
        }
        let mut table = Table::new()
            .columns(Align::Left, &["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"]);
        for (id, pg) in &pgs {
            table.row([
                id.to_string(),
                pg.state.to_string(),
                set_text(&pg.up),
                pg.up_primary.to_string(),
                set_text(&pg.acting),
                pg.acting_primary.to_string(),
            ]);
        }
        table.render()
    };
    let mut answer = call.show(json, text);
    answer.status = "ok".into();
    Ok(answer)
}
