//! States: what a filter should hold, and what a filter on a disk does hold.

use std::collections::BTreeMap;
use std::path::Path;

use gowk::{Error, Info, Kind, Lookup, Metadata, Options, Reader, Writer};

/// How many keys the tests look up. With two slots a bucket, one lookup in 10^9 is a false positive. The seeds are fixed,
/// and none of these keys is a false positive.
pub(crate) const KEYS: u64 = 48;

pub(crate) const fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The contents of a folder's filter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State {
    /// `None` if there is no filter.
    pub(crate) filter: Option<Contents>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) commit: u64,
    pub(crate) generation: u32,
    /// The copies of each key; 1 in filters that do not count.
    pub(crate) copies: BTreeMap<u64, u32>,
    /// The time of a forgetting filter.
    pub(crate) time: Option<u64>,
    pub(crate) until: Until,
    /// 0 in a forgetting filter, in which a refresh may store an entry beside another one.
    pub(crate) inserted: u64,
    pub(crate) removed: u64,
    pub(crate) metadata: BTreeMap<String, Vec<u8>>,
}

/// The days on which the keys of a forgetting filter expire. They cannot be read from a file, so all values are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Until(pub(crate) BTreeMap<u64, u64>);

impl PartialEq for Until {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Until {}

impl Contents {
    fn found(info: &Info, metadata: &Metadata, copies: BTreeMap<u64, u32>) -> Result<Self, String> {
        let entries: u32 = copies.values().sum();
        // A forgetting filter also holds expired entries.
        let forgets = info.kind == Kind::Forgetting;
        if !forgets && info.copies != u64::from(entries)
            || info.copies < entries.into()
            || info.quarantined_buckets != 0
        {
            return Err(format!("the counters say {} copies, a scan finds {entries}", info.copies));
        }
        Ok(Self {
            kind: info.kind,
            seed: info.seed.get(),
            commit: info.commit,
            generation: info.generation,
            copies,
            inserted: if forgets { 0 } else { info.inserted },
            removed: if forgets { 0 } else { info.removed },
            time: info.time,
            until: Until::default(),
            metadata: metadata.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect(),
        })
    }
}

type Found<T> = Result<T, String>;

fn told<T>(what: &str, outcome: gowk::Result<T>) -> Found<T> {
    outcome.map_err(|error| format!("{what}: {error} ({error:?})"))
}

/// How a filter is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    Reader,
    Writer,
}

/// Opens a filter and returns what it holds.
pub(crate) fn open_and_look(
    path: &Path,
    options: &Options,
    opening: Opening,
) -> Found<(State, Option<Writer>)> {
    match opening {
        Opening::Reader => match options.read(path) {
            Err(Error::NotFound { .. }) => Ok((State::default(), None)),
            outcome => Ok((read(&told("opening to read", outcome)?)?, None)),
        },
        Opening::Writer => match options.open_existing(path) {
            Err(Error::NotFound { .. }) => Ok((State::default(), None)),
            outcome => {
                let writer = told("opening to write", outcome)?;
                Ok((look(&writer)?, Some(writer)))
            }
        },
    }
}

/// What a reader sees, after verifying the whole file.
pub(crate) fn read(reader: &Reader) -> Found<State> {
    let mut copies = BTreeMap::new();
    for number in 0..KEYS {
        let count = told("counting", reader.count(&key(number)))?;
        if told("looking", reader.contains(&key(number)))? != (count > 0) {
            return Err(format!("key {number} counts {count}, which its lookup contradicts"));
        }
        copies.extend((count > 0).then_some((number, count)));
    }
    let report = told("verifying", reader.verify(&|_, _| {}))?;
    if !report.is_clean() {
        return Err(format!("not clean: {report:?}"));
    }
    let (info, metadata) = (told("info", reader.info())?, told("metadata", reader.metadata())?);
    Ok(State { filter: Some(Contents::found(&info, &metadata, copies)?) })
}

/// What a writer sees.
pub(crate) fn look(writer: &Writer) -> Found<State> {
    let mut copies = BTreeMap::new();
    for number in 0..KEYS {
        let count = told("counting", writer.count(&key(number)))?;
        copies.extend((count > 0).then_some((number, count)));
    }
    let (info, metadata) = (told("info", writer.info())?, told("metadata", writer.metadata())?);
    Ok(State { filter: Some(Contents::found(&info, metadata, copies)?) })
}
