//! What a look into memory found of data that has to be read, for the request that follows it: the map is searched once.

use std::collections::VecDeque;

use store::ReadRequest;

use crate::read::DataRead;

/// Looks that are kept: those of the requests that a core takes before it hands on the first.
const KEPT_MAX: usize = 32;

/// The last looks. Whatever changes an object's data ends them: see [`Peeked::clear`].
#[derive(Debug, Default)]
pub struct Peeked(VecDeque<(ReadRequest, DataRead)>);

impl Peeked {
    pub fn keep(&mut self, request: &ReadRequest, read: DataRead) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((request.clone(), read));
    }

    /// What is known of a request.
    pub fn take(&mut self, request: &ReadRequest) -> Option<DataRead> {
        let at = self.0.iter().position(|(known, _)| known == request)?;
        self.0.remove(at).map(|(_, read)| read)
    }

    /// Blocks may be mapped otherwise from here on, or be another object's.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
