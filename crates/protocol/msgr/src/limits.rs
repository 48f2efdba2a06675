//! What a peer may ask of our memory.

/// Data that is read for the sake of the answer; librados' own limit of one write is half of 4 GiB.
pub const REFUSED_DATA_BYTES_MAX: usize = 2 << 30;

/// Bounds on what a peer announces, checked before any memory is taken for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All bytes of a connection up to its open session, banner and frames together.
    pub handshake_bytes_max: usize,
    /// One control frame of an open session.
    pub control_bytes_max: usize,
    /// A message's front segment.
    pub front_bytes_max: usize,
    /// A message's middle segment.
    pub middle_bytes_max: usize,
    /// A message's data segment; above `osd_max_write_size`'s default of 90 MiB.
    pub data_bytes_max: usize,
    /// Front, middle and data together.
    pub message_bytes_max: usize,
    /// Messages that may have more data than that, up to [`REFUSED_DATA_BYTES_MAX`], and get an answer anyway: their
    /// data is read and dropped, with zeros in its place.
    pub refused_with_answer: Option<u16>,
    /// Whether segment checksums are checked. Off only where the peers run with `ms_crc_data=false`, which then send
    /// zeros. A preamble's is always checked.
    pub check_data_crc: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_bytes_max: 64 << 10,
            control_bytes_max: 64 << 10,
            front_bytes_max: 64 << 20,
            middle_bytes_max: 16 << 20,
            data_bytes_max: 112 << 20,
            message_bytes_max: 128 << 20,
            refused_with_answer: None,
            check_data_crc: true,
        }
    }
}
