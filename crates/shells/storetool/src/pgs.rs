//! PGs of an OSD that does not run: to a file, and back into a store.

use std::io::{Read, Write};
use std::path::Path;

use blockfile::{BEGIN_AGAIN, Blocking, Owner};
use host::{StoreKind, UNFINISHED_CONVERSION};
use maps::PgPool;
use osd::{Salvaged, compression_of_pool, newest_snap, salvage};
use simplestore::SimpleStore;
use store::{CollectionId, Completion, Left, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token};
use types::{Epoch, Fsid, GHObject, PgId, SnapId};

use crate::stream::{Header, StreamError, StreamReader, StreamWriter};
use crate::{Ended, Progress, Reader, Record, Writer, remove_collection};

/// A store of either kind.
pub type AnyStore = Blocking<Box<dyn ObjectStore>>;

/// Why the store in an OSD's directory is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is in use, is none of this kind, or is damaged.
    #[error(transparent)]
    Simple(#[from] simplestore::OpenError),
    #[error(transparent)]
    Block(#[from] blockfile::OpenError),
    #[error("its conversion to the store 'block' did not get to its end: run `loligo store convert` again")]
    HalfConverted,
    #[error("the store 'mem' keeps nothing")]
    KeepsNothing,
}

/// Opens the store in an OSD's directory.
///
/// # Errors
/// See [`OpenError`].
pub fn open(dir: &Path, kind: StoreKind) -> Result<(AnyStore, Owner), OpenError> {
    let opened = open_kind(dir, kind);
    unless_half_converted(dir)?;
    opened
}

/// Looked for while the store is held: no conversion decides meanwhile. What would be changed is the old store, which is removed.
fn unless_half_converted(dir: &Path) -> Result<(), OpenError> {
    match dir.join(UNFINISHED_CONVERSION).exists() {
        true => Err(OpenError::HalfConverted),
        false => Ok(()),
    }
}

fn open_kind(dir: &Path, kind: StoreKind) -> Result<(AnyStore, Owner), OpenError> {
    match kind {
        StoreKind::Simple => {
            let store = simplestore::open(dir, &simplestore::Options::default())?;
            let owner = owner_of(&store);
            Ok((Blocking::new(Box::new(store)), owner))
        }
        StoreKind::Block => {
            let (store, _, owner) = blockfile::open_any(dir, &blockfile::Options::default())?;
            Ok((Blocking::new(Box::new(store)), owner))
        }
        StoreKind::Mem => Err(OpenError::KeepsNothing),
    }
}

fn owner_of(store: &SimpleStore) -> Owner {
    let label = store.label();
    Owner { cluster: label.cluster, osd: label.osd, osd_uuid: label.osd_uuid }
}

/// A store that was opened to be read.
pub struct ToRead {
    pub store: AnyStore,
    pub owner: Owner,
    /// What is damaged, a sentence each; the first says why [`open`] refuses the store.
    pub damage: Vec<String>,
    /// What of it can't be written, if so.
    pub read_only: Option<String>,
}

/// Opens the store in an OSD's directory to read it, also where it can't be written, and a block store in spite of damage: see
/// [`blockfile::open_to_read`].
///
/// # Errors
/// [`open`]'s, but for a block store's damage.
pub fn open_to_read(dir: &Path, kind: StoreKind) -> Result<ToRead, OpenError> {
    match kind {
        StoreKind::Simple => {
            let opened = simplestore::open_to_read(dir, &simplestore::Options::default());
            unless_half_converted(dir)?;
            let (store, read_only) = opened?;
            let (owner, damage) = (owner_of(&store), Vec::new());
            Ok(ToRead { store: Blocking::new(Box::new(store)), owner, damage, read_only })
        }
        StoreKind::Block => {
            let opened = blockfile::open_to_read(dir, &blockfile::Options::default());
            unless_half_converted(dir)?;
            let blockfile::ToRead { store, owner, damage, read_only, .. } = opened?;
            let read_only = read_only.map(|why| why.to_string());
            Ok(ToRead { store: Blocking::new(Box::new(store)), owner, damage, read_only })
        }
        StoreKind::Mem => Err(OpenError::KeepsNothing),
    }
}

/// Why a PG is not in the file, or not in the store.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    #[error("PG {0} is not in the store")]
    NoPg(PgId),
    #[error("PG {0} is in the store already: an import makes it whole or not at all, and adds to none")]
    Exists(PgId),
    #[error(
        "PG {0} is an import or a removal that did not get to its end: import it again, or remove it (`loligo store remove`)"
    )]
    Unfinished(PgId),
    #[error(
        "it is a PG of cluster {found}, and the store is of cluster {wanted}: pools of one number are others in another \
         cluster (--other-cluster takes it all the same)"
    )]
    OtherCluster { found: Fsid, wanted: Fsid },
    #[error(
        "the OSD knows no pool of this number: its newest map is of epoch {epoch}, the PG was of pool '{pool}'"
    )]
    NoPool { epoch: Epoch, pool: String },
    #[error(
        "the pool '{pool}' has {now} PGs, and had {then} when the PG was written to the file: its objects belong to others"
    )]
    OtherPgs { pool: String, then: u32, now: u32 },
    #[error(
        "the OSD's newest map is of epoch {has}, and the PG was written to the file in epoch {wanted}: start the OSD once, so \
         that it gets newer maps"
    )]
    OlderMaps { has: Epoch, wanted: Epoch },
    #[error(
        "the PG was written to the file in epoch {wanted} of its cluster, and this cluster's newest map that the OSD has is of epoch \
         {has}: the PG would serve no one before there is a map as new. Start this cluster, make more epochs (each `ceph osd set noout` \
         and each `ceph osd unset noout` makes one), start it once more, so that the OSD gets them, stop it, and import again"
    )]
    EarlierEpochs { has: Epoch, wanted: Epoch },
    #[error(
        "its objects know snapshots up to {} (of {object}), and pool '{pool}' has given out ids up to {given}: it would give these to \
         new snapshots. Start this cluster, have it begin behind them (`ceph osd pool set {pool} snap_seq N`, N as the other cluster's \
         `ceph osd pool ls detail -f json` has it), start it once more, so that the OSD hears of it, stop it, and import again", .newest.0
    )]
    NewerSnaps { object: Box<GHObject>, newest: SnapId, pool: String, given: u64 },
    #[error(
        "PG {pg} is there in part: {} objects were removed; {left}; `loligo store fsck` says what is damaged. What is left goes with a \
         new store alone: once `loligo store export` has saved the PGs that are wanted, {BEGIN_AGAIN}",
        .removed.objects
    )]
    Remains { pg: PgId, removed: Progress, left: Box<Left> },
    #[error("the OSD's maps: {0}")]
    Maps(String),
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    #[error("the file: {0}")]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Ended(#[from] Ended),
}

fn known<S: ObjectStore>(store: &mut Blocking<S>) -> Result<Salvaged, PgError> {
    let read = |request| Ok(Completion::Read { token: Token(0), result: store.read(request) });
    salvage(read).map_err(PgError::Maps)
}

/// Whether a collection is whole; `None` if it is not there.
///
/// # Errors
/// The store's.
pub fn is_whole<S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
) -> Result<Option<bool>, StoreError> {
    match store.read(ReadRequest::Collection { collection })? {
        ReadOutcome::Collection(stat) => Ok(stat.map(|stat| stat.is_whole())),
        other => Err(blockfile::unexpected(&other)),
    }
}

/// Writes a PG with everything that the store has of it. `on` hears of each record.
///
/// # Errors
/// See [`PgError`]. What was written is no whole export then, and an import says so.
pub fn export<S: ObjectStore>(
    store: &mut Blocking<S>,
    owner: &Owner,
    pg: PgId,
    out: impl Write,
    on: &mut dyn FnMut(&Progress) -> Result<(), Ended>,
) -> Result<Progress, PgError> {
    let collection = CollectionId::Pg(pg.into());
    match is_whole(store, collection)? {
        None => return Err(PgError::NoPg(pg)),
        Some(false) => return Err(PgError::Unfinished(pg)),
        Some(true) => {}
    }
    // A PG can be saved also where maps can't be read.
    let map = known(store).ok().and_then(|known| known.map);
    let (mut header, mut progress) = (
        Header {
            cluster: owner.cluster,
            osd: owner.osd,
            epoch: Epoch(0),
            pool: String::new(),
            pg_num: 0,
            pg,
        },
        Progress::default(),
    );
    if let Some(map) = map {
        header.epoch = map.epoch;
        header.pool = map.pool_names.get(&pg.pool).cloned().unwrap_or_default();
        header.pg_num = map.pools.get(&pg.pool).map_or(0, |pool| pool.pg_num);
    }
    let (mut stream, mut reader) = (StreamWriter::new(out, &header)?, Reader::new(collection));
    while let Some(record) = reader.next(store)? {
        progress.count(&record);
        on(&progress)?;
        stream.put(&record)?;
    }
    Ok(progress)
}

/// Puts a PG from a file into a store that has none of its number. Ended at any point, the next import begins again.
/// `other_cluster`: the file may be of another cluster.
///
/// # Errors
/// See [`PgError`]. Nothing of the PG is in the store then.
pub fn import<S: ObjectStore>(
    store: &mut Blocking<S>,
    owner: &Owner,
    input: impl Read,
    other_cluster: bool,
    on: &mut dyn FnMut(&Progress) -> Result<(), Ended>,
) -> Result<(Header, Progress), PgError> {
    let (mut stream, header) = StreamReader::new(input)?;
    if header.cluster != owner.cluster && !other_cluster {
        return Err(PgError::OtherCluster { found: header.cluster, wanted: owner.cluster });
    }
    let pool = check_maps(store, &header, other_cluster)?;
    let compression = compression_of_pool(&pool);
    // An opened store compresses nothing until its caller says how.
    store.store().set_compression(Some(header.pg.pool), compression);
    let collection = CollectionId::Pg(header.pg.into());
    match is_whole(store, collection)? {
        None => {}
        Some(false) => remove_collection(store, collection)?,
        Some(true) => return Err(PgError::Exists(header.pg)),
    }
    let mut check = |record: &Record| check_snaps(record, &header, &pool);
    match put_all(store, collection, &mut stream, &mut check, on) {
        Ok(progress) => Ok((header, progress)),
        // A kill would have left the same; the next import removes it.
        Err(ended @ PgError::Ended(_)) => Err(ended),
        Err(error) => {
            if is_whole(store, collection)? == Some(false) {
                remove_collection(store, collection)?;
            }
            Err(error)
        }
    }
}

/// The PG's pool. Refuses what the OSD would not know what to do with when it starts.
fn check_maps<S: ObjectStore>(
    store: &mut Blocking<S>,
    header: &Header,
    other_cluster: bool,
) -> Result<PgPool, PgError> {
    let map = known(store)?.map.ok_or_else(|| PgError::Maps("it never had one: start it once".to_owned()))?;
    let Some(pool) = map.pools.get(&header.pg.pool) else {
        return Err(PgError::NoPool { epoch: map.epoch, pool: header.pool.clone() });
    };
    if header.pg_num != 0 && header.pg_num != pool.pg_num {
        let (then, now) = (header.pg_num, pool.pg_num);
        return Err(PgError::OtherPgs { pool: header.pool.clone(), then, now });
    }
    // Also another cluster's epochs are in the PG's log, which goes on behind them.
    if map.epoch < header.epoch {
        let (has, wanted) = (map.epoch, header.epoch);
        return Err(match other_cluster {
            true => PgError::EarlierEpochs { has, wanted },
            false => PgError::OlderMaps { has, wanted },
        });
    }
    Ok(pool.clone())
}

/// Refuses objects with snapshots whose ids their pool would give out again.
fn check_snaps(record: &Record, header: &Header, pool: &PgPool) -> Result<(), PgError> {
    let Record::Object { object, attrs, .. } = record else { return Ok(()) };
    match newest_snap(&object.hobj, attrs).filter(|snap| *snap > pool.snap_seq && !object.is_pgmeta()) {
        None => Ok(()),
        Some(newest) => {
            let (object, pool_name, given) = (Box::new(object.clone()), header.pool.clone(), pool.snap_seq.0);
            Err(PgError::NewerSnaps { object, newest, pool: pool_name, given })
        }
    }
}

fn put_all<S: ObjectStore>(
    store: &mut Blocking<S>,
    wanted: CollectionId,
    stream: &mut StreamReader<impl Read>,
    check: &mut dyn FnMut(&Record) -> Result<(), PgError>,
    on: &mut dyn FnMut(&Progress) -> Result<(), Ended>,
) -> Result<Progress, PgError> {
    let (mut writer, mut progress) = (Writer::new(), Progress::default());
    while let Some(record) = stream.next_record()? {
        if let Record::Collection { collection, .. } = &record {
            if *collection != wanted {
                let why = format!("it says {wanted} in front, and has {collection}");
                return Err(StreamError::Damaged { at: 0, why }.into());
            }
        }
        check(&record)?;
        progress.count(&record);
        on(&progress)?;
        writer.put(store, record)?;
    }
    Ok(progress)
}
