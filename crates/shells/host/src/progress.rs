//! What a start waits for: a disk that hangs is not to be taken for a program that does.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use types::OsdId;

/// What a start waits for now, for a thread that tells of it where it takes long.
#[derive(Clone, Debug, Default)]
pub struct StartProgress(Arc<Mutex<Option<String>>>);

impl StartProgress {
    /// In words, as `osd.0 and osd.2 to be up`; `None`: for nothing that can take long.
    pub fn waits_for(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, what: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn monitor(&self, dir: &Path) {
        self.set(Some(format!("the monitor's state in {} to be opened", dir.display())));
    }

    pub(crate) fn store(&self, osd: OsdId, dir: &Path) {
        self.set(Some(format!("osd.{osd}'s store in {} to be opened", dir.display())));
    }

    pub(crate) fn osds(&self, missing: &[OsdId]) {
        let names: Vec<_> = missing.iter().map(|osd| format!("osd.{osd}")).collect();
        self.set((!names.is_empty()).then(|| format!("{} to be up", names.join(", "))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_waits_for_is_said_by_name() {
        let (progress, dir) = (StartProgress::default(), Path::new("c/osd.1"));
        let told = progress.clone();
        assert_eq!(told.waits_for(), None);
        progress.store(OsdId(1), dir);
        assert_eq!(told.waits_for().unwrap(), "osd.1's store in c/osd.1 to be opened");
        progress.osds(&[OsdId(0), OsdId(2)]);
        assert_eq!(told.waits_for().unwrap(), "osd.0, osd.2 to be up");
        progress.osds(&[]);
        assert_eq!(told.waits_for(), None);
    }
}
