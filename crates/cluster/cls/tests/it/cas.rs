//! The class `cas`.

use cls::testing::{Answer, Object};
use encoding::{Encode, Encoder};
use types::{Errno, HObject, Name, PoolId};

const VERIFY: u64 = 1;

fn source(name: &str) -> HObject {
    HObject::head(PoolId(3), Name::new(), Name::new(), name.into(), name.len() as u32)
}

fn input(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.versioned(1, 1, |e| {
        write(e);
    });
    e.into_bytes()
}

fn create(object: &mut Object, by: &str, flags: u64, data: &str) -> Answer {
    object.call("cas", "chunk_create_or_get_ref", &input(|e| e.put(&source(by)).put(&flags).put(data)))
}

fn refer(object: &mut Object, method: &str, by: &str) -> Answer {
    object.call("cas", method, &input(|e| e.put(&source(by))))
}

#[test]
fn the_last_reference_takes_the_chunk_along() {
    let mut object = Object::absent();
    create(&mut object, "a", 0, "data").ok();
    assert_eq!(object.stored.data, b"data");
    create(&mut object, "b", 0, "data").ok();
    refer(&mut object, "chunk_get_ref", "a").ok();
    for by in ["a", "b"] {
        refer(&mut object, "chunk_put_ref", by).ok();
        assert!(object.exists());
    }
    assert!(refer(&mut object, "chunk_put_ref", "b").is(Errno::ENOLINK), "a refers twice, b no more");
    refer(&mut object, "chunk_put_ref", "a").ok();
    assert!(!object.exists());
    assert!(refer(&mut object, "chunk_put_ref", "a").is(Errno::ENOENT));
    assert!(refer(&mut object, "chunk_get_ref", "a").is(Errno::ENOENT));
}

#[test]
fn a_chunk_of_other_data_is_found_out_where_that_is_asked_for() {
    let mut object = Object::absent();
    create(&mut object, "a", VERIFY, "data").ok();
    assert!(create(&mut object, "b", VERIFY, "other").is(Errno::ENOMSG));
    create(&mut object, "b", VERIFY, "data").ok();
    create(&mut object, "c", 0, "other").ok();
    assert_eq!(object.stored.data, b"data");
}

/// Attributes with two references of `source("a")`, and with a third, in the encodings of less detail.
fn coarse() -> [(&'static str, Vec<u8>, Vec<u8>); 3] {
    let attr = |kind: u8, write: &dyn Fn(&mut Encoder)| input(|e| e.put(&kind).versioned(1, 1, write));
    let by_hash = |n: u64| {
        attr(2, &|e| {
            // Of the hash, which is 1, nine bits: two bytes. Pool 3 has the number 6 among those with a sign.
            e.varint(n).varint(9).varint(1).varint(6).put(&1u16).varint(n);
        })
    };
    let by_pool = |n: u64| {
        attr(4, &|e| {
            e.varint(n).varint(1).varint(6).varint(n);
        })
    };
    let count = |n: u64| {
        attr(5, &|e| {
            e.put(&n);
        })
    };
    [("by hash", by_hash(2), by_hash(3)), ("by pool", by_pool(2), by_pool(3)), ("count", count(2), count(3))]
}

#[test]
fn references_of_less_detail_stay_so() {
    for (kind, two, three) in coarse() {
        let mut object = Object::absent();
        create(&mut object, "a", 0, "data").ok();
        object.stored.attrs.insert("chunk_refs".into(), two);
        refer(&mut object, "chunk_get_ref", "a").ok();
        assert_eq!(object.stored.attrs[&Name::from("chunk_refs")], three, "{kind}");
        let other = refer(&mut object, "chunk_put_ref", "other");
        assert_eq!(other.is(Errno::ENOLINK), kind == "by hash", "{kind}");
        while object.exists() {
            refer(&mut object, "chunk_put_ref", "a").ok();
        }
        assert!(refer(&mut object, "chunk_put_ref", "a").is(Errno::ENOENT));
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let mut object = Object::absent();
    create(&mut object, "a", 0, "data").ok();
    assert!(object.call("cas", "chunk_get_ref", b"\x01\x01\xff").is(Errno::EINVAL));
    object.stored.attrs.insert("chunk_refs".into(), input(|e| e.put(&9u8)));
    assert!(refer(&mut object, "chunk_get_ref", "a").is(Errno::EIO));
    assert!(object.call("cas", "references_chunk", &"c".to_bytes(0)).is(Errno::ENOLINK));
    assert!(object.call("cas", "references_chunk", b"").is(Errno::EINVAL));
}
