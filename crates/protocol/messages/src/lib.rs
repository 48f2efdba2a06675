//! Ceph's messages, and a few of our own, as plain data: the contents of a frame's header, front, middle and data segments.
//!
//! A file a message, named as Ceph names it without the `M`; the first line of the file's documentation gives Ceph's
//! name. [`Message::decode`] and [`Message::encode`] go between a [`RawMessage`] and a [`Message`]. Maps inside
//! messages stay bytes ([`Blob`]). This crate never frames, checksums, answers or orders messages and never does I/O.

mod codec;
mod header;
pub mod kind;
mod message;
pub mod osd_op;
mod wire;

pub use header::{MessageHeader, Priority, RawMessage};
pub use message::Message;
pub use osd_op::{Op, OpArgs, OpCode, OpResult};
pub use wire::{Blob, Paxos, TimeSpan, Versioned};

/// Declares the modules of single messages and exports what they hold.
macro_rules! modules {
    ($($module:ident),* $(,)?) => {$(
        mod $module;
        pub use $module::*;
    )*};
}
modules! {
    command, command_reply, compat_set, config, fs_map, get_config, get_pool_stats, get_pool_stats_reply, kv_data, log, log_ack,
    mgr_close, mgr_command, mgr_command_reply, mgr_configure, mgr_map, mgr_open, mgr_report, mgr_update, mon_command, mon_command_ack, mon_get_map, mon_get_osd_map,
    mon_get_purged_snaps, mon_get_purged_snaps_reply, mon_get_version, mon_get_version_reply, mon_map,
    mon_subscribe, mon_subscribe_ack, osd_alive, osd_backoff, osd_beacon, osd_boot, osd_failure, osd_full,
    osd_map, osd_mark_me_dead, osd_mark_me_down, osd_op_message, osd_op_reply, osd_pg_create2, osd_pg_created,
    osd_pg_ready_to_merge, osd_pg_temp, osd_ping, osd_scrub2, osd_stat, osd_superblock, past_intervals, pg_history, pg_info_query, pg_info_reply,
    pg_stat, pg_state, pg_stats, pg_stats_ack, ping, pool_op, pool_op_reply, remove_snaps, service_map, stats, statfs, statfs_reply, watch_notify,
}
