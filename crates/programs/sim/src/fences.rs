//! Whether OSDs keep fences: the changes that they begin, compared with the requests that they have answered.
//!
//! Clients can't see every breach. Requests on an object run in order, so that a fenced client's change that still runs
//! looks to later operations like one from before the fence. The OSD's store shows when the change was begun.

use std::collections::BTreeMap;

use crate::history::{Fence, History, Mark};

/// The requests that OSDs answered and the changes that they began, in the order of their events.
#[derive(Default)]
pub struct Served {
    /// Events of OSDs so far.
    events: u64,
    /// The event in which an operation on an object was first answered with a map of this epoch or a newer one.
    answered: BTreeMap<String, BTreeMap<u32, u64>>,
    /// The changes given to stores, with the event of each.
    begun: Vec<(Mark, u64)>,
}

impl Served {
    /// An OSD handled an event, in which its store was given these changes.
    pub fn event(&mut self, begun: Vec<Mark>) {
        self.events += 1;
        let event = self.events;
        self.begun.extend(begun.into_iter().map(|mark| (mark, event)));
    }

    /// In the latest event an object's PG answered an operation that succeeded.
    pub fn answer(&mut self, object: &str, epoch: u32) {
        if !self.answered.contains_key(object) {
            self.answered.insert(object.into(), BTreeMap::new());
        }
        let epochs = self.answered.entry(object.into()).or_default();
        if epochs.range(epoch..).next().is_none() {
            epochs.insert(epoch, self.events);
        }
    }

    /// A fenced client's change that was begun after its PG had answered for the object with the fence's map. What was
    /// begun in the same event may have come first.
    pub fn breach<'a>(&self, history: &'a History) -> Option<(Mark, &'a Fence)> {
        self.begun.iter().find_map(|(mark, event)| {
            let op = history.operations.get((*mark as usize).checked_sub(1)?)?;
            let epochs = self.answered.get(&history.objects[op.object])?;
            let is_late = |fence: &&Fence| {
                let first = epochs.range(fence.epoch..).map(|(_, event)| *event).min();
                (fence.client, fence.life) == (op.client, op.life)
                    && first.is_some_and(|first| first < *event)
            };
            Some((*mark, history.fences.iter().find(is_late)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Action, Operation};

    fn history() -> History {
        let mut history = History::default();
        let object = history.object("a".into());
        let action = Action::Append { blocks: 1 };
        history.operations.push(Operation {
            mark: 1,
            object,
            client: 2,
            life: 3,
            action,
            context: Default::default(),
            hold: None,
            began: 1,
            epoch: 4,
            logged: (0, 0),
            end: None,
            times: (0, 0),
        });
        history.fences.push(Fence { client: 2, life: 3, epoch: 5 });
        history
    }

    #[test]
    fn a_change_of_a_fenced_client_after_an_answer_with_the_fence_is_a_breach() {
        let mut served = Served::default();
        served.event(Vec::new());
        served.answer("a", 4);
        served.event(vec![1]);
        served.answer("a", 5);
        assert!(served.breach(&history()).is_none(), "it was begun before the first answer");
        served.event(vec![1]);
        assert_eq!(served.breach(&history()).map(|(mark, fence)| (mark, fence.epoch)), Some((1, 5)));
    }

    #[test]
    fn an_answer_for_another_object_binds_nobody() {
        let mut served = Served::default();
        served.event(Vec::new());
        served.answer("b", 6);
        served.event(vec![1]);
        assert!(served.breach(&history()).is_none());
    }
}
