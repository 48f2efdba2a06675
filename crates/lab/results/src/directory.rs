//! A results directory: made once, appended to, read back. Its layout is described in `record.rs`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::lines::{Lines, parse};
use crate::write::{check_id, sync_parent, whole};
use crate::{Error, PhaseProfile, Record, Requests, RunInfo, SeriesReader, SeriesWriter, Stacks};

/// Values by phase and `daemon.section.counter`.
pub type PhaseCounters = BTreeMap<String, BTreeMap<String, f64>>;

/// A results directory. At most one [`Appender`] may be open at a time; the caller sees to that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    path: PathBuf,
}

/// What was read of `trials.jsonl`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Records {
    /// The last record of each id, in the order of the plan.
    pub records: Vec<Record>,
    /// A sentence where the last line was torn by a crash: that trial is as if it had not run.
    pub torn: Option<String>,
}

impl Directory {
    /// Makes one. `run.json` is written last: a directory without it is none.
    ///
    /// # Errors
    /// [`Error::Exists`] where results are already.
    pub fn create(path: &Path, info: &RunInfo, study: &[u8], plan: &[u8]) -> Result<Self, Error> {
        let directory = Self { path: path.to_path_buf() };
        let run = directory.path.join("run.json");
        if run.exists() || directory.trials().exists() {
            return Err(Error::Exists { path: directory.path });
        }
        for dir in [path.to_path_buf(), path.join("series"), path.join("logs")] {
            fs::create_dir_all(&dir).map_err(Error::write(&dir))?;
        }
        whole(&path.join("study.yaml"), study)?;
        whole(&path.join("plan.json"), plan)?;
        let encode = |source| Error::Encode { path: run.clone(), source };
        let mut text = serde_json::to_vec_pretty(info).map_err(encode)?;
        text.push(b'\n');
        whole(&run, &text)?;
        Ok(directory)
    }

    /// Opens one.
    ///
    /// # Errors
    /// [`Error::NotResults`], [`Error::Newer`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let directory = Self { path: path.to_path_buf() };
        if !path.join("run.json").is_file() {
            return Err(Error::NotResults { path: directory.path });
        }
        directory.info()?;
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `run.json`.
    pub fn info(&self) -> Result<RunInfo, Error> {
        let path = self.path.join("run.json");
        parse(&path, 1, &self.read("run.json")?)
    }

    /// The study file, byte for byte.
    pub fn study(&self) -> Result<Vec<u8>, Error> {
        self.read("study.yaml")
    }

    /// The plan as the runner wrote it.
    pub fn plan(&self) -> Result<Vec<u8>, Error> {
        self.read("plan.json")
    }

    /// Replaces the plan.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn set_plan(&self, plan: &[u8]) -> Result<(), Error> {
        whole(&self.path.join("plan.json"), plan)
    }

    /// Every trial's last record, in the order in which they ran; none where no trial has ended yet.
    pub fn records(&self) -> Result<Records, Error> {
        let path = self.trials();
        if !path.exists() {
            return Ok(Records::default());
        }
        let mut lines = Lines::<Record>::open(&path)?;
        let mut last = BTreeMap::new();
        for record in &mut lines {
            let record = record?;
            last.insert(record.id.clone(), record);
        }
        let mut records: Vec<Record> = last.into_values().collect();
        // Orders of commands that ran other parts of the study start again.
        records.sort_by(|a, b| (&a.started, a.order).cmp(&(&b.started, b.order)));
        let torn = lines.torn().map(|bytes| {
            format!(
                "{}: the last line was torn by a crash ({bytes} bytes); it is left out and that trial counts as not run",
                path.display()
            )
        });
        Ok(Records { records, torn })
    }

    /// For appending records.
    pub fn appender(&self) -> Result<Appender, Error> {
        Appender::open(&self.trials())
    }

    /// A trial's samples.
    ///
    /// # Errors
    /// [`Error::Read`] also where the trial has none.
    pub fn series(&self, id: &str) -> Result<SeriesReader, Error> {
        SeriesReader::open(&self.series_path(id)?)
    }

    /// For writing a trial's samples.
    pub fn series_writer(&self, id: &str) -> Result<SeriesWriter, Error> {
        SeriesWriter::create(&self.series_path(id)?)
    }

    /// Writes all of Ceph's counters that changed in each phase of a trial; nothing where there is none.
    pub fn write_counters(&self, id: &str, phases: &PhaseCounters) -> Result<(), Error> {
        check_id(id)?;
        if phases.values().all(BTreeMap::is_empty) {
            return Ok(());
        }
        write_json(&self.path.join("counters").join(format!("{id}.json")), phases)
    }

    /// All of Ceph's counters that changed in a trial; none where none were kept.
    pub fn counters(&self, id: &str) -> Result<PhaseCounters, Error> {
        check_id(id)?;
        let path = self.path.join("counters").join(format!("{id}.json"));
        if !path.is_file() {
            return Ok(PhaseCounters::new());
        }
        parse(&path, 1, &fs::read(&path).map_err(Error::read(&path))?)
    }

    /// Writes what a profiled trial showed in a phase.
    pub fn write_profile(&self, id: &str, profile: &PhaseProfile) -> Result<(), Error> {
        check_id(id)?;
        check_id(&profile.phase)?;
        let dir = self.path.join("profiles").join(id);
        fs::create_dir_all(&dir).map_err(Error::write(&dir))?;
        if let Some(stacks) = &profile.stacks {
            whole(&dir.join(format!("{}.folded", profile.phase)), stacks.text().as_bytes())?;
        }
        for requests in &profile.requests {
            check_id(&requests.device)?;
            write_json(&dir.join(format!("{}.{}.json", profile.phase, requests.device)), requests)?;
        }
        Ok(())
    }

    /// What a profiled trial showed in a phase; nothing where nothing was kept.
    pub fn profile(&self, id: &str, phase: &str) -> Result<PhaseProfile, Error> {
        check_id(id)?;
        let dir = self.path.join("profiles").join(id);
        let mut profile = PhaseProfile { phase: phase.to_owned(), ..PhaseProfile::default() };
        let stacks = dir.join(format!("{phase}.folded"));
        if stacks.is_file() {
            let text = fs::read(&stacks).map_err(Error::read(&stacks))?;
            profile.stacks = Some(Stacks::parse(&String::from_utf8_lossy(&text)));
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".json")) {
                let requests: Requests = parse(&path, 1, &fs::read(&path).map_err(Error::read(&path))?)?;
                // A step of a ladder has its phase's name and more.
                if name == format!("{phase}.{}.json", requests.device) {
                    profile.requests.push(requests);
                }
            }
        }
        Ok(profile)
    }

    /// Makes a trial's directory of logs, and gives it.
    pub fn logs(&self, id: &str) -> Result<PathBuf, Error> {
        check_id(id)?;
        let path = self.path.join("logs").join(id);
        fs::create_dir_all(&path).map_err(Error::write(&path))?;
        Ok(path)
    }

    fn trials(&self) -> PathBuf {
        self.path.join("trials.jsonl")
    }

    fn series_path(&self, id: &str) -> Result<PathBuf, Error> {
        check_id(id)?;
        Ok(self.path.join("series").join(format!("{id}.jsonl")))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path.join(name);
        fs::read(&path).map_err(Error::read(&path))
    }
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Error> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(Error::write(dir))?;
    }
    let encode = |source| Error::Encode { path: path.to_path_buf(), source };
    whole(path, &serde_json::to_vec(value).map_err(encode)?)
}

/// Appends records. What a crash left of a last line is cut off when it is opened.
pub struct Appender {
    path: PathBuf,
    file: File,
}

impl Appender {
    fn open(path: &Path) -> Result<Self, Error> {
        let new = !path.exists();
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = options.open(path).map_err(Error::write(path))?;
        let end = end_of_last_line(&mut file).map_err(Error::read(path))?;
        file.set_len(end).and_then(|()| file.sync_all()).map_err(Error::write(path))?;
        if new {
            sync_parent(path)?;
        }
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Appends a record: it is on the disk when this returns. Counters that are not finite are left out.
    ///
    /// # Errors
    /// [`Error::NotANumber`], [`Error::BadId`]: nothing was written. [`Error::Write`]: open another appender before
    /// going on, since part of a line may have been written.
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        check_id(&record.id)?;
        let mut record = record.clone();
        for m in &mut record.measurements {
            m.counters.retain(|_, v| v.is_finite());
        }
        let encode = |source| Error::Encode { path: self.path.clone(), source };
        let value = serde_json::to_value(&record).map_err(encode)?;
        if let Some(field) = unexpected_null(&value, "") {
            return Err(Error::NotANumber { id: record.id, field });
        }
        let mut line = serde_json::to_vec(&record).map_err(encode)?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(Error::write(&self.path))
    }
}

/// The length of a file up to its last newline.
fn end_of_last_line(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut piece = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        if let Some(at) = piece.iter().rposition(|b| *b == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Fields that may be null, as records have them. serde_json writes NaN and the infinities as null too.
const NULLABLE: [&str; 7] = ["histogram", "steady", "joules", "cycles", "rate", "held", "found"];

/// The place of a null that would keep the record from being read back.
fn unexpected_null(value: &Value, place: &str) -> Option<String> {
    let below = |name: &str| if place.is_empty() { name.to_string() } else { format!("{place}.{name}") };
    match value {
        Value::Null => Some(place.to_string()),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, v)| !(v.is_null() && NULLABLE.contains(&name.as_str())))
            .find_map(|(name, v)| unexpected_null(v, &below(name))),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, v)| unexpected_null(v, &below(&i.to_string())))
        }
        _ => None,
    }
}
