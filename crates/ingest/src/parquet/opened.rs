//! A Parquet file: its footer, and calls to the decoder.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use parquet::schema::types::SchemaDescriptor;

use super::super::error::InputProblem;

const MAGIC: &[u8; 4] = b"PAR1";

pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) length: u64,
    pub(super) metadata: ParquetMetaData,
    /// How many rows all row groups have.
    pub(super) rows: u64,
}

impl Opened {
    pub(super) fn new(file: File) -> Result<Self, InputProblem> {
        let unreadable = |source| InputProblem::Io { op: "read", source };
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(InputProblem::NoFile);
        }
        let mut first = [0; MAGIC.len()];
        let read = file.read_at(&mut first, 0).map_err(unreadable)?;
        if read < first.len() || first != *MAGIC {
            return Err(InputProblem::NotParquet);
        }
        let metadata = decode(|| {
            let options = ParquetMetaDataOptions::new()
                .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
                .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
                .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
            ParquetMetaDataReader::new().with_metadata_options(Some(options)).parse_and_finish(&file)
        })
        .map_err(|message| damaged("its footer", message))?;
        let rows = metadata.row_groups().iter().try_fold(0_u64, |sum, group| {
            u64::try_from(group.num_rows()).ok().and_then(|rows| sum.checked_add(rows))
        });
        let rows = rows.filter(|rows| i64::try_from(*rows) == Ok(metadata.file_metadata().num_rows()));
        let contradicts = || damaged("its footer", "the numbers of rows contradict each other");
        Ok(Self { file: Arc::new(file), length: about.len(), rows: rows.ok_or_else(contradicts)?, metadata })
    }

    pub(super) fn schema(&self) -> &SchemaDescriptor {
        self.metadata.file_metadata().schema_descr()
    }
}

/// Calls the decoder, which panics on some damaged files, for example if a dictionary is missing.
pub(super) fn decode<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    thread_local!(static DECODES: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    // Such a panic is reported as an error of the file. The hook would also print it, as an error of the program.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !DECODES.get() {
                before(about)
            }
        }));
    });
    DECODES.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    DECODES.set(false);
    match done {
        Ok(done) => done.map_err(|error| error.to_string().replace('\n', " ")),
        Err(_) => Err("it cannot be decoded".to_owned()),
    }
}

/// The error for a file that cannot be decoded at this place.
pub(super) fn damaged(place: &str, message: impl Into<String>) -> InputProblem {
    InputProblem::Parquet { place: place.to_owned(), message: message.into() }
}
