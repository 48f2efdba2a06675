//! Encoding and decoding of the whole map.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::FeatureBits;

use crate::{Alg, Bucket, ChooseArg, CrushMap, Rule, RuleStep, Tunables, map::index_of};

const MAGIC: u32 = 0x0001_0000;

impl Decode for CrushMap {
    /// Reads to the end of the bytes: the form has no length of its own and grew at its end.
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u32>()? {
            MAGIC => {}
            value => return Err(DecodeError::BadValue { what: "CRUSH magic", value: value.into() }),
        }
        let bucket_count = d.count(0, "CRUSH buckets")?;
        let rule_count = d.count(0, "CRUSH rules")?;
        let max_devices = d.get()?;
        // Even an absent bucket or rule takes four bytes.
        if bucket_count.saturating_add(rule_count).saturating_mul(4) > d.remaining() {
            let needed = bucket_count.saturating_add(rule_count).saturating_mul(4);
            return Err(DecodeError::Truncated { what: "CRUSH map", needed, left: d.remaining() });
        }
        let buckets = (0..bucket_count).map(|i| decode_bucket(d, i)).collect::<Result<_, _>>()?;
        let rules = (0..rule_count).map(|_| decode_rule(d)).collect::<Result<_, _>>()?;
        let (type_names, item_names, rule_names) = (decode_names(d)?, decode_names(d)?, decode_names(d)?);
        let mut map = Self {
            max_devices,
            buckets,
            rules,
            type_names,
            item_names,
            rule_names,
            tunables: decode_tunables(d)?,
            item_classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            class_buckets: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        };
        map.decode_late_parts(d)?;
        Ok(map)
    }
}

impl CrushMap {
    /// Device classes, weight sets and the tunables of multi-step retry rules, each only if the writer knew it.
    fn decode_late_parts(&mut self, d: &mut Decoder<'_>) -> Result<(), DecodeError> {
        if d.remaining() > 0 {
            self.item_classes = d.get()?;
            self.class_names = d.get()?;
            self.class_buckets = d.get()?;
        }
        if d.remaining() > 0 {
            let n = d.count(12, "choose_args")?;
            for _ in 0..n {
                let pool: i64 = d.get()?;
                let args = self.decode_choose_args(d)?;
                self.choose_args.insert(pool, args);
            }
        }
        if d.remaining() > 0 {
            self.tunables.msr_descents = d.get()?;
            self.tunables.msr_collision_tries = d.get()?;
        }
        Ok(())
    }

    fn decode_choose_args(&self, d: &mut Decoder<'_>) -> Result<BTreeMap<u32, ChooseArg>, DecodeError> {
        let n = d.count(12, "choose_args of a pool")?;
        let mut args = BTreeMap::new();
        for _ in 0..n {
            let index: u32 = d.get()?;
            if index as usize >= self.buckets.len() {
                return Err(DecodeError::BadValue { what: "choose_args bucket", value: index.into() });
            }
            args.insert(index, ChooseArg { weight_sets: d.get()?, ids: d.get()? });
        }
        Ok(args)
    }
}

fn decode_bucket(d: &mut Decoder<'_>, index: usize) -> Result<Option<Bucket>, DecodeError> {
    let alg: u32 = d.get()?;
    if alg == 0 {
        return Ok(None);
    }
    let id: i32 = d.get()?;
    if index_of(id) != Some(index) {
        return Err(DecodeError::BadValue { what: "CRUSH bucket id", value: u64::from(id as u32) });
    }
    let kind = d.get()?;
    let alg_again: u8 = d.get()?;
    if u32::from(alg_again) != alg {
        return Err(DecodeError::BadValue { what: "CRUSH bucket algorithm", value: alg_again.into() });
    }
    let (hash, weight) = (d.get()?, d.get()?);
    let items: Vec<i32> = decode_words(d, 4)?;
    let alg = match alg {
        1 => Alg::Uniform { item_weight: d.get()? },
        2 => {
            let (weights, sums) = decode_pairs(d, items.len())?;
            Alg::List { weights, sums }
        }
        3 => {
            let n: u8 = d.get()?;
            Alg::Tree { nodes: (0..n).map(|_| d.get()).collect::<Result<_, _>>()? }
        }
        4 => {
            let (weights, straws) = decode_pairs(d, items.len())?;
            Alg::Straw { weights, straws }
        }
        5 => Alg::Straw2 { weights: (0..items.len()).map(|_| d.get()).collect::<Result<_, _>>()? },
        n => return Err(DecodeError::BadValue { what: "CRUSH bucket algorithm", value: n.into() }),
    };
    Ok(Some(Bucket { id, kind, hash, weight, items, alg }))
}

fn decode_words<T: Decode>(d: &mut Decoder<'_>, size: usize) -> Result<Vec<T>, DecodeError> {
    let n = d.count(size, "CRUSH items")?;
    (0..n).map(|_| d.get()).collect()
}

fn decode_pairs(d: &mut Decoder<'_>, n: usize) -> Result<(Vec<u32>, Vec<u32>), DecodeError> {
    let pairs: Vec<(u32, u32)> = (0..n).map(|_| d.get()).collect::<Result<_, _>>()?;
    Ok(pairs.into_iter().unzip())
}

fn decode_rule(d: &mut Decoder<'_>) -> Result<Option<Rule>, DecodeError> {
    if d.get::<u32>()? == 0 {
        return Ok(None);
    }
    let n = d.count(12, "CRUSH rule steps")?;
    let (ruleset, kind, min_size, max_size) = (d.get()?, d.get()?, d.get()?, d.get()?);
    let step = |_| Ok(RuleStep { op: d.get()?, arg1: d.get()?, arg2: d.get()? });
    Ok(Some(Rule { ruleset, kind, min_size, max_size, steps: (0..n).map(step).collect::<Result<_, _>>()? }))
}

/// Names are never empty; a length of zero is the upper half of a 64-bit key that some old writer left.
fn decode_names(d: &mut Decoder<'_>) -> Result<BTreeMap<i32, String>, DecodeError> {
    let n = d.count(8, "CRUSH names")?;
    let mut names = BTreeMap::new();
    for _ in 0..n {
        let key: i32 = d.get()?;
        let mut len: u32 = d.get()?;
        if len == 0 {
            len = d.get()?;
        }
        let name = std::str::from_utf8(d.take(len as usize, "CRUSH name")?)
            .map_err(|_| DecodeError::NotUtf8("CRUSH name"))?;
        names.insert(key, name.to_owned());
    }
    Ok(names)
}

fn decode_tunables(d: &mut Decoder<'_>) -> Result<Tunables, DecodeError> {
    let mut t = Tunables::LEGACY;
    if d.remaining() > 0 {
        t.choose_local_tries = d.get()?;
        t.choose_local_fallback_tries = d.get()?;
        t.choose_total_tries = d.get()?;
    }
    if d.remaining() > 0 {
        t.chooseleaf_descend_once = d.get()?;
    }
    if d.remaining() > 0 {
        t.chooseleaf_vary_r = d.get()?;
    }
    if d.remaining() > 0 {
        t.straw_calc_version = d.get()?;
    }
    if d.remaining() > 0 {
        t.allowed_bucket_algs = d.get()?;
    }
    if d.remaining() > 0 {
        t.chooseleaf_stable = d.get()?;
    }
    Ok(t)
}

impl Encode for CrushMap {
    /// Luminous' form and everything since; the tunables of multi-step retry rules only for a reader that knows them
    /// ([`FeatureBits::CRUSH_MSR`]). The canonical full OSDMap is written without them by every release.
    fn encode(&self, e: &mut Encoder) {
        e.put(&MAGIC)
            .put(&(self.buckets.len() as u32))
            .put(&(self.rules.len() as u32))
            .put(&self.max_devices);
        for bucket in &self.buckets {
            match bucket {
                None => {
                    e.put(&0u32);
                }
                Some(bucket) => encode_bucket(e, bucket),
            }
        }
        for rule in &self.rules {
            match rule {
                None => {
                    e.put(&0u32);
                }
                Some(rule) => encode_rule(e, rule),
            }
        }
        e.put(&self.type_names).put(&self.item_names).put(&self.rule_names);
        let t = &self.tunables;
        e.put(&t.choose_local_tries).put(&t.choose_local_fallback_tries).put(&t.choose_total_tries);
        e.put(&t.chooseleaf_descend_once).put(&t.chooseleaf_vary_r).put(&t.straw_calc_version);
        e.put(&t.allowed_bucket_algs).put(&t.chooseleaf_stable);
        e.put(&self.item_classes).put(&self.class_names).put(&self.class_buckets);
        e.put(&(self.choose_args.len() as u32));
        for (pool, args) in &self.choose_args {
            e.put(pool).put(&(args.len() as u32));
            for (index, arg) in args {
                e.put(index).put(&arg.weight_sets).put(&arg.ids);
            }
        }
        if e.has(FeatureBits::CRUSH_MSR) {
            e.put(&t.msr_descents).put(&t.msr_collision_tries);
        }
    }
}

fn encode_bucket(e: &mut Encoder, b: &Bucket) {
    let alg = b.alg.number();
    e.put(&u32::from(alg)).put(&b.id).put(&b.kind).put(&alg).put(&b.hash).put(&b.weight).put(&b.items);
    match &b.alg {
        Alg::Uniform { item_weight } => {
            e.put(item_weight);
        }
        Alg::List { weights: first, sums: second } | Alg::Straw { weights: first, straws: second } => {
            for (a, b) in first.iter().zip(second) {
                e.put(a).put(b);
            }
        }
        Alg::Tree { nodes } => {
            e.put(&(nodes.len() as u8));
            nodes.iter().for_each(|n| n.encode(e));
        }
        Alg::Straw2 { weights } => weights.iter().for_each(|w| w.encode(e)),
    }
}

fn encode_rule(e: &mut Encoder, rule: &Rule) {
    e.put(&1u32).put(&(rule.steps.len() as u32));
    e.put(&rule.ruleset).put(&rule.kind).put(&rule.min_size).put(&rule.max_size);
    for step in &rule.steps {
        e.put(&step.op).put(&step.arg1).put(&step.arg2);
    }
}
