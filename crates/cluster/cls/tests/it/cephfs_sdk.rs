//! The classes `cephfs` and `sdk`.

use cls::testing::Object;
use encoding::{Encode, Encoder};
use types::{Errno, Name};

fn accumulate(object: &mut Object, index: u64, size: u64, mtime: i64) {
    let mut e = Encoder::new(0);
    e.versioned(1, 1, |e| {
        e.put("ceiling").put("mtime").put("size").put(&index).put(&size).put(&mtime);
    });
    object.call("cephfs", "accumulate_inode_metadata", &e.into_bytes()).ok();
}

fn ceiling(index: u64, size: u64) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.versioned(1, 1, |e| {
        e.put(&index).put(&size);
    });
    e.into_bytes()
}

fn attr<'o>(object: &'o Object, name: &str) -> &'o [u8] {
    &object.stored.attrs[&Name::from(name)]
}

#[test]
fn the_greatest_values_of_a_files_objects_are_kept() {
    let mut object = Object::absent();
    accumulate(&mut object, 2, 10, -5);
    accumulate(&mut object, 1, 90, -9);
    accumulate(&mut object, 2, 80, 7);
    assert_eq!(attr(&object, "ceiling"), ceiling(2, 10), "of the object with the greatest index");
    assert_eq!(attr(&object, "mtime"), 7i64.to_bytes(0));
    assert_eq!(attr(&object, "size"), 90u64.to_bytes(0));
    object.stored.attrs.insert("size".into(), [9u64.to_bytes(0), vec![0]].concat());
    accumulate(&mut object, 3, 1, 0);
    assert_eq!(attr(&object, "size"), 1u64.to_bytes(0), "garbage is replaced");
    assert_eq!(attr(&object, "ceiling"), ceiling(3, 1));
    assert!(object.call("cephfs", "accumulate_inode_metadata", b"\x01\x01\xff").is(Errno::EINVAL));
}

#[test]
fn the_example_reads_what_it_wrote() {
    let mut object = Object::absent();
    assert!(object.call("sdk", "test_coverage_replay", b"").is(Errno::ENOENT));
    object.call("sdk", "test_coverage_write", b"").ok();
    assert_eq!(object.stored.data, b"test");
    object.call("sdk", "test_coverage_replay", b"").ok();
    assert!(!object.exists());
    let mut object = Object::empty();
    assert!(object.call("sdk", "test_coverage_replay", b"").is(Errno::ENODATA));
}
