//! Text that users write and read: sizes in bytes, and the known name that a misspelt one is nearest to.
//!
//! Pure functions of their arguments. Knows no option, no model and no file format.

mod nearest;
mod size;

pub use nearest::nearest;
pub use size::{SizeGrammar, format_bytes, format_bytes_exact, parse_size, parse_size_as};
