//! A report in lines for people: `key: value`, indented below what it belongs to.

use serde_json::Value;
use text::visible;

/// The lines of a report, indented by `depth` steps.
pub fn lines(report: &Value, depth: usize) -> Vec<String> {
    let indent = "  ".repeat(depth);
    let Value::Object(fields) = report else { return vec![format!("{indent}{}", scalar(report))] };
    let mut out = Vec::new();
    for (key, value) in fields {
        let key = visible(key);
        match value {
            Value::Array(all) if !all.is_empty() => {
                out.push(format!("{indent}{key}:"));
                all.iter().for_each(|one| out.extend(item(one, depth + 1)));
            }
            Value::Object(of) if !of.is_empty() => {
                out.push(format!("{indent}{key}:"));
                out.extend(lines(value, depth + 1));
            }
            _ => out.push(format!("{indent}{key}: {}", scalar(value))),
        }
    }
    out
}

/// One of a list: on a line if nothing in it has parts of its own.
fn item(one: &Value, depth: usize) -> Vec<String> {
    let indent = "  ".repeat(depth);
    let is_flat = |value: &Value| !value.is_object() && !value.is_array();
    if let Some(fields) = one.as_object().filter(|fields| fields.values().all(is_flat)) {
        let fields: Vec<String> =
            fields.iter().map(|(key, value)| format!("{}: {}", visible(key), scalar(value))).collect();
        return vec![format!("{indent}- {}", fields.join(", "))];
    }
    let mut out = lines(one, depth + 1);
    if let Some(first) = out.first_mut() {
        *first = format!("{indent}- {}", first.trim_start());
    }
    out
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text).to_string(),
        Value::Array(_) | Value::Object(_) => "none".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_belongs_together_is_indented_and_small_things_of_a_list_take_a_line() {
        let report = json!({
            "label": { "bytes": 4096, "log_device": null },
            "shards": [{ "collections": ["meta", "1.0"], "superblock": { "generation": 7 } }],
            "extents": [{ "bytes": 8, "offset": 0 }, { "bytes": 4, "offset": 8 }],
            "objects": [],
        });
        let mut said = lines(&report, 1);
        // The order of a map's keys is the JSON library's.
        let at = said.iter().position(|line| line == "  shards:").unwrap();
        assert_eq!(
            said.drain(at..at + 6).collect::<Vec<_>>(),
            [
                "  shards:",
                "    - collections:",
                "        - meta",
                "        - 1.0",
                "      superblock:",
                "        generation: 7",
            ]
        );
        for line in [
            "  label:",
            "    bytes: 4096",
            "    log_device: -",
            "    - bytes: 8, offset: 0",
            "  objects: none",
        ] {
            assert!(said.iter().any(|one| one == line), "{line:?} in {said:#?}");
        }
    }
}
