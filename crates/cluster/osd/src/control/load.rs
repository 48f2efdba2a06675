//! From an open store to an OSD that can boot: superblock, maps, placement groups.
//!
//! Steps, in this order: is there a meta collection (if not: a new store, write a superblock); the superblock, which
//! must be this OSD's; the map that all PGs are known to have reached; the shards' lists of collections, a PG for each;
//! when those have read what they keep, every later map that was stored, one after the other. A map that is damaged comes from
//! a monitor.

use std::sync::Arc;

use messages::OsdSuperblock;
use store::{CollectionId, Completion, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{Epoch, UTime};

use super::map_reader::FoundMap;
use super::store_age::StoreAge;
use super::superblock::{inc_map_object, read_meta, store_superblock, superblock_objects, superblock_of};
use super::{Control, MapPurpose, OwnIo};
use crate::parts::Out;
use crate::{LogLevel, OsdPhase};

/// Which step is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoadStep {
    /// Whether there is anything stored.
    Meta,
    /// A new store's superblock.
    Create,
    Superblock,
    /// The superblock can't be read.
    SuperblockCopy,
    /// The copy must not be of an earlier time: the map after its newest is not stored.
    CopyIsNewest,
    /// The map that all PGs have reached.
    FirstMap,
    /// The shards list their PGs, and those read what they keep; then the map of this epoch follows.
    Pgs(Epoch),
    LaterMap(Epoch),
}

impl Control {
    pub(crate) fn start(&mut self, out: &mut Out) {
        if self.state != OsdPhase::Initializing || self.loading.is_some() {
            return;
        }
        let ask = ReadRequest::Collection { collection: CollectionId::Meta };
        self.load_step(LoadStep::Meta, ask, out);
    }

    fn load_step(&mut self, step: LoadStep, request: ReadRequest, out: &mut Out) {
        self.loading = Some(step);
        self.read(request, OwnIo::Load, out);
    }

    pub(crate) fn on_loaded(&mut self, now: UTime, completion: Completion, out: &mut Out) {
        let Some(step) = self.loading else {
            return out.broken("a step of loading is done after the last");
        };
        let outcome = match completion {
            Completion::Read { result, .. } => Some(result),
            _ => None,
        };
        if let Err(reason) = self.on_load_step(now, step, outcome, out) {
            self.fail(reason);
        }
    }

    fn on_load_step(
        &mut self,
        now: UTime,
        step: LoadStep,
        outcome: Option<Result<ReadOutcome, StoreError>>,
        out: &mut Out,
    ) -> Result<(), String> {
        match (step, outcome) {
            (LoadStep::Create, None) => self.loaded(now, out),
            (LoadStep::Meta, Some(Ok(ReadOutcome::Collection(None)))) => self.create_store(out),
            (LoadStep::Meta, Some(Ok(ReadOutcome::Collection(Some(_))))) => {
                let [object, _] = superblock_objects();
                self.load_step(LoadStep::Superblock, read_meta(object), out);
            }
            (LoadStep::Superblock, Some(read)) => match superblock_of(read) {
                Ok(found) => {
                    self.take_superblock(found)?;
                    self.load_first_map(now, out);
                }
                Err(why) => {
                    let [_, copy] = superblock_objects();
                    let text = format!("the superblock can't be read: {why}: its copy is tried");
                    self.log(LogLevel::Warn, text, out);
                    self.load_step(LoadStep::SuperblockCopy, read_meta(copy), out);
                }
            },
            (LoadStep::SuperblockCopy, Some(read)) => {
                let found = superblock_of(read)
                    .map_err(|why| format!("neither the superblock nor its copy can be read: {why}"))?;
                self.take_superblock(found)?;
                let next = inc_map_object(self.superblock.newest_map.next());
                self.load_step(LoadStep::CopyIsNewest, read_meta(next), out);
            }
            (LoadStep::CopyIsNewest, Some(Err(StoreError::NoSuchObject(..)))) => {
                let mut txn = Transaction::new();
                store_superblock(&self.superblock, &mut txn);
                self.queue(txn, OwnIo::Quiet, out);
                self.load_first_map(now, out);
            }
            (LoadStep::CopyIsNewest, Some(_)) => {
                let newest = self.superblock.newest_map;
                return Err(format!(
                    "the superblock can't be read, and its copy, with map {newest}, is older than the maps that are stored"
                ));
            }
            (step, Some(Err(error))) => return Err(format!("can't load {step:?}: {error}")),
            (step, _) => return Err(format!("the store answered something else to {step:?}")),
        }
        Ok(())
    }

    /// A map was read, or is not there.
    pub(super) fn on_load_map(&mut self, now: UTime, found: FoundMap, out: &mut Out) {
        match (self.loading, found) {
            (Some(LoadStep::FirstMap), Ok(Some(first))) => {
                let map = Arc::new(first.map);
                self.loading = Some(LoadStep::Pgs(map.epoch.next()));
                self.history.load(map);
                self.send_map(out);
                self.find_pgs(out);
            }
            (Some(LoadStep::LaterMap(epoch)), Ok(Some(later))) => {
                self.history.append(*later);
                self.loading = Some(LoadStep::Pgs(epoch.next()));
                self.advance(now, out);
                self.pgs_loaded(now, out);
            }
            // A hole: maps that the monitor had trimmed before we could get them.
            (Some(LoadStep::LaterMap(epoch)), Ok(None)) => self.load_later_map(now, epoch.next(), out),
            (Some(LoadStep::FirstMap), Ok(None)) => {
                self.fail(format!("map {}, which the superblock names, is not stored", self.first_map()));
            }
            (Some(LoadStep::FirstMap), Err(reason)) => self.fetch_map(now, self.first_map(), reason, out),
            (Some(LoadStep::LaterMap(epoch)), Err(reason)) => self.fetch_map(now, epoch, reason, out),
            (step, _) => out.broken(format!("a map was read to be loaded in the step {step:?}")),
        }
    }

    fn create_store(&mut self, out: &mut Out) {
        let mut txn = Transaction::new();
        txn.create_collection(CollectionId::Meta, 0);
        store_superblock(&self.superblock, &mut txn);
        self.loading = Some(LoadStep::Create);
        self.log(LogLevel::Info, format!("a new store, for osd.{}", self.config.whoami), out);
        self.queue(txn, OwnIo::Load, out);
    }

    /// Goes by a stored superblock, if it is this OSD's.
    fn take_superblock(&mut self, have: OsdSuperblock) -> Result<(), String> {
        let want = &self.superblock;
        if (want.cluster_fsid, want.whoami, want.osd_fsid) != (have.cluster_fsid, have.whoami, have.osd_fsid)
        {
            return Err(format!(
                "the store belongs to osd.{} ({}) of the cluster {}, not to osd.{} ({}) of {}",
                have.whoami, have.osd_fsid, have.cluster_fsid, want.whoami, want.osd_fsid, want.cluster_fsid
            ));
        }
        self.superblock = have;
        Ok(())
    }

    fn load_first_map(&mut self, now: UTime, out: &mut Out) {
        match self.first_map() {
            // No PG was ever made without a map.
            Epoch(0) => self.loaded(now, out),
            epoch => {
                self.loading = Some(LoadStep::FirstMap);
                self.read_map(epoch, None, MapPurpose::Load, out);
            }
        }
    }

    /// A PG may have finished reading, or a shard is through with a map: when all are, the next map follows.
    pub(crate) fn pgs_loaded(&mut self, now: UTime, out: &mut Out) {
        match self.loading {
            Some(LoadStep::Pgs(next)) if self.pgs.all_loaded() && !self.shards_lag() => {
                self.load_later_map(now, next, out)
            }
            // Some are not ready, or another step of loading is under way, or none any more.
            _ => {}
        }
    }

    /// The stored map to begin with: all PGs have reached it, except those of pools that are younger.
    fn first_map(&self) -> Epoch {
        match self.superblock.current_epoch {
            Epoch(0) => self.superblock.oldest_map,
            epoch => epoch,
        }
    }

    fn load_later_map(&mut self, now: UTime, epoch: Epoch, out: &mut Out) {
        if epoch > self.superblock.newest_map {
            return self.loaded(now, out);
        }
        self.loading = Some(LoadStep::LaterMap(epoch));
        let base = self.history.current().cloned();
        self.read_map(epoch, base, MapPurpose::Load, out);
    }

    fn loaded(&mut self, now: UTime, out: &mut Out) {
        self.loading = None;
        self.configure_shards(out);
        self.drop_unknown_pgs(out);
        self.note_pgs_stable(out);
        let (epoch, pgs) = (self.history.epoch(), self.pgs.len());
        self.log(LogLevel::Info, format!("loaded: map {epoch}, {pgs} PGs"), out);
        self.read_old_increments(out);
        self.ask_space(out);
        self.publish_map(out);
        self.store_age = StoreAge::of(&self.superblock, pgs);
        self.start_boot(now, out);
        if self.mon.is_ready() {
            // A map was fetched in this session, which was told nothing else yet.
            self.on_mon_ready(now, out);
        }
    }
}
