//! A disk's surface: where bytes lie, how fast they pass below the head, and how long the arm takes.
//!
//! Bytes lie on one spiral from the outer edge to the inner one. The rate falls with the radius, so a track's bytes do
//! too. A position is a number of tracks from the outer edge: its whole part says which track, its fraction the angle.
//! Streaming from one position to another takes as many rotations as they are tracks apart: track skew is set so that
//! this holds across tracks, and the rates are those that a data sheet calls sustained.

use crate::Nanos;
use crate::sheet::Sheet;

/// The disk's mechanics, by its data sheet and size.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Bytes a nanosecond at the outer edge.
    outer: f64,
    /// The rate's square falls by this much a byte.
    fall: f64,
    /// Nanoseconds a rotation.
    rotation: Nanos,
    /// Tracks in all.
    tracks: f64,
    seek: Seek,
    /// The platter's angle at the time 0.
    phase: f64,
}

/// How long the arm takes: a square root of the distance up to a third of the stroke, then a line.
#[derive(Clone, Debug)]
struct Seek {
    track: f64,
    root: f64,
    knee: f64,
    full: f64,
    settle_write: f64,
}

/// The part of the stroke where the square root ends.
const KNEE: f64 = 1.0 / 3.0;

impl Seek {
    fn new(sheet: &Sheet) -> Self {
        let ns = |name| sheet.number(name) * 1e6;
        let (track, mean, full) = (ns("seek_track_ms"), ns("seek_read_ms"), ns("seek_full_ms"));
        // The mean over two random tracks, whose distance d has the density 2(1-d), is to be the data sheet's: the
        // integrals below are those of 2(1-d) times the curve's parts, solved for the square root's factor.
        let beyond = (1.0 - KNEE) * (1.0 - KNEE);
        let roots = 4.0 * (KNEE.powf(1.5) / 3.0 - KNEE.powf(2.5) / 5.0);
        let fixed = track * (1.0 - beyond / 3.0) + full * beyond / 3.0;
        let root = ((mean - fixed) / (roots + beyond * KNEE.sqrt() * 2.0 / 3.0)).max(0.0);
        let knee = track + root * KNEE.sqrt();
        Self { track, root, knee, full, settle_write: ns("seek_write_ms") - mean }
    }

    /// For a distance as a part of the stroke.
    fn time(&self, part: f64) -> f64 {
        if part <= KNEE {
            return self.track + self.root * part.sqrt();
        }
        self.knee + (self.full - self.knee) * (part - KNEE) / (1.0 - KNEE)
    }
}

impl Geometry {
    pub(crate) fn new(sheet: &Sheet, bytes: u64, phase: f64) -> Self {
        let (outer, inner) = (sheet.number("outer_mb_s") / 1e3, sheet.number("inner_mb_s") / 1e3);
        let rotation = (60e9 / sheet.number("rpm")) as Nanos;
        let fall = (outer * outer - inner * inner) / bytes as f64;
        let mut this = Self { outer, fall, rotation, tracks: 1.0, seek: Seek::new(sheet), phase };
        this.tracks = this.position(bytes);
        this
    }

    /// Bytes a nanosecond at an offset.
    fn rate(&self, offset: f64) -> f64 {
        (self.outer * self.outer - self.fall * offset).max(0.0).sqrt()
    }

    /// Where a byte lies, in tracks.
    pub(crate) fn position(&self, offset: u64) -> f64 {
        let offset = offset as f64;
        2.0 * offset / (self.rotation as f64 * (self.outer + self.rate(offset)))
    }

    /// The first byte at or behind a position.
    fn offset(&self, position: f64) -> u64 {
        let turned = position * self.rotation as f64;
        let rate = self.outer - turned * self.fall / 2.0;
        (turned * (self.outer + rate) / 2.0) as u64
    }

    /// Nanoseconds for the bytes to pass below the head.
    pub(crate) fn transfer(&self, from: u64, to: u64) -> Nanos {
        ((self.position(to) - self.position(from)) * self.rotation as f64).ceil() as Nanos
    }

    /// How far a head that streams from an offset gets.
    pub(crate) fn reach(&self, from: u64, time: Nanos) -> u64 {
        self.offset(self.position(from) + time as f64 / self.rotation as f64).max(from)
    }

    /// Nanoseconds for the arm. Within a track's length nothing moves: a head switch is part of the sustained rate.
    pub(crate) fn seek(&self, from: u64, to: u64, write: bool) -> Nanos {
        let distance = (self.position(from) - self.position(to)).abs();
        if distance < 1.0 {
            return 0;
        }
        let settle = if write { self.seek.settle_write } else { 0.0 };
        (self.seek.time(distance / self.tracks) + settle) as Nanos
    }

    /// Nanoseconds from a time until a byte comes below the head.
    pub(crate) fn rotate(&self, now: Nanos, to: u64) -> Nanos {
        let angle = (now % self.rotation) as f64 / self.rotation as f64 + self.phase;
        let gap = (self.position(to) - angle).rem_euclid(1.0);
        ((gap * self.rotation as f64) as Nanos).min(self.rotation - 1)
    }

    /// Nanoseconds a rotation.
    #[cfg(test)]
    pub(crate) fn rotation(&self) -> Nanos {
        self.rotation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::Sheet;

    fn geometry() -> Geometry {
        Geometry::new(&Sheet::read("disk-7200", &[]).unwrap(), 80 << 30, 0.0)
    }

    #[test]
    fn the_edges_have_the_data_sheets_rates() {
        let g = geometry();
        let mb_s = |from: u64| 1e3 * (1 << 20) as f64 / g.transfer(from, from + (1 << 20)) as f64;
        assert!((mb_s(0) - 140.0).abs() < 0.1, "{}", mb_s(0));
        assert!((mb_s((80 << 30) - (1 << 20)) - 66.0).abs() < 0.1);
    }

    #[test]
    fn positions_and_offsets_are_each_others_inverse() {
        let g = geometry();
        for gib in 0..80 {
            let offset = (gib << 30) + 12345;
            assert!(g.offset(g.position(offset)).abs_diff(offset) <= 1);
            let end = g.reach(offset, g.transfer(offset, offset + 100_000));
            assert!(end.abs_diff(offset + 100_000) <= 1, "{end}");
        }
    }

    #[test]
    fn the_mean_over_random_tracks_is_the_data_sheets() {
        let seek = geometry().seek;
        let n = 2000;
        let part = |i: u32| (f64::from(i) + 0.5) / f64::from(n);
        let mean: f64 =
            (0..n).map(|i| 2.0 * (1.0 - part(i)) * seek.time(part(i))).sum::<f64>() / f64::from(n);
        assert!((mean / 8.5e6 - 1.0).abs() < 1e-3, "{mean}");
        assert!((seek.time(1e-9) - 1e6).abs() < 1e3 && seek.time(1.0) == 18e6);
        assert!((1..1000).all(|i| seek.time(f64::from(i) / 1e3) < seek.time(f64::from(i + 1) / 1e3)));
    }

    #[test]
    fn a_byte_just_passed_is_a_rotation_away() {
        let g = geometry();
        let at = g.rotate(0, 5 << 20);
        assert!(g.rotate(at + 1000, 5 << 20).abs_diff(g.rotation() - 1000) < 3);
    }
}
