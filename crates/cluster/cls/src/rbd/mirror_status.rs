//! How mirrored images fare (`rbd_mirroring`). A status holds while the one who reported it watches the object.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input, decode_stored};
use types::{Errno, Name};

use super::keys;
use super::mirror::{IMAGE_PREFIX, image_of_global_id};
use super::mirror_types::{
    Direction, ImageStatus, Instance, KeptStatus, MirrorImage, MirrorPeer, SiteStatus, StatusOrigin,
};

const LOCAL_PREFIX: &str = "status_global_";
const REMOTE_PREFIX: &str = "remote_status_global_";

/// Of what the clusters of an image's peers report, the keys begin so.
fn remote_prefix(global_id: &Name) -> Vec<u8> {
    [REMOTE_PREFIX.as_bytes(), global_id, b"_"].concat()
}

fn key(global_id: &Name, mirror_uuid: &Name) -> Name {
    match mirror_uuid.is_empty() {
        true => keys::join(LOCAL_PREFIX, global_id),
        false => keys::join(remote_prefix(global_id), mirror_uuid),
    }
}

fn watchers(ctx: &mut ClassContext<'_, '_>) -> Result<BTreeSet<Instance>, StepError> {
    let watchers = ctx.watchers()?;
    Ok(watchers.iter().map(|((_, name), watch)| Instance::new(*name, watch.addr)).collect())
}

/// No error, and nothing kept, of an image that is not mirrored.
pub(super) fn mirror_image_status_set(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (global_id, mut status): (Name, SiteStatus) = decode_input(input)?;
    let image = image_of_global_id(ctx, &global_id)?;
    let is_mirrored =
        image.is_some_and(|image| matches!(image.state, MirrorImage::ENABLED | MirrorImage::CREATING));
    if !is_mirrored {
        return Ok(0);
    }
    // The key has the cluster.
    let key = key(&global_id, &std::mem::take(&mut status.mirror_uuid));
    (status.up, status.last_update) = (false, ctx.now());
    let (name, addr) = ctx.origin();
    let origin = StatusOrigin { reporter: Instance::new(name, addr) };
    keys::set(ctx, key, &KeptStatus { origin, status })?;
    Ok(0)
}

/// Of all clusters.
pub(super) fn remove(ctx: &mut ClassContext<'_, '_>, global_id: &Name) -> Result<i32, StepError> {
    let remote = keys::list(ctx, remote_prefix(global_id), b"", u64::MAX)?;
    for mirror_uuid in remote.into_iter().map(|(uuid, _)| uuid).chain([Name::new()]) {
        keys::remove(ctx, key(global_id, &mirror_uuid))?;
    }
    Ok(0)
}

pub(super) fn mirror_image_status_remove(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    remove(ctx, &decode_input(input)?)
}

/// Empty if there is none.
fn status(
    ctx: &mut ClassContext<'_, '_>,
    global_id: &Name,
    watchers: &BTreeSet<Instance>,
) -> Result<ImageStatus, StepError> {
    let shown = |mirror_uuid, kept: KeptStatus| {
        let up = watchers.contains(&kept.origin.reporter);
        SiteStatus { mirror_uuid, up, ..kept.status }
    };
    let local = keys::get(ctx, key(global_id, &Name::new()))?;
    let mut sites: Vec<_> = local.map(|kept| shown(Name::new(), kept)).into_iter().collect();
    let remote = keys::list_values(ctx, remote_prefix(global_id), b"", u64::MAX)?;
    sites.extend(remote.into_iter().map(|(uuid, kept)| shown(uuid, kept)));
    Ok(ImageStatus { sites })
}

pub(super) fn mirror_image_status_get(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let global_id: Name = decode_input(input)?;
    let watchers = watchers(ctx)?;
    let status = status(ctx, &global_id, &watchers)?;
    if status.sites.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    ctx.reply(&status)
}

pub(super) fn mirror_image_status_list(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let watchers = watchers(ctx)?;
    let images = keys::list_values::<MirrorImage>(ctx, IMAGE_PREFIX, &after, max)?;
    let mut statuses = BTreeMap::new();
    for (id, image) in &images {
        let status = status(ctx, &image.global_id, &watchers)?;
        if !status.sites.is_empty() {
            statuses.insert(id.clone(), status);
        }
    }
    ctx.reply(&(images.into_iter().collect::<BTreeMap<_, _>>(), statuses))
}

/// An image's state in a word, from where images go to and where they come from.
fn summary(direction: Direction, senders: &BTreeSet<Name>, status: &ImageStatus) -> u8 {
    let mut state = match direction {
        Direction::SEND => None,
        _ => status.local().filter(|local| local.up).map(|local| local.state),
    };
    let mut silent = 0;
    if matches!(direction, Direction::SEND | Direction::BOTH) {
        silent = senders.len();
        for site in status.remote() {
            silent = silent.saturating_sub(usize::from(senders.contains(&site.mirror_uuid)));
            let site_state = if site.up { site.state } else { SiteStatus::UNKNOWN };
            state = Some(match state {
                _ if site.state == SiteStatus::ERROR => SiteStatus::ERROR,
                None => site_state,
                Some(SiteStatus::ERROR) => SiteStatus::ERROR,
                Some(state) => state.min(site_state),
            });
        }
    }
    state.filter(|_| silent == 0).unwrap_or(SiteStatus::UNKNOWN)
}

/// How many images there are of each state.
pub(super) fn mirror_image_status_get_summary(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let peers = keys::args(input, |d| Ok(keys::optional::<Vec<MirrorPeer>>(d)?.unwrap_or_default()))?;
    let mut direction = peers.first().map_or(Direction::RECEIVE, |peer| peer.direction);
    let mut senders = BTreeSet::new();
    for peer in peers.into_iter().filter(|peer| peer.direction != Direction::RECEIVE) {
        senders.insert(peer.mirror_uuid);
        if direction != peer.direction {
            direction = Direction::BOTH;
        }
    }
    let watchers = watchers(ctx)?;
    let mut counts: BTreeMap<u8, i32> = BTreeMap::new();
    for (_, image) in keys::list_values::<MirrorImage>(ctx, IMAGE_PREFIX, b"", u64::MAX)? {
        let status = status(ctx, &image.global_id, &watchers)?;
        *counts.entry(summary(direction, &senders, &status)).or_default() += 1;
    }
    ctx.reply(&counts)
}

/// Forgets what was reported by those who are gone.
pub(super) fn mirror_image_status_remove_down(
    ctx: &mut ClassContext<'_, '_>,
    _: &Rope,
) -> Result<i32, StepError> {
    let watchers = watchers(ctx)?;
    for prefix in [LOCAL_PREFIX, REMOTE_PREFIX] {
        for (suffix, status) in keys::list(ctx, prefix, b"", u64::MAX)? {
            let origin: StatusOrigin = decode_stored(&status)?;
            if !watchers.contains(&origin.reporter) {
                ctx.omap_remove(keys::join(prefix, &suffix))?;
            }
        }
    }
    Ok(0)
}

/// The client that an image's status here is from; `None` if there is none. Fails with ESTALE where it is gone.
fn reporter(
    ctx: &mut ClassContext<'_, '_>,
    global_id: &Name,
    watchers: &BTreeSet<Instance>,
) -> Result<Option<Instance>, StepError> {
    let kept: Option<KeptStatus> = keys::get(ctx, key(global_id, &Name::new()))?;
    match kept.map(|kept| kept.origin.reporter) {
        Some(reporter) if !watchers.contains(&reporter) => Err(Errno::ESTALE.into()),
        reporter => Ok(reporter),
    }
}

pub(super) fn mirror_image_instance_get(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let global_id: Name = decode_input(input)?;
    let watchers = watchers(ctx)?;
    let instance = reporter(ctx, &global_id, &watchers)?.ok_or(Errno::ENOENT)?;
    ctx.reply(&instance)
}

pub(super) fn mirror_image_instance_list(
    ctx: &mut ClassContext<'_, '_>,
    input: &Rope,
) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let watchers = watchers(ctx)?;
    let mut instances = BTreeMap::new();
    for (id, image) in keys::list_values::<MirrorImage>(ctx, IMAGE_PREFIX, &after, u64::MAX)? {
        if instances.len() as u64 >= max {
            break;
        }
        match reporter(ctx, &image.global_id, &watchers) {
            Err(e) if e.is(Errno::ESTALE) => {}
            Ok(None) => {}
            instance => instances.extend(instance?.map(|instance| (id, instance))),
        }
    }
    ctx.reply(&instances)
}
