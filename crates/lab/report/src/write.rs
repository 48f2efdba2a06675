//! The files of a report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::figures::{Figure, figures, history_figures};
use crate::history::History;
use crate::input::Input;
use crate::png::{Converter, Pictures};
use crate::{Error, page};

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The page, which needs no other file.
    pub page: PathBuf,
    /// Charts in `charts/`, each as SVG.
    pub charts: usize,
    pub pictures: Pictures,
}

/// Writes `report.html` and `charts/NAME.svg` (and `.png`) into a directory, over what an earlier report left there.
pub fn write(directory: &Path, input: &Input, pictures: bool) -> Result<Written, Error> {
    let charts = directory.join("charts");
    fs::create_dir_all(&charts).map_err(failed(&charts))?;
    let figures = figures(input);
    let page = directory.join("report.html");
    fs::write(&page, page::html(input, &figures)).map_err(failed(&page))?;
    for figure in &figures {
        let path = charts.join(format!("{}.svg", figure.name));
        fs::write(&path, &figure.svg).map_err(failed(&path))?;
    }
    let pictures = if pictures { draw_all(&charts, &figures) } else { Pictures::No };
    Ok(Written { page, charts: figures.len(), pictures })
}

/// Writes a chart of each configuration over runs into a directory, as SVG and PNG; gives their number.
pub fn write_history(directory: &Path, all: &[History]) -> Result<(usize, Pictures), Error> {
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let figures = history_figures(all);
    for figure in &figures {
        let path = directory.join(format!("{}.svg", figure.name));
        fs::write(&path, &figure.svg).map_err(failed(&path))?;
    }
    Ok((figures.len(), draw_all(directory, &figures)))
}

/// On every core: a study has hundreds of charts. A chart that can't be drawn leaves the report whole.
fn draw_all(directory: &Path, figures: &[Figure]) -> Pictures {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(converter) = Converter::find(&path) else { return Pictures::NoProgram };
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let worker = || -> Result<(), String> {
        while let Some(figure) = figures.get(next.fetch_add(1, Ordering::Relaxed)) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let at = |ending: &str| directory.join(format!("{}.{ending}", figure.name));
            converter
                .draw(&figure.svg, &at("svg"), &at("png"))
                .inspect_err(|_| over.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let drawn = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..cores).map(|_| scope.spawn(worker)).collect();
        let mine = worker();
        let theirs = workers.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        theirs.fold(mine, Result::and)
    });
    drawn.map_or_else(Pictures::Failed, |()| Pictures::Drawn)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Write { path: path.to_path_buf(), source }
}
