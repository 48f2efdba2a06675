//! Clusters and the places their data live in: made fresh for a trial, taken down after it; leftovers removed. Never
//! measures, and never touches what it did not make.
//!
//! [`check`] lists the obstacles, [`start`] gives a [`Testbed`], [`Testbed::take_down`] ends it, [`clean_up`]
//! undoes what an interrupted run left. Everything that is made is written into a [`ledger`] first.

mod cluster;
mod conf;
mod error;
pub mod ledger;
mod lock;
mod place;
mod ports;
pub mod processes;
mod release;
mod run;
mod undo;
mod work_dir;

pub use cluster::admin_client::AdminClient;
pub use cluster::pools::Pool;
pub use cluster::{
    Site, Testbed, Wanted, ceph_conf, check, check_settings, clean_up, drop_caches, logs, replaced, start,
};
pub use error::{Error, Result};
pub use lock::lock;
pub use place::modelled::overhead;
pub use release::{package_of, program};
pub use run::Stop;
