//! `auth …`: entities, their keys and capabilities. Authentication is off, so whoever reaches the cluster may do
//! everything; commands that make or change an entity say that.

use std::collections::BTreeMap;

use auth::{CapService, check_caps};
use types::Errno;

use super::{Answer, Call, Command, Failure, Run, fail};
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::auth_store::{self, AuthEntity};

const fn auth(signature: &'static str, help: &'static str, perm: &'static str, run: Run) -> Command {
    Command { signature, help, module: "auth", perm, run }
}

pub(super) const COMMANDS: &[Command] = &[
    auth("auth ls", "Entities and what they may do", "rx", ls),
    auth("auth list", "The same as auth ls", "rx", ls),
    auth(
        "auth get name=entity,type=CephString",
        "An entity's keyring with what it may do",
        "rx",
        |mon, call| {
            let (name, entity) = existing(mon, call, "failed to find {} in keyring")?;
            Ok(Answer { status: format!("exported keyring for {name}"), ..shown(call, &name, &entity, true) })
        },
    ),
    auth("auth get-key name=entity,type=CephString", "An entity's key", "rx", get_key),
    auth("auth print-key name=entity,type=CephString", "The same as auth get-key", "rx", get_key),
    auth("auth print_key name=entity,type=CephString", "The same as auth get-key", "rx", get_key),
    auth(
        "auth export name=entity,type=CephString,req=false",
        "The keyring of an entity, or of all",
        "rx",
        export,
    ),
    auth(
        "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "An entity's keyring; the entity is made if there is none",
        "rwx",
        |mon, call| get_or_create(mon, call, false),
    ),
    auth(
        "auth get-or-create-key name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "An entity's key; the entity is made if there is none",
        "rwx",
        |mon, call| get_or_create(mon, call, true),
    ),
    auth(
        "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "Add an entity, with the key of a keyring (-i FILE) or a new one",
        "rwx",
        add,
    ),
    auth("auth import", "Add or replace the entities of a keyring (-i FILE)", "rwx", import),
    auth(
        "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
        "Set what an entity may do",
        "rwx",
        caps,
    ),
    auth("auth rm name=entity,type=CephString", "Remove an entity", "rwx", rm),
    auth("auth del name=entity,type=CephString", "The same as auth rm", "rwx", rm),
];

const ADMIN: &str = "client.admin";
const SERVICES: [&str; 4] = ["mds", "mgr", "mon", "osd"];
const OFF: &str = "authentication is off: the key and the capabilities are stored, but not checked";

fn may_all() -> AuthEntity {
    let caps = SERVICES.map(|service| (service.to_owned(), "allow *".to_owned()));
    AuthEntity { key: String::new(), caps: caps.into() }
}

/// An entity; `client.admin` is always there.
fn find(mon: &Mon, name: &str) -> Option<AuthEntity> {
    auth_store::get(&mon.state, name).or_else(|| (name == ADMIN).then(may_all))
}

fn entity_name(call: &Call<'_>) -> Result<String, Failure> {
    let name = call.args.required("entity")?;
    match name.parse::<types::EntityId>() {
        Ok(_) => Ok(name),
        Err(_) => {
            fail(Errno::EINVAL, format!("bad entity name '{name}' (expected TYPE.ID, such as client.x)"))
        }
    }
}

/// The entity that a command names; `missing` is the answer where there is none.
fn existing(mon: &Mon, call: &Call<'_>, missing: &str) -> Result<(String, AuthEntity), Failure> {
    let name = entity_name(call)?;
    match find(mon, &name) {
        Some(entity) => Ok((name, entity)),
        None => fail(Errno::ENOENT, missing.replace("{}", &name)),
    }
}

fn keyring(name: &str, entity: &AuthEntity, with_caps: bool) -> String {
    let caps = entity.caps.iter().filter(|_| with_caps);
    let caps: String = caps.map(|(service, caps)| format!("\tcaps {service} = \"{caps}\"\n")).collect();
    let key = if entity.key.is_empty() { String::new() } else { format!("\tkey = {}\n", entity.key) };
    format!("[{name}]\n{key}{caps}")
}

fn json(name: &str, entity: &AuthEntity) -> Json {
    let caps =
        entity.caps.iter().fold(Json::object(), |out, (service, caps)| out.with(service, caps.as_str()));
    Json::object().with("entity", name).with("key", entity.key.as_str()).with("caps", caps)
}

fn shown(call: &Call<'_>, name: &str, entity: &AuthEntity, with_caps: bool) -> Answer {
    call.show(|| Json::Array(vec![json(name, entity)]), || keyring(name, entity, with_caps))
}

fn key_answer(call: &Call<'_>, key: &str) -> Answer {
    call.show(|| Json::object().with("key", key), || key.to_owned())
}

/// All entities.
fn all(mon: &Mon) -> BTreeMap<String, AuthEntity> {
    let mut all = auth_store::all(&mon.state);
    all.entry(ADMIN.into()).or_insert_with(may_all);
    all
}

fn ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let all = all(mon);
    let text = || {
        let entry = |(name, entity): (&String, &AuthEntity)| {
            let caps = entity.caps.iter().map(|(service, caps)| format!("\tcaps: [{service}] {caps}\n"));
            let key = if entity.key.is_empty() { String::new() } else { format!("\tkey: {}\n", entity.key) };
            format!("{name}\n{key}{}", caps.collect::<String>())
        };
        all.iter().map(entry).collect()
    };
    let dump = || Json::array(all.iter().map(|(name, entity)| json(name, entity)));
    Ok(call.show(|| Json::object().with("auth_dump", dump()), text))
}

fn get_key(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, entity) = existing(mon, call, "don't have {}")?;
    if entity.key.is_empty() {
        return fail(Errno::ENOENT, format!("{name} has no key: authentication is off, none is needed"));
    }
    Ok(key_answer(call, &entity.key))
}

fn export(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (entities, status) = match call.args.text("entity")?.filter(|name| !name.is_empty()) {
        None => (all(mon), "exported master keyring".to_owned()),
        Some(_) => {
            let (name, entity) = existing(mon, call, "no key for {}")?;
            let status = format!("export {name}");
            (BTreeMap::from([(name, entity)]), status)
        }
    };
    let dump = || Json::array(entities.iter().map(|(name, entity)| json(name, entity)));
    let text = || entities.iter().map(|(name, entity)| keyring(name, entity, true)).collect();
    Ok(Answer { status, ..call.show(dump, text) })
}

/// The capabilities that a command gives: pairs of a service and what may be done there.
fn given_caps(call: &Call<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let words = call.args.list("caps")?;
    if words.len() % 2 != 0 {
        return fail(Errno::EINVAL, "bad capabilities request; number of arguments must be even");
    }
    let mut caps = BTreeMap::new();
    for pair in words.chunks_exact(2) {
        let Some(service) = CapService::named(&pair[0]) else {
            let text = format!("unknown cap type '{}' (expected mon, osd, mgr or mds)", pair[0]);
            return fail(Errno::EINVAL, text);
        };
        check_caps(service, &pair[1]).map_err(|error| Failure::Errno(Errno::EINVAL, error.to_string()))?;
        caps.insert(pair[0].clone(), pair[1].clone());
    }
    Ok(caps)
}

fn get_or_create(mon: &mut Mon, call: &Call<'_>, only_key: bool) -> Result<Answer, Failure> {
    let (name, caps) = (entity_name(call)?, given_caps(call)?);
    let show = |entity: &AuthEntity| match only_key {
        true => key_answer(call, &entity.key),
        false => shown(call, &name, entity, false),
    };
    match find(mon, &name) {
        Some(entity) if entity.key.is_empty() => {
            let entity =
                AuthEntity { key: auth_store::new_key(&mon.config.key_seed, &name, call.now), ..entity };
            auth_store::put(&name, &entity, mon.batch());
            Ok(Answer { status: OFF.into(), ..show(&entity) })
        }
        Some(entity) if caps.is_empty() || caps == entity.caps => Ok(show(&entity)),
        Some(entity) => {
            let differs = caps.iter().find(|(service, caps)| entity.caps.get(*service) != Some(caps));
            let service = differs.map_or("mon", |(service, _)| service.as_str());
            fail(Errno::EINVAL, format!("key for {name} exists but cap {service} does not match"))
        }
        None => {
            let entity = AuthEntity { key: auth_store::new_key(&mon.config.key_seed, &name, call.now), caps };
            auth_store::put(&name, &entity, mon.batch());
            Ok(Answer { status: OFF.into(), ..show(&entity) })
        }
    }
}

/// The entities of a keyring.
fn parse_keyring(data: &[u8]) -> Result<BTreeMap<String, AuthEntity>, Failure> {
    let bad = |why: String| Failure::Errno(Errno::EINVAL, format!("the keyring can't be read: {why}"));
    let text = std::str::from_utf8(data).map_err(|_| bad("it is not text".into()))?;
    let (mut all, mut current) = (BTreeMap::<String, AuthEntity>::new(), None::<String>);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            all.entry(name.into()).or_default();
            current = Some(name.into());
            continue;
        }
        let entity = current.as_ref().and_then(|name| all.get_mut(name));
        let (Some(entity), Some((option, value))) = (entity, line.split_once('=')) else {
            return Err(bad(format!("'{line}'")));
        };
        let value = value.trim().trim_matches('"');
        match option.trim().strip_prefix("caps ") {
            Some(service) => drop(entity.caps.insert(service.trim().into(), value.into())),
            None if option.trim() == "key" && auth_store::is_key(value) => entity.key = value.into(),
            None => return Err(bad(format!("'{}' of '{}'", value, option.trim()))),
        }
    }
    Ok(all)
}

fn add(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let (name, caps) = (entity_name(call)?, given_caps(call)?);
    let given = parse_keyring(call.data)?.remove(&name);
    if given.is_none() && !call.data.is_empty() {
        return fail(Errno::ENOENT, format!("keyring does not have {name}"));
    }
    let mut entity = given.unwrap_or_default();
    if entity.key.is_empty() {
        entity.key = auth_store::new_key(&mon.config.key_seed, &name, call.now);
    }
    entity.caps.extend(caps);
    match find(mon, &name) {
        Some(has) if has == entity => return Ok(Answer::status(format!("added key for {name}"))),
        Some(_) if name != ADMIN => {
            return fail(Errno::EINVAL, format!("entity {name} exists but key or capabilities do not match"));
        }
        _ => {}
    }
    auth_store::put(&name, &entity, mon.batch());
    Ok(Answer::status(format!("added key for {name}; {OFF}")))
}

fn import(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    if call.data.is_empty() {
        return fail(Errno::EINVAL, "auth import: no data supplied");
    }
    for (name, entity) in parse_keyring(call.data)? {
        auth_store::put(&name, &entity, mon.batch());
    }
    Ok(Answer::status(format!("imported keyring; {OFF}")))
}

fn caps(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let caps = given_caps(call)?;
    let (name, entity) = existing(mon, call, "couldn't find entry {}")?;
    auth_store::put(&name, &AuthEntity { caps, ..entity }, mon.batch());
    Ok(Answer::status(format!("updated caps for {name}")))
}

fn rm(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = entity_name(call)?;
    if auth_store::get(&mon.state, &name).is_none() {
        return Ok(Answer::status(format!("entity {name} does not exist")));
    }
    auth_store::remove(&name, mon.batch());
    Ok(Answer::status("updated"))
}
