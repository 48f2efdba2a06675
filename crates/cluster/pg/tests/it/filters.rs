//! Listings with a filter.

use crate::common::*;
use cls::testing::call;
use encoding::{Decode, Encoder};
use messages::osd_op::{PgLsResponse, PgNlsResponse};
use messages::{Op, OpArgs, OpCode, OsdOpReply};
use ops::ClassTable;
use pg::PgConfig;
use types::{Epoch, Errno, HObject};

fn rig(load_list: &str) -> Rig {
    let classes = ClassTable::new(cls::CLASSES, load_list, "*").with_filters(cls::FILTERS);
    let mut rig = Rig::with_config(PgConfig { classes, ..PgConfig::default() });
    for (object, value) in [("a", "red"), ("b", "green"), ("c", "red"), ("10.00000000", "blue")] {
        rig.ask(object, vec![write_full(b"x"), xattr(OpCode::SETXATTR, "colour", value, 0)]);
    }
    rig.ask("plain", vec![write_full(b"x")]);
    rig
}

fn list(code: OpCode, kind: &str, put: impl FnOnce(&mut Encoder)) -> Op {
    let mut e = Encoder::new(0);
    e.put("").put("").put(kind);
    put(&mut e);
    e.put(&HObject::min());
    Op::new(code, OpArgs::Pgls { count: 100, start_epoch: Epoch(0) }).with_indata(e.into_bytes())
}

fn colour(code: OpCode, kind: &str, value: &str) -> Op {
    list(code, kind, |e| {
        e.put("_colour").put(value);
    })
}

fn names(reply: &OsdOpReply) -> Vec<String> {
    assert_eq!(reply.result, 1, "the end of the PG");
    let page = PgNlsResponse::from_bytes_exact(&reply.ops[0].outdata.to_piece()).expect("a page");
    let mut names: Vec<String> = page.entries.into_iter().map(|entry| entry.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_listing_shows_what_has_the_attributes_value() {
    for peeks in [false, true] {
        let mut rig = rig("*");
        rig.peeks = peeks;
        for kind in ["plain", "hello.hello"] {
            let reply = rig.ask("", vec![colour(OpCode::PGNLS_FILTER, kind, "red")]);
            assert_eq!(names(&reply), ["a", "c"], "{kind}");
            assert!(names(&rig.ask("", vec![colour(OpCode::PGNLS_FILTER, kind, "re")])).is_empty());
        }
        let reply = rig.ask("", vec![colour(OpCode::PGLS_FILTER, "plain", "green")]);
        let page = PgLsResponse::from_bytes_exact(&reply.ops[0].outdata.to_piece()).expect("a page");
        assert_eq!((page.entries.len(), &page.entries[0].0[..]), (1, &b"b"[..]));
    }
}

#[test]
fn cephfs_looks_for_first_objects_without_its_tag() {
    let mut rig = rig("*");
    let tag = |tag: &str| {
        list(OpCode::PGNLS_FILTER, "cephfs.inode_tag", |e| {
            e.versioned(1, 1, |e| {
                e.put(tag);
            });
        })
    };
    assert_eq!(names(&rig.ask("", vec![tag("")])), ["10.00000000"]);
    let mut e = Encoder::new(0);
    e.put("mine");
    let value = String::from_utf8(e.into_bytes()).unwrap();
    rig.ask("10.00000000", vec![xattr(OpCode::SETXATTR, "scrub_tag", &value, 0)]);
    assert!(names(&rig.ask("", vec![tag("mine")])).is_empty());
    assert_eq!(names(&rig.ask("", vec![tag("other")])), ["10.00000000"]);
}

#[test]
fn a_filter_that_is_none_or_may_not_be_loaded_is_refused() {
    let mut rig = rig("hello");
    assert_eq!(rig.ask("a", vec![call("hello", "say_hello", b"")]).result, 0);
    let mut refused = |kind: &str| rig.ask("", vec![colour(OpCode::PGNLS_FILTER, kind, "red")]).result;
    assert_eq!(refused("hello.other"), Errno::EINVAL.code());
    assert_eq!(refused("none"), Errno::EINVAL.code());
    assert_eq!(refused("cephfs.inode_tag"), Errno::EPERM.code());
}
