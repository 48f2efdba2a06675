//! The class `rbd`: images and their snapshots, with inputs as librbd encodes them.

use std::collections::BTreeMap;

use cls::testing::{Answer, Object};
use encoding::{Decode, Decoder, Encode, Encoder};
use types::{Errno, Name, UTime};

const HEAD: u64 = u64::MAX - 1;
const LAYERING: u64 = 1;
const OBJECT_MAP: u64 = 1 << 3;
const DEEP_FLATTEN: u64 = 1 << 5;
const OPERATIONS: u64 = 1 << 8;
const MIGRATING: u64 = 1 << 9;

fn bytes(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(u64::MAX);
    write(&mut e);
    e.into_bytes()
}

fn call(object: &mut Object, method: &str, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Answer {
    object.call("rbd", method, &bytes(write))
}

/// What a method returns.
fn get<T: Decode>(object: &mut Object, method: &str, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> T {
    let reply = call(object, method, write).ok();
    T::from_bytes_exact(&reply).expect("a reply")
}

fn nothing(e: &mut Encoder) -> &mut Encoder {
    e
}

const SIZE: u64 = 10 << 22;

fn image(features: u64) -> Object {
    let mut object = Object::empty();
    call(&mut object, "create", |e| e.put(&SIZE).put(&22_u8).put(&features).put("rbd_data.1")).ok();
    object
}

fn op_features(image: &mut Object) -> (u64, u64) {
    let all: u64 = get(image, "op_features_get", nothing);
    let (features, _): (u64, u64) = get(image, "get_features", |e| e.put(&HEAD).put(&true));
    (all, features & OPERATIONS)
}

fn add_snap(image: &mut Object, name: &str, id: u64) -> Answer {
    call(image, "snapshot_add", |e| e.put(name).put(&id))
}

#[test]
fn a_new_image_has_what_it_was_created_with() {
    let mut image = image(LAYERING | OBJECT_MAP);
    let again = call(&mut image, "create", |e| e.put(&SIZE).put(&22_u8).put(&0_u64).put("rbd_data.1"));
    assert!(again.is(Errno::EEXIST));
    assert_eq!(get::<(u8, u64)>(&mut image, "get_size", |e| e.put(&HEAD)), (22, SIZE));
    assert_eq!(get::<Name>(&mut image, "get_object_prefix", nothing), "rbd_data.1".into());
    assert_eq!(get::<i64>(&mut image, "get_data_pool", nothing), -1);
    assert_eq!(get::<u64>(&mut image, "get_flags", |e| e.put(&HEAD)), 0);
    let (features, incompatible): (u64, u64) = get(&mut image, "get_features", |e| e.put(&HEAD).put(&true));
    assert_eq!((features, incompatible), (LAYERING | OBJECT_MAP, LAYERING));
    let created: UTime = get(&mut image, "get_create_timestamp", nothing);
    assert_eq!(created, image.now);
    image.now.sec += 5;
    call(&mut image, "set_modify_timestamp", nothing).ok();
    assert_eq!(get::<UTime>(&mut image, "get_modify_timestamp", nothing).sec, created.sec + 5);
    assert_eq!(get::<UTime>(&mut image, "get_access_timestamp", nothing), created);
}

#[test]
fn an_image_that_can_not_be_is_not_created() {
    let create = |features: u64, prefix: &str, pool: Option<i64>| {
        let mut object = Object::empty();
        let mut input = bytes(|e| e.put(&SIZE).put(&22_u8).put(&features).put(prefix));
        input.extend(pool.map(|pool| pool.to_bytes(0)).unwrap_or_default());
        object.call("rbd", "create", &input)
    };
    assert!(create(1 << 12, "p", None).is(Errno(38)));
    assert!(create(0, "", None).is(Errno::EINVAL));
    assert!(create(OPERATIONS, "p", None).is(Errno::EINVAL));
    assert!(create(1 << 7, "p", None).is(Errno::EINVAL));
    assert!(create(0, "p", Some(3)).is(Errno::EINVAL));
    create(0, "p", Some(-1)).ok();
    create(1 << 7, "p", Some(3)).ok();
    assert!(Object::empty().call("rbd", "create", &[1]).is(Errno::EINVAL));
}

#[test]
fn features_are_switched_where_they_can_be() {
    let mut image = image(LAYERING | DEEP_FLATTEN);
    let mut set =
        |features: u64, mask: u64| call(&mut image, "set_features", |e| e.put(&features).put(&mask));
    set(OBJECT_MAP, OBJECT_MAP).ok();
    assert!(set(0, LAYERING).is(Errno::EINVAL));
    assert!(set(DEEP_FLATTEN, DEEP_FLATTEN).is(Errno::EINVAL));
    assert!(set(OPERATIONS, OPERATIONS).is(Errno::EINVAL));
    set(0, DEEP_FLATTEN).ok();
    let (features, _): (u64, u64) = get(&mut image, "get_features", |e| e.put(&HEAD));
    assert_eq!(features, LAYERING | OBJECT_MAP);
}

#[test]
fn snapshots_keep_the_size_of_their_time() {
    let mut image = image(LAYERING);
    add_snap(&mut image, "one", 3).ok();
    call(&mut image, "set_size", |e| e.put(&(2 * SIZE))).ok();
    add_snap(&mut image, "two", 7).ok();
    assert_eq!(get::<(u8, u64)>(&mut image, "get_size", |e| e.put(&3_u64)), (22, SIZE));
    assert_eq!(get::<(u8, u64)>(&mut image, "get_size", |e| e.put(&7_u64)), (22, 2 * SIZE));
    assert_eq!(get::<(u64, Vec<u64>)>(&mut image, "get_snapcontext", nothing), (7, vec![7, 3]));
    assert_eq!(get::<Name>(&mut image, "get_snapshot_name", |e| e.put(&3_u64)), "one".into());
    assert!(add_snap(&mut image, "one", 8).is(Errno::EEXIST));
    assert!(add_snap(&mut image, "three", 6).is(Errno::ESTALE));
    assert!(call(&mut image, "snapshot_rename", |e| e.put(&3_u64).put("two")).is(Errno::EEXIST));
    call(&mut image, "snapshot_rename", |e| e.put(&3_u64).put("first")).ok();
    call(&mut image, "set_protection_status", |e| e.put(&3_u64).put(&2_u8)).ok();
    assert_eq!(get::<u8>(&mut image, "get_protection_status", |e| e.put(&3_u64)), 2);
    assert!(call(&mut image, "snapshot_remove", |e| e.put(&3_u64)).is(Errno::EBUSY));
    call(&mut image, "snapshot_remove", |e| e.put(&7_u64)).ok();
    assert!(call(&mut image, "snapshot_remove", |e| e.put(&7_u64)).is(Errno::ENOENT));
    assert_eq!(get::<(u64, Vec<u64>)>(&mut image, "get_snapcontext", nothing), (7, vec![3]));
}

#[test]
fn more_snapshots_than_a_page_of_keys_are_all_found() {
    let mut image = image(LAYERING);
    image.limits.omap_entries_max = 4;
    for id in 1..=11_u64 {
        add_snap(&mut image, &format!("s{id}"), id).ok();
    }
    let ids: Vec<u64> = (1..=11).rev().collect();
    assert_eq!(get::<(u64, Vec<u64>)>(&mut image, "get_snapcontext", nothing), (11, ids));
    assert!(call(&mut image, "snapshot_set_limit", |e| e.put(&10_u64)).is(Errno::ERANGE));
    call(&mut image, "snapshot_set_limit", |e| e.put(&11_u64)).ok();
    assert!(add_snap(&mut image, "s12", 12).is(Errno::EDQUOT));
    call(&mut image, "snapshot_set_limit", |e| e.put(&u64::MAX)).ok();
    add_snap(&mut image, "s12", 12).ok();
}

#[test]
fn a_snapshot_in_the_trash_has_another_name_and_marks_its_image() {
    let mut image = image(LAYERING);
    add_snap(&mut image, "one", 3).ok();
    call(&mut image, "snapshot_trash_add", |e| e.put(&3_u64)).ok();
    assert_eq!(op_features(&mut image), (8, OPERATIONS));
    let name: Name = get(&mut image, "get_snapshot_name", |e| e.put(&3_u64));
    assert_eq!((name.len(), name[14], name[8]), (36, b'4', b'-'));
    assert!(call(&mut image, "snapshot_trash_add", |e| e.put(&3_u64)).is(Errno::EEXIST));
    call(&mut image, "snapshot_remove", |e| e.put(&3_u64)).ok();
    assert_eq!(op_features(&mut image), (0, 0));
}

fn parent_spec(e: &mut Encoder) -> &mut Encoder {
    e.versioned(1, 1, |e| {
        e.put(&5_i64).put("ns").put("parent").put(&9_u64);
    })
}

fn overlap(image: &mut Object, snap: u64) -> Option<u64> {
    get(image, "parent_overlap_get", |e| e.put(&snap))
}

#[test]
fn a_clone_that_shrinks_loses_what_it_had_of_its_parent() {
    let mut image = image(LAYERING);
    let attach = |image: &mut Object| call(image, "parent_attach", |e| parent_spec(e).put(&(2 * SIZE)));
    attach(&mut image).ok();
    assert!(attach(&mut image).is(Errno::EEXIST));
    assert_eq!(overlap(&mut image, HEAD), Some(SIZE));
    add_snap(&mut image, "one", 3).ok();
    call(&mut image, "set_size", |e| e.put(&1000_u64)).ok();
    call(&mut image, "set_size", |e| e.put(&SIZE)).ok();
    assert_eq!((overlap(&mut image, HEAD), overlap(&mut image, 3)), (Some(1000), Some(SIZE)));
    // Old clients know of no namespaces.
    assert!(call(&mut image, "get_parent", |e| e.put(&HEAD)).is(Errno::EXDEV));
    assert!(call(&mut image, "remove_parent", nothing).is(Errno::EXDEV));
}

#[test]
fn a_flattened_clone_stays_one_while_a_snapshot_is() {
    let mut image = image(LAYERING);
    call(&mut image, "parent_attach", |e| parent_spec(e).put(&SIZE)).ok();
    call(&mut image, "op_features_set", |e| e.put(&2_u64).put(&2_u64)).ok();
    add_snap(&mut image, "one", 3).ok();
    call(&mut image, "parent_detach", nothing).ok();
    assert_eq!((overlap(&mut image, HEAD), overlap(&mut image, 3)), (None, Some(SIZE)));
    assert_eq!(call(&mut image, "parent_get", nothing).ok(), bytes(parent_spec));
    assert_eq!(op_features(&mut image), (2, OPERATIONS));
    call(&mut image, "snapshot_remove", |e| e.put(&3_u64)).ok();
    assert_ne!(call(&mut image, "parent_get", nothing).ok(), bytes(parent_spec));
    assert_eq!(op_features(&mut image), (0, 0));
}

#[test]
fn deep_flatten_takes_the_parent_from_snapshots_too() {
    let mut image = image(LAYERING | DEEP_FLATTEN);
    call(&mut image, "parent_attach", |e| parent_spec(e).put(&SIZE)).ok();
    add_snap(&mut image, "one", 3).ok();
    call(&mut image, "parent_detach", nothing).ok();
    assert_eq!((overlap(&mut image, HEAD), overlap(&mut image, 3)), (None, None));
    assert!(call(&mut image, "parent_detach", nothing).is(Errno::ENOENT));
}

#[test]
fn a_snapshot_with_children_stays() {
    let mut image = image(LAYERING);
    add_snap(&mut image, "one", 3).ok();
    let child = |e: &mut Encoder| {
        e.put(&3_u64).versioned(2, 1, |e| {
            e.put(&4_i64).put("child").put("");
        });
    };
    let mut with_child = |method: &str| {
        let mut e = Encoder::new(0);
        child(&mut e);
        image.call("rbd", method, e.as_slice())
    };
    with_child("child_attach").ok();
    assert!(with_child("child_attach").is(Errno::EEXIST));
    assert_eq!(op_features(&mut image), (1, OPERATIONS));
    assert!(call(&mut image, "snapshot_remove", |e| e.put(&3_u64)).is(Errno::EBUSY));
    let mut with_child = |method: &str| {
        let mut e = Encoder::new(0);
        child(&mut e);
        image.call("rbd", method, e.as_slice())
    };
    with_child("child_detach").ok();
    assert!(with_child("child_detach").is(Errno::ENOENT));
    assert_eq!(op_features(&mut image), (0, 0));
    assert!(call(&mut image, "children_list", |e| e.put(&3_u64)).is(Errno::ENOENT));
    call(&mut image, "snapshot_remove", |e| e.put(&3_u64)).ok();
}

#[test]
fn an_old_header_s_parent_moves_out_of_its_snapshots() {
    let mut image = image(LAYERING);
    // As Mimic wrote it: version 7, compatible with 1, the parent inside.
    let old = bytes(|e| {
        e.versioned(7, 1, |e| {
            e.put(&3_u64).put("one").put(&SIZE).put(&0_u64);
            e.versioned(1, 1, |e| {
                e.put(&5_i64).put("parent").put(&9_u64).put(&1000_u64);
            });
            e.put(&0_u8).put(&0_u64).versioned(1, 1, |e| {
                e.put(&0_u32);
            });
            e.put(&UTime::default()).put(&0_u32);
        })
    });
    image.stored.omap.insert("snapshot_0000000000000003".into(), old);
    assert_eq!(overlap(&mut image, 3), Some(1000));
    call(&mut image, "set_flags", |e| e.put(&1_u64).put(&1_u64).put(&3_u64)).ok();
    assert_eq!((overlap(&mut image, 3), overlap(&mut image, HEAD)), (Some(1000), None));
    assert!(image.stored.omap.contains_key(&Name::from("parent")));
    assert_eq!(get::<u64>(&mut image, "get_flags", |e| e.put(&3_u64)), 1);
}

#[test]
fn metadata_are_listed_by_name() {
    let mut image = image(0);
    let pairs: BTreeMap<Name, Name> = (0..9).map(|n| (format!("k{n}").into(), "v".into())).collect();
    call(&mut image, "metadata_set", |e| e.put(&pairs)).ok();
    call(&mut image, "metadata_remove", |e| e.put("k3")).ok();
    assert!(call(&mut image, "metadata_get", |e| e.put("k3")).is(Errno::ENOENT));
    assert_eq!(get::<Name>(&mut image, "metadata_get", |e| e.put("k4")), "v".into());
    let some: BTreeMap<Name, Name> = get(&mut image, "metadata_list", |e| e.put("k1").put(&3_u64));
    assert_eq!(some.into_keys().collect::<Vec<_>>(), ["k2".into(), "k4".into(), "k5".into()]);
    let all: BTreeMap<Name, Name> = get(&mut image, "metadata_list", |e| e.put("").put(&0_u64));
    assert_eq!(all.len(), 8);
}

#[test]
fn an_id_is_written_once() {
    assert!(call(&mut Object::absent(), "set_id", |e| e.put("1a")).is(Errno::ENOENT));
    let mut object = Object::empty();
    assert!(call(&mut object, "get_id", nothing).is(Errno::ENOENT));
    assert!(call(&mut object, "set_id", |e| e.put("1-a")).is(Errno::EINVAL));
    call(&mut object, "set_id", |e| e.put("1a")).ok();
    assert!(call(&mut object, "set_id", |e| e.put("2a")).is(Errno::EEXIST));
    assert_eq!(get::<Name>(&mut object, "get_id", nothing), "1a".into());
}

#[test]
fn a_header_of_format_1_keeps_its_snapshots_in_its_data() {
    let mut image = Object::empty();
    image.stored.data = [b"<<< Rados Block Device Image >>>\n".as_slice(), &[0; 112 - 33]].concat();
    image.stored.data[80..88].copy_from_slice(&SIZE.to_le_bytes());
    image.state.info.size = 112;
    call(&mut image, "snap_add", |e| e.put("one").put(&3_u64)).ok();
    call(&mut image, "snap_add", |e| e.put("two").put(&5_u64)).ok();
    assert!(call(&mut image, "snap_add", |e| e.put("one").put(&6_u64)).is(Errno::EEXIST));
    assert!(call(&mut image, "snap_add", |e| e.put("three").put(&4_u64)).is(Errno::ESTALE));
    call(&mut image, "snap_rename", |e| e.put(&3_u64).put("first")).ok();
    type Snaps = (u64, Vec<(u64, (u64, Name))>);
    let snaps: Snaps = get(&mut image, "snap_list", nothing);
    assert_eq!(snaps, (5, vec![(5, (SIZE, "two".into())), (3, (SIZE, "first".into()))]));
    assert!(call(&mut image, "snapshot_set_limit", |e| e.put(&1_u64)).is(Errno::ERANGE));
    call(&mut image, "snap_remove", |e| e.put("two")).ok();
    assert_eq!(image.stored.data.len(), 112 + 16 + 6);
    call(&mut image, "snap_remove", |e| e.put("first")).ok();
    assert_eq!(image.stored.data.len(), 112);
    // A header that says more than there is.
    image.stored.data[96] = 200;
    assert!(call(&mut image, "snap_list", nothing).is(Errno::EIO));
}

fn migration(header_type: u8) -> Vec<u8> {
    bytes(|e| {
        e.versioned(3, 1, |e| {
            e.put(&header_type).put(&2_i64).put("").put("name").put("id").put(&BTreeMap::<u64, u64>::new());
            e.put(&0_u64).put(&false).put(&false).put(&1_u8).put("").put(&0_u8).put("");
        })
    })
}

#[test]
fn an_image_that_is_moved_is_marked() {
    let mut image = image(LAYERING);
    assert!(call(&mut image, "migration_get", nothing).is(Errno::EINVAL));
    image.call("rbd", "migration_set", &migration(1)).ok();
    assert!(image.call("rbd", "migration_set", &migration(1)).is(Errno::EEXIST));
    call(&mut image, "migration_set_state", |e| e.put(&2_u8).put("ready")).ok();
    let stored = call(&mut image, "migration_get", nothing).ok();
    assert!(stored.windows(5).any(|w| w == b"ready"));
    let (features, _): (u64, u64) = get(&mut image, "get_features", |e| e.put(&HEAD));
    assert_eq!(features, LAYERING | MIGRATING);
    call(&mut image, "migration_remove", nothing).ok();
    let (features, _): (u64, u64) = get(&mut image, "get_features", |e| e.put(&HEAD));
    assert_eq!(features, LAYERING);
}

#[test]
fn an_image_of_format_1_that_is_moved_begins_otherwise() {
    let mut image = Object::empty();
    image.stored.data = [b"<<< Rados Block Device Image >>>\n".as_slice(), &[0; 20]].concat();
    image.state.info.size = 53;
    assert!(image.call("rbd", "migration_set", &migration(2)).is(Errno::EINVAL));
    image.call("rbd", "migration_set", &migration(1)).ok();
    assert!(image.stored.data.starts_with(b"<<< Migrating RBD Image      >>>\n\0"));
    call(&mut image, "migration_remove", nothing).ok();
    assert!(image.stored.data.starts_with(b"<<< Rados Block Device Image >>>\n\0"));
}

#[test]
fn copyup_leaves_an_object_that_is_there_alone() {
    let mut object = Object::absent();
    object.call("rbd", "copyup", b"parent").ok();
    object.call("rbd", "copyup", b"again!").ok();
    assert_eq!(object.stored.data, b"parent");
    let extents: BTreeMap<u64, u64> = [(2, 3), (8, 1)].into();
    let mut object = Object::absent();
    assert!(call(&mut object, "sparse_copyup", |e| e.put(&extents).put("abc")).is(Errno::EINVAL));
    call(&mut object, "sparse_copyup", |e| e.put(&extents).put("abcd")).ok();
    assert_eq!(object.stored.data, b"\0\0abc\0\0\0d");
}

#[test]
fn pages_of_a_copyup_come_where_they_belong() {
    let data: Vec<u8> = (0..50_000u32).map(|i| (i * 3 + i / 256) as u8).collect();
    let mut object = Object::absent();
    object.call("rbd", "copyup", &data).ok();
    assert!(object.stored.data == data);
    let extents: BTreeMap<u64, u64> = [(0, 4100), (8191, 45_000), (60_000, 900)].into();
    let mut object = Object::absent();
    call(&mut object, "sparse_copyup", |e| e.put(&extents).put(&Name::from(data.clone()))).ok();
    let parts = [&data[..4100], &[0; 4091], &data[4100..49_100], &[0; 6809], &data[49_100..]];
    assert!(object.stored.data == parts.concat());
}

#[test]
fn a_sparse_copyup_that_ends_early_is_refused() {
    let extents: BTreeMap<u64, u64> = [(2, 3), (8, 1)].into();
    let whole = bytes(|e| e.put(&extents).put("abcd"));
    for len in 0..whole.len() {
        let mut object = Object::absent();
        assert!(object.call("rbd", "sparse_copyup", &whole[..len]).is(Errno::EINVAL), "cut at {len}");
    }
    let mut many = whole;
    many[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Object::absent().call("rbd", "sparse_copyup", &many).is(Errno::EINVAL));
}

#[test]
fn zeros_are_taken_out_of_an_object() {
    let sparsify = |data: &[u8], remove: bool| {
        let mut object = Object::absent();
        object.call("rbd", "copyup", data).ok();
        call(&mut object, "sparsify", |e| e.put(&4_u64).put(&remove)).ok();
        (object.exists(), object.stored.data)
    };
    assert_eq!(sparsify(b"\0\0\0\0\0\0", true), (false, vec![]));
    assert_eq!(sparsify(b"\0\0\0\0\0\0", false), (true, vec![]));
    assert_eq!(sparsify(b"a\0\0\0\0\0", false), (true, b"a\0\0\0".to_vec()));
    assert_eq!(sparsify(b"a\0\0\0\0\0\0\0b", false), (true, b"a\0\0\0\0\0\0\0b".to_vec()));
    let mut object = Object::absent();
    object.call("rbd", "copyup", b"a").ok();
    assert!(call(&mut object, "sparsify", |e| e.put(&0_u64).put(&false)).is(Errno::EINVAL));
}

#[test]
fn a_write_is_kept_to_the_snapshots_it_was_made_for() {
    let assert_seq = |object: &mut Object, seq: u64, state: u8| {
        call(object, "assert_snapc_seq", |e| e.put(&seq).put(&state))
    };
    assert_seq(&mut Object::absent(), 0, 0).ok();
    assert!(assert_seq(&mut Object::absent(), 0, 1).is(Errno::ERANGE));
    let mut object = Object::empty();
    object.state.snapset.seq = 5;
    assert_seq(&mut object, 6, 0).ok();
    assert!(assert_seq(&mut object, 5, 0).is(Errno::ERANGE));
    assert_seq(&mut object, 5, 1).ok();
    assert!(assert_seq(&mut object, 6, 1).is(Errno::ERANGE));
    assert!(assert_seq(&mut object, 6, 2).is(Errno::EOPNOTSUPP));
}

/// What `object_map_load` returns: the objects' states.
fn object_map(object: &mut Object) -> Vec<u8> {
    let reply = call(object, "object_map_load", nothing).ok();
    let mut d = Decoder::new(&reply);
    let header = d.blob("header").expect("a header");
    let len: u64 = Decoder::new(header).versioned(1, "header", |d, _| d.get()).expect("a length");
    let data = d.take(len.div_ceil(4) as usize, "data").expect("the data");
    assert_eq!(d.rest(), [0; 4], "no checksums");
    (0..len as usize).map(|at| data[at / 4] >> (6 - at % 4 * 2) & 3).collect()
}

fn update(object: &mut Object, range: std::ops::Range<u64>, new: u8, old: Option<u8>) -> Answer {
    call(object, "object_map_update", |e| e.put(&range.start).put(&range.end).put(&new).put(&old))
}

#[test]
fn an_object_map_follows_its_image() {
    let mut map = Object::empty();
    assert!(call(&mut map, "object_map_load", nothing).is(Errno::ENOENT));
    call(&mut map, "object_map_resize", |e| e.put(&6_u64).put(&0_u8)).ok();
    update(&mut map, 1..3, 1, None).ok();
    update(&mut map, 0..6, 2, Some(1)).ok();
    assert_eq!(object_map(&mut map), [0, 2, 2, 0, 0, 0]);
    update(&mut map, 2..3, 1, Some(2)).ok();
    call(&mut map, "object_map_snap_add", nothing).ok();
    assert_eq!(object_map(&mut map), [0, 2, 3, 0, 0, 0]);
    // An object that is clean is there as well.
    update(&mut map, 0..6, 0, Some(1)).ok();
    assert_eq!(object_map(&mut map), [0, 2, 0, 0, 0, 0]);
    assert!(update(&mut map, 5..7, 1, None).is(Errno::ERANGE));
    assert!(update(&mut map, 5..5, 1, None).is(Errno::ERANGE));
    assert!(call(&mut map, "object_map_resize", |e| e.put(&1_u64).put(&0_u8)).is(Errno::ESTALE));
    call(&mut map, "object_map_resize", |e| e.put(&2_u64).put(&0_u8)).ok();
    call(&mut map, "object_map_resize", |e| e.put(&9_u64).put(&1_u8)).ok();
    assert_eq!(object_map(&mut map), [0, 2, 1, 1, 1, 1, 1, 1, 1]);
    assert!(call(&mut map, "object_map_resize", |e| e.put(&256_000_001_u64).put(&0_u8)).is(Errno::EINVAL));
}

#[test]
fn an_update_of_a_large_map_keeps_every_checksum_right() {
    const PER_BLOCK: u64 = 4096 * 4;
    let mut map = Object::empty();
    call(&mut map, "object_map_resize", |e| e.put(&(3 * PER_BLOCK + 5)).put(&0_u8)).ok();
    update(&mut map, PER_BLOCK - 1..2 * PER_BLOCK + 1, 1, None).ok();
    update(&mut map, 3 * PER_BLOCK..3 * PER_BLOCK + 5, 3, None).ok();
    // Reads all and checks it.
    let states = object_map(&mut map);
    let ones = states.iter().filter(|state| **state == 1).count() as u64;
    assert_eq!((ones, states[PER_BLOCK as usize - 2..][..2].to_vec()), (PER_BLOCK + 2, vec![0, 1]));
    assert_eq!(states[states.len() - 6..], [0, 3, 3, 3, 3, 3]);
    // A bit that turned is found by an update of its block, and by none of another.
    map.stored.data[18 + 4096 + 7] ^= 1;
    update(&mut map, 0..1, 1, None).ok();
    assert!(update(&mut map, PER_BLOCK..PER_BLOCK + 1, 2, None).is(Errno::EINVAL));
    assert!(call(&mut map, "object_map_load", nothing).is(Errno::EINVAL));
}

#[test]
fn a_saved_map_gets_checksums_and_a_removed_snapshot_s_changes() {
    // 01 10 11 00, 01: five objects, no footer.
    let plain = bytes(|e| {
        e.sized(|e| {
            e.versioned(1, 1, |e| {
                e.put(&5_u64);
            });
        });
        e.raw(&[0b0110_1100, 0b0100_0000]).put(&0_u32)
    });
    let mut map = Object::empty();
    map.call("rbd", "object_map_save", &plain).ok();
    assert_eq!(map.stored.data.len(), 18 + 2 + 4 + 12);
    assert_eq!(object_map(&mut map), [1, 2, 3, 0, 1]);
    // What is clean here and was written in the snapshot removed was written since the one before.
    let mut newer = Object::empty();
    newer.call("rbd", "object_map_save", &plain).ok();
    update(&mut newer, 0..5, 3, None).ok();
    newer.call("rbd", "object_map_snap_remove", &plain).ok();
    assert_eq!(object_map(&mut newer), [1, 3, 3, 3, 1]);
    assert!(map.call("rbd", "object_map_save", &plain[..19]).is(Errno::EINVAL));
    let huge = bytes(|e| {
        e.sized(|e| {
            e.versioned(1, 1, |e| {
                e.put(&u64::MAX);
            });
        })
    });
    assert!(map.call("rbd", "object_map_save", &huge).is(Errno::EINVAL));
}
