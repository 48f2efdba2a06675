//! CSV: a row a measurement, every column of [`columns`] in its order.

use std::io::Write;

use crate::{Error, Measurement, Record, columns};

/// Writes the header and a row for each measurement; a trial none of whose phases ended gets one row with its outcome,
/// so that no trial is missing. Rows come in the order of the records. Gives the number of rows.
pub fn export_csv<'a>(records: impl IntoIterator<Item = &'a Record>, out: impl Write) -> Result<u64, Error> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns().iter().map(|c| c.name))?;
    let mut rows = 0;
    for record in records {
        let mut row = |measurement: Option<&Measurement>| {
            rows += 1;
            csv.write_record(columns().iter().map(|c| c.value(record, measurement)))
        };
        if record.measurements.is_empty() {
            row(None)?;
        }
        for measurement in &record.measurements {
            row(Some(measurement))?;
        }
    }
    csv.flush().map_err(csv::Error::from)?;
    Ok(rows)
}
