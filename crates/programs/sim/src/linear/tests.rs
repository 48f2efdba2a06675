//! Histories made by hand.

use super::*;
use crate::history::End;
use crate::model::Contents;

/// Operations as (client, action, began, ended, what was seen); marks count from 1.
fn history(ops: &[(usize, Action, u64, u64, Seen)]) -> History {
    let mut history = History::default();
    history.object("o".into());
    for (i, (client, action, began, at, seen)) in ops.iter().cloned().enumerate() {
        let end = (at > 0).then_some(End { at, epoch: 1, version: 0, seen });
        let (mark, life, epoch) = (i as u64 + 1, 0, 1);
        let context = Context::default();
        let (logged, times) = ((0, 0), (0, 0));
        let op = Operation {
            mark,
            object: 0,
            client,
            life,
            action,
            context,
            hold: None,
            began,
            epoch,
            logged,
            end,
            times,
        };
        history.operations.push(op);
    }
    history
}

const APPEND: Action = Action::Append { blocks: 1 };
const DONE: Seen = Seen::Ok(None);

/// What a read sees after appends of these marks.
fn appended(marks: &[u64]) -> Seen {
    let blocks = marks.iter().map(|m| (m << 16) | 1).collect();
    Seen::Ok(Some(Contents { mark: *marks.last().unwrap(), blocks }))
}

fn is_fine(ops: &[(usize, Action, u64, u64, Seen)]) -> bool {
    check(&history(ops), 0) == Verdict::Linearizable
}

#[test]
fn what_overlaps_may_come_in_either_order_and_nothing_else_may() {
    for order in [[1, 2], [2, 1]] {
        let read = (2, Action::Read, 5, 6, appended(&order));
        assert!(is_fine(&[(0, APPEND, 1, 4, DONE), (1, APPEND, 2, 3, DONE), read]));
    }
    let read = (2, Action::Read, 5, 6, appended(&[2, 1]));
    assert!(!is_fine(&[(0, APPEND, 1, 2, DONE), (1, APPEND, 3, 4, DONE), read]));
}

#[test]
fn an_acknowledged_change_is_never_lost_and_a_lost_answer_may_mean_either() {
    assert!(!is_fine(&[
        (0, APPEND, 1, 2, DONE),
        (1, APPEND, 3, 4, DONE),
        (2, Action::Read, 5, 6, appended(&[1])),
    ]));
    for seen in [appended(&[1]), appended(&[1, 2])] {
        let unknown = (1, APPEND, 3, 0, DONE);
        assert!(is_fine(&[(0, APPEND, 1, 2, DONE), unknown, (2, Action::Read, 5, 6, seen)]));
    }
}

#[test]
fn what_was_seen_is_not_taken_back_and_nothing_happens_twice() {
    assert!(!is_fine(&[
        (0, APPEND, 1, 0, DONE),
        (1, Action::Read, 3, 4, appended(&[1])),
        (1, Action::Read, 5, 6, Seen::Error(types::Errno::ENOENT)),
    ]));
    assert!(!is_fine(&[(0, APPEND, 1, 2, DONE), (1, Action::Read, 3, 4, appended(&[1, 1]))]));
}

#[test]
fn a_client_s_changes_keep_their_order() {
    let ops = |client| {
        let read = (2, Action::Read, 5, 6, appended(&[2, 1]));
        [(0, APPEND, 1, 4, DONE), (client, APPEND, 2, 3, DONE), read]
    };
    assert!(is_fine(&ops(1)));
    assert!(!is_fine(&ops(0)));
}

#[test]
fn a_fenced_change_may_not_follow_what_relies_on_the_fence() {
    let absent = Seen::Error(types::Errno::ENOENT);
    let ops = [
        (0, APPEND, 1, 0, DONE),
        (1, Action::Read, 2, 3, absent.clone()),
        (1, Action::Read, 4, 5, absent),
        (1, Action::Read, 6, 7, appended(&[1])),
    ];
    let mut h = history(&ops);
    assert_eq!(check(&h, 0), Verdict::Linearizable);
    h.fences.push(Fence { client: 0, life: 0, epoch: 1 });
    assert_ne!(check(&h, 0), Verdict::Linearizable);
}

#[test]
fn a_guard_sees_the_state_at_its_moment() {
    let swap = Action::Swap { expected: 1, blocks: 1 };
    let make = (0, Action::Create, 1, 2, DONE);
    assert!(is_fine(&[make.clone(), (0, swap.clone(), 3, 4, DONE)]));
    assert!(!is_fine(&[make.clone(), (0, swap.clone(), 3, 4, DONE), (0, swap.clone(), 5, 6, DONE)]));
    assert!(is_fine(&[
        make,
        (0, swap.clone(), 3, 4, DONE),
        (0, swap, 5, 6, Seen::Error(types::Errno::ECANCELED))
    ]));
}

const ABSENT: Seen = Seen::Error(types::Errno::ENOENT);
/// Of an operation without an answer.
const NEVER: (u64, Seen) = (0, Seen::Unknown);

/// Operations without an answer, of as many clients, that begin at 1.
fn unanswered(actions: impl IntoIterator<Item = Action>) -> Vec<(usize, Action, u64, u64, Seen)> {
    let (end, seen) = NEVER;
    actions.into_iter().zip(100..).map(|(action, client)| (client, action, 1, end, seen.clone())).collect()
}

/// The verdict and the states that were looked at.
fn searched(ops: &[(usize, Action, u64, u64, Seen)]) -> (Verdict, usize) {
    super::search(&history(ops), 0)
}

fn is_found(ops: &[(usize, Action, u64, u64, Seen)], states_max: usize) {
    let (verdict, states) = searched(ops);
    assert!(verdict == Verdict::Linearizable && states <= states_max, "{verdict:?}, {states} states");
}

fn is_refuted(ops: &[(usize, Action, u64, u64, Seen)], states_max: usize) {
    let (verdict, states) = searched(ops);
    assert!(
        matches!(verdict, Verdict::Impossible(_)) && states <= states_max,
        "{verdict:?}, {states} states"
    );
}

#[test]
fn a_removal_without_an_answer_may_come_before_everything_or_never() {
    let remove = (0, Action::Remove, 3, 0, Seen::Unknown);
    let append = (1, APPEND, 1, 2, DONE);
    is_found(&[append.clone(), remove.clone(), (2, Action::Read, 5, 6, ABSENT)], 10);
    is_found(&[append.clone(), remove.clone(), (2, Action::Read, 5, 6, appended(&[1]))], 10);
    // What is appended afterwards shows it.
    let again = (1, APPEND, 5, 6, DONE);
    is_found(&[append.clone(), remove.clone(), again, (2, Action::Read, 7, 8, appended(&[3]))], 20);
    // It can't be taken back, nor come before it began.
    let [absent, there] = [(2, Action::Read, 5, 6, ABSENT), (2, Action::Read, 7, 8, appended(&[1]))];
    is_refuted(&[append.clone(), remove.clone(), absent, there], 20);
    is_refuted(&[append, (2, Action::Read, 3, 4, ABSENT), (0, Action::Remove, 5, 0, Seen::Unknown)], 20);
}

#[test]
fn a_removal_that_must_come_first_is_found_behind_many_changes_that_overlap() {
    let mut ops = unanswered([APPEND, Action::Remove]);
    ops.insert(0, (0, APPEND, 1, 2, DONE));
    let marks: Vec<u64> = (4..24).collect();
    // Of the appends that overlap the last ends first.
    ops.extend(marks.iter().map(|mark| (*mark as usize, APPEND, 3, 100 - mark, DONE)));
    ops.push((1, Action::Read, 200, 201, appended(&marks)));
    is_found(&ops, 5_000);
    // One of them is lost.
    let (_, action, began, at, _) = ops.pop().unwrap();
    ops.push((1, action, began, at, appended(&marks[1..])));
    ops.remove(2);
    is_refuted(&ops, 100_000);
}

#[test]
fn as_many_removals_as_are_needed_are_found_among_many() {
    // Each is shown by a read between two appends.
    let mut ops = unanswered((0..24).map(|i| if i % 2 == 0 { Action::Remove } else { APPEND }));
    for i in 0..12 {
        let at = 10 * (i + 1);
        let absent = (1, Action::Read, at + 2, at + 3, ABSENT);
        ops.extend([(0, APPEND, at, at + 1, DONE), absent]);
    }
    is_found(&ops, 2_000);
    // One more than there are.
    ops.extend([(0, APPEND, 150, 151, DONE), (1, Action::Read, 152, 153, ABSENT)]);
    is_refuted(&ops, 5_000);
}

#[test]
fn changes_without_an_answer_explain_nothing_that_they_do_not_do() {
    let kinds = [APPEND, Action::WriteFull { blocks: 2 }, Action::Write { at: 1, blocks: 2 }, Action::Create];
    let mut ops = unanswered((0..24).map(|i| kinds[i % kinds.len()].clone()));
    ops.push((0, APPEND, 10, 11, DONE));
    let seen = (1, Action::Read, 20, 21, appended(&[25]));
    // What none of them shows is explained without them, however many there are; what only a removal does is not.
    is_found(&[ops.clone(), vec![seen]].concat(), 10);
    is_refuted(&[ops.clone(), vec![(1, Action::Read, 20, 21, ABSENT)]].concat(), 5_000);
    // They may have replaced the object, but then some change has the last word.
    ops.push((0, Action::Write { at: 0, blocks: 1 }, 12, 13, DONE));
    let of_two = |mark: u64| {
        let blocks = vec![(26 << 16) | 1];
        Seen::Ok(Some(Contents { mark, blocks }))
    };
    is_found(&[ops.clone(), vec![(1, Action::Read, 20, 21, of_two(26))]].concat(), 100);
    is_refuted(&[ops, vec![(1, Action::Read, 20, 21, of_two(25))]].concat(), 5_000);
}

#[test]
fn what_a_read_shows_has_happened_by_its_end() {
    let seen = |at, marks: &[u64]| (1, Action::Read, at, at + 1, appended(marks));
    let mut ops = unanswered(vec![APPEND; 24]);
    let marks: Vec<u64> = (1..=24).rev().collect();
    ops.push(seen(10, &marks[..12]));
    ops.push(seen(20, &marks));
    is_found(&ops, 200);
    ops.push(seen(30, &marks[..23]));
    is_refuted(&ops, 200);
}

#[test]
fn the_last_read_says_which_change_was_last_however_many_have_no_answer() {
    let kinds = [APPEND, Action::WriteFull { blocks: 1 }, Action::Write { at: 0, blocks: 1 }, Action::Remove];
    let mut ops = unanswered((0..24).map(|i| kinds[i % kinds.len()].clone()));
    let write = Action::Write { at: 0, blocks: 1 };
    ops.extend([
        (0, APPEND, 2, 3, DONE),
        (0, Action::Remove, 10, 50, DONE),
        (0, Action::Read, 11, 51, ABSENT),
        (0, APPEND, 12, 52, DONE),
        (1, Action::Create, 13, 60, Seen::Error(types::Errno::EEXIST)),
        (1, write, 14, 61, DONE),
    ]);
    let last = |mark: u64| {
        let blocks = vec![(mark << 16) | 1];
        (2, Action::Read, 70, 71, Seen::Ok(Some(Contents { mark, blocks })))
    };
    is_found(&[ops.clone(), vec![last(28)]].concat(), 2_000);
    is_found(&[ops.clone(), vec![last(30)]].concat(), 2_000);
    // What has an answer was replaced by then.
    is_refuted(&[ops, vec![last(25)]].concat(), 50_000);
}

#[test]
fn a_copy_that_was_given_up_may_take_what_its_source_becomes_later() {
    let verdict = |seen: Seen| {
        let copy = (1, Action::Copy { source: 1 }, 3, 4, seen);
        let whole = Action::WriteFull { blocks: 1 };
        let ops = [
            (0, whole.clone(), 1, 2, DONE),
            copy,
            (0, whole, 5, 6, DONE),
            (2, Action::Read, 7, 8, appended(&[3])),
        ];
        let mut history = history(&ops);
        history.object("source".into());
        [0, 2].into_iter().for_each(|at| history.operations[at].object = 1);
        check(&history, 0)
    };
    assert_eq!(verdict(Seen::Unknown), Verdict::Linearizable);
    assert_ne!(verdict(DONE), Verdict::Linearizable);
}
