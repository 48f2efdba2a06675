//! The class `cmpomap`.

use std::collections::BTreeMap;

use cls::testing::{Answer, Object};
use encoding::{Encode, Encoder};
use messages::{Op, OpArgs, OpCode};
use types::{Errno, Name};

const STRING: u8 = 1;
const U64: u8 = 2;
const EQ: u8 = 1;
const GT: u8 = 3;
const LT: u8 = 5;

fn input(mode: u8, op: u8, values: &[(&str, &[u8])], default: Option<Option<&[u8]>>) -> Vec<u8> {
    let mut e = Encoder::new(0);
    let values: BTreeMap<Name, Name> = values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    e.versioned(1, 1, |e| {
        e.put(&mode).put(&op).put(&values);
        if let Some(default) = default {
            e.put(&default.map(Name::from));
        }
    });
    e.into_bytes()
}

fn compare(
    object: &mut Object,
    mode: u8,
    op: u8,
    values: &[(&str, &[u8])],
    default: Option<&[u8]>,
) -> Answer {
    object.call("cmpomap", "cmp_vals", &input(mode, op, values, Some(default)))
}

fn number(value: u64) -> Vec<u8> {
    value.to_bytes(0)
}

fn object_with(pairs: &[(&str, Vec<u8>)]) -> Object {
    let mut object = Object::empty();
    let omap: BTreeMap<Name, Name> = pairs.iter().map(|(k, v)| ((*k).into(), v.as_slice().into())).collect();
    object.run(&[Op::new(OpCode::OMAPSETVALS, OpArgs::none()).with_indata(omap.to_bytes(0))]);
    object
}

#[test]
fn values_compare_as_texts_or_as_numbers() {
    let mut object = object_with(&[("a", b"bb".to_vec()), ("n", number(256)), ("empty", vec![])]);
    compare(&mut object, STRING, EQ, &[("a", b"bb")], None).ok();
    compare(&mut object, STRING, GT, &[("a", b"c")], None).ok();
    assert!(compare(&mut object, STRING, LT, &[("a", b"c")], None).is(Errno::ECANCELED));
    compare(&mut object, U64, LT, &[("n", &number(255))], None).ok();
    assert!(compare(&mut object, U64, GT, &[("n", &number(255))], None).is(Errno::ECANCELED));
    compare(&mut object, U64, EQ, &[("empty", &number(0))], None).ok();
    let both: &[(&str, &[u8])] = &[("empty", &number(0)), ("n", &number(0))];
    assert!(compare(&mut object, U64, EQ, both, None).is(Errno::ECANCELED), "all must hold");
}

#[test]
fn a_key_that_is_missing_compares_as_the_default() {
    let mut object = object_with(&[]);
    assert!(compare(&mut object, U64, EQ, &[("n", &number(0))], None).is(Errno::ECANCELED));
    compare(&mut object, U64, EQ, &[("n", &number(0))], Some(b"")).ok();
    compare(&mut object, STRING, EQ, &[("n", b"d")], Some(b"d")).ok();
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let mut object = object_with(&[("a", b"bb".to_vec())]);
    assert!(compare(&mut object, U64, EQ, &[("a", b"bb")], None).is(Errno::EINVAL), "no number given");
    assert!(compare(&mut object, U64, EQ, &[("a", &number(1))], None).is(Errno::EIO), "no number stored");
    assert!(compare(&mut object, 3, EQ, &[("a", b"bb")], None).is(Errno::EINVAL), "no such mode");
    assert!(compare(&mut object, STRING, 7, &[("a", b"bb")], None).is(Errno::EINVAL), "no such comparison");
    assert!(object.call("cmpomap", "cmp_rm_keys", b"\x01\x01\xff").is(Errno::EINVAL));
    assert!(Object::absent().call("cmpomap", "cmp_vals", b"").is(Errno::ENOENT));
}

#[test]
fn values_are_set_where_the_comparison_holds() {
    let stored = [("garbage", b"x".to_vec()), ("greater", number(9)), ("less", number(1))];
    let mut object = object_with(&stored);
    let given = number(5);
    let values: Vec<(&str, &[u8])> =
        ["garbage", "greater", "less", "missing"].map(|key| (key, &given[..])).into();
    object.call("cmpomap", "cmp_set_vals", &input(U64, GT, &values, Some(None))).ok();
    let mut expected = object_with(&stored).stored.omap;
    expected.insert("less".into(), number(5));
    assert_eq!(object.stored.omap, expected);
    object.call("cmpomap", "cmp_set_vals", &input(U64, GT, &values, Some(Some(b"")))).ok();
    expected.insert("missing".into(), number(5));
    assert_eq!(object.stored.omap, expected, "with a default, a key that was missing is set");
}

#[test]
fn keys_are_removed_where_the_comparison_holds() {
    let mut object = object_with(&[("garbage", b"x".to_vec()), ("other", number(2)), ("same", number(1))]);
    let given = number(1);
    let values: Vec<(&str, &[u8])> =
        ["garbage", "missing", "other", "same"].map(|key| (key, &given[..])).into();
    object.call("cmpomap", "cmp_rm_keys", &input(U64, EQ, &values, None)).ok();
    assert!(object.stored.omap.keys().eq([&Name::from("garbage"), &"other".into()]));
}
