//! Files that are on the disk when writing returns, and never half there.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::Error;

/// Writes a file so that after a crash it is there whole or not at all.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    let new = Path::new(&name);
    let mut file = File::create(new).map_err(Error::write(new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::write(new))?;
    fs::rename(new, path).map_err(Error::write(path))?;
    sync_parent(path)
}

/// Makes a file's name itself survive a crash.
pub(crate) fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = match path.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|d| d.sync_all()).map_err(Error::write(parent))
}

/// Refuses what isn't safe as a file name.
pub(crate) fn check_id(id: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    if (1..=200).contains(&id.len()) && !id.starts_with('.') && id.chars().all(allowed) {
        Ok(())
    } else {
        Err(Error::BadId { id: id.to_string() })
    }
}
