//! Making and changing a map: roots, hosts, OSDs, device classes with their shadow trees, rules.
//!
//! Everything made here is straw2 with the Jewel tunables, as a Pacific monitor makes it, and numbered as it numbers:
//! a new bucket takes the lowest free index. Weight sets (`choose_args`) follow into shadow trees; a new item has its own
//! weight in those of its bucket.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::{index_of, op};
use crate::{Alg, Bucket, ChooseArg, CrushMap, Rule, RuleStep, Tunables};

/// Why a map could not be changed: the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No bucket, OSD, type or class has this name.
    #[error("no {what} named '{name}'")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        name: String,
    },
    /// Something of this name exists already.
    #[error("'{0}' exists already")]
    Exists(String),
    /// An OSD's number below 0 or beyond what a map holds.
    #[error("bad OSD number {0}")]
    BadOsd(i32),
    /// The bucket uses an older algorithm, whose contents are not changed here.
    #[error("bucket {0} is not straw2")]
    NotStraw2(i32),
    /// The bucket is, or would be, below itself in the tree.
    #[error("bucket {0} holds itself")]
    HoldsItself(i32),
    #[error("'{0}' is not a valid name (letters, digits, '-', '_' and '.' are allowed)")]
    BadName(String),
    #[error("bucket '{0}' is not empty")]
    NotEmpty(String),
    /// A rule uses it.
    #[error("'{0}' is in use by a rule")]
    InUse(String),
    #[error("no location is given for '{0}' (TYPE=NAME)")]
    NoPlace(String),
    #[error("'{item}' can't be placed in a {kind}")]
    Misplaced { item: String, kind: String },
    #[error("bucket '{name}' is not a {kind}")]
    WrongType { name: String, kind: String },
    /// Walking the tree would meet this many items.
    #[error("the tree has {0} items, counting each as often as it is linked: too many")]
    TooLarge(u64),
}

/// Types of a new map, by number.
const TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];

impl Default for CrushMap {
    fn default() -> Self {
        Self::new()
    }
}

impl CrushMap {
    /// The weight of one: 16.16 fixed point; by custom, a TiB.
    pub const WEIGHT_ONE: u32 = 0x1_0000;

    /// A map with the usual types and nothing else.
    pub fn new() -> Self {
        Self {
            max_devices: 0,
            buckets: Vec::new(),
            rules: Vec::new(),
            type_names: (0..).zip(TYPES.map(str::to_owned)).collect(),
            item_names: BTreeMap::new(),
            rule_names: BTreeMap::new(),
            tunables: Tunables::JEWEL,
            item_classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            class_buckets: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        }
    }

    /// What a new cluster starts with: root `default`, and rule 0, `replicated_rule`, that spreads over
    /// `failure_domain` (`host`, or `osd` where one machine must hold all replicas).
    pub fn new_cluster(failure_domain: &str) -> Result<Self, BuildError> {
        let mut map = Self::new();
        map.add_bucket("default", "root", None)?;
        map.add_replicated_rule("replicated_rule", "default", failure_domain, None)?;
        Ok(map)
    }

    /// Adds an empty bucket of a named type, under `parent` if one is given. Returns its id.
    pub fn add_bucket(&mut self, name: &str, kind: &str, parent: Option<&str>) -> Result<i32, BuildError> {
        if self.item_by_name(name).is_some() {
            return Err(BuildError::Exists(name.into()));
        }
        let kind = self.type_by_name(kind).ok_or_else(|| unknown("type", kind))?;
        let parent = parent.map(|p| self.bucket_by_name(p)).transpose()?;
        let id = self.place_bucket(None, &BTreeSet::new(), kind, Vec::new(), Vec::new());
        self.item_names.insert(id, name.to_owned());
        if let Some(parent) = parent {
            self.add_item(parent, id, 0)?;
        }
        self.rebuild_shadow_trees()?;
        Ok(id)
    }

    /// Adds an OSD to a host, which is made under root `default` if it does not exist. With a device class, the
    /// class's shadow tree (`default~hdd`, ...) is kept as a Pacific monitor keeps it.
    pub fn add_osd(
        &mut self,
        osd: i32,
        weight: u32,
        host: &str,
        class: Option<&str>,
    ) -> Result<(), BuildError> {
        // A map this large would not fit a message; the limit keeps `max_devices` sane.
        if !(0..1 << 24).contains(&osd) {
            return Err(BuildError::BadOsd(osd));
        }
        let name = format!("osd.{osd}");
        if self.parent_of(osd).is_some() {
            return Err(BuildError::Exists(name));
        }
        let host = match self.item_by_name(host) {
            Some(id) => id,
            None => self.add_bucket(host, "host", Some("default"))?,
        };
        self.add_item(host, osd, weight)?;
        self.item_names.insert(osd, name);
        self.max_devices = self.max_devices.max(osd + 1);
        self.set_device_class(osd, class)
    }

    /// Changes an OSD's weight (16.16 fixed point) in every bucket that has it.
    pub fn set_osd_weight(&mut self, osd: i32, weight: u32) -> Result<(), BuildError> {
        let holds = |b: &&Bucket| !self.is_shadow(b.id) && b.items.contains(&osd);
        let holders: Vec<i32> = self.buckets.iter().flatten().filter(holds).map(|b| b.id).collect();
        if holders.is_empty() {
            return Err(unknown("item", &format!("osd.{osd}")));
        }
        for holder in holders {
            self.set_weight_in(holder, osd, weight)?;
            self.reweight_up(holder)?;
        }
        self.rebuild_shadow_trees()
    }

    /// Gives an OSD a device class, or takes it away.
    pub fn set_device_class(&mut self, osd: i32, class: Option<&str>) -> Result<(), BuildError> {
        match class {
            None => {
                self.item_classes.remove(&osd);
            }
            Some(class) => {
                let known = self.class_names.iter().find(|(_, n)| *n == class).map(|(&id, _)| id);
                let next = self.class_names.keys().next_back().map_or(0, |id| id.wrapping_add(1).max(0));
                let id = known.unwrap_or(next);
                self.class_names.insert(id, class.to_owned());
                self.item_classes.insert(osd, id);
            }
        }
        self.rebuild_shadow_trees()
    }

    /// Adds a replicated pools' rule: replicas on distinct items of type `failure_domain` below `root`, on OSDs of
    /// `class` only if one is given. Returns the rule's number, the lowest free one.
    pub fn add_replicated_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
    ) -> Result<u32, BuildError> {
        self.add_rule(name, root, failure_domain, class, Rule::REPLICATED, 10)
    }

    /// Adds an erasure-coded pools' rule: a place for each shard, filled independently of the others.
    pub fn add_erasure_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
        shards: u8,
    ) -> Result<u32, BuildError> {
        self.add_rule(name, root, failure_domain, class, Rule::ERASURE, shards)
    }

    fn add_rule(
        &mut self,
        name: &str,
        root: &str,
        failure_domain: &str,
        class: Option<&str>,
        kind: u8,
        max_size: u8,
    ) -> Result<u32, BuildError> {
        if self.rule_by_name(name).is_some() {
            return Err(BuildError::Exists(name.into()));
        }
        let mut take = self.bucket_by_name(root)?;
        let domain = self.type_by_name(failure_domain).ok_or_else(|| unknown("type", failure_domain))?;
        if let Some(class) = class {
            let id = self.class_names.iter().find(|(_, n)| *n == class).map(|(id, _)| id);
            let shadow = id.and_then(|id| self.class_buckets.get(&take)?.get(id));
            take = *shadow.ok_or_else(|| unknown("device class", class))?;
        }
        let number = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        let ruleset = u8::try_from(number).map_err(|_| BuildError::Exists("rule 255".into()))?;
        let erasure = kind == Rule::ERASURE;
        let choose = match (erasure, domain) {
            (false, 0) => op::CHOOSE_FIRSTN,
            (false, _) => op::CHOOSELEAF_FIRSTN,
            (true, 0) => op::CHOOSE_INDEP,
            (true, _) => op::CHOOSELEAF_INDEP,
        };
        let step = |op, arg1, arg2| RuleStep { op, arg1, arg2 };
        let mut steps = Vec::new();
        if erasure {
            steps.push(step(op::SET_CHOOSELEAF_TRIES, 5, 0));
            steps.push(step(op::SET_CHOOSE_TRIES, 100, 0));
        }
        steps.extend([step(op::TAKE, take, 0), step(choose, 0, domain.into()), step(op::EMIT, 0, 0)]);
        let min_size = if erasure { 3 } else { 1 };
        let rule = Rule { ruleset, kind, min_size, max_size, steps };
        if number == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[number] = Some(rule);
        self.rule_names.insert(i32::from(ruleset), name.to_owned());
        Ok(ruleset.into())
    }

    fn bucket_by_name(&self, name: &str) -> Result<i32, BuildError> {
        self.item_by_name(name).filter(|&id| self.bucket(id).is_some()).ok_or_else(|| unknown("bucket", name))
    }

    /// Puts a bucket at `wanted`, or at the lowest index that is free and not `reserved`. A number that was never in
    /// the table is not honoured: an honest map's table does not shrink, and a forged one would make it 2^32 long.
    fn place_bucket(
        &mut self,
        wanted: Option<i32>,
        reserved: &BTreeSet<i32>,
        kind: u16,
        items: Vec<i32>,
        weights: Vec<u32>,
    ) -> i32 {
        let free = |index: &usize| {
            self.buckets.get(*index).is_none_or(Option::is_none) && !reserved.contains(&(-1 - *index as i32))
        };
        let known = |index: &usize| *index < self.buckets.len();
        let index = wanted.and_then(index_of).filter(known).or_else(|| (0..).find(free)).unwrap_or(0);
        while self.buckets.len() <= index {
            let len = self.buckets.len();
            self.buckets.resize(if len == 0 { 8 } else { len * 2 }, None);
        }
        let id = -1 - index as i32;
        let weight = weights.iter().fold(0u32, |sum, w| sum.saturating_add(*w));
        self.buckets[index] = Some(Bucket { id, kind, hash: 0, weight, items, alg: Alg::Straw2 { weights } });
        id
    }

    pub(crate) fn straw2_mut(&mut self, id: i32) -> Result<&mut Bucket, BuildError> {
        let bucket = index_of(id).and_then(|i| self.buckets.get_mut(i)).and_then(Option::as_mut);
        match bucket {
            Some(bucket) if matches!(bucket.alg, Alg::Straw2 { .. }) => Ok(bucket),
            Some(_) => Err(BuildError::NotStraw2(id)),
            None => Err(unknown("bucket", &id.to_string())),
        }
    }

    pub(crate) fn add_item(&mut self, bucket: i32, item: i32, weight: u32) -> Result<(), BuildError> {
        let b = self.straw2_mut(bucket)?;
        b.items.push(item);
        if let Alg::Straw2 { weights } = &mut b.alg {
            weights.push(weight);
        }
        for args in self.choose_args.values_mut() {
            let Some(arg) = args.get_mut(&((-1 - bucket) as u32)) else { continue };
            arg.weight_sets.iter_mut().for_each(|set| set.push(weight));
            if !arg.ids.is_empty() {
                arg.ids.push(item);
            }
        }
        self.reweight_up(bucket)
    }

    pub(crate) fn set_weight_in(&mut self, bucket: i32, item: i32, weight: u32) -> Result<(), BuildError> {
        let b = self.straw2_mut(bucket)?;
        if let Alg::Straw2 { weights } = &mut b.alg {
            for (_, w) in b.items.iter().zip(weights).filter(|(i, _)| **i == item) {
                *w = weight;
            }
        }
        Ok(())
    }

    /// Recomputes a bucket's weight and those of the buckets above it.
    pub(crate) fn reweight_up(&mut self, bucket: i32) -> Result<(), BuildError> {
        let mut level = BTreeSet::from([bucket]);
        // As many levels as there are buckets: a map that holds itself ends here too.
        for _ in 0..self.buckets.len() {
            let mut above = BTreeSet::new();
            for id in level {
                let b = self.straw2_mut(id)?;
                if let Alg::Straw2 { weights } = &b.alg {
                    b.weight = weights.iter().fold(0u32, |sum, w| sum.saturating_add(*w));
                }
                let weight = b.weight;
                let holds = |b: &&Bucket| !self.is_shadow(b.id) && b.items.contains(&id);
                let holders: Vec<i32> = self.buckets.iter().flatten().filter(holds).map(|b| b.id).collect();
                for holder in holders {
                    self.set_weight_in(holder, id, weight)?;
                    above.insert(holder);
                }
            }
            if above.is_empty() {
                break;
            }
            level = above;
        }
        Ok(())
    }

    /// Rebuilds the device classes' shadow trees; shadow buckets keep their ids.
    pub fn rebuild_shadow_trees(&mut self) -> Result<(), BuildError> {
        let old = std::mem::take(&mut self.class_buckets);
        let used: BTreeSet<i32> = old.values().flat_map(|by_class| by_class.values().copied()).collect();
        let taken: BTreeSet<i32> = self.rules.iter().flatten().flat_map(takes).collect();
        // A class without devices lives on only while a rule takes its tree.
        let classes: Vec<i32> = self.class_names.keys().copied().collect();
        for class in classes {
            let in_use = self.item_classes.iter().any(|(&item, &c)| item >= 0 && c == class)
                || old.values().any(|by_class| by_class.get(&class).is_some_and(|id| taken.contains(id)));
            if !in_use {
                self.class_names.remove(&class);
            }
        }
        let shadows: Vec<i32> =
            self.buckets.iter().flatten().map(|b| b.id).filter(|&id| self.is_shadow(id)).collect();
        for id in shadows {
            if let Some(slot) = index_of(id).and_then(|i| self.buckets.get_mut(i)) {
                *slot = None;
            }
            self.item_names.remove(&id);
            self.item_classes.remove(&id);
            for args in self.choose_args.values_mut() {
                args.remove(&((-1 - id) as u32));
            }
        }
        let classes: Vec<i32> = self.class_names.keys().copied().collect();
        for root in self.roots() {
            for &class in &classes {
                self.clone_for_class(root, class, &old, &used, &mut Vec::new())?;
            }
        }
        Ok(())
    }

    /// The shadow of a tree for a class; `above` are the buckets between the root and this one.
    fn clone_for_class(
        &mut self,
        original: i32,
        class: i32,
        old: &BTreeMap<i32, BTreeMap<i32, i32>>,
        used: &BTreeSet<i32>,
        above: &mut Vec<i32>,
    ) -> Result<i32, BuildError> {
        if let Some(&done) = self.class_buckets.get(&original).and_then(|by_class| by_class.get(&class)) {
            return Ok(done);
        }
        if above.contains(&original) {
            return Err(BuildError::HoldsItself(original));
        }
        above.push(original);
        let bucket = self.straw2_mut(original)?.clone();
        let (mut items, mut weights, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (pos, &item) in bucket.items.iter().enumerate() {
            if item >= 0 {
                if self.item_classes.get(&item) == Some(&class) {
                    items.push(item);
                    weights.push(bucket.item_weight(pos));
                    places.push(pos);
                }
            } else {
                let child = self.clone_for_class(item, class, old, used, above)?;
                items.push(child);
                weights.push(self.bucket(child).map_or(0, |b| b.weight));
                places.push(pos);
            }
        }
        above.pop();
        let wanted = old.get(&original).and_then(|by_class| by_class.get(&class)).copied();
        let id = self.place_bucket(wanted, used, bucket.kind, items.clone(), weights);
        self.clone_weight_sets(original, id, &items, &places);
        let name = |names: &BTreeMap<i32, String>, id| names.get(&id).cloned().unwrap_or_default();
        let shadow_name = format!("{}~{}", name(&self.item_names, original), name(&self.class_names, class));
        self.item_names.insert(id, shadow_name);
        self.item_classes.insert(id, class);
        self.class_buckets.entry(original).or_default().insert(class, id);
        Ok(id)
    }
}

impl CrushMap {
    /// Gives a shadow bucket the weight sets of its original: an OSD's weight is taken over, a bucket's is the sum of
    /// what its own shadow has at that position (0 where that has none).
    fn clone_weight_sets(&mut self, original: i32, shadow: i32, items: &[i32], places: &[usize]) {
        for args in self.choose_args.values_mut() {
            let Some(theirs) = args.get(&((-1 - original) as u32)) else {
                // These weight sets leave the original's own weights in force, and so the shadow's.
                continue;
            };
            let weight = |position: usize, item: i32, place: usize| match item {
                0.. => theirs.weight_sets.get(position).and_then(|set| set.get(place)).copied().unwrap_or(0),
                _ => {
                    let child = args.get(&((-1 - item) as u32)).and_then(|arg| arg.weight_sets.get(position));
                    child.map_or(0, |set| set.iter().fold(0u32, |sum, w| sum.saturating_add(*w)))
                }
            };
            let set = |position| items.iter().zip(places).map(|(&i, &p)| weight(position, i, p)).collect();
            let weight_sets: Vec<Vec<u32>> = (0..theirs.weight_sets.len()).map(set).collect();
            if !weight_sets.is_empty() {
                args.insert((-1 - shadow) as u32, ChooseArg { weight_sets, ids: Vec::new() });
            }
        }
    }
}

fn takes(rule: &Rule) -> impl Iterator<Item = i32> + '_ {
    rule.steps.iter().filter(|s| s.op == op::TAKE).map(|s| s.arg1)
}

pub(crate) fn unknown(what: &'static str, name: &str) -> BuildError {
    BuildError::Unknown { what, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_tree_has_the_weight_sets_of_its_class_s_devices() {
        let mut map = CrushMap::new_cluster("host").unwrap();
        for (osd, class) in [(0, "hdd"), (1, "ssd"), (2, "ssd")] {
            map.add_osd(osd, CrushMap::WEIGHT_ONE, "node", Some(class)).unwrap();
        }
        let node = map.item_by_name("node").unwrap();
        let index = |id: i32| (-1 - id) as u32;
        let arg = |sets: &[&[u32]]| ChooseArg {
            weight_sets: sets.iter().map(|s| s.to_vec()).collect(),
            ids: Vec::new(),
        };
        let sets = [(index(node), arg(&[&[5, 6, 7], &[1, 2, 3]])), (index(-1), arg(&[&[18], &[6]]))];
        map.choose_args.insert(CrushMap::DEFAULT_CHOOSE_ARGS, sets.into());
        map.rebuild_shadow_trees().unwrap();
        let args = &map.choose_args[&CrushMap::DEFAULT_CHOOSE_ARGS];
        let of = |name: &str| &args[&index(map.item_by_name(name).unwrap())].weight_sets;
        assert_eq!(of("node~ssd"), &[vec![6, 7], vec![2, 3]]);
        assert_eq!(of("default~ssd"), &[vec![13], vec![5]]);
        assert_eq!(of("default~hdd"), &[vec![5], vec![1]]);
        assert_eq!(of("node").len(), 2);
    }
}
