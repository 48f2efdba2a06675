//! What tools do with the stores of OSDs that do not run: copy one into another, write a PG to a file and read it back.
//!
//! A collection is read as a series of [`Record`]s, the same for every store that holds the same ([`Reader`]), and made
//! from such a series ([`Writer`]); a conversion, a comparison and an export are built of these two.
//! This crate uses stores through their contract alone: it knows no store's format, and never serves a client.

mod convert;
mod pgs;
mod reader;
mod record;
mod removal;
mod stream;

mod transfer;
mod wanted;
mod writer;

pub use convert::{ConvertError, Converted, Ended, Listener, Step, convert};
pub use pgs::{AnyStore, OpenError, PgError, ToRead, export, import, is_whole, open, open_to_read};
pub use reader::Reader;
pub use record::Record;
pub use removal::remove;
pub use stream::{Header, StreamError, StreamReader, StreamWriter};
pub use transfer::{Difference, Progress, TransferError, compare, copy};
pub use wanted::Wanted;
pub use writer::{Writer, remove_collection};
