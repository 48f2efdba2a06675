//! Files that are written in place.

use std::fs::File;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Has btrfs write an empty file in place from now on, as other file systems do: what is written over there takes space first
/// otherwise, and finds none where the file system is full. A file system that does not know the flag is left alone.
pub fn write_in_place(empty: &File) {
    if let Ok(flags) = ioctl_getflags(empty) {
        // Where it is refused, the file is what it would be without.
        let _ = ioctl_setflags(empty, flags | IFlags::NOCOW);
    }
}
