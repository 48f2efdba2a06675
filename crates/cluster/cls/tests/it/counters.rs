//! The classes `refcount`, `version` and `numops`.

use cls::testing::{Object, call};
use encoding::{Decoder, Encoder};
use messages::osd_op::OpFlags;
use types::{Errno, Name};

fn bytes(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    write(&mut e);
    e.into_bytes()
}

fn versioned(e: &mut Encoder, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> &mut Encoder {
    e.versioned(1, 1, |e| {
        write(e);
    })
}

fn input(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    bytes(|e| versioned(e, write))
}

fn tag(tag: &str, implicit: bool) -> Vec<u8> {
    input(|e| e.put(tag).put(&implicit))
}

fn refs(object: &mut Object, implicit: bool) -> Vec<Name> {
    let reply = object.call("refcount", "read", &input(|e| e.put(&implicit))).ok();
    Decoder::new(&reply).versioned(1, "reply", |d, _| d.get()).expect("a reply")
}

#[test]
fn the_last_reference_takes_the_object_along() {
    assert!(Object::absent().call("refcount", "get", &tag("a", true)).is(Errno::ENOENT));
    let mut object = Object::empty();
    object.call("refcount", "get", &tag("a", false)).ok();
    object.call("refcount", "get", &tag("b", false)).ok();
    assert_eq!(refs(&mut object, false), ["a".into(), "b".into()]);
    object.call("refcount", "put", &tag("a", false)).ok();
    object.call("refcount", "put", &tag("a", false)).ok();
    object.call("refcount", "put", &tag("c", false)).ok();
    assert_eq!(refs(&mut object, false), ["b".into()], "what was put, or never got, changes nothing");
    object.call("refcount", "put", &tag("b", false)).ok();
    assert!(!object.exists());
}

#[test]
fn an_object_that_was_never_counted_has_an_implicit_reference() {
    let mut object = Object::empty();
    assert_eq!(refs(&mut object, true), [Name::new()]);
    assert_eq!(refs(&mut object, false), []);
    assert!(object.call("refcount", "put", &tag("a", false)).is(Errno::EINVAL));
    object.call("refcount", "get", &tag("a", true)).ok();
    assert_eq!(refs(&mut object, true), [Name::new(), "a".into()]);
    object.call("refcount", "put", &tag("b", true)).ok();
    assert_eq!(refs(&mut object, true), ["a".into()], "an unknown tag stands for the implicit one");
}

#[test]
fn references_are_set_as_a_whole() {
    let mut object = Object::empty();
    let set = |tags: &[&str]| input(|e| e.put(&tags.iter().map(|t| Name::from(*t)).collect::<Vec<_>>()));
    object.call("refcount", "set", &set(&["x", "y"])).ok();
    assert_eq!(refs(&mut object, false), ["x".into(), "y".into()]);
    object.call("refcount", "set", &set(&[])).ok();
    assert!(!object.exists());
}

fn version<'e>(e: &'e mut Encoder, ver: u64, tag: &str) -> &'e mut Encoder {
    versioned(e, |e| e.put(&ver).put(tag))
}

fn conditions(of: &[(u64, &str, u32)]) -> Vec<u8> {
    input(|e| {
        version(e, 0, "").put(&(of.len() as u32));
        for (ver, tag, kind) in of {
            versioned(e, |e| version(e, *ver, tag).put(kind));
        }
        e
    })
}

fn read_version(object: &mut Object) -> (u64, Name) {
    let reply = object.call("version", "read", b"").ok();
    let version = |d: &mut Decoder<'_>, _| d.versioned(1, "version", |d, _| Ok((d.get()?, d.get()?)));
    Decoder::new(&reply).versioned(1, "reply", version).expect("a reply")
}

#[test]
fn a_version_is_drawn_set_and_counted() {
    let mut object = Object::empty();
    assert_eq!(read_version(&mut object), (0, Name::new()));
    object.call("version", "inc", &conditions(&[])).ok();
    let (ver, tag) = read_version(&mut object);
    assert_eq!((ver, tag.len()), (2, 24));
    let mut other = Object::empty();
    other.call("version", "read", b"").ok();
    other.call("version", "read", b"").ok();
    other.call("version", "inc", &conditions(&[])).ok();
    assert_ne!(read_version(&mut other).1, tag, "each request draws another tag");
    object.call("version", "set", &input(|e| version(e, 7, "t"))).ok();
    object.call("version", "inc", &conditions(&[])).ok();
    assert_eq!(read_version(&mut object), (8, "t".into()));
}

#[test]
fn conditions_on_a_version_hold_or_cancel() {
    let mut object = Object::absent();
    object.call("version", "set", &input(|e| version(e, 7, "t"))).ok();
    let holds =
        [(7, "t", 1), (6, "", 2), (7, "", 3), (8, "", 4), (7, "", 5), (0, "t", 6), (0, "u", 7), (0, "", 0)];
    let fails = [(7, "u", 1), (7, "", 2), (8, "", 3), (7, "", 4), (6, "", 5), (0, "u", 6), (0, "t", 7)];
    object.call("version", "check_conds", &conditions(&holds)).ok();
    for one in fails {
        assert!(object.call("version", "check_conds", &conditions(&[one])).is(Errno::ECANCELED), "{one:?}");
        assert!(object.call("version", "inc_conds", &conditions(&[one])).is(Errno::ECANCELED), "{one:?}");
    }
    assert_eq!(read_version(&mut object), (7, "t".into()));
    let fine = call("version", "inc_conds", &conditions(&[(7, "", 2)])).with_flags(OpFlags::FAILOK);
    let mut new = Object::absent();
    new.run(&[fine]);
    assert_eq!(read_version(&mut new).0, 1, "the version that was compared with stays");
}

fn num(key: &str, operand: &str) -> Vec<u8> {
    bytes(|e| e.put(key).put(operand))
}

#[test]
fn numbers_are_added_and_multiplied_in_the_omap() {
    let mut object = Object::absent();
    let mut number = |method: &str, operand: &str| {
        let answer = object.call("numops", method, &num("n", operand));
        (answer.result, object.stored.omap.get(&Name::from("n")).cloned().unwrap_or_default())
    };
    assert_eq!(number("add", "x"), (Errno::EINVAL.code(), b"".to_vec()));
    assert_eq!(number("add", "2.5"), (0, b"2.5".to_vec()));
    assert_eq!(number("mul", "-4"), (0, b"-10".to_vec()));
    assert_eq!(number("add", ""), (0, b"-10".to_vec()));
    object.stored.omap.insert("n".into(), b"ten".to_vec());
    assert!(object.call("numops", "add", &num("n", "1")).is(Errno::EBADMSG));
}

#[test]
fn input_that_cannot_be_read_is_einval_and_stored_garbage_eio() {
    let mut object = Object::empty();
    for (class, methods) in
        [("refcount", &["get", "put", "set", "read"][..]), ("version", &["set", "inc", "check_conds"])]
    {
        for method in methods {
            assert!(object.call(class, method, b"\x01\x01\xff").is(Errno::EINVAL), "{class}.{method}");
        }
    }
    object.stored.attrs.insert("refcount".into(), vec![1]);
    object.stored.attrs.insert("ceph.objclass.version".into(), vec![1]);
    assert!(object.call("refcount", "get", &tag("a", false)).is(Errno::EIO));
    assert!(object.call("version", "read", b"").is(Errno::EIO));
}
