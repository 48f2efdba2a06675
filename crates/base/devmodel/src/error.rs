//! What is wrong with a model's description.

const MODELS: &str = "; the models are disk-7200, ssd and raid0-of-N, each also with -write-back";

/// Why no model can be made of a name, parameters and a size. All are mistakes in the input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelError {
    /// No model has the name.
    #[error("no device model is called '{name}'{}{}", meant(.nearest), if .nearest.is_none() { MODELS } else { "" })]
    UnknownModel {
        /// As written.
        name: String,
        /// The known name that it resembles.
        nearest: Option<&'static str>,
    },
    /// The model has no such parameter.
    #[error("the device model '{model}' has no parameter '{name}'{}", meant(.nearest))]
    UnknownParameter {
        /// The model's name.
        model: String,
        /// As written.
        name: String,
        /// The model's parameter that it resembles.
        nearest: Option<&'static str>,
    },
    /// Something among the parameters has no value.
    #[error("'{text}' is not NAME=VALUE: write parameters as a=b,c=d")]
    NoPair {
        /// As written.
        text: String,
    },
    /// A parameter is given more than once.
    #[error("the parameter '{name}' is given twice")]
    Twice { name: String },
    /// A parameter can't have the value.
    #[error("'{text}' is not a value for the parameter '{name}': expected {want}")]
    Value {
        /// The parameter's name.
        name: String,
        /// As written.
        text: String,
        /// What it takes.
        want: String,
    },
    /// The device is too small to be modelled so.
    #[error("a device of {bytes} bytes is too small for the model '{model}': it needs {least}")]
    Size {
        /// The model's name.
        model: String,
        /// The size asked for.
        bytes: u64,
        least: u64,
    },
}

fn meant(name: &Option<&'static str>) -> String {
    match name {
        // Users copy the N of the list.
        Some(name) if name.ends_with("-N") => {
            format!("; is '{name}' meant, with a number of disks from 2 to 64 as N?")
        }
        Some(name) => format!("; is '{name}' meant?"),
        None => String::new(),
    }
}
