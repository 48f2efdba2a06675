//! The map's parts, as plain data.

use std::collections::BTreeMap;

/// The item that means "nothing could be placed here" (CRUSH_ITEM_NONE).
pub const ITEM_NONE: i32 = 0x7fff_ffff;

/// How a bucket chooses among its items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Alg {
    /// All items weigh the same.
    Uniform {
        /// The weight of each item, 16.16 fixed point.
        item_weight: u32,
    },
    /// A linked list, newest item first.
    List {
        /// Weights, 16.16 fixed point, in the items' order.
        weights: Vec<u32>,
        /// Running sums of the weights.
        sums: Vec<u32>,
    },
    /// A binary tree; the nodes' weights in its own numbering.
    Tree {
        /// Weights of all nodes; leaves have the odd numbers.
        nodes: Vec<u32>,
    },
    /// The first straw algorithm, with precomputed straw lengths.
    Straw {
        /// Weights, 16.16 fixed point.
        weights: Vec<u32>,
        /// Straw lengths, 16.16 fixed point.
        straws: Vec<u32>,
    },
    /// What every map since Hammer uses.
    Straw2 {
        /// Weights, 16.16 fixed point.
        weights: Vec<u32>,
    },
}

impl Alg {
    /// The wire's number (CRUSH_BUCKET_*).
    pub fn number(&self) -> u8 {
        match self {
            Self::Uniform { .. } => 1,
            Self::List { .. } => 2,
            Self::Tree { .. } => 3,
            Self::Straw { .. } => 4,
            Self::Straw2 { .. } => 5,
        }
    }

    /// The name in the text form of a map.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Uniform { .. } => "uniform",
            Self::List { .. } => "list",
            Self::Tree { .. } => "tree",
            Self::Straw { .. } => "straw",
            Self::Straw2 { .. } => "straw2",
        }
    }
}

/// An inner node of the hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its id, negative: the bucket at index `i` has id `-1-i`.
    pub id: i32,
    /// Its type (host, rack, ...), above 0.
    pub kind: u16,
    /// The hash function; 0 is rjenkins1, the only one.
    pub hash: u8,
    /// The sum of its items' weights, 16.16 fixed point.
    pub weight: u32,
    /// Its children: OSDs from 0 up, buckets below 0.
    pub items: Vec<i32>,
    /// How it chooses.
    pub alg: Alg,
}

impl Bucket {
    /// The weight of the item at `pos`, 16.16 fixed point; 0 beyond the end.
    pub fn item_weight(&self, pos: usize) -> u32 {
        let at = |weights: &[u32], i: usize| weights.get(i).copied().unwrap_or(0);
        match &self.alg {
            Alg::Uniform { item_weight } if pos < self.items.len() => *item_weight,
            Alg::Uniform { .. } => 0,
            Alg::List { weights, .. } | Alg::Straw { weights, .. } | Alg::Straw2 { weights } => {
                at(weights, pos)
            }
            Alg::Tree { nodes } => at(nodes, 2 * pos + 1),
        }
    }
}

/// One step of a rule (CRUSH_RULE_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleStep {
    /// The operation's number.
    pub op: u32,
    /// Its first argument.
    pub arg1: i32,
    /// Its second argument.
    pub arg2: i32,
}

/// Operations of steps.
// Named as Ceph names them.
pub mod op {
    pub const NOOP: u32 = 0;
    pub const TAKE: u32 = 1;
    pub const CHOOSE_FIRSTN: u32 = 2;
    pub const CHOOSE_INDEP: u32 = 3;
    pub const EMIT: u32 = 4;
    pub const CHOOSELEAF_FIRSTN: u32 = 6;
    pub const CHOOSELEAF_INDEP: u32 = 7;
    pub const SET_CHOOSE_TRIES: u32 = 8;
    pub const SET_CHOOSELEAF_TRIES: u32 = 9;
    pub const SET_CHOOSE_LOCAL_TRIES: u32 = 10;
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: u32 = 11;
    pub const SET_CHOOSELEAF_VARY_R: u32 = 12;
    pub const SET_CHOOSELEAF_STABLE: u32 = 13;
    pub const SET_MSR_DESCENTS: u32 = 14;
    pub const SET_MSR_COLLISION_TRIES: u32 = 15;
    pub const CHOOSE_MSR: u32 = 16;
}

/// A placement rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The rule's number once more (it used to be a set's).
    pub ruleset: u8,
    /// [`Rule::REPLICATED`] or one of the others.
    pub kind: u8,
    /// The smallest pool size that the rule is for; no longer used.
    pub min_size: u8,
    /// The largest pool size that the rule is for; no longer used.
    pub max_size: u8,
    /// What it does.
    pub steps: Vec<RuleStep>,
}

impl Rule {
    /// A replicated pool's rule.
    pub const REPLICATED: u8 = 1;
    /// An erasure-coded pool's rule.
    pub const ERASURE: u8 = 3;
    /// A multi-step retry rule whose items move up when one before them is missing.
    pub const MSR_FIRSTN: u8 = 4;
    /// A multi-step retry rule whose items keep their places.
    pub const MSR_INDEP: u8 = 5;
}

/// Tunables of the algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// Retries within a bucket after a collision.
    pub choose_local_tries: u32,
    /// Retries by permutation within a bucket.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top.
    pub choose_total_tries: u32,
    /// Whether chooseleaf tries a descent once only.
    pub chooseleaf_descend_once: u32,
    /// How much of r reaches the leaf's choice.
    pub chooseleaf_vary_r: u8,
    /// How straw lengths were computed.
    pub straw_calc_version: u8,
    /// Bit mask of the algorithms that may be used for new buckets.
    pub allowed_bucket_algs: u32,
    /// Whether leaves keep their place when a replica before them moves.
    pub chooseleaf_stable: u8,
    /// Descents that a multi-step retry rule may make (msr_descents).
    pub msr_descents: u32,
    /// Tries of a multi-step retry rule's step before the whole descent counts as failed (msr_collision_tries).
    pub msr_collision_tries: u32,
}

impl Tunables {
    /// The profile of every new cluster since Jewel.
    pub const JEWEL: Self = Self {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        chooseleaf_vary_r: 1,
        straw_calc_version: 1,
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5,
        chooseleaf_stable: 1,
        msr_descents: 100,
        msr_collision_tries: 100,
    };

    /// What a map without tunables means.
    pub const LEGACY: Self = Self {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4,
        chooseleaf_stable: 0,
        msr_descents: 100,
        msr_collision_tries: 100,
    };
}

/// Replacements for a bucket's weights and ids (crush_choose_arg), set by the balancer.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ChooseArg {
    /// Weights by position in the result; the last holds for all further positions.
    pub weight_sets: Vec<Vec<u32>>,
    /// Ids to hash in place of the items'; empty: the items.
    pub ids: Vec<i32>,
}

/// A CRUSH map: hierarchy, rules, names, device classes (Ceph's CrushWrapper and crush_map).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrushMap {
    /// One more than the highest OSD's number.
    pub max_devices: i32,
    /// Buckets by index; the one at `i` has id `-1-i`. Ceph grows this in powers of two.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by number.
    pub rules: Vec<Option<Rule>>,
    /// Names of types: 0 osd, 1 host, ...
    pub type_names: BTreeMap<i32, String>,
    /// Names of buckets and OSDs.
    pub item_names: BTreeMap<i32, String>,
    pub rule_names: BTreeMap<i32, String>,
    /// Tunables.
    pub tunables: Tunables,
    /// Items (OSDs and shadow buckets) with a device class, to the class's id.
    pub item_classes: BTreeMap<i32, i32>,
    /// Names of device classes.
    pub class_names: BTreeMap<i32, String>,
    /// For each bucket and class, the shadow bucket that holds only that class's devices.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Weight sets by pool (-1: all pools), then by bucket index.
    pub choose_args: BTreeMap<i64, BTreeMap<u32, ChooseArg>>,
}

impl CrushMap {
    /// Weight sets that hold for all pools without their own.
    pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

    /// The bucket with this (negative) id.
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(index_of(id)?)?.as_ref()
    }

    /// The rule with this number.
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)?.as_ref()
    }

    /// The rule that a release before Quincy uses for a pool: the first of the pool's ruleset that is of its kind and
    /// whose bounds hold its size.
    pub fn find_rule(&self, ruleset: u8, kind: u8, size: u8) -> Option<u32> {
        let fits = |rule: &Rule| {
            rule.ruleset == ruleset && rule.kind == kind && (rule.min_size..=rule.max_size).contains(&size)
        };
        let found = self.rules.iter().position(|rule| rule.as_ref().is_some_and(fits))?;
        u32::try_from(found).ok()
    }

    /// The item with this name.
    pub fn item_by_name(&self, name: &str) -> Option<i32> {
        self.item_names.iter().find(|(_, n)| *n == name).map(|(&id, _)| id)
    }

    /// The rule with this name.
    pub fn rule_by_name(&self, name: &str) -> Option<u32> {
        self.rule_names.iter().find(|(_, n)| *n == name).and_then(|(&id, _)| u32::try_from(id).ok())
    }

    /// The type with this name.
    pub fn type_by_name(&self, name: &str) -> Option<u16> {
        self.type_names.iter().find(|(_, n)| *n == name).and_then(|(&id, _)| u16::try_from(id).ok())
    }

    /// The class of an OSD.
    pub fn device_class(&self, osd: i32) -> Option<&str> {
        self.class_names.get(self.item_classes.get(&osd)?).map(String::as_str)
    }

    /// The bucket that holds `item`, shadow trees left aside.
    pub fn parent_of(&self, item: i32) -> Option<&Bucket> {
        self.buckets.iter().flatten().find(|b| !self.is_shadow(b.id) && b.items.contains(&item))
    }

    /// Whether a bucket belongs to a device class's shadow tree (its name has a `~`).
    pub fn is_shadow(&self, id: i32) -> bool {
        self.item_names.get(&id).is_some_and(|name| name.contains('~'))
    }

    /// Buckets that no other holds, shadow trees left aside, lowest id first.
    pub fn roots(&self) -> Vec<i32> {
        let held: std::collections::BTreeSet<i32> =
            self.buckets.iter().flatten().flat_map(|b| b.items.iter().copied()).collect();
        let mut roots: Vec<i32> = self.buckets.iter().flatten().map(|b| b.id).collect();
        roots.retain(|id| !held.contains(id) && !self.is_shadow(*id));
        roots.sort_unstable();
        roots
    }
}

/// The index of a bucket's id; `None` for an OSD's.
pub(crate) fn index_of(id: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(id)).ok()
}
