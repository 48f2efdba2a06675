//! How answers look: JSON as Ceph's formatter writes it, aligned text tables, sizes and numbers.

pub mod json;
pub mod number;
pub mod table;

pub use json::Json;
pub use number::{bytes, count, general, percent, stamp, weight};
pub use table::{Align, Table};
