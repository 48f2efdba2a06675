//! `osd crush …` that changes the CRUSH map: weights, device classes, buckets, rules.

use crush::{BuildError, CrushMap};
use types::Errno;

use super::args::parse_osd;
use super::{Answer, Call, Command, Failure, fail};
use crate::mon::{Claim, Mon};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        help: "Change an OSD's weight in the CRUSH map",
        module: "osd",
        perm: "rw",
        run: reweight,
    },
    Command {
        signature: "osd crush set-device-class name=class,type=CephString name=ids,type=CephString,n=N",
        help: "Give OSDs a device class",
        module: "osd",
        perm: "rw",
        run: set_class,
    },
    Command {
        signature: "osd crush rm-device-class name=ids,type=CephString,n=N",
        help: "Take OSDs' device class away",
        module: "osd",
        perm: "rw",
        run: remove_class,
    },
    Command {
        signature: "osd crush add-bucket name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        help: "Add an empty bucket to the CRUSH map, at a place (TYPE=NAME) or at none",
        module: "osd",
        perm: "rw",
        run: add_bucket,
    },
    Command {
        signature: "osd crush rule create-replicated name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=class,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "Make a rule that spreads copies over buckets of a type",
        module: "osd",
        perm: "rw",
        run: create_rule,
    },
    Command {
        signature: "osd crush rule rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "Remove a rule that no pool uses",
        module: "osd",
        perm: "rw",
        run: remove_rule,
    },
];

impl Mon {
    /// Proposes a CRUSH map that was changed.
    pub(super) fn put_crush(&mut self, call: &Call<'_>, crush: &CrushMap) -> Result<(), Failure> {
        self.claim_or_wait(Claim::Crush)?;
        self.osdmap_change(call.now).set_crush(crush);
        Ok(())
    }
}

/// The weight that a command gives, in 16.16 fixed point and as it is.
pub(super) fn fixed_weight(call: &Call<'_>) -> Result<(u32, f64), Failure> {
    match call.args.float("weight")?.filter(|w| (0.0..=65_535.0).contains(w)) {
        Some(weight) => Ok(((weight * f64::from(CrushMap::WEIGHT_ONE)) as u32, weight)),
        None => fail(Errno::EINVAL, "a weight must be from 0 to 65535"),
    }
}

fn reweight(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let (fixed, wanted) = fixed_weight(call)?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(osd) = crush.item_by_name(&name).filter(|id| *id >= 0) else {
        return fail(Errno::ENOENT, format!("there is no OSD '{name}' in the CRUSH map"));
    };
    crush.set_osd_weight(osd, fixed)?;
    mon.put_crush(call, &crush)?;
    let shown = crate::fmt::general(wanted, 6);
    Ok(Answer::status(format!("reweighted item id {osd} name '{name}' to {shown} in crush map")))
}

/// The OSDs of the CRUSH map that a command names, and words about those that are not there, which as in Ceph are no
/// failure.
fn named(mon: &Mon, call: &Call<'_>) -> Result<(Vec<i32>, String), Failure> {
    let crush = &mon.osdmap.crush;
    let (mut osds, mut missing) = (Vec::new(), String::new());
    for id in call.args.list("ids")? {
        match (id.as_str(), parse_osd(&id)) {
            ("*" | "all" | "any", _) => osds.extend(crush.item_names.keys().filter(|id| **id >= 0)),
            (_, Some(osd)) if crush.parent_of(osd).is_some() => osds.push(osd),
            (_, Some(osd)) => missing += &format!("osd.{osd} does not exist. "),
            _ => return fail(Errno::EINVAL, format!("'{id}' is not an OSD")),
        }
    }
    osds.sort_unstable();
    osds.dedup();
    Ok((osds, missing))
}

pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)) {
        fail(
            Errno::EINVAL,
            format!("'{name}' is not a valid name (letters, digits, '-', '_' and '.' are allowed)"),
        )
    } else {
        Ok(())
    }
}

fn ids(osds: &[i32]) -> String {
    osds.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

fn set_class(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let class = call.args.required("class")?;
    check_name(&class)?;
    let mut crush = mon.osdmap.crush.clone();
    let mut changed = Vec::new();
    let (osds, missing) = named(mon, call)?;
    for osd in osds {
        match crush.device_class(osd) {
            Some(has) if has == class => {}
            Some(has) => {
                return fail(
                    Errno::EBUSY,
                    format!(
                        "osd.{osd} has class '{has}', which stays; use 'ceph osd crush rm-device-class {osd}' first"
                    ),
                );
            }
            None => {
                crush.set_device_class(osd, Some(&class))?;
                changed.push(osd);
            }
        }
    }
    if !changed.is_empty() {
        mon.put_crush(call, &crush)?;
    }
    Ok(Answer::status(format!("{missing}set osd(s) {} to class '{class}'", ids(&changed))))
}

fn remove_class(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut crush = mon.osdmap.crush.clone();
    let (mut changed, missing) = named(mon, call)?;
    changed.retain(|osd| crush.device_class(*osd).is_some());
    for osd in &changed {
        crush.set_device_class(*osd, None)?;
    }
    if !changed.is_empty() {
        mon.put_crush(call, &crush)?;
    }
    Ok(Answer::status(format!("{missing}done removing class of osd(s): {}", ids(&changed))))
}

fn add_bucket(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, kind) = (call.args.required("name")?, call.args.required("type")?);
    let mut crush = mon.osdmap.crush.clone();
    if crush.item_by_name(&name).is_some() {
        return Ok(Answer::status(format!("bucket '{name}' already exists")));
    }
    check_name(&name)?;
    if kind == "osd" {
        return fail(Errno::EINVAL, "an OSD is not a bucket");
    }
    let place = super::crush_place::place(call)?;
    crush.add_bucket(&name, &kind, None)?;
    if !place.is_empty() {
        let id = crush.item_by_name(&name).unwrap_or_default();
        crush.move_item(id, 0, &name, &place)?;
    }
    mon.put_crush(call, &crush)?;
    let place = match place.is_empty() {
        true => " to crush map".to_owned(),
        false => format!(" to location {}", super::crush_place::shown(&place)),
    };
    Ok(Answer::status(format!("added bucket {name} type {kind}{place}")))
}

pub(super) fn create_rule(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, root) = (call.args.required("name")?, call.args.required("root")?);
    let (kind, class) = (call.args.required("type")?, call.args.text("class")?.filter(|c| !c.is_empty()));
    let mut crush = mon.osdmap.crush.clone();
    if crush.rule_by_name(&name).is_some() {
        return Ok(Answer::status(format!("rule {name} already exists")));
    }
    check_name(&name)?;
    match crush.add_replicated_rule(&name, &root, &kind, class.as_deref()) {
        // A pool has a byte for its rule's number.
        Ok(number) if number > 255 => {
            fail(Errno::ENOSPC, "the CRUSH map has 256 rules already, the most it can have")
        }
        Ok(_) => {
            mon.put_crush(call, &crush)?;
            Ok(Answer::default())
        }
        Err(error @ BuildError::Unknown { what, .. }) if what != "type" && what != "device class" => {
            fail(Errno::ENOENT, error.to_string())
        }
        Err(error) => Err(error.into()),
    }
}

fn remove_rule(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(number) = crush.rule_by_name(&name) else {
        return Ok(Answer::status(format!("rule {name} does not exist")));
    };
    if mon.osdmap.pools.values().any(|pool| u32::from(pool.crush_rule) == number) {
        return fail(Errno::EBUSY, format!("crush rule {name} ({number}) is in use"));
    }
    if let Some(slot) = crush.rules.get_mut(number as usize) {
        *slot = None;
    }
    crush.rule_names.remove(&(number as i32));
    mon.put_crush(call, &crush)?;
    Ok(Answer::default())
}
