//! What reads returned, kept to be looked at again: it must never change.

use buffer::{Piece, crc32c};

use crate::{ReadOutcome, StoreError, Token};

/// Memory that may be kept, bytes.
const BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub struct Kept {
    pieces: Vec<(Token, Piece, u32)>,
    bytes: usize,
}

impl Kept {
    pub fn keep(&mut self, token: Token, result: &Result<ReadOutcome, StoreError>) {
        // An error has no bytes.
        let Ok(outcome) = result else { return };
        match outcome {
            ReadOutcome::Data(data) => data.pieces().iter().for_each(|p| self.piece(token, p)),
            ReadOutcome::Attr(piece) | ReadOutcome::OmapHeader(piece) => self.piece(token, piece),
            ReadOutcome::Attrs(attrs) => attrs.iter().for_each(|(_, v)| self.piece(token, v)),
            ReadOutcome::Object(head) => {
                head.iter().flat_map(|h| h.attrs.iter()).for_each(|(_, v)| self.piece(token, v));
            }
            ReadOutcome::Omap(page) => page.entries.iter().for_each(|(_, v)| self.piece(token, v)),
            ReadOutcome::Objects(page) => {
                page.objects.iter().flat_map(|o| o.1.iter()).for_each(|(_, v)| self.piece(token, v));
            }
            ReadOutcome::Collection(stat) => stat.iter().for_each(|s| self.piece(token, &s.info)),
            ReadOutcome::Log(page) => page.records.iter().for_each(|r| self.piece(token, &r.bytes)),
            // Plain numbers and names.
            ReadOutcome::Extents(_)
            | ReadOutcome::Stat(_)
            | ReadOutcome::Collections(_)
            | ReadOutcome::StatFs(_) => {}
        }
    }

    fn piece(&mut self, token: Token, piece: &Piece) {
        if !piece.is_empty() && self.bytes + piece.len() <= BYTES_MAX {
            self.bytes += piece.len();
            self.pieces.push((token, piece.clone(), crc32c(0, piece)));
        }
    }

    /// Fails if something that was returned has changed since.
    pub fn check(&self) {
        for (token, piece, crc) in &self.pieces {
            assert_eq!(crc32c(0, piece), *crc, "what {token:?} returned has changed since");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "what Token(7) returned has changed since")]
    fn a_piece_that_changes_is_noticed() {
        let mut kept = Kept::default();
        kept.keep(Token(7), &Ok(ReadOutcome::Data(Piece::copy_from(b"bytes").into())));
        kept.check();
        // As if the memory had been given to something else.
        kept.pieces[0].1 = Piece::copy_from(b"other");
        kept.check();
    }
}
