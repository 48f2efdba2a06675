//! Every operation that there is: what runs it, what it means for versions and space; and which are refused.
//!
//! Whether an operation reads, writes or is about a PG lies in its code's bits ([`OpCode::reads`] and its like), also
//! for unknown codes. All other facts about an operation are here, and only here.

use messages::osd_op::OpFlags;
use messages::{Op, OpArgs, OpCode};
use types::{Errno, SnapId};

use crate::attrs::XattrArgs;
use crate::copy::CopyFromArgs;
use crate::run::{Extent, Runner, StepResult};

/// An operation that is supported.
pub struct OpSpec {
    pub code: OpCode,
    /// Whether it makes a new version for users: all that change an object do, but for what users don't see.
    pub user_modify: bool,
    pub space: SpaceUse,
    pub(crate) run: OpRun,
}

/// What an operation may take in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceUse {
    /// It only reads, or removes.
    Nothing,
    /// It changes the object: a little metadata, and what data the request brings.
    Payload,
    /// It changes the object's attributes or omap: all that the request brings is metadata.
    Metadata,
    /// It writes as much as it says, from little data (WRITESAME).
    Announced,
    /// As the method of a class that it calls: what changes the object may be [`SpaceUse::Metadata`].
    Method,
}

/// What runs an operation, by the form of its arguments.
pub(crate) enum OpRun {
    Extent(fn(&mut Runner<'_>, &Extent, &Op) -> StepResult),
    Xattr(fn(&mut Runner<'_>, &XattrArgs, &Op) -> StepResult),
    AssertVer(fn(&mut Runner<'_>, u64) -> StepResult),
    Snap(fn(&mut Runner<'_>, SnapId) -> StepResult),
    /// Object size, write size and flags.
    AllocHint(fn(&mut Runner<'_>, u64, u64, u32) -> StepResult),
    /// Offset, length and the pattern's length.
    WriteSame(fn(&mut Runner<'_>, u64, u64, u64, &Op) -> StepResult),
    /// The range, the chunks' size and the kind.
    Checksum(fn(&mut Runner<'_>, &Extent, u32, u8, &Op) -> StepResult),
    CopyGet,
    CopyFrom,
    /// A class's method.
    Call,
    /// Cookie, what about it, timeout.
    Watch(fn(&mut Runner<'_>, u64, u8, u32) -> StepResult),
    /// The cookie.
    Notify(fn(&mut Runner<'_>, u64, &Op) -> StepResult),
    /// The PG does it: it is about no object.
    Pg,
}

/// An operation that is known and refused.
pub(crate) struct Unsupported {
    pub code: OpCode,
    pub errno: Errno,
}

const fn read(code: OpCode, run: fn(&mut Runner<'_>, &Extent, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: false, space: SpaceUse::Nothing, run: OpRun::Extent(run) }
}

const fn write(code: OpCode, run: fn(&mut Runner<'_>, &Extent, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: true, space: SpaceUse::Payload, run: OpRun::Extent(run) }
}

const fn read_attr(code: OpCode, run: fn(&mut Runner<'_>, &XattrArgs, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: false, space: SpaceUse::Nothing, run: OpRun::Xattr(run) }
}

const fn write_attr(code: OpCode, run: fn(&mut Runner<'_>, &XattrArgs, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: true, space: SpaceUse::Metadata, run: OpRun::Xattr(run) }
}

const fn write_omap(code: OpCode, run: fn(&mut Runner<'_>, &Extent, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: true, space: SpaceUse::Metadata, run: OpRun::Extent(run) }
}

const fn notify(code: OpCode, run: fn(&mut Runner<'_>, u64, &Op) -> StepResult) -> OpSpec {
    OpSpec { code, user_modify: false, space: SpaceUse::Nothing, run: OpRun::Notify(run) }
}

/// The object gets its source's user version, so that none is made.
const fn copy_from(code: OpCode) -> OpSpec {
    OpSpec { code, user_modify: false, space: SpaceUse::Payload, run: OpRun::CopyFrom }
}

const fn of_pg(code: OpCode) -> OpSpec {
    OpSpec { code, user_modify: false, space: SpaceUse::Nothing, run: OpRun::Pg }
}

const fn unsupported(code: OpCode) -> Unsupported {
    Unsupported { code, errno: Errno::EOPNOTSUPP }
}

/// Sorted by code.
static TABLE: &[OpSpec] = &[
    read(OpCode::READ, |run, x, _| run.read(x)),
    read(OpCode::STAT, |run, _, _| run.stat()),
    read(OpCode::MAPEXT, |run, x, _| run.map_extents(x)),
    read(OpCode::SPARSE_READ, |run, x, _| run.sparse_read(x)),
    notify(OpCode::NOTIFY, |run, cookie, op| run.notify(cookie, op)),
    notify(OpCode::NOTIFY_ACK, |run, cookie, op| run.notify_ack(cookie, op)),
    OpSpec {
        code: OpCode::ASSERT_VER,
        user_modify: false,
        space: SpaceUse::Nothing,
        run: OpRun::AssertVer(|run, ver| run.assert_version(ver)),
    },
    read(OpCode::LIST_WATCHERS, |run, _, _| run.list_watchers()),
    read(OpCode::LIST_SNAPS, |run, _, _| run.list_snaps()),
    read(OpCode::SYNC_READ, |run, x, _| run.read(x)),
    read(OpCode::TMAPGET, |run, _, _| run.tmap_get()),
    read(OpCode::OMAPGETKEYS, |run, _, op| run.omap_range(&op.indata, false)),
    read(OpCode::OMAPGETVALS, |run, _, op| run.omap_range(&op.indata, true)),
    read(OpCode::OMAPGETHEADER, |run, _, _| run.omap_header()),
    read(OpCode::OMAPGETVALSBYKEYS, |run, _, op| run.omap_values_by_keys(&op.indata)),
    read(OpCode::OMAP_CMP, |run, _, op| run.omap_compare(&op.indata)),
    OpSpec { code: OpCode::COPY_GET, user_modify: false, space: SpaceUse::Nothing, run: OpRun::CopyGet },
    OpSpec {
        code: OpCode::CHECKSUM,
        user_modify: false,
        space: SpaceUse::Nothing,
        run: OpRun::Checksum(|run, x, chunk, kind, op| run.checksum(x, chunk, kind, &op.indata)),
    },
    read(OpCode::CMPEXT, |run, x, op| run.compare_extent(x, &op.indata)),
    read_attr(OpCode::GETXATTR, |run, args, op| run.get_xattr(args, &op.indata)),
    read_attr(OpCode::GETXATTRS, |run, _, _| run.get_xattrs()),
    read_attr(OpCode::CMPXATTR, |run, args, op| run.compare_xattr(args, &op.indata)),
    // Its method says whether it makes a new version.
    OpSpec { code: OpCode::CALL, user_modify: false, space: SpaceUse::Method, run: OpRun::Call },
    of_pg(OpCode::PGLS),
    of_pg(OpCode::PGLS_FILTER),
    of_pg(OpCode::PGNLS),
    of_pg(OpCode::PGNLS_FILTER),
    of_pg(OpCode::SCRUBLS),
    write(OpCode::WRITE, |run, x, op| run.write(x, &op.indata, op.flags)),
    write(OpCode::WRITEFULL, |run, x, op| run.write_full(x, &op.indata, op.flags)),
    write(OpCode::TRUNCATE, |run, x, _| run.truncate(x)),
    write(OpCode::ZERO, |run, x, _| run.zero(x)),
    OpSpec {
        code: OpCode::DELETE,
        user_modify: true,
        space: SpaceUse::Nothing,
        run: OpRun::Extent(|run, _, _| run.delete()),
    },
    write(OpCode::APPEND, |run, x, op| run.append(x, &op.indata, op.flags)),
    write(OpCode::TRIMTRUNC, |run, x, _| run.truncate(&Extent { offset: x.truncate_size, ..*x })),
    write(OpCode::TMAPPUT, |run, _, op| run.tmap_put(&op.indata, op.flags)),
    write(OpCode::CREATE, |run, _, op| run.create(op.flags & OpFlags::EXCL != 0, &op.indata)),
    OpSpec {
        code: OpCode::ROLLBACK,
        user_modify: true,
        space: SpaceUse::Payload,
        run: OpRun::Snap(|run, snap| run.rollback(snap)),
    },
    OpSpec {
        code: OpCode::WATCH,
        user_modify: false,
        // A ping must not wait for space, nor must the end of a watch.
        space: SpaceUse::Nothing,
        run: OpRun::Watch(|run, cookie, action, timeout| run.watch(cookie, action, timeout)),
    },
    write_omap(OpCode::OMAPSETVALS, |run, _, op| run.omap_set(&op.indata)),
    write_omap(OpCode::OMAPSETHEADER, |run, _, op| run.omap_set_header(&op.indata)),
    write_omap(OpCode::OMAPCLEAR, |run, _, _| run.omap_clear()),
    write_omap(OpCode::OMAPRMKEYS, |run, _, op| run.omap_remove(&op.indata)),
    copy_from(OpCode::COPY_FROM),
    OpSpec {
        code: OpCode::SETALLOCHINT,
        user_modify: true,
        space: SpaceUse::Payload,
        run: OpRun::AllocHint(|run, object_size, write_size, flags| {
            run.set_alloc_hint(object_size, write_size, flags)
        }),
    },
    OpSpec {
        code: OpCode::WRITESAME,
        user_modify: true,
        space: SpaceUse::Announced,
        run: OpRun::WriteSame(|run, offset, length, of, op| {
            run.write_same(offset, length, of, &op.indata, op.flags)
        }),
    },
    write_omap(OpCode::OMAPRMKEYRANGE, |run, _, op| run.omap_remove_range(&op.indata)),
    copy_from(OpCode::COPY_FROM2),
    write_attr(OpCode::SETXATTR, |run, args, op| run.set_xattr(args, &op.indata)),
    write_attr(OpCode::RMXATTR, |run, args, op| run.remove_xattr(args, &op.indata)),
    write(OpCode::TMAPUP, |run, _, op| run.tmap_update(&op.indata, op.flags)),
    // Its flags are where others have an offset.
    write(OpCode::TMAP2OMAP, |run, x, _| run.tmap_to_omap(x.offset as u8)),
];

/// Codes that have a name and no row in TABLE. Unknown codes are refused with EOPNOTSUPP too.
static UNSUPPORTED: &[Unsupported] = &[
    unsupported(OpCode::MASKTRUNC),
    unsupported(OpCode::ISDIRTY),
    unsupported(OpCode::STARTSYNC),
    unsupported(OpCode::SETTRUNC),
    unsupported(OpCode::UNDIRTY),
    unsupported(OpCode::CACHE_PIN),
    unsupported(OpCode::CACHE_UNPIN),
    unsupported(OpCode::SET_REDIRECT),
    unsupported(OpCode::TIER_PROMOTE),
    unsupported(OpCode::UNSET_MANIFEST),
    unsupported(OpCode::CACHE_FLUSH),
    unsupported(OpCode::CACHE_EVICT),
    unsupported(OpCode::CACHE_TRY_FLUSH),
    unsupported(OpCode::SET_CHUNK),
    unsupported(OpCode::TIER_FLUSH),
    unsupported(OpCode::TIER_EVICT),
    unsupported(OpCode::SETXATTRS),
    unsupported(OpCode::RESETXATTRS),
    unsupported(OpCode::PG_HITSET_LS),
    unsupported(OpCode::PG_HITSET_GET),
];

/// What is to be known of an operation, if it is supported.
pub fn spec(code: OpCode) -> Option<&'static OpSpec> {
    TABLE.binary_search_by_key(&code, |spec| spec.code).ok().map(|at| &TABLE[at])
}

/// How an operation that has no [`spec`] is refused.
pub(crate) fn refusal(code: OpCode) -> Unsupported {
    let known = UNSUPPORTED.iter().find(|u| u.code == code);
    known.map_or(unsupported(code), |u| Unsupported { ..*u })
}

impl OpSpec {
    /// Ceph's name.
    pub fn name(&self) -> &'static str {
        self.code.name().unwrap_or("unnamed")
    }

    /// Runs the operation. Decoding gives each code the form of arguments that it has here; another is EINVAL.
    pub(crate) fn run(&self, run: &mut Runner<'_>, op: &Op) -> StepResult {
        let bad_form = || Err(Errno::EINVAL.into());
        match self.run {
            OpRun::Extent(f) => {
                let OpArgs::Extent { offset, length, truncate_size, truncate_seq } = op.args else {
                    return bad_form();
                };
                let mut x = Extent { offset, length, truncate_size, truncate_seq };
                if (x.truncate_seq, x.truncate_size) == (1, u64::MAX) {
                    // CephFS' way to say that there was no truncation.
                    (x.truncate_seq, x.truncate_size) = (0, 0);
                }
                f(run, &x, op)
            }
            OpRun::Xattr(f) => {
                let OpArgs::Xattr { name_len, value_len, cmp_op, cmp_mode } = op.args else {
                    return bad_form();
                };
                f(run, &XattrArgs { name_len, value_len, cmp_op, cmp_mode }, op)
            }
            OpRun::AssertVer(f) => {
                let OpArgs::AssertVer { ver, .. } = op.args else { return bad_form() };
                f(run, ver)
            }
            OpRun::Snap(f) => {
                let OpArgs::Snap { snapid } = op.args else { return bad_form() };
                f(run, snapid)
            }
            OpRun::AllocHint(f) => {
                let OpArgs::AllocHint { expected_object_size, expected_write_size, flags } = op.args else {
                    return bad_form();
                };
                f(run, expected_object_size, expected_write_size, flags)
            }
            OpRun::WriteSame(f) => {
                let OpArgs::WriteSame { offset, length, data_length } = op.args else { return bad_form() };
                f(run, offset, length, data_length, op)
            }
            OpRun::Checksum(f) => {
                let OpArgs::Checksum { offset, length, chunk_size, kind } = op.args else {
                    return bad_form();
                };
                f(run, &Extent { offset, length, ..Extent::default() }, chunk_size, kind, op)
            }
            OpRun::CopyGet => run.copy_get(op),
            OpRun::CopyFrom => {
                let OpArgs::CopyFrom { snapid, src_version, flags, src_fadvise_flags } = op.args else {
                    return bad_form();
                };
                run.copy_from(&CopyFromArgs { snapid, src_version, flags, src_fadvise_flags }, op)
            }
            OpRun::Call => run.call(op),
            OpRun::Watch(f) => {
                let OpArgs::Watch { cookie, op: action, timeout, .. } = op.args else { return bad_form() };
                f(run, cookie, action, timeout)
            }
            OpRun::Notify(f) => {
                let OpArgs::Notify { cookie } = op.args else { return bad_form() };
                f(run, cookie, op)
            }
            // Requests with such an operation go to the PG whole (see `classify`).
            OpRun::Pg => bad_form(),
        }
    }

    /// Whether the PG runs it.
    pub fn is_of_pg(&self) -> bool {
        matches!(self.run, OpRun::Pg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_with_a_name_is_either_supported_or_refused_with_an_errno() {
        for &code in OpCode::ALL {
            let refused = UNSUPPORTED.iter().filter(|u| u.code == code).count();
            assert_eq!(usize::from(spec(code).is_some()) + refused, 1, "{code}");
        }
        assert_eq!(TABLE.len() + UNSUPPORTED.len(), OpCode::ALL.len());
        assert!(TABLE.is_sorted_by_key(|spec| spec.code), "it is searched by halves");
        assert_eq!(refusal(OpCode(0x2fff)).errno, Errno::EOPNOTSUPP);
    }

    #[test]
    fn operations_of_cache_tiers_and_manifests_are_refused_with_one_errno() {
        use OpCode as C;
        let of_tiers =
            [C::ISDIRTY, C::UNDIRTY, C::CACHE_PIN, C::CACHE_UNPIN, C::CACHE_FLUSH, C::CACHE_TRY_FLUSH];
        let of_hit_sets = [C::CACHE_EVICT, C::PG_HITSET_LS, C::PG_HITSET_GET];
        let of_manifests = [C::SET_REDIRECT, C::SET_CHUNK, C::TIER_PROMOTE, C::TIER_FLUSH, C::TIER_EVICT];
        let all = of_tiers.iter().chain(&of_hit_sets).chain(&of_manifests).chain(&[C::UNSET_MANIFEST]);
        assert!(all.clone().all(|code| spec(*code).is_none() && refusal(*code).errno == Errno::EOPNOTSUPP));
    }

    #[test]
    fn what_the_table_says_agrees_with_the_codes_bits() {
        for spec in TABLE {
            // Users see no new version for a watch, and a copy has its source's.
            let same_version = [OpCode::WATCH, OpCode::COPY_FROM, OpCode::COPY_FROM2];
            let user_modify = spec.code.writes() && !same_version.contains(&spec.code);
            assert_eq!(spec.user_modify, user_modify, "{}", spec.name());
            let reads_only = matches!(spec.space, SpaceUse::Nothing | SpaceUse::Method);
            assert!(reads_only || spec.code.writes(), "{}", spec.name());
            assert_eq!(spec.is_of_pg(), spec.code.is_pg(), "{}", spec.name());
        }
    }
}
