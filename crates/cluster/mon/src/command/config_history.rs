//! `config …` that looks at changes of stored options, takes them back, or takes a ceph.conf.

use types::Errno;

use super::{Answer, Call, Command, Failure, fail};
use crate::fmt::{Align, Json, Table};
use crate::mon::Mon;
use crate::option_facts;
use crate::service::config_history::{self, ConfigChange, OptionChange};
use crate::service::config_store::{ConfigStore, is_section};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "config log name=num,type=CephInt,req=false",
        help: "The last changes of stored options, the newest first",
        module: "config",
        perm: "r",
        run: log,
    },
    Command {
        signature: "config reset name=num,type=CephInt,range=0",
        help: "Take back all changes after one of `config log`",
        module: "config",
        perm: "rw",
        run: reset,
    },
    Command {
        signature: "config assimilate-conf",
        help: "Store the options of a ceph.conf (-i FILE); answers what is left of it",
        module: "config",
        perm: "rw",
        run: assimilate,
    },
    Command {
        signature: "config show-with-defaults name=who,type=CephString",
        help: "All options of a daemon",
        module: "config",
        perm: "r",
        run: show_with_defaults,
    },
];

impl Mon {
    /// Sets or removes stored options, and notes that in the history.
    pub(super) fn store_options(&mut self, call: &Call<'_>, name: &str, wanted: Vec<OptionChange>) {
        let options: Vec<OptionChange> = wanted.into_iter().filter(|one| one.before != one.after).collect();
        for OptionChange { section, option, after, .. } in &options {
            match after {
                Some(value) => ConfigStore::set(section, option, value, self.batch()),
                None => ConfigStore::remove(section, option, self.batch()),
            }
        }
        if !options.is_empty() {
            let change = ConfigChange { stamp: call.now, name: name.into(), options };
            self.pending.changes += 1;
            config_history::add(&self.state, &change, &mut self.pending.batch);
        }
    }

    /// A change of one option, from the value that is stored.
    pub(super) fn option_change(&self, section: &str, option: &str, after: Option<String>) -> OptionChange {
        let mut all = self.settings.all();
        let before =
            all.find(|(s, o, _)| *s == section && *o == option).map(|(_, _, value)| value.to_owned());
        OptionChange { section: section.into(), option: option.into(), before, after }
    }
}

fn log(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let count = usize::try_from(call.args.int("num")?.unwrap_or(10)).unwrap_or(0);
    let kept: Vec<(u64, ConfigChange)> = config_history::newest_first(&mon.state).collect();
    // The empty beginning, unless what came after it is no longer all there.
    let beginning = kept.last().is_none_or(|(version, _)| *version == 2);
    let beginning = beginning.then(|| (1, ConfigChange::default()));
    let shown: Vec<(u64, ConfigChange)> = kept.into_iter().chain(beginning).take(count).collect();
    let json = || {
        Json::array(shown.iter().map(|(version, change)| {
            let options = change.options.iter().map(|one| {
                let mut out = Json::object().with("name", format!("{}/{}", one.section, one.option));
                if let Some(before) = &one.before {
                    out.put("previous_value", before.as_str());
                }
                if let Some(after) = &one.after {
                    out.put("new_value", after.as_str());
                }
                out
            });
            Json::object()
                .with("version", *version)
                .with("timestamp", change.stamp.to_string())
                .with("name", change.name.as_str())
                .with("changes", Json::array(options))
        }))
    };
    let text = || {
        let mut out = String::new();
        for (version, change) in &shown {
            let name = if change.name.is_empty() { String::new() } else { format!(" {} ---", change.name) };
            out += &format!("--- {version} --- {} ---{name}\n", change.stamp);
            for one in &change.options {
                let line =
                    |sign: char, value: &String| format!("{sign} {}/{} = {value}\n", one.section, one.option);
                out += &one.before.as_ref().map(|value| line('-', value)).unwrap_or_default();
                out += &one.after.as_ref().map(|value| line('+', value)).unwrap_or_default();
            }
        }
        out
    };
    Ok(call.show(json, text))
}

fn reset(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let last = config_history::last(&mon.state);
    let to = call.args.int("num")?.and_then(|n| u64::try_from(n).ok()).filter(|n| (1..=last).contains(n));
    let Some(to) = to else {
        return fail(
            Errno::EINVAL,
            format!("give the number of a change, 1 to {last} (`ceph config log` lists them)"),
        );
    };
    let undone: Vec<(u64, ConfigChange)> =
        config_history::newest_first(&mon.state).take_while(|(version, _)| *version > to).collect();
    if undone.len() as u64 != last - to {
        return fail(Errno::ENOENT, format!("the changes after {to} are no longer all kept"));
    }
    // The oldest change that is taken back has the value that counts.
    let mut wanted: Vec<OptionChange> = Vec::new();
    for one in undone.into_iter().flat_map(|(_, change)| change.options) {
        let change = mon.option_change(&one.section, &one.option, one.before);
        match wanted.iter_mut().find(|w| w.section == one.section && w.option == one.option) {
            Some(earlier) => *earlier = change,
            None => wanted.push(change),
        }
    }
    mon.store_options(call, &format!("reset to {to}"), wanted);
    Ok(Answer::status(format!("reset to {to}")))
}

fn assimilate(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let bad = |why: String| Failure::Errno(Errno::EINVAL, format!("the file is not a ceph.conf: {why}"));
    let text = std::str::from_utf8(call.data).map_err(|_| bad("it is not text".into()))?;
    let file = options::ConfFile::parse(text).map_err(|error| bad(error.to_string()))?;
    let (mut wanted, mut left, mut said) = (Vec::new(), String::new(), String::new());
    for (section, option, given) in file.all() {
        let value = match option_facts::facts(option) {
            Some(_) if !is_section(section) => Err(format!("'{section}' is not a section")),
            Some(_) if is_local(option) => Err("a daemon must know it before it reaches the monitor".into()),
            Some(_) => match options::check_storable(option, given) {
                Ok(()) => options::canonical(option, given).map_err(|error| error.to_string()),
                Err(why) => Err(why.to_string()),
            },
            None => Err("there is no such option".into()),
        };
        match value {
            Ok(value) => wanted.push(mon.option_change(section, option, Some(value))),
            Err(why) => {
                said += &format!("[{section}] {option} is not stored: {why}\n");
                if !left.contains(&format!("[{section}]\n")) {
                    left += &format!("\n[{section}]\n");
                }
                left += &format!("\t{option} = {given}\n");
            }
        }
    }
    mon.store_options(call, "assimilate-conf", wanted);
    Ok(Answer { status: said, data: left.into() })
}

/// Options that stay in a ceph.conf: those by which the monitor and the data are found.
fn is_local(option: &str) -> bool {
    const LOCAL: [&str; 9] = [
        "fsid",
        "mon_host",
        "keyring",
        "key",
        "keyfile",
        "mon_dns_srv_name",
        "osd_data",
        "mon_data",
        "admin_socket",
    ];
    LOCAL.contains(&option)
}

fn show_with_defaults(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let text = call.args.required("who")?;
    let Ok(who) = text.parse() else {
        return fail(Errno::EINVAL, format!("'{text}' is not a daemon or client, such as osd.0"));
    };
    let stored = mon.settings.of(&who);
    let mut names: Vec<&str> = options::names().collect();
    names.sort_unstable();
    let rows: Vec<(&str, &str, &str)> = names
        .into_iter()
        .map(|name| match stored.get(name) {
            Some((_, value)) => (name, *value, "mon"),
            None => (name, option_facts::facts(name).map_or("", |facts| facts.default), "default"),
        })
        .collect();
    let json = || {
        let one = |(name, value, source): &(&str, &str, &str)| {
            Json::object().with("name", *name).with("value", *value).with("source", *source)
        };
        Json::array(rows.iter().map(one))
    };
    let text = || {
        let mut table =
            Table::new().columns(Align::Left, &["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"]);
        rows.iter().for_each(|(name, value, source)| table.row([*name, *value, *source, "", ""]));
        table.render()
    };
    Ok(call.show(json, text))
}
