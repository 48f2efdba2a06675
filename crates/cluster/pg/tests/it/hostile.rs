//! No bytes that a peer or a disk can hold make a decoder panic, and no request makes a PG panic or fail.

use crate::common::*;
use encoding::Decode;
use messages::{Op, OpArgs, OpCode};
use messages::{PastIntervals, PgHistory, PgStat};
use pg::{FastInfo, LogDup, LogEntry, PgInfo};
use proptest::prelude::*;
use types::{SnapId, UTime};

fn any_op() -> impl Strategy<Value = Op> {
    let code = (0..OpCode::ALL.len()).prop_map(|i| OpCode::ALL[i]);
    let number = prop_oneof![any::<u64>(), 0u64..9000, Just(u64::MAX), Just(128 << 20)];
    let indata = prop::collection::vec(any::<u8>(), 0..40);
    (code, number.clone(), number, any::<(u32, u32, u8, u8)>(), indata).prop_map(|(code, a, b, c, indata)| {
        let args = match code {
            OpCode::WRITE | OpCode::WRITEFULL | OpCode::APPEND => OpArgs::Extent {
                offset: a,
                length: indata.len() as u64,
                truncate_size: b,
                truncate_seq: c.0 % 3,
            },
            OpCode::PGLS | OpCode::PGNLS => OpArgs::Pgls { count: a, start_epoch: types::Epoch(c.0) },
            _ if code.is_attr() => {
                OpArgs::Xattr { name_len: c.0 % 50, value_len: c.1 % 50, cmp_op: c.2 % 8, cmp_mode: c.3 % 4 }
            }
            _ => OpArgs::Extent { offset: a, length: b, truncate_size: a, truncate_seq: c.0 % 3 },
        };
        Op::new(code, args).with_flags(c.1 % 4).with_indata(indata)
    })
}

proptest! {
    #[test]
    fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = (PgInfo::from_bytes(&bytes), FastInfo::from_bytes(&bytes), PgHistory::from_bytes(&bytes));
        let _ = (LogEntry::from_bytes(&bytes), LogDup::from_bytes(&bytes), PgStat::from_bytes(&bytes));
        let _ = PastIntervals::from_bytes(&bytes);
    }

    #[test]
    fn requests_never_make_a_pg_fail(
        requests in prop::collection::vec((prop::collection::vec(any_op(), 0..4), any::<(u32, u8, u64)>()), 1..12),
    ) {
        let mut rig = Rig::new();
        let sent = requests.len();
        for (ops, (flags, object, snap)) in requests {
            let mut op = rig.message(&format!("o{}", object % 3), ops);
            op.flags = flags;
            if object > 200 {
                (op.snapid, op.snap_seq, op.snaps) = (SnapId(snap), snap, vec![SnapId(snap)]);
            }
            op.mtime = UTime { sec: flags, nsec: 0 };
            rig.send(op);
        }
        rig.settle();
        prop_assert!(!rig.failed && rig.replies.len() <= sent);
        let (_, parked, waiting) = rig.pg.load_counts();
        prop_assert_eq!((parked, waiting), (0, 0), "nothing hangs");
        rig.crash();
    }
}
