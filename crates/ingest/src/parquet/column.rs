//! The values of one column of a Parquet file, row by row.

use std::fmt;
use std::io::Write as _;

use parquet::basic::Compression;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::super::error::InputProblem;
use super::super::time::SECONDS_BELOW;
use super::opened::{Opened, damaged, decode};
use super::schema::{self, Purpose, Value};

/// The most rows in a batch.
const ROWS: usize = 8192;
/// How many bytes the values of a batch have, if all values have their mean length.
const BYTES: usize = 1 << 20;
const NANOS: i64 = 1_000_000_000;
/// How many seconds a day has.
const DAY: i64 = 86_400;
/// The Julian day of 1970-01-01.
const EPOCH: i64 = 2_440_588;

pub(super) struct Column {
    index: usize,
    value: Value,
    /// The definition level of rows with a value.
    level: i16,
    /// How many row groups were begun.
    groups: usize,
    chunk: Option<Chunk>,
    batch: Batch,
    /// How many rows were taken.
    row: u64,
}

/// The column in one row group.
struct Chunk {
    reader: ColumnReader,
    /// The first and the last row, counted from 1.
    rows: [u64; 2],
    left: usize,
    /// How many rows to read at a time.
    batch: usize,
}

/// Consecutive rows, decoded.
#[derive(Default)]
struct Batch {
    rows: usize,
    /// The definition level of each row; empty if every row has a value.
    levels: Vec<i16>,
    values: Values,
    /// How many rows were taken.
    row: usize,
    /// How many values were taken; a row without a value has none.
    value: usize,
}

/// Values one after the other, and the end of each.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Column {
    /// The column at this path.
    pub(super) fn of(opened: &Opened, path: &[String], purpose: Purpose) -> Result<Self, InputProblem> {
        let (index, value) = schema::column(opened.schema(), path, purpose)?;
        let level = opened.schema().column(index).max_def_level();
        Ok(Self { index, value, level, groups: 0, chunk: None, batch: Batch::default(), row: 0 })
    }

    /// Whether there is a next row; if so, decodes it. [`take`](Self::take) returns its value.
    pub(super) fn advance(&mut self, opened: &Opened) -> Result<bool, InputProblem> {
        while self.batch.row == self.batch.rows {
            if !self.fill(opened)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of the row; `None` if it has none.
    pub(super) fn take(&mut self) -> Option<&[u8]> {
        self.row += 1;
        self.batch.next(self.level)
    }

    /// The number of decoded rows, if the next row is the first of a batch.
    pub(super) fn decoded(&self) -> Option<u64> {
        (self.batch.row == 0).then(|| self.row + self.batch.rows as u64)
    }

    /// Decodes the next rows. Returns false at the end of the file.
    fn fill(&mut self, opened: &Opened) -> Result<bool, InputProblem> {
        if self.chunk.is_none() {
            self.chunk = self.begin(opened)?;
        }
        let Some(chunk) = &mut self.chunk else { return Ok(false) };
        let place = format!("rows {} to {}", chunk.rows[0], chunk.rows[1]);
        let batch = std::mem::take(&mut self.batch);
        let rows = chunk.batch.min(chunk.left);
        let batch = decode(|| batch.fill(&mut chunk.reader, rows, self.value))
            .map_err(|message| damaged(&place, message))?;
        if batch.rows == 0 || batch.rows > rows || !batch.is_whole(self.level) {
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
        Ok(true)
    }

    /// The column in the next row group that has rows; `None` after the last.
    fn begin(&mut self, opened: &Opened) -> Result<Option<Chunk>, InputProblem> {
        loop {
            let Some(group) = opened.metadata.row_groups().get(self.groups) else { return Ok(None) };
            self.groups += 1;
            // Checked when the file was opened.
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            if rows == 0 {
                continue;
            }
            let place = format!("rows {} to {}", self.row + 1, self.row + rows);
            let lies = group.columns().get(self.index).filter(|column| is_within(column, opened.length));
            let column = lies.ok_or_else(|| damaged(&place, "the column lies outside the file"))?;
            check(column)?;
            let left = usize::try_from(rows).unwrap_or(usize::MAX);
            let bytes = usize::try_from(column.uncompressed_size()).unwrap_or(0);
            let batch = BYTES.saturating_mul(left) / bytes.max(1);
            let reader = decode(|| {
                let pages = SerializedPageReader::new(opened.file.clone(), column, left, None)?;
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
            ColumnReader::Int32ColumnReader(reader) => read(reader, rows, levels, |found| match value {
                Value::Days => values.time(i64::from(*found) * DAY, 0),
                Value::Unsigned => values.text(format_args!("{}", found.cast_unsigned())),
                _ => values.text(format_args!("{found}")),
            }),
            ColumnReader::Int64ColumnReader(reader) => read(reader, rows, levels, |found| match value {
                Value::Instant { per_second } => {
                    let nanos = found.rem_euclid(per_second) * (NANOS / per_second);
                    values.time(found.div_euclid(per_second), nanos);
                }
                Value::Unsigned => values.text(format_args!("{}", found.cast_unsigned())),
                _ => values.text(format_args!("{found}")),
            }),
            ColumnReader::Int96ColumnReader(reader) => read(reader, rows, levels, |found| {
                let [low, high, day] = *found.data() else { return values.push(b"") };
                let nanos = i64::from(low) | i64::from(high) << 32;
                values
                    .time((i64::from(day) - EPOCH) * DAY + nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS));
            }),
            ColumnReader::BoolColumnReader(reader) => {
                read(reader, rows, levels, |found| values.text(format_args!("{found}")))
            }
            // `schema.rs` chooses no column of these types.
            ColumnReader::FloatColumnReader(_) | ColumnReader::DoubleColumnReader(_) => Ok(0),
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

    /// A time, for `time::parse`; an empty text if the time is too late for it.
    fn time(&mut self, seconds: i64, nanos: i64) {
        match u64::try_from(seconds) {
            Err(_) => self.push(b"0"),
            Ok(seconds) if seconds < SECONDS_BELOW => self.text(format_args!("{seconds}.{nanos:09}")),
            Ok(_) => self.push(b""),
        }
    }

    fn uuid(&mut self, uuid: u128) {
        let part = |shift: u32, bits: u32| (uuid >> shift) & ((1 << bits) - 1);
        let [a, b, c, d, e] = [part(96, 32), part(80, 16), part(64, 16), part(48, 16), part(0, 48)];
        self.text(format_args!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"));
    }
}

/// Decodes at most this many rows of a column without lists. Returns how many it decoded.
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

/// Fails if the column's compression is not supported.
fn check(column: &ColumnChunkMetaData) -> Result<(), InputProblem> {
    match column.compression() {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::BROTLI(_)
        | Compression::LZ4
        | Compression::LZ4_RAW
        | Compression::ZSTD(_) => Ok(()),
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
