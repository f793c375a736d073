//! Parquet: each row is a record, and its value in one column is the key.
//!
//! Invariants:
//!
//! 1. Of the column's data, one page, one dictionary and the values of one batch are in memory, however long the file.
//! 2. A row without a value has no key, and is still a record: a struct that is null leaves its fields null.
//! 3. A file that cannot be decoded is an error that names the rows, also where the `parquet` crate panics. Damage that
//!    leaves a file decodable shows only if the file has checksums of its pages, which few programs write.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parquet::basic::{Compression, ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetStatisticsPolicy,
};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::error::{Error, InputProblem};
use super::lines::{Found, Skip};
use super::rules::{Format, Rules};

const MAGIC: &[u8; 4] = b"PAR1";
/// The most rows in a batch.
const ROWS: usize = 8192;
/// The bytes of a batch's values, if all values were of their mean length.
const BYTES: usize = 1 << 20;
/// The most bytes of column names shown in a message.
const SHOWN: usize = 400;

pub(super) struct Parquet {
    name: PathBuf,
    rules: Rules,
    file: Arc<File>,
    length: u64,
    /// Bytes of the file, in proportion to the rows taken.
    read: Arc<AtomicU64>,
    metadata: ParquetMetaData,
    rows: u64,
    column: usize,
    value: Value,
    /// Row groups begun.
    groups: usize,
    chunk: Option<Chunk>,
    batch: Batch,
    /// Rows taken.
    row: u64,
    /// Bytes of the values taken.
    offset: u64,
}

/// How a value becomes a key.
#[derive(Clone, Copy)]
enum Value {
    Bytes,
    Boolean,
    Signed,
    Unsigned,
    Uuid,
}

/// The column in one row group.
struct Chunk {
    reader: ColumnReader,
    /// The first row, from 1, and the last one.
    rows: [u64; 2],
    left: usize,
    /// Rows to read at a time.
    batch: usize,
}

/// Consecutive rows, decoded.
#[derive(Default)]
struct Batch {
    rows: usize,
    /// The level up to which each row is defined; none if each row has a value.
    levels: Vec<i16>,
    values: Values,
    /// Rows and values taken.
    row: usize,
    value: usize,
}

/// Values one after the other, and the end of each.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Parquet {
    pub(super) fn new(name: PathBuf, file: File, rules: &Rules, read: Arc<AtomicU64>) -> Result<Self, Error> {
        let open = || {
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
            Ok((about.len(), metadata))
        };
        let path = if let Format::Parquet { path } = &rules.format { path.as_slice() } else { &[] };
        let chosen = open().and_then(|(length, metadata)| {
            let (column, value) = column(metadata.file_metadata().schema_descr(), path)?;
            let rows = metadata.row_groups().iter().try_fold(0_u64, |sum, group| {
                u64::try_from(group.num_rows()).ok().and_then(|rows| sum.checked_add(rows))
            });
            let rows = rows.filter(|rows| i64::try_from(*rows) == Ok(metadata.file_metadata().num_rows()));
            let contradicts = || damaged("its footer", "the numbers of rows contradict each other");
            Ok((length, rows.ok_or_else(contradicts)?, column, value, metadata))
        });
        let (length, rows, column, value, metadata) =
            chosen.map_err(|problem| Error::input(&name, problem))?;
        Ok(Self {
            name,
            rules: rules.clone(),
            file: Arc::new(file),
            length,
            read,
            metadata,
            rows,
            column,
            value,
            groups: 0,
            chunk: None,
            batch: Batch::default(),
            row: 0,
            offset: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.name
    }

    /// The row taken last, from 1.
    pub(super) const fn row(&self) -> u64 {
        self.row
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> Result<Option<Found<'_>>, Error> {
        while self.batch.row == self.batch.rows {
            if !self.fill().map_err(|problem| Error::input(&self.name, problem))? {
                return Ok(None);
            }
        }
        self.row += 1;
        let found =
            self.batch.next(self.metadata.file_metadata().schema_descr().column(self.column).max_def_level());
        let Some(key) = found else {
            return Ok(Some(Found::Skipped { skip: Skip::NoField, record: b"" }));
        };
        self.offset += key.len() as u64;
        Ok(Some(self.rules.judge(Found::Key { key, record: key, time: None })))
    }

    /// Decodes the next rows; false at the end of the file.
    fn fill(&mut self) -> Result<bool, InputProblem> {
        if self.chunk.is_none() {
            self.chunk = self.begin()?;
        }
        let Some(chunk) = &mut self.chunk else { return Ok(false) };
        let place = format!("rows {} to {}", chunk.rows[0], chunk.rows[1]);
        let batch = std::mem::take(&mut self.batch);
        let rows = chunk.batch.min(chunk.left);
        let batch = decode(|| batch.fill(&mut chunk.reader, rows, self.value))
            .map_err(|message| damaged(&place, message))?;
        let level = self.metadata.file_metadata().schema_descr().column(self.column).max_def_level();
        if batch.rows == 0 || batch.rows > rows || !batch.is_whole(level) {
            return Err(damaged(&place, "the column has another number of values than the row group"));
        }
        chunk.left -= batch.rows;
        if chunk.left == 0 {
            let more = decode(|| Batch::default().fill(&mut chunk.reader, 1, self.value))
                .map_err(|message| damaged(&place, message))?;
            if more.rows > 0 {
                return Err(damaged(&place, "the column has more values than the row group"));
            }
            self.chunk = None;
        }
        self.batch = batch;
        let done = (self.row + self.batch.rows as u64).min(self.rows);
        let bytes = u128::from(self.length) * u128::from(done) / u128::from(self.rows.max(1));
        self.read.store(u64::try_from(bytes).unwrap_or(self.length), Ordering::Relaxed);
        Ok(true)
    }

    /// The column in the next row group that has rows; `None` if there is none.
    fn begin(&mut self) -> Result<Option<Chunk>, InputProblem> {
        loop {
            let Some(group) = self.metadata.row_groups().get(self.groups) else { return Ok(None) };
            self.groups += 1;
            // Checked when the file was opened.
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            if rows == 0 {
                continue;
            }
            let place = format!("rows {} to {}", self.row + 1, self.row + rows);
            let lies = group.columns().get(self.column).filter(|column| is_within(column, self.length));
            let column = lies.ok_or_else(|| damaged(&place, "the column lies outside the file"))?;
            check(column)?;
            let left = usize::try_from(rows).unwrap_or(usize::MAX);
            let bytes = usize::try_from(column.uncompressed_size()).unwrap_or(0);
            let batch = BYTES.saturating_mul(left) / bytes.max(1);
            let reader = decode(|| {
                let pages = SerializedPageReader::new(self.file.clone(), column, left, None)?;
                Ok(get_column_reader(column.column_descr_ptr(), Box::new(pages)))
            })
            .map_err(|message| damaged(&place, message))?;
            let rows = [self.row + 1, self.row + rows];
            return Ok(Some(Chunk { reader, rows, left, batch: batch.clamp(1, ROWS) }));
        }
    }
}

impl Batch {
    /// Decodes at most this many rows.
    fn fill(mut self, reader: &mut ColumnReader, rows: usize, value: Value) -> Result<Self, ParquetError> {
        let Self { levels, values, .. } = &mut self;
        levels.clear();
        values.bytes.clear();
        values.ends.clear();
        let is_unsigned = matches!(value, Value::Unsigned);
        let rows = match reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                read(reader, rows, levels, |found| values.push(found.data()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                read(reader, rows, levels, |found| match (value, <[u8; 16]>::try_from(found.data())) {
                    (Value::Uuid, Ok(uuid)) => values.uuid(u128::from_be_bytes(uuid)),
                    _ => values.push(found.data()),
                })
            }
            ColumnReader::Int32ColumnReader(reader) if is_unsigned => {
                read(reader, rows, levels, |found| values.text(format_args!("{}", found.cast_unsigned())))
            }
            ColumnReader::Int64ColumnReader(reader) if is_unsigned => {
                read(reader, rows, levels, |found| values.text(format_args!("{}", found.cast_unsigned())))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                read(reader, rows, levels, |found| values.text(format_args!("{found}")))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                read(reader, rows, levels, |found| values.text(format_args!("{found}")))
            }
            ColumnReader::BoolColumnReader(reader) => {
                read(reader, rows, levels, |found| values.text(format_args!("{found}")))
            }
            // `column` chooses no column of these types.
            ColumnReader::Int96ColumnReader(_)
            | ColumnReader::FloatColumnReader(_)
            | ColumnReader::DoubleColumnReader(_) => Ok(0),
        }?;
        Ok(Self { rows, row: 0, value: 0, ..self })
    }

    /// Whether there is a value for each row that is defined up to this level.
    fn is_whole(&self, level: i16) -> bool {
        let defined = self.levels.iter().filter(|found| **found == level).count();
        if level == 0 {
            self.values.ends.len() == self.rows
        } else {
            self.levels.len() == self.rows && self.values.ends.len() == defined
        }
    }

    /// The value of the next row; `None` if the row is not defined up to this level.
    fn next(&mut self, level: i16) -> Option<&[u8]> {
        let row = self.row;
        self.row += 1;
        if level > 0 && self.levels.get(row) != Some(&level) {
            return None;
        }
        let before = self.value.checked_sub(1).and_then(|before| self.values.ends.get(before));
        let end = self.values.ends.get(self.value)?;
        self.value += 1;
        self.values.bytes.get(before.map_or(0, |before| *before)..*end)
    }
}

impl Values {
    fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }

    fn text(&mut self, value: fmt::Arguments<'_>) {
        // Writing to a vector does not fail.
        let _ = self.bytes.write_fmt(value);
        self.ends.push(self.bytes.len());
    }

    fn uuid(&mut self, uuid: u128) {
        let part = |shift: u32, bits: u32| (uuid >> shift) & ((1 << bits) - 1);
        let [a, b, c, d, e] = [part(96, 32), part(80, 16), part(64, 16), part(48, 16), part(0, 48)];
        self.text(format_args!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"));
    }
}

/// Decodes at most this many rows of a column without lists; returns how many it found.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Vec<i16>,
    take: impl FnMut(&T::T),
) -> Result<usize, ParquetError> {
    let mut values = Vec::new();
    let (rows, _, _) = reader.read_records(rows, Some(levels), None, &mut values)?;
    values.iter().for_each(take);
    Ok(rows)
}

/// The index of the column at this path, and how its values become keys.
fn column(schema: &SchemaDescriptor, path: &[String]) -> Result<(usize, Value), InputProblem> {
    let found = schema.columns().iter().enumerate().find(|(_, column)| column.path().parts() == path);
    let Some((index, column)) = found else {
        let wanted = format!("{:?}", path.join("."));
        return Err(InputProblem::NoColumnOf { wanted, columns: shown(schema) });
    };
    let has = || InputProblem::ColumnType { column: path.join("."), has: kind(column) };
    if column.max_rep_level() > 0 {
        return Err(InputProblem::ColumnType { column: path.join("."), has: "lists".to_owned() });
    }
    value(column).map(|value| (index, value)).ok_or_else(has)
}

fn value(column: &ColumnDescriptor) -> Option<Value> {
    use LogicalType::{Bson, Enum, Integer, Json, String, Uuid};
    let converted = column.converted_type();
    let (is_unsigned, is_plain) = match converted {
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64 => {
            (true, true)
        }
        ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32 | ConvertedType::INT_64 => {
            (false, true)
        }
        ConvertedType::NONE => (false, true),
        _ => (false, false),
    };
    match (column.physical_type(), column.logical_type_ref()) {
        (Type::BYTE_ARRAY, Some(String | Enum | Json | Bson)) => Some(Value::Bytes),
        (Type::BYTE_ARRAY, None) if converted != ConvertedType::DECIMAL => Some(Value::Bytes),
        (Type::FIXED_LEN_BYTE_ARRAY, Some(Uuid)) => Some(Value::Uuid),
        (Type::FIXED_LEN_BYTE_ARRAY, None) if is_plain => Some(Value::Bytes),
        (Type::INT32 | Type::INT64, Some(Integer(integer))) if integer.is_signed => Some(Value::Signed),
        (Type::INT32 | Type::INT64, Some(Integer(_))) => Some(Value::Unsigned),
        (Type::INT32 | Type::INT64, None) if is_plain && is_unsigned => Some(Value::Unsigned),
        (Type::INT32 | Type::INT64, None) if is_plain => Some(Value::Signed),
        (Type::BOOLEAN, None) => Some(Value::Boolean),
        _ => None,
    }
}

/// The type of a column's values, for messages.
fn kind(column: &ColumnDescriptor) -> String {
    let logical = column.logical_type_ref().map(|logical| format!("{logical:?}"));
    let logical = logical.as_deref().and_then(|name| name.split(['(', ' ', '{']).next());
    match (logical, column.converted_type()) {
        (Some(name), _) => format!("values of the type {}", name.to_uppercase()),
        (None, ConvertedType::NONE) => format!("values of the type {}", column.physical_type()),
        (None, converted) => format!("values of the type {converted}"),
    }
}

/// The columns as `--column` takes them, shortened.
fn shown(schema: &SchemaDescriptor) -> String {
    let mut all = String::new();
    for column in schema.columns() {
        let parts = column.path().parts().iter();
        let parts: Vec<_> = parts.map(|part| part.replace('\\', "\\\\").replace('.', "\\.")).collect();
        if all.len() > SHOWN {
            return all + ", ...";
        }
        all = if all.is_empty() { parts.join(".") } else { format!("{all}, {}", parts.join(".")) };
    }
    all.escape_debug().to_string().replace("\\\\", "\\")
}

/// Fails if the column is compressed in a way that is not read.
fn check(column: &ColumnChunkMetaData) -> Result<(), InputProblem> {
    match column.compression() {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_) => {
            Ok(())
        }
        other => {
            let codec = format!("{other:?}").split('(').next().unwrap_or_default().to_owned();
            Err(InputProblem::ColumnCodec { column: column.column_path().string(), codec })
        }
    }
}

/// Whether the column's bytes lie within a file of this length.
fn is_within(column: &ColumnChunkMetaData, length: u64) -> bool {
    let begin = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let [begin, size] = [begin, column.compressed_size()].map(u64::try_from);
    matches!((begin, size), (Ok(begin), Ok(size)) if begin.checked_add(size).is_some_and(|end| end <= length))
}

/// Calls the decoder, which panics on some damaged files: if a dictionary is missing, for example.
fn decode<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
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

fn damaged(place: &str, message: impl Into<String>) -> InputProblem {
    InputProblem::Parquet { place: place.to_owned(), message: message.into() }
}

#[cfg(test)]
mod tests;
