//! An empty store under an OSD's number, in place of the one that it has.
//!
//! All that can refuse it is asked before anything is changed, and the monitor hears of the new store when that is there. What
//! fails before puts the former store back, as far as it was not written over; so does an OSD that fails before it is up.

use std::path::PathBuf;

use blockfile::{OpenError, owner_on};
use device::{DirLock, LockError};
use serde_json::{Value, json};
use types::OsdId;

use crate::cluster::Cluster;
use crate::dir::{self, DirState, StoreKind};
use crate::osd_control::{Begun, OpenOsd};
use crate::{HostError, aside};

/// What an OSD has before it gets another store, and how far that has come.
pub(crate) struct Former {
    /// Its id.
    uuid: String,
    /// Whether the monitor had given up what it holds before.
    is_destroyed: bool,
    /// The devices and files outside of its directory that have a part of its store. A new one is made over it.
    outside: Vec<PathBuf>,
    /// The file for the new store's log, where there is none yet.
    no_log_yet: Option<PathBuf>,
    /// Whether its directory was emptied,
    is_moved: bool,
    /// into this one within it, if there was anything.
    aside: Option<PathBuf>,
    /// Whether the monitor may have heard of the new store.
    is_told: bool,
    /// Since when the monitor has seen it up, when it had heard of the new store.
    up_from: Option<u64>,
}

impl Former {
    /// What had a part of its store, and was written over.
    fn lost(&self) -> impl Iterator<Item = &PathBuf> {
        let is_lost =
            |path: &&PathBuf| owner_on(path).is_none_or(|has| has.osd_uuid.to_string() != self.uuid);
        self.outside.iter().filter(is_lost)
    }
}

impl Cluster {
    /// Gives an OSD that does not run an empty store under its number, as a new disk's would be: mkfs with another id, `osd
    /// destroy`, `osd new`. Where that fails, the OSD is what it was. Interrupted before the cluster's description names the new
    /// store, the next start of the OSD takes it back, as far as the former store was not written over; so does this.
    pub(crate) fn replace(&mut self, osd: OsdId, confirmed: bool) -> Result<Begun, String> {
        self.planner.settle(osd).map_err(|error| self.keeps(osd, &error.to_string()))?;
        self.check_new_store(osd).map_err(|why| self.keeps(osd, &why))?;
        let is_destroyed = self.may_be_destroyed(osd, confirmed)?;
        let uuid = self.planner.renew_uuid(osd).map_err(|error| self.keeps(osd, &error.to_string()))?;
        let mut former = self.former(osd, uuid, is_destroyed);
        match self.make_anew(osd, &mut former) {
            Ok(opened) => {
                let note = self.replaced_note(osd, &former, confirmed);
                Ok(match self.run(osd, opened, note) {
                    Begun::Waits { note, .. } => Begun::Waits { note, former: Some(Box::new(former)) },
                    done => done,
                })
            }
            Err(why) => Err(self.put_back(osd, former, &why)),
        }
    }

    fn keeps(&self, osd: OsdId, why: &str) -> String {
        let has =
            if self.planner.description.store.is_durable() { "keeps its store" } else { "has no store" };
        format!("osd.{osd} {has}, for no new one can be made: {why}. Mend that, and try again")
    }

    /// What can be told beforehand of the making of a store: whether what it is to lie on is there, has room, and may be taken.
    /// The OSD's own former store may.
    fn check_new_store(&self, osd: OsdId) -> Result<(), String> {
        let (dir, of) = (self.planner.store_dir(osd), &self.planner.description);
        if !of.store.is_durable() {
            return Ok(());
        }
        if dir.is_symlink() && !dir.exists() {
            return Err(format!("{} is a link that leads to nothing", dir.display()));
        }
        std::fs::create_dir_all(&dir).map_err(|error| HostError::io(&dir)(error).to_string())?;
        // The lock's file would be taken for a part of a store where there is none.
        if dir.join("lock").exists()
            && let Err(LockError::InUse) = DirLock::take(&dir)
        {
            return Err(OpenError::InUse(dir).to_string());
        }
        let new = (of.store_of(osd.0 as u32) == StoreKind::Block).then(|| self.planner.new_store(osd));
        if let (Some(new), Some(owner)) = (&new, of.owner_of(osd.0 as u32)) {
            // A device's links stay; an image file is moved away with all that lies beside it.
            let links = if new.device.is_some() { blockfile::check_links(&dir, new) } else { Ok(()) };
            links.and_then(|()| blockfile::check_places(&owner, new)).map_err(|error| refusal(&error))?;
        }
        dir::check_space_of_store(&dir, new.as_ref()).map_err(|error| error.to_string())
    }

    /// Asks the monitor whether it would give up what an OSD holds. It refuses where that would lose objects, unless `confirmed`.
    /// Answers whether it has already.
    fn may_be_destroyed(&self, osd: OsdId, confirmed: bool) -> Result<bool, String> {
        let refused = |status: &str| format!("osd.{osd} keeps its store: {}", first_line(status));
        let asked = json!({ "prefix": "osd info", "id": osd.to_string(), "format": "json" });
        let told = self.mon(asked).map_err(|answer| refused(&answer.status))?;
        let info: Value = serde_json::from_slice(&told.data).unwrap_or_default();
        let is = |state: &str| info["state"].as_array().is_some_and(|all| all.iter().any(|is| is == state));
        if is("up") {
            return Err(refused(&format!("osd.{osd} is not `down`.")));
        }
        if !confirmed {
            self.mon(json!({ "prefix": "osd safe-to-destroy", "ids": [osd.to_string()] })).map_err(|answer| {
                let (dir, why) = (self.dir.path().display(), first_line(&answer.status));
                format!(
                    "osd.{osd} keeps its store, for objects would be lost with it: {why} To give them up:\n  \
                     loligo start {dir} --osd {osd} --replace --yes-i-really-mean-it"
                )
            })?;
        }
        Ok(is("destroyed"))
    }

    fn former(&self, osd: OsdId, uuid: String, is_destroyed: bool) -> Former {
        let (index, of) = (osd.0 as u32, &self.planner.description);
        let log = of.log_device_of(index);
        let has_part = |path: &&PathBuf| owner_on(path).is_some_and(|has| has.osd_uuid.to_string() == uuid);
        Former {
            outside: of.device_of(index).into_iter().chain(log).filter(has_part).cloned().collect(),
            no_log_yet: log.filter(|path| !path.exists()).cloned(),
            uuid,
            is_destroyed,
            is_moved: false,
            aside: None,
            is_told: false,
            up_from: None,
        }
    }

    /// Makes the new store and opens it, and has the monitor and the description know it.
    fn make_anew(&mut self, osd: OsdId, former: &mut Former) -> Result<OpenOsd, String> {
        let of = &self.planner.description;
        if of.store.is_durable() && of.device_of(osd.0 as u32).is_none() {
            let moved = aside::move_aside(&self.planner.store_dir(osd), &former.uuid);
            former.aside = moved.map_err(|error| error.to_string())?;
            former.is_moved = true;
        }
        let opened = self.open(osd, true).map_err(|error| error.of_new_store())?;
        former.is_told = true;
        let index = osd.0 as usize;
        let uuid = self.planner.description.osd_uuids.get(index).cloned().unwrap_or_default();
        self.renew_in_map(osd, &uuid)?;
        former.up_from = self.up_from(osd);
        self.dir.write_description(&self.planner.description).map_err(|error| error.to_string())?;
        self.keep_aside(osd, former);
        Ok(opened)
    }

    /// The new store counts. The next start does it, where this fails.
    fn keep_aside(&self, osd: OsdId, former: &mut Former) {
        let Some(aside) = &former.aside else { return };
        match aside::keep(&self.planner.store_dir(osd), aside) {
            Ok(kept) => former.aside = Some(kept),
            Err(error) => tracing::warn!("osd.{osd}'s former store keeps its name for now: {error}"),
        }
    }

    /// Since which map an OSD is up, or was; `None`: it is up, or the monitor does not say.
    fn up_from(&self, osd: OsdId) -> Option<u64> {
        let asked = json!({ "prefix": "osd info", "id": osd.to_string(), "format": "json" });
        let info: Value = serde_json::from_slice(&self.mon(asked).ok()?.data).ok()?;
        if info["up"].as_u64()? == 0 { info["up_from"].as_u64() } else { None }
    }

    /// Whether an OSD can have its former store again: nothing of it was written over, and the OSD was never up with the new one. If it
    /// was, other OSDs count on what the new store has.
    pub(crate) fn can_come_back(&self, osd: OsdId, former: &Former) -> bool {
        let is_whole = former.aside.is_some() && former.lost().next().is_none();
        is_whole && former.up_from.is_some() && self.up_from(osd) == former.up_from
    }

    /// Has the monitor give up what an OSD held, which it was asked about before.
    fn destroy(&self, osd: OsdId) -> Result<(), String> {
        let command = json!({ "prefix": "osd destroy", "id": osd.to_string(), "yes_i_really_mean_it": true });
        self.mon(command).map(drop).map_err(|answer| answer.status)
    }

    /// And await a store with this id.
    fn renew_in_map(&self, osd: OsdId, uuid: &str) -> Result<(), String> {
        self.destroy(osd)?;
        let command = json!({ "prefix": "osd new", "uuid": uuid, "id": osd.to_string() });
        self.mon(command).map(drop).map_err(|answer| answer.status)
    }

    /// What is to be said beside that it is done.
    fn replaced_note(&self, osd: OsdId, former: &Former, confirmed: bool) -> String {
        let mut note = ", with an empty store".to_owned();
        if self.planner.description.device_of(osd.0 as u32).is_some() {
            note += ": its device is written over";
        } else if let Some(aside) = &former.aside {
            let log = match self.planner.description.log_device_of(osd.0 as u32) {
                None => "",
                Some(_) => ", without its log, which is written over",
            };
            let aside = aside.display();
            note += &format!("\nIts former store is in {aside}{log}; remove that to have the space.");
        }
        if confirmed {
            note += "\nPGs whose only copy it had stay stale or unknown (`ceph pg ls` shows them) until each is made again, empty, by\n  \
                     ceph osd force-create-pg PGID --yes-i-really-mean-it";
        }
        note
    }

    /// Makes an OSD again what it was. Answers what is to be said of it.
    pub(crate) fn put_back(&mut self, osd: OsdId, mut former: Former, why: &str) -> String {
        tracing::error!("osd.{osd} gets no new store: {why}");
        let made = self.planner.set_uuid(osd, &former.uuid);
        let mut failed: Vec<String> = made.as_ref().err().map(HostError::to_string).into_iter().collect();
        if let (Some(log), Ok(uuid)) = (&former.no_log_yet, &made)
            && owner_on(log).is_some_and(|has| has.osd_uuid.to_string() == *uuid)
        {
            failed.extend(std::fs::remove_file(log).err().map(|error| format!("{}: {error}", log.display())));
        }
        if former.is_told && !self.is_described(osd, &former.uuid) {
            // Which store counts is one decision, whatever ends the process: that of the description.
            let written = self
                .unkeep(osd, &mut former)
                .and_then(|()| self.dir.write_description(&self.planner.description));
            failed.extend(written.err().map(|error| error.to_string()));
        }
        if former.is_moved {
            let back = aside::move_back(&self.planner.store_dir(osd), former.aside.as_deref());
            failed.extend(back.err().map(|error| error.to_string()));
        }
        if former.is_told {
            let known = match former.is_destroyed {
                true => self.destroy(osd),
                false => self.renew_in_map(osd, &former.uuid),
            };
            failed.extend(known.err());
        }
        self.outcome_of_putting_back(osd, &former, why, &failed)
    }

    fn unkeep(&self, osd: OsdId, former: &mut Former) -> Result<(), HostError> {
        if let Some(kept) = &former.aside {
            former.aside = Some(aside::unkeep(&self.planner.store_dir(osd), kept, &former.uuid)?);
        }
        Ok(())
    }

    /// Whether the directory's description names an OSD's store.
    fn is_described(&self, osd: OsdId, uuid: &str) -> bool {
        match dir::inspect(self.dir.path()) {
            Ok(DirState::Cluster(found)) => {
                found.osd_uuids.get(osd.0 as usize).is_some_and(|found| found == uuid)
            }
            _ => false,
        }
    }

    fn outcome_of_putting_back(&self, osd: OsdId, former: &Former, why: &str, failed: &[String]) -> String {
        let lost: Vec<String> = former.lost().map(|path| path.display().to_string()).collect();
        if lost.is_empty() && failed.is_empty() {
            return self.keeps(osd, why);
        }
        let mut said = format!("osd.{osd} has no store now: no new one can be made: {why}.");
        if !lost.is_empty() {
            said += &format!(" What the former one had on {} is written over.", lost.join(" and "));
        }
        if !failed.is_empty() {
            said += &format!(" Of the former one this could not be put back: {}.", failed.join("; "));
        }
        said + " Mend that, and give it an empty store again, with --replace"
    }
}

fn first_line(status: &str) -> &str {
    status.lines().next().unwrap_or_default()
}

/// Why what a new store is to lie on can't be had, where `--overwrite` can't be said.
fn refusal(error: &OpenError) -> String {
    match error {
        OpenError::HoldsData(path) => format!(
            "{0} holds data that are not this OSD's; to give them up, fill it with zeros (`blkdiscard --zeroout {0}`), or remove it \
             if it is a file",
            path.display()
        ),
        other => other.to_string(),
    }
}
