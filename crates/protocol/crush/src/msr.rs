//! Multi-step retry rules (Squid and later): what is tried again is the descent through all steps, not a step.
//!
//! A rule is its settings, then blocks of one TAKE, some CHOOSE_MSR steps and one EMIT. A block fills a range of the
//! result's places. Its first step cuts the range into as many strides as the step's count, and no bucket serves two
//! strides; the next step cuts each stride again, down to strides of one place, which the last step fills with OSDs. A
//! place whose OSD is out stays empty in this descent and is filled by a later one, if need be below another bucket: a
//! stride may use several buckets.

use std::ops::Range;

use crate::map::{ITEM_NONE, op};
use crate::rule::{DEPTH_MAX, Draw, Placement, UNDEFINED};
use crate::{Bucket, Rule, RuleStep};

struct Settings {
    /// Descents of a block.
    descents: u32,
    /// Draws for one stride of one step in a descent, while they give what another stride has.
    collision_tries: u32,
}

/// The steps between a TAKE and its EMIT.
struct Block<'r> {
    taken: i32,
    steps: &'r [RuleStep],
    /// Places that the steps lead to: the product of their counts.
    width: usize,
}

/// What a choose step's count means; `None` for one that no rule can have.
fn count(step: &RuleStep, result_max: usize) -> Option<usize> {
    match step.arg1 {
        0 => Some(result_max),
        n => usize::try_from(n).ok(),
    }
}

/// The parts of a rule; `None` if it does not have the form, and then it places nothing.
fn parse<'r>(
    rule: &'r Rule,
    result_max: usize,
    mut settings: Settings,
) -> Option<(Settings, Vec<Block<'r>>)> {
    let mut steps = rule.steps.as_slice();
    while let Some((step, rest)) = steps.split_first() {
        match step.op {
            op::SET_MSR_DESCENTS => settings.descents = step.arg1 as u32,
            op::SET_MSR_COLLISION_TRIES => settings.collision_tries = step.arg1 as u32,
            _ => break,
        }
        steps = rest;
    }
    let mut blocks = Vec::new();
    while let Some((take, rest)) = steps.split_first() {
        let len = rest.iter().position(|step| step.op == op::EMIT)?;
        let (chooses, emit) = rest.split_at(len);
        let well_formed = take.op == op::TAKE && chooses.iter().all(|step| step.op == op::CHOOSE_MSR);
        // An OSD is taken without a choice, and a bucket by choices only.
        if !well_formed || (take.arg1 >= 0) != chooses.is_empty() || chooses.len() > DEPTH_MAX as usize {
            return None;
        }
        let counts = chooses.iter().map(|step| count(step, result_max));
        let width = counts.into_iter().try_fold(1usize, |width, n| width.checked_mul(n?))?;
        u32::try_from(width).ok()?;
        blocks.push(Block { taken: take.arg1, steps: chooses, width });
        steps = &emit[1..];
    }
    Some((settings, blocks))
}

/// The result as it grows.
struct Output {
    /// Whether items go one behind the other, not each to its place.
    in_order: bool,
    items: Vec<i32>,
    placed: usize,
}

impl Output {
    fn place(&mut self, place: usize, item: i32) {
        let at = if self.in_order { self.placed } else { place };
        debug_assert_eq!(self.items[at], ITEM_NONE, "a place is filled once");
        self.items[at] = item;
        self.placed += 1;
    }
}

/// A block that is being filled.
struct Filling<'f> {
    steps: &'f [RuleStep],
    result_max: usize,
    collision_tries: u32,
    /// Which descent this is.
    descent: u32,
    /// Per step and place, an item in use by the stride that the place is in: at the last step the place's own OSD, before
    /// it a list of buckets from the stride's first place on. [`UNDEFINED`] where there is none.
    used: Vec<Vec<i32>>,
    out: &'f mut Output,
}

impl Filling<'_> {
    fn is_last(&self, level: usize) -> bool {
        level + 1 == self.steps.len()
    }

    /// Whether every place of a stride has its OSD.
    fn is_full(&self, stride: &Range<usize>) -> bool {
        self.used.last().is_some_and(|osds| !osds[stride.clone()].contains(&UNDEFINED))
    }

    /// Whether another stride of `places` has the item.
    fn collides(&self, level: usize, places: &Range<usize>, stride: &Range<usize>, item: i32) -> bool {
        let has = |range: Range<usize>| self.used[level][range].contains(&item);
        has(places.start..stride.start) || has(stride.end..places.end)
    }

    /// Notes that a stride uses a bucket. Answers whether that is new.
    fn note(&mut self, level: usize, stride: &Range<usize>, item: i32) -> bool {
        let slots = &mut self.used[level][stride.clone()];
        // A stride keeps only buckets that filled a place, and one more: there is room, or no place is left to fill.
        match slots.iter_mut().find(|slot| **slot == item || **slot == UNDEFINED) {
            Some(slot) if *slot == UNDEFINED => {
                *slot = item;
                true
            }
            _ => false,
        }
    }

    /// Takes back the bucket noted last for a stride.
    fn take_back(&mut self, level: usize, stride: &Range<usize>) {
        let slots = &mut self.used[level][stride.clone()];
        if let Some(slot) = slots.iter_mut().rfind(|slot| **slot != UNDEFINED) {
            *slot = UNDEFINED;
        }
    }
}

impl<'a> Placement<'a> {
    /// Runs a rule of [`Rule::MSR_FIRSTN`] or [`Rule::MSR_INDEP`] (Ceph's crush_msr_do_rule).
    pub(crate) fn run_msr(&mut self, rule: &Rule, result_max: usize) -> Vec<i32> {
        let tunables = &self.map.tunables;
        let settings =
            Settings { descents: tunables.msr_descents, collision_tries: tunables.msr_collision_tries };
        let Some((settings, blocks)) = parse(rule, result_max, settings) else {
            // Stock places nothing by a rule that is not well formed.
            return Vec::new();
        };
        let in_order = rule.kind == Rule::MSR_FIRSTN;
        let mut out = Output { in_order, items: vec![ITEM_NONE; result_max], placed: 0 };
        let mut first = 0usize;
        for block in &blocks {
            let places = first..result_max.min(first.saturating_add(block.width));
            first = places.end;
            if !places.is_empty() {
                self.fill_block(block, &settings, places, &mut out);
            }
        }
        if in_order {
            out.items.truncate(out.placed);
        }
        out.items
    }

    fn fill_block(&mut self, block: &Block<'_>, settings: &Settings, places: Range<usize>, out: &mut Output) {
        if (0..self.map.max_devices).contains(&block.taken) {
            return out.place(places.start, block.taken);
        }
        // A bucket that is not there has nothing to choose from.
        let Some(root) = self.map.bucket(block.taken) else { return };
        let full = out.placed + places.len();
        let mut filling = Filling {
            steps: block.steps,
            result_max: out.items.len(),
            collision_tries: settings.collision_tries,
            descent: 0,
            used: vec![vec![UNDEFINED; out.items.len()]; block.steps.len()],
            out,
        };
        for descent in 0..settings.descents {
            // Descents cost something even if they draw nothing: a forged rule may ask for billions.
            if filling.out.placed >= full || self.spend(root).is_none() {
                return;
            }
            filling.descent = descent;
            self.fill(&mut filling, root, 0, places.clone(), block.width);
        }
    }

    /// Goes through the empty strides of a step below one bucket. `width` is how many places the steps from here on lead
    /// to; `places` may be fewer, where the result ends. Answers how many places were filled.
    fn fill(
        &mut self,
        f: &mut Filling<'_>,
        start: &'a Bucket,
        level: usize,
        places: Range<usize>,
        width: usize,
    ) -> usize {
        let kind = f.steps[level].arg2;
        let len = count(&f.steps[level], f.result_max).map_or(width, |strides| width / strides);
        let (mut filled, mut without_osd) = (0, Vec::new());
        for (index, first) in places.clone().step_by(len).enumerate() {
            let stride = first..places.end.min(first + len);
            if f.is_full(&stride) {
                continue;
            }
            let Some(item) = self.pick(f, start, level, &places, &stride, index) else {
                // All tries gave what other strides have: left to the next descent.
                continue;
            };
            if kind == 0 {
                // Only the last step may ask for OSDs. One that is out is left to the next descent.
                if len == 1 && f.is_last(level) && item >= 0 && !self.is_out(item) {
                    f.used[level][first] = item;
                    f.out.place(first, item);
                    filled += 1;
                }
                continue;
            }
            // And the last step must ask for OSDs.
            let (Some(below), false) = (self.map.bucket(item), f.is_last(level)) else { continue };
            let below_filled = self.fill(f, below, level + 1, stride.clone(), len);
            if f.note(level, &stride, item) && below_filled == 0 {
                // It stays in the others' way to the end of this descent, as if its OSDs were in.
                without_osd.push(stride);
            }
            filled += below_filled;
        }
        for stride in without_osd {
            f.take_back(level, &stride);
        }
        filled
    }

    /// An item of the step's type for a stride, one that no other stride has. `None`: there was none in all tries.
    fn pick(
        &mut self,
        f: &Filling<'_>,
        start: &'a Bucket,
        level: usize,
        places: &Range<usize>,
        stride: &Range<usize>,
        index: usize,
    ) -> Option<i32> {
        let r = f.descent.wrapping_mul(f.result_max as u32).wrapping_add(index as u32) << 16;
        for collision in 0..f.collision_tries {
            let item = self.descend(start, r.wrapping_add(collision) as i32, index, f.steps[level].arg2)?;
            if !f.collides(level, places, stride, item) {
                return Some(item);
            }
        }
        None
    }

    /// The first item of a type on the way down from a bucket. `None`: there is none on it.
    fn descend(&mut self, start: &'a Bucket, r: i32, index: usize, kind: i32) -> Option<i32> {
        let mut bucket = start;
        for _ in 0..=DEPTH_MAX {
            match self.draw(bucket, r, index, false, kind)? {
                Draw::Item(item) => return Some(item),
                Draw::Down(id) => bucket = self.map.bucket(id)?,
                Draw::Dead => return None,
            }
        }
        None
    }
}
