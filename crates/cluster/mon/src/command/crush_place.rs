//! `osd crush …` that changes the tree: OSDs and buckets placed, moved, linked, removed and renamed, and weights of
//! subtrees. A command that takes PGs from their objects says so ([`crate::elsewhere`]).

use crush::{BuildError, CrushMap, Location, Removed};
use types::Errno;

use super::crush_change::fixed_weight;
use super::{Answer, Call, Command, Failure, fail, osd_rw};
use crate::fmt::general;
use crate::mon::Mon;
use crate::service::osdmap;

pub(super) const COMMANDS: &[Command] = &[
    osd_rw(
        "osd crush set name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "Give an OSD of the CRUSH map a weight and a place",
        |mon, call| set_or_add(mon, call, true),
    ),
    osd_rw(
        "osd crush add name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "Put an OSD into the CRUSH map with a weight at a place",
        |mon, call| set_or_add(mon, call, false),
    ),
    osd_rw(
        "osd crush create-or-move name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "Put an OSD at a place: with the weight if it is new to the map, else with its own",
        create_or_move,
    ),
    osd_rw(
        "osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "Move an OSD or a bucket to a place",
        move_item,
    ),
    osd_rw(
        "osd crush link name=name,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        "Put a bucket at one more place",
        link,
    ),
    osd_rw(
        "osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "Take an OSD or a bucket out of its places, or out of those below a bucket; it stays in the map",
        |mon, call| remove(mon, call, true),
    ),
    osd_rw(
        "osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "Remove an OSD or an empty bucket from the CRUSH map, or from below a bucket",
        |mon, call| remove(mon, call, false),
    ),
    osd_rw(
        "osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]",
        "The same as osd crush rm",
        |mon, call| remove(mon, call, false),
    ),
    osd_rw(
        "osd crush rename-bucket name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "Rename a bucket",
        rename_bucket,
    ),
    osd_rw(
        "osd crush swap-bucket name=source,type=CephString,goodchars=[A-Za-z0-9-_.] name=dest,type=CephString,goodchars=[A-Za-z0-9-_.] name=yes_i_really_mean_it,type=CephBool,req=false",
        "Exchange the contents of two buckets, the first of which is nowhere in the tree",
        swap_bucket,
    ),
    osd_rw("osd crush reweight-all", "Compute all buckets' weights again", |mon, call| {
        let mut crush = mon.osdmap.crush.clone();
        crush.reweight_all()?;
        mon.put_crush(call, &crush)?;
        Ok(Answer::status("reweighted crush hierarchy"))
    }),
    osd_rw(
        "osd crush reweight-subtree name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        "Give every OSD below a bucket the same weight",
        reweight_subtree,
    ),
];

/// `{host=vm,root=default}`
pub(super) fn shown(place: &Location) -> String {
    let parts: Vec<String> = place.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", parts.join(","))
}

/// The place that a command gives: words TYPE=NAME.
pub(super) fn place(call: &Call<'_>) -> Result<Location, Failure> {
    let mut place = Location::new();
    for word in call.args.list("args")? {
        match word.split_once('=') {
            Some((kind, name)) if !name.is_empty() => drop(place.insert(kind.into(), name.into())),
            _ => return fail(Errno::EINVAL, format!("'{word}' is not a location (TYPE=NAME)")),
        }
    }
    Ok(place)
}

/// An OSD of the map, its name and the weight that a command gives.
fn osd_and_weight(mon: &Mon, call: &Call<'_>) -> Result<(i32, String, u32, f64), Failure> {
    let Some(osd) = call.args.osd("id")? else { return fail(Errno::EINVAL, "no OSD was named") };
    if !osdmap::exists(&mon.osdmap, osd) {
        return fail(
            Errno::ENOENT,
            format!("osd.{osd} does not exist. Create it before updating the crush map"),
        );
    }
    let (fixed, weight) = fixed_weight(call)?;
    Ok((osd, format!("osd.{osd}"), fixed, weight))
}

fn set_or_add(mon: &mut Mon, call: &Call<'_>, is_set: bool) -> Result<Answer, Failure> {
    let (osd, name, fixed, weight) = osd_and_weight(mon, call)?;
    let place = place(call)?;
    let mut crush = mon.osdmap.crush.clone();
    let weight = general(weight, 6);
    let what = format!("item id {osd} name '{name}' weight {weight} at location {}", shown(&place));
    if is_set && crush.parent_of(osd).is_none() {
        return fail(Errno::ENOENT, format!("unable to set {what}: does not exist"));
    }
    let action = if crush.is_at(osd, &place) {
        if crush.weight_of(osd) == fixed {
            return Ok(Answer::status(format!("set {what}: no change")));
        }
        crush.set_osd_weight(osd, fixed)?;
        "set"
    } else if is_set {
        crush.unlink_item(osd, None)?;
        crush.insert_item(osd, fixed, &name, &place)?;
        "set"
    } else {
        crush.insert_item(osd, fixed, &name, &place)?;
        "add"
    };
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("{action} {what} to crush map")))
}

fn create_or_move(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (osd, name, fixed, weight) = osd_and_weight(mon, call)?;
    let place = place(call)?;
    let what = format!("item name '{name}' weight {} at location {}", general(weight, 6), shown(&place));
    let mut crush = mon.osdmap.crush.clone();
    if crush.is_at(osd, &place) {
        return Ok(Answer::status(format!("create-or-move updated {what} to crush map")));
    }
    crush.move_item(osd, fixed, &name, &place)?;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("create-or-move updating {what} to crush map")))
}

/// An item that a command names, with its name and the place given.
fn item_and_place(crush: &CrushMap, call: &Call<'_>) -> Result<(i32, String, Location), Failure> {
    let name = call.args.required("name")?;
    match crush.item_by_name(&name) {
        Some(item) => Ok((item, name, place(call)?)),
        None => fail(Errno::ENOENT, format!("item {name} does not exist")),
    }
}

fn move_item(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut crush = mon.osdmap.crush.clone();
    let (item, name, place) = item_and_place(&crush, call)?;
    let what = format!("item id {item} name '{name}' to location {} in crush map", shown(&place));
    if crush.is_at(item, &place) {
        return Ok(Answer::status(format!("no need to move {what}")));
    }
    crush.move_item(item, 0, &name, &place)?;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("moved {what}")))
}

fn link(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut crush = mon.osdmap.crush.clone();
    let (item, name, place) = item_and_place(&crush, call)?;
    let what = format!("item id {item} name '{name}' to location {}", shown(&place));
    if crush.is_at(item, &place) {
        return Ok(Answer::status(format!("no need to move {what} in crush map")));
    }
    let linked = match crush.bucket(item) {
        Some(bucket) => {
            let weight = bucket.weight;
            crush.insert_item(item, weight, &name, &place).map_err(|error| error.to_string())
        }
        None => Err("it is not a bucket".into()),
    };
    if let Err(why) = linked {
        return fail(Errno::EINVAL, format!("cannot link {what}: {why}"));
    }
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("linked {what} in crush map")))
}

fn remove(mon: &mut Mon, call: &Call<'_>, is_unlink: bool) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(item) = crush.item_by_name(&name) else {
        return Ok(Answer::status(format!("device '{name}' does not appear in the crush map")));
    };
    let above = match call.args.text("ancestor")?.filter(|name| !name.is_empty()) {
        None => None,
        Some(above) => match crush.item_by_name(&above) {
            Some(id) => Some(id),
            None => {
                let text = format!("ancestor item '{above}' does not appear in the crush map");
                return fail(Errno::ENOENT, text);
            }
        },
    };
    let removed = match is_unlink {
        true => crush.unlink_item(item, above),
        false => crush.remove_item(item, above),
    };
    match removed {
        Ok(Removed::Yes) => {}
        Ok(Removed::NotThere) => {
            return Ok(Answer::status(format!("item {item} does not appear in that position")));
        }
        Err(error @ BuildError::NotEmpty(_)) => return fail(Errno::ENOTEMPTY, error.to_string()),
        Err(error @ BuildError::InUse(_)) => return fail(Errno::EBUSY, error.to_string()),
        Err(error) => return Err(error.into()),
    }
    mon.put_crush(call, &crush)?;
    if !is_unlink && mon.osdmap.crush_node_flags.contains_key(&item) {
        mon.osdmap_change(call.now).new_crush_node_flags.insert(item, 0);
    }
    Ok(Answer::status(format!("removed item id {item} name '{name}' from crush map")))
}

fn rename_bucket(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (from, to) = (call.args.required("srcname")?, call.args.required("dstname")?);
    let mut crush = mon.osdmap.crush.clone();
    let (has_from, has_to) = (crush.item_by_name(&from), crush.item_by_name(&to));
    match (has_from, has_to) {
        // A command that is sent again.
        (None, Some(_)) => return Ok(Answer::status(format!("'{from}' is already renamed to '{to}'"))),
        (None, None) => return fail(Errno::ENOENT, format!("srcname = '{from}' does not exist")),
        (Some(_), Some(_)) => return fail(Errno::EEXIST, format!("dstname = '{to}' already exists")),
        (Some(0..), None) => return fail(Errno::ENOTDIR, format!("srcname = '{from}' is not a bucket")),
        (Some(_), None) => {}
    }
    crush.rename_bucket(&from, &to)?;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("renamed bucket {from} into {to}")))
}

fn swap_bucket(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (source, dest) = (call.args.required("source")?, call.args.required("dest")?);
    let mut crush = mon.osdmap.crush.clone();
    let Some(from) = crush.item_by_name(&source) else {
        return fail(Errno::ENOENT, format!("source item {source} does not exist"));
    };
    let Some(to) = crush.item_by_name(&dest) else {
        return fail(Errno::ENOENT, format!("dest item {dest} does not exist"));
    };
    if crush.parent_of(from).is_some() && !call.args.flag("yes_i_really_mean_it") {
        let text = format!(
            "source item {source} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"
        );
        return fail(Errno::EPERM, text);
    }
    crush.swap_buckets(from, to)?;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("swapped bucket of {source} to {dest}")))
}

fn reweight_subtree(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let (fixed, weight) = fixed_weight(call)?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(bucket) = crush.item_by_name(&name) else {
        return fail(Errno::ENOENT, format!("device '{name}' does not appear in the crush map"));
    };
    if bucket >= 0 {
        return fail(Errno::EINVAL, format!("device '{name}' is not a subtree in the crush map"));
    }
    crush.set_subtree_weight(bucket, fixed)?;
    mon.put_crush(call, &crush)?;
    let weight = general(weight, 6);
    Ok(Answer::status(format!("reweighted subtree id {bucket} name '{name}' to {weight} in crush map")))
}
