//! The record of a run, in an object of its pool: `rados bench` writes and reads it, too.

use encoding::{DecodeError, Decoder, Encoder};

/// Marks what follows as of this program: what the bytes of the objects are.
const OWN: u64 = u64::from_le_bytes(*b"loligo.1");

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub object_size: u64,
    /// Operations that wrote the objects, in order; the last object may be short.
    pub operations: i32,
    /// The number in the objects' names.
    pub writer: i32,
    pub op_size: u64,
    /// Of a hundred bytes, so many are zeros. `None`: another program wrote the objects, and what is in them is not known.
    pub compressible_percent: Option<u32>,
}

impl Record {
    /// Operations of a whole object.
    pub(crate) fn ops_per_object(&self) -> u64 {
        self.object_size / self.op_size
    }

    /// Objects, the last one perhaps not whole.
    pub(crate) fn objects(&self) -> u64 {
        (self.operations.max(0) as u64).div_ceil(self.ops_per_object())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::new(0);
        e.put(&self.object_size).put(&self.operations).put(&self.writer).put(&self.op_size);
        if let Some(percent) = self.compressible_percent {
            e.put(&OWN).put(&percent);
        }
        e.into_bytes()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is cut, or of objects that cannot be.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let (object_size, operations, writer, op_size) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let is_own = d.get::<u64>().is_ok_and(|mark| mark == OWN);
        let compressible_percent = if is_own { Some(d.get()?) } else { None };
        let record = Self { object_size, operations, writer, op_size, compressible_percent };
        let sizes = (1..=object_size).contains(&op_size) && object_size <= 1 << 40;
        match sizes {
            true => Ok(record),
            false => Err(DecodeError::BadValue { what: "size of operations", value: op_size }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_one_of_rados_bench_too() {
        let record = Record {
            object_size: 4 << 20,
            operations: 1025,
            writer: 77,
            op_size: 4096,
            compressible_percent: Some(30),
        };
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        assert_eq!((record.ops_per_object(), record.objects()), (1024, 2));
        let theirs = Record { compressible_percent: None, ..record };
        assert_eq!(theirs.encode().len(), 24, "two sizes and two numbers");
        assert_eq!(Record::decode(&theirs.encode()), Ok(theirs));
    }

    #[test]
    fn what_is_cut_or_cannot_be_is_refused() {
        let record =
            Record { object_size: 1, operations: 1, writer: 1, op_size: 1, compressible_percent: None };
        let bytes = record.encode();
        (0..bytes.len()).for_each(|len| assert!(Record::decode(&bytes[..len]).is_err(), "{len}"));
        for op_size in [0, 2] {
            assert!(Record::decode(&Record { op_size, ..record.clone() }.encode()).is_err());
        }
    }
}
