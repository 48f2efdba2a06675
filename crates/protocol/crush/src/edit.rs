//! Changing the tree of an existing map: placing, moving, linking and removing items, renaming them, weights of
//! subtrees, device classes, tunables. The rules of each are those of Ceph's CrushWrapper, since programs rely on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::build::unknown;
use crate::map::op;
use crate::{Alg, BuildError, CrushMap, Tunables};

/// A place in the tree: names of buckets by the names of their types (`root=default host=vm`).
pub type Location = BTreeMap<String, String>;

/// Items that are shown when a tree is walked from its roots, at most. Links can make a small map a very large tree.
const WALK_MAX: u64 = 1 << 20;

/// What removing an item found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removed {
    Yes,
    /// It is in no bucket that was searched.
    NotThere,
}

impl CrushMap {
    /// The bucket that a place names: the one of the lowest type that is given. `None`: it does not exist yet.
    fn bucket_at(&self, place: &Location) -> Option<i32> {
        let mut kinds = self.type_names.iter().filter(|(kind, _)| **kind > 0);
        let name = kinds.find_map(|(_, name)| place.get(name))?;
        self.item_by_name(name).filter(|id| self.bucket(*id).is_some())
    }

    /// Whether an item is directly in the bucket that a place names.
    pub fn is_at(&self, item: i32, place: &Location) -> bool {
        let bucket = self.bucket_at(place).and_then(|id| self.bucket(id));
        bucket.is_some_and(|bucket| bucket.items.contains(&item))
    }

    /// An item's weight in the first bucket that has it, 16.16 fixed point; a root's is its own.
    pub fn weight_of(&self, item: i32) -> u32 {
        let held = self.parent_of(item).and_then(|parent| {
            let pos = parent.items.iter().position(|i| *i == item)?;
            Some(parent.item_weight(pos))
        });
        held.or_else(|| self.bucket(item).map(|bucket| bucket.weight)).unwrap_or(0)
    }

    /// Whether `item` is `above`, or below it.
    fn is_below(&self, item: i32, above: i32) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![above]);
        while let Some(at) = left.pop() {
            if at == item {
                return true;
            }
            if seen.insert(at) {
                left.extend(self.bucket(at).into_iter().flat_map(|bucket| bucket.items.iter().copied()));
            }
        }
        false
    }

    /// Puts an item at a place with a weight (16.16 fixed point). Buckets of the place that do not exist are made, up
    /// to the first that does.
    pub fn insert_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        place: &Location,
    ) -> Result<(), BuildError> {
        for (kind, bucket) in place {
            self.type_by_name(kind).filter(|kind| *kind > 0).ok_or_else(|| unknown("bucket type", kind))?;
            check_name(bucket)?;
        }
        match self.item_by_name(name) {
            Some(id) if id != item => return Err(BuildError::Exists(name.into())),
            Some(_) => {}
            None => drop(self.item_names.insert(item, name.to_owned())),
        }
        let own_kind = self.bucket(item).map_or(0, |bucket| bucket.kind);
        let kinds: Vec<(i32, String)> = self.type_names.iter().map(|(k, n)| (*k, n.clone())).collect();
        let (mut at, mut top) = (item, None);
        for (kind, type_name) in kinds.into_iter().filter(|(kind, _)| *kind > 0) {
            let Some(bucket) = place.get(&type_name) else { continue };
            if kind <= i32::from(own_kind) {
                return Err(BuildError::Misplaced { item: name.into(), kind: type_name });
            }
            let Some(id) = self.item_by_name(bucket) else {
                self.add_bucket(bucket, &type_name, None)?;
                let id = self.item_by_name(bucket).ok_or_else(|| unknown("bucket", bucket))?;
                self.add_item(id, at, if at == item { weight } else { self.weight_of(at) })?;
                (at, top) = (id, Some(id));
                continue;
            };
            if self.bucket(id).map(|b| i32::from(b.kind)) != Some(kind) {
                return Err(BuildError::WrongType { name: bucket.clone(), kind: type_name });
            }
            if self.is_below(id, at) {
                return Err(BuildError::HoldsItself(at));
            }
            if self.is_below(at, id) {
                return Err(BuildError::Exists(name.into()));
            }
            self.add_item(id, at, if at == item { weight } else { self.weight_of(at) })?;
            top = Some(id);
            break;
        }
        if top.is_none() {
            return Err(BuildError::NoPlace(name.into()));
        }
        if item >= 0 {
            self.max_devices = self.max_devices.max(item.saturating_add(1));
        }
        self.rebuild_shadow_trees()
    }

    /// Moves an item to a place. An OSD keeps its weight; one that is in no bucket gets `weight`. A bucket leaves every
    /// bucket that has it.
    pub fn move_item(
        &mut self,
        item: i32,
        weight: u32,
        name: &str,
        place: &Location,
    ) -> Result<(), BuildError> {
        let weight = if item < 0 || self.parent_of(item).is_some() { self.weight_of(item) } else { weight };
        self.take_out(item, None)?;
        self.insert_item(item, weight, name, place)
    }

    /// Takes an item out of every bucket that has it, at or below `above` if that is given. The item stays.
    fn take_out(&mut self, item: i32, above: Option<i32>) -> Result<Removed, BuildError> {
        let holds = |b: &&crate::Bucket| !self.is_shadow(b.id) && b.items.contains(&item);
        let mut holders: Vec<i32> = self.buckets.iter().flatten().filter(holds).map(|b| b.id).collect();
        holders.retain(|holder| above.is_none_or(|above| self.is_below(*holder, above)));
        for holder in &holders {
            self.remove_from(*holder, item)?;
        }
        Ok(if holders.is_empty() { Removed::NotThere } else { Removed::Yes })
    }

    /// Takes an item out of every bucket that has it (at or below `above`, if that is given), and out of the map when no
    /// bucket has it any more. A bucket must be empty and used by no rule.
    pub fn remove_item(&mut self, item: i32, above: Option<i32>) -> Result<Removed, BuildError> {
        if let Some(bucket) = self.bucket(item) {
            let name = self.item_names.get(&item).cloned().unwrap_or_default();
            if !bucket.items.is_empty() {
                return Err(BuildError::NotEmpty(name));
            }
            if self.is_taken(item) {
                return Err(BuildError::InUse(name));
            }
        }
        let removed = self.take_out(item, above)?;
        let is_linked = self.parent_of(item).is_some();
        let removed = if above.is_none() { Removed::Yes } else { removed };
        if !is_linked && removed == Removed::Yes {
            if let Some(slot) = crate::map::index_of(item).and_then(|i| self.buckets.get_mut(i)) {
                *slot = None;
                self.choose_args.values_mut().for_each(|args| drop(args.remove(&((-1 - item) as u32))));
            }
            self.item_names.remove(&item);
            self.item_classes.remove(&item);
        }
        self.rebuild_shadow_trees()?;
        Ok(removed)
    }

    /// Takes a bucket out of the buckets that have it (at or below `above`). Its contents stay with it.
    pub fn unlink_item(&mut self, item: i32, above: Option<i32>) -> Result<Removed, BuildError> {
        let removed = self.take_out(item, above)?;
        self.rebuild_shadow_trees()?;
        Ok(removed)
    }

    /// Whether a rule begins at a bucket, or at one of its shadows.
    fn is_taken(&self, bucket: i32) -> bool {
        let shadows = self.class_buckets.get(&bucket).into_iter().flat_map(|by_class| by_class.values());
        let all: BTreeSet<i32> = shadows.copied().chain([bucket]).collect();
        let mut steps = self.rules.iter().flatten().flat_map(|rule| &rule.steps);
        steps.any(|step| step.op == op::TAKE && all.contains(&step.arg1))
    }

    /// Renames a bucket.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Result<(), BuildError> {
        check_name(to)?;
        let id = self.item_by_name(from).ok_or_else(|| unknown("bucket", from))?;
        if self.item_by_name(to).is_some() {
            return Err(BuildError::Exists(to.into()));
        }
        if id >= 0 {
            return Err(unknown("bucket", from));
        }
        self.item_names.insert(id, to.to_owned());
        self.rebuild_shadow_trees()
    }

    /// Exchanges what two buckets hold, and their names: each id keeps its place in the tree.
    pub fn swap_buckets(&mut self, one: i32, other: i32) -> Result<(), BuildError> {
        if self.is_below(one, other) || self.is_below(other, one) {
            return Err(BuildError::HoldsItself(one));
        }
        let (a, b) = (self.straw2_mut(one)?.clone(), self.straw2_mut(other)?.clone());
        for (id, from) in [(one, &b), (other, &a)] {
            let bucket = self.straw2_mut(id)?;
            bucket.items.clone_from(&from.items);
            bucket.alg.clone_from(&from.alg);
        }
        let index = |id: i32| (-1 - id) as u32;
        for args in self.choose_args.values_mut() {
            let (a, b) = (args.remove(&index(one)), args.remove(&index(other)));
            args.extend([(index(one), b), (index(other), a)].into_iter().filter_map(|(k, v)| Some((k, v?))));
        }
        let names = (self.item_names.remove(&one), self.item_names.remove(&other));
        let named = [(one, names.1), (other, names.0)].into_iter().filter_map(|(id, name)| Some((id, name?)));
        self.item_names.extend(named);
        self.reweight_up(one)?;
        self.reweight_up(other)?;
        self.rebuild_shadow_trees()
    }

    /// Computes the weight of every bucket from what it holds.
    pub fn reweight_all(&mut self) -> Result<(), BuildError> {
        let own = self.buckets.iter().flatten().map(|b| b.id).filter(|id| !self.is_shadow(*id));
        for id in own.collect::<Vec<_>>() {
            self.reweight_up(id)?;
        }
        self.rebuild_shadow_trees()
    }

    /// Gives every OSD below a bucket the same weight (16.16 fixed point).
    pub fn set_subtree_weight(&mut self, bucket: i32, weight: u32) -> Result<(), BuildError> {
        let osds: Vec<i32> =
            self.item_names.keys().copied().filter(|id| *id >= 0 && self.is_below(*id, bucket)).collect();
        let holds = |b: &&crate::Bucket| self.is_below(b.id, bucket) && !self.is_shadow(b.id);
        let holders: Vec<i32> = self.buckets.iter().flatten().filter(holds).map(|b| b.id).collect();
        for holder in holders {
            for osd in &osds {
                self.set_weight_in(holder, *osd, weight)?;
            }
            self.reweight_up(holder)?;
        }
        self.rebuild_shadow_trees()
    }

    /// The number of a device class, if there is one of this name.
    pub fn class_by_name(&self, name: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// Makes a device class without devices. It lasts until the tree is next changed, as in Ceph. Returns its number.
    pub fn add_class(&mut self, name: &str) -> i32 {
        self.class_by_name(name).unwrap_or_else(|| {
            let id = self.class_names.keys().next_back().map_or(0, |id| id.wrapping_add(1).max(0));
            self.class_names.insert(id, name.to_owned());
            id
        })
    }

    /// Renames a device class.
    pub fn rename_class(&mut self, from: &str, to: &str) -> Result<(), BuildError> {
        let id = self.class_by_name(from).ok_or_else(|| unknown("device class", from))?;
        if self.class_by_name(to).is_some() {
            return Err(BuildError::Exists(to.into()));
        }
        self.class_names.insert(id, to.to_owned());
        self.rebuild_shadow_trees()
    }

    /// Removes a device class that no rule uses; its OSDs have none then.
    pub fn remove_class(&mut self, name: &str) -> Result<(), BuildError> {
        let id = self.class_by_name(name).ok_or_else(|| unknown("device class", name))?;
        if self.rules_of_class(id).next().is_some() {
            return Err(BuildError::InUse(name.into()));
        }
        self.item_classes.retain(|item, class| *item < 0 || *class != id);
        self.rebuild_shadow_trees()?;
        self.class_names.remove(&id);
        Ok(())
    }

    /// The rules that take a device class's shadow tree, by number.
    pub fn rules_of_class(&self, class: i32) -> impl Iterator<Item = u32> + '_ {
        let shadows: BTreeSet<i32> =
            self.class_buckets.values().filter_map(|by_class| by_class.get(&class).copied()).collect();
        let numbered = (0u32..).zip(&self.rules).filter_map(|(n, rule)| Some((n, rule.as_ref()?)));
        let takes = move |rule: &crate::Rule| {
            rule.steps.iter().any(|step| step.op == op::TAKE && shadows.contains(&step.arg1))
        };
        numbered.filter(move |(_, rule)| takes(rule)).map(|(number, _)| number)
    }

    /// Whether a map that somebody made can be used: every bucket's items exist, none holds itself, and the tree is not
    /// too large to be shown.
    pub fn check(&self) -> Result<(), BuildError> {
        let mut sizes: BTreeMap<i32, u64> = BTreeMap::new();
        for bucket in self.buckets.iter().flatten() {
            self.tree_size(bucket.id, &mut sizes, &mut Vec::new())?;
        }
        let total =
            self.buckets.iter().flatten().filter_map(|b| sizes.get(&b.id)).fold(0, |a: u64, s| a.max(*s));
        if total > WALK_MAX { Err(BuildError::TooLarge(total)) } else { Ok(()) }
    }

    /// Items that a walk from a bucket meets, each as often as it is linked.
    fn tree_size(
        &self,
        id: i32,
        sizes: &mut BTreeMap<i32, u64>,
        above: &mut Vec<i32>,
    ) -> Result<u64, BuildError> {
        /// Levels of a tree: deeper ones are no one's.
        const DEPTH_MAX: usize = 64;
        if let Some(size) = sizes.get(&id) {
            return Ok(*size);
        }
        if id >= 0 {
            return Ok(1);
        }
        if above.contains(&id) || above.len() >= DEPTH_MAX {
            return Err(BuildError::HoldsItself(id));
        }
        let Some(bucket) = self.bucket(id) else { return Err(unknown("bucket", &id.to_string())) };
        above.push(id);
        let mut size: u64 = 1;
        for item in &bucket.items {
            size = size.saturating_add(self.tree_size(*item, sizes, above)?);
        }
        above.pop();
        sizes.insert(id, size);
        Ok(size)
    }
}

impl Tunables {
    /// The tunables of a profile of Ceph's; they leave `straw_calc_version` as it is, unless the profile sets it.
    pub fn profile(name: &str, before: &Self) -> Option<Self> {
        let legacy = Self { straw_calc_version: before.straw_calc_version, ..Self::LEGACY };
        let jewel = Self { straw_calc_version: before.straw_calc_version, ..Self::JEWEL };
        let hammer = Self { chooseleaf_stable: 0, ..jewel };
        let firefly = Self { allowed_bucket_algs: Self::LEGACY.allowed_bucket_algs, ..hammer };
        match name {
            "argonaut" => Some(legacy),
            "legacy" => Some(Self::LEGACY),
            "bobtail" => Some(Self { chooseleaf_vary_r: 0, ..firefly }),
            "firefly" => Some(firefly),
            "hammer" => Some(hammer),
            "jewel" => Some(jewel),
            "optimal" | "default" => Some(Self::JEWEL),
            _ => None,
        }
    }
}

impl CrushMap {
    /// Removes an item from one bucket, and its weight from those above.
    fn remove_from(&mut self, holder: i32, item: i32) -> Result<(), BuildError> {
        let bucket = self.straw2_mut(holder)?;
        let Some(pos) = bucket.items.iter().position(|i| *i == item) else { return Ok(()) };
        bucket.items.remove(pos);
        if let Alg::Straw2 { weights } = &mut bucket.alg {
            weights.remove(pos);
        }
        for args in self.choose_args.values_mut() {
            let Some(arg) = args.get_mut(&((-1 - holder) as u32)) else { continue };
            for set in arg.weight_sets.iter_mut().filter(|set| set.len() > pos) {
                set.remove(pos);
            }
            if arg.ids.len() > pos {
                arg.ids.remove(pos);
            }
        }
        self.reweight_up(holder)
    }
}

fn check_name(name: &str) -> Result<(), BuildError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !name.is_empty() && name.chars().all(fits) { Ok(()) } else { Err(BuildError::BadName(name.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u32 = CrushMap::WEIGHT_ONE;

    fn map() -> CrushMap {
        let mut map = CrushMap::new_cluster("host").unwrap();
        for (osd, host) in [(0, "a"), (1, "a"), (2, "b")] {
            map.add_osd(osd, ONE, host, Some("ssd")).unwrap();
        }
        map
    }

    fn place(text: &str) -> Location {
        text.split(' ').filter_map(|w| w.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    fn weight(map: &CrushMap, name: &str) -> u32 {
        map.bucket(map.item_by_name(name).unwrap()).unwrap().weight / ONE
    }

    #[test]
    fn an_osd_that_is_moved_keeps_its_weight_and_makes_the_buckets_of_its_place() {
        let mut map = map();
        map.set_osd_weight(1, 3 * ONE).unwrap();
        let there = place("root=default rack=r1 host=c");
        assert!(!map.is_at(1, &there));
        map.move_item(1, ONE, "osd.1", &there).unwrap();
        assert!(map.is_at(1, &there));
        let sums = ["a", "c", "r1", "default"].map(|name| weight(&map, name));
        assert_eq!(sums, [1, 3, 3, 5]);
        assert_eq!(weight(&map, "r1~ssd"), 3, "the class's tree follows");
    }

    #[test]
    fn a_bucket_moves_with_what_it_holds_and_never_below_itself() {
        let mut map = map();
        map.add_bucket("r1", "rack", Some("default")).unwrap();
        let a = map.item_by_name("a").unwrap();
        map.move_item(a, 0, "a", &place("rack=r1")).unwrap();
        assert_eq!(["r1", "default"].map(|name| weight(&map, name)), [2, 3]);
        let rack = map.item_by_name("r1").unwrap();
        assert!(map.clone().move_item(rack, 0, "r1", &place("host=a")).is_err(), "a rack in a host");
        let unplaced = map.clone().move_item(rack, 0, "r1", &Location::new());
        assert_eq!(unplaced, Err(BuildError::NoPlace("r1".into())));
        assert!(map.clone().move_item(rack, 0, "r1", &place("host=b")).is_err());
    }

    #[test]
    fn removing_an_osd_takes_its_weight_and_removing_a_bucket_needs_it_empty_and_unused() {
        let mut map = map();
        let (root, b) = (map.item_by_name("default").unwrap(), map.item_by_name("b").unwrap());
        assert_eq!(map.remove_item(b, None), Err(BuildError::NotEmpty("b".into())));
        assert_eq!(map.remove_item(2, Some(map.item_by_name("a").unwrap())), Ok(Removed::NotThere));
        assert_eq!(map.remove_item(2, None), Ok(Removed::Yes));
        assert_eq!((weight(&map, "default"), map.item_by_name("osd.2")), (2, None));
        assert_eq!(map.remove_item(b, None), Ok(Removed::Yes));
        assert_eq!((map.bucket(b), map.item_by_name("b~ssd")), (None, None));
        for osd in [0, 1] {
            map.remove_item(osd, None).unwrap();
        }
        map.remove_item(map.item_by_name("a").unwrap(), None).unwrap();
        assert_eq!(map.remove_item(root, None), Err(BuildError::InUse("default".into())));
    }

    #[test]
    fn a_linked_bucket_counts_in_each_of_its_places() {
        let mut map = map();
        map.add_bucket("other", "root", None).unwrap();
        let a = map.item_by_name("a").unwrap();
        map.insert_item(a, map.weight_of(a), "a", &place("root=other")).unwrap();
        map.set_osd_weight(0, 5 * ONE).unwrap();
        assert_eq!(["default", "other"].map(|name| weight(&map, name)), [7, 6]);
        let other = map.item_by_name("other").unwrap();
        let again = map.clone().insert_item(a, 0, "a", &place("root=other"));
        assert_eq!(again, Err(BuildError::Exists("a".into())), "it is below already");
        assert_eq!(map.unlink_item(a, Some(other)), Ok(Removed::Yes));
        assert_eq!(["default", "other"].map(|name| weight(&map, name)), [7, 0]);
    }

    #[test]
    fn buckets_are_swapped_renamed_and_weighed_as_a_whole() {
        let mut map = map();
        let (a, b) = (map.item_by_name("a").unwrap(), map.item_by_name("b").unwrap());
        map.swap_buckets(a, b).unwrap();
        assert_eq!((map.item_by_name("a"), map.bucket(b).unwrap().items.clone()), (Some(b), vec![0, 1]));
        assert_eq!(["a", "b", "default"].map(|name| weight(&map, name)), [2, 1, 3]);
        map.rename_bucket("a", "c").unwrap();
        assert!(map.item_by_name("c~ssd").is_some() && map.item_by_name("a~ssd").is_none());
        assert_eq!(map.rename_bucket("c", "b"), Err(BuildError::Exists("b".into())));
        map.set_subtree_weight(map.item_by_name("default").unwrap(), 2 * ONE).unwrap();
        assert_eq!(weight(&map, "default"), 6);
    }

    #[test]
    fn weight_sets_follow_the_items_of_their_bucket() {
        let mut map = map();
        let a = map.item_by_name("a").unwrap();
        let arg = crate::ChooseArg { weight_sets: vec![vec![7, 8]], ids: vec![] };
        map.choose_args.insert(-1, [((-1 - a) as u32, arg)].into());
        map.insert_item(3, ONE, "osd.3", &place("host=a")).unwrap();
        map.remove_item(0, None).unwrap();
        assert_eq!(map.choose_args[&-1][&((-1 - a) as u32)].weight_sets, [vec![8, ONE]]);
    }

    #[test]
    fn a_class_is_renamed_with_its_trees_and_goes_when_no_rule_uses_it() {
        let mut map = map();
        map.rename_class("ssd", "fast").unwrap();
        assert_eq!(map.device_class(0), Some("fast"));
        assert!(map.item_by_name("default~fast").is_some());
        map.add_replicated_rule("quick", "default", "host", Some("fast")).unwrap();
        assert_eq!(map.remove_class("fast"), Err(BuildError::InUse("fast".into())));
        map.rules[1] = None;
        map.remove_class("fast").unwrap();
        assert_eq!((map.device_class(0), map.item_by_name("default~fast")), (None, None));
    }

    #[test]
    fn a_map_with_a_loop_a_missing_bucket_or_endless_links_is_refused() {
        assert_eq!(map().check(), Ok(()));
        let mut looped = map();
        let a = looped.item_by_name("a").unwrap();
        looped.straw2_mut(a).unwrap().items.push(-1);
        assert_eq!(looped.check(), Err(BuildError::HoldsItself(-1)));
        let mut missing = map();
        missing.straw2_mut(-1).unwrap().items.push(-99);
        assert!(matches!(missing.check(), Err(BuildError::Unknown { .. })));
        let mut wide = CrushMap::new();
        for level in 0..40 {
            wide.add_bucket(&format!("b{level}"), "root", None).unwrap();
        }
        for level in 0..39 {
            let items = &mut wide.straw2_mut(-1 - level).unwrap().items;
            items.extend([-2 - level, -2 - level]);
        }
        assert!(matches!(wide.check(), Err(BuildError::TooLarge(_))));
    }
}
