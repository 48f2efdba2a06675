//! The class `rbd`: what it keeps for a pool: lists, groups and mirroring.

use std::collections::BTreeMap;

use cls::testing::{Answer, Object};
use encoding::{Decode, Encode, Encoder};
use ops::WatchInfo;
use types::{Errno, Name, UTime};

fn bytes(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(u64::MAX);
    write(&mut e);
    e.into_bytes()
}

fn call(object: &mut Object, method: &str, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Answer {
    object.call("rbd", method, &bytes(write))
}

fn get<T: Decode>(object: &mut Object, method: &str, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> T {
    let reply = call(object, method, write).ok();
    T::from_bytes_exact(&reply).expect("a reply")
}

fn nothing(e: &mut Encoder) -> &mut Encoder {
    e
}

type Names = BTreeMap<Name, Name>;

#[test]
fn images_and_groups_are_found_by_name_and_by_id() {
    for (add, remove, rename, list) in [
        ("dir_add_image", "dir_remove_image", "dir_rename_image", "dir_list"),
        ("group_dir_add", "group_dir_remove", "group_dir_rename", "group_dir_list"),
    ] {
        let mut dir = Object::absent();
        call(&mut dir, add, |e| e.put("a").put("1")).ok();
        call(&mut dir, add, |e| e.put("b").put("2")).ok();
        assert!(call(&mut dir, add, |e| e.put("a").put("3")).is(Errno::EEXIST));
        assert!(call(&mut dir, add, |e| e.put("c").put("2")).is(Errno::EBADF));
        assert!(call(&mut dir, add, |e| e.put("").put("3")).is(Errno::EINVAL));
        assert!(call(&mut dir, add, |e| e.put("c").put("3_")).is(Errno::EINVAL));
        assert_eq!(get::<Name>(&mut dir, "dir_get_id", |e| e.put("b")), "2".into());
        assert_eq!(get::<Name>(&mut dir, "dir_get_name", |e| e.put("1")), "a".into());
        call(&mut dir, rename, |e| e.put("a").put("z").put("1")).ok();
        assert!(call(&mut dir, rename, |e| e.put("a").put("y").put("1")).is(Errno::ENOENT));
        assert!(call(&mut dir, remove, |e| e.put("z").put("2")).is(Errno::ESTALE));
        let names: Names = [("b".into(), "2".into()), ("z".into(), "1".into())].into();
        assert_eq!(get::<Names>(&mut dir, list, |e| e.put("").put(&9_u64)), names);
        assert_eq!(get::<Names>(&mut dir, list, |e| e.put("b").put(&9_u64)).len(), 1);
        assert_eq!(get::<Names>(&mut dir, list, |e| e.put("").put(&1_u64)).len(), 1);
        call(&mut dir, remove, |e| e.put("z").put("1")).ok();
        assert!(call(&mut dir, "dir_get_id", |e| e.put("z")).is(Errno::ENOENT));
    }
}

#[test]
fn a_directory_of_any_length_is_listed_whole() {
    let mut dir = Object::absent();
    dir.limits.omap_entries_max = 7;
    for n in 0..50 {
        call(&mut dir, "dir_add_image", |e| e.put(&format!("image{n}")).put(&format!("id{n}"))).ok();
    }
    assert_eq!(get::<Names>(&mut dir, "dir_list", |e| e.put("").put(&u64::MAX)).len(), 50);
    assert_eq!(get::<Names>(&mut dir, "dir_list", |e| e.put("").put(&33_u64)).len(), 33);
}

#[test]
fn adding_to_a_directory_is_disabled_while_it_is_empty() {
    let mut dir = Object::absent();
    assert!(call(&mut dir, "dir_state_set", |e| e.put(&1_u8)).is(Errno::ENOENT));
    call(&mut dir, "dir_state_set", |e| e.put(&0_u8)).ok();
    call(&mut dir, "dir_state_assert", |e| e.put(&0_u8)).ok();
    assert!(call(&mut dir, "dir_state_assert", |e| e.put(&1_u8)).is(Errno::ENOENT));
    call(&mut dir, "dir_add_image", |e| e.put("a").put("1")).ok();
    assert!(call(&mut dir, "dir_state_set", |e| e.put(&1_u8)).is(Errno::EBUSY));
    call(&mut dir, "dir_remove_image", |e| e.put("a").put("1")).ok();
    call(&mut dir, "dir_state_set", |e| e.put(&1_u8)).ok();
    assert!(call(&mut dir, "dir_state_set", |e| e.put(&2_u8)).is(Errno::EINVAL));
}

fn trash_image(e: &mut Encoder) -> &mut Encoder {
    e.versioned(2, 1, |e| {
        e.put(&0_u8).put("name").put(&UTime::default()).put(&UTime::default()).put(&0_u8);
    })
}

#[test]
fn an_image_in_the_trash_changes_its_state_once() {
    let mut trash = Object::absent();
    call(&mut trash, "trash_add", |e| trash_image(e.put("1"))).ok();
    assert!(call(&mut trash, "trash_add", |e| trash_image(e.put("1"))).is(Errno::EEXIST));
    assert_eq!(call(&mut trash, "trash_get", |e| e.put("1")).ok(), bytes(trash_image));
    call(&mut trash, "trash_state_set", |e| e.put("1").put(&2_u8).put(&0_u8)).ok();
    call(&mut trash, "trash_state_set", |e| e.put("1").put(&2_u8).put(&0_u8)).ok();
    assert!(call(&mut trash, "trash_state_set", |e| e.put("1").put(&3_u8).put(&0_u8)).is(Errno::ESTALE));
    let listed = call(&mut trash, "trash_list", |e| e.put("").put(&9_u64)).ok();
    assert_eq!(listed[..9], [1, 0, 0, 0, 1, 0, 0, 0, b'1']);
    call(&mut trash, "trash_remove", |e| e.put("1")).ok();
    assert!(call(&mut trash, "trash_remove", |e| e.put("1")).is(Errno::ENOENT));
}

#[test]
fn namespaces_are_listed_in_order() {
    let mut object = Object::absent();
    for name in ["b", "a", "c"] {
        call(&mut object, "namespace_add", |e| e.put(name)).ok();
    }
    assert!(call(&mut object, "namespace_add", |e| e.put("a")).is(Errno::EEXIST));
    call(&mut object, "namespace_remove", |e| e.put("b")).ok();
    assert!(call(&mut object, "namespace_remove", |e| e.put("b")).is(Errno::ENOENT));
    let names: Vec<Name> = get(&mut object, "namespace_list", |e| e.put("").put(&9_u64));
    assert_eq!(names, ["a".into(), "c".into()]);
}

fn group_image(pool: i64, id: &str) -> Vec<u8> {
    bytes(|e| {
        e.versioned(1, 1, |e| {
            e.put(id).put(&pool);
        })
    })
}

#[test]
fn a_group_lists_its_images_with_their_states() {
    let mut group = Object::empty();
    let status = |pool: i64, id: &str, state: u8| {
        bytes(|e| {
            e.versioned(1, 1, |e| {
                e.raw(&group_image(pool, id)).put(&state);
            })
        })
    };
    for (pool, id, state) in [(2, "a", 1), (26, "b_c", 0)] {
        group.call("rbd", "group_image_set", &status(pool, id, state)).ok();
    }
    let list = |group: &mut Object, after: Vec<u8>| {
        call(group, "group_image_list", |e| e.raw(&after).put(&9_u64)).ok()
    };
    let both = [2_u32.to_bytes(0), status(2, "a", 1), status(26, "b_c", 0)].concat();
    assert_eq!(list(&mut group, group_image(-1, "")), both);
    assert_eq!(list(&mut group, group_image(2, "a")), [1_u32.to_bytes(0), status(26, "b_c", 0)].concat());
    group.call("rbd", "group_image_remove", &group_image(2, "a")).ok();
    assert_eq!(list(&mut group, group_image(-1, "")), [1_u32.to_bytes(0), status(26, "b_c", 0)].concat());
}

#[test]
fn an_image_is_in_one_group() {
    let mut image = Object::empty();
    call(&mut image, "create", |e| e.put(&0_u64).put(&22_u8).put(&1_u64).put("p")).ok();
    let group = |id: &str| {
        bytes(|e| {
            e.versioned(1, 1, |e| {
                e.put(&2_i64).put(id);
            })
        })
    };
    image.call("rbd", "image_group_add", &group("1")).ok();
    image.call("rbd", "image_group_add", &group("1")).ok();
    assert!(image.call("rbd", "image_group_add", &group("2")).is(Errno::EEXIST));
    assert_eq!(get::<u64>(&mut image, "op_features_get", nothing), 4);
    assert_eq!(call(&mut image, "image_group_get", nothing).ok(), group("1"));
    assert!(image.call("rbd", "image_group_remove", &group("2")).is(Errno::EBADF));
    image.call("rbd", "image_group_remove", &group("1")).ok();
    assert!(image.call("rbd", "image_group_remove", &group("1")).is(Errno::ENOENT));
    assert_eq!(get::<u64>(&mut image, "op_features_get", nothing), 0);
}

#[test]
fn a_group_s_snapshots_are_numbered_as_they_are_begun() {
    let mut group = Object::empty();
    let snap = |id: &str, name: &str, state: u8| {
        bytes(|e| {
            e.versioned(1, 1, |e| {
                e.put(id).put(name).put(&state).put(&0_u32);
            })
        })
    };
    let mut set =
        |id: &str, name: &str, state: u8| group.call("rbd", "group_snap_set", &snap(id, name, state));
    set("z", "one", 0).ok();
    set("y", "two", 0).ok();
    assert!(set("x", "one", 0).is(Errno::EEXIST));
    assert!(set("z", "one", 0).is(Errno::EEXIST));
    assert!(set("", "three", 0).is(Errno::EINVAL));
    set("z", "one", 1).ok();
    assert_eq!(call(&mut group, "group_snap_get_by_id", |e| e.put("z")).ok(), snap("z", "one", 1));
    let orders: BTreeMap<Name, u64> = get(&mut group, "group_snap_list_order", |e| e.put("").put(&9_u64));
    assert_eq!(orders, [("y".into(), 2), ("z".into(), 1)].into());
    let list = call(&mut group, "group_snap_list", |e| e.raw(&snap("", "", 0)).put(&9_u64)).ok();
    assert_eq!(list, [2_u32.to_bytes(0), snap("y", "two", 0), snap("z", "one", 1)].concat());
    call(&mut group, "group_snap_remove", |e| e.put("z")).ok();
    assert!(call(&mut group, "group_snap_get_by_id", |e| e.put("z")).is(Errno::ENOENT));
}

fn mirrored_pool() -> Object {
    let mut pool = Object::empty();
    assert!(call(&mut pool, "mirror_mode_set", |e| e.put(&2_u32)).is(Errno::EINVAL));
    call(&mut pool, "mirror_uuid_set", |e| e.put("here")).ok();
    call(&mut pool, "mirror_mode_set", |e| e.put(&2_u32)).ok();
    pool
}

fn peer(uuid: &str, site: &str, client: &str, direction: u8) -> Vec<u8> {
    bytes(|e| {
        e.versioned(2, 1, |e| {
            e.put(uuid).put(site).put(client).put(&-1_i64).put(&direction).put("").put(&UTime::default());
        })
    })
}

#[test]
fn a_pool_with_peers_stays_mirrored() {
    let mut pool = mirrored_pool();
    assert!(call(&mut pool, "mirror_uuid_set", |e| e.put("there")).is(Errno::EINVAL));
    assert_eq!(get::<Name>(&mut pool, "mirror_uuid_get", nothing), "here".into());
    let mut add = |peer: Vec<u8>| pool.call("rbd", "mirror_peer_add", &peer);
    add(peer("u1", "site1", "client", 2)).ok();
    assert!(add(peer("u1", "site2", "client", 2)).is(Errno::ESTALE));
    assert!(add(peer("u2", "site1", "client", 2)).is(Errno::EEXIST));
    assert!(add(peer("u2", "site2", "", 2)).is(Errno::EINVAL));
    assert!(add(peer("u2", "site2", "client", 1)).is(Errno::EINVAL));
    assert!(add(peer("here", "site2", "client", 2)).is(Errno::EINVAL));
    let listed = call(&mut pool, "mirror_peer_list", nothing).ok();
    assert_eq!(listed, [1_u32.to_bytes(0), peer("u1", "site1", "client", 2)].concat());
    assert!(call(&mut pool, "mirror_mode_set", |e| e.put(&0_u32)).is(Errno::EBUSY));
    call(&mut pool, "mirror_peer_remove", |e| e.put("u1")).ok();
    call(&mut pool, "mirror_mode_set", |e| e.put(&0_u32)).ok();
    assert!(call(&mut pool, "mirror_mode_get", nothing).is(Errno::ENOENT));
    assert!(pool.stored.omap.is_empty());
}

#[test]
fn a_peer_that_receives_makes_itself_known() {
    let mut pool = mirrored_pool();
    let ping = |pool: &mut Object, site: &str| {
        call(pool, "mirror_peer_ping", |e| e.put(site).put("there").put(&1_u8))
    };
    ping(&mut pool, "site1").ok();
    // The same cluster under another name.
    ping(&mut pool, "site2").ok();
    let listed = call(&mut pool, "mirror_peer_list", nothing).ok();
    assert_eq!(listed[..4], [1, 0, 0, 0]);
    assert!(listed.windows(5).any(|w| w == b"site2") && !listed.windows(5).any(|w| w == b"site1"));
}

fn mirror_image(global_id: &str, state: u8) -> Vec<u8> {
    bytes(|e| {
        e.versioned(2, 1, |e| {
            e.put(global_id).put(&state).put(&0_u8);
        })
    })
}

fn set_image(pool: &mut Object, id: &str, global_id: &str, state: u8) -> Answer {
    call(pool, "mirror_image_set", |e| e.put(id).raw(&mirror_image(global_id, state)))
}

#[test]
fn a_mirrored_image_is_disabled_before_it_is_removed() {
    let mut pool = Object::empty();
    assert!(set_image(&mut pool, "1", "g1", 0).is(Errno::ENOENT));
    set_image(&mut pool, "1", "g1", 1).ok();
    assert!(set_image(&mut pool, "1", "g2", 1).is(Errno::EINVAL));
    assert!(set_image(&mut pool, "2", "g1", 1).is(Errno::EEXIST));
    assert_eq!(get::<Name>(&mut pool, "mirror_image_get_image_id", |e| e.put("g1")), "1".into());
    assert_eq!(call(&mut pool, "mirror_image_get", |e| e.put("1")).ok(), mirror_image("g1", 1));
    let images: Names = get(&mut pool, "mirror_image_list", |e| e.put("").put(&9_u64));
    assert_eq!(images, [("1".into(), "g1".into())].into());
    assert!(call(&mut pool, "mirror_image_remove", |e| e.put("1")).is(Errno::EBUSY));
    set_image(&mut pool, "1", "g1", 0).ok();
    call(&mut pool, "mirror_image_remove", |e| e.put("1")).ok();
    assert!(pool.stored.omap.is_empty());
}

fn site_status(state: u8) -> Vec<u8> {
    bytes(|e| {
        e.versioned(1, 1, |e| {
            e.put(&state).put("why").put(&UTime::default()).put(&false);
        })
    })
}

fn set_status(pool: &mut Object, global_id: &str, state: u8) {
    call(pool, "mirror_image_status_set", |e| e.put(global_id).raw(&site_status(state))).ok();
}

fn summary(pool: &mut Object) -> BTreeMap<u8, i32> {
    get(pool, "mirror_image_status_get_summary", nothing)
}

#[test]
fn a_status_holds_while_its_reporter_watches() {
    const UNKNOWN: u8 = 0;
    const REPLAYING: u8 = 4;
    let mut pool = Object::empty();
    set_status(&mut pool, "g1", REPLAYING);
    assert!(pool.stored.omap.is_empty(), "an image that is not mirrored has none");
    set_image(&mut pool, "1", "g1", 1).ok();
    set_status(&mut pool, "g1", REPLAYING);
    assert_eq!(summary(&mut pool), [(UNKNOWN, 1)].into());
    assert!(call(&mut pool, "mirror_image_instance_get", |e| e.put("g1")).is(Errno::ESTALE));
    let addr = pool.caller.addrs.0[0];
    let watch = WatchInfo { cookie: 1, timeout_seconds: 30, addr };
    pool.state.info.watchers.insert((1, pool.caller.name), watch);
    assert_eq!(summary(&mut pool), [(REPLAYING, 1)].into());
    call(&mut pool, "mirror_image_instance_get", |e| e.put("g1")).ok();
    call(&mut pool, "mirror_image_status_remove_down", nothing).ok();
    call(&mut pool, "mirror_image_status_get", |e| e.put("g1")).ok();
    pool.state.info.watchers.clear();
    call(&mut pool, "mirror_image_status_remove_down", nothing).ok();
    assert!(call(&mut pool, "mirror_image_status_get", |e| e.put("g1")).is(Errno::ENOENT));
}

#[test]
fn images_are_given_to_instances() {
    let mut pool = Object::empty();
    call(&mut pool, "mirror_instances_add", |e| e.put("4123")).ok();
    assert_eq!(get::<Vec<Name>>(&mut pool, "mirror_instances_list", nothing), ["4123".into()]);
    call(&mut pool, "mirror_instances_remove", |e| e.put("4123")).ok();
    let map = bytes(|e| {
        e.versioned(1, 1, |e| {
            e.put("4123").put(&UTime::default()).put("data");
        })
    });
    call(&mut pool, "mirror_image_map_update", |e| e.put("g1").raw(&map)).ok();
    let listed = call(&mut pool, "mirror_image_map_list", |e| e.put("").put(&9_u64)).ok();
    assert_eq!(listed, [1_u32.to_bytes(0), Name::from("g1").to_bytes(0), map].concat());
    call(&mut pool, "mirror_image_map_remove", |e| e.put("g1")).ok();
    assert!(pool.stored.omap.is_empty());
}
