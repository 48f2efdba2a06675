//! Text that users write and read: sizes in bytes, spans of time, the known name that a misspelt one is nearest to, and others' text
//! made safe for a terminal.
//!
//! Pure functions of their arguments. Knows no option, no model and no file format.

mod nearest;
mod seconds;
mod size;
mod visible;

pub use nearest::nearest;
pub use seconds::parse_seconds;
pub use size::{SizeGrammar, format_bytes, format_bytes_exact, format_bytes_two, parse_size, parse_size_as};
pub use visible::{turns_text, visible};
