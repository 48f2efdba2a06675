//! Joules of the processor's packages, from the kernel's power-capping files (RAPL), where the host has them.
//!
//! Each package's counter is in microjoules and begins again after its range, some minutes at full load: it is read
//! every second, so no turn is missed.

use std::fs;
use std::path::{Path, PathBuf};

const BASE: &str = "/sys/class/powercap";

/// All packages.
#[derive(Debug)]
pub(crate) struct Energy {
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    path: PathBuf,
    meter: Meter,
}

/// A counter that begins again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Meter {
    range: u64,
    last: u64,
    /// Microjoules since the first reading.
    sum: u64,
}

impl Meter {
    fn read(&mut self, now: u64) {
        self.sum += match now.checked_sub(self.last) {
            Some(more) => more,
            None => (self.range.saturating_sub(self.last)).saturating_add(now),
        };
        self.last = now;
    }
}

impl Energy {
    /// None if the host does not report it, or not to this user.
    pub fn find() -> Option<Self> {
        Self::below(Path::new(BASE))
    }

    fn below(base: &Path) -> Option<Self> {
        let mut packages: Vec<Package> =
            fs::read_dir(base).ok()?.flatten().filter_map(|e| package(&e.path())).collect();
        packages.sort_by(|a, b| a.path.cmp(&b.path));
        (!packages.is_empty()).then_some(Self { packages })
    }

    /// Since it was found.
    pub fn joules(&mut self) -> f64 {
        for package in &mut self.packages {
            if let Some(now) = number(&package.path.join("energy_uj")) {
                package.meter.read(now);
            }
        }
        self.packages.iter().map(|p| p.meter.sum as f64 / 1e6).sum()
    }
}

/// Parts of a package have their own files: only whole packages count.
fn package(path: &Path) -> Option<Package> {
    let name = fs::read_to_string(path.join("name")).ok()?;
    if !name.starts_with("package") {
        return None;
    }
    let range = number(&path.join("max_energy_range_uj"))?;
    let last = number(&path.join("energy_uj"))?;
    Some(Package { path: path.to_owned(), meter: Meter { range, last, sum: 0 } })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_begins_anew_loses_nothing() {
        let mut meter = Meter { range: 1000, last: 900, sum: 0 };
        [950, 20, 30].into_iter().for_each(|now| meter.read(now));
        assert_eq!(meter.sum, 50 + 70 + 10);
    }

    #[test]
    fn whole_packages_count_and_their_parts_do_not() {
        let base = tempfile::tempdir().unwrap();
        for (dir, name) in
            [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "package-1")]
        {
            let dir = base.path().join(dir);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("name"), format!("{name}\n")).unwrap();
            fs::write(dir.join("max_energy_range_uj"), "262143328850\n").unwrap();
            fs::write(dir.join("energy_uj"), "1000000\n").unwrap();
        }
        let mut energy = Energy::below(base.path()).unwrap();
        for dir in ["intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"] {
            fs::write(base.path().join(dir).join("energy_uj"), "3500000\n").unwrap();
        }
        assert_eq!(energy.joules(), 5.0);
        assert!(Energy::below(&base.path().join("none")).is_none());
    }
}
