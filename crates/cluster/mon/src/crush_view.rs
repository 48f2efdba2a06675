//! The CRUSH map as commands show it: the tree in order, and its parts as JSON.

use crush::{Bucket, CrushMap, Rule, op};

use crate::fmt::Json;

/// An item of the tree, in the order that it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The item: an OSD from 0 on, a bucket below.
    pub id: i32,
    /// How far below its root.
    pub depth: usize,
    /// Its weight in its parent, 16.16 fixed point; a root's own.
    pub weight: u32,
    /// Its type's number.
    pub kind: u16,
    /// The items right below, in the order that JSON lists them.
    pub children: Vec<i32>,
}

/// The deepest tree that is shown; real ones have at most a dozen levels.
const DEPTH_MAX: usize = 64;

/// Every item below the roots (shadow trees only when asked for), each before its children.
pub fn walk(map: &CrushMap, shadow: bool) -> Vec<Node> {
    let below: std::collections::BTreeSet<i32> =
        map.buckets.iter().flatten().flat_map(|b| b.items.iter().copied()).collect();
    let mut roots: Vec<i32> = map.buckets.iter().flatten().map(|b| b.id).collect();
    roots.retain(|id| !below.contains(id) && (shadow || !map.is_shadow(*id)));
    roots.sort_unstable();
    let mut out = Vec::new();
    for root in roots {
        let weight = map.bucket(root).map_or(0, |b| b.weight);
        visit(map, root, weight, 0, &mut out);
    }
    out
}

/// The item `root` and everything below it.
pub fn walk_from(map: &CrushMap, root: i32) -> Vec<Node> {
    let mut out = Vec::new();
    visit(map, root, map.bucket(root).map_or(0, |b| b.weight), 0, &mut out);
    out
}

fn visit(map: &CrushMap, id: i32, weight: u32, depth: usize, out: &mut Vec<Node>) {
    if depth > DEPTH_MAX {
        return;
    }
    let bucket = map.bucket(id);
    let mut below: Vec<(i32, u32)> = bucket
        .map(|b| b.items.iter().enumerate().map(|(pos, item)| (*item, b.item_weight(pos))).collect())
        .unwrap_or_default();
    // OSDs by class and number, buckets by name.
    below.sort_by_key(|(item, _)| match *item {
        osd if osd >= 0 => (map.device_class(osd).unwrap_or("").to_string(), format!("{osd:010}")),
        bucket => (String::new(), name(map, bucket)),
    });
    let children = below.iter().rev().map(|(item, _)| *item).collect();
    out.push(Node { id, depth, weight, kind: bucket.map_or(0, |b| b.kind), children });
    for (item, weight) in below {
        visit(map, item, weight, depth + 1, out);
    }
}

/// An item's name.
pub fn name(map: &CrushMap, id: i32) -> String {
    let unnamed = || if id >= 0 { format!("osd.{id}") } else { format!("bucket{id}") };
    map.item_names.get(&id).cloned().unwrap_or_else(unnamed)
}

/// A type's name.
pub fn type_name(map: &CrushMap, kind: u16) -> String {
    map.type_names.get(&i32::from(kind)).cloned().unwrap_or_else(|| format!("type{kind}"))
}

/// A 16.16 weight as a number.
pub fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(CrushMap::WEIGHT_ONE)
}

/// The buckets above an item, the root first: (type, name).
pub fn location(map: &CrushMap, item: i32) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut at = item;
    while let Some(parent) = map.parent_of(at) {
        out.push((type_name(map, parent.kind), name(map, parent.id)));
        at = parent.id;
        if out.len() > DEPTH_MAX {
            break;
        }
    }
    out.reverse();
    out
}

/// The location as `root=default,host=vm`.
pub fn location_text(map: &CrushMap, item: i32) -> String {
    location(map, item).iter().map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
}

/// What tree commands say of every node.
pub fn node_json(map: &CrushMap, node: &Node) -> Json {
    let mut out = Json::object().with("id", node.id);
    if let Some(class) = map.device_class(node.id) {
        out.put("device_class", class);
    }
    out.put("name", name(map, node.id));
    out.put("type", type_name(map, node.kind));
    out.put("type_id", node.kind);
    if node.id >= 0 {
        out.put("crush_weight", weight(node.weight));
        out.put("depth", node.depth);
    }
    if node.depth > 0 {
        out.put("pool_weights", Json::object());
    }
    out
}

/// The name of a row: indented by depth, buckets with their type.
pub fn node_label(map: &CrushMap, node: &Node) -> String {
    let indent = "    ".repeat(node.depth);
    if node.id >= 0 {
        format!("{indent}{}", name(map, node.id))
    } else {
        format!("{indent}{} {}", type_name(map, node.kind), name(map, node.id))
    }
}

/// A rule, as `crush rule dump` shows it.
pub fn rule_json(map: &CrushMap, number: u32, rule: &Rule) -> Json {
    let steps = rule.steps.iter().map(|step| match step.op {
        op::TAKE => {
            Json::object().with("op", "take").with("item", step.arg1).with("item_name", name(map, step.arg1))
        }
        op::EMIT => Json::object().with("op", "emit"),
        op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP => Json::object()
            .with("op", op_name(step.op))
            .with("num", step.arg1)
            .with("type", type_name(map, step.arg2 as u16)),
        op::NOOP => Json::object().with("op", "noop"),
        other => Json::object().with("op", op_name(other)).with("num", step.arg1),
    });
    let rule_name = map.rule_names.get(&(number as i32)).map_or("", |n| n.as_str());
    Json::object()
        .with("rule_id", number)
        .with("rule_name", rule_name)
        .with("ruleset", rule.ruleset)
        .with("type", rule.kind)
        .with("min_size", rule.min_size)
        .with("max_size", rule.max_size)
        .with("steps", Json::array(steps))
}

fn op_name(op: u32) -> &'static str {
    match op {
        op::CHOOSE_FIRSTN => "choose_firstn",
        op::CHOOSE_INDEP => "choose_indep",
        op::CHOOSELEAF_FIRSTN => "chooseleaf_firstn",
        op::CHOOSELEAF_INDEP => "chooseleaf_indep",
        op::SET_CHOOSE_TRIES => "set_choose_tries",
        op::SET_CHOOSELEAF_TRIES => "set_chooseleaf_tries",
        op::SET_CHOOSE_LOCAL_TRIES => "set_choose_local_tries",
        op::SET_CHOOSE_LOCAL_FALLBACK_TRIES => "set_choose_local_fallback_tries",
        op::SET_CHOOSELEAF_VARY_R => "set_chooseleaf_vary_r",
        op::SET_CHOOSELEAF_STABLE => "set_chooseleaf_stable",
        _ => "unknown",
    }
}

/// The rules that exist, by number.
pub fn rules(map: &CrushMap) -> impl Iterator<Item = (u32, &Rule)> {
    (0u32..).zip(map.rules.iter()).filter_map(|(number, rule)| Some((number, rule.as_ref()?)))
}

/// All rules as JSON.
pub fn rules_json(map: &CrushMap) -> Json {
    Json::array(rules(map).map(|(number, rule)| rule_json(map, number, rule)))
}

/// The tunables as JSON.
pub fn tunables_json(map: &CrushMap) -> Json {
    let t = &map.tunables;
    let jewel = *t == crush::Tunables::JEWEL;
    let profile = if jewel { "jewel" } else { "unknown" };
    let flag = |set: bool| u64::from(set);
    let tries = t.choose_local_tries != 2 || t.choose_local_fallback_tries != 5 || t.choose_total_tries != 19;
    let has_class_rules = map.buckets.iter().flatten().any(|b| b.alg.name() == "straw2");
    Json::object()
        .with("choose_local_tries", t.choose_local_tries)
        .with("choose_local_fallback_tries", t.choose_local_fallback_tries)
        .with("choose_total_tries", t.choose_total_tries)
        .with("chooseleaf_descend_once", t.chooseleaf_descend_once)
        .with("chooseleaf_vary_r", t.chooseleaf_vary_r)
        .with("chooseleaf_stable", t.chooseleaf_stable)
        .with("straw_calc_version", t.straw_calc_version)
        .with("allowed_bucket_algs", t.allowed_bucket_algs)
        .with("profile", profile)
        .with("optimal_tunables", flag(jewel))
        .with("legacy_tunables", flag(*t == crush::Tunables::LEGACY))
        .with("minimum_required_version", if t.chooseleaf_stable != 0 { "jewel" } else { "hammer" })
        .with("require_feature_tunables", flag(tries))
        .with("require_feature_tunables2", flag(t.chooseleaf_descend_once != 0))
        .with("has_v2_rules", 0)
        .with("require_feature_tunables3", flag(t.chooseleaf_vary_r != 0))
        .with("has_v3_rules", 0)
        .with("has_v4_buckets", flag(has_class_rules))
        .with("require_feature_tunables5", flag(t.chooseleaf_stable != 0))
        .with("has_v5_rules", 0)
}

fn bucket_json(map: &CrushMap, bucket: &Bucket) -> Json {
    let items = bucket.items.iter().enumerate().map(|(pos, item)| {
        Json::object().with("id", *item).with("weight", bucket.item_weight(pos)).with("pos", pos)
    });
    Json::object()
        .with("id", bucket.id)
        .with("name", name(map, bucket.id))
        .with("type_id", bucket.kind)
        .with("type_name", type_name(map, bucket.kind))
        .with("weight", bucket.weight)
        .with("alg", bucket.alg.name())
        .with("hash", if bucket.hash == 0 { "rjenkins1" } else { "unknown" })
        .with("items", Json::array(items))
}

/// The whole map, as `crush dump` shows it.
pub fn dump(map: &CrushMap) -> Json {
    let devices = (0..map.max_devices).filter(|osd| map.item_names.contains_key(osd)).map(|osd| {
        let device = Json::object().with("id", osd).with("name", name(map, osd));
        match map.device_class(osd) {
            Some(class) => device.with("class", class),
            None => device,
        }
    });
    let types = map
        .type_names
        .iter()
        .map(|(id, name)| Json::object().with("type_id", *id).with("name", name.as_str()));
    Json::object()
        .with("devices", Json::array(devices))
        .with("types", Json::array(types))
        .with("buckets", Json::array(map.buckets.iter().flatten().map(|b| bucket_json(map, b))))
        .with("rules", rules_json(map))
        .with("tunables", tunables_json(map))
        .with("choose_args", Json::object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_lists_each_item_before_its_children_and_osds_in_order() {
        let mut map = CrushMap::new_cluster("osd").unwrap();
        for osd in [2, 10, 0] {
            map.add_osd(osd, CrushMap::WEIGHT_ONE, "vm", Some("ssd")).unwrap();
        }
        let nodes = walk(&map, false);
        assert_eq!(nodes.iter().map(|n| (n.id >= 0, n.depth)).filter(|(osd, _)| *osd).count(), 3);
        assert_eq!(nodes.iter().map(|n| n.id).filter(|id| *id >= 0).collect::<Vec<_>>(), [0, 2, 10]);
        assert_eq!(node_label(&map, &nodes[0]), "root default");
        assert_eq!(node_label(&map, &nodes[2]), "        osd.0");
        assert_eq!(location_text(&map, 2), "root=default,host=vm");
        assert!(walk(&map, true).len() > nodes.len(), "the class has a shadow tree");
    }
}
