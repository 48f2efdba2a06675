//! SVG to PNG by a program of the machine, where there is one: drawing text and curves takes libraries that would cost
//! every build minutes. Every chart is there as SVG.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use process::End;

/// The programs that are looked for, in this order. rsvg-convert starts fastest.
pub const PROGRAMS: [&str; 3] = ["rsvg-convert", "inkscape", "magick"];

/// Pixels of a picture at most on each side: a chart that is longer is drawn smaller.
const SIDE_MAX: f64 = 8000.0;

/// Dots per inch at which a unit of SVG is a pixel.
const DPI: f64 = 96.0;

/// For one chart. Inkscape takes seconds to start.
const LIMIT: Duration = Duration::from_secs(120);

/// What became of the charts as PNG.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pictures {
    /// They were not asked for.
    No,
    /// Every chart has one.
    Drawn,
    /// None of [`PROGRAMS`] is in PATH.
    NoProgram,
    /// The program failed at a chart, and was not asked for those after it. A sentence.
    Failed(String),
}

/// A program that draws an SVG file.
pub(crate) struct Converter {
    program: PathBuf,
    name: &'static str,
}

impl Converter {
    /// The first program that one of the directories has, listed as in PATH.
    pub(crate) fn find(path: &OsStr) -> Option<Self> {
        let directories: Vec<PathBuf> = std::env::split_paths(path).collect();
        PROGRAMS.iter().find_map(|name| {
            let program = directories.iter().map(|d| d.join(name)).find(|p| p.is_file())?;
            Some(Self { program, name })
        })
    }

    /// Draws a chart at twice its size, sharp on every screen.
    ///
    /// # Errors
    /// The program failed, or took too long. A sentence.
    pub(crate) fn draw(&self, svg: &str, from: &Path, to: &Path) -> Result<(), String> {
        let failed = |why: String| format!("{} can't draw {}: {why}", self.name, from.display());
        let mut command = Command::new(&self.program);
        command.args(self.arguments(zoom(svg), from, to));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|e| failed(e.to_string()))?;
        match process::end_and_errors(child, LIMIT).map_err(|e| failed(e.to_string()))? {
            (End::Exited(status), _) if status.success() => Ok(()),
            (End::Exited(_), errors) => Err(failed(process::last_words(&errors, ""))),
            (End::Late | End::Stopped, _) => Err(failed(format!("it took more than {LIMIT:?}"))),
        }
    }

    fn arguments(&self, zoom: f64, from: &Path, to: &Path) -> Vec<OsString> {
        let (from, to) = (from.as_os_str().to_owned(), to.as_os_str().to_owned());
        let with = |option: &str, value: &OsStr| {
            let mut word = OsString::from(option);
            word.push(value);
            word
        };
        let dpi = format!("{:.3}", DPI * zoom);
        match self.name {
            "rsvg-convert" => {
                let zoom = format!("--zoom={zoom:.4}");
                vec![zoom.into(), "--background-color=white".into(), with("--output=", &to), from]
            }
            "inkscape" => vec![
                "--export-background=white".into(),
                with("--export-dpi=", dpi.as_ref()),
                with("--export-filename=", &to),
                from,
            ],
            _ => vec!["-density".into(), dpi.into(), "-background".into(), "white".into(), from, to],
        }
    }
}

/// How much larger than the chart its picture is.
fn zoom(svg: &str) -> f64 {
    let head = svg.split_once('>').map_or(svg, |(head, _)| head);
    let side = |name: &str| {
        let value = head.split_once(name)?.1.split('"').next()?;
        value.parse::<f64>().ok()
    };
    let longest = [" width=\"", " height=\""].into_iter().filter_map(side).fold(1.0, f64::max);
    (SIDE_MAX / longest).min(2.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory with a program that does as `script` says.
    fn machine(name: &str, script: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        directory
    }

    #[test]
    fn a_program_that_is_there_draws() {
        for name in PROGRAMS {
            let machine = machine(name, "echo \"$@\" >\"${0%/*}/arguments\"");
            let found = Converter::find(machine.path().as_os_str()).unwrap();
            let svg = "<svg width=\"400\" height=\"16000\"><rect width=\"9\"/></svg>";
            found.draw(svg, Path::new("a.svg"), Path::new("a.png")).unwrap();
            let given = fs::read_to_string(machine.path().join("arguments")).unwrap();
            assert!(given.contains("a.svg") && given.contains("a.png"), "{name}: {given}");
            assert!(given.contains("0.5") || given.contains("48.000"), "{name}, half as large: {given}");
        }
    }

    #[test]
    fn a_machine_without_one_has_none_and_one_that_fails_says_why() {
        let empty = tempfile::tempdir().unwrap();
        assert!(Converter::find(empty.path().as_os_str()).is_none());
        let machine = machine("rsvg-convert", "echo no fonts >&2; exit 1");
        let found = Converter::find(machine.path().as_os_str()).unwrap();
        let why = found.draw("<svg/>", Path::new("a.svg"), Path::new("a.png")).unwrap_err();
        assert!(why.contains("rsvg-convert can't draw a.svg") && why.contains("no fonts"), "{why}");
    }

    #[test]
    fn a_chart_is_drawn_at_twice_its_size() {
        assert_eq!(zoom("<svg xmlns=\"x\" width=\"700\" height=\"300\">"), 2.0);
        assert_eq!(zoom("<svg>"), 2.0);
    }
}
