//! The class `lock`, with inputs as librados encodes them.

use cls::testing::{Answer, Object};
use encoding::{Decoder, Encoder};
use types::{AddrType, EntityAddr, EntityName, EntityType, Errno, Name, UTime};

const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
const EPHEMERAL: u8 = 3;
const MAY_RENEW: u8 = 1;
const MUST_RENEW: u8 = 2;

fn input(write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.versioned(1, 1, |e| {
        write(e);
    });
    e.into_bytes()
}

fn lock_for(object: &mut Object, kind: u8, cookie: &str, tag: &str, flags: u8, seconds: u32) -> Answer {
    let input = input(|e| {
        let duration = UTime { sec: seconds, nsec: 0 };
        e.put("l").put(&kind).put(cookie).put(tag).put("why").put(&duration).put(&flags)
    });
    object.call("lock", "lock", &input)
}

fn lock(object: &mut Object, kind: u8, cookie: &str) -> Answer {
    lock_for(object, kind, cookie, "", 0, 0)
}

fn unlock(object: &mut Object, cookie: &str) -> Answer {
    object.call("lock", "unlock", &input(|e| e.put("l").put(cookie)))
}

/// Type, tag and holders: client and cookie.
fn info(object: &mut Object) -> (u8, Name, Vec<(i64, Name)>) {
    let reply = object.call("lock", "get_info", &input(|e| e.put("l"))).ok();
    let read = |d: &mut Decoder<'_>, _| {
        let mut holders = Vec::new();
        for _ in 0..d.get::<u32>()? {
            holders.push(d.versioned(1, "id", |d, _| Ok((d.get::<EntityName>()?.num, d.get()?)))?);
            d.versioned(1, "info", |d, _| {
                d.get::<UTime>()?;
                assert_eq!(d.get::<EntityAddr>()?.kind, AddrType::Legacy);
                assert_eq!(d.get::<Name>()?, Name::from("why"));
                Ok(())
            })?;
        }
        Ok((d.get()?, d.get()?, holders))
    };
    Decoder::new(&reply).versioned(1, "reply", read).expect("a reply")
}

#[test]
fn an_exclusive_lock_keeps_others_out_until_it_is_unlocked() {
    let mut object = Object::absent();
    lock(&mut object, EXCLUSIVE, "a").ok();
    assert!(lock(&mut object, EXCLUSIVE, "a").is(Errno::EEXIST));
    assert!(lock(&mut object, EXCLUSIVE, "b").is(Errno::EBUSY), "another cookie is another holder");
    assert!(lock(object.as_client(2), EXCLUSIVE, "a").is(Errno::EBUSY));
    assert!(unlock(&mut object, "a").is(Errno::ENOENT), "it is not this client's");
    assert_eq!(info(&mut object), (EXCLUSIVE, Name::new(), vec![(4123, "a".into())]));
    unlock(object.as_client(4123), "a").ok();
    assert_eq!(info(&mut object), (EXCLUSIVE, Name::new(), vec![]));
    lock(object.as_client(2), EXCLUSIVE, "a").ok();
}

#[test]
fn a_shared_lock_is_held_by_many_with_the_same_tag() {
    let mut object = Object::absent();
    lock_for(&mut object, SHARED, "a", "t", 0, 0).ok();
    lock_for(object.as_client(2), SHARED, "a", "t", 0, 0).ok();
    assert!(lock_for(object.as_client(3), SHARED, "a", "u", 0, 0).is(Errno::EBUSY), "another tag");
    assert!(lock_for(&mut object, EXCLUSIVE, "a", "t", 0, 0).is(Errno::EBUSY));
    assert_eq!(info(&mut object), (SHARED, "t".into(), vec![(2, "a".into()), (4123, "a".into())]));
}

#[test]
fn a_lock_is_renewed_if_the_flags_say_so() {
    let mut object = Object::absent();
    assert!(lock_for(&mut object, EXCLUSIVE, "a", "", MUST_RENEW, 0).is(Errno::ENOENT));
    assert!(lock_for(&mut object, EXCLUSIVE, "a", "", MAY_RENEW | MUST_RENEW, 0).is(Errno::EINVAL));
    for flags in [MAY_RENEW, MAY_RENEW, MUST_RENEW] {
        lock_for(&mut object, EXCLUSIVE, "a", "", flags, 0).ok();
    }
}

#[test]
fn a_lock_with_a_duration_ends_by_itself() {
    let mut object = Object::absent();
    lock_for(&mut object, EXCLUSIVE, "a", "", 0, 5).ok();
    object.now.sec += 5;
    assert!(lock(object.as_client(2), EXCLUSIVE, "b").is(Errno::EBUSY), "its last moment");
    object.now.nsec += 1;
    lock(&mut object, EXCLUSIVE, "b").ok();
    assert_eq!(info(&mut object).2, [(2, "b".into())]);
}

#[test]
fn an_ephemeral_lock_takes_its_object_along() {
    let mut object = Object::absent();
    lock(&mut object, EPHEMERAL, "a").ok();
    assert!(object.exists());
    unlock(&mut object, "a").ok();
    assert!(!object.exists());
    lock_for(&mut object, EPHEMERAL, "a", "", 0, 5).ok();
    object.now.sec += 6;
    let get_info = object.call("lock", "get_info", &input(|e| e.put("l")));
    assert!(get_info.is(Errno::EIO), "a method that only reads can't remove the object: {get_info:?}");
    lock(object.as_client(2), EPHEMERAL, "b").ok();
    assert_eq!(info(&mut object).2, [(2, "b".into())]);
}

#[test]
fn anybody_breaks_a_lock_by_its_holders_name() {
    let mut object = Object::absent();
    lock(&mut object, EXCLUSIVE, "a").ok();
    let holder = |num| input(move |e| e.put("l").put(&EntityName::new(EntityType::Client, num)).put("a"));
    assert!(object.as_client(2).call("lock", "break_lock", &holder(2)).is(Errno::ENOENT));
    object.call("lock", "break_lock", &holder(4123)).ok();
    assert_eq!(info(&mut object).2, []);
}

#[test]
fn a_holder_is_asserted_and_changes_its_cookie() {
    let mut object = Object::absent();
    lock_for(&mut object, SHARED, "a", "t", 0, 0).ok();
    let held = |kind: u8, cookie: &'static str, tag: &'static str| {
        input(move |e| e.put("l").put(&kind).put(cookie).put(tag))
    };
    object.call("lock", "assert_locked", &held(SHARED, "a", "t")).ok();
    for other in [held(EXCLUSIVE, "a", "t"), held(SHARED, "b", "t"), held(SHARED, "a", "u")] {
        assert!(object.call("lock", "assert_locked", &other).is(Errno::EBUSY));
    }
    assert!(object.call("lock", "assert_locked", &held(7, "a", "t")).is(Errno::EINVAL));
    let renamed = |from: &'static str, to: &'static str| {
        input(move |e| e.put("l").put(&SHARED).put(from).put("t").put(to))
    };
    assert!(object.call("lock", "set_cookie", &renamed("a", "a")).is(Errno::EBUSY), "it is in use");
    object.call("lock", "set_cookie", &renamed("a", "b")).ok();
    assert_eq!(info(&mut object).2, [(4123, "b".into())]);
}

#[test]
fn locks_are_listed_and_bad_input_is_einval() {
    let mut object = Object::absent();
    lock(&mut object, EXCLUSIVE, "a").ok();
    object.stored.attrs.insert("other".into(), Vec::new());
    let reply = object.call("lock", "list_locks", b"").ok();
    assert_eq!(Decoder::new(&reply).versioned(1, "reply", |d, _| d.get::<Vec<Name>>()), Ok(vec!["l".into()]));
    for method in ["lock", "unlock", "break_lock", "get_info", "assert_locked", "set_cookie"] {
        assert!(object.call("lock", method, b"\x01\x01\xff").is(Errno::EINVAL), "{method}");
    }
    object.stored.attrs.insert("lock.l".into(), b"garbage".to_vec());
    assert!(lock(&mut object, EXCLUSIVE, "a").is(Errno::EIO));
}
