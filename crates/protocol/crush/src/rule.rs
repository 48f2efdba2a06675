//! Running a rule: from an input number to the items that it is placed on.

use crate::choose::{choose, permuted};
use crate::hash::hash32_2;
use crate::map::{ChooseArg, ITEM_NONE, op};
use crate::{Alg, Bucket, CrushMap, Rule};
use std::collections::BTreeMap;

/// A place of an erasure-coded result that has not been filled yet.
pub(crate) const UNDEFINED: i32 = 0x7fff_fffe;

/// Items that one placement may draw from; a bucket without items costs one too. Most placements need thousands. A forged
/// map (a bucket that holds itself, billions of tries) stops here and yields what it has.
const DRAWS: u64 = 1 << 23;
/// In a large map, so many for each item of its buckets: 14 shards with 100 tries each draw 1,400 times from every item of
/// a flat bucket when most of its OSDs are out.
const DRAWS_PER_ITEM: u64 = 1 << 12;
/// And so many in any map, about a second's work.
const DRAWS_MAX: u64 = 1 << 26;

/// Levels that a descent may pass (Ceph's CRUSH_MAX_DEPTH is 10); a bucket that holds itself has more.
pub(crate) const DEPTH_MAX: u32 = 32;

/// A set of OSDs in 64 bits, one for all OSDs whose number has the same remainder: it may seem to hold OSDs that were not
/// added, and never lacks one that was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OsdFilter(u64);

impl OsdFilter {
    pub fn add(&mut self, osd: i32) {
        self.0 |= 1 << (osd & 63);
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether an OSD may be in both sets.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Where a number is placed, and on what that depends.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Placed {
    /// OSDs (or buckets, if the rule asks for them), in order; [`ITEM_NONE`] is a place that could not be filled.
    pub items: Vec<i32>,
    /// The OSDs among the items, and those whose weights were asked for: while the map is the same and these OSDs' weights
    /// are, the result is.
    pub touched: OsdFilter,
}

impl CrushMap {
    /// Places `x` as [`CrushMap::place`] does; only the items.
    pub fn do_rule(&self, rule: u32, x: u32, result_max: usize, weights: &[u32], pool: i64) -> Vec<i32> {
        self.place(rule, x, result_max, weights, pool).items
    }

    /// Whether every rule places every number as in `other`: all but names, classes and the like is the same.
    pub fn places_like(&self, other: &Self) -> bool {
        (self.max_devices, &self.buckets, &self.rules, &self.tunables, &self.choose_args)
            == (other.max_devices, &other.buckets, &other.rules, &other.tunables, &other.choose_args)
    }

    /// Places `x` by a rule on at most `result_max` items (Ceph's crush_do_rule). `weights` are the OSDs' in/out
    /// weights (16.16 fixed point, 0x10000 is fully in), `pool` chooses weight sets. An unknown rule yields nothing.
    pub fn place(&self, rule: u32, x: u32, result_max: usize, weights: &[u32], pool: i64) -> Placed {
        let args = self.choose_args.get(&pool).or_else(|| self.choose_args.get(&Self::DEFAULT_CHOOSE_ARGS));
        let Some(rule) = self.rule(rule) else {
            // No such rule: nothing is placed, as in stock.
            return Placed::default();
        };
        let mut placement = Placement {
            map: self,
            x,
            weights,
            args,
            draws_left: DRAWS,
            extended: false,
            touched: OsdFilter::default(),
        };
        let items = match rule.kind {
            Rule::MSR_FIRSTN | Rule::MSR_INDEP => placement.run_msr(rule, result_max),
            _ => placement.run(rule, result_max),
        };
        let mut touched = placement.touched;
        items.iter().filter(|item| **item != ITEM_NONE).for_each(|&item| touched.add(item));
        Placed { items, touched }
    }
}

pub(crate) struct Placement<'a> {
    pub(crate) map: &'a CrushMap,
    x: u32,
    weights: &'a [u32],
    args: Option<&'a BTreeMap<u32, ChooseArg>>,
    draws_left: u64,
    /// Whether `draws_left` was raised to what the map's size allows.
    extended: bool,
    /// OSDs whose weight was asked for.
    touched: OsdFilter,
}

/// What holds for the whole rule until a step changes it.
struct ChooseTunables {
    tries: u32,
    leaf_tries: u32,
    local_retries: u32,
    fallback_retries: u32,
    vary_r: u32,
    stable: bool,
}

/// What a choose step asks for.
struct ChooseStep<'k> {
    tunables: &'k ChooseTunables,
    /// How many items.
    count: i32,
    /// Of which type.
    kind: i32,
    /// Descents for each.
    tries: u32,
    /// Descents for the leaf below each; `None`: no leaf is asked for.
    leaf_tries: Option<u32>,
}

/// What became of a drawn item.
pub(crate) enum Draw {
    /// An item of the type asked for.
    Item(i32),
    /// A bucket on the way down.
    Down(i32),
    /// Nothing that could ever fit.
    Dead,
}

impl<'a> Placement<'a> {
    fn run(&mut self, rule: &Rule, result_max: usize) -> Vec<i32> {
        let t = &self.map.tunables;
        let mut tunables = ChooseTunables {
            // The tunable counts retries, not tries.
            tries: t.choose_total_tries.wrapping_add(1),
            leaf_tries: 0,
            local_retries: t.choose_local_tries,
            fallback_retries: t.choose_local_fallback_tries,
            vary_r: t.chooseleaf_vary_r.into(),
            stable: t.chooseleaf_stable != 0,
        };
        let (mut result, mut work) = (Vec::new(), Vec::new());
        for step in &rule.steps {
            let value = u32::try_from(step.arg1).ok();
            match (step.op, value) {
                (op::TAKE, _) => self.take(step.arg1, &mut work),
                (op::SET_CHOOSE_TRIES, Some(n @ 1..)) => tunables.tries = n,
                (op::SET_CHOOSELEAF_TRIES, Some(n @ 1..)) => tunables.leaf_tries = n,
                (op::SET_CHOOSE_LOCAL_TRIES, Some(n)) => tunables.local_retries = n,
                (op::SET_CHOOSE_LOCAL_FALLBACK_TRIES, Some(n)) => tunables.fallback_retries = n,
                (op::SET_CHOOSELEAF_VARY_R, Some(n)) => tunables.vary_r = n,
                (op::SET_CHOOSELEAF_STABLE, Some(n)) => tunables.stable = n != 0,
                (op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN, _) if !work.is_empty() => {
                    let leaf = step.op == op::CHOOSELEAF_FIRSTN;
                    work = self.firstn_step(&tunables, &work, step.arg1, step.arg2, leaf, result_max);
                }
                (op::CHOOSE_INDEP | op::CHOOSELEAF_INDEP, _) if !work.is_empty() => {
                    let leaf = step.op == op::CHOOSELEAF_INDEP;
                    work = self.indep_step(&tunables, &work, step.arg1, step.arg2, leaf, result_max);
                }
                (op::EMIT, _) => {
                    let room = result_max - result.len();
                    match result.is_empty() && work.len() <= room {
                        true => result = std::mem::take(&mut work),
                        false => result.extend(work.drain(..).take(room)),
                    }
                }
                _ => {}
            }
        }
        result
    }

    fn take(&self, item: i32, work: &mut Vec<i32>) {
        if (0..self.map.max_devices).contains(&item) || self.map.bucket(item).is_some() {
            *work = vec![item];
        }
    }

    /// The count that a step's argument means: 0 and below count from the result's size.
    fn step_count(arg: i32, result_max: usize) -> i32 {
        if arg > 0 { arg } else { arg.saturating_add(i32::try_from(result_max).unwrap_or(i32::MAX)) }
    }

    fn firstn_step(
        &mut self,
        tunables: &ChooseTunables,
        from: &[i32],
        arg: i32,
        kind: i32,
        leaf: bool,
        result_max: usize,
    ) -> Vec<i32> {
        let leaf_tries = match tunables.leaf_tries {
            0 if self.map.tunables.chooseleaf_descend_once != 0 => 1,
            0 => tunables.tries,
            n => n,
        };
        let count = Self::step_count(arg, result_max);
        let step = ChooseStep {
            tunables,
            count,
            kind,
            tries: tunables.tries,
            leaf_tries: leaf.then_some(leaf_tries),
        };
        let mut chosen = Vec::new();
        for bucket in from.iter().filter_map(|&id| self.map.bucket(id)) {
            let (mut out, mut leaves) = (Vec::new(), Vec::new());
            self.firstn(&step, bucket, 0, result_max - chosen.len(), 0, &mut out, &mut leaves);
            let found = if leaf { &mut leaves } else { &mut out };
            match chosen.is_empty() {
                true => chosen = std::mem::take(found),
                false => chosen.append(found),
            }
        }
        chosen
    }

    /// Fills `out` with distinct items, as many as are wished for and fit into `room`, replica `first` to begin with.
    #[allow(clippy::too_many_arguments)] // the algorithm's own parameters
    fn firstn(
        &mut self,
        step: &ChooseStep<'_>,
        start: &'a Bucket,
        first: i32,
        room: usize,
        parent_r: i32,
        out: &mut Vec<i32>,
        leaves: &mut Vec<i32>,
    ) {
        let limit = out.len().saturating_add(room);
        for replica in first..step.count {
            if out.len() >= limit || self.draws_left == 0 {
                return;
            }
            let r = replica.wrapping_add(parent_r);
            if let Some(item) = self.firstn_one(step, start, r, out, leaves) {
                out.push(item);
            }
        }
    }

    /// One replica: descents until an item is neither taken nor out. Its leaf, if one is wished for, goes to `leaves`.
    fn firstn_one(
        &mut self,
        step: &ChooseStep<'_>,
        start: &'a Bucket,
        r: i32,
        out: &[i32],
        leaves: &mut Vec<i32>,
    ) -> Option<i32> {
        let tunables = step.tunables;
        let mut failures = 0u32;
        'descent: loop {
            let (mut bucket, mut local, mut depth) = (start, 0u32, 0);
            loop {
                let r = r.wrapping_add(failures as i32);
                let size = bucket.items.len() as u32;
                let by_order =
                    tunables.fallback_retries > 0 && local >= size / 2 && local > tunables.fallback_retries;
                let mut collided = false;
                if size == 0 {
                    self.spend(bucket)?;
                } else {
                    match self.draw(bucket, r, out.len(), by_order, step.kind)? {
                        Draw::Dead => return None,
                        Draw::Down(_) if depth == DEPTH_MAX => return None,
                        Draw::Down(id) => {
                            depth += 1;
                            bucket = self.map.bucket(id)?;
                            continue;
                        }
                        Draw::Item(item) => {
                            collided = out.contains(&item);
                            if !collided && self.firstn_accepts(step, item, r, out.len(), leaves) {
                                return Some(item);
                            }
                        }
                    }
                }
                failures += 1;
                local += 1;
                let again_here = collided && local <= tunables.local_retries
                    || tunables.fallback_retries > 0
                        && local <= size.saturating_add(tunables.fallback_retries);
                if again_here {
                    continue;
                }
                if failures < step.tries {
                    continue 'descent;
                }
                return None;
            }
        }
    }

    /// Whether a leaf was found below the item (where one is wished for) and the item itself is not out.
    fn firstn_accepts(
        &mut self,
        step: &ChooseStep<'_>,
        item: i32,
        r: i32,
        position: usize,
        leaves: &mut Vec<i32>,
    ) -> bool {
        leaves.truncate(position);
        if let Some(leaf_tries) = step.leaf_tries {
            match self.map.bucket(item) {
                None => leaves.push(item),
                Some(below) => {
                    let vary_r = step.tunables.vary_r;
                    let parent_r = match vary_r {
                        0 => 0,
                        n => r.checked_shr(n - 1).unwrap_or(0),
                    };
                    let (first, count) =
                        if step.tunables.stable { (0, 1) } else { (position as i32, position as i32 + 1) };
                    let inner = ChooseStep {
                        tunables: step.tunables,
                        count,
                        kind: 0,
                        tries: leaf_tries,
                        leaf_tries: None,
                    };
                    self.firstn(&inner, below, first, 1, parent_r, leaves, &mut Vec::new());
                    if leaves.len() <= position {
                        return false;
                    }
                }
            }
        }
        if step.kind == 0 && self.is_out(item) {
            leaves.truncate(position);
            return false;
        }
        true
    }

    fn indep_step(
        &mut self,
        tunables: &ChooseTunables,
        from: &[i32],
        arg: i32,
        kind: i32,
        leaf: bool,
        result_max: usize,
    ) -> Vec<i32> {
        let count = Self::step_count(arg, result_max);
        let leaf_tries = leaf.then_some(tunables.leaf_tries.max(1));
        let step = ChooseStep { tunables, count, kind, tries: tunables.tries, leaf_tries };
        let mut chosen = Vec::new();
        if count <= 0 {
            return chosen;
        }
        for bucket in from.iter().filter_map(|&id| self.map.bucket(id)) {
            let size = (count as usize).min(result_max - chosen.len());
            let (mut out, mut leaves) = (vec![UNDEFINED; size], vec![UNDEFINED; size]);
            self.indep(&step, bucket, 0, 0, &mut out, leaf.then_some(&mut leaves[..]));
            let found = if leaf { &mut leaves } else { &mut out };
            match chosen.is_empty() {
                true => chosen = std::mem::take(found),
                false => chosen.append(found),
            }
        }
        chosen
    }

    /// Fills every place of `out`, each independently of the others; what can't be filled becomes [`ITEM_NONE`].
    /// `base` is the number of the first place.
    fn indep(
        &mut self,
        step: &ChooseStep<'_>,
        start: &'a Bucket,
        base: usize,
        parent_r: i32,
        out: &mut [i32],
        mut leaves: Option<&mut [i32]>,
    ) {
        for failures in 0..step.tries {
            if !out.contains(&UNDEFINED) || self.draws_left == 0 {
                break;
            }
            for place in 0..out.len() {
                if out.get(place) == Some(&UNDEFINED) {
                    let r = ((base + place) as i32).wrapping_add(parent_r);
                    self.indep_place(step, start, base, place, (r, failures), out, leaves.as_deref_mut());
                }
            }
        }
        for slot in out.iter_mut().chain(leaves.into_iter().flatten()).filter(|slot| **slot == UNDEFINED) {
            *slot = ITEM_NONE;
        }
    }

    #[allow(clippy::too_many_arguments)] // the algorithm's own parameters
    fn indep_place(
        &mut self,
        step: &ChooseStep<'_>,
        start: &'a Bucket,
        base: usize,
        place: usize,
        (r, failures): (i32, u32),
        out: &mut [i32],
        mut leaves: Option<&mut [i32]>,
    ) {
        let mut bucket = start;
        for _ in 0..=DEPTH_MAX {
            let uniform = matches!(bucket.alg, Alg::Uniform { .. });
            let whole = (bucket.items.len() as u32).checked_rem(step.count as u32) == Some(0);
            // A uniform bucket of a multiple of the count would give the same items on each retry.
            let stride = if uniform && whole { step.count.wrapping_add(1) } else { step.count };
            let r = r.wrapping_add(stride.wrapping_mul(failures as i32));
            if bucket.items.is_empty() {
                return self.spend(bucket).unwrap_or(());
            }
            let item = match self.draw(bucket, r, base, false, step.kind) {
                Some(Draw::Item(item)) => item,
                Some(Draw::Down(id)) => match self.map.bucket(id) {
                    Some(below) => {
                        bucket = below;
                        continue;
                    }
                    None => return,
                },
                Some(Draw::Dead) => {
                    set(out, place, ITEM_NONE);
                    leaves.into_iter().for_each(|leaves| set(leaves, place, ITEM_NONE));
                    return;
                }
                None => return,
            };
            if out.contains(&item) {
                return;
            }
            if let (Some(leaf_tries), Some(leaves)) = (step.leaf_tries, leaves.as_deref_mut()) {
                let leaf = self.indep_leaf(step, leaf_tries, item, base + place, r);
                set(leaves, place, leaf);
                if leaf == ITEM_NONE {
                    return;
                }
            }
            if step.kind == 0 && self.is_out(item) {
                return;
            }
            set(out, place, item);
            return;
        }
    }

    /// The leaf below an item, or [`ITEM_NONE`]; an OSD is its own leaf.
    fn indep_leaf(&mut self, step: &ChooseStep<'_>, tries: u32, item: i32, place: usize, r: i32) -> i32 {
        let Some(below) = self.map.bucket(item) else { return item };
        let inner =
            ChooseStep { tunables: step.tunables, count: step.count, kind: 0, tries, leaf_tries: None };
        let mut leaf = [UNDEFINED];
        self.indep(&inner, below, place, r, &mut leaf, None);
        leaf[0]
    }

    /// Takes what looking into a bucket costs from the budget. `None`: it is spent.
    pub(crate) fn spend(&mut self, bucket: &Bucket) -> Option<()> {
        let cost = bucket.items.len().max(1) as u64;
        if cost >= self.draws_left && !self.extended {
            self.extended = true;
            let items: usize = self.map.buckets.iter().flatten().map(|bucket| bucket.items.len()).sum();
            let allowed = (items as u64).saturating_mul(DRAWS_PER_ITEM).clamp(DRAWS, DRAWS_MAX);
            self.draws_left += allowed - DRAWS;
        }
        let left = self.draws_left.checked_sub(cost);
        self.draws_left = left.unwrap_or(0);
        left.map(drop)
    }

    /// Draws an item and says what it is. `None`: the budget of draws is spent, or the bucket's parts disagree.
    pub(crate) fn draw(
        &mut self,
        bucket: &Bucket,
        r: i32,
        position: usize,
        by_order: bool,
        kind: i32,
    ) -> Option<Draw> {
        self.spend(bucket)?;
        let arg = self.args.and_then(|args| args.get(&((-1 - bucket.id) as u32)));
        let item = match by_order {
            true => permuted(bucket, self.x, r)?,
            false => choose(bucket, self.x, r, arg, position)?,
        };
        if item >= self.map.max_devices {
            return Some(Draw::Dead);
        }
        let found = if item >= 0 { 0 } else { i32::from(self.map.bucket(item)?.kind) };
        Some(match (found == kind, item < 0) {
            (true, _) => Draw::Item(item),
            (false, true) => Draw::Down(item),
            (false, false) => Draw::Dead,
        })
    }

    /// Whether an OSD is out, wholly or, by its weight, for this input.
    pub(crate) fn is_out(&mut self, item: i32) -> bool {
        self.touched.add(item);
        let weight = usize::try_from(item).ok().and_then(|i| self.weights.get(i));
        match weight {
            None | Some(0) => true,
            Some(0x1_0000..) => false,
            Some(&weight) => hash32_2(self.x, item as u32) & 0xffff >= weight,
        }
    }
}

fn set(slots: &mut [i32], place: usize, value: i32) {
    if let Some(slot) = slots.get_mut(place) {
        *slot = value;
    }
}
