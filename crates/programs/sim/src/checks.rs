//! The checks at the end of a run.

use crate::history::Operation;
use crate::linear::{self, Attempt, Verdict};
use crate::workload::brief;
use crate::world::World;

pub(crate) fn check(world: &mut World) {
    world.counts.unknown =
        world.history.operations.iter().filter(|op| op.end.is_none() || is_unknown(op)).count() as u64;
    for object in 0..world.history.objects.len() {
        let (why, attempt) = match linear::check(&world.history, object) {
            Verdict::Linearizable => continue,
            Verdict::Impossible(attempt) => ("is not linearizable", attempt),
            // A right history is placed nearly without a second attempt.
            Verdict::Undecided(attempt) => ("is too far from linearizable to search every order", attempt),
        };
        let text = explain(world, object, why, &attempt);
        world.fail(text);
    }
    if let Some((mark, fence)) = world.served.breach(&world.history) {
        let text =
            format!("operation {mark} was begun after its PG had answered with the fence's map: {fence:?}");
        world.fail(text);
    }
    if let Some(text) = world.check_notifies() {
        world.fail(text);
    }
    let held: Vec<String> = world.osds.iter().filter_map(|osd| osd.budget_held()).collect();
    if !held.is_empty() {
        world.fail(format!("budget is held though nothing is under way: {}", held.join("; ")));
    }
}

fn is_unknown(op: &Operation) -> bool {
    op.end.as_ref().is_some_and(|end| end.seen == crate::history::Seen::Unknown)
}

/// An object's history as text.
fn explain(world: &World, object: usize, why: &str, attempt: &Attempt) -> String {
    let name = &world.history.objects[object];
    let mut lines = vec![format!("{name} {why}")];
    lines
        .push(format!("  after {:?}\n  none of {:?} can follow; its history:", attempt.placed, attempt.next));
    for op in world.history.of_object(object) {
        let (from, to) = (op.times.0 as f64 / 1e9, op.times.1 as f64 / 1e9);
        let end = op.end.as_ref().map_or("no answer".into(), |end| brief(&end.seen));
        let (mark, client, life, action) = (op.mark, op.client, op.life, &op.action);
        lines.push(format!("  {mark}: {from:.6} to {to:.6} client{client}.{life} {action:?}: {end}"));
    }
    lines.extend(world.history.fences.iter().map(|fence| format!("  {fence:?}")));
    lines.join("\n")
}
