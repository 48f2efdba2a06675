//! Moving a collection to another shard, a bounded part at a time.

use super::table::ObjectTable;
use super::{MemStore, Moved};
use crate::{CollectionId, Rehoming, StoreError, StoreShard};

impl MemStore {
    pub(super) fn rehome_step(
        &mut self,
        id: CollectionId,
        to: StoreShard,
        objects_max: usize,
    ) -> Result<Rehoming, StoreError> {
        if to.0 >= self.shards {
            return Err(StoreError::NoSuchShard { shard: to, shards: self.shards });
        }
        if self.closed.contains_key(&id) {
            return Err(StoreError::AfterRefused(id));
        }
        let c = self.collections.get_mut(&id).ok_or(StoreError::NoSuchCollection(id))?;
        if to == c.shard {
            return Ok(c.move_back(objects_max));
        }
        let moved = c.moved.get_or_insert_with(|| Moved { to, objects: ObjectTable::default() });
        if moved.to != to {
            return Err(StoreError::Rehoming { collection: id, to: moved.to });
        }
        for _ in 0..objects_max {
            let Some((name, object)) = c.objects.pop_first() else { break };
            moved.objects.insert(name, object);
        }
        if !c.objects.is_empty() {
            return Ok(Rehoming::Continues);
        }
        c.objects = std::mem::take(&mut moved.objects);
        (c.shard, c.moved) = (to, None);
        Ok(Rehoming::Done)
    }
}

impl super::Collection {
    fn move_back(&mut self, objects_max: usize) -> Rehoming {
        let Some(moved) = &mut self.moved else { return Rehoming::Done };
        for _ in 0..objects_max {
            let Some((name, object)) = moved.objects.pop_last() else { break };
            self.objects.insert(name, object);
        }
        if !moved.objects.is_empty() {
            return Rehoming::Continues;
        }
        self.moved = None;
        Rehoming::Done
    }
}
