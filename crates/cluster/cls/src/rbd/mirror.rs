//! The mirroring of a pool (`rbd_mirroring`): its mode, its peers and its images.

use std::collections::BTreeMap;

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::keys::{self, args};
use super::mirror_status;
use super::mirror_types::{Direction, MirrorImage, MirrorImageMap, MirrorPeer};
use super::types::{MirrorSnap, Snap, SnapNamespace};

const UUID_KEY: &str = "mirror_uuid";
const MODE_KEY: &str = "mirror_mode";
const REMOTE_NAMESPACE_KEY: &str = "remote_namespace";
const PEER_PREFIX: &str = "mirror_peer_";
pub(super) const IMAGE_PREFIX: &str = "image_";
/// Images by their global ids.
const GLOBAL_PREFIX: &str = "global_";
const INSTANCE_PREFIX: &str = "instance_";
const MAP_PREFIX: &str = "image_map_";

// MIRROR_MODE_*.
const DISABLED: u32 = 0;
const INIT_ONLY: u32 = 3;

/// Kept as it is, without a length.
fn stored_uuid(ctx: &mut ClassContext<'_, '_>) -> Result<Name, StepError> {
    let uuid = ctx.omap_value(UUID_KEY)?.ok_or(Errno::ENOENT)?;
    Ok(uuid.to_vec().into())
}

fn stored_mode(ctx: &mut ClassContext<'_, '_>) -> Result<u32, StepError> {
    Ok(keys::get(ctx, MODE_KEY)?.unwrap_or(DISABLED))
}

pub(super) fn mirror_uuid_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let uuid = stored_uuid(ctx)?;
    ctx.reply(&uuid)
}

pub(super) fn mirror_uuid_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let uuid: Name = decode_input(input)?;
    if uuid.is_empty() || stored_mode(ctx)? != DISABLED {
        return Err(Errno::EINVAL.into());
    }
    ctx.omap_set(UUID_KEY, Rope::copy_from(&uuid))?;
    Ok(0)
}

pub(super) fn mirror_mode_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let mode: u32 = keys::require(ctx, MODE_KEY)?;
    ctx.reply(&mode)
}

/// Fails with EBUSY where it is to be disabled and there are peers.
pub(super) fn mirror_mode_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mode: u32 = decode_input(input)?;
    if mode > INIT_ONLY {
        return Err(Errno::EINVAL.into());
    }
    if mode != DISABLED {
        if !keys::has(ctx, UUID_KEY)? {
            return Err(Errno::EINVAL.into());
        }
        keys::set(ctx, MODE_KEY, &mode)?;
        return Ok(0);
    }
    if !stored_peers(ctx)?.is_empty() {
        return Err(Errno::EBUSY.into());
    }
    for key in [MODE_KEY, UUID_KEY, REMOTE_NAMESPACE_KEY] {
        keys::remove(ctx, key)?;
    }
    Ok(0)
}

pub(super) fn mirror_remote_namespace_get(
    ctx: &mut ClassContext<'_, '_>,
    _: &Rope,
) -> Result<i32, StepError> {
    let namespace: Name = keys::require(ctx, REMOTE_NAMESPACE_KEY)?;
    ctx.reply(&namespace)
}

pub(super) fn mirror_remote_namespace_set(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let namespace: Name = decode_input(input)?;
    if !matches!(stored_mode(ctx)?, DISABLED | INIT_ONLY) {
        return Err(Errno::EINVAL.into());
    }
    keys::set(ctx, REMOTE_NAMESPACE_KEY, &namespace)?;
    Ok(0)
}

fn stored_peers(ctx: &mut ClassContext<'_, '_>) -> Result<Vec<MirrorPeer>, StepError> {
    let peers = keys::list_values(ctx, PEER_PREFIX, b"", u64::MAX)?;
    Ok(peers.into_iter().map(|(_, peer)| peer).collect())
}

fn store_peer(ctx: &mut ClassContext<'_, '_>, peer: &MirrorPeer) -> Result<i32, StepError> {
    keys::set(ctx, keys::join(PEER_PREFIX, &peer.uuid), peer)?;
    Ok(0)
}

fn require_peer(ctx: &mut ClassContext<'_, '_>, uuid: &Name) -> Result<MirrorPeer, StepError> {
    keys::require(ctx, keys::join(PEER_PREFIX, uuid))
}

fn require_enabled(ctx: &mut ClassContext<'_, '_>) -> Result<(), StepError> {
    if stored_mode(ctx)? == DISABLED { Err(Errno::EINVAL.into()) } else { Ok(()) }
}

/// A cluster that receives this one's images says that it is there. It is found by its site's name, or by its own id
/// where the name is another's; else it is new.
pub(super) fn mirror_peer_ping(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (site_name, mirror_uuid, direction) =
        args(input, |d| Ok((d.get::<Name>()?, d.get::<Name>()?, Direction(d.get()?))))?;
    if direction != Direction::SEND {
        return Err(Errno::EINVAL.into());
    }
    require_enabled(ctx)?;
    if site_name.is_empty() || mirror_uuid.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let peers = stored_peers(ctx)?;
    let by_site = peers.iter().find(|peer| peer.site_name == site_name);
    let is_it = |peer: &MirrorPeer| peer.mirror_uuid.is_empty() || peer.mirror_uuid == mirror_uuid;
    let by_uuid = match by_site {
        Some(peer) if is_it(peer) => None,
        _ => peers.iter().find(|peer| peer.mirror_uuid == mirror_uuid),
    };
    let mut peer = match (by_site, by_uuid) {
        (Some(_), Some(peer)) => peer.clone(),
        (None, Some(peer)) => MirrorPeer { site_name, ..peer.clone() },
        (Some(peer), None) => MirrorPeer { mirror_uuid, ..peer.clone() },
        (None, None) => {
            let (uuid, last_seen) = (keys::random_uuid(ctx), ctx.now());
            MirrorPeer { uuid, site_name, client_name: Name::new(), direction, mirror_uuid, last_seen }
        }
    };
    if peer.direction == Direction::RECEIVE {
        peer.direction = Direction::BOTH;
    }
    peer.last_seen = ctx.now();
    if !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    store_peer(ctx, &peer)
}

pub(super) fn mirror_peer_list(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let peers = stored_peers(ctx)?;
    ctx.reply(&peers)
}

/// Fails with ESTALE where there is a peer of this UUID, EEXIST where there is one of this site or cluster.
pub(super) fn mirror_peer_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let peer: MirrorPeer = decode_input(input)?;
    require_enabled(ctx)?;
    if !peer.is_valid() || peer.uuid == stored_uuid(ctx)? || peer.direction == Direction::SEND {
        return Err(Errno::EINVAL.into());
    }
    for other in stored_peers(ctx)? {
        if other.uuid == peer.uuid {
            return Err(Errno::ESTALE.into());
        }
        let same_cluster = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.site_name == peer.site_name || same_cluster {
            return Err(Errno::EEXIST.into());
        }
    }
    store_peer(ctx, &peer)
}

pub(super) fn mirror_peer_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let uuid: Name = decode_input(input)?;
    keys::remove(ctx, keys::join(PEER_PREFIX, &uuid))?;
    Ok(0)
}

pub(super) fn mirror_peer_set_client(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (uuid, client_name): (Name, Name) = decode_input(input)?;
    let peer = require_peer(ctx, &uuid)?;
    store_peer(ctx, &MirrorPeer { client_name, ..peer })
}

pub(super) fn mirror_peer_set_cluster(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (uuid, site_name): (Name, Name) = decode_input(input)?;
    let mut found = None;
    for peer in stored_peers(ctx)? {
        if peer.uuid == uuid {
            found = Some(peer);
        } else if peer.site_name == site_name {
            return Err(Errno::EEXIST.into());
        }
    }
    let peer = found.ok_or(Errno::ENOENT)?;
    store_peer(ctx, &MirrorPeer { site_name, ..peer })
}

pub(super) fn mirror_peer_set_direction(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (uuid, direction): (Name, u8) = decode_input(input)?;
    let peer = require_peer(ctx, &uuid)?;
    store_peer(ctx, &MirrorPeer { direction: Direction(direction), ..peer })
}

pub(super) fn mirror_image_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let images = keys::list_values::<MirrorImage>(ctx, IMAGE_PREFIX, &after, max)?;
    let images = images.into_iter().map(|(id, image)| (id, image.global_id));
    ctx.reply(&images.collect::<BTreeMap<_, _>>())
}

pub(super) fn mirror_image_get_image_id(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let global_id: Name = decode_input(input)?;
    let id: Name = keys::require(ctx, keys::join(GLOBAL_PREFIX, &global_id))?;
    ctx.reply(&id)
}

fn stored_image(ctx: &mut ClassContext<'_, '_>, id: &Name) -> Result<Option<MirrorImage>, StepError> {
    keys::get(ctx, keys::join(IMAGE_PREFIX, id))
}

/// The image of a global id.
pub(super) fn image_of_global_id(
    ctx: &mut ClassContext<'_, '_>,
    global_id: &Name,
) -> Result<Option<MirrorImage>, StepError> {
    match keys::get::<Name>(ctx, keys::join(GLOBAL_PREFIX, global_id))? {
        Some(id) => stored_image(ctx, &id),
        None => Ok(None),
    }
}

pub(super) fn mirror_image_get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let image = stored_image(ctx, &decode_input(input)?)?.ok_or(Errno::ENOENT)?;
    ctx.reply(&image)
}

/// Fails with EEXIST where another image has the global id, EINVAL where the image has another, ENOENT where an image
/// that is not there is to be disabled.
pub(super) fn mirror_image_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, image): (Name, MirrorImage) = decode_input(input)?;
    let global_key = keys::join(GLOBAL_PREFIX, &image.global_id);
    match stored_image(ctx, &id)? {
        Some(stored) if stored.global_id != image.global_id => return Err(Errno::EINVAL.into()),
        Some(_) => {}
        None if keys::has(ctx, global_key.clone())? => return Err(Errno::EEXIST.into()),
        None if image.state == MirrorImage::DISABLING => return Err(Errno::ENOENT.into()),
        None => {}
    }
    keys::set(ctx, keys::join(IMAGE_PREFIX, &id), &image)?;
    keys::set(ctx, global_key, &id)?;
    Ok(0)
}

/// Fails with EBUSY unless it is being disabled.
pub(super) fn mirror_image_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    let image = stored_image(ctx, &id)?.ok_or(Errno::ENOENT)?;
    if image.state != MirrorImage::DISABLING {
        return Err(Errno::EBUSY.into());
    }
    ctx.omap_remove(keys::join(IMAGE_PREFIX, &id))?;
    keys::remove(ctx, keys::join(GLOBAL_PREFIX, &image.global_id))?;
    mirror_status::remove(ctx, &image.global_id)
}

pub(super) fn mirror_instances_list(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let instances = keys::list(ctx, INSTANCE_PREFIX, b"", u64::MAX)?;
    ctx.reply(&instances.into_iter().map(|(id, _)| id).collect::<Vec<_>>())
}

pub(super) fn mirror_instances_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    ctx.omap_set(keys::join(INSTANCE_PREFIX, &id), Rope::new())?;
    Ok(0)
}

pub(super) fn mirror_instances_remove(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    ctx.omap_remove(keys::join(INSTANCE_PREFIX, &id))?;
    Ok(0)
}

pub(super) fn mirror_image_map_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let maps = keys::list_values::<MirrorImageMap>(ctx, MAP_PREFIX, &after, max)?;
    ctx.reply(&maps.into_iter().collect::<BTreeMap<_, _>>())
}

pub(super) fn mirror_image_map_update(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (global_id, map): (Name, MirrorImageMap) = decode_input(input)?;
    keys::set(ctx, keys::join(MAP_PREFIX, &global_id), &map)?;
    Ok(0)
}

pub(super) fn mirror_image_map_remove(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let global_id: Name = decode_input(input)?;
    keys::remove(ctx, keys::join(MAP_PREFIX, &global_id))?;
    Ok(0)
}

/// Changes a snapshot that the image is mirrored by; fails with EINVAL where it is another kind of snapshot.
fn change_snap(
    ctx: &mut ClassContext<'_, '_>,
    id: u64,
    change: impl FnOnce(&mut MirrorSnap) -> Result<(), StepError>,
) -> Result<i32, StepError> {
    let mut snap = Snap::require(ctx, id)?;
    let SnapNamespace::Mirror(mirror) = &mut snap.namespace else { return Err(Errno::EINVAL.into()) };
    change(mirror)?;
    snap.store(ctx)?;
    Ok(0)
}

pub(super) fn mirror_image_snapshot_unlink_peer(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (id, peer): (u64, Name) = decode_input(input)?;
    change_snap(ctx, id, |snap| match snap.peer_uuids.remove(&peer) {
        true => Ok(()),
        false => Err(Errno::ENOENT.into()),
    })
}

pub(super) fn mirror_image_snapshot_set_copy_progress(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (id, complete, last_copied): (u64, bool, u64) = args(input, |d| Ok((d.get()?, d.get()?, d.get()?)))?;
    change_snap(ctx, id, |snap| {
        snap.complete = complete;
        if snap.is_non_primary() {
            snap.last_copied_object = last_copied;
        }
        Ok(())
    })
}
