//! `osd …` that takes OSDs out of the map for good, and bounds their numbers.

use std::collections::BTreeSet;

use maps::OsdState;
use options::opt;
use types::{Errno, Fsid, OsdId, UTime};

use super::osd_safety::safety;
use super::{Answer, Call, Command, Failure, fail};
use crate::mon::{Claim, Mon};
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd purge name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Remove a down OSD from the OSD map and the CRUSH map for good",
        module: "osd",
        perm: "rw",
        run: purge,
    },
    Command {
        signature: "osd purge-new name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Remove an OSD that never booted",
        module: "osd",
        perm: "rw",
        run: purge_new,
    },
    Command {
        signature: "osd rm name=ids,type=CephString,n=N",
        help: "Remove down OSDs from the OSD map; the CRUSH map keeps them",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Command {
        signature: "osd setmaxosd name=newmax,type=CephInt,range=0",
        help: "Bound the numbers of OSDs",
        module: "osd",
        perm: "rw",
        run: set_max,
    },
];

impl Mon {
    /// Takes an OSD out of the OSD map. What it said of itself goes too.
    fn remove_osd(&mut self, now: UTime, osd: i32) {
        let state = self.osdmap.osd(OsdId(osd)).map_or(0, |entry| entry.state);
        let change = self.osdmap_change(now);
        // Every bit that is set is flipped, EXISTS with them: the entry is cleared.
        change.new_state.insert(OsdId(osd), state | OsdState::EXISTS);
        change.new_uuid.insert(OsdId(osd), Fsid::default());
        self.forget_osd_metadata(osd);
    }
}

/// The OSD that a command names, if it exists and is down.
fn down_osd(mon: &Mon, call: &Call<'_>) -> Result<(i32, Option<u32>), Failure> {
    let Some(osd) = call.args.osd("id")? else { return fail(Errno::EINVAL, "which OSD?") };
    match mon.osdmap.osd(OsdId(osd)).filter(|entry| entry.exists()) {
        Some(entry) if entry.is_up() => fail(Errno::EBUSY, format!("osd.{osd} is not `down`.")),
        Some(entry) => Ok((osd, Some(entry.state))),
        None => Ok((osd, None)),
    }
}

fn purge(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let Some(osd) = call.args.osd("id")? else { return fail(Errno::EINVAL, "which OSD?") };
    if osdmap::exists(&mon.osdmap, osd)
        && !(call.args.flag("force") || call.args.flag("yes_i_really_mean_it"))
    {
        let why = safety(mon, BTreeSet::from([osd])).why;
        if !why.is_empty() {
            let hint = "You can proceed by passing --force, but be warned that this will likely mean real, \
                        permanent data loss.";
            return fail(Errno::EBUSY, format!("{}\n{hint}", why.join(" ")));
        }
    }
    let (osd, state) = down_osd(mon, call)?;
    if state.is_none() {
        return Ok(Answer::status(format!("osd.{osd} does not exist")));
    }
    take_out(mon, call, osd)
}

fn purge_new(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (osd, state) = down_osd(mon, call)?;
    let Some(state) = state else { return Ok(Answer::status(format!("osd.{osd} does not exist"))) };
    if state & OsdState::NEW == 0 {
        return fail(Errno::EPERM, format!("osd.{osd} is not new"));
    }
    if !call.args.flag("yes_i_really_mean_it") {
        let text = format!("osd.{osd} will be removed for good. Pass --yes-i-really-mean-it if you mean it.");
        return fail(Errno::EPERM, text);
    }
    take_out(mon, call, osd)
}

/// Removes an OSD from both maps.
fn take_out(mon: &mut Mon, call: &Call<'_>, osd: i32) -> Result<Answer, Failure> {
    let mut crush = mon.osdmap.crush.clone();
    let is_placed = crush.item_names.contains_key(&osd);
    if is_placed {
        crush.remove_item(osd, None)?;
        mon.claim_all_or_wait(&[Claim::Osd(osd), Claim::Crush])?;
        mon.osdmap_change(call.now).set_crush(&crush);
    } else {
        mon.claim_or_wait(Claim::Osd(osd))?;
    }
    mon.remove_osd(call.now, osd);
    Ok(Answer::status(format!("purged osd.{osd}")))
}

fn rm(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (mut said, mut going, mut is_busy) = (String::new(), Vec::new(), false);
    for osd in call.osds(&mon.osdmap)? {
        if !osdmap::exists(&mon.osdmap, osd) {
            said += &format!("osd.{osd} does not exist. ");
        } else if osdmap::is_up(&mon.osdmap, osd) {
            said += &format!("osd.{osd} is still up; must be down before removal. ");
            is_busy = true;
        } else {
            going.push(osd);
        }
    }
    let claims: Vec<Claim> = going.iter().map(|osd| Claim::Osd(*osd)).collect();
    mon.claim_all_or_wait(&claims)?;
    for osd in &going {
        mon.remove_osd(call.now, *osd);
    }
    if !going.is_empty() {
        let names: Vec<String> = going.iter().map(|osd| format!("osd.{osd}")).collect();
        said = format!("removed {}. {said}", names.join(", "));
    } else if is_busy {
        return fail(Errno::EBUSY, said);
    }
    Ok(Answer::status(said))
}

fn set_max(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let limit = mon.options.get(opt::MON_MAX_OSD);
    let Some(wanted) = call.args.int("newmax")?.and_then(|n| i32::try_from(n).ok()).filter(|n| *n >= 0)
    else {
        return fail(Errno::EINVAL, format!("newmax must be from 0 to {limit}"));
    };
    if wanted as u64 > limit {
        let text = format!("cannot set max_osd to {wanted} which is > conf.mon_max_osd ({limit})");
        return fail(Errno::ERANGE, text);
    }
    if let Some(osd) = osdmap::osds(&mon.osdmap).find(|osd| *osd >= wanted) {
        let text =
            format!("cannot shrink max_osd to {wanted} because osd.{osd} (and possibly others) still in use");
        return fail(Errno::EBUSY, text);
    }
    mon.claim_or_wait(Claim::Flags)?;
    mon.osdmap_change(call.now).new_max_osd = Some(wanted);
    Ok(Answer::status(format!("set new max_osd = {wanted}")))
}
