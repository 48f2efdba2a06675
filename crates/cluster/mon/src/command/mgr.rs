//! `mgr …`: the one manager there is, which the monitor itself is; or none.

use std::collections::BTreeMap;

use types::Errno;

use super::mon::{addrs_json, legacy_addr};
use super::status::version_counts;
use super::{Answer, Call, Command, Failure, fail, mgr_r};
use crate::fmt::Json;
use crate::mon::Mon;

pub(super) const COMMANDS: &[Command] = &[
    mgr_r("mgr stat", "The manager map in short", stat),
    mgr_r("mgr dump name=epoch,type=CephInt,range=0,req=false", "The manager map", dump),
    mgr_r("mgr module ls", "The manager's modules (it has none)", |_, call| {
        let json = ["always_on_modules", "enabled_modules", "disabled_modules"]
            .into_iter()
            .fold(Json::object(), |out, kind| out.with(kind, Json::Array(vec![])));
        Ok(call.show_json(json))
    }),
    mgr_r("mgr services", "Addresses that modules serve at (there are none)", |_, call| {
        Ok(call.show_json(Json::object()))
    }),
    mgr_r(
        "mgr metadata name=who,type=CephString,req=false",
        "What the managers said of themselves",
        metadata,
    ),
    mgr_r("mgr versions", "Versions of the managers", |mon, call| {
        Ok(call.show_json(version_counts(&mon.manager_versions())))
    }),
    mgr_r(
        "mgr count-metadata name=property,type=CephString",
        "How many managers said what of a property",
        |mon, call| {
            let property = call.args.required("property")?;
            let value = mon.manager_metadata().and_then(|mut facts| facts.remove(&property));
            Ok(call.show_json(value.map_or_else(Json::object, |value| Json::object().with(&value, 1))))
        },
    ),
];

impl Mon {
    /// How many managers run which version.
    pub(super) fn manager_versions(&self) -> BTreeMap<String, u64> {
        self.mgrmap.available.then(|| (self.config.version.clone(), 1)).into_iter().collect()
    }

    /// What the manager says of itself: what the monitor does, at another address.
    fn manager_metadata(&self) -> Option<BTreeMap<String, String>> {
        let addrs = &self.mgrmap.active_addrs;
        let own = [("addr", legacy_addr(addrs)), ("addrs", addrs.to_string())];
        let own = own.map(|(key, value)| (key.to_owned(), value));
        self.mgrmap.available.then(|| self.own_metadata().into_iter().chain(own).collect())
    }
}

fn stat(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let json = Json::object()
        .with("epoch", mon.mgrmap.epoch.0)
        .with("available", mon.mgrmap.available)
        .with("active_name", mon.mgrmap.active_name.as_str())
        .with("num_standby", 0);
    Ok(call.show_json(json))
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let map = &mon.mgrmap;
    // The map changes only with a start, and those of the starts before are not kept.
    if let Some(epoch) =
        call.args.int("epoch")?.filter(|epoch| !matches!(epoch, 0) && *epoch != i64::from(map.epoch.0))
    {
        return fail(Errno::ENOENT, format!("there is no manager map of epoch {epoch}"));
    }
    let json = Json::object()
        .with("epoch", map.epoch.0)
        .with("active_gid", map.active_gid)
        .with("active_name", map.active_name.as_str())
        .with("active_addrs", addrs_json(&map.active_addrs))
        .with("active_addr", legacy_addr(&map.active_addrs))
        .with("active_change", map.active_change.to_string())
        .with("active_mgr_features", map.active_mgr_features)
        .with("available", map.available)
        .with("standbys", Json::Array(vec![]))
        .with("modules", Json::Array(vec![]))
        .with("available_modules", Json::Array(vec![]))
        .with("services", Json::object())
        .with("always_on_modules", Json::object())
        .with("last_failure_osd_epoch", map.last_failure_osd_epoch.0)
        .with("active_clients", Json::Array(vec![]));
    Ok(call.show_json(json))
}

fn metadata(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = mon.mgrmap.active_name.as_str();
    let own = mon.manager_metadata().map(|facts| {
        facts
            .iter()
            .fold(Json::object().with("name", name), |out, (key, value)| out.with(key, value.as_str()))
    });
    match (call.args.text("who")?, own) {
        (None, own) => Ok(call.show_json(Json::array(own))),
        (Some(who), Some(own)) if who.strip_prefix("mgr.").unwrap_or(&who) == name => Ok(call.show_json(own)),
        (Some(who), _) => fail(Errno::ENOENT, format!("there is no manager '{who}'")),
    }
}
