//! What each operation does, held against Ceph's PrimaryLogPG::do_osd_ops and the behaviour of `rados`.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use encoding::{Decode, Encode, Encoder};
use messages::osd_op::{CopyCursor, CopyData, OpFlags, OsdFlags};
use messages::{Blob, Op, OpArgs, OpCode};
use ops::{
    Caller, ClassTable, CopiedObject, CopySource, ExecuteResult, Fetched, FullKind, Mutation, Need, NeedOf,
    ObjectFlags, ObjectState, ObjectView, OpContext, OpLimits, OpOutcome, Record, StatsDelta, WatchContext,
    copy_get_op, execute,
};
use types::{
    EntityName, EntityType, Errno, HObject, Name, ObjectLocator, PoolId, Release, ReqId, SnapContext, SnapId,
    UTime,
};

/// A stored object; what is not `resident` is asked for first.
#[derive(Clone, Default)]
struct Stored {
    data: Vec<u8>,
    attrs: BTreeMap<Name, Vec<u8>>,
    omap: BTreeMap<Name, Vec<u8>>,
    header: Vec<u8>,
    /// What COPY_FROM finds.
    copies: BTreeMap<CopySource, Fetched>,
    absent: bool,
    asked: Vec<Need>,
    resident: bool,
}

impl Stored {
    fn answer(&self, need: &Need) -> Fetched {
        let cut = |offset: u64, len: u64| {
            let from = (offset as usize).min(self.data.len());
            from..from.saturating_add(len as usize).min(self.data.len())
        };
        let pairs = |keys: Vec<&Name>| {
            keys.into_iter().filter_map(|k| Some((k.clone(), Rope::copy_from(self.omap.get(k)?)))).collect()
        };
        match need {
            Need::Data { offset, len, .. } => Fetched::Data(Rope::copy_from(&self.data[cut(*offset, *len)])),
            Need::Extents { offset, len } => {
                // As a store of 4-byte blocks would see it.
                let range = cut(*offset, *len);
                let blocks = range.clone().step_by(4).map(|s| (s, (s + 4).min(range.end)));
                let used = blocks.filter(|&(s, e)| self.data[s..e].iter().any(|&b| b != 0));
                Fetched::Extents(used.map(|(s, e)| (s as u64, (e - s) as u64)).collect())
            }
            Need::Attr(name) => Fetched::Attr(self.attrs.get(name).map(|v| Rope::copy_from(v))),
            Need::Attrs => {
                Fetched::Attrs(self.attrs.iter().map(|(k, v)| (k.clone(), Rope::copy_from(v))).collect())
            }
            Need::Copy(source) => self.copies.get(source).cloned().unwrap_or(Fetched::Failed(Errno::ENOENT)),
            Need::OmapHeader => Fetched::OmapHeader(Rope::copy_from(&self.header)),
            Need::OmapKeys(keys) => Fetched::Omap { pairs: pairs(keys.iter().collect()), more: false },
            Need::OmapRange { after, prefix, max, .. } => {
                let all = self.omap.keys();
                let mut keys: Vec<_> = all.filter(|k| *k > after && k.starts_with(prefix)).collect();
                let more = keys.len() as u64 > *max;
                keys.truncate(*max as usize);
                Fetched::Omap { pairs: pairs(keys), more }
            }
        }
    }
}

impl ObjectView for Stored {
    fn fetch(&mut self, of: NeedOf, need: Need) -> Option<Fetched> {
        assert_eq!(of, NeedOf::Own);
        assert!(
            !self.absent || matches!(need, Need::Copy(_)),
            "nothing is read of an object that is not there"
        );
        let answer = self.answer(&need);
        if self.resident || self.asked.contains(&need) {
            return Some(answer);
        }
        self.asked.push(need);
        None
    }
}

struct Case {
    stored: Stored,
    state: ObjectState,
    flags: u32,
    full: Option<FullKind>,
    caller: Caller,
    snapc: SnapContext,
    limits: OpLimits,
    classes: ClassTable,
}

fn oid() -> HObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), "o".into(), 7)
}

/// An object with this data.
fn object(data: &[u8]) -> Case {
    let mut case = absent();
    case.stored = Stored { data: data.to_vec(), resident: true, ..Stored::default() };
    case.state.exists = true;
    case.state.info.size = data.len() as u64;
    case.state.info.user_version = 5;
    case.state.info.mtime = UTime { sec: 9, nsec: 8 };
    case
}

fn absent() -> Case {
    Case {
        stored: Stored { absent: true, resident: true, ..Stored::default() },
        state: ObjectState::absent(oid()),
        flags: 0,
        full: None,
        caller: Caller {
            name: EntityName::new(EntityType::Client, 4123),
            reqid: ReqId::default(),
            addrs: Default::default(),
            features: 0,
        },
        snapc: SnapContext::default(),
        limits: OpLimits::default(),
        classes: ClassTable::default(),
    }
}

impl Case {
    fn start(&mut self, ops: &[Op]) -> ExecuteResult {
        let ctx = OpContext {
            caller: &self.caller,
            limits: &self.limits,
            snapc: &self.snapc,
            removed_snaps: None,
            flags: self.flags,
            pool_has_omap: true,
            full: self.full,
            classes: &self.classes,
            now: UTime { sec: 100, nsec: 0 },
            mtime: UTime { sec: 90, nsec: 0 },
            seed: 7,
            last_user_version: 40,
            require_osd_release: Release::PACIFIC,
            require_min_compat_client: Release::LUMINOUS,
            watches: WatchContext::default(),
        };
        execute(&mut self.stored, &ctx, &self.state, ops)
    }

    fn run(&mut self, ops: &[Op]) -> OpOutcome {
        match self.start(ops) {
            ExecuteResult::Done(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    /// The object's data after the operations, if it exists then.
    fn after(&mut self, ops: &[Op]) -> (i32, Option<Vec<u8>>) {
        let outcome = self.run(ops);
        let mut data = self.stored.data.clone();
        for mutation in &outcome.mutations {
            match mutation {
                Mutation::Write { offset, data: new, .. } => {
                    let end = *offset as usize + new.len();
                    data.resize(data.len().max(end), 0);
                    data[*offset as usize..end].copy_from_slice(&new.to_vec());
                }
                Mutation::Zero { offset, len } => data[*offset as usize..(offset + len) as usize].fill(0),
                Mutation::Truncate(size) => data.resize(*size as usize, 0),
                Mutation::Remove => data.clear(),
                _ => {}
            }
        }
        if outcome.state.exists {
            assert_eq!(outcome.state.info.size, data.len() as u64, "size and data agree");
            assert_eq!(outcome.delta.num_bytes, data.len() as i64 - self.stored.data.len() as i64);
        }
        (outcome.result, outcome.state.exists.then_some(data))
    }
}

fn op(code: OpCode, offset: u64, length: u64) -> Op {
    Op::new(code, OpArgs::extent(offset, length))
}

fn write(offset: u64, data: &[u8]) -> Op {
    op(OpCode::WRITE, offset, data.len() as u64).with_indata(data.to_vec())
}

fn with_truncation(of: Op, truncate_seq: u32, truncate_size: u64) -> Op {
    let OpArgs::Extent { offset, length, .. } = of.args else { panic!("an extent") };
    let args = OpArgs::Extent { offset, length, truncate_size, truncate_seq };
    Op::new(of.code, args).with_flags(of.flags).with_indata(of.indata)
}

fn xattr(code: OpCode, name: &str, value: &[u8], cmp_op: u8, cmp_mode: u8) -> Op {
    let args = OpArgs::Xattr { name_len: name.len() as u32, value_len: value.len() as u32, cmp_op, cmp_mode };
    Op::new(code, args).with_indata([name.as_bytes(), value].concat())
}

fn encoded(put: impl Fn(&mut Encoder) -> &mut Encoder) -> Vec<u8> {
    let mut e = Encoder::new(0);
    put(&mut e);
    e.into_bytes()
}

const ENOENT: i32 = -2;

#[test]
fn reads_are_cut_at_the_end() {
    let cases: [(u64, u64, &[u8]); 6] = [
        (0, 0, b"abcdef"), // Length 0 reads everything.
        (2, 3, b"cde"),
        (4, 100, b"ef"),
        (6, 1, b""),
        (100, 1, b""),
        (0, u64::MAX, b"abcdef"),
    ];
    for (offset, length, expected) in cases {
        let got = object(b"abcdef").run(&[op(OpCode::READ, offset, length)]);
        assert_eq!((got.result, got.returns[0].data.to_vec()), (0, expected.to_vec()), "{offset}~{length}");
        assert!(got.mutations.is_empty() && !got.user_modify);
    }
}

#[test]
fn a_reader_that_knows_of_a_newer_truncation_does_not_see_what_it_cut() {
    let read = |seq, size| {
        let mut case = object(b"abcdef");
        case.state.info.truncate_seq = 3;
        let got = case.run(&[with_truncation(op(OpCode::READ, 0, 6), seq, size)]);
        got.returns[0].data.to_vec()
    };
    assert_eq!(read(4, 2), b"ab");
    assert_eq!(read(3, 2), b"abcdef");
    assert_eq!(read(4, 60), b"abcdef");
    assert_eq!(read(1, u64::MAX), b"abcdef");
}

#[test]
fn writes_cut_extend_and_create() {
    type Row<'a> = (&'a str, Case, Op, i32, Option<&'a [u8]>);
    let cases: [Row<'_>; 22] = [
        ("inside", object(b"abc"), write(1, b"X"), 0, Some(b"aXc")),
        ("past the end", object(b"abc"), write(5, b"X"), 0, Some(b"abc\0\0X")),
        ("creates", absent(), write(1, b"X"), 0, Some(b"\0X")),
        ("of nothing creates", absent(), write(0, b""), 0, Some(b"")),
        ("of nothing past the end extends", object(b"a"), write(3, b""), 0, Some(b"a\0\0")),
        ("of nothing inside changes nothing", object(b"abc"), write(1, b""), 0, Some(b"abc")),
        ("length and data differ", object(b"a"), op(OpCode::WRITE, 0, 3), -22, Some(b"a")),
        (
            "full shortens",
            object(b"abc"),
            op(OpCode::WRITEFULL, 0, 1).with_indata(b"X".to_vec()),
            0,
            Some(b"X"),
        ),
        ("full creates", absent(), op(OpCode::WRITEFULL, 0, 1).with_indata(b"X".to_vec()), 0, Some(b"X")),
        ("full of nothing", object(b"abc"), op(OpCode::WRITEFULL, 0, 0), 0, Some(b"")),
        ("append", object(b"abc"), op(OpCode::APPEND, 0, 1).with_indata(b"X".to_vec()), 0, Some(b"abcX")),
        ("append creates", absent(), op(OpCode::APPEND, 0, 1).with_indata(b"X".to_vec()), 0, Some(b"X")),
        ("truncate cuts", object(b"abc"), op(OpCode::TRUNCATE, 1, 0), 0, Some(b"a")),
        ("truncate extends", object(b"abc"), op(OpCode::TRUNCATE, 5, 0), 0, Some(b"abc\0\0")),
        ("truncate of nothing does nothing", absent(), op(OpCode::TRUNCATE, 5, 0), 0, None),
        ("zero inside", object(b"abcd"), op(OpCode::ZERO, 1, 2), 0, Some(b"a\0\0d")),
        ("zero up to the end truncates", object(b"abcd"), op(OpCode::ZERO, 1, 3), 0, Some(b"a")),
        ("zero past the end does nothing", object(b"abcd"), op(OpCode::ZERO, 4, 3), 0, Some(b"abcd")),
        ("zero of nothing does nothing", absent(), op(OpCode::ZERO, 0, 3), 0, None),
        ("delete", object(b"a"), op(OpCode::DELETE, 0, 0), 0, None),
        ("delete of nothing", absent(), op(OpCode::DELETE, 0, 0), ENOENT, None),
        ("create", absent(), op(OpCode::CREATE, 0, 0), 0, Some(b"")),
    ];
    for (what, mut case, op, result, data) in cases {
        assert_eq!(case.after(&[op]), (result, data.map(<[u8]>::to_vec)), "{what}");
    }
}

#[test]
fn creating_exclusively_fails_only_where_something_is() {
    let exclusive = op(OpCode::CREATE, 0, 0).with_flags(OpFlags::EXCL);
    assert_eq!(absent().after(std::slice::from_ref(&exclusive)), (0, Some(vec![])));
    assert_eq!(object(b"a").after(&[exclusive]), (Errno::EEXIST.code(), Some(b"a".to_vec())));
    assert_eq!(object(b"a").after(&[op(OpCode::CREATE, 0, 0)]), (0, Some(b"a".to_vec())));
}

#[test]
fn a_write_that_changes_no_byte_is_a_change_with_a_time_of_its_own() {
    for nothing in [op(OpCode::CREATE, 0, 0), write(1, b"")] {
        let outcome = object(b"abc").run(&[nothing]);
        assert_eq!((outcome.result, outcome.user_modify), (0, true));
        assert_eq!(outcome.mutations, [Mutation::Touch]);
    }
}

#[test]
fn an_object_reaches_to_osd_max_object_size_and_not_further() {
    const MAX: u64 = 128 << 20;
    let efbig = Errno::EFBIG.code();
    for (offset, expected) in [(MAX - 1, 0), (MAX, efbig), (u64::MAX, efbig)] {
        assert_eq!(absent().run(&[write(offset, b"x")]).result, expected, "{offset}");
    }
    assert_eq!(object(b"a").run(&[op(OpCode::TRUNCATE, MAX, 0)]).result, efbig);
    let same = |length| {
        let args = OpArgs::WriteSame { offset: 0, length, data_length: 1 };
        absent().run(&[Op::new(OpCode::WRITESAME, args).with_indata(b"x".to_vec())]).result
    };
    assert_eq!((same(u64::MAX), same(MAX + 1)), (efbig, efbig));
}

#[test]
fn a_write_that_a_truncation_has_overtaken_adds_nothing_and_one_that_knows_more_truncates() {
    let mut case = object(b"abcdef");
    case.state.info.truncate_seq = 5;
    assert_eq!(case.after(&[with_truncation(write(4, b"XYZ"), 4, 0)]), (0, Some(b"abcdXY".to_vec())));
    assert_eq!(case.after(&[with_truncation(write(8, b"XYZ"), 4, 0)]), (0, Some(b"abcdef".to_vec())));
    assert!(case.run(&[with_truncation(write(8, b"XYZ"), 4, 0)]).mutations.is_empty(), "no new version");
    assert_eq!(case.after(&[with_truncation(write(3, b"X"), 6, 2)]), (0, Some(b"ab\0X".to_vec())));
    let far = with_truncation(write(0, b"X"), 6, u64::MAX);
    assert_eq!(case.run(&[far]).result, Errno::EFBIG.code());
    let trim = |seq| with_truncation(op(OpCode::TRIMTRUNC, 0, 0), seq, 2);
    assert_eq!(case.after(&[trim(5)]), (0, Some(b"abcdef".to_vec())));
    assert_eq!(case.after(&[trim(6)]), (0, Some(b"ab".to_vec())));
    assert_eq!(case.run(&[trim(6)]).state.info.truncate_seq, 6);
}

#[test]
fn writing_the_same_repeats_the_data() {
    let same = |length, data_length, data: &[u8]| {
        let args = OpArgs::WriteSame { offset: 1, length, data_length };
        object(b"abc").after(&[Op::new(OpCode::WRITESAME, args).with_indata(data.to_vec())])
    };
    assert_eq!(same(6, 2, b"XY"), (0, Some(b"aXYXYXY".to_vec())));
    assert_eq!(same(0, 2, b"XY"), (0, Some(b"abc".to_vec())));
    assert_eq!(same(5, 2, b"XY").0, -22);
    assert_eq!(same(6, 3, b"XY").0, -22);
    assert_eq!(same(6, 0, b"").0, -22);
    let long = same(300_000, 3, b"123");
    assert_eq!(long.1.map(|d| (d.len(), d[300_000])), Some((300_001, b'3')));
    let cut = |offset, length| {
        let mut case = object(b"abcdef");
        case.state.info.truncate_seq = 1;
        let args = OpArgs::WriteSame { offset, length, data_length: 2 };
        case.after(&[Op::new(OpCode::WRITESAME, args).with_indata(b"XY".to_vec())])
    };
    assert_eq!(cut(3, 1 << 40), (0, Some(b"abcXYX".to_vec())), "a truncation has overtaken it");
    assert_eq!(cut(8, 2), (0, Some(b"abcdef".to_vec())));
}

#[test]
fn stat_gives_size_and_time_or_enoent() {
    let got = object(b"abc").run(&[op(OpCode::STAT, 0, 0)]);
    assert_eq!(got.returns[0].data.to_vec(), [3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(absent().run(&[op(OpCode::STAT, 0, 0)]).result, ENOENT);
}

#[test]
fn a_sparse_read_gives_extents_and_their_bytes() {
    let mut case = object(b"abcd\0\0\0\0ef");
    let got = case.run(&[op(OpCode::SPARSE_READ, 0, 100)]);
    let extents: BTreeMap<u64, u64> = [(0, 4), (8, 2)].into();
    let expected = encoded(|e| e.put(&extents).blob(b"abcdef"));
    assert_eq!(got.returns[0].data.to_vec(), expected);
    let past = case.run(&[op(OpCode::SPARSE_READ, 50, 10)]);
    assert_eq!(past.returns[0].data.to_vec(), [0; 8]);
    let map = case.run(&[op(OpCode::MAPEXT, 0, 100)]);
    assert_eq!(BTreeMap::from_bytes_exact(&map.returns[0].data.to_piece()), Ok(extents));
}

#[test]
fn attributes_are_set_read_compared_and_removed() {
    let mut case = object(b"");
    case.stored.attrs = [("_k".into(), b"12".to_vec()), ("_".into(), vec![1]), ("ss".into(), vec![2])].into();
    let run = |case: &mut Case, op: Op| {
        let got = case.run(&[op]);
        (got.result, got.returns[0].data.to_vec())
    };
    assert_eq!(run(&mut case, xattr(OpCode::GETXATTR, "k", b"", 0, 0)), (0, b"12".to_vec()));
    assert_eq!(run(&mut case, xattr(OpCode::GETXATTR, "x", b"", 0, 0)).0, Errno::ENODATA.code());
    let all = run(&mut case, xattr(OpCode::GETXATTRS, "", b"", 0, 0)).1;
    let expected: BTreeMap<Name, Name> = [("k".into(), "12".into())].into();
    assert_eq!(BTreeMap::from_bytes_exact(&all), Ok(expected), "only the client's own");
    let set = case.run(&[xattr(OpCode::SETXATTR, "new", b"v", 0, 0)]);
    assert_eq!(set.mutations, [Mutation::SetAttr("_new".into(), Rope::copy_from(b"v"))]);
    let removed = case.run(&[xattr(OpCode::RMXATTR, "k", b"", 0, 0)]);
    assert_eq!(removed.mutations, [Mutation::RemoveAttr("_k".into())]);
    assert_eq!(absent().run(&[xattr(OpCode::RMXATTR, "k", b"", 0, 0)]).result, ENOENT);
    assert!(matches!(
        absent().run(&[xattr(OpCode::SETXATTR, "k", b"", 0, 0)]).mutations[0],
        Mutation::Create
    ));
    let long = "n".repeat(101);
    assert_eq!(run(&mut case, xattr(OpCode::SETXATTR, &long, b"", 0, 0)).0, Errno::ENAMETOOLONG.code());
    case.limits.attr_size_max = 3;
    assert_eq!(run(&mut case, xattr(OpCode::SETXATTR, "k", b"1234", 0, 0)).0, Errno::EFBIG.code());
    let short =
        Op::new(OpCode::SETXATTR, OpArgs::Xattr { name_len: 9, value_len: 0, cmp_op: 0, cmp_mode: 0 });
    assert_eq!(run(&mut case, short).0, Errno::EINVAL.code());
}

#[test]
fn attribute_comparisons_put_the_requests_value_on_the_left() {
    let mut case = object(b"");
    case.stored.attrs = [("_k".into(), b"12".to_vec())].into();
    let canceled = Errno::ECANCELED.code();
    // EQ NE GT GTE LT LTE
    let expected = [
        (&b"12"[..], [1, canceled, canceled, 1, canceled, 1]),
        (&b"13"[..], [canceled, 1, 1, 1, canceled, canceled]),
        (&b"11"[..], [canceled, 1, canceled, canceled, 1, 1]),
    ];
    for (value, results) in expected {
        for (cmp_op, result) in (1..).zip(results) {
            let text = xattr(OpCode::CMPXATTR, "k", value, cmp_op, 1);
            let number: u64 = std::str::from_utf8(value).unwrap().parse().unwrap();
            let number = xattr(OpCode::CMPXATTR, "k", &number.to_le_bytes(), cmp_op, 2);
            assert_eq!(case.run(&[text]).result, result, "{value:?} op {cmp_op}");
            assert_eq!(case.run(&[number]).result, result, "{value:?} op {cmp_op} as number");
        }
    }
    assert_eq!(case.run(&[xattr(OpCode::CMPXATTR, "none", b"", 1, 1)]).result, 1, "absent compares as empty");
    assert_eq!(absent().run(&[xattr(OpCode::CMPXATTR, "k", b"", 1, 1)]).result, ENOENT);
    assert_eq!(case.run(&[xattr(OpCode::CMPXATTR, "k", b"", 1, 7)]).result, Errno::EINVAL.code());
}

#[test]
fn comparing_an_extent_gives_the_first_difference() {
    let compare = |offset, data: &[u8]| {
        let op = op(OpCode::CMPEXT, offset, data.len() as u64).with_indata(data.to_vec());
        object(b"abcd").run(&[op]).result
    };
    assert_eq!(compare(1, b"bc"), 0);
    assert_eq!(compare(1, b"bX"), -4096);
    assert_eq!(compare(3, b"d\0\0"), 0, "behind the end are zeros");
    assert_eq!(compare(3, b"d\0X"), -4097);
    assert_eq!(compare(9, b"\0"), 0);
    assert_eq!(absent().run(&[op(OpCode::CMPEXT, 0, 1).with_indata(b"x".to_vec())]).result, -4095);
}

#[test]
fn versions_are_asserted_exactly() {
    let assert_ver =
        |ver| object(b"").run(&[Op::new(OpCode::ASSERT_VER, OpArgs::AssertVer { unused: 0, ver })]).result;
    assert_eq!(
        [0, 4, 5, 6].map(assert_ver),
        [Errno::EINVAL.code(), Errno::ERANGE.code(), 0, Errno::EOVERFLOW.code()]
    );
}

#[test]
fn omap_is_read_in_ranges_and_by_keys() {
    let mut case = object(b"");
    case.state.info.flags = ops::ObjectFlags::OMAP;
    case.stored.header = b"head".to_vec();
    case.stored.omap = ["a", "b", "ba", "c"].map(|k| (k.into(), k.as_bytes().to_vec())).into();
    let mut get =
        |code, input: Vec<u8>| case.run(&[op(code, 0, 0).with_indata(input)]).returns[0].data.to_vec();
    let input = encoded(|e| e.put("a").put(&2u64));
    let expected = encoded(|e| e.put(&2u32).put("b").put("ba").put(&true));
    assert_eq!(get(OpCode::OMAPGETKEYS, input), expected);
    let input = encoded(|e| e.put("").put(&9u64).put("b"));
    let expected = encoded(|e| e.put(&2u32).put("b").put("b").put("ba").put("ba").put(&false));
    assert_eq!(get(OpCode::OMAPGETVALS, input), expected);
    assert_eq!(get(OpCode::OMAPGETHEADER, vec![]), b"head");
    let keys: BTreeSet<Name> = ["c".into(), "nothing".into()].into();
    let expected: BTreeMap<Name, Name> = [("c".into(), "c".into())].into();
    assert_eq!(get(OpCode::OMAPGETVALSBYKEYS, keys.to_bytes(0)), expected.to_bytes(0));
    let mut compare = |key: &str, value: &str, cmp: i32| {
        let assertions: BTreeMap<Name, (Name, i32)> = [(key.into(), (value.into(), cmp))].into();
        case.run(&[op(OpCode::OMAP_CMP, 0, 0).with_indata(assertions.to_bytes(0))]).result
    };
    assert_eq!((compare("a", "a", 1), compare("a", "b", 1)), (0, Errno::ECANCELED.code()));
    assert_eq!(
        (compare("b", "a", 3), compare("b", "c", 5), compare("b", "b", 4)),
        (0, 0, Errno::EINVAL.code())
    );
    // Ceph's bytes have a sign: "é" begins with 0xc3, which is negative.
    assert_eq!((compare("b", "é", 3), compare("b", "é", 5)), (0, Errno::ECANCELED.code()));
}

/// As Ceph 16.2 and 18.2 list: what is behind the key that is given, also where that is the empty one.
#[test]
fn an_empty_key_is_read_by_its_name_and_never_listed() {
    let mut case = object(b"");
    case.state.info.flags = ops::ObjectFlags::OMAP;
    case.stored.omap = ["", "a", "b"].map(|k| (k.into(), k.as_bytes().to_vec())).into();
    let mut keys = |max: u64| {
        let input = encoded(|e| e.put("").put(&max));
        case.run(&[op(OpCode::OMAPGETKEYS, 0, 0).with_indata(input)]).returns[0].data.to_vec()
    };
    assert_eq!(keys(9), encoded(|e| e.put(&2u32).put("a").put("b").put(&false)));
    assert_eq!(keys(2), encoded(|e| e.put(&2u32).put("a").put("b").put(&false)));
    assert_eq!(keys(1), encoded(|e| e.put(&1u32).put("a").put(&true)));
    let named: BTreeSet<Name> = ["".into()].into();
    let expected: BTreeMap<Name, Name> = [("".into(), "".into())].into();
    let got = case.run(&[op(OpCode::OMAPGETVALSBYKEYS, 0, 0).with_indata(named.to_bytes(0))]);
    assert_eq!(got.returns[0].data.to_vec(), expected.to_bytes(0));
}

#[test]
fn omap_writes_create_where_ceph_creates() {
    let pairs: BTreeMap<Name, Name> = [("k".into(), "v".into())].into();
    let set = op(OpCode::OMAPSETVALS, 0, 0).with_indata(pairs.to_bytes(0));
    let got = absent().run(&[set]);
    assert_eq!(got.mutations[1], Mutation::OmapSet(vec![("k".into(), Rope::copy_from(b"v"))]));
    assert!(got.state.info.is_omap());
    for code in [OpCode::OMAPCLEAR, OpCode::OMAPRMKEYS, OpCode::OMAPRMKEYRANGE] {
        assert_eq!(absent().run(&[op(code, 0, 0).with_indata(vec![0; 8])]).result, ENOENT, "{code}");
    }
    assert_eq!(absent().run(&[op(OpCode::OMAPSETVALS, 0, 0).with_indata(vec![9])]).result, -22);
}

#[test]
fn a_failing_operation_leaves_nothing_unless_its_failure_is_fine() {
    let failing = xattr(OpCode::CMPXATTR, "k", b"x", 1, 1);
    let got = object(b"abc").run(&[write(0, b"X"), failing.clone(), write(1, b"Y")]);
    assert_eq!(
        (got.result, got.mutations.len(), got.state),
        (Errno::ECANCELED.code(), 0, object(b"abc").state)
    );
    assert_eq!(got.returns.iter().map(|r| r.rval).collect::<Vec<_>>(), [0, Errno::ECANCELED.code(), 0]);
    let fine = failing.with_flags(OpFlags::FAILOK);
    assert_eq!(object(b"abc").after(&[write(0, b"X"), fine, write(1, b"Y")]), (0, Some(b"XYc".to_vec())));
}

#[test]
fn deleting_and_writing_in_one_request_makes_a_new_object() {
    let got = object(b"abc").after(&[op(OpCode::DELETE, 0, 0), write(0, b"Z")]);
    assert_eq!(got, (0, Some(b"Z".to_vec())));
}

#[test]
fn an_object_made_and_removed_in_one_request_leaves_nothing_to_store() {
    let (create, delete) = (op(OpCode::CREATE, 0, 0), op(OpCode::DELETE, 0, 0));
    let read = op(OpCode::READ, 3, 1);
    for make in [create.clone(), write(0, b"abc"), xattr(OpCode::SETXATTR, "k", b"v", 0, 0)] {
        let got = absent().run(&[make, read.clone(), delete.clone()]);
        assert_eq!((got.result, got.mutations.as_slice(), got.record), (0, &[][..], Record::Nothing));
        assert_eq!((got.state, got.delta, got.user_modify), (absent().state, StatsDelta::default(), false));
    }
    // A newer snapshot has it stay as a whiteout, which is a change.
    let mut case = absent();
    case.snapc = SnapContext { seq: 5, snaps: vec![SnapId(5)] };
    let got = case.run(&[create.clone(), delete.clone()]);
    assert!(got.state.exists && !got.state.is_visible() && !got.mutations.is_empty(), "{got:?}");
    let got = object(b"abc").run(&[delete.clone(), create.clone(), delete.clone()]);
    assert!(!got.state.exists && !got.mutations.is_empty(), "what was there is removed");
    assert_eq!(absent().run(&[create, delete.clone(), delete]).result, ENOENT);
}

#[test]
fn a_read_after_a_write_in_one_request_sees_what_was_stored() {
    let mut case = object(b"abc");
    case.flags = OsdFlags::RETURNVEC;
    let got = case.run(&[write(0, b"XYZW"), op(OpCode::READ, 0, 4)]);
    assert_eq!(got.returns[1].data.to_vec(), b"abc");
}

#[test]
fn what_the_store_is_asked_for_is_not_there_where_the_request_makes_the_object() {
    let set = op(OpCode::OMAPSETVALS, 0, 0)
        .with_indata(BTreeMap::from([("k".to_string(), Blob(b"v".to_vec().into()))]).to_bytes(0));
    let attr = xattr(OpCode::SETXATTR, "a", b"v", 0, 0);
    let assertion = BTreeMap::from([(Name::from("k"), (Name::from("v"), 1))]).to_bytes(0);
    let range = encoded(|e| e.put("").put(&9u64).put(""));
    let keys = encoded(|e| e.put(&BTreeSet::from([Name::from("k")])));
    let none = 0_u32.to_bytes(0);
    let cases: [(Op, i32, &[u8]); 12] = [
        (op(OpCode::READ, 0, 0), ENOENT, b""),
        (op(OpCode::READ, 3, 1), 0, b""),
        (op(OpCode::SPARSE_READ, 0, 3), ENOENT, b""),
        (op(OpCode::SPARSE_READ, 3, 1), ENOENT, b""),
        (op(OpCode::MAPEXT, 0, 3), ENOENT, b""),
        (xattr(OpCode::GETXATTR, "a", b"", 0, 0), ENOENT, b""),
        (xattr(OpCode::CMPXATTR, "a", b"v", 1, 1), ENOENT, b""),
        (xattr(OpCode::GETXATTRS, "", b"", 0, 0), ENOENT, &none),
        (op(OpCode::OMAP_CMP, 0, 0).with_indata(assertion), ENOENT, b""),
        (op(OpCode::OMAPGETVALS, 0, 0).with_indata(range), 0, b""),
        (op(OpCode::OMAPGETVALSBYKEYS, 0, 0).with_indata(keys), 0, &none),
        (op(OpCode::OMAPGETHEADER, 0, 0), 0, b""),
    ];
    for (read, rval, data) in cases {
        let (code, mut case) = (read.code, absent());
        case.flags = OsdFlags::RETURNVEC;
        let got = case.run(&[write(0, b"abc"), set.clone(), attr.clone(), read.with_flags(OpFlags::FAILOK)]);
        assert_eq!(
            (got.result, got.returns[3].rval, got.returns[3].data.to_vec()),
            (0, rval, data.to_vec()),
            "{code}"
        );
    }
}

#[test]
fn a_removed_object_shows_its_stored_omap_to_the_rest_of_the_request() {
    let mut case = object(b"abc");
    case.stored.omap.insert("k".into(), b"v".to_vec());
    case.state.info.flags |= ObjectFlags::OMAP;
    case.flags = OsdFlags::RETURNVEC;
    let keys = encoded(|e| e.put(&BTreeSet::from([Name::from("k")])));
    let read = op(OpCode::OMAPGETVALSBYKEYS, 0, 0).with_indata(keys);
    let got = case.run(&[op(OpCode::DELETE, 0, 0), op(OpCode::CREATE, 0, 0), read]);
    let expected = BTreeMap::from([("k".to_string(), Blob(b"v".to_vec().into()))]).to_bytes(0);
    assert_eq!(got.returns[2].data.to_vec(), expected);
}

#[test]
fn needs_of_all_operations_are_collected_before_a_run_gives_up() {
    let mut case = object(b"abc");
    case.stored.resident = false;
    let ops = [op(OpCode::READ, 0, 1), op(OpCode::READ, 1, 1), xattr(OpCode::GETXATTR, "k", b"", 0, 0)];
    assert_eq!(case.start(&ops), ExecuteResult::Pending);
    assert_eq!(case.stored.asked.len(), 3);
    assert_eq!(case.run(&ops).result, Errno::ENODATA.code());
}

#[test]
fn what_a_write_returns_is_bounded() {
    let mut case = object(&[7; 65]);
    case.flags = OsdFlags::RETURNVEC;
    assert_eq!(case.run(&[op(OpCode::READ, 0, 64), write(0, b"x")]).result, 0);
    let got = case.run(&[op(OpCode::READ, 0, 65), write(0, b"x")]);
    assert_eq!((got.result, got.mutations.len()), (Errno::EOVERFLOW.code(), 0));
}

#[test]
fn old_and_wrong_snap_contexts_are_refused() {
    let mut case = object(b"");
    case.state.snapset.seq = 9;
    case.snapc = SnapContext { seq: 5, snaps: vec![SnapId(5)] };
    assert_eq!(case.run(&[write(0, b"x")]).result, 0);
    case.flags = OsdFlags::ORDERSNAP;
    let reads = [op(OpCode::READ, 0, 1), op(OpCode::STAT, 0, 0)];
    assert_eq!(case.run(&[write(0, b"x")]).result, -85);
    assert_eq!(case.run(&[reads[0].clone(), write(0, b"x")]).result, -85);
    assert_eq!(case.run(&reads).result, 0, "a read has no snap context");
    case.flags = 0;
    case.snapc.snaps = vec![SnapId(6)];
    assert_eq!(case.run(&[write(0, b"x")]).result, -22);
    assert_eq!(case.run(&reads).result, 0);
}

#[test]
fn lists_of_watchers_and_snapshots_have_cephs_form() {
    let got = object(b"abc").run(&[op(OpCode::LIST_WATCHERS, 0, 0)]);
    assert_eq!(got.returns[0].data.to_vec(), [1, 1, 4, 0, 0, 0, 0, 0, 0, 0]);
    let got = object(b"abc").run(&[op(OpCode::LIST_SNAPS, 0, 0)]);
    let head = encoded(|e| {
        e.versioned(1, 1, |e| {
            e.put(&SnapId::HEAD).put(&0u32).put(&0u32).put(&3u64);
        })
    });
    let expected = encoded(|e| {
        e.versioned(2, 1, |e| {
            e.put(&1u32).raw(&head).put(&0u64);
        })
    });
    assert_eq!(got.returns[0].data.to_vec(), expected);
}

#[test]
fn a_checksum_covers_chunks() {
    let sum = |offset, length, chunk_size, kind, init: &[u8]| {
        let args = OpArgs::Checksum { offset, length, chunk_size, kind };
        let got = object(b"abcd").run(&[Op::new(OpCode::CHECKSUM, args).with_indata(init.to_vec())]);
        (got.result, got.returns[0].data.to_vec())
    };
    let crc = |bytes: &[u8]| buffer::crc32c(!0, bytes);
    let whole = encoded(|e| e.put(&1u32).put(&crc(b"abcd")));
    let halves = encoded(|e| e.put(&2u32).put(&crc(b"ab")).put(&crc(b"cd")));
    assert_eq!(sum(0, 0, 0, 2, &[0xff; 4]), (0, whole));
    assert_eq!(sum(0, 4, 2, 2, &[0xff; 4]), (0, halves));
    assert_eq!(sum(9, 4, 0, 2, &[0xff; 4]), (0, vec![]));
    for (length, chunk, kind, init) in [(4, 3, 2, 4), (0, 2, 2, 4), (4, 2, 3, 4), (4, 2, 2, 3)] {
        assert_eq!(sum(0, length, chunk, kind, &vec![0; init]).0, -22);
    }
    let args = OpArgs::Checksum { offset: 0, length: 0, chunk_size: 0, kind: 2 };
    let whole = Op::new(OpCode::CHECKSUM, args).with_indata(vec![0xff; 4]);
    let append = op(OpCode::APPEND, 0, 1).with_indata(b"e".to_vec());
    assert_eq!(object(b"abcd").run(&[append, whole]).result, -22, "not all of it is stored yet");
}

#[test]
fn codes_nobody_knows_are_eopnotsupp_and_named() {
    let got = object(b"").run(&[Op::new(OpCode(0x12ff), OpArgs::none())]);
    assert_eq!((got.result, got.unsupported), (Errno::EOPNOTSUPP.code(), Some(0x12ff)));
}

#[test]
fn a_request_that_reads_too_much_fails_before_anything_is_read() {
    let read = || Op::new(OpCode::READ, OpArgs::none()).with_flags(OpFlags::FAILOK);
    let mut case = object(&[7; 100]);
    (case.stored.resident, case.limits.read_bytes_max) = (false, 300);
    assert!(matches!(case.start(&[read(), read(), read()]), ExecuteResult::Pending), "300 bytes may be read");
    let outcome = case.run(&[read(), read(), read(), read()]);
    assert_eq!(outcome.result, Errno::EMSGSIZE.code());
    assert_eq!(outcome.returns.len(), 4);
    assert!(outcome.returns.iter().all(|r| r.data.is_empty()));
}

#[test]
fn what_a_request_reads_of_attributes_and_omap_counts_too_and_changes_nothing_beyond_the_limit() {
    let mut case = object(b"");
    case.stored.attrs.insert("_a".into(), vec![1; 100]);
    case.limits.read_bytes_max = 250;
    let get = || xattr(OpCode::GETXATTR, "a", b"", 0, 0);
    assert_eq!(case.run(&[get(), get()]).result, 0);
    let write = Op::new(OpCode::WRITEFULL, OpArgs::extent(0, 1)).with_indata(b"x".to_vec());
    let outcome = case.run(&[write, get(), get(), get()]);
    assert_eq!(outcome.result, Errno::EMSGSIZE.code());
    assert!(outcome.mutations.is_empty() && outcome.state == case.state);
}

/// The object after these operations, and by how much they change the counts of dirty objects and of those with omap.
fn counted(case: &mut Case, ops: &[Op]) -> (ObjectState, i64, i64) {
    let outcome = case.run(ops);
    assert_eq!(outcome.result, 0);
    (outcome.state, outcome.delta.num_objects_dirty, outcome.delta.num_objects_omap)
}

#[test]
fn a_changed_object_is_dirty_and_counted_and_so_is_one_with_omap() {
    let (state, dirty, omap) = counted(&mut absent(), &[write(0, b"x")]);
    assert_eq!((state.info.has(ObjectFlags::DIRTY), dirty, omap), (true, 1, 0));
    let mut case = object(b"x");
    case.state = state;
    let header = Op::new(OpCode::OMAPSETHEADER, OpArgs::none()).with_indata(b"h".to_vec());
    let (state, dirty, omap) = counted(&mut case, &[header]);
    assert_eq!((state.info.has(ObjectFlags::DIRTY), dirty, omap), (true, 0, 1));
    case.state = state;
    let clear = op(OpCode::OMAPCLEAR, 0, 0);
    assert_eq!(counted(&mut case, &[clear]).2, -1);
    let (state, dirty, omap) = counted(&mut case, &[op(OpCode::DELETE, 0, 0)]);
    assert_eq!((state.info.has(ObjectFlags::DIRTY), dirty, omap), (false, -1, -1));
    assert_eq!(counted(&mut case, &[op(OpCode::READ, 0, 0)]).1, 0, "a read dirties nothing");
}

#[test]
fn the_data_digest_is_kept_where_all_data_is_written_or_data_is_added_to_it() {
    let digest = |outcome: &OpOutcome| {
        let info = &outcome.state.info;
        info.has(ObjectFlags::DATA_DIGEST).then_some(info.data_digest)
    };
    let crc = |data: &[u8]| Some(Rope::copy_from(data).crc32c(u32::MAX));
    let full = |data: &[u8]| op(OpCode::WRITEFULL, 0, data.len() as u64).with_indata(data.to_vec());
    let append = |data: &[u8]| op(OpCode::APPEND, 0, data.len() as u64).with_indata(data.to_vec());
    let mut case = object(b"abcd");
    assert_eq!(digest(&case.run(&[full(b"xy")])), crc(b"xy"));
    assert_eq!(digest(&case.run(&[write(0, b"ABCD")])), crc(b"ABCD"));
    assert_eq!(digest(&case.run(&[full(b"xy"), append(b"z"), write(3, b"!")])), crc(b"xyz!"));
    let lost = [
        vec![append(b"z")],
        vec![write(0, b"A")],
        vec![full(b"xyz"), write(1, b"A")],
        vec![full(b"xyz"), write(5, b"A")],
        vec![full(b"xyz"), write(5, b"")],
        vec![full(b"xyz"), op(OpCode::TRUNCATE, 1, 0)],
        vec![full(b"xyz"), op(OpCode::ZERO, 0, 1)],
    ];
    for ops in lost {
        assert_eq!(digest(&case.run(&ops)), None, "{ops:?}");
    }
    assert_eq!(digest(&absent().run(&[append(b"new")])), crc(b"new"));
}

#[test]
fn a_full_pool_takes_what_does_not_grow_it_and_all_of_a_metadata_server() {
    let grow = [op(OpCode::APPEND, 0, 1).with_indata(b"x".to_vec())];
    for (full, errno) in [(FullKind::Quota, Errno::EDQUOT), (FullKind::Space, Errno::ENOSPC)] {
        let mut case = object(b"data");
        case.full = Some(full);
        assert_eq!(case.start(&grow), ExecuteResult::Dropped);
        assert_eq!(case.run(&[op(OpCode::TRUNCATE, 1, 0)]).result, 0);
        case.flags = OsdFlags::FULL_TRY;
        assert_eq!(case.run(&grow).result, errno.code());
        case.flags = 0;
        case.caller.name = EntityName::new(EntityType::Mds, 4200);
        assert_eq!(case.run(&grow).result, 0);
    }
}

fn copy_source(name: &str) -> CopySource {
    let locator = ObjectLocator { pool: PoolId(1), key: Name::new(), nspace: Name::new(), hash: -1 };
    CopySource { name: name.into(), locator, snapid: SnapId::HEAD, version: 3, flags: 0, advice: 0 }
}

fn copy_from(code: OpCode, name: &str, flags: u8, truncation: Option<(u32, u64)>) -> Op {
    let args = OpArgs::CopyFrom { snapid: SnapId::HEAD, src_version: 3, flags, src_fadvise_flags: 0 };
    Op::new(code, args).with_indata(encoded(|e| {
        e.put(name).put(&copy_source(name).locator);
        truncation.iter().for_each(|(seq, size)| {
            e.put(seq).put(size);
        });
        e
    }))
}

#[test]
fn a_copy_replaces_the_object_and_may_have_another_truncation() {
    let copied = CopiedObject {
        mtime: UTime { sec: 1, nsec: 2 },
        user_version: 33,
        data: Rope::copy_from(b"copy"),
        data_digest: Some(4),
        omap_digest: None,
        attrs: [("n".into(), Rope::copy_from(b"v"))].into(),
        omap_header: Rope::copy_from(b"h"),
        omap: Vec::new(),
        truncate_seq: 8,
        truncate_size: 9,
    };
    let mut case = object(b"something longer");
    let found = Fetched::Copied(std::sync::Arc::new(copied));
    case.stored.copies.insert(copy_source("from"), found.clone());
    assert_eq!(case.after(&[copy_from(OpCode::COPY_FROM, "from", 0, None)]).1, Some(b"copy".to_vec()));
    let outcome = case.run(&[copy_from(OpCode::COPY_FROM, "from", 0, None)]);
    let info = &outcome.state.info;
    assert_eq!((info.mtime.sec, info.user_version, info.truncate_seq, info.truncate_size), (1, 33, 8, 9));
    assert!(
        outcome.copied_version == Some(33)
            && !outcome.user_modify
            && info.is_omap()
            && info.has(ObjectFlags::DATA_DIGEST)
    );
    assert_eq!(outcome.mutations[0], Mutation::Remove, "nothing of the old attributes and omap stays");
    assert!(outcome.mutations.contains(&Mutation::SetAttr("_n".into(), Rope::copy_from(b"v"))));
    let second = copy_from(OpCode::COPY_FROM2, "from", 32, Some((5, 6)));
    let info = case.run(&[second]).state.info;
    assert_eq!((info.truncate_seq, info.truncate_size), (5, 6));
    assert_eq!(case.run(&[copy_from(OpCode::COPY_FROM2, "from", 64, None)]).result, -22, "an unknown flag");
    assert_eq!(case.run(&[copy_from(OpCode::COPY_FROM, "o", 0, None)]).result, -22, "of itself");
    assert_eq!(case.run(&[copy_from(OpCode::COPY_FROM, "gone", 0, None)]).result, ENOENT);
    let gone = copy_from(OpCode::COPY_FROM, "gone", 0, None).with_flags(OpFlags::FAILOK);
    let failed = case.run(&[write(0, b"X"), gone, write(1, b"Y")]);
    assert_eq!((failed.result, failed.mutations.len()), (ENOENT, 0), "a copy that failed is never fine");
    let rvals: Vec<_> = failed.returns.iter().map(|of_op| of_op.rval).collect();
    assert_eq!(rvals, [0, Errno::EINPROGRESS.code(), 0], "it has not come back to its operations");
    let itself = copy_from(OpCode::COPY_FROM, "o", 0, None).with_flags(OpFlags::FAILOK);
    assert_eq!(case.run(&[itself, write(0, b"X")]).result, 0, "one that was not begun may be");
}

#[test]
fn an_object_is_read_for_a_copy_in_parts() {
    let mut case = object(b"0123456789");
    case.stored.attrs = [("_a".into(), b"v".to_vec()), ("_".into(), b"info".to_vec())].into();
    case.stored.omap = (0..5).map(|n| (format!("k{n}").into(), vec![n; 10])).collect();
    case.stored.header = b"header".to_vec();
    case.state.info.flags |= ObjectFlags::OMAP;
    let (mut cursor, mut parts) = (CopyCursor::default(), Vec::new());
    while !cursor.is_complete() {
        let outcome = case.run(&[copy_get_op(&cursor, 24)]);
        assert_eq!(outcome.result, 0);
        let part = CopyData::from_piece(&outcome.returns[0].data.to_piece()).unwrap();
        assert_ne!(part.cursor, cursor, "each part goes on");
        cursor = part.cursor.clone();
        parts.push(part);
    }
    let data: Vec<u8> = parts.iter().flat_map(|part| part.data.to_vec()).collect();
    assert_eq!(data, b"0123456789");
    assert_eq!(parts.iter().map(|part| part.attrs.len()).sum::<usize>(), 1, "clients' attributes, once");
    assert_eq!(parts[0].omap_header.to_vec(), b"header");
    let with_omap = parts.iter().filter(|part| !part.omap_data.is_empty());
    let maps = with_omap.map(|part| BTreeMap::<Name, Blob>::from_bytes(&part.omap_data.to_vec()).unwrap());
    let counts: Vec<usize> = maps.map(|pairs| pairs.len()).collect();
    assert!(counts.len() > 1 && counts.iter().sum::<usize>() == 5, "the omap takes more than one part");
    assert_eq!(absent().run(&[copy_get_op(&CopyCursor::default(), 24)]).result, ENOENT);
    let beyond = CopyCursor { data_offset: 11, ..CopyCursor::default() };
    assert_eq!(case.run(&[copy_get_op(&beyond, 24)]).result, -22);
}

/// A map of keys in an object's data, encoded.
fn tmap(header: &str, pairs: &[(&str, &str)]) -> Vec<u8> {
    encoded(|e| {
        e.put(header).put(&(pairs.len() as u32));
        pairs.iter().for_each(|(key, value)| {
            e.put(*key).put(*value);
        });
        e
    })
}

fn updates(list: &[(char, &str, Option<&str>)]) -> Op {
    op(OpCode::TMAPUP, 0, 0).with_indata(encoded(|e| {
        list.iter().for_each(|(kind, key, value)| {
            e.put(&(*kind as u8)).put(*key);
            value.iter().for_each(|value| {
                e.put(*value);
            });
        });
        e
    }))
}

#[test]
fn a_map_in_an_objects_data_is_updated_by_key() {
    let before = tmap("h", &[("a", "1"), ("c", "3")]);
    let after = |list: &[(char, &str, Option<&str>)]| object(&before).after(&[updates(list)]);
    assert_eq!(
        after(&[('h', "new", None), ('s', "b", Some("2")), ('r', "c", None)]),
        (0, Some(tmap("new", &[("a", "1"), ("b", "2")])))
    );
    assert_eq!(after(&[('s', "z", Some("")), ('R', "gone", None), ('R', "a", None)]).0, 0, "in any order");
    assert_eq!(after(&[('r', "gone", None)]).0, ENOENT);
    assert_eq!(after(&[('c', "a", Some("x"))]).0, -17, "it exists");
    assert_eq!(after(&[('x', "a", None)]).0, -22);
    assert_eq!(absent().after(&[updates(&[('c', "k", Some("v"))])]), (0, Some(tmap("", &[("k", "v")]))));
    assert_eq!(object(b"no map").run(&[updates(&[('s', "k", Some("v"))])]).result, -22);
    let got = object(&before).run(&[op(OpCode::TMAPGET, 0, 0)]);
    assert_eq!(got.returns[0].data.to_vec(), before);
    let unsorted = tmap("h", &[("b", "2"), ("a", "1")]);
    let put = op(OpCode::TMAPPUT, 0, 0).with_indata(unsorted);
    assert_eq!(absent().after(&[put]).1, Some(tmap("h", &[("a", "1"), ("b", "2")])));
}

#[test]
fn a_map_in_an_objects_data_becomes_an_omap() {
    let outcome = object(&tmap("h", &[("a", "1")])).run(&[op(OpCode::TMAP2OMAP, 0, 0)]);
    assert_eq!(outcome.result, 0);
    assert!(outcome.state.info.is_omap() && outcome.state.info.size == 0);
    assert!(outcome.mutations.contains(&Mutation::OmapSet(vec![("a".into(), Rope::copy_from(b"1"))])));
    assert!(outcome.mutations.contains(&Mutation::OmapHeader(Rope::copy_from(b"h"))));
    assert_eq!(object(b"").run(&[op(OpCode::TMAP2OMAP, 0, 0)]).result, -61);
    assert_eq!(object(b"").run(&[op(OpCode::TMAP2OMAP, 1, 0)]).result, 0, "its caller minds nothing");
}
