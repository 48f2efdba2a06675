//! `report`: everything about the cluster in one JSON object, as support asks for it.

use super::pg::member;
use super::{Answer, Call, Command, Failure};
use crate::crush_view;
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::{kept_maps, osdmap};

pub(super) const COMMANDS: &[Command] = &[Command {
    signature: "report name=tags,type=CephString,n=N,req=false",
    help: "Everything about the cluster",
    module: "mon",
    perm: "r",
    run: report,
}];

fn report(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let profile = mon.config.profile;
    let health = mon.health(call.now);
    let osds = osdmap::osds(&mon.osdmap);
    let metadata = osds.map(|osd| {
        let of = mon.osd_metadata(osd);
        of.iter().fold(Json::object().with("id", osd), |out, (k, v)| out.with(k, v.as_str()))
    });
    let pgs = super::pg::dump_json(mon);
    let empty = || Json::Array(vec![]);
    let of_pgs = |key: &str| member(&pgs, "pg_map").and_then(|map| member(map, key)).cloned();
    let pg_stats = mon.pgmap.pgs.values();
    let (active, unknown) = pg_stats.fold((0u64, 0u64), |(active, unknown), pg| {
        let is_active = pg.state.has(messages::PgState::ACTIVE);
        (active + u64::from(is_active), unknown + u64::from(pg.state.is_unknown()))
    });
    let states = mon.pgmap.by_state();
    let states =
        states.iter().map(|(state, n)| Json::object().with("state", state.to_string()).with("num", *n));
    let by_osd = osdmap::osds(&mon.osdmap).map(|osd| {
        let leads = mon.pgmap.pgs.values().filter(|pg| pg.acting_primary.0 == osd).count();
        Json::object()
            .with("osd", osd)
            .with("num_primary_pg", leads)
            .with("num_acting_pg", mon.pgmap.pgs_of(osd))
            .with("num_up_not_acting_pg", 0)
    });
    let secrets = crate::service::auth_store::all(&mon.state).len();
    let versions = |last: u64| Json::object().with("first_committed", 1).with("last_committed", last);
    let clean = Json::object()
        .with("min_last_epoch_clean", mon.osdmap.epoch.0)
        .with("last_epoch_clean", Json::object())
        .with("osd_epochs", empty());
    let json = Json::object()
        .with("cluster_fingerprint", mon.config.fsid.to_string())
        .with("version", profile.version)
        .with("commit", "")
        .with("timestamp", call.now.to_string())
        .with("tag", call.args.list("tags")?.join(" "))
        .with("health", health.json(true))
        .with("monmap_first_committed", mon.monmap.epoch.0)
        .with("monmap_last_committed", mon.monmap.epoch.0)
        .with("monmap", super::mon::monmap_json(mon))
        .with("quorum", Json::array([0]))
        .with("osdmap", super::osd::dump_json(&mon.osdmap))
        .with("osd_metadata", Json::array(metadata))
        .with("osdmap_clean_epochs", clean)
        .with("osdmap_first_committed", kept_maps::first_committed(&mon.state))
        .with("osdmap_last_committed", mon.osdmap.epoch.0)
        .with("crushmap", crush_view::dump(&mon.osdmap.crush))
        .with("fsmap", super::absent::fsmap_json())
        .with("mdsmap_first_committed", 1)
        .with("mdsmap_last_committed", 1)
        .with("auth", versions(1).with("num_secrets", secrets))
        .with("num_pg", mon.pgmap.pgs.len())
        .with("num_pg_active", active)
        .with("num_pg_unknown", unknown)
        .with("num_osd", osdmap::osds(&mon.osdmap).count())
        .with("pool_sum", of_pgs("pg_stats_sum").unwrap_or_else(Json::object))
        .with("osd_sum", of_pgs("osd_stats_sum").unwrap_or_else(Json::object))
        .with("osd_sum_by_class", Json::object())
        .with("pool_stats", of_pgs("pool_stats").unwrap_or_else(empty))
        .with("osd_stats", of_pgs("osd_stats").unwrap_or_else(empty))
        .with("num_pg_by_state", Json::array(states))
        .with("num_pg_by_osd", Json::array(by_osd))
        .with("purged_snaps", empty())
        .with("servicemap", super::services::map_json(mon))
        .with("paxos", versions(mon.token).with("last_pn", 0).with("accepted_pn", 0));
    let shown = call.show_json(json);
    Ok(Answer { status: format!("report {}", buffer::crc32c(0, &shown.data)), ..shown })
}
