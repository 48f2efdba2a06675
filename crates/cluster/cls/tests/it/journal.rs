//! The class `journal`.

use cls::testing::{Answer, Object};
use encoding::{Decode, Decoder, Encoder};
use types::{Errno, Name, Release};

const CLASS_NEW: u64 = u64::MAX;
const DISCONNECTED: u8 = 1;

fn input(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    write(&mut e);
    e.into_bytes()
}

fn call(object: &mut Object, method: &str, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Answer {
    object.call("journal", method, &input(write))
}

fn get<T: Decode>(object: &mut Object, method: &str) -> T {
    T::from_bytes_exact(&call(object, method, |e| e).ok()).expect("a value")
}

/// A journal of order 24 with sets of 2 objects.
fn journal() -> Object {
    let mut object = Object::absent();
    call(&mut object, "create", |e| e.put(&24u8).put(&2u8).put(&-1i64)).ok();
    object
}

/// Positions: object, tag, entry.
type Positions<'a> = &'a [(u64, u64, u64)];

fn put_positions<'e>(e: &'e mut Encoder, positions: Positions<'_>) -> &'e mut Encoder {
    e.versioned(1, 1, |e| {
        e.put(&(positions.len() as u32));
        for (object, tag, entry) in positions {
            e.versioned(1, 1, |e| {
                e.put(object).put(tag).put(entry);
            });
        }
    })
}

fn register(object: &mut Object, id: &str) -> Answer {
    call(object, "client_register", |e| e.put(id).put("data"))
}

fn commit(object: &mut Object, id: &str, positions: Positions<'_>) -> Answer {
    call(object, "client_commit", |e| put_positions(e.put(id), positions))
}

/// Id, data, tags of the positions, state.
type Client = (Name, Name, Vec<u64>, u8);

fn read_client(d: &mut Decoder<'_>) -> Client {
    let positions = |d: &mut Decoder<'_>, _| {
        let count: u32 = d.get()?;
        let tag = |d: &mut Decoder<'_>, _| Ok(d.get::<(u64, (u64, u64))>()?.1.0);
        (0..count).map(|_| d.versioned(1, "position", tag)).collect()
    };
    let client =
        |d: &mut Decoder<'_>, _| Ok((d.get()?, d.get()?, d.versioned(1, "positions", positions)?, d.get()?));
    d.versioned(1, "client", client).expect("a client")
}

fn client(object: &mut Object, id: &str) -> Client {
    let reply = call(object, "get_client", |e| e.put(id)).ok();
    read_client(&mut Decoder::new(&reply))
}

fn clients(object: &mut Object, after: &str, max: u64) -> Vec<Name> {
    let reply = call(object, "client_list", |e| e.put(after).put(&max)).ok();
    let mut d = Decoder::new(&reply);
    let count: u32 = d.get().expect("a count");
    (0..count).map(|_| read_client(&mut d).0).collect()
}

fn tag_create(object: &mut Object, tid: u64, class: u64) -> Answer {
    call(object, "tag_create", |e| e.put(&tid).put(&class).put("data"))
}

/// Numbers and classes of the tags that a client is shown.
fn tags(object: &mut Object, id: &str, after: u64, max: u64, class: Option<u64>) -> Vec<(u64, u64)> {
    let reply = call(object, "tag_list", |e| e.put(&after).put(&max).put(id).put(&class)).ok();
    let mut d = Decoder::new(&reply);
    let count: u32 = d.get().expect("a count");
    let tag = |d: &mut Decoder<'_>, _| Ok((d.get()?, d.get()?));
    (0..count).map(|_| d.versioned(1, "tag", tag).expect("a tag")).collect()
}

/// Numbers of the tags that are stored.
fn stored_tags(object: &Object) -> Vec<u64> {
    let hex = |key: &Name| {
        let text = key.to_string();
        Some(u64::from_str_radix(text.strip_prefix("tag_")?, 16).expect("a number"))
    };
    object.stored.omap.keys().filter_map(hex).collect()
}

#[test]
fn a_journal_is_created_once() {
    let mut object = journal();
    assert_eq!(get::<u8>(&mut object, "get_order"), 24);
    assert_eq!(get::<u8>(&mut object, "get_splay_width"), 2);
    assert_eq!(get::<i64>(&mut object, "get_pool_id"), -1);
    assert_eq!(get::<u64>(&mut object, "get_minimum_set"), 0);
    assert_eq!(get::<u64>(&mut object, "get_active_set"), 0);
    assert_eq!(get::<u64>(&mut object, "get_next_tag_tid"), 0);
    assert!(call(&mut object, "create", |e| e.put(&24u8).put(&2u8).put(&-1i64)).is(Errno::EEXIST));
    assert!(call(&mut object, "create", |e| e.put(&24u8)).is(Errno::EINVAL));
    assert!(call(&mut Object::empty(), "get_order", |e| e).is(Errno::ENOENT));
}

#[test]
fn sets_of_objects_only_advance_and_the_minimum_is_never_after_the_active_one() {
    let mut object = journal();
    let mut set = |method: &str, set: u64| call(&mut object, method, |e| e.put(&set));
    assert!(set("set_minimum_set", 1).is(Errno::EINVAL));
    set("set_active_set", 5).ok();
    set("set_active_set", 5).ok();
    assert!(set("set_active_set", 4).is(Errno::ESTALE));
    set("set_minimum_set", 3).ok();
    assert!(set("set_minimum_set", 2).is(Errno::ESTALE));
    assert!(set("set_active_set", 2).is(Errno::EINVAL));
    assert_eq!(get::<u64>(&mut object, "get_minimum_set"), 3);
    assert_eq!(get::<u64>(&mut object, "get_active_set"), 5);
}

#[test]
fn clients_are_registered_changed_and_listed() {
    let mut object = journal();
    assert!(register(&mut Object::absent(), "a").is(Errno::ENOENT));
    for id in ["c", "a", "b"] {
        register(&mut object, id).ok();
    }
    assert!(register(&mut object, "a").is(Errno::EEXIST));
    assert_eq!(client(&mut object, "a"), ("a".into(), "data".into(), vec![], 0));
    call(&mut object, "client_update_data", |e| e.put("a").put("other")).ok();
    call(&mut object, "client_update_state", |e| e.put("a").put(&DISCONNECTED)).ok();
    assert_eq!(client(&mut object, "a"), ("a".into(), "other".into(), vec![], DISCONNECTED));
    assert!(call(&mut object, "client_update_data", |e| e.put("x").put("")).is(Errno::ENOENT));
    assert_eq!(clients(&mut object, "", 2), ["a".into(), "b".into()]);
    assert_eq!(clients(&mut object, "b", 2), ["c".into()]);
    call(&mut object, "client_unregister", |e| e.put("b")).ok();
    assert!(call(&mut object, "client_unregister", |e| e.put("b")).is(Errno::ENOENT));
    assert_eq!(clients(&mut object, "", 10), ["a".into(), "c".into()]);
}

/// librbd's own client of an image.
#[test]
fn a_client_of_the_empty_id_is_the_first_one() {
    let mut object = journal();
    for id in ["a", ""] {
        register(&mut object, id).ok();
    }
    assert_eq!(clients(&mut object, "", 1), [Name::new()]);
    assert_eq!(clients(&mut object, "", 2), [Name::new(), "a".into()]);
    assert_eq!(clients(&mut object, "", 0), []);
    commit(&mut object, "a", &[(0, 5, 9)]).ok();
    register(&mut object, "b").ok();
    assert_eq!(client(&mut object, "b").2, [], "the first one has not begun");
}

#[test]
fn a_position_has_no_more_entries_than_a_set_has_objects() {
    let mut object = journal();
    register(&mut object, "a").ok();
    assert!(commit(&mut object, "a", &[(0, 1, 1), (1, 1, 2), (2, 1, 3)]).is(Errno::EINVAL));
    assert!(commit(&mut object, "x", &[]).is(Errno::ENOENT));
    commit(&mut object, "a", &[(1, 7, 2), (0, 6, 1)]).ok();
    assert_eq!(client(&mut object, "a").2, [7, 6]);
}

#[test]
fn a_new_client_begins_where_the_last_one_is() {
    let mut object = journal();
    register(&mut object, "a").ok();
    register(&mut object, "b").ok();
    commit(&mut object, "a", &[(0, 5, 9)]).ok();
    register(&mut object, "c").ok();
    assert_eq!(client(&mut object, "c").2, [], "one has not begun");
    commit(&mut object, "b", &[(0, 4, 3)]).ok();
    commit(&mut object, "c", &[(0, 4, 4)]).ok();
    register(&mut object, "d").ok();
    assert_eq!(client(&mut object, "d").2, [4]);
    for id in ["b", "c", "d"] {
        call(&mut object, "client_update_state", |e| e.put(id).put(&DISCONNECTED)).ok();
    }
    register(&mut object, "e").ok();
    assert_eq!(client(&mut object, "e").2, [5], "those that are not connected don't count");
}

#[test]
fn tags_are_numbered_in_order_and_have_known_classes() {
    let mut object = journal();
    assert!(tag_create(&mut object, 1, CLASS_NEW).is(Errno::ESTALE));
    assert!(tag_create(&mut object, 0, 0).is(Errno::EINVAL), "no such class");
    tag_create(&mut object, 0, CLASS_NEW).ok();
    tag_create(&mut object, 1, 0).ok();
    tag_create(&mut object, 2, CLASS_NEW).ok();
    assert!(tag_create(&mut object, 2, 0).is(Errno::EEXIST));
    assert_eq!(get::<u64>(&mut object, "get_next_tag_tid"), 3);
    let reply = call(&mut object, "get_tag", |e| e.put(&2u64)).ok();
    let mut expected = Encoder::new(0);
    expected.versioned(1, 1, |e| {
        e.put(&2u64).put(&1u64).put("data");
    });
    assert_eq!(reply, expected.into_bytes());
    assert!(call(&mut object, "get_tag", |e| e.put(&3u64)).is(Errno::ENOENT));
}

/// Tags 0, 2, 4 of class 0 and 1, 3, 5 of class 1.
fn with_six_tags() -> Object {
    let mut object = journal();
    for (tid, class) in [(0, CLASS_NEW), (1, CLASS_NEW), (2, 0), (3, 1), (4, 0), (5, 1)] {
        tag_create(&mut object, tid, class).ok();
    }
    object
}

#[test]
fn a_client_is_shown_the_tags_that_it_may_need() {
    let mut object = with_six_tags();
    register(&mut object, "a").ok();
    let all: Vec<(u64, u64)> = (0..6).map(|tid| (tid, tid % 2)).collect();
    assert_eq!(tags(&mut object, "a", 0, 10, None), all);
    assert_eq!(tags(&mut object, "a", 1, 2, None), all[2..4]);
    assert_eq!(tags(&mut object, "a", 0, 10, Some(1)), [(1, 1), (3, 1), (5, 1)]);
    commit(&mut object, "a", &[(0, 4, 1), (1, 3, 1)]).ok();
    assert_eq!(tags(&mut object, "a", 0, 10, None), all[2..], "from the last of each class before 3 on");
    let absent = call(&mut object, "tag_list", |e| e.put(&0u64).put(&1u64).put("x").put(&None::<u64>));
    assert!(absent.is(Errno::ENOENT));
}

#[test]
fn tags_that_no_client_needs_are_removed() {
    let mut object = with_six_tags();
    for id in ["a", "b", "gone"] {
        register(&mut object, id).ok();
    }
    commit(&mut object, "a", &[(0, 4, 1)]).ok();
    call(&mut object, "client_update_state", |e| e.put("gone").put(&DISCONNECTED)).ok();
    tag_create(&mut object, 6, 0).ok();
    assert_eq!(stored_tags(&object), [0, 1, 2, 3, 4, 5, 6], "b has not begun");
    commit(&mut object, "b", &[(0, 2, 1)]).ok();
    tag_create(&mut object, 7, 0).ok();
    assert_eq!(stored_tags(&object), [1, 2, 3, 4, 5, 6, 7]);
    call(&mut object, "client_unregister", |e| e.put("b")).ok();
    assert_eq!(stored_tags(&object), [3, 4, 5, 6, 7], "3 is the last of its class before 4");
}

#[test]
fn appends_are_padded_until_the_object_is_full() {
    let append =
        |object: &mut Object, max: u64, data: &str| call(object, "append", |e| e.put(&max).put(data));
    let mut object = Object::absent();
    append(&mut object, 1, "entry").ok();
    assert_eq!(object.stored.data, b"entry\0\0\0");
    assert!(append(&mut object, 8, "entry").is(Errno::EOVERFLOW));
    append(&mut object, 9, "12345678").ok();
    assert_eq!(object.stored.data, b"entry\0\0\x0012345678");
    let mut object = Object::absent();
    object.release = Release::NAUTILUS;
    append(&mut object, 1, "entry").ok();
    assert_eq!(object.stored.data, b"entry", "older clients don't skip zeros");
}

#[test]
fn an_object_that_is_full_refuses_the_guard() {
    let guard = |object: &mut Object, max: u64| call(object, "guard_append", |e| e.put(&max));
    let mut object = Object::absent();
    guard(&mut object, 1).ok();
    call(&mut object, "append", |e| e.put(&1u64).put("entry")).ok();
    guard(&mut object, 9).ok();
    assert!(guard(&mut object, 8).is(Errno::EOVERFLOW));
    assert!(object.call("journal", "guard_append", &[1]).is(Errno::EINVAL));
}
