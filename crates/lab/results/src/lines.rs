//! JSON lines, read one at a time. A line counts when its end is there: what a crash left of the last one is skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, FORMAT};

/// The values of a file, in order. Ends after the first error.
pub(crate) struct Lines<T> {
    path: PathBuf,
    file: BufReader<File>,
    line: u64,
    torn: Option<usize>,
    ended: bool,
    kind: PhantomData<T>,
}

#[derive(Deserialize)]
struct Format {
    #[serde(default)]
    format: u32,
}

impl<T: DeserializeOwned> Lines<T> {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = BufReader::new(File::open(path).map_err(Error::read(path))?);
        Ok(Self { path: path.to_path_buf(), file, line: 0, torn: None, ended: false, kind: PhantomData })
    }

    /// Bytes after the last whole line; known once the lines have all been read.
    pub(crate) fn torn(&self) -> Option<usize> {
        self.torn
    }

    fn read(&mut self) -> Result<Option<T>, Error> {
        let mut line = Vec::new();
        self.file.read_until(b'\n', &mut line).map_err(Error::read(&self.path))?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            self.torn = Some(line.len() + 1);
            return Ok(None);
        }
        self.line += 1;
        parse(&self.path, self.line, &line).map(Some)
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Parses, after a look at the format: a newer one is told as such, not as damage.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, line: u64, text: &[u8]) -> Result<T, Error> {
    let damaged = |source| Error::Damaged { path: path.to_path_buf(), line, source };
    let Format { format } = serde_json::from_slice(text).map_err(damaged)?;
    if format > FORMAT {
        return Err(Error::Newer { path: path.to_path_buf(), format });
    }
    serde_json::from_slice(text).map_err(damaged)
}
