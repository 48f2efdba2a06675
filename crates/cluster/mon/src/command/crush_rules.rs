//! `osd crush …` about device classes, rules, tunables, and the whole map in its binary form.

use crush::{BuildError, CrushMap, Tunables};
use encoding::Decode;
use types::Errno;

use super::args::parse_osd;
use super::{Answer, Call, Command, Failure, fail, osd_r, osd_rw};
use crate::crush_view;
use crate::fmt::Json;
use crate::mon::Mon;

pub(super) const COMMANDS: &[Command] = &[
    osd_rw(
        "osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "Make a device class without OSDs; the next change of the tree removes it unless it has some",
        class_create,
    ),
    osd_rw(
        "osd crush class rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]",
        "Rename a device class",
        class_rename,
    ),
    osd_rw(
        "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "Remove a device class that no rule uses",
        class_remove,
    ),
    osd_r(
        "osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "OSDs of a device class",
        class_osds,
    ),
    osd_r(
        "osd crush get-device-class name=ids,type=CephString,n=N",
        "Device classes of OSDs",
        get_device_class,
    ),
    osd_r("osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version", "A tunable", {
        |mon, call| {
            let value = mon.osdmap.crush.tunables.straw_calc_version;
            Ok(call.show(|| Json::object().with("straw_calc_version", value), || format!("{value}\n")))
        }
    }),
    osd_rw(
        "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt",
        "Set a tunable",
        set_tunable,
    ),
    osd_rw(
        "osd crush tunables name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default",
        "Set all tunables by the name of a profile",
        set_profile,
    ),
    osd_rw(
        "osd crush rule create-simple name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=mode,type=CephChoices,strings=firstn|indep,req=false",
        "Make a rule that spreads copies over buckets of a type",
        create_simple,
    ),
    osd_rw(
        "osd crush rule rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "Rename a rule",
        rule_rename,
    ),
    osd_r(
        "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "Names of the rules that use a device class",
        rules_by_class,
    ),
    osd_r("osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]", "What a bucket holds", ls),
    osd_rw(
        "osd setcrushmap name=prior_version,type=CephInt,req=false",
        "Take a CRUSH map in its binary form (-i FILE)",
        set_map,
    ),
    osd_r("osd crush weight-set ls", "Weight sets (there are none)", |mon, call| {
        let names: Vec<String> =
            mon.osdmap.crush.choose_args.keys().map(|id| weight_set_name(mon, *id)).collect();
        let text = || names.iter().map(|name| format!("{name}\n")).collect();
        Ok(call.show(|| Json::array(names.iter().map(String::as_str)), text))
    }),
];

/// `(compat)`, or the pool's name.
fn weight_set_name(mon: &Mon, id: i64) -> String {
    match id {
        CrushMap::DEFAULT_CHOOSE_ARGS => "(compat)".into(),
        pool => crate::service::osdmap::pool_name(&mon.osdmap, types::PoolId(pool)),
    }
}

fn class_create(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let class = call.args.required("class")?;
    super::crush_change::check_name(&class)?;
    let mut crush = mon.osdmap.crush.clone();
    if crush.class_by_name(&class).is_some() {
        return Ok(Answer::status(format!("class '{class}' already exists")));
    }
    let id = crush.add_class(&class);
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("created class {class} with id {id} to crush map")))
}

fn class_rename(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (from, to) = (call.args.required("srcname")?, call.args.required("dstname")?);
    super::crush_change::check_name(&to)?;
    let mut crush = mon.osdmap.crush.clone();
    match (crush.class_by_name(&from), crush.class_by_name(&to)) {
        // A command that is sent again.
        (None, Some(_)) => return Ok(Answer::status(format!("already renamed to '{to}'"))),
        (None, None) => {
            return fail(Errno::ENOENT, format!("fail to rename '{from}' to '{to}': no such class"));
        }
        (Some(_), Some(_)) => {
            return fail(Errno::EEXIST, format!("fail to rename '{from}' to '{to}': '{to}' exists already"));
        }
        (Some(_), None) => {}
    }
    crush.rename_class(&from, &to)?;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("rename class '{from}' to '{to}'")))
}

fn class_remove(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let class = call.args.required("class")?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(id) = crush.class_by_name(&class) else { return Ok(Answer::default()) };
    let profiles = mon.osdmap.erasure_code_profiles.iter();
    let users = profiles.filter(|(_, p)| p.get("crush-device-class").is_some_and(|c| *c == class));
    let users: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
    if !users.is_empty() {
        let users = users.join(",");
        let text = format!("class '{class}' is still referenced by erasure-code-profile(s): {users}");
        return fail(Errno::EBUSY, text);
    }
    match crush.remove_class(&class) {
        Ok(()) => {}
        Err(BuildError::InUse(_)) => {
            return fail(Errno::EBUSY, format!("class '{class}' is in use by a CRUSH rule"));
        }
        Err(error) => return Err(error.into()),
    }
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("removed class {class} with id {id} from crush map")))
}

fn class_osds(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let class = call.args.required("class")?;
    let crush = &mon.osdmap.crush;
    let osds: Vec<i32> = crush
        .item_names
        .keys()
        .copied()
        .filter(|id| *id >= 0 && crush.device_class(*id) == Some(class.as_str()))
        .collect();
    let text = || osds.iter().map(|osd| format!("{osd}\n")).collect();
    Ok(call.show(|| Json::array(osds.iter().copied()), text))
}

fn get_device_class(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let crush = &mon.osdmap.crush;
    let mut found = Vec::new();
    for id in call.args.list("ids")? {
        match (id.as_str(), parse_osd(&id)) {
            ("*" | "all" | "any", _) => found.extend(crush.item_names.keys().copied().filter(|id| *id >= 0)),
            (_, Some(osd)) if crush.parent_of(osd).is_some() => found.push(osd),
            (_, Some(osd)) => return fail(Errno::EINVAL, format!("osd.{osd} is not in the CRUSH map")),
            (_, None) => return fail(Errno::EINVAL, format!("'{id}' is not an OSD")),
        }
    }
    let class = |osd: i32| crush.device_class(osd).unwrap_or("").to_owned();
    let json = || {
        let one = |osd: &i32| Json::object().with("osd", *osd).with("device_class", class(*osd));
        Json::array(found.iter().map(one))
    };
    let text = || match found.as_slice() {
        [one] => class(*one) + "\n",
        all => all.iter().map(|osd| format!("{} osd.{osd}\n", class(*osd))).collect(),
    };
    Ok(call.show(json, text))
}

fn set_tunable(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let tunable = call.args.required("tunable")?;
    if tunable != "straw_calc_version" {
        return fail(
            Errno::EINVAL,
            format!("unrecognized tunable '{tunable}' (expected straw_calc_version)"),
        );
    }
    let value = call.args.int("value")?;
    let Some(version) = value.and_then(|v| u8::try_from(v).ok()).filter(|v| *v <= 1) else {
        let got = value.map_or("nothing".into(), |v| v.to_string());
        return fail(Errno::EINVAL, format!("value must be 0 or 1; got {got}"));
    };
    let mut crush = mon.osdmap.crush.clone();
    crush.tunables.straw_calc_version = version;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("adjusted tunable {tunable} to {version}")))
}

fn set_profile(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("profile")?;
    let mut crush = mon.osdmap.crush.clone();
    let Some(tunables) = Tunables::profile(&name, &crush.tunables) else {
        return fail(Errno::EINVAL, format!("unrecognized profile '{name}'"));
    };
    crush.tunables = tunables;
    mon.put_crush(call, &crush)?;
    Ok(Answer::status(format!("adjusted tunables profile to {name}")))
}

fn create_simple(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    match call.args.text("mode")?.as_deref() {
        None | Some("" | "firstn") => super::crush_change::create_rule(mon, call),
        Some("indep") => fail(
            Errno::EOPNOTSUPP,
            "a rule of mode indep is for erasure-coded pools, which are not supported yet",
        ),
        Some(other) => fail(Errno::EINVAL, format!("'{other}' is not a mode (expected firstn or indep)")),
    }
}

fn rule_rename(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (from, to) = (call.args.required("srcname")?, call.args.required("dstname")?);
    super::crush_change::check_name(&to)?;
    let mut crush = mon.osdmap.crush.clone();
    let number = match (crush.rule_by_name(&from), crush.rule_by_name(&to)) {
        // A command that is sent again.
        (None, Some(_)) => return Ok(Answer::default()),
        (None, None) => return fail(Errno::ENOENT, format!("source rule name '{from}' does not exist")),
        (Some(_), Some(_)) => {
            return fail(Errno::EEXIST, format!("destination rule name '{to}' already exists"));
        }
        (Some(number), None) => number,
    };
    crush.rule_names.insert(number as i32, to);
    mon.put_crush(call, &crush)?;
    Ok(Answer::default())
}

fn rules_by_class(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let class = call.args.required("class")?;
    let crush = &mon.osdmap.crush;
    let Some(id) = crush.class_by_name(&class) else {
        return fail(Errno::ENOENT, format!("failed to get rules by class '{class}'"));
    };
    let name = |number: u32| crush.rule_names.get(&(number as i32)).cloned().unwrap_or_default();
    let names: Vec<String> = crush.rules_of_class(id).map(name).collect();
    let text = || names.iter().map(|name| format!("{name}\n")).collect();
    Ok(call.show(|| Json::array(names.iter().map(String::as_str)), text))
}

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("node")?;
    let crush = &mon.osdmap.crush;
    let Some(id) = crush.item_by_name(&name) else {
        return fail(Errno::ENOENT, format!("node '{name}' does not exist"));
    };
    let names: Vec<String> = match crush.bucket(id) {
        Some(bucket) => bucket.items.iter().map(|item| crush_view::name(crush, *item)).collect(),
        None => vec![name],
    };
    let text = || names.iter().map(|name| format!("{name}\n")).collect();
    Ok(call.show(|| Json::array(names.iter().map(String::as_str)), text))
}

fn set_map(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let now = mon.osdmap.crush_version;
    if let Some(prior) = call.args.int("prior_version")?.filter(|prior| *prior != i64::from(now)) {
        return fail(Errno::EPERM, format!("prior_version {prior} != crush version {now}"));
    }
    let crush = CrushMap::from_bytes(call.data)
        .map_err(|e| Failure::Errno(Errno::EINVAL, format!("Failed to parse crushmap: {e}")))?;
    crush.check().map_err(|e| Failure::Errno(Errno::EINVAL, format!("the CRUSH map can't be used: {e}")))?;
    for (id, name, pool) in crate::service::osdmap::pools(&mon.osdmap) {
        let rule = u32::from(pool.crush_rule);
        if crush.rule(rule).is_none() {
            let text = format!("pool {} '{name}' uses the rule {rule}, which the CRUSH map lacks", id.0);
            return fail(Errno::EINVAL, text);
        }
    }
    mon.put_crush(call, &crush)?;
    Ok(Answer::status((now + 1).to_string()))
}
