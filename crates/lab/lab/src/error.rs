//! What ends a command, as sentences for a user.

use std::path::PathBuf;

/// Why a command of the lab could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file can't be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// The study has mistakes; they have been printed.
    #[error("{count} problem{} in {path}; nothing was started", if *.count == 1 { "" } else { "s" })]
    Study {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The study that results were made from can't be read any more; its mistakes have been printed.
    #[error(
        "{count} problem{} in {path}, the study of these results: it was changed, or another version of the lab took \
         it; the records can still be exported as CSV",
        if *.count == 1 { "" } else { "s" }
    )]
    KeptStudy {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// A name on the command line is not in the study.
    #[error("the study has no {what} '{name}'; it has {known}")]
    NoSuch {
        /// `system` or `workload`.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Something that the study needs is missing; it has been printed.
    #[error("{count} problem{} on this machine; nothing was started", if *.count == 1 { "" } else { "s" })]
    InTheWay {
        /// How many.
        count: usize,
    },
    /// A directory holds results of another study file.
    #[error("{path} holds results of another version of the study; give another directory with --out")]
    OtherStudy {
        /// The directory.
        path: PathBuf,
    },
    /// Another run lives in a directory.
    #[error("another run uses {path}; wait until it ends, or give another directory with --out")]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// Results can't be read or written.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// A cluster can't be made or taken down.
    #[error(transparent)]
    Testbed(#[from] testbed::Error),
    /// A device model's description is wrong.
    #[error(transparent)]
    Model(#[from] devmodel::ModelError),
    /// A modelled device can't be served.
    #[error(transparent)]
    Modelled(#[from] modelled::Error),
    /// Figures of what is no model.
    #[error("the device 'none' has no figures: each request takes the time that its parameters give")]
    NoFigures,
    /// Figures of a device that no request fits on.
    #[error("{flag} is too small: the largest request of the figures has {least} bytes")]
    TooSmallForFigures {
        /// `--size` or `--span`.
        flag: &'static str,
        /// Bytes.
        least: u64,
    },
    /// The user wanted to stop.
    #[error("stopped; run the same command to continue with the next trial")]
    Interrupted,
    /// A trial failed and the study wants to end then.
    #[error("trial {id} failed, and the study says on_failure: stop: {words}")]
    TrialFailed {
        /// Which.
        id: String,
        /// Why.
        words: String,
    },
    /// The run went to its end, but not all of it went well.
    #[error(
        "{failed} of {of} trials failed: the report names them, their logs are kept; `lab run --retry-failed` runs them again"
    )]
    TrialsFailed {
        /// How many.
        failed: usize,
        /// Of how many.
        of: usize,
    },
    /// There is nothing to work with.
    #[error("{0}")]
    Nothing(String),
}

impl LabError {
    /// For `map_err` on a file's operation.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
