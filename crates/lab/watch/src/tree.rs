//! Processes under names, each with its children, as totals that only grow. Pure over what is read.
//!
//! A process's CPU is its own, that of its running descendants, and that of those it has waited for: a child that ends
//! moves from the second into the third, so nothing is counted twice or lost, unless its parent does not wait for it.

use std::collections::BTreeMap;

use process::ProcessStat;

/// What is read of one process.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reading {
    pub stat: ProcessStat,
    /// Context switches by thread.
    pub threads: Vec<(u32, u64)>,
    /// Process ids.
    pub children: Vec<u32>,
}

/// Totals under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    /// Ticks in user mode.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Resident pages now.
    pub resident: u64,
    /// Context switches.
    pub switches: u64,
}

/// One that was named, and what was last seen of it.
#[derive(Clone, Debug)]
struct Root {
    pid: u32,
    /// Its start time once seen: another process with its id is not it.
    start: Option<u64>,
    ended: bool,
    totals: Totals,
    /// Last count of each thread, by process and thread.
    threads: BTreeMap<(u32, u32), u64>,
}

/// All that are watched.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tree {
    names: BTreeMap<String, Vec<Root>>,
}

impl Tree {
    /// Puts a process under a name, which may have several. All that it has done since its start counts.
    pub fn add(&mut self, name: &str, pid: u32) {
        let roots = self.names.entry(name.to_owned()).or_default();
        if !roots.iter().any(|r| r.pid == pid && !r.ended) {
            let totals = Totals::default();
            roots.push(Root { pid, start: None, ended: false, totals, threads: BTreeMap::new() });
        }
    }

    /// Reads everything again.
    pub fn update(&mut self, read: &mut dyn FnMut(u32) -> Option<Reading>) {
        for root in self.names.values_mut().flatten().filter(|r| !r.ended) {
            root.update(read);
        }
    }

    /// Totals by name. Those of ended processes stay, but for their memory.
    pub fn totals(&self) -> BTreeMap<String, Totals> {
        let sum = |roots: &Vec<Root>| {
            roots.iter().fold(Totals::default(), |sum, r| Totals {
                user: sum.user + r.totals.user,
                system: sum.system + r.totals.system,
                resident: sum.resident + r.totals.resident,
                switches: sum.switches + r.totals.switches,
            })
        };
        self.names.iter().map(|(name, roots)| (name.clone(), sum(roots))).collect()
    }
}

impl Root {
    fn update(&mut self, read: &mut dyn FnMut(u32) -> Option<Reading>) {
        let Some(first) = read(self.pid).filter(|r| self.start.is_none_or(|s| s == r.stat.start)) else {
            self.ended = true;
            self.totals.resident = 0;
            return;
        };
        self.start = Some(first.stat.start);
        let mut now = Totals { switches: self.totals.switches, ..Totals::default() };
        let mut threads = BTreeMap::new();
        let mut waiting = vec![(self.pid, first)];
        while let Some((pid, reading)) = waiting.pop() {
            now.user += reading.stat.user + reading.stat.children_user;
            now.system += reading.stat.system + reading.stat.children_system;
            now.resident += reading.stat.resident;
            for (thread, count) in reading.threads {
                let before = self.threads.get(&(pid, thread)).copied().unwrap_or(0);
                now.switches += count.saturating_sub(before);
                threads.insert((pid, thread), count);
            }
            for child in reading.children {
                // One that has ended since is its parent's already.
                if let Some(reading) = read(child).filter(|_| child != self.pid) {
                    waiting.push((child, reading));
                }
            }
        }
        self.threads = threads;
        // A child that was not waited for takes its part away: totals stay until the others have made up for it.
        now.user = now.user.max(self.totals.user);
        now.system = now.system.max(self.totals.system);
        self.totals = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(start: u64, user: u64, waited: u64, children: &[u32]) -> Reading {
        let stat = ProcessStat { user, children_user: waited, start, resident: 10, ..ProcessStat::default() };
        Reading { stat, threads: Vec::new(), children: children.to_vec() }
    }

    fn update(tree: &mut Tree, all: &[(u32, Reading)]) -> Totals {
        let all: BTreeMap<u32, Reading> = all.iter().cloned().collect();
        tree.update(&mut |pid| all.get(&pid).cloned());
        tree.totals()["client"]
    }

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.add("client", 5);
        tree
    }

    #[test]
    fn a_child_counts_once_before_and_after_its_end() {
        let mut tree = tree();
        let with = update(&mut tree, &[(5, reading(1, 100, 0, &[6])), (6, reading(2, 30, 0, &[]))]);
        assert_eq!((with.user, with.resident), (130, 20));
        let after = update(&mut tree, &[(5, reading(1, 101, 35, &[]))]);
        assert_eq!((after.user, after.resident), (136, 10));
    }

    #[test]
    fn what_has_ended_keeps_its_cpu_and_has_no_memory() {
        let mut tree = tree();
        update(&mut tree, &[(5, reading(1, 100, 0, &[]))]);
        let after = update(&mut tree, &[]);
        assert_eq!((after.user, after.resident), (100, 0));
    }

    #[test]
    fn another_process_with_its_id_is_not_it() {
        let mut tree = tree();
        update(&mut tree, &[(5, reading(1, 100, 0, &[]))]);
        let after = update(&mut tree, &[(5, reading(9, 5000, 0, &[]))]);
        assert_eq!((after.user, after.resident), (100, 0));
        // Under a new name it counts in addition.
        tree.add("client", 5);
        assert_eq!(update(&mut tree, &[(5, reading(9, 5000, 0, &[]))]).user, 5100);
    }

    #[test]
    fn a_child_that_nobody_waits_for_takes_nothing_back() {
        let mut tree = tree();
        update(&mut tree, &[(5, reading(1, 100, 0, &[6])), (6, reading(2, 30, 0, &[]))]);
        assert_eq!(update(&mut tree, &[(5, reading(1, 110, 0, &[]))]).user, 130);
    }

    #[test]
    fn switches_of_threads_that_ended_stay() {
        let mut tree = tree();
        let threads = |list: &[(u32, u64)]| Reading { threads: list.to_vec(), ..reading(1, 0, 0, &[]) };
        assert_eq!(update(&mut tree, &[(5, threads(&[(5, 100), (7, 50)]))]).switches, 150);
        assert_eq!(update(&mut tree, &[(5, threads(&[(5, 110)]))]).switches, 160);
        assert_eq!(update(&mut tree, &[(5, threads(&[(5, 110), (8, 3)]))]).switches, 163);
    }
}
