//! The bytes that wait to be written to a socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use buffer::{Piece, Rope};

/// Pieces handed to the kernel in one call.
const SLICES_MAX: usize = 64;

/// Pieces in order, the first perhaps partly written. Payload is never copied.
#[derive(Default, Debug)]
pub struct OutQueue {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl OutQueue {
    /// Appends bytes.
    pub fn push(&mut self, rope: &Rope) {
        self.bytes += rope.len();
        self.pieces.extend(rope.pieces().iter().cloned());
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes as much as `write` (a vectored, nonblocking write) takes. Ends at the first `WouldBlock`, with `Ok`.
    pub fn write_to(&mut self, mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<()> {
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count =
                slices.iter_mut().zip(&self.pieces).map(|(slice, p)| *slice = IoSlice::new(p)).count();
            match write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.consume(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn consume(&mut self, mut n: usize) {
        assert!(n <= self.bytes, "the kernel took {n} of {} bytes", self.bytes);
        self.bytes -= n;
        while n > 0 {
            let Some(first) = self.pieces.front_mut() else {
                // `bytes` is the sum of the pieces' lengths.
                debug_assert!(false, "{n} bytes were counted that no piece holds");
                return;
            };
            if n < first.len() {
                *first = first.slice(n..first.len());
                return;
            }
            n -= first.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_lose_and_repeat_nothing() {
        let mut queue = OutQueue::default();
        let text: Vec<u8> = (0..=255).collect();
        for chunk in text.chunks(7) {
            queue.push(&Rope::copy_from(chunk));
        }
        let (mut written, mut calls) = (Vec::new(), 0);
        queue
            .write_to(|slices| {
                calls += 1;
                if calls % 3 == 0 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let all: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                let n = all.len().min(calls);
                written.extend_from_slice(&all[..n]);
                Ok(n)
            })
            .unwrap();
        assert_eq!(written, text);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_socket_keeps_the_rest() {
        let mut queue = OutQueue::default();
        queue.push(&Rope::copy_from(b"abc"));
        queue.write_to(|_| Err(io::ErrorKind::WouldBlock.into())).unwrap();
        assert_eq!(queue.bytes(), 3);
        assert!(queue.write_to(|_| Ok(0)).is_err());
    }
}
