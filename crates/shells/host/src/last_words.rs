//! DIR/end: why the process that served a directory ended, if that was a failure.
//!
//! The log says it too, unless its file system is full. This file has its bytes from the start on and is written in place, which
//! takes no space ([`device::write_in_place`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use types::UTime;

/// The file's name.
pub(crate) const NAME: &str = "end";

/// Bytes of the file. Those behind the text are zero.
const BYTES: usize = 4096;

/// What a thread writes to that finds a defect: of the cluster that the process started last.
static OF_PROCESS: Mutex<Option<LastWords>> = Mutex::new(None);

/// The file of a directory that this process serves.
#[derive(Clone, Debug)]
pub(crate) struct LastWords(Arc<File>);

impl LastWords {
    /// Makes the file, with all of its bytes, if it is not there. It goes on saying what it said (`said`).
    pub(crate) fn reserve(dir: &Path, said: Option<&str>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(dir.join(NAME))?;
        if file.metadata()?.len() == 0 {
            device::write_in_place(&file);
        }
        let words = Self(Arc::new(file));
        words.write(said.unwrap_or_default())?;
        *OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.clone());
        Ok(words)
    }

    /// Notes why the process ends.
    pub(crate) fn say(&self, reason: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day, hour, minute, second) = UTime::from_nanos(now.as_nanos() as u64).civil();
        let when = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
        let text = format!("{when}, process {}: {}", std::process::id(), one_line(reason));
        if let Err(error) = self.write(&text) {
            tracing::warn!("the reason of the end can't be kept for `loligo status`: {error}");
        }
    }

    /// Takes back what an earlier process said.
    pub(crate) fn clear(&self) {
        if let Err(error) = self.write("") {
            tracing::warn!("`loligo status` will give the reason of an earlier end: {error}");
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let whole = (0..=text.len().min(BYTES)).rev().find(|at| text.is_char_boundary(*at));
        let mut bytes = text.as_bytes()[..whole.unwrap_or(0)].to_vec();
        bytes.resize(BYTES, 0);
        self.0.write_all_at(&bytes, 0)?;
        self.0.sync_data()
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Notes why this process ends, if it serves a directory: for what ends it without its main thread.
pub fn say_last(reason: &str) {
    // The thread that holds it has panicked in the middle of a start, where nothing is served.
    if let Ok(words) = OF_PROCESS.try_lock() {
        words.iter().for_each(|words| words.say(reason));
    }
}

/// Takes back what the last process said that served a directory: what ended it is mended.
pub(crate) fn mended(dir: &Path) {
    let words = OpenOptions::new().write(true).open(dir.join(NAME));
    match words.map(|file| LastWords(Arc::new(file))) {
        Ok(words) => words.clear(),
        // No process has served it since the file exists.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!("{}: {error}; the next start repeats what it says", dir.join(NAME).display());
        }
    }
}

/// When and why the process that served a directory last ended, if that was a failure.
pub fn last_failure(dir: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(dir.join(NAME)).ok()?.take(BYTES as u64).read_to_end(&mut bytes).ok()?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(one_line(&String::from_utf8_lossy(text))).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_was_said_last_is_read_until_a_start_takes_it_back() {
        let tmp = tempfile::tempdir().unwrap();
        assert_eq!(last_failure(tmp.path()), None, "no file");
        let words = LastWords::reserve(tmp.path(), None).unwrap();
        assert_eq!(last_failure(tmp.path()), None, "nothing was said");
        words.say("a long reason of which\na shorter one leaves nothing");
        words.say("the disk\nis full");
        let found = last_failure(tmp.path()).unwrap();
        assert!(found.ends_with(&format!("Z, process {}: the disk is full", std::process::id())), "{found}");
        let words = LastWords::reserve(tmp.path(), Some(&found)).unwrap();
        assert_eq!(last_failure(tmp.path()), Some(found), "the next start has not succeeded yet");
        words.clear();
        assert_eq!(last_failure(tmp.path()), None);
        words.say("the state is lost");
        mended(tmp.path());
        assert_eq!(last_failure(tmp.path()), None);
        std::fs::remove_file(tmp.path().join(NAME)).unwrap();
        mended(tmp.path());
        assert!(!tmp.path().join(NAME).exists(), "where nothing was said nothing is made");
    }

    #[test]
    fn the_file_has_its_blocks_before_anything_is_said() {
        let tmp = tempfile::tempdir().unwrap();
        let words = LastWords::reserve(tmp.path(), None).unwrap();
        let blocks = || std::fs::metadata(tmp.path().join(NAME)).unwrap().blocks();
        let before = blocks();
        words.say(&"é".repeat(10_000));
        assert_eq!((before * 512 >= BYTES as u64, blocks()), (true, before));
        assert!(last_failure(tmp.path()).unwrap().ends_with('é'));
        // A start takes a damaged file over.
        std::fs::write(tmp.path().join(NAME), [0xff; 10_000]).unwrap();
        LastWords::reserve(tmp.path(), None).unwrap().clear();
        assert_eq!(last_failure(tmp.path()), None);
    }
}
