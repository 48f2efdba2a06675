//! What collections were on their way when the store was closed.

use std::collections::VecDeque;

use super::moving::{MARKS, Mark, Next, Way};
use crate::{
    AttrChoice, CollectionId, ReadOutcome, ReadRequest, Rehoming, StoreError, StoreShard, Transaction,
};
use types::GHObject;

/// Looks for objects that both shards have: what the last step wrote and had not removed where it was. They are the first
/// ones of the shard that it came from.
struct Twice {
    id: CollectionId,
    /// The shard whose first objects are looked at, and the other one.
    of: StoreShard,
    other: StoreShard,
    /// Where they are removed: either would do.
    to: StoreShard,
    start: GHObject,
    /// The object that the other shard is asked for, and what follows it.
    asked: Option<(GHObject, GHObject)>,
}

impl Twice {
    /// Whichever way the last step went.
    fn both(id: CollectionId, Way { from, to }: Way) -> [Self; 2] {
        [(from, to), (to, from)].map(|(of, other)| {
            let start = GHObject::min();
            Self { id, of, other, to, start, asked: None }
        })
    }

    fn next(&self) -> Next {
        let (collection, start, end) = (self.id, self.start.clone(), GHObject::max());
        let attrs = AttrChoice::None;
        match &self.asked {
            Some((object, _)) => {
                let object = object.clone();
                Next::Read(self.other, ReadRequest::Object { collection, object, attrs })
            }
            None => Next::Read(self.of, ReadRequest::List { collection, start, end, objects_max: 1, attrs }),
        }
    }
}

/// Reads the marks of every shard, ends the moves of what has arrived, and has every other object in one shard.
pub struct Recovery {
    /// Of each shard that is left, the next one first, the collections.
    left: VecDeque<StoreShard>,
    collections: Vec<Vec<CollectionId>>,
    commits: VecDeque<(StoreShard, Transaction)>,
    twice: VecDeque<Twice>,
    /// A shard has refused a change: all that is left is to find where collections are.
    is_refused: bool,
    /// Where collections are, and whether they are on their way.
    pub found: Vec<(CollectionId, StoreShard, Option<Way>)>,
}

impl Recovery {
    /// `None`: nothing was on its way.
    pub fn of(collections: Vec<Vec<CollectionId>>) -> Option<Self> {
        let marked = collections.iter().zip(0..).filter(|(all, _)| all.contains(&MARKS));
        let left: VecDeque<StoreShard> = marked.map(|(_, number)| StoreShard(number)).collect();
        (!left.is_empty()).then_some(Self {
            left,
            collections,
            commits: VecDeque::new(),
            twice: VecDeque::new(),
            is_refused: false,
            found: Vec::new(),
        })
    }

    /// A shard takes no change, as where the store can't be written. What is to be mended stays as it is until the next opening: who
    /// reads finds an object once that both shards have.
    pub fn on_refused(&mut self) -> Next {
        self.is_refused = true;
        self.next()
    }

    pub fn next(&mut self) -> Next {
        if self.is_refused {
            self.commits.clear();
            self.twice.clear();
        }
        if let Some((shard, txn)) = self.commits.pop_front() {
            return Next::Commit(shard, txn);
        }
        if let Some(twice) = self.twice.front() {
            return twice.next();
        }
        match self.left.front() {
            Some(shard) => {
                let (start, end) = (GHObject::min(), GHObject::max());
                let (objects_max, attrs) = (usize::MAX, AttrChoice::All);
                Next::Read(*shard, ReadRequest::List { collection: MARKS, start, end, objects_max, attrs })
            }
            None => Next::Done(Ok(Rehoming::Done)),
        }
    }

    /// Takes the answer to a read.
    pub fn on_read(&mut self, outcome: ReadOutcome) -> Next {
        let Some(mut twice) = self.twice.pop_front() else { return self.on_marks(outcome) };
        match (outcome, twice.asked.take()) {
            (ReadOutcome::Objects(mut page), _) => {
                if let Some((object, _)) = page.objects.pop() {
                    twice.asked = Some((object, page.next));
                    self.twice.push_front(twice);
                }
            }
            (ReadOutcome::Object(Some(_)), Some((object, next))) => {
                let mut txn = Transaction::new();
                txn.remove(twice.id, &object);
                self.commits.push_back((twice.to, txn));
                twice.start = next;
                self.twice.push_front(twice);
            }
            // From here on none is there twice.
            _ => {}
        }
        self.next()
    }

    /// Takes the marks of a shard.
    fn on_marks(&mut self, outcome: ReadOutcome) -> Next {
        let (Some(to), ReadOutcome::Objects(page)) = (self.left.pop_front(), outcome) else {
            return Next::Done(Err(StoreError::Damaged("the marks of a shard can't be listed".into())));
        };
        let marks: Result<Vec<Mark>, StoreError> =
            page.objects.iter().map(|(object, attrs)| Mark::of(object, attrs)).collect();
        let mut marks = match marks {
            Ok(marks) => marks,
            Err(error) => return Next::Done(Err(error)),
        };
        // Those of what is on its way stay.
        marks.sort_by_key(|mark| !mark.arrived);
        let stay = marks.iter().any(|mark| !mark.arrived);
        let mut left = marks.iter().filter(|mark| mark.arrived).count();
        for Mark { id, from, arrived } in marks {
            if !arrived {
                self.found.push((id, from, Some(Way { from, to })));
                self.twice.extend(Twice::both(id, Way { from, to }));
                continue;
            }
            self.found.push((id, to, None));
            if self.collections.get(from.0 as usize).is_some_and(|all| all.contains(&id)) {
                let mut txn = Transaction::new();
                txn.remove_collection(id);
                self.commits.push_back((from, txn));
            }
            left -= 1;
            let mut txn = Transaction::new();
            Mark::remove(id, left == 0 && !stay, &mut txn);
            self.commits.push_back((to, txn));
        }
        self.next()
    }
}
