//! Moving an image to another pool or another format.

use std::collections::BTreeMap;

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::header::Features;
use super::keys;

/// How headers of format 1 begin, with a NUL after it.
const OLD_HEADER: &[u8] = b"<<< Rados Block Device Image >>>\n";
/// What takes its place in an image that is moved.
const OLD_MIGRATING: &[u8] = b"<<< Migrating RBD Image      >>>\n";

const KEY: &str = "migration";

/// Where an image comes from or goes to (cls::rbd::MigrationSpec).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Migration {
    /// MIGRATION_HEADER_TYPE_*: which of the two images has it.
    pub header_type: u8,
    pub pool: i64,
    pub namespace: Name,
    pub image_name: Name,
    pub image_id: Name,
    pub snap_seqs: BTreeMap<u64, u64>,
    pub overlap: u64,
    pub flatten: bool,
    pub mirroring: bool,
    /// MIGRATION_STATE_*.
    pub state: u8,
    pub state_description: Name,
    /// MIRROR_IMAGE_MODE_*.
    pub mirror_image_mode: u8,
    /// Of an image that is imported from elsewhere.
    pub source_spec: Name,
}

impl Migration {
    const SOURCE: u8 = 1;
    const DESTINATION: u8 = 2;
}

impl Encode for Migration {
    fn encode(&self, e: &mut Encoder) {
        let compat = if self.source_spec.is_empty() { 1 } else { 3 };
        e.versioned(3, compat, |e| {
            e.put(&self.header_type).put(&self.pool).put(&self.namespace).put(&self.image_name);
            e.put(&self.image_id).put(&self.snap_seqs).put(&self.overlap).put(&self.flatten);
            e.put(&self.mirroring).put(&self.state).put(&self.state_description);
            e.put(&self.mirror_image_mode).put(&self.source_spec);
        });
    }
}
impl Decode for Migration {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(3, "MigrationSpec", |d, v| {
            Ok(Self {
                header_type: d.get()?,
                pool: d.get()?,
                namespace: d.get()?,
                image_name: d.get()?,
                image_id: d.get()?,
                snap_seqs: d.get()?,
                overlap: d.get()?,
                flatten: d.get()?,
                mirroring: d.get()?,
                state: d.get()?,
                state_description: d.get()?,
                mirror_image_mode: if v >= 2 { d.get()? } else { 0 },
                source_spec: if v >= 3 { d.get()? } else { Name::new() },
            })
        })
    }
}

/// What kind of header the object is.
enum HeaderState {
    /// Of format 1.
    Old { migrating: bool },
    /// Of format 2, with its features.
    New(u64),
}

/// Fails with ENXIO if the object is not an image header.
fn header_state(ctx: &mut ClassContext<'_, '_>) -> Result<HeaderState, StepError> {
    if let Some(features) = keys::get(ctx, "features")? {
        return Ok(HeaderState::New(features));
    }
    let start = ctx.read(0, OLD_HEADER.len() as u64 + 1)?.to_piece();
    match start.strip_suffix(&[0]) {
        Some(OLD_HEADER) => Ok(HeaderState::Old { migrating: false }),
        Some(OLD_MIGRATING) => Ok(HeaderState::Old { migrating: true }),
        _ => Err(Errno::ENXIO.into()),
    }
}

pub(super) fn migration_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let migration: Migration = decode_input(input)?;
    if keys::has(ctx, KEY)? {
        return Err(Errno::EEXIST.into());
    }
    match header_state(ctx)? {
        HeaderState::Old { migrating: true } => return Err(Errno::EEXIST.into()),
        HeaderState::Old { migrating: false } if migration.header_type != Migration::SOURCE => {
            return Err(Errno::EINVAL.into());
        }
        HeaderState::Old { migrating: false } => ctx.write(0, Rope::copy_from(OLD_MIGRATING))?,
        HeaderState::New(features) if features & Features::MIGRATING == 0 => {
            keys::set(ctx, "features", &(features | Features::MIGRATING))?;
        }
        // A destination is made with the feature.
        HeaderState::New(_) if migration.header_type != Migration::DESTINATION => {
            return Err(Errno::EEXIST.into());
        }
        HeaderState::New(_) => {}
    }
    keys::set(ctx, KEY, &migration)?;
    Ok(0)
}

/// Fails with EINVAL where the image is not moved.
fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<Migration, StepError> {
    let migrating = match header_state(ctx)? {
        HeaderState::Old { migrating } => migrating,
        HeaderState::New(features) => features & Features::MIGRATING != 0,
    };
    if migrating { keys::require(ctx, KEY) } else { Err(Errno::EINVAL.into()) }
}

pub(super) fn migration_set_state(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (state, state_description): (u8, Name) = decode_input(input)?;
    let migration = stored(ctx)?;
    keys::set(ctx, KEY, &Migration { state, state_description, ..migration })?;
    Ok(0)
}

pub(super) fn migration_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let migration = stored(ctx)?;
    ctx.reply(&migration)
}

pub(super) fn migration_remove(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    keys::remove(ctx, KEY)?;
    match header_state(ctx)? {
        HeaderState::Old { migrating: false } => return Err(Errno::EINVAL.into()),
        HeaderState::Old { migrating: true } => ctx.write(0, Rope::copy_from(OLD_HEADER))?,
        HeaderState::New(features) if features & Features::MIGRATING != 0 => {
            keys::set(ctx, "features", &(features & !Features::MIGRATING))?;
        }
        HeaderState::New(_) => {}
    }
    Ok(0)
}
