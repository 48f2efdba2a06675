//! The MgrMap: which manager is at work and what its modules can do.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddrVec, Epoch, UTime};

/// An option of a module (Ceph's MgrMap::ModuleOption).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ModuleOption {
    pub name: String,
    pub kind: u8,
    pub level: u8,
    pub flags: u32,
    pub default_value: String,
    pub min: String,
    pub max: String,
    pub enum_allowed: BTreeSet<String>,
    pub desc: String,
    pub long_desc: String,
    pub tags: BTreeSet<String>,
    pub see_also: BTreeSet<String>,
}

impl Encode for ModuleOption {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.name).put(&self.kind).put(&self.level).put(&self.flags).put(&self.default_value);
            e.put(&self.min).put(&self.max).put(&self.enum_allowed).put(&self.desc).put(&self.long_desc);
            e.put(&self.tags).put(&self.see_also);
        });
    }
}
impl Decode for ModuleOption {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "MgrMap::ModuleOption", |d, _| {
            Ok(Self {
                name: d.get()?,
                kind: d.get()?,
                level: d.get()?,
                flags: d.get()?,
                default_value: d.get()?,
                min: d.get()?,
                max: d.get()?,
                enum_allowed: d.get()?,
                desc: d.get()?,
                long_desc: d.get()?,
                tags: d.get()?,
                see_also: d.get()?,
            })
        })
    }
}

/// A module (Ceph's MgrMap::ModuleInfo).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ModuleInfo {
    pub name: String,
    /// Whether it can run.
    pub can_run: bool,
    /// Why not.
    pub error_string: String,
    pub module_options: BTreeMap<String, ModuleOption>,
}

impl Encode for ModuleInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.name).put(&self.can_run).put(&self.error_string).put(&self.module_options);
        });
    }
}
impl Decode for ModuleInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "MgrMap::ModuleInfo", |d, version| {
            let (name, can_run, error_string) = (d.get()?, d.get()?, d.get()?);
            let module_options = if version >= 2 { d.get()? } else { BTreeMap::new() };
            Ok(Self { name, can_run, error_string, module_options })
        })
    }
}

/// A manager that waits (Ceph's MgrMap::StandbyInfo).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StandbyInfo {
    /// Its global id.
    pub gid: u64,
    pub name: String,
    pub available_modules: Vec<ModuleInfo>,
    pub mgr_features: u64,
}

impl Encode for StandbyInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 1, |e| {
            let names: BTreeSet<&String> = self.available_modules.iter().map(|m| &m.name).collect();
            e.put(&self.gid).put(&self.name).put(&(names.len() as u32));
            names.iter().for_each(|name| name.encode(e));
            e.put(&self.available_modules).put(&self.mgr_features);
        });
    }
}
impl Decode for StandbyInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(4, "MgrMap::StandbyInfo", |d, version| {
            let mut info = Self { gid: d.get()?, name: d.get()?, ..Self::default() };
            if version >= 2 {
                let names: BTreeSet<String> = d.get()?;
                let module = |name| ModuleInfo { name, can_run: true, ..ModuleInfo::default() };
                info.available_modules = names.into_iter().map(module).collect();
            }
            if version >= 3 {
                info.available_modules = d.get()?;
            }
            if version >= 4 {
                info.mgr_features = d.get()?;
            }
            Ok(info)
        })
    }
}

/// The MgrMap (Ceph's MgrMap). The default is "no manager": `available` is false, so no client dials one, and commands
/// for the manager wait.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrMap {
    /// The map's number.
    pub epoch: Epoch,
    /// The active manager's addresses.
    pub active_addrs: EntityAddrVec,
    /// The active manager's global id.
    pub active_gid: u64,
    /// Whether the active manager serves.
    pub available: bool,
    /// The active manager's name.
    pub active_name: String,
    /// Those that wait, by global id.
    pub standbys: BTreeMap<u64, StandbyInfo>,
    /// Modules that are on.
    pub modules: BTreeSet<String>,
    /// Addresses that modules serve at.
    pub services: BTreeMap<String, String>,
    /// Modules of the active manager.
    pub available_modules: Vec<ModuleInfo>,
    /// When the active manager changed.
    pub active_change: UTime,
    /// Modules that can't be turned off, by release number.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    /// The active manager's features.
    pub active_mgr_features: u64,
    /// The OSDMap's epoch in which the last failed manager was blocked.
    pub last_failure_osd_epoch: Epoch,
    /// Clients of the active manager, to be blocked when it fails: address and name.
    pub clients: Vec<(EntityAddrVec, String)>,
    /// Bit 0: managers are kept down (18.2 on).
    pub flags: u64,
    /// Modules turned off by force (20.2 on).
    pub force_disabled_modules: BTreeSet<String>,
}

impl MgrMap {
    /// What 16.2.15 writes.
    pub const VERSION_PACIFIC: u8 = 12;

    /// Appends the form of the given version, 11 (16.2.0) to 14 (20.2).
    pub fn encode_version(&self, e: &mut Encoder, version: u8) {
        e.versioned(version, 6, |e| {
            e.put(&self.epoch).put(&self.active_addrs).put(&self.active_gid).put(&self.available);
            e.put(&self.active_name).put(&self.standbys).put(&self.modules).put(&self.services);
            e.put(&self.available_modules).put(&self.active_change).put(&self.always_on_modules);
            e.put(&self.active_mgr_features).put(&self.last_failure_osd_epoch);
            e.put(&(self.clients.len() as u32));
            self.clients.iter().for_each(|(addrs, _)| addrs.encode(e));
            if version >= 12 {
                e.put(&(self.clients.len() as u32));
                self.clients.iter().for_each(|(_, name)| name.encode(e));
            }
            if version >= 13 {
                e.put(&self.flags);
            }
            if version >= 14 {
                e.put(&self.force_disabled_modules);
            }
        });
    }
}

impl Encode for MgrMap {
    fn encode(&self, e: &mut Encoder) {
        self.encode_version(e, Self::VERSION_PACIFIC);
    }
}
impl Decode for MgrMap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(14, "MgrMap", |d, version| {
            // 6 is Nautilus'; before, names of modules stood where modules do.
            if version < 6 {
                return Err(DecodeError::TooOld { what: "MgrMap", version });
            }
            let mut map = Self {
                epoch: d.get()?,
                active_addrs: d.get()?,
                active_gid: d.get()?,
                available: d.get()?,
                active_name: d.get()?,
                standbys: d.get()?,
                modules: d.get()?,
                services: d.get()?,
                available_modules: d.get()?,
                ..Self::default()
            };
            map.decode_recent(d, version)?;
            Ok(map)
        })
    }
}

impl MgrMap {
    fn decode_recent(&mut self, d: &mut Decoder<'_>, version: u8) -> Result<(), DecodeError> {
        if version >= 7 {
            self.active_change = d.get()?;
        }
        if version >= 8 {
            self.always_on_modules = d.get()?;
        }
        if version >= 9 {
            self.active_mgr_features = d.get()?;
        }
        if version >= 10 {
            self.last_failure_osd_epoch = d.get()?;
        }
        let mut addrs: Vec<EntityAddrVec> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        if version >= 11 {
            addrs = d.get()?;
            names.resize(addrs.len(), String::new());
        }
        if version >= 12 {
            names = d.get()?;
        }
        if names.len() != addrs.len() {
            return Err(DecodeError::BadValue { what: "MgrMap clients", value: names.len() as u64 });
        }
        self.clients = addrs.into_iter().zip(names).collect();
        if version >= 13 {
            self.flags = d.get()?;
        }
        if version >= 14 {
            self.force_disabled_modules = d.get()?;
        }
        Ok(())
    }
}
