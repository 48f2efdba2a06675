//! `osd …` for OSDs whose data is gone: given up, made anew, and their PGs made again.

use std::collections::BTreeSet;

use maps::{OsdState, PoolFlags};
use types::{Errno, Fsid, OsdId, PgId};

use super::osd_safety::safety;
use super::{Answer, Call, Command, Failure, absent, fail};
use crate::fmt::Json;
use crate::mon::{Claim, Mon};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd destroy name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Give up what an OSD holds; its number stays, for a new one",
        module: "osd",
        perm: "rw",
        run: destroy,
    },
    Command {
        signature: "osd lost name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Say that what a down OSD holds never comes back",
        module: "osd",
        perm: "rw",
        run: lost,
    },
    Command {
        signature: "osd new name=uuid,type=CephUUID name=id,type=CephOsdName,req=false",
        help: "Make a destroyed OSD again, for a store of this UUID",
        module: "osd",
        perm: "rw",
        run: new,
    },
    Command {
        signature: "osd force-create-pg name=pgid,type=CephPgid name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Make a PG again, empty, every copy of which is lost",
        module: "osd",
        perm: "rw",
        run: force_create_pg,
    },
];

fn osd(call: &Call<'_>) -> Result<i32, Failure> {
    match call.args.osd("id")? {
        Some(osd) => Ok(osd),
        None => fail(Errno::EINVAL, "which OSD?"),
    }
}

/// The state's bits of an OSD, if it exists.
fn bits(mon: &Mon, osd: i32) -> Option<u32> {
    mon.osdmap.osd(OsdId(osd)).filter(|entry| entry.exists()).map(|entry| entry.state)
}

fn destroy(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let osd = osd(call)?;
    if !(call.args.flag("force") || call.args.flag("yes_i_really_mean_it")) {
        let why = safety(mon, BTreeSet::from([osd])).why;
        if !why.is_empty() {
            let hint = "You can proceed by passing --force, but be warned that this will likely mean real, \
                        permanent data loss.";
            return fail(Errno::EBUSY, format!("{}\n{hint}", why.join(" ")));
        }
    }
    match bits(mon, osd) {
        None => return Ok(Answer::status(format!("osd.{osd} does not exist"))),
        Some(bits) if bits & OsdState::UP != 0 => {
            return fail(Errno::EBUSY, format!("osd.{osd} is not `down`."));
        }
        Some(bits) if bits & OsdState::DESTROYED != 0 => {}
        Some(_) => {
            mon.claim_or_wait(Claim::Osd(osd))?;
            let change = mon.osdmap_change(call.now);
            change.new_state.insert(OsdId(osd), OsdState::DESTROYED);
            change.new_uuid.insert(OsdId(osd), Fsid::default());
        }
    }
    Ok(Answer::status(format!("destroyed osd.{osd}")))
}

fn lost(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let osd = osd(call)?;
    if !call.args.flag("yes_i_really_mean_it") {
        return fail(
            Errno::EPERM,
            "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you really do.",
        );
    }
    let entry = mon.osdmap.osd(OsdId(osd)).filter(|entry| entry.exists());
    let Some((is_up, down_at)) = entry.map(|entry| (entry.is_up(), entry.info.down_at)) else {
        return fail(Errno::ENOENT, format!("osd.{osd} does not exist"));
    };
    if is_up {
        return fail(Errno::EBUSY, format!("osd.{osd} is not down"));
    }
    mon.claim_or_wait(Claim::Osd(osd))?;
    mon.osdmap_change(call.now).new_lost.insert(OsdId(osd), down_at);
    Ok(Answer::status(format!("marked osd lost in epoch {}", down_at.0)))
}

/// The OSD that has a UUID.
fn with_uuid(mon: &Mon, uuid: Fsid) -> Option<i32> {
    mon.osdmap.existing_osds().find(|(_, entry)| entry.uuid == uuid).map(|(id, _)| id.0)
}

fn new(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (text, asked) = (call.args.required("uuid")?, call.args.osd("id")?);
    let Some(uuid) = text.parse::<Fsid>().ok().filter(|uuid| !uuid.is_zero()) else {
        return fail(Errno::EINVAL, format!("invalid UUID value '{text}'."));
    };
    let show = |osd: i32| call.show(|| Json::object().with("osdid", osd), || format!("{osd}\n"));
    match (with_uuid(mon, uuid), asked) {
        (Some(has), Some(asked)) if has != asked => {
            return fail(Errno::EEXIST, format!("uuid {uuid} already in use for different id {has}"));
        }
        (Some(has), _) => return Ok(show(has)),
        (None, _) => {}
    }
    // A number without an OSD would stay without one: nothing here starts it.
    let Some((osd, bits)) = asked.and_then(|osd| Some((osd, bits(mon, osd)?))) else {
        return (absent::NO_NEW_OSDS)(mon, call);
    };
    if bits & OsdState::DESTROYED == 0 {
        return fail(Errno::EINVAL, format!("id {osd} already in use and does not match uuid {uuid}"));
    }
    mon.claim_or_wait(Claim::Osd(osd))?;
    let change = mon.osdmap_change(call.now);
    change.new_state.insert(OsdId(osd), OsdState::DESTROYED | (!bits & OsdState::NEW));
    change.new_uuid.insert(OsdId(osd), uuid);
    Ok(show(osd))
}

fn force_create_pg(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = call.args.required("pgid")?;
    let Ok(pg) = text.parse::<PgId>() else {
        return fail(Errno::EINVAL, format!("invalid pgid '{text}'"));
    };
    if !mon.pgmap.pgs.contains_key(&pg) {
        return fail(Errno::ENOENT, format!("pgid '{text}' does not exist"));
    }
    if !call.args.flag("yes_i_really_mean_it") {
        return fail(
            Errno::EPERM,
            "This command makes a PG again, without objects, whose data is lost: the cluster gives up ever recovering \
             it. Do this only if you are certain that all copies of the PG are in fact lost and you are willing to \
             accept that the data is permanently destroyed. Pass --yes-i-really-mean-it to proceed.",
        );
    }
    let is_creating = mon.osdmap.pools.get(&pg.pool).is_some_and(|pool| pool.has_flags(PoolFlags::CREATING));
    if is_creating && !mon.pgmap.is_reported(pg) && mon.forced_pgs.permit(pg) {
        return Ok(Answer::status(format!("pg {pg} already creating")));
    }
    let epoch = mon.osdmap.epoch.next();
    mon.change_pool(call.now, pg.pool, |pool| {
        pool.flags |= PoolFlags::CREATING;
        // A request that waits for the PG is older than the new one, which would drop it: clients are to send theirs again.
        pool.last_force_op_resend = epoch;
        pool.last_force_op_resend_prenautilus = epoch;
        pool.last_force_op_resend_preluminous = epoch;
    })?;
    mon.force_pg(pg, mon.osdmap.epoch);
    Ok(Answer::status(format!("pg {pg} now creating, ok")))
}
