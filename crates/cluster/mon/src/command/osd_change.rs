//! `osd …` that changes OSDs and the map's flags.

use maps::{MapFlags, OsdMap};
use types::{AddrType, EntityAddr, Errno, OsdId, UTime};

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::general;
use crate::mon::{Claim, Mon};
use crate::service::log::LogLevel;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd set name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Set a flag of the OSD map",
        module: "osd",
        perm: "rw",
        run: |mon, call| flag(mon, call, true),
    },
    Command {
        signature: "osd unset name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim",
        help: "Unset a flag of the OSD map",
        module: "osd",
        perm: "rw",
        run: |mon, call| flag(mon, call, false),
    },
    Command {
        signature: "osd down name=ids,type=CephString,n=N name=definitely_dead,type=CephBool,req=false",
        help: "Mark OSDs down; those that live come up again",
        module: "osd",
        perm: "rw",
        run: |mon, call| mark(mon, call, OsdMark::Down),
    },
    Command {
        signature: "osd out name=ids,type=CephString,n=N",
        help: "Mark OSDs out: their data goes elsewhere",
        module: "osd",
        perm: "rw",
        run: |mon, call| mark(mon, call, OsdMark::Out),
    },
    Command {
        signature: "osd in name=ids,type=CephString,n=N",
        help: "Mark OSDs in",
        module: "osd",
        perm: "rw",
        run: |mon, call| mark(mon, call, OsdMark::In),
    },
    Command {
        signature: "osd reweight name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        help: "Let only a part of an OSD's weight count",
        module: "osd",
        perm: "rw",
        run: reweight,
    },
    Command {
        signature: "osd primary-affinity name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        help: "How readily an OSD becomes primary",
        module: "osd",
        perm: "rw",
        run: primary_affinity,
    },
    Command {
        signature: "osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "Use at which OSDs are full",
        module: "osd",
        perm: "rw",
        run: |mon, call| set_ratio(mon, call, "full"),
    },
    Command {
        signature: "osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "Use at which OSDs take no backfill",
        module: "osd",
        perm: "rw",
        run: |mon, call| set_ratio(mon, call, "backfillfull"),
    },
    Command {
        signature: "osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        help: "Use at which OSDs are nearly full",
        module: "osd",
        perm: "rw",
        run: |mon, call| set_ratio(mon, call, "nearfull"),
    },
    Command {
        signature: "osd blocklist name=range,type=CephString,req=false,goodchars=[range] name=blocklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        help: "Have OSDs refuse a client's address, or take it again",
        module: "osd",
        perm: "rw",
        run: blocklist,
    },
    Command {
        signature: "osd blacklist name=blacklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        help: "The same, by its name before Ceph 16",
        module: "osd",
        perm: "rw",
        run: |mon, call| change_blocklist(mon, call, "blacklistop"),
    },
    Command {
        signature: "osd blacklist clear",
        help: "Empty the blocklist, by its name before Ceph 16",
        module: "osd",
        perm: "rw",
        run: blocklist_clear,
    },
    Command {
        signature: "osd blocklist clear",
        help: "Empty the blocklist",
        module: "osd",
        perm: "rw",
        run: blocklist_clear,
    },
    Command {
        signature: "osd set-require-min-compat-client name=version,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Set the oldest release that clients must have (only the present one so far)",
        module: "osd",
        perm: "rw",
        run: set_min_compat_client,
    },
];

fn flag(mon: &mut Mon, call: &Call<'_>, set: bool) -> Result<Answer, Failure> {
    let key = call.args.required("key")?;
    let bits = match key.as_str() {
        "full" => MapFlags::FULL,
        "pause" => MapFlags::PAUSERD | MapFlags::PAUSEWR,
        "noup" => MapFlags::NOUP,
        "nodown" => MapFlags::NODOWN,
        "noout" => MapFlags::NOOUT,
        "noin" => MapFlags::NOIN,
        "nobackfill" => MapFlags::NOBACKFILL,
        "norebalance" => MapFlags::NOREBALANCE,
        "norecover" => MapFlags::NORECOVER,
        "noscrub" => MapFlags::NOSCRUB,
        "nodeep-scrub" => MapFlags::NODEEP_SCRUB,
        "notieragent" => MapFlags::NOTIERAGENT,
        "nosnaptrim" => MapFlags::NOSNAPTRIM,
        "pglog_hardlimit" if set => MapFlags::PGLOG_HARDLIMIT,
        _ => {
            return fail(
                Errno::EINVAL,
                format!(
                    "'{key}' is not a flag of the OSD map that can be {}",
                    if set { "set" } else { "unset" }
                ),
            );
        }
    };
    let flags = if set { mon.osdmap.flags | bits } else { mon.osdmap.flags & !bits };
    if flags != mon.osdmap.flags {
        mon.claim_or_wait(Claim::Flags)?;
        mon.osdmap_change(call.now).new_flags = Some(flags);
    }
    let shown = if key == "pause" { "pauserd,pausewr".to_string() } else { key };
    Ok(Answer::status(format!("{shown} is {}", if set { "set" } else { "unset" })))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OsdMark {
    Down,
    Out,
    In,
}

fn mark(mon: &mut Mon, call: &Call<'_>, what: OsdMark) -> Result<Answer, Failure> {
    let osds = call.osds(&mon.osdmap)?;
    let needed = |mon: &Mon, osd: i32| match what {
        OsdMark::Down => osdmap::is_up(&mon.osdmap, osd),
        OsdMark::Out => osdmap::is_in(&mon.osdmap, osd),
        OsdMark::In => !osdmap::is_in(&mon.osdmap, osd),
    };
    let changing: Vec<i32> =
        osds.iter().copied().filter(|osd| osdmap::exists(&mon.osdmap, *osd) && needed(mon, *osd)).collect();
    if changing.iter().any(|osd| mon.pending.claimed.contains(&Claim::Osd(*osd))) {
        return Err(Failure::Wait);
    }
    let mut said = String::new();
    let word = match what {
        OsdMark::Down => "down",
        OsdMark::Out => "out",
        OsdMark::In => "in",
    };
    for osd in osds {
        if !osdmap::exists(&mon.osdmap, osd) {
            said += &format!("osd.{osd} does not exist. ");
        } else if !changing.contains(&osd) {
            said += &format!("osd.{osd} is already {word}. ");
        } else {
            mon.claim_or_wait(Claim::Osd(osd))?;
            match what {
                OsdMark::Down => mon.mark_down(call.now, osd),
                OsdMark::Out => {
                    mon.set_weight(call.now, osd, 0);
                    mon.say_out(call, osd);
                }
                OsdMark::In => mon.set_weight(call.now, osd, OsdMap::WEIGHT_IN),
            }
            said += &format!("marked {word} osd.{osd}. ");
        }
    }
    Ok(Answer::status(said))
}

impl Mon {
    fn say_out(&mut self, call: &Call<'_>, osd: i32) {
        let who = format!("Client {} marked osd.{osd} out", call.by.entity);
        let since = self.down_since.get(&osd).map(|since| call.now.sec.saturating_sub(since.sec));
        let state = match since {
            Some(seconds) => format!("after it was down for {seconds} seconds"),
            None => "while it was still marked up".into(),
        };
        self.say(call.now, LogLevel::Info, format!("{who}, {state}"));
    }

    fn set_weight(&mut self, now: UTime, osd: i32, weight: u32) {
        self.osdmap_change(now).new_weight.insert(OsdId(osd), weight);
    }
}

fn existing(mon: &Mon, call: &Call<'_>) -> Result<i32, Failure> {
    match call.args.osd("id")? {
        Some(osd) if osdmap::exists(&mon.osdmap, osd) => Ok(osd),
        Some(osd) => fail(Errno::ENOENT, format!("osd.{osd} does not exist")),
        None => fail(Errno::EINVAL, "no OSD was named"),
    }
}

fn part(call: &Call<'_>, name: &str) -> Result<f64, Failure> {
    match call.args.float(name)?.filter(|v| (0.0..=1.0).contains(v)) {
        Some(value) => Ok(value),
        None => fail(Errno::EINVAL, format!("{name} must be from 0 to 1")),
    }
}

fn reweight(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (osd, value) = (existing(mon, call)?, part(call, "weight")?);
    let fixed = (value * f64::from(OsdMap::WEIGHT_IN)) as u32;
    mon.claim_or_wait(Claim::Osd(osd))?;
    mon.osdmap_change(call.now).new_weight.insert(OsdId(osd), fixed);
    Ok(Answer::status(format!("reweighted osd.{osd} to {} ({fixed:x})", general(value, 6))))
}

fn primary_affinity(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (osd, value) = (existing(mon, call)?, part(call, "weight")?);
    let fixed = (value * f64::from(OsdMap::WEIGHT_IN)) as u32;
    mon.claim_or_wait(Claim::Osd(osd))?;
    mon.osdmap_change(call.now).new_primary_affinity.insert(OsdId(osd), fixed);
    Ok(Answer::status(format!("set osd.{osd} primary-affinity to {} ({fixed:x})", general(value, 6))))
}

fn set_ratio(mon: &mut Mon, call: &Call<'_>, which: &str) -> Result<Answer, Failure> {
    let value = part(call, "ratio")?;
    mon.claim_or_wait(Claim::Flags)?;
    let change = mon.osdmap_change(call.now);
    match which {
        "full" => change.new_full_ratio = value as f32,
        "backfillfull" => change.new_backfillfull_ratio = value as f32,
        _ => change.new_nearfull_ratio = value as f32,
    }
    Ok(Answer::status(format!("osd set-{which}-ratio {}", general(value, 6))))
}

/// An address as clients give it: `ip:port/nonce`, the port and the nonce left out for 0, any protocol before it.
fn parse_addr(text: &str) -> Option<EntityAddr> {
    let bare = ["v1:", "v2:", "any:"].iter().find_map(|p| text.strip_prefix(p)).unwrap_or(text);
    let (place, nonce) = bare.split_once('/').unwrap_or((bare, "0"));
    let socket = place
        .parse()
        .or_else(|_| place.trim_matches(['[', ']']).parse().map(|ip| std::net::SocketAddr::new(ip, 0)))
        .ok()?;
    Some(EntityAddr { kind: AddrType::Any, nonce: nonce.parse().ok()?, socket: Some(socket) })
}

fn blocklist(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    if call.args.text("range")?.is_some_and(|r| !r.is_empty()) {
        return fail(Errno::EINVAL, "ranges of addresses can't be blocklisted yet; give single addresses");
    }
    change_blocklist(mon, call, "blocklistop")
}

/// `change`: the argument that says `add` or `rm`.
fn change_blocklist(mon: &mut Mon, call: &Call<'_>, change: &str) -> Result<Answer, Failure> {
    let text = call.args.required("addr")?;
    let Some(addr) = parse_addr(&text) else {
        return fail(Errno::EINVAL, format!("'{text}' is not an address (IP:PORT/NONCE)"));
    };
    let shown = text.as_str();
    match call.args.required(change)?.as_str() {
        "add" => {
            let seconds = call.args.float("expire")?.filter(|s| *s > 0.0).unwrap_or(3600.0);
            let until = UTime::from_nanos(call.now.as_nanos().saturating_add((seconds * 1e9) as u64));
            mon.claim_or_wait(Claim::Blocklist)?;
            mon.osdmap_change(call.now).new_blocklist.insert(addr, until);
            // Applying the change leaves an existing entry as it is, as in Ceph's programs.
            if let Some(until) = mon.osdmap.blocklist.get(&addr) {
                let said =
                    format!("{shown} is blocklisted already, until {until}; remove it first to change that");
                return Ok(Answer::status(said));
            }
            let seconds = general(seconds, 6);
            Ok(Answer::status(format!("blocklisting {shown} until {until} ({seconds} sec)")))
        }
        "rm" if mon.osdmap.blocklist.contains_key(&addr) => {
            mon.claim_or_wait(Claim::Blocklist)?;
            mon.osdmap_change(call.now).old_blocklist.push(addr);
            Ok(Answer::status(format!("un-blocklisting {shown}")))
        }
        "rm" => Ok(Answer::status(format!("{shown} isn't blocklisted"))),
        other => fail(Errno::EINVAL, format!("'{other}' is not an operation (expected add or rm)")),
    }
}

fn blocklist_clear(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let all: Vec<EntityAddr> = mon.osdmap.blocklist.keys().copied().collect();
    if !all.is_empty() {
        mon.claim_or_wait(Claim::Blocklist)?;
        mon.osdmap_change(call.now).old_blocklist.extend(all);
    }
    Ok(Answer::status("removed all blocklist entries"))
}

fn set_min_compat_client(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (wanted, now) = (call.args.required("version")?, mon.osdmap.require_min_compat_client.name());
    if wanted == now {
        Ok(Answer::status(format!("set require_min_compat_client to {wanted}")))
    } else {
        fail(
            Errno::EOPNOTSUPP,
            format!(
                "only {now} is supported yet: newer clients can't be required, and older ones can't be served"
            ),
        )
    }
}
