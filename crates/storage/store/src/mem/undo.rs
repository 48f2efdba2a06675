//! What a failed transaction puts back.

use buffer::Piece;
use types::{EVersion, GHObject};

use super::object::Object;
use super::{Collection, Log, MemStore};
use crate::{CollectionId, LogRecord};

/// One change as it is taken back.
pub(super) enum UndoStep {
    /// An object as it was.
    Object(CollectionId, GHObject, Option<Object>),
    /// A log's ends as they were, and the records dropped at either end.
    Log { id: CollectionId, tail: EVersion, head: EVersion, front: Vec<LogRecord>, back: Vec<LogRecord> },
    /// A collection's info as it was.
    Info(CollectionId, Piece),
    /// A collection that was made.
    Created(CollectionId),
    /// A collection that was removed.
    Removed(CollectionId, Collection),
    /// A collection's bits as they were.
    Bits(CollectionId, u32),
    /// Objects that went from the first collection to the second.
    Moved(CollectionId, CollectionId, Vec<GHObject>),
}

impl UndoStep {
    /// The ends of a log about to change.
    pub fn log(id: CollectionId, log: &Log) -> Self {
        Self::Log { id, tail: log.tail, head: log.head, front: Vec::new(), back: Vec::new() }
    }

    /// The same with the records that were dropped.
    pub fn with_records(self, dropped_front: Vec<LogRecord>, dropped_back: Vec<LogRecord>) -> Self {
        match self {
            Self::Log { id, tail, head, .. } => {
                Self::Log { id, tail, head, front: dropped_front, back: dropped_back }
            }
            other => other,
        }
    }
}

/// The changes of a transaction in order, or nothing where none of its steps can fail.
pub(super) struct Undo(Option<Vec<UndoStep>>);

impl Undo {
    pub fn on() -> Self {
        Self(Some(Vec::new()))
    }

    pub fn off() -> Self {
        Self(None)
    }

    pub fn push(&mut self, step: impl FnOnce() -> UndoStep) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }

    /// Keeps an object about to change.
    pub fn object(&mut self, id: CollectionId, name: &GHObject, c: &Collection) {
        self.push(|| UndoStep::Object(id, name.clone(), c.objects.get(name).cloned()));
    }
}

impl MemStore {
    /// Takes changes back, newest first.
    pub(super) fn put_back(&mut self, undo: Undo) {
        for step in undo.0.into_iter().flatten().rev() {
            self.put_back_step(step);
        }
    }

    fn put_back_step(&mut self, step: UndoStep) {
        match step {
            UndoStep::Created(id) => drop(self.collections.remove(&id)),
            UndoStep::Removed(id, collection) => drop(self.collections.insert(id, collection)),
            UndoStep::Moved(from, into, names) => self.move_objects(into, from, &names),
            UndoStep::Object(id, name, object) => {
                let Some(c) = self.collections.get_mut(&id) else { return };
                match object {
                    Some(object) => drop(c.objects.insert(name, object)),
                    None => drop(c.objects.remove(&name)),
                }
            }
            UndoStep::Info(id, info) => {
                if let Some(c) = self.collections.get_mut(&id) {
                    c.info = info;
                }
            }
            UndoStep::Bits(id, bits) => {
                if let Some(c) = self.collections.get_mut(&id) {
                    c.bits = bits;
                }
            }
            UndoStep::Log { id, tail, head, front, back } => {
                let Some(c) = self.collections.get_mut(&id) else { return };
                // What was appended goes; what was dropped comes back.
                c.log.records.retain(|e| e.version <= head);
                front.into_iter().rev().for_each(|e| c.log.records.push_front(e));
                c.log.records.extend(back);
                (c.log.tail, c.log.head) = (tail, head);
            }
        }
    }
}
