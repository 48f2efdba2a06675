//! The classes `log` and `timeindex`.

use cls::testing::Object;
use encoding::{DecodeError, Decoder, Encoder};
use types::{Errno, Name, UTime};

fn input(version: u8, write: impl FnOnce(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    e.versioned(version, 1, |e| {
        write(e);
    });
    e.into_bytes()
}

fn at(sec: u32) -> UTime {
    UTime { sec, nsec: 5_000 }
}

fn trim_input(from: UTime, to: UTime, from_marker: &str, to_marker: &str) -> Vec<u8> {
    input(2, |e| e.put(&from).put(&to).put(from_marker).put(to_marker))
}

/// A reply of `list`: the entries by `read`, the marker, whether there are more.
fn list<T>(
    object: &mut Object,
    class: &str,
    (from, to): (UTime, UTime),
    marker: &Name,
    max: i32,
    read: impl Fn(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> (Vec<T>, Name, bool) {
    let reply = object.call(class, "list", &input(1, |e| e.put(&from).put(marker).put(&to).put(&max))).ok();
    let entries = |d: &mut Decoder<'_>, _| {
        let count: u32 = d.get()?;
        let entries =
            (0..count).map(|_| d.versioned(2, "entry", |d, _| read(d))).collect::<Result<_, _>>()?;
        Ok((entries, d.get()?, d.get()?))
    };
    Decoder::new(&reply).versioned(1, "reply", entries).expect("a reply")
}

/// Ends of the times listed.
const ALL: (UTime, UTime) = (UTime { sec: 0, nsec: 0 }, UTime { sec: 0, nsec: 0 });

mod log {
    use super::*;

    fn add_input(entries: &[(UTime, &str)]) -> Vec<u8> {
        input(2, |e| {
            e.put(&(entries.len() as u32));
            for (time, name) in entries {
                e.versioned(2, 1, |e| {
                    e.put("section").put(*name).put(time).put("data").put("");
                });
            }
            e.put(&true)
        })
    }

    fn add(object: &mut Object, entries: &[(UTime, &str)]) {
        object.call("log", "add", &add_input(entries)).ok();
    }

    fn five() -> Object {
        let mut object = Object::empty();
        let entries: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().zip(10..).collect();
        add(&mut object, &entries.iter().map(|(name, sec)| (at(*sec), *name)).collect::<Vec<_>>());
        object
    }

    /// Names, marker, whether there are more.
    fn names(object: &mut Object, times: (UTime, UTime), marker: &Name, max: i32) -> (Vec<Name>, Name, bool) {
        list(object, "log", times, marker, max, |d| {
            let (_, name): (Name, Name) = (d.get()?, d.get()?);
            let _: (UTime, (Name, Name)) = (d.get()?, d.get()?);
            Ok(name)
        })
    }

    fn left(object: &mut Object) -> Vec<Name> {
        names(object, ALL, &Name::new(), 0).0
    }

    fn is(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::from(*name)).collect()
    }

    fn header(object: &mut Object) -> (Name, UTime) {
        let reply = object.call("log", "info", &input(1, |e| e)).ok();
        let header = |d: &mut Decoder<'_>, _| d.versioned(1, "header", |d, _| Ok((d.get()?, d.get()?)));
        Decoder::new(&reply).versioned(1, "reply", header).expect("a reply")
    }

    #[test]
    fn entries_are_listed_by_time_in_pages() {
        let mut object = five();
        assert_eq!(left(&mut object), is(&["a", "b", "c", "d", "e"]));
        let (some, _, more) = names(&mut object, (at(11), at(13)), &Name::new(), 0);
        assert_eq!((some, more), (is(&["b", "c"]), false), "the end is exclusive");
        let (first, marker, more) = names(&mut object, ALL, &Name::new(), 3);
        assert_eq!((first, more), (is(&["a", "b", "c"]), true));
        let (rest, _, more) = names(&mut object, ALL, &marker, 3);
        assert_eq!((rest, more), (is(&["d", "e"]), false));
        object.stored.omap.insert("1_0000000010.999999_x".into(), vec![1]);
        assert_eq!(left(&mut object).len(), 5, "garbage is left out");
        assert!(object.call("log", "list", b"\x01\x01\xff").is(Errno::EINVAL));
    }

    #[test]
    fn entries_of_one_time_are_all_kept() {
        let mut object = Object::absent();
        add(&mut object, &[(at(1), "a"), (at(1), "b")]);
        add(&mut object, &[(at(1), "c")]);
        assert_eq!(left(&mut object).len(), 3);
        let calls = ["d", "e"].map(|name| cls::testing::call("log", "add", &add_input(&[(at(1), name)])));
        object.run(&calls);
        assert_eq!(left(&mut object).len(), 5, "two calls of one request");
    }

    #[test]
    fn a_late_entry_is_kept_at_the_newest_time() {
        let mut object = five();
        add(&mut object, &[(at(1), "late")]);
        assert_eq!(left(&mut object).last(), Some(&"late".into()));
        let (marker, time) = header(&mut object);
        assert_eq!(time, at(14));
        assert_eq!(Some(&marker), object.stored.omap.keys().last());
        assert_eq!(header(&mut Object::empty()), Default::default());
    }

    #[test]
    fn entries_are_removed_by_time_until_none_is_left() {
        let mut object = five();
        let (zero, trim) = (UTime::default(), |to| trim_input(UTime::default(), to, "", ""));
        object.call("log", "trim", &trim(at(11))).ok();
        assert_eq!(left(&mut object), is(&["c", "d", "e"]), "the end is inclusive");
        assert!(object.call("log", "trim", &trim(at(11))).is(Errno::ENODATA));
        object.call("log", "trim", &trim_input(at(13), at(13), "", "")).ok();
        assert_eq!(left(&mut object), is(&["c", "e"]));
        object.call("log", "trim", &trim_input(zero, zero, "", "9")).ok();
        assert_eq!(left(&mut object), is(&[]));
        assert!(object.call("log", "trim", &trim(at(20))).is(Errno::ENODATA));
    }

    #[test]
    fn an_entry_a_microsecond_after_the_end_is_kept() {
        let mut object = Object::empty();
        let later = UTime { sec: 1, nsec: 6_000 };
        add(&mut object, &[(at(1), "a"), (later, "b")]);
        object.call("log", "trim", &trim_input(UTime::default(), at(1), "", "")).ok();
        assert_eq!(left(&mut object), is(&["b"]));
    }

    #[test]
    fn entries_are_removed_between_markers() {
        let mut object = five();
        let keys: Vec<String> = object.stored.omap.keys().map(ToString::to_string).collect();
        let zero = UTime::default();
        object.call("log", "trim", &trim_input(zero, zero, &keys[1], &keys[3])).ok();
        assert_eq!(left(&mut object), is(&["a", "b", "e"]), "the first marker is kept, the last removed");
    }
}

mod timeindex {
    use super::*;

    fn add(object: &mut Object, entries: &[(UTime, &str, &str)]) {
        let add = input(1, |e| {
            e.put(&(entries.len() as u32));
            for (time, extension, value) in entries {
                e.versioned(1, 1, |e| {
                    e.put(time).put(*extension).put(*value);
                });
            }
            e
        });
        object.call("timeindex", "add", &add).ok();
    }

    fn three() -> Object {
        let mut object = Object::empty();
        add(&mut object, &[(at(12), "", "c"), (at(10), "x_y z", "a"), (at(11), "q", "b")]);
        object
    }

    fn entries(
        object: &mut Object,
        times: (UTime, UTime),
        marker: &Name,
        max: i32,
    ) -> (Vec<(UTime, Name, Name)>, Name, bool) {
        list(object, "timeindex", times, marker, max, |d| Ok((d.get()?, d.get()?, d.get()?)))
    }

    fn values(object: &mut Object, from: u32, to: u32) -> Vec<Name> {
        let (entries, ..) = entries(object, (at(from), at(to)), &Name::new(), 100);
        entries.into_iter().map(|(_, _, value)| value).collect()
    }

    #[test]
    fn entries_are_listed_by_time_in_pages() {
        let mut object = three();
        assert_eq!(object.stored.omap.get(&"1_0000000010.000005_x_y z".into()), Some(&b"a".to_vec()));
        assert_eq!(values(&mut object, 0, 100), ["a".into(), "b".into(), "c".into()]);
        assert_eq!(values(&mut object, 11, 12), ["b".into()]);
        let (first, marker, more) = entries(&mut object, (at(0), at(100)), &Name::new(), 1);
        let time = UTime { sec: 10, nsec: 5 };
        assert_eq!((first, more), (vec![(time, "x_y z".into(), "a".into())], true));
        let (rest, _, more) = entries(&mut object, (at(0), at(100)), &marker, 2);
        assert_eq!((rest.len(), more), (2, false));
    }

    #[test]
    fn entries_are_removed_until_none_is_left() {
        let mut object = three();
        object.call("timeindex", "trim", &trim_input(at(0), at(11), "", "")).ok();
        assert_eq!(values(&mut object, 0, 100), ["c".into()], "the end is inclusive");
        assert!(object.call("timeindex", "trim", &trim_input(at(0), at(11), "", "")).is(Errno::ENODATA));
        object.call("timeindex", "trim", &trim_input(at(0), at(0), "", "1_0000000012")).ok();
        assert_eq!(values(&mut object, 0, 100), [], "a marker is a start of keys");
        assert!(object.call("timeindex", "add", b"\x01\x01\xff").is(Errno::EINVAL));
    }
}
