//! The models' names and parameters, their defaults, and the data sheets that these come from.

use crate::ModelError;

/// A parameter of a model: for listings and messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterDoc {
    /// The name, with the unit in it where it has one.
    pub name: &'static str,
    /// The value where none is given.
    pub default: String,
    /// What it is.
    pub about: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// Checks a model's name and parameters without making one, as a study file gives them.
///
/// # Errors
/// See [`ModelError`].
pub fn check(name: &str, parameters: &[(String, String)]) -> Result<(), ModelError> {
    crate::Model::named(name, parameters, 1 << 40).map(|_| ())
}

/// The parameters of a model.
///
/// # Errors
/// The name is unknown.
pub fn parameters(name: &str) -> Result<Vec<ParameterDoc>, ModelError> {
    check(name, &[]).map(|()| Vec::new())
}
