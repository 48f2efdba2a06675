//! The files of a report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::figures::{Figure, figures, history_figures};
use crate::history::History;
use crate::input::Input;
use crate::{Error, page, png::png};

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The page, which needs no other file.
    pub page: PathBuf,
    /// Charts in `charts/`, each as SVG and, if asked for, as PNG.
    pub charts: usize,
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
    if pictures {
        draw_all(&charts, &figures)?;
    }
    Ok(Written { page, charts: figures.len() })
}

/// Writes a chart of each configuration over runs into a directory, as SVG and PNG; gives their number.
pub fn write_history(directory: &Path, all: &[History]) -> Result<usize, Error> {
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let figures = history_figures(all);
    for figure in &figures {
        let path = directory.join(format!("{}.svg", figure.name));
        fs::write(&path, &figure.svg).map_err(failed(&path))?;
    }
    draw_all(directory, &figures)?;
    Ok(figures.len())
}

/// On every core: a study has hundreds of charts.
fn draw_all(directory: &Path, figures: &[Figure]) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<(), Error> {
        while let Some(figure) = figures.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = directory.join(format!("{}.png", figure.name));
            fs::write(&path, png(&figure.svg)?).map_err(failed(&path))?;
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..cores).map(|_| scope.spawn(worker)).collect();
        let mine = worker();
        let theirs = workers.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        theirs.fold(mine, Result::and)
    })
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Write { path: path.to_path_buf(), source }
}
