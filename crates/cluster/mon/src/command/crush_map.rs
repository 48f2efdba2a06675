//! `osd crush …` that only looks.

use encoding::Encode;
use types::Errno;

use super::{Answer, Call, Command, Failure, fail};
use crate::crush_view;
use crate::fmt::{Align, Json, Table, weight};
use crate::mon::Mon;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        signature: "osd getcrushmap name=epoch,type=CephInt,range=0,req=false",
        help: "The CRUSH map in its binary form",
        module: "osd",
        perm: "r",
        run: getcrushmap,
    },
    Command {
        signature: "osd crush tree name=shadow,type=CephChoices,strings=--show-shadow,req=false",
        help: "The CRUSH map as a tree",
        module: "osd",
        perm: "r",
        run: tree,
    },
    Command { signature: "osd crush dump", help: "The CRUSH map", module: "osd", perm: "r", run: dump },
    Command {
        signature: "osd crush rule ls",
        help: "Names of the CRUSH rules",
        module: "osd",
        perm: "r",
        run: rule_ls,
    },
    Command {
        signature: "osd crush rule list",
        help: "The same as osd crush rule ls",
        module: "osd",
        perm: "r",
        run: rule_ls,
    },
    Command {
        signature: "osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "CRUSH rules",
        module: "osd",
        perm: "r",
        run: rule_dump,
    },
    Command {
        signature: "osd crush class ls",
        help: "Device classes",
        module: "osd",
        perm: "r",
        run: class_ls,
    },
    Command {
        signature: "osd crush show-tunables",
        help: "Tunables of the CRUSH map",
        module: "osd",
        perm: "r",
        run: |mon, call| Ok(call.show_json(crush_view::tunables_json(&mon.osdmap.crush))),
    },
];

fn getcrushmap(mon: &mut Mon, _: &Call<'_>) -> Result<Answer, Failure> {
    let data = mon.osdmap.crush.to_bytes(mon.config.profile.features_encode);
    Ok(Answer { status: mon.osdmap.crush_version.to_string(), data })
}

fn tree(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let crush = &mon.osdmap.crush;
    let nodes = crush_view::walk(crush, call.args.flag("shadow"));
    let json = || {
        let nodes = nodes.iter().map(|node| {
            let out = crush_view::node_json(crush, node);
            if node.id >= 0 { out } else { out.with("children", Json::array(node.children.iter().copied())) }
        });
        Json::object().with("nodes", Json::array(nodes)).with("stray", Json::Array(vec![]))
    };
    let text = || {
        let mut table = Table::new()
            .column("ID", Align::Left, Align::Right)
            .column("CLASS", Align::Left, Align::Right)
            .column("WEIGHT", Align::Left, Align::Right)
            .columns(Align::Left, &["TYPE NAME"]);
        for node in &nodes {
            table.row([
                node.id.to_string(),
                crush.device_class(node.id).unwrap_or("").to_string(),
                weight(crush_view::weight(node.weight)),
                crush_view::node_label(crush, node),
            ]);
        }
        table.render()
    };
    Ok(call.show(json, text))
}

fn dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    Ok(call.show_json(crush_view::dump(&mon.osdmap.crush)))
}

fn rule_ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let crush = &mon.osdmap.crush;
    let names: Vec<&str> = crush_view::rules(crush)
        .filter_map(|(number, _)| crush.rule_names.get(&(number as i32)).map(|n| n.as_str()))
        .collect();
    Ok(call.show(|| Json::array(names.iter().copied()), || names.iter().map(|n| format!("{n}\n")).collect()))
}

fn rule_dump(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let crush = &mon.osdmap.crush;
    match call.args.text("name")?.filter(|n| !n.is_empty()) {
        None => Ok(call.show_json(crush_view::rules_json(crush))),
        Some(name) => {
            let number = crush.rule_by_name(&name);
            match number.and_then(|n| Some((n, crush.rule(n)?))) {
                Some((number, rule)) => Ok(call.show_json(crush_view::rule_json(crush, number, rule))),
                None => fail(Errno::ENOENT, format!("there is no CRUSH rule '{name}'")),
            }
        }
    }
}

fn class_ls(mon: &mut Mon, call: &Call<'_>) -> Result<Answer, Failure> {
    let names = mon.osdmap.crush.class_names.values().map(|name| name.as_str());
    Ok(call.show_json(Json::array(names)))
}
