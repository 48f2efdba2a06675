//! A trial's samples: `series/ID.jsonl`, a line a second.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::lines::Lines;
use crate::{Error, Sample, Series};

/// Writes a trial's samples as they come. What a trial of the same id left before is replaced.
///
/// Samples are not synced one by one: that would put load on the disk that is being measured. [`SeriesWriter::finish`]
/// syncs them.
pub struct SeriesWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl SeriesWriter {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let file = BufWriter::new(File::create(path).map_err(Error::write(path))?);
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Appends a sample. Values that are not finite are left out, which reads as 'not measured'.
    pub fn push(&mut self, sample: &Sample) -> Result<(), Error> {
        let mut sample = sample.clone();
        sample.values.retain(|_, v| v.is_finite());
        if !sample.t.is_finite() {
            return Ok(());
        }
        let encode = |source| Error::Encode { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(&sample).map_err(encode)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(Error::write(&self.path))
    }

    /// Ends the file, on the disk.
    pub fn finish(self) -> Result<(), Error> {
        let Self { path, file } = self;
        let file = file.into_inner().map_err(|e| Error::write(&path)(e.into_error()))?;
        file.sync_all().map_err(Error::write(&path))
    }
}

/// A trial's samples, read one at a time. A torn last line is left out.
pub struct SeriesReader {
    lines: Lines<Sample>,
}

impl SeriesReader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { lines: Lines::open(path)? })
    }

    /// Reads what is left.
    pub fn collect_series(self) -> Result<Series, Error> {
        Ok(Series { samples: self.collect::<Result<_, _>>()? })
    }
}

impl Iterator for SeriesReader {
    type Item = Result<Sample, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next()
    }
}
