//! `ceph tell mon.ID config …`: the options that this monitor itself uses. Other commands to a monitor are those of
//! the cluster's like any other.

use types::Errno;

use super::not_yet::{self, not_yet};
use super::{Answer, Call, Command, Failure, all, signature};
use crate::fmt::Json;
use crate::mon::Mon;
use crate::option_facts::facts;

const COMMANDS: &[Command] = &[
    Command {
        signature: "config get name=var,type=CephString",
        help: "An option's value here",
        module: "config",
        perm: "r",
        run: get,
    },
    Command { signature: "config show", help: "All options here", module: "config", perm: "r", run: show },
    Command {
        signature: "config diff",
        help: "Options that differ from their defaults here",
        module: "config",
        perm: "r",
        run: diff,
    },
    Command {
        signature: "config help name=var,type=CephString",
        help: "What an option does",
        module: "config",
        perm: "r",
        run: help,
    },
    Command {
        signature: "help",
        help: "The commands, and what they do",
        module: "mon",
        perm: "r",
        run: list,
    },
];

/// Commands of Ceph's monitors and admin sockets that are not here, and are described so that programs pass them on and
/// show why.
#[rustfmt::skip]
const NOT_YET: &[Command] = not_yet![
    "add_bootstrap_peer_hint",
    "dump_historic_ops",
    "dump_mempools",
    "log reopen",
    "perf histogram dump",
    "perf reset",
];

fn mine() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().chain(super::tell_state::COMMANDS)
}

/// The monitor's own commands, and those of the cluster that have no other meaning here.
pub(super) fn told() -> impl Iterator<Item = &'static Command> {
    let own = |command: &&Command| {
        mine().all(|c| signature::prefix(c.signature) != signature::prefix(command.signature))
    };
    mine().chain(all().filter(own)).chain(NOT_YET)
}

fn list(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let commands = mine().chain(all());
    let known =
        commands.filter(|command| command.help != not_yet::HELP && command.help != super::monitors::HELP);
    Ok(call.show_json(known.fold(Json::object(), |out, c| out.with(&signature::prefix(c.signature), c.help))))
}

fn get(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = options::normalize(&call.args.required("var")?);
    match facts(&name) {
        Some(_) => Ok(call.show_json(Json::object().with(&name, mon.option_text(&name)))),
        None => Err(unknown(&name)),
    }
}

fn show(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call
        .show_json(options::names().fold(Json::object(), |out, name| out.with(name, mon.option_text(name)))))
}

fn diff(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut diff = Json::object();
    // What was set: an option that was not has its default. Looking at all of Ceph's takes seconds.
    for (name, value) in mon.options.changed() {
        let default = facts(name).map(|facts| facts.default).unwrap_or_default();
        if value != default {
            diff.put(name, Json::object().with("default", default).with("final", value));
        }
    }
    Ok(call.show_json(Json::object().with("diff", diff)))
}

fn help(_: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let name = options::normalize(&call.args.required("var")?);
    let Some(facts) = facts(&name) else { return Err(unknown(&name)) };
    let json = Json::object()
        .with("name", name.as_str())
        .with("type", facts.kind)
        .with("default", facts.default)
        .with("desc", facts.summary)
        .with("can_update_at_runtime", facts.runtime);
    Ok(call.show_json(json))
}

fn unknown(name: &str) -> Failure {
    Failure::Errno(Errno::ENOENT, format!("there is no option '{name}'"))
}
