//! Steps that no store may apply.

use types::{EVersion, GHObject};

use super::super::model::Model;
use super::{Generator, collection};
use crate::{CollectionId, INFO_BYTES_MAX, LogRecordKind, OBJECT_BYTES_MAX, ObjectChange, Transaction};

impl Generator {
    pub(super) fn impossible_step(&mut self, model: &Model, txn: &mut Transaction, id: CollectionId) {
        let object = self.new_object(id);
        match self.rng.below(10) {
            0 => {
                txn.touch(collection(400), &object);
            }
            1 => {
                txn.remove(id, &object).clone_object(id, &object, &self.object(model, id));
            }
            2 => {
                txn.remove(id, &object).rename((id, &object), (id, &self.object(model, id)));
            }
            3 => {
                txn.log_append(id, EVersion::default(), LogRecordKind::Entry, self.data(5).to_piece());
            }
            4 => {
                txn.touch(id, &GHObject::max());
            }
            5 => {
                txn.zero(id, &object, OBJECT_BYTES_MAX, 1);
            }
            6 => {
                txn.set_info(id, vec![1; INFO_BYTES_MAX + 1]);
            }
            7 => {
                txn.create_collection(id, 1);
            }
            8 => {
                txn.change(
                    id,
                    &object,
                    ObjectChange::Write {
                        offset: 4096,
                        data: self.data(4096),
                        advice: Default::default(),
                        checksums: Some(vec![1, 2]),
                    },
                );
            }
            _ => {
                let elsewhere = |c: &CollectionId| model.home(*c) != model.home(id);
                let other = model.collections().into_iter().find(elsewhere).unwrap_or(collection(401));
                txn.touch(other, &object);
            }
        }
    }
}
