//! What commands print: the members of stock 16.2's JSON, and descriptions that its programs take.

use std::collections::BTreeSet;

use crate::common::{Cluster, config};
use serde_json::Value;

/// Members of a stock cluster's answers (three OSDs, a pool), recorded once; those that depend on the cluster's data,
/// devices and modules are left out. A line in column one is a command, the others are its paths.
const STOCK: &str = include_str!("../stock-keys-16.2.txt");

fn paths(value: &Value, at: String, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = format!("{at}/{key}");
                out.insert(path.clone());
                paths(value, path, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, format!("{at}[]"), out)),
        _ => {}
    }
}

fn json_of(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    let (prefix, arguments) = match &words[..] {
        ["health", "detail"] => ("health", r#","detail":"detail""#),
        ["df", "detail"] => ("df", r#","detail":"detail""#),
        ["osd", "df", "tree"] => ("osd df", r#","output_method":"tree""#),
        ["osd", "pool", "ls", "detail"] => ("osd pool ls", r#","detail":"detail""#),
        ["osd", "pool", "get", _, "size"] => ("osd pool get", r#","pool":"p","var":"size""#),
        ["osd", "pool", "get", _, "all"] => ("osd pool get", r#","pool":"p","var":"all""#),
        ["osd", "find", "0"] => ("osd find", r#","id":"0""#),
        ["osd", "map", ..] => ("osd map", r#","pool":"p","object":"obj1""#),
        ["log", "last", "10"] => ("log last", r#","num":10"#),
        _ => (command, ""),
    };
    format!(r#"{{"prefix":"{prefix}"{arguments},"format":"json"}}"#)
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(config(3, &[]));
    let sessions: Vec<_> = (0..3).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    cluster.ok(client, r#"{"prefix":"osd pool application enable","pool":"p","app":"rados"}"#);
    for (osd, session) in sessions.into_iter().enumerate() {
        cluster.report(osd as i32, session, 1);
    }
    cluster
}

#[test]
fn json_has_every_member_that_stock_16_2_gives() {
    let mut cluster = cluster();
    let client = cluster.client();
    let (mut ours, mut missing, mut commands) = (BTreeSet::new(), Vec::new(), 0);
    let mut command = "";
    for line in STOCK.lines() {
        match line.strip_prefix("  ") {
            None => {
                command = line;
                commands += 1;
                let text = cluster.ok(client, &json_of(command));
                ours = BTreeSet::new();
                paths(&serde_json::from_str(&text).unwrap(), String::new(), &mut ours);
            }
            Some(path) if !ours.contains(path) => missing.push(format!("{command}: {path}")),
            Some(_) => {}
        }
    }
    assert!(commands > 30);
    assert!(missing.is_empty(), "{} missing:\n{}", missing.len(), missing.join("\n"));
}

#[test]
fn every_command_that_reads_answers_in_every_format_or_says_what_it_lacks() {
    let mut cluster = cluster();
    let client = cluster.client();
    for command in mon::command::all().filter(|c| !c.perm.contains('w')) {
        let prefix = mon::command::signature::prefix(command.signature);
        for format in ["plain", "json", "json-pretty", "xml"] {
            let (code, status, data) =
                cluster.run(client, &format!(r#"{{"prefix":"{prefix}","format":"{format}"}}"#));
            match (code, format) {
                (0, "json" | "json-pretty")
                    if !prefix.contains("get") && !prefix.contains("minimal-conf") =>
                {
                    let parsed = serde_json::from_str::<Value>(&data);
                    assert!(parsed.is_ok() || data.is_empty(), "{prefix} {format}: {data}");
                }
                (0, "plain" | "json" | "json-pretty") => {}
                _ => assert!(code < 0 && !status.is_empty(), "{prefix} {format}: {code} {status}"),
            }
        }
    }
}

#[test]
fn no_command_panics_on_arguments_of_any_kind() {
    let mut cluster = cluster();
    let client = cluster.client();
    let values = [
        r#""""#,
        r#""x""#,
        "-1",
        "1e300",
        "[]",
        r#"["*"]"#,
        "{}",
        "true",
        "null",
        r#""osd.99""#,
        "18446744073709551615",
    ];
    for command in mon::command::all() {
        let prefix = mon::command::signature::prefix(command.signature);
        let names: Vec<&str> =
            command.signature.split([' ', ',']).filter_map(|part| part.strip_prefix("name=")).collect();
        for value in values {
            let arguments: String = names.iter().map(|name| format!(r#","{name}":{value}"#)).collect();
            cluster.run(client, &format!(r#"{{"prefix":"{prefix}"{arguments}}}"#));
        }
    }
}

#[test]
fn descriptions_name_arguments_as_the_programs_want_them() {
    let parsed: Value = serde_json::from_str(&mon::command::descriptions().compact()).unwrap();
    let all = parsed.as_object().unwrap();
    assert!(all.len() > 100);
    let mut prefixes = BTreeSet::new();
    for description in all.values() {
        assert_eq!(description["flags"], 0, "nothing is left to the manager");
        let signature = description["sig"].as_array().unwrap();
        let words: Vec<&str> = signature.iter().filter_map(Value::as_str).collect();
        assert!(prefixes.insert(words.join(" ")), "{words:?} twice");
        for argument in signature.iter().filter_map(Value::as_object) {
            assert!(argument.contains_key("name") && argument.contains_key("type"));
            assert!(!argument.contains_key("positional"), "16.2 stumbles over it");
            if argument["type"] == "CephChoices" {
                assert!(argument.contains_key("strings"));
            }
        }
    }
}
