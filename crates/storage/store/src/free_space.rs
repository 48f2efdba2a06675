//! How a store's free space is divided.

use core::ops::AddAssign;

/// The free units of allocation of a store, or of some of its shards, and how they lie.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FreeSpace {
    units: u64,
    /// Runs of neighbours, each as long as it can be.
    runs: u64,
    /// Shards that have any: no run crosses from one into another.
    shards: u64,
    /// What the runs are worth, each by itself, and what those of each shard would be worth if they were neighbours.
    worth: f64,
    worth_whole: f64,
}

impl FreeSpace {
    /// That of one shard, by the lengths of its runs.
    pub fn of_shard(runs: impl IntoIterator<Item = u64>) -> Self {
        let mut found = Self::default();
        for run in runs {
            found.units += run;
            found.runs += 1;
            found.worth += worth(run);
        }
        found.shards = u64::from(found.runs > 0);
        found.worth_whole = worth(found.units);
        found
    }

    /// The share of all borders between free units at which a run ends: 0 if all are neighbours, 1 if no two are.
    pub fn fragmentation(&self) -> f64 {
        match self.units - self.shards {
            0 => 0.0,
            borders => (self.runs - self.shards) as f64 / borders as f64,
        }
    }

    /// From 0, where all are neighbours, to 1, where no two are; and a half where runs are as long as the square root of the whole.
    /// So it also tells runs of megabytes from one of terabytes, which [`FreeSpace::fragmentation`] hardly does.
    pub fn score(&self) -> f64 {
        if self.worth_whole > 0.0 { (1.0 - self.worth / self.worth_whole).max(0.0) } else { 0.0 }
    }
}

/// A unit is worth more the longer its run: with each doubling by as much again.
fn worth(run: u64) -> f64 {
    let run = run.max(1) as f64;
    run * run.log2()
}

impl AddAssign for FreeSpace {
    fn add_assign(&mut self, more: Self) {
        self.units += more.units;
        self.runs += more.runs;
        self.shards += more.shards;
        self.worth += more.worth;
        self.worth_whole += more.worth_whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(runs: &[u64]) -> (f64, f64) {
        let space = FreeSpace::of_shard(runs.iter().copied());
        (space.fragmentation(), space.score())
    }

    #[test]
    fn one_run_is_whole_and_single_units_are_not() {
        assert_eq!(rated(&[]), (0.0, 0.0));
        assert_eq!(rated(&[1]), (0.0, 0.0));
        assert_eq!(rated(&[1 << 40]), (0.0, 0.0));
        assert_eq!(rated(&[1; 1000]), (1.0, 1.0));
        let (fragmentation, score) = rated(&[256; 256]);
        assert!(fragmentation < 0.004 && (score - 0.5).abs() < 1e-9, "{fragmentation} {score}");
        assert_eq!(rated(&[400, 1, 1]), (2.0 / 401.0, rated(&[1, 400, 1]).1));
    }

    #[test]
    fn shards_count_each_by_itself() {
        let mut all = FreeSpace::of_shard([1000]);
        all += FreeSpace::of_shard([500]);
        all += FreeSpace::of_shard([]);
        assert_eq!((all.fragmentation(), all.score()), (0.0, 0.0));
        all += FreeSpace::of_shard([1, 1, 1]);
        assert!(all.fragmentation() > 0.0 && all.score() > 0.0);
    }
}
