//! What a class may do and what its caller gets of it, shown by the class that Ceph has as its example.

use cls::testing::{Object, call};
use messages::{Op, OpArgs, OpCode};
use types::{Errno, Name};

#[test]
fn a_method_that_reads_answers_with_its_output() {
    assert!(Object::absent().call("hello", "say_hello", b"").is(Errno::ENOENT), "as every read");
    let mut object = Object::empty();
    assert_eq!(object.call("hello", "say_hello", b"").ok(), b"Hello, world!");
    assert_eq!(object.call("hello", "say_hello", b"Tester").ok(), b"Hello, Tester!");
    assert!(object.call("hello", "say_hello", &[b'x'; 101]).is(Errno::EINVAL));
}

#[test]
fn a_method_that_writes_changes_its_object_and_knows_its_caller() {
    let mut object = Object::absent();
    assert_eq!(object.call("hello", "record_hello", b"you").ok(), b"");
    assert_eq!(object.stored.data, b"Hello, you!");
    assert_eq!(object.stored.attrs[&Name::from("said_by")], b"client.4123 v2:127.0.0.1:0/77");
    assert!(object.call("hello", "record_hello", b"you").is(Errno::EEXIST));
    assert_eq!(object.call("hello", "replay", b"").ok(), b"Hello, you!");
    assert_eq!(object.call("hello", "turn_it_to_11", b"").ok(), b"");
    assert_eq!(object.call("hello", "replay", b"").ok(), b"HELLO, YOU!");
}

#[test]
fn a_write_returns_output_and_result_only_when_asked_and_only_little() {
    let mut object = Object::absent();
    let answer = object.call("hello", "write_return_data", b"");
    assert_eq!((answer.result, answer.data.as_slice()), (0, &b""[..]));
    object.returnvec = true;
    let answer = object.call("hello", "write_return_data", b"");
    assert_eq!((answer.result, answer.data.as_slice()), (42, &b"you might see this"[..]));
    assert!(object.call("hello", "write_too_much_return_data", b"").is(Errno::EOVERFLOW));
}

#[test]
fn a_failed_write_changes_nothing_and_returns_output_even_unasked() {
    let mut object = Object::absent();
    let answer = object.call("hello", "write_return_data", b"x");
    assert!(answer.is(Errno::EINVAL) && answer.data == b"too much input data!");
    assert!(!object.exists() && object.stored == Default::default());
}

#[test]
fn a_method_that_does_what_it_is_not_declared_to_do_fails_with_eio() {
    let mut object = Object::empty();
    assert!(object.call("hello", "bad_reader", b"").is(Errno::EIO));
    assert!(object.call("hello", "bad_writer", b"text").is(Errno::EIO));
    assert!(object.stored.data.is_empty());
}

#[test]
fn a_call_takes_its_turn_in_a_compound_request() {
    let mut object = Object::absent();
    object.call("hello", "record_hello", b"all").ok();
    let write = Op::new(OpCode::WRITEFULL, OpArgs::extent(0, 3)).with_indata(b"abc".to_vec());
    let answers = object.run(&[write, call("hello", "turn_it_to_11", b"")]);
    assert!(answers.iter().all(|a| a.result == 0));
    assert_eq!(object.stored.data, b"HEL", "it sees the new size, and the data from before the request");
    let stale = Op::new(OpCode::ASSERT_VER, OpArgs::AssertVer { unused: 0, ver: 99 });
    let answers = object.run(&[call("hello", "write_return_data", b""), stale]);
    assert!(answers[1].is(Errno::EOVERFLOW));
    assert!(!object.stored.attrs.contains_key(&Name::from("foo")), "a request succeeds whole or not at all");
}

#[test]
fn a_call_of_a_class_that_is_not_there_is_refused() {
    let mut object = Object::empty();
    assert!(object.call("nobody", "say_hello", b"").is(Errno::EOPNOTSUPP));
    assert!(object.call("hello", "say_nothing", b"").is(Errno::EOPNOTSUPP));
    let mut op = call("hello", "say_hello", b"abc");
    op.indata = op.indata.slice(0..16);
    assert!(object.run(&[op])[0].is(Errno::EINVAL), "the input is shorter than announced");
}
