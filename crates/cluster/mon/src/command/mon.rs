//! `mon …`, `quorum_status`, `node ls`: the daemons that are not OSDs.

use std::collections::BTreeMap;

use encoding::Encode;
use types::{AddrType, EntityAddr, EntityAddrVec, Errno, UTime};

use super::status::version_counts;
use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "mon dump name=epoch,type=CephInt,range=0,req=false",
        help: "The monitor map",
        module: "mon",
        perm: "r",
        run: dump,
    },
    Command {
        signature: "mon stat",
        help: "The monitor map in one line",
        module: "mon",
        perm: "r",
        run: stat,
    },
    Command {
        signature: "mon getmap name=epoch,type=CephInt,range=0,req=false",
        help: "The monitor map in its binary form",
        module: "mon",
        perm: "r",
        run: getmap,
    },
    Command {
        signature: "mon metadata name=id,type=CephString,req=false",
        help: "What a monitor said of itself",
        module: "mon",
        perm: "r",
        run: metadata,
    },
    Command {
        signature: "mon versions",
        help: "Versions of the monitors",
        module: "mon",
        perm: "r",
        run: versions,
    },
    Command {
        signature: "quorum_status",
        help: "The monitors and their quorum",
        module: "mon",
        perm: "r",
        run: quorum_status,
    },
    Command {
        signature: "mon_status",
        help: "State of this monitor",
        module: "mon",
        perm: "r",
        run: quorum_status,
    },
    Command { signature: "version", help: "Version of this monitor", module: "mon", perm: "r", run: version },
    Command {
        signature: "node ls name=type,type=CephChoices,strings=all|osd|mon|mds|mgr,req=false",
        help: "Daemons by host",
        module: "mon",
        perm: "r",
        run: node_ls,
    },
];

fn addr_json(addr: &EntityAddr) -> Json {
    let kind = match addr.kind {
        AddrType::None => "none",
        AddrType::Legacy => "v1",
        AddrType::Msgr2 => "v2",
        AddrType::Any => "any",
        AddrType::Cidr => "cidr",
    };
    Json::object().with("type", kind).with("addr", socket_text(addr)).with("nonce", addr.nonce)
}

fn socket_text(addr: &EntityAddr) -> String {
    addr.socket.map_or_else(|| "(unrecognized address family 0)".into(), |socket| socket.to_string())
}

/// The first of some addresses; a blank one where there is none.
pub(super) fn first_addr_json(addrs: &EntityAddrVec) -> Json {
    addr_json(&addrs.0.first().copied().unwrap_or_default())
}

/// Addresses as `{"addrvec":[…]}`.
pub(super) fn addrs_json(addrs: &EntityAddrVec) -> Json {
    Json::object().with("addrvec", Json::array(addrs.0.iter().map(addr_json)))
}

/// The address that programs of old have of a peer: version 1's, or the first one.
pub(crate) fn legacy(addrs: &EntityAddrVec) -> Option<&EntityAddr> {
    addrs.0.iter().find(|addr| addr.kind == AddrType::Legacy).or(addrs.0.first())
}

/// The address that programs of old show: version 1's, `ip:port/nonce`; without one, blank.
pub(crate) fn legacy_addr(addrs: &EntityAddrVec) -> String {
    match legacy(addrs).filter(|addr| addr.socket.is_some()) {
        Some(addr) => format!("{}/{}", socket_text(addr), addr.nonce),
        None => "(unrecognized address family 0)/0".into(),
    }
}

pub(super) const PERSISTENT: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

pub(super) fn monmap_json(mon: &Mon) -> Json {
    let addrs = EntityAddrVec(vec![mon.config.addr]);
    let stamp = |time: types::UTime| time.to_string().replace("+0000", "Z");
    let one = Json::object()
        .with("rank", 0)
        .with("name", mon.config.name.as_str())
        .with("public_addrs", addrs_json(&addrs))
        .with("addr", legacy_addr(&addrs))
        .with("public_addr", legacy_addr(&addrs))
        .with("priority", 0)
        .with("weight", 0)
        .with("crush_location", "{}");
    let features =
        Json::object().with("persistent", Json::array(PERSISTENT)).with("optional", Json::Array(vec![]));
    Json::object()
        .with("epoch", mon.monmap.epoch.0)
        .with("fsid", mon.config.fsid.to_string())
        .with("modified", stamp(mon.monmap.last_changed))
        .with("created", stamp(mon.monmap.created))
        .with("min_mon_release", mon.config.profile.release.0)
        .with("min_mon_release_name", mon.config.profile.release.name())
        .with("election_strategy", 1)
        .with("disallowed_leaders: ", "")
        .with("stretch_mode", false)
        .with("tiebreaker_mon", "")
        .with("removed_ranks: ", "")
        .with("features", features)
        .with("mons", Json::Array(vec![one]))
}

fn only_epoch(mon: &Mon, call: &Call<'_>) -> Result<(), Failure> {
    let newest = u64::from(mon.monmap.epoch.0);
    match call.args.int("epoch")? {
        Some(epoch) if epoch > 0 && epoch as u64 != newest => {
            fail(Errno::ENOENT, format!("there is no monitor map of epoch {epoch}"))
        }
        _ => Ok(()),
    }
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    only_epoch(mon, call)?;
    let text = || {
        format!(
            "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: 1\n0: {} mon.{}\n",
            mon.monmap.epoch.0,
            mon.config.fsid,
            mon.monmap.last_changed,
            mon.monmap.created,
            mon.config.profile.release.0,
            mon.config.profile.release.name(),
            EntityAddrVec(vec![mon.config.addr]),
            mon.config.name
        )
    };
    let mut answer = call.show(|| monmap_json(mon).with("quorum", Json::array([0])), text);
    answer.status = format!("dumped monmap epoch {}", mon.monmap.epoch.0);
    Ok(answer)
}

fn stat(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = mon.config.name.as_str();
    let json = || {
        Json::object()
            .with("epoch", mon.monmap.epoch.0)
            .with("min_mon_release_name", mon.config.profile.release.name())
            .with("num_mons", 1)
            .with("leader", name)
            .with("quorum", Json::Array(vec![Json::object().with("rank", 0).with("name", name)]))
    };
    let text = || {
        let addrs = EntityAddrVec(vec![mon.config.addr]);
        format!(
            "e{}: 1 mons at {{{name}={addrs}}} removed_ranks: {{}}, election epoch 1, leader 0 {name}, quorum 0 {name}\n",
            mon.monmap.epoch.0
        )
    };
    Ok(call.show(json, text))
}

fn getmap(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    only_epoch(mon, call)?;
    let data = mon.monmap.to_bytes(mon.config.profile.features_encode);
    Ok(Answer { status: format!("got monmap epoch {}", mon.monmap.epoch.0), data })
}

impl Mon {
    pub(super) fn own_metadata(&self) -> BTreeMap<String, String> {
        let addrs = EntityAddrVec(vec![self.config.addr]).to_string();
        let release = self.config.profile.release.name();
        [
            ("addrs", addrs.as_str()),
            ("arch", std::env::consts::ARCH),
            ("ceph_release", release),
            ("ceph_version", self.config.version.as_str()),
            ("ceph_version_short", self.config.profile.version),
            ("hostname", self.config.hostname.as_str()),
            ("os", "Linux"),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .chain(self.config.machine.clone())
        .collect()
    }
}

fn metadata(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let own = mon
        .own_metadata()
        .iter()
        .fold(Json::object().with("name", mon.config.name.as_str()), |out, (k, v)| out.with(k, v.as_str()));
    match call.args.text("id")? {
        None => Ok(call.show_json(Json::Array(vec![own]))),
        Some(id) if id.strip_prefix("mon.").unwrap_or(&id) == mon.config.name => Ok(call.show_json(own)),
        Some(id) => fail(Errno::ENOENT, format!("there is no monitor '{id}'")),
    }
}

fn versions(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call.show_json(version_counts(&BTreeMap::from([(mon.config.version.clone(), 1)]))))
}

fn version(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let json = Json::object()
        .with("version", mon.config.profile.version)
        .with("release", mon.config.profile.release.name())
        .with("release_type", "stable");
    Ok(call.show_json(json))
}

fn quorum_status(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = mon.config.name.as_str();
    let json = Json::object()
        .with("election_epoch", 1)
        .with("quorum", Json::array([0]))
        .with("quorum_names", Json::array([name]))
        .with("quorum_leader_name", name)
        .with("quorum_age", call.now.sec.saturating_sub(mon.started.sec))
        .with("features", features_json(mon, false))
        .with("monmap", monmap_json(mon));
    let pretty = call.format == super::Format::JsonPretty;
    Ok(Answer::data(if pretty { json.pretty() + "\n" } else { json.compact() }))
}

/// The monitor's state, added to `json` as the answer to a ping has it.
pub(crate) fn mon_status(mon: &Mon, now: UTime, json: Json) -> Json {
    json.with("name", mon.config.name.as_str())
        .with("rank", 0)
        .with("state", "leader")
        .with("election_epoch", 1)
        .with("quorum", Json::array([0]))
        .with("quorum_age", now.sec.saturating_sub(mon.started.sec))
        .with("features", features_json(mon, true))
        .with("outside_quorum", Json::Array(vec![]))
        .with("extra_probe_peers", Json::Array(vec![]))
        .with("sync_provider", Json::Array(vec![]))
        .with("monmap", monmap_json(mon))
        .with("feature_map", super::status::feature_map(mon))
        .with("stretch_mode", false)
}

/// The features that the monitors have, and those that they ask for.
fn features_json(mon: &Mon, with_required: bool) -> Json {
    let supported = mon.config.profile.features_supported.to_string();
    let required = match with_required {
        true => Json::object()
            .with("required_con", supported.as_str())
            .with("required_mon", Json::array(PERSISTENT)),
        false => Json::object(),
    };
    required.with("quorum_con", supported).with("quorum_mon", Json::array(PERSISTENT))
}

fn node_ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut osds: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for osd in osdmap::osds(&mon.osdmap) {
        if let Some(host) = mon.osd_metadata(osd).get("hostname") {
            osds.entry(host.clone()).or_default().push(osd);
        }
    }
    let of_osds = osds.into_iter().fold(Json::object(), |out, (host, ids)| out.with(&host, Json::array(ids)));
    let of_mons = Json::object().with(&mon.config.hostname, Json::array([mon.config.name.as_str()]));
    let of_mgrs = match mon.mgrmap.available {
        true => Json::object().with(&mon.config.hostname, Json::array([mon.mgrmap.active_name.as_str()])),
        false => Json::object(),
    };
    let json = match call.args.text("type")?.as_deref() {
        None | Some("all") => Json::object().with("mon", of_mons).with("osd", of_osds).with("mgr", of_mgrs),
        Some("mon") => of_mons,
        Some("osd") => of_osds,
        Some("mgr") => of_mgrs,
        Some("mds") => Json::object(),
        Some(other) => return fail(Errno::EINVAL, format!("'{other}' is not a kind of daemon")),
    };
    Ok(call.show_json(json))
}
