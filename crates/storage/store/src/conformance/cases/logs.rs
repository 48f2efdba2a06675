//! Logs and infos.

use buffer::Piece;
use types::EVersion;

use super::super::factory::Factory;
use super::super::reads::{object, version};
use super::{bytes, one_pg};
use crate::{LogPage, LogRecord, LogRecordKind, ReadOutcome, ReadRequest, StoreError};

fn record(n: u64) -> LogRecord {
    let kind = if n % 2 == 0 { LogRecordKind::Entry } else { LogRecordKind::Duplicate };
    LogRecord { version: version(n), kind, bytes: Piece::copy_from(&vec![n as u8; n as usize * 10]) }
}

fn page(tail: u64, head: u64, list: &[u64]) -> LogPage {
    let tail = if tail == 0 { EVersion::default() } else { version(tail) };
    LogPage { tail, head: version(head), records: list.iter().map(|n| record(*n)).collect(), more: false }
}

pub fn the_log_is_appended_trimmed_and_rewound<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for n in [1, 2, 4, 7, 8, 9] {
        let LogRecord { version, kind, bytes } = record(n);
        h.commit(|t| t.touch(c, &object("a", 1)).log_append(c, version, kind, bytes));
    }
    assert_eq!(h.log(c), page(0, 9, &[1, 2, 4, 7, 8, 9]));
    assert_eq!(h.list(c), vec![object("a", 1)], "the log is not among the objects");
    for n in [9, 3] {
        let got = h.refused(|t| t.log_append(c, version(n), LogRecordKind::Entry, bytes("x")));
        assert_eq!(got, StoreError::LogOrder { head: version(9), version: version(n) });
    }
    let read =
        |after, records_max, bytes_max| ReadRequest::Log { collection: c, after, records_max, bytes_max };
    let part = |list: &[u64], more| ReadOutcome::Log(LogPage { more, ..page(0, 9, list) });
    assert_eq!(h.get(read(version(2), 2, usize::MAX)), Ok(part(&[4, 7], true)));
    assert_eq!(h.get(read(version(3), 100, 120)), Ok(part(&[4, 7], true)));
    assert_eq!(h.get(read(version(3), 100, 0)), Ok(part(&[4], true)));
    assert_eq!(h.get(read(version(8), 100, 10_000)), Ok(part(&[9], false)));
    assert_eq!(h.get(read(version(9), 100, 10_000)), Ok(part(&[], false)));
    assert_eq!(h.get(read(version(7), 2, 10_000)), Ok(part(&[8, 9], false)), "a full page may be the last");
    assert_eq!(h.get(read(version(0), 0, 10_000)), Ok(part(&[], true)));
    h.commit(|t| t.log_trim(c, version(3)));
    assert_eq!(h.log(c), page(3, 9, &[4, 7, 8, 9]));
    h.commit(|t| t.log_trim(c, version(1)));
    assert_eq!(h.log(c), page(3, 9, &[4, 7, 8, 9]), "trimming is not undone");
    h.commit(|t| t.log_rewind(c, version(7)).log_append(c, version(8), record(8).kind, record(8).bytes));
    assert_eq!(h.log(c), page(3, 8, &[4, 7, 8]));
    h.commit(|t| t.log_rewind(c, version(5)));
    assert_eq!(h.log(c), page(3, 5, &[4]), "the version rewound to is the head");
    h.commit(|t| t.log_rewind(c, version(50)));
    assert_eq!(h.log(c), page(3, 5, &[4]), "rewinding forward is nothing");
    h.commit(|t| t.log_trim(c, version(20)));
    assert_eq!(h.log(c), page(20, 20, &[]));
    let early = h.refused(|t| t.log_append(c, version(15), LogRecordKind::Entry, bytes("x")));
    assert_eq!(early, StoreError::LogOrder { head: version(20), version: version(15) });
    h.commit(|t| t.log_rewind(c, version(10)).log_append(c, version(11), record(11).kind, record(11).bytes));
    assert_eq!(h.log(c), page(10, 11, &[11]), "rewound before its tail the log begins there");
    h.commit(|t| t.log_append(c, version(12), record(12).kind, record(12).bytes).log_trim(c, version(12)));
    assert_eq!(h.log(c), page(12, 12, &[]), "a record may go in the transaction it came in");
}

pub fn an_info_is_replaced_and_survives_changes_of_the_log<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let info = |h: &mut super::Harness<F::Store>| match h.get(ReadRequest::Collection { collection: c }) {
        Ok(ReadOutcome::Collection(Some(stat))) => stat.info,
        other => panic!("{other:?}"),
    };
    assert_eq!(info(&mut h), Piece::empty(), "empty before it is set");
    let append = |n| (version(n), LogRecordKind::Entry, bytes("record"));
    for (i, text) in ["one", "two, longer than the first", "3"].into_iter().enumerate() {
        let (version, kind, record) = append(i as u64 * 10 + 10);
        h.commit(|t| t.set_info(c, bytes(text)).log_append(c, version, kind, record));
        assert_eq!(info(&mut h), bytes(text));
    }
    h.commit(|t| t.log_trim(c, version(10)));
    h.commit(|t| t.log_rewind(c, version(20)));
    assert_eq!(info(&mut h), bytes("3"), "trimming and rewinding leave it");
    h.commit(|t| t.log_rewind(c, version(5)).touch(c, &object("a", 1)));
    assert_eq!(info(&mut h), bytes("3"), "so does emptying the log");
    h.commit(|t| t.set_info(c, bytes("first")).set_info(c, bytes("last")));
    assert_eq!(info(&mut h), bytes("last"));
    h.commit(|t| t.set_info(c, Piece::empty()));
    assert_eq!(info(&mut h), Piece::empty());
}
