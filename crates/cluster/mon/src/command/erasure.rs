//! `osd erasure-code-profile …`: profiles are kept in the map, as in Ceph; pools of erasure code are not served yet.

use std::collections::BTreeMap;

use types::Errno;

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::Json;
use crate::mon::{Claim, Mon};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd erasure-code-profile ls",
        help: "Names of the erasure-code profiles",
        module: "osd",
        perm: "r",
        run: ls,
    },
    Command {
        signature: "osd erasure-code-profile get name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "An erasure-code profile",
        module: "osd",
        perm: "r",
        run: get,
    },
    Command {
        signature: "osd erasure-code-profile set name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,n=N,req=false name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "Make an erasure-code profile of KEY=VALUE words",
        module: "osd",
        perm: "rw",
        run: set,
    },
    Command {
        signature: "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "Remove an erasure-code profile that no pool uses",
        module: "osd",
        perm: "rw",
        run: rm,
    },
];

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let names: Vec<&str> = mon.osdmap.erasure_code_profiles.keys().map(|n| n.as_str()).collect();
    Ok(call.show(|| Json::array(names.iter().copied()), || names.join("\n") + "\n"))
}

fn get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let Some(profile) = mon.osdmap.erasure_code_profiles.get(&name) else {
        return fail(Errno::ENOENT, format!("unknown erasure code profile '{name}'"));
    };
    let json = || profile.iter().fold(Json::object(), |out, (k, v)| out.with(k, v.as_str()));
    let text = || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect();
    Ok(call.show(json, text))
}

/// What every profile has unless it is given: the values of jerasure, Ceph's usual plugin.
const DEFAULTS: [(&str, &str); 7] = [
    ("crush-device-class", ""),
    ("crush-failure-domain", "host"),
    ("crush-root", "default"),
    ("k", "2"),
    ("m", "2"),
    ("plugin", "jerasure"),
    ("technique", "reed_sol_van"),
];
const JERASURE: [(&str, &str); 2] = [("jerasure-per-chunk-alignment", "false"), ("w", "8")];

/// A profile's number, where it has one.
fn number(profile: &BTreeMap<String, String>, key: &str) -> Result<u64, Failure> {
    let text = profile.get(key).map_or("", String::as_str);
    let wrong = || Failure::Errno(Errno::EINVAL, format!("{key}={text} is not a number above 0"));
    text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)
}

fn set(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    let mut profile = BTreeMap::new();
    let mut force = call.args.flag("force");
    for word in call.args.list("profile")? {
        match word.split_once('=') {
            Some((key, value)) => drop(profile.insert(key.to_owned(), value.to_owned())),
            None if word == "--force" => force = true,
            None => return fail(Errno::EINVAL, format!("'{word}' is not KEY=VALUE")),
        }
    }
    for (key, value) in DEFAULTS {
        profile.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    if profile["plugin"] == "jerasure" {
        for (key, value) in JERASURE {
            profile.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    let (k, m) = (number(&profile, "k")?, number(&profile, "m")?);
    if k < 2 || k.saturating_add(m) > 255 {
        return fail(Errno::EINVAL, format!("k={k} must be >= 2, and k + m at most 255"));
    }
    match mon.osdmap.erasure_code_profiles.get(&name) {
        Some(has) if *has == profile => return Ok(Answer::default()),
        // Since 18.2 Ceph wants --yes-i-really-mean-it beside it, which 16.2 does not know. Both work here, where no pool is served by
        // a profile.
        Some(_) if !force => {
            let text =
                format!("will not override erasure code profile {name} because it exists; pass --force");
            return fail(Errno::EPERM, text);
        }
        _ => {}
    }
    mon.claim_or_wait(Claim::Flags)?;
    mon.osdmap_change(call.now).new_erasure_code_profiles.insert(name, profile);
    Ok(Answer::default())
}

fn rm(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = call.args.required("name")?;
    if !mon.osdmap.erasure_code_profiles.contains_key(&name) {
        return Ok(Answer::status(format!("erasure-code-profile {name} does not exist")));
    }
    let mut pools = mon.osdmap.pools.iter().filter(|(_, pool)| pool.erasure_code_profile == name);
    if let Some((id, _)) = pools.next() {
        let pool = crate::service::osdmap::pool_name(&mon.osdmap, *id);
        let text = format!("pool {pool} is using the erasure code profile '{name}'");
        return fail(Errno::EBUSY, text);
    }
    mon.claim_or_wait(Claim::Flags)?;
    mon.osdmap_change(call.now).old_erasure_code_profiles.push(name);
    Ok(Answer::default())
}
