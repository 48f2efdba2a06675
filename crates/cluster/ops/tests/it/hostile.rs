//! No bytes and no operations that a peer can send make anything here panic.

use encoding::Decode;
use messages::{Op, OpArgs, OpCode};
use ops::{
    Caller, CleanRegions, ExecuteResult, Fetched, Need, NeedOf, ObjectInfo, ObjectState, ObjectView,
    OpContext, OpLimits, SnapSet, classify, execute,
};
use proptest::prelude::*;
use types::{EntityName, EntityType, Errno, HObject, Name, PoolId, Release, ReqId, SnapContext};

/// A store that fails every read, or has nothing resident.
struct Bad(Option<Errno>);

impl ObjectView for Bad {
    fn fetch(&mut self, _: NeedOf, _: Need) -> Option<Fetched> {
        self.0.map(Fetched::Failed)
    }
}

fn any_op() -> impl Strategy<Value = Op> {
    let code = (0..OpCode::ALL.len()).prop_map(|i| OpCode::ALL[i]);
    let number = prop_oneof![any::<u64>(), 0u64..9000, Just(u64::MAX), Just(128 << 20)];
    let indata = prop::collection::vec(any::<u8>(), 0..40);
    (code, number.clone(), number, any::<(u32, u32, u8, u8)>(), indata).prop_map(|(code, a, b, c, indata)| {
        let args = match code {
            OpCode::WRITESAME => {
                OpArgs::WriteSame { offset: a % 10_000, length: b, data_length: indata.len() as u64 }
            }
            OpCode::CHECKSUM => OpArgs::Checksum { offset: a, length: b, chunk_size: c.0, kind: c.2 % 4 },
            _ if code.is_attr() => {
                OpArgs::Xattr { name_len: c.0 % 50, value_len: c.1 % 50, cmp_op: c.2 % 8, cmp_mode: c.3 % 4 }
            }
            OpCode::WRITE | OpCode::WRITEFULL | OpCode::APPEND => {
                let length = indata.len() as u64;
                OpArgs::Extent { offset: a, length, truncate_size: b, truncate_seq: c.0 % 3 }
            }
            _ => OpArgs::Extent { offset: a, length: b, truncate_size: b ^ a, truncate_seq: c.0 % 3 },
        };
        Op::new(code, args).with_flags(c.1 % 4).with_indata(indata)
    })
}

proptest! {
    #[test]
    fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ObjectInfo::from_bytes(&bytes);
        let _ = SnapSet::from_bytes(&bytes);
        let _ = CleanRegions::from_bytes(&bytes);
    }

    #[test]
    fn operations_never_panic_and_a_failure_changes_nothing(
        ops in prop::collection::vec(any_op(), 0..5),
        exists: bool,
        size in prop_oneof![0u64..10_000, Just(128u64 << 20)],
        pending: bool,
    ) {
        let classes = ops::ClassTable::default();
        let _ = classify(&ops, 0, &classes);
        let oid = HObject::head(PoolId(1), Name::new(), Name::new(), "o".into(), 7);
        let mut state = ObjectState::absent(oid);
        state.exists = exists;
        state.info.size = if exists { size } else { 0 };
        let (limits, snapc) = (OpLimits::default(), SnapContext::default());
        let caller = Caller {
            name: EntityName::new(EntityType::Client, 4123),
            reqid: ReqId::default(),
            addrs: Default::default(),
            features: 0,
        };
        let ctx = OpContext {
            caller: &caller,
            limits: &limits,
            snapc: &snapc,
            removed_snaps: None,
            flags: 0,
            pool_has_omap: true,
            full: None,
            classes: &classes,
            now: Default::default(),
            mtime: Default::default(),
            seed: 0,
            last_user_version: 0,
            require_osd_release: Release::PACIFIC,
            require_min_compat_client: Release::LUMINOUS,
            watches: Default::default(),
        };
        let mut view = Bad((!pending).then_some(Errno::EIO));
        if let ExecuteResult::Done(outcome) = execute(&mut view, &ctx, &state, &ops) {
            prop_assert_eq!(outcome.returns.len(), ops.len());
            prop_assert!(outcome.result >= 0 || (outcome.mutations.is_empty() && outcome.effects.is_empty() && outcome.state == state));
            prop_assert!(outcome.state.info.size <= limits.object_size_max);
        }
    }
}
