//! Parquet: each row is a record. Its value in one column is the key. Its value in another column may be the time at
//! which the key was seen, or how long the key is kept.
//!
//! Invariants:
//!
//! 1. For each column, one page, one dictionary and the values of one batch are in memory, however long the file is.
//! 2. A row without a value has no key, but is still a record: a struct that is null leaves its fields null.
//! 3. A file that cannot be decoded is an error that names the rows, even if the `parquet` crate panics. Damage that
//!    leaves a file decodable shows only if its pages have checksums, which few programs write.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::column::Column;
use self::opened::Opened;
use self::schema::Purpose;
use super::error::{Error, InputProblem};
use super::lines::{Found, Malformed, Skip};
use super::rules::{Format, Rules, TimeField};

mod column;
mod opened;
mod schema;

pub(super) struct Parquet {
    name: PathBuf,
    rules: Rules,
    opened: Opened,
    /// How many bytes of the file were read, in proportion to the rows taken.
    read: Arc<AtomicU64>,
    keys: Column,
    times: Option<Column>,
    /// How many rows were taken.
    row: u64,
    /// How many bytes the taken values have.
    offset: u64,
}

impl Parquet {
    pub(super) fn new(name: PathBuf, file: File, rules: &Rules, read: Arc<AtomicU64>) -> Result<Self, Error> {
        let path = if let Format::Parquet { path } = &rules.format { path.as_slice() } else { &[] };
        let time = rules.time.iter().find_map(|time| match time {
            TimeField::Path(path) => Some(path),
            TimeField::Column(_) => None,
        });
        let open = || {
            let opened = Opened::new(file)?;
            let keys = Column::of(&opened, path, Purpose::Key)?;
            let times =
                time.map(|path| Column::of(&opened, path, Purpose::Time(rules.time_kind))).transpose()?;
            Ok((opened, keys, times))
        };
        let (opened, keys, times) = open().map_err(|problem| Error::input(&name, problem))?;
        Ok(Self { name, rules: rules.clone(), opened, read, keys, times, row: 0, offset: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.name
    }

    /// The number of the last row taken, from 1.
    pub(super) const fn line(&self) -> u64 {
        self.row
    }

    /// False: a file never makes its reader wait.
    pub(super) const fn may_wait(&self) -> bool {
        false
    }

    /// `None`: a column has no header.
    pub(super) const fn header(&self) -> Option<&[u8]> {
        None
    }

    pub(super) fn malformed(&self, Malformed { line, message, .. }: Malformed) -> Error {
        Error::input(&self.name, InputProblem::Parquet { place: format!("row {line}"), message })
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> Result<Option<Found<'_>>, Error> {
        if !self.advance().map_err(|problem| Error::input(&self.name, problem))? {
            return Ok(None);
        }
        let kind = self.rules.time_kind;
        let time = self.times.as_mut().map(|times| times.take().and_then(|text| kind.parse(text)));
        let Some(key) = self.keys.take() else {
            return Ok(Some(Found::Skipped { skip: Skip::NoField, record: b"" }));
        };
        self.offset += key.len() as u64;
        let mut found = match time {
            Some(None) => Found::Skipped { skip: Skip::NoTime, record: key },
            time => Found::Key { key, record: key, time: time.flatten() },
        };
        self.rules.judge(&mut found);
        Ok(Some(found))
    }

    /// Advances to the next row in all columns. Returns false at the end of the file.
    fn advance(&mut self) -> Result<bool, InputProblem> {
        let Self { opened, keys, times, .. } = self;
        if !keys.advance(opened)? {
            return Ok(false);
        }
        // This column has a row wherever the other has one: each has as many as its row group, or is damaged.
        times.as_mut().map(|times| times.advance(opened)).transpose()?;
        self.row += 1;
        if let Some(decoded) = keys.decoded() {
            let done = u128::from(decoded.min(opened.rows));
            let bytes = u128::from(opened.length) * done / u128::from(opened.rows.max(1));
            self.read.store(u64::try_from(bytes).unwrap_or(opened.length), Ordering::Relaxed);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
