//! What Ceph's own programs encoded is read whole and, where we write it too, written again byte for byte (the
//! crate `corpus` says where it comes from).

use encoding::{Decode, Encode};

use crate::by_time::{ListOp, ListReply};
use crate::{cas, cas_refs, journal, lock_types as lock, log, rbd, refcount, timeindex, version};

fn reads<T: Decode>(kind: &str) {
    corpus::read::<T>(kind);
}

fn round_trips<T: Decode + Encode>(kind: &str) {
    for ((path, bytes), value) in corpus::read::<T>(kind) {
        assert_eq!(value.to_bytes(u64::MAX), bytes, "{path:?}");
    }
}

#[test]
fn what_the_class_cas_keeps_and_exchanges_comes_back() {
    round_trips::<cas_refs::Refs>(cas_refs::REFS);
    round_trips::<cas_refs::ByObject>(cas_refs::BY_OBJECT);
    round_trips::<cas_refs::Count>(cas_refs::COUNT);
    reads::<cas::CreateOp>("cls_cas_chunk_create_or_get_ref_op");
    reads::<cas::RefOp>("cls_cas_chunk_get_ref_op");
    reads::<cas::RefOp>("cls_cas_chunk_put_ref_op");
}

#[test]
fn what_the_class_lock_keeps_and_exchanges_comes_back() {
    round_trips::<lock::LockInfo>("rados::cls::lock::lock_info_t");
    round_trips::<lock::LockInfo>("cls_lock_get_info_reply");
    round_trips::<lock::LockerInfo>("rados::cls::lock::locker_info_t");
    round_trips::<lock::LockerId>("rados::cls::lock::locker_id_t");
    reads::<lock::LockOp>("cls_lock_lock_op");
    reads::<lock::UnlockOp>("cls_lock_unlock_op");
    reads::<lock::BreakOp>("cls_lock_break_op");
    reads::<lock::GetInfoOp>("cls_lock_get_info_op");
    reads::<lock::AssertOp>("cls_lock_assert_op");
    reads::<lock::SetCookieOp>("cls_lock_set_cookie_op");
}

#[test]
fn what_the_class_log_keeps_and_exchanges_comes_back() {
    for kind in ["cls_log_entry", "cls::log::entry"] {
        round_trips::<log::Entry>(kind);
    }
    for kind in ["cls_log_header", "cls::log::header"] {
        round_trips::<log::Header>(kind);
    }
    for kind in ["cls_log_list_ret", "cls::log::ops::list_ret"] {
        round_trips::<ListReply<log::Entry>>(kind);
    }
    for kind in ["cls_log_add_op", "cls::log::ops::add_op"] {
        reads::<log::AddOp>(kind);
    }
    for kind in ["cls_log_list_op", "cls::log::ops::list_op"] {
        reads::<ListOp>(kind);
    }
    for kind in ["cls_log_trim_op", "cls::log::ops::trim_op"] {
        reads::<log::TrimOp>(kind);
    }
    for kind in ["cls_log_info_op", "cls::log::ops::info_op"] {
        reads::<log::InfoOp>(kind);
    }
}

#[test]
fn what_the_class_journal_keeps_and_exchanges_comes_back() {
    round_trips::<journal::Client>("cls::journal::Client");
    round_trips::<journal::ObjectPosition>("cls::journal::ObjectPosition");
    round_trips::<journal::ObjectSetPosition>("cls::journal::ObjectSetPosition");
    round_trips::<journal::Tag>("cls::journal::Tag");
}

#[test]
fn what_the_class_timeindex_keeps_and_exchanges_comes_back() {
    round_trips::<timeindex::Entry>("cls_timeindex_entry");
    round_trips::<ListReply<timeindex::Entry>>("cls_timeindex_list_ret");
    reads::<ListOp>("cls_timeindex_list_op");
}

#[test]
fn what_the_class_refcount_keeps_and_exchanges_comes_back() {
    round_trips::<refcount::RefCount>("obj_refcount");
    round_trips::<refcount::Refs>("cls_refcount_set_op");
    round_trips::<refcount::Refs>("cls_refcount_read_ret");
    reads::<refcount::TagOp>("cls_refcount_get_op");
    reads::<refcount::TagOp>("cls_refcount_put_op");
    reads::<refcount::ReadOp>("cls_refcount_read_op");
}

#[test]
fn what_the_class_version_keeps_and_exchanges_comes_back() {
    round_trips::<version::ObjVersion>("obj_version");
    round_trips::<version::OneVersion>("cls_version_set_op");
    round_trips::<version::OneVersion>("cls_version_read_ret");
    reads::<version::Conditions>("cls_version_inc_op");
    reads::<version::Conditions>("cls_version_check_op");
    reads::<version::Condition>("obj_version_cond");
}

#[test]
fn what_the_class_rbd_keeps_and_exchanges_comes_back() {
    round_trips::<rbd::Snap>("cls_rbd_snap");
    round_trips::<rbd::Parent>("cls_rbd_parent");
    round_trips::<rbd::SnapInfo>("cls::rbd::SnapshotInfo");
    round_trips::<rbd::SnapNamespace>("cls::rbd::SnapshotNamespace");
    round_trips::<rbd::ParentSpec>("cls::rbd::ParentImageSpec");
    round_trips::<rbd::ChildSpec>("cls::rbd::ChildImageSpec");
    round_trips::<rbd::Migration>("cls::rbd::MigrationSpec");
    round_trips::<rbd::BitVector>("BitVector<2>");
    round_trips::<rbd::BitVector>("ceph::BitVector<2>");
    round_trips::<rbd::GroupImage>("cls::rbd::GroupImageSpec");
    round_trips::<rbd::GroupImageStatus>("cls::rbd::GroupImageStatus");
    round_trips::<rbd::Group>("cls::rbd::GroupSpec");
    round_trips::<rbd::GroupSnap>("cls::rbd::GroupSnapshot");
    round_trips::<rbd::ImageSnap>("cls::rbd::ImageSnapshotSpec");
    round_trips::<rbd::MirrorImage>("cls::rbd::MirrorImage");
    round_trips::<rbd::MirrorImageMap>("cls::rbd::MirrorImageMap");
    round_trips::<rbd::MirrorPeer>("cls::rbd::MirrorPeer");
    round_trips::<rbd::SiteStatus>("cls::rbd::MirrorImageSiteStatus");
    round_trips::<rbd::KeptStatus>("cls::rbd::MirrorImageSiteStatusOnDisk");
    round_trips::<rbd::ImageStatus>("cls::rbd::MirrorImageStatus");
}
