//! `config …` and `config-key …`.

use options::opt;
use types::{EntityId, EntityType, Errno};

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::{Align, Json, Table};
use crate::mon::Mon;
use crate::option_facts;
use crate::service::config_store::is_section;
use crate::service::osdmap;
use crate::state::StateKey;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "config set name=who,type=CephString name=name,type=CephString name=value,type=CephString name=force,type=CephBool,req=false",
        help: "Store an option's value for daemons or clients",
        module: "config",
        perm: "rw",
        run: set,
    },
    Command {
        signature: "config rm name=who,type=CephString name=name,type=CephString",
        help: "Remove a stored option",
        module: "config",
        perm: "rw",
        run: remove,
    },
    Command {
        signature: "config get name=who,type=CephString name=key,type=CephString,req=false",
        help: "Stored options that apply to a daemon or client",
        module: "config",
        perm: "r",
        run: get,
    },
    Command {
        signature: "config show name=who,type=CephString name=key,type=CephString,req=false",
        help: "Stored options and defaults that apply to a daemon",
        module: "config",
        perm: "r",
        run: show,
    },
    Command { signature: "config dump", help: "All stored options", module: "mon", perm: "r", run: dump },
    Command { signature: "config ls", help: "Names of all options", module: "config", perm: "r", run: names },
    Command {
        signature: "config help name=key,type=CephString",
        help: "What an option does",
        module: "config",
        perm: "r",
        run: help,
    },
    Command {
        signature: "config generate-minimal-conf",
        help: "A ceph.conf with what clients need",
        module: "config",
        perm: "r",
        run: minimal_conf,
    },
    Command {
        signature: "config-key get name=key,type=CephString",
        help: "A stored value",
        module: "config-key",
        perm: "r",
        run: key_get,
    },
    Command {
        signature: "config-key set name=key,type=CephString name=val,type=CephString,req=false",
        help: "Store a value",
        module: "config-key",
        perm: "rw",
        run: key_set,
    },
    Command {
        signature: "config-key rm name=key,type=CephString",
        help: "Remove a stored value",
        module: "config-key",
        perm: "rw",
        run: key_rm,
    },
    Command {
        signature: "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        help: "The same as config-key set",
        module: "config-key",
        perm: "rw",
        run: key_set,
    },
    Command {
        signature: "config-key del name=key,type=CephString",
        help: "The same as config-key rm",
        module: "config-key",
        perm: "rw",
        run: key_rm,
    },
    Command {
        signature: "config-key list",
        help: "The same as config-key ls",
        module: "config-key",
        perm: "r",
        run: key_ls,
    },
    Command {
        signature: "config-key exists name=key,type=CephString",
        help: "Whether a value is stored",
        module: "config-key",
        perm: "r",
        run: key_exists,
    },
    Command {
        signature: "config-key ls",
        help: "Keys of stored values",
        module: "config-key",
        perm: "r",
        run: key_ls,
    },
    Command {
        signature: "config-key dump name=key,type=CephString,req=false",
        help: "Stored values",
        module: "config-key",
        perm: "r",
        run: key_dump,
    },
];

/// Options are spelled with spaces, dashes or capitals too.
fn option_name(text: &str) -> String {
    options::normalize(text)
}

fn section(text: &str) -> Result<String, Failure> {
    if is_section(text) {
        Ok(text.to_string())
    } else {
        fail(
            Errno::EINVAL,
            format!("'{text}' is not a section (expected global, mon, mgr, osd, mds, client, or TYPE.ID)"),
        )
    }
}

/// The answer about an option that there is not. `errno` is Ceph's: EINVAL when it is to be set, ENOENT when it is to be shown.
fn unknown(errno: Errno, name: &str) -> Failure {
    let hint = match options::nearest(name) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "no name is near it; `ceph config ls` lists them all".into(),
    };
    Failure::Errno(errno, format!("there is no option '{name}'; {hint}"))
}

fn set(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let who = section(&call.args.required("who")?)?;
    let (name, value) = (option_name(&call.args.required("name")?), call.args.required("value")?);
    options::check_storable(&name, &value).map_err(|why| Failure::Errno(Errno::EINVAL, why.to_string()))?;
    let value = match option_facts::facts(&name) {
        Some(_) => options::canonical(&name, &value).map_err(|why| {
            Failure::Errno(Errno::EINVAL, format!("'{value}' is not a value for {name}: {why}"))
        })?,
        None if call.args.flag("force") => value,
        None => return Err(unknown(Errno::EINVAL, &name)),
    };
    let change = mon.option_change(&who, &name, Some(value));
    mon.store_options(call, "", vec![change]);
    Ok(match option_facts::why_without_effect(&name, &who) {
        Some(why) => Answer::status(format!("{name} is stored, but has no effect: {why}")),
        None => Answer::default(),
    })
}

fn remove(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let who = section(&call.args.required("who")?)?;
    let name = option_name(&call.args.required("name")?);
    let change = mon.option_change(&who, &name, None);
    mon.store_options(call, "", vec![change]);
    Ok(Answer::default())
}

/// One shown line: section, option, value.
fn rows(call: &Call<'_>, lines: &[(&str, &str, &str)]) -> Answer {
    let facts = option_facts::facts;
    let level = |option: &str| facts(option).map_or("unknown", |f| f.level);
    let runtime = |option: &str| facts(option).is_some_and(|f| f.runtime);
    let json = || {
        Json::array(lines.iter().map(|(section, option, value)| {
            Json::object()
                .with("section", *section)
                .with("name", *option)
                .with("value", *value)
                .with("level", level(option))
                .with("can_update_at_runtime", runtime(option))
                .with("mask", "")
        }))
    };
    let text = || {
        let mut table = Table::new().columns(Align::Left, &["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]);
        for (section, option, value) in lines {
            let fixed = if runtime(option) { "" } else { "*" };
            table.row([section, "", level(option), option, value, fixed]);
        }
        table.render()
    };
    call.show(json, text)
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let lines: Vec<_> = mon.settings.all().collect();
    Ok(rows(call, &lines))
}

fn entity(text: &str) -> Result<EntityId, Failure> {
    match text.parse() {
        Ok(entity) => Ok(entity),
        Err(_) => fail(Errno::EINVAL, format!("'{text}' is not a daemon or client, such as osd.0")),
    }
}

fn get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let who = call.args.required("who")?;
    let who = if who.contains('.') { who } else { format!("{who}.") };
    let entity = match who.as_str() {
        // A whole section: what applies to one of it without a name.
        "global." => EntityId { kind: EntityType::Other(0), id: String::new() },
        _ => entity(&who)?,
    };
    let options = mon.settings.of(&entity);
    let Some(key) = call.args.text("key")? else {
        if call.format == super::Format::Plain {
            let lines: Vec<_> =
                options.iter().map(|(option, (section, value))| (*section, *option, *value)).collect();
            return Ok(rows(call, &lines));
        }
        let json = options.iter().fold(Json::object(), |out, (option, (section, value))| {
            let facts = option_facts::facts(option);
            let one = Json::object()
                .with("value", *value)
                .with("section", *section)
                .with("mask", Json::object())
                .with("can_update_at_runtime", facts.is_some_and(|f| f.runtime));
            out.with(option, one)
        });
        return Ok(call.show_json(json));
    };
    let key = option_name(&key);
    let default = || option_facts::facts(&key).map(|facts| facts.default.to_string());
    match options.get(key.as_str()).map(|(_, value)| value.to_string()).or_else(default) {
        Some(value) => Ok(Answer::data(value + "\n")),
        None => Err(unknown(Errno::ENOENT, &key)),
    }
}

fn show(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let who = entity(&call.args.required("who")?)?;
    let runs = match who.kind {
        EntityType::Osd => who.id.parse().is_ok_and(|osd| osdmap::exists(&mon.osdmap, osd)),
        EntityType::Mon => who.id == mon.config.name,
        EntityType::Mgr => mon.mgrmap.available && who.id == mon.mgrmap.active_name,
        _ => false,
    };
    if !runs {
        return fail(Errno::ENOENT, format!("no config state for daemon {who}"));
    }
    let mut options = mon.settings.of(&who);
    options.retain(|option, (_, value)| options::check_settable(option, value).is_ok());
    match call.args.text("key")? {
        Some(key) => {
            let key = option_name(&key);
            let default = || option_facts::facts(&key).map(|facts| facts.default.to_string());
            match options.get(key.as_str()).map(|(_, value)| value.to_string()).or_else(default) {
                Some(value) => Ok(Answer::data(value + "\n")),
                None => Err(unknown(Errno::ENOENT, &key)),
            }
        }
        None => {
            let json = || {
                Json::array(options.iter().map(|(option, (_, value))| {
                    Json::object().with("name", *option).with("value", *value).with("source", "mon")
                }))
            };
            let text = || {
                let mut table =
                    Table::new().columns(Align::Left, &["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"]);
                options.iter().for_each(|(option, (_, value))| table.row([*option, *value, "mon", "", ""]));
                table.render()
            };
            Ok(call.show(json, text))
        }
    }
}

fn names(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut names: Vec<&str> = options::names().collect();
    names.sort_unstable();
    Ok(call.show(
        || Json::array(names.iter().copied()),
        || names.iter().map(|name| format!("{name}\n")).collect(),
    ))
}

fn help(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = option_name(&call.args.required("key")?);
    let Some(facts) = option_facts::facts(&name) else { return Err(unknown(Errno::ENOENT, &name)) };
    let json = || {
        Json::object()
            .with("name", name.as_str())
            .with("type", facts.kind)
            .with("level", facts.level)
            .with("desc", facts.summary.as_str())
            .with("long_desc", "")
            .with("default", facts.default)
            .with("daemon_default", "")
            .with("tags", Json::Array(vec![]))
            .with("services", Json::Array(vec![]))
            .with("see_also", Json::Array(vec![]))
            .with("min", facts.range.map_or(String::new(), |(min, _)| min.to_string()))
            .with("max", facts.range.map_or(String::new(), |(_, max)| max.to_string()))
            .with("can_update_at_runtime", facts.runtime)
            .with("flags", Json::array(facts.runtime.then_some("runtime")))
    };
    let text = || {
        format!(
            "{name} - {}\n  ({}, {})\n  Default: {}\n  Can update at runtime: {}\n",
            facts.summary, facts.kind, facts.level, facts.default, facts.runtime
        )
    };
    Ok(call.show(json, text))
}

fn minimal_conf(mon: &mut Mon, _: &Call<'_>) -> Result<Answer, Failure> {
    let (fsid, addr) = (mon.config.fsid, types::EntityAddrVec(vec![mon.config.addr]));
    Ok(Answer::data(format!(
        "# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = [{addr}]\n"
    )))
}

const KEYS: &str = "config-key";

fn stored(mon: &Mon, key: &str) -> Option<Vec<u8>> {
    mon.state.get(&StateKey::name(KEYS, key)).cloned()
}

fn key_get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let key = call.args.required("key")?;
    match stored(mon, &key) {
        Some(value) => Ok(Answer { status: format!("obtained '{key}'"), data: value }),
        None => fail(Errno::ENOENT, format!("there is no key '{key}'")),
    }
}

fn key_set(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    // `ceph config-key set KEY -i FILE` has its value as input.
    let value = call.args.text("val")?.map_or_else(|| call.data.to_vec(), String::into_bytes);
    let key = call.args.required("key")?;
    let max = mon.options.get(opt::MON_CONFIG_KEY_MAX_ENTRY_SIZE);
    if value.len() as u64 > max || key.len() > 4096 {
        return fail(
            Errno::EFBIG,
            format!("the value is longer than {max} bytes (mon_config_key_max_entry_size)"),
        );
    }
    mon.batch().put(StateKey::name(KEYS, &key), value);
    Ok(Answer::status(format!("set {key}")))
}

fn key_rm(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let key = call.args.required("key")?;
    if stored(mon, &key).is_none() {
        return Ok(Answer::status(format!("no such key '{key}'")));
    }
    mon.batch().delete(StateKey::name(KEYS, &key));
    Ok(Answer::status("key deleted"))
}

fn key_exists(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let key = call.args.required("key")?;
    match stored(mon, &key) {
        Some(_) => Ok(Answer::status(format!("key '{key}' exists"))),
        None => fail(Errno::ENOENT, format!("there is no key '{key}'")),
    }
}

fn key_ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call.show_json(Json::array(mon.stored_names(KEYS).map(|(name, _)| name))))
}

fn key_dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let prefix = call.args.text("key")?.unwrap_or_default();
    let all = mon.stored_names(KEYS).filter(|(name, _)| name.starts_with(&prefix)).fold(
        Json::object(),
        |out, (name, value)| match std::str::from_utf8(value) {
            Ok(text) => out.with(name, text),
            Err(_) => out.with(name, format!("<<< binary blob of length {} >>>", value.len())),
        },
    );
    Ok(call.show_json(all))
}
