//! Flags of the whole OSD map and of single OSDs, CRUSH nodes and device classes.

use std::collections::BTreeMap;

use maps::{MapFlags, OsdState};
use types::{Errno, OsdId};

use super::args::parse_osd;
use super::{Answer, Call, Command, Failure, fail, osd_rw};
use crate::mon::{Claim, Mon};
use crate::service::osdmap;

const NAMES: [(&str, u32); 4] = [
    ("noup", OsdState::NOUP),
    ("nodown", OsdState::NODOWN),
    ("noin", OsdState::NOIN),
    ("noout", OsdState::NOOUT),
];

macro_rules! one_flag {
    ($($add:literal $remove:literal $flag:literal,)*) => {
        &[
            osd_rw("osd pause", "Have all clients hold their reads and writes", |mon, call| pause(mon, call, true)),
            osd_rw("osd unpause", "Let clients go on after osd pause", |mon, call| pause(mon, call, false)),
            osd_rw(
                "osd set-group name=flags,type=CephString name=who,type=CephString,n=N",
                "Set flags (noup,nodown,noin,noout) of OSDs, CRUSH nodes or device classes",
                |mon, call| group(mon, call, true),
            ),
            osd_rw(
                "osd unset-group name=flags,type=CephString name=who,type=CephString,n=N",
                "Unset flags (noup,nodown,noin,noout) of OSDs, CRUSH nodes or device classes",
                |mon, call| group(mon, call, false),
            ),
            $(
                osd_rw(
                    concat!($add, " name=ids,type=CephString,n=N"),
                    concat!("Set the flag ", $flag, " of OSDs"),
                    |mon, call| change(mon, call, &[$flag], &call.args.list("ids")?, true),
                ),
                osd_rw(
                    concat!($remove, " name=ids,type=CephString,n=N"),
                    concat!("Unset the flag ", $flag, " of OSDs"),
                    |mon, call| change(mon, call, &[$flag], &call.args.list("ids")?, false),
                ),
            )*
        ]
    };
}

pub(super) const COMMANDS: &[Command] = one_flag![
    "osd add-noup" "osd rm-noup" "noup",
    "osd add-nodown" "osd rm-nodown" "nodown",
    "osd add-noin" "osd rm-noin" "noin",
    "osd add-noout" "osd rm-noout" "noout",
];

fn pause(mon: &mut Mon, call: &Call<'_>, set: bool) -> Result<Answer, Failure> {
    const BITS: u32 = MapFlags::PAUSERD | MapFlags::PAUSEWR;
    let flags = if set { mon.osdmap.flags | BITS } else { mon.osdmap.flags & !BITS };
    if flags != mon.osdmap.flags {
        mon.claim_or_wait(Claim::Flags)?;
        mon.osdmap_change(call.now).new_flags = Some(flags);
    }
    Ok(Answer::status(format!("pauserd,pausewr is {}", if set { "set" } else { "unset" })))
}

fn group(mon: &mut Mon, call: &Call<'_>, set: bool) -> Result<Answer, Failure> {
    let flags = call.args.required("flags")?;
    let flags: Vec<&str> = flags.split(',').collect();
    change(mon, call, &flags, &call.args.list("who")?, set)
}

/// The subjects of flags.
#[derive(Default)]
struct Subjects {
    osds: Vec<i32>,
    nodes: Vec<i32>,
    classes: Vec<i32>,
}

fn change(
    mon: &mut Mon,
    call: &Call<'_>,
    flags: &[&str],
    who: &[String],
    set: bool,
) -> Result<Answer, Failure> {
    let mut bits = 0;
    for flag in flags {
        match NAMES.iter().find(|(name, _)| name == flag) {
            Some((_, bit)) => bits |= bit,
            None => {
                let text = format!("unrecognized flag '{flag}', must be one of {{noup,nodown,noin,noout}}");
                return fail(Errno::EINVAL, text);
            }
        }
    }
    let Subjects { osds, nodes, classes } = find(mon, who)?;
    let (map, mut said) = (&mon.osdmap, String::new());
    let apply = |old: u32| if set { old | bits } else { old & !bits };
    let (mut flips, mut node_flags, mut class_flags) = (Vec::new(), Vec::new(), Vec::new());
    for osd in osds {
        match map.osd(OsdId(osd)).filter(|entry| entry.exists()) {
            None => said += &format!("osd.{osd} does not exist. "),
            Some(entry) if apply(entry.state) == entry.state => {}
            Some(entry) => flips.push((osd, entry.state ^ apply(entry.state))),
        }
    }
    let changed = |flags: &BTreeMap<i32, u32>, id: i32| {
        let old = flags.get(&id).copied().unwrap_or(0);
        (apply(old) != old).then(|| (id, apply(old)))
    };
    node_flags.extend(nodes.into_iter().filter_map(|id| changed(&map.crush_node_flags, id)));
    class_flags.extend(classes.into_iter().filter_map(|id| changed(&map.device_class_flags, id)));
    // All claims first: a command that waits must have changed nothing.
    let mut claims: Vec<Claim> = flips.iter().map(|(osd, _)| Claim::Osd(*osd)).collect();
    if !node_flags.is_empty() || !class_flags.is_empty() {
        claims.push(Claim::Flags);
    }
    mon.claim_all_or_wait(&claims)?;
    if !claims.is_empty() {
        let change = mon.osdmap_change(call.now);
        change.new_state.extend(flips.into_iter().map(|(osd, bits)| (OsdId(osd), bits)));
        change.new_crush_node_flags.extend(node_flags);
        change.new_device_class_flags.extend(class_flags);
    }
    Ok(Answer::status(said))
}

fn find(mon: &Mon, who: &[String]) -> Result<Subjects, Failure> {
    let (mut found, crush) = (Subjects::default(), &mon.osdmap.crush);
    for name in who {
        if matches!(name.as_str(), "*" | "all" | "any") {
            found.osds.extend(osdmap::osds(&mon.osdmap));
        } else if let Some(osd) = parse_osd(name) {
            found.osds.push(osd);
        } else if let Some(node) = crush.item_by_name(name) {
            found.nodes.push(node);
        } else if let Some(class) = crush.class_by_name(name) {
            found.classes.push(class);
        } else {
            let text = format!("unable to parse osd id or crush node or device class: \"{name}\"");
            return fail(Errno::EINVAL, text);
        }
    }
    if who.is_empty() {
        return fail(Errno::EINVAL, "must specify at least one or more targets to set/unset");
    }
    found.osds.sort_unstable();
    found.osds.dedup();
    Ok(found)
}
