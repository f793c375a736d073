//! The command's input: a thread that reads it, and the pieces that the thread sends.
//!
//! The input alone determines where pieces for a store end, so that the same input gets the same answers each time. Keys
//! for a filter come as soon as they are read.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gowk_ingest::keys::{Batch, Feed, Foreign, LONGEST, Sender};
use gowk_ingest::{
    CommonHeader, Error, Format, Input, InputProblem, Piece, Records, Rules, Skip, Tally, Unpack,
};

use super::failure::{Failure, by_option_of_keys};
use super::field::Missing;
use super::output::{self, Output};

/// How many pieces are read ahead, and processed together, at most.
pub(super) const AHEAD: usize = 64;

/// A piece ends after this many bytes of content.
const CHUNK: u64 = 64 * 1024;
/// Like `CHUNK`, for a store.
const STEADY: usize = 64 << 20;
/// How many keys a piece that is read record by record has at most.
const KEYS: usize = 1 << 20;

/// Keys on their way from the command's input.
pub(super) type KeyFeed = Feed<Piece<Read>, Error>;

/// The command's input.
pub(super) struct Source {
    pub(super) feed: KeyFeed,
    /// How many bytes were read, before decompression.
    pub(super) read: Arc<AtomicU64>,
    /// How many bytes there are to read; `None` if that is unknown, as for a pipe.
    pub(super) bytes: Option<u64>,
}

/// What the reading thread reports of a piece besides its keys.
pub(super) struct Read {
    /// The place of its first key.
    pub(super) first: Place,
    /// The lines on which the records begin; `None` if each line is a record.
    pub(super) lines: Option<Vec<u64>>,
    /// The header of CSV, in the first piece of the first input with a header.
    header: Option<Vec<u8>>,
}

/// The place of a key in the input.
#[derive(Clone)]
pub(super) struct Place {
    /// The file, `standard input`, or `arguments`.
    pub(super) input: Arc<str>,
    /// `line`, `key`, `row` or `argument`.
    pub(super) unit: &'static str,
    /// Counted from 1.
    pub(super) number: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            "argument" => write!(f, "argument {}", self.number),
            unit => write!(f, "{unit} {} of {}", self.number, self.input),
        }
    }
}

impl Read {
    pub(super) fn new(first: Place) -> Self {
        Self { first, lines: None, header: None }
    }
}

/// The place of the record with this index among all records of the pieces.
pub(super) fn place(pieces: &[Piece<Read>], index: usize) -> Option<Place> {
    let mut before = 0;
    let piece = pieces.iter().find(|piece| {
        let holds = index < before + piece.keys.len();
        before += if holds { 0 } else { piece.keys.len() };
        holds
    })?;
    let Read { first, lines, .. } = &piece.place;
    let line = lines.as_ref().and_then(|lines| lines.get(index - before).copied());
    Some(Place { number: line.unwrap_or(first.number + (index - before) as u64), ..first.clone() })
}

/// Prints headers, and writes and counts records without a key.
pub(super) struct Aside {
    pub(super) rejects: Option<Output>,
    /// Whether the header goes to standard output.
    prints: bool,
    pub(super) skipped: Tally,
}

impl Aside {
    pub(super) fn new(rejects: Option<Output>, prints: bool) -> Self {
        Self { rejects, prints, skipped: Tally::default() }
    }

    /// Processes pieces that were read; prints records to `output`. Returns the header if these pieces have it.
    pub(super) fn take<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a Piece<Read>>,
        output: &mut Output,
    ) -> Result<Option<&'a [u8]>, Failure> {
        let mut found = None;
        for Piece { place: Read { header, .. }, skipped, rejects, .. } in pieces {
            if let Some(header) = header {
                if self.prints {
                    output.header(header)?;
                }
                self.rejects.as_mut().map_or(Ok(()), |rejects| rejects.header(header))?;
                found = Some(header.as_slice());
            }
            self.skipped.add(skipped);
            if let (Some(to), Some(rejects)) = (&mut self.rejects, rejects) {
                rejects.iter().try_for_each(|record| to.key(record))?;
            }
        }
        Ok(found)
    }

    /// Flushes the output, and the file for records without a key.
    pub(super) fn flush(&mut self, output: &mut Output) -> Result<(), Failure> {
        [output].into_iter().chain(&mut self.rejects).try_for_each(Output::flush)
    }
}

/// The inputs, and the rules for reading them.
pub(super) struct Reading {
    /// `-` is standard input.
    pub(super) inputs: Vec<PathBuf>,
    pub(super) unpack: Unpack,
    pub(super) rules: Rules,
    pub(super) missing: Missing,
    /// The file for records without a key.
    pub(super) rejects: Option<PathBuf>,
    /// Whether records are written, so that all inputs must have the same columns.
    pub(super) writes: bool,
    /// Whether the input alone determines where pieces end.
    pub(super) steady: bool,
    pub(super) read: Arc<AtomicU64>,
}

impl Reading {
    /// Starts the reading thread.
    pub(super) fn start(self) -> Result<Source, Failure> {
        let bytes = self.inputs.iter().map(|input| length(input)).sum();
        let read = self.read.clone();
        let feed = Feed::start("input", if self.steady { 2 } else { AHEAD }, move |to| self.all(to))
            .map_err(|source| Failure::System { op: "start the reading thread", source })?;
        Ok(Source { feed, read, bytes })
    }

    fn all(self, to: &Sender<Piece<Read>, Error>) -> Result<(), Error> {
        let (mut all, mut header, mut failed) = (Tally::default(), CommonHeader::default(), Vec::new());
        for path in &self.inputs {
            match self.one(path, &mut header, &mut all, to) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(error) if self.ends(&error) => return Err(error),
                Err(error) => {
                    output::note(format_args!("{error}{}", by_option_of_keys(&error)));
                    failed.push(error);
                }
            }
        }
        match (self.rules.none_found(&all), self.inputs.last()) {
            _ if !failed.is_empty() => {
                let of = self.inputs.len() as u64;
                Err(Error::Inputs { failed, of, summary: None })
            }
            (Some(problem), Some(path)) => Err(Error::Input { path: name(path).into(), problem }),
            _ => Ok(()),
        }
    }

    /// Whether an error of one input ends the run at once. A damaged input does not prevent reading others; but a store
    /// gets the keys of all inputs or of none.
    fn ends(&self, error: &Error) -> bool {
        self.steady || self.inputs.len() == 1 || !error.is_of_one_input()
    }

    /// Reads one input to the end, and adds its records to `all`; `None` if the receiver is gone.
    fn one(
        &self,
        path: &Path,
        header: &mut CommonHeader,
        all: &mut Tally,
        to: &Sender<Piece<Read>, Error>,
    ) -> Result<Option<()>, Error> {
        if let (Format::Lines(separator), true) = (&self.rules.format, self.rules.key.is_plain()) {
            return self.lines(path, *separator, to);
        }
        let mut one = One { reading: self, path, keys: 0, skipped: Tally::default() };
        let read = records(path, &self.rules, self.unpack, self.read.clone())
            .and_then(|records| one.read(records, header, to));
        one.note();
        all.add(&one.skipped);
        all.keys += one.keys;
        read
    }

    /// Reads the lines of an input, which are the keys, to the end; `None` if the receiver is gone.
    fn lines(
        &self,
        path: &Path,
        separator: u8,
        to: &Sender<Piece<Read>, Error>,
    ) -> Result<Option<()>, Error> {
        let mut first = Place { input: name(path).into(), unit: self.rules.format.unit(), number: 1 };
        let mut send = |keys: Batch| {
            let place = first.clone();
            first.number += keys.len() as u64;
            if keys.is_empty() { Some(()) } else { to.send(Piece::new(keys, Read::new(place))).ok() }
        };
        let mut steady = Batch::default();
        for batch in Input::new(name(path), file(path)?, self.unpack, self.read.clone())?.lines(separator) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return send(steady).map_or(Ok(None), |()| Err(error)),
            };
            if !self.steady {
                if send(batch).is_none() {
                    return Ok(None);
                }
                continue;
            }
            let mut taken = 0;
            while taken < batch.len() {
                let before = steady.len();
                taken = steady.fill(&batch, taken, KEYS, STEADY);
                let is_full = taken < batch.len() || steady.len() == before;
                if is_full && send(std::mem::take(&mut steady)).is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(send(steady))
    }
}

/// One input that is read record by record.
struct One<'a> {
    reading: &'a Reading,
    path: &'a Path,
    keys: u64,
    skipped: Tally,
}

impl One<'_> {
    fn piece(&self) -> Piece<Read> {
        let rules = &self.reading.rules;
        let first = Place { input: name(self.path).into(), unit: rules.format.unit(), number: self.keys + 1 };
        let is_line = matches!(rules.format, Format::Lines(_));
        let is_key = is_line || matches!(rules.format, Format::Parquet { .. });
        let mut piece = Piece::new(Batch::default(), Read::new(first));
        piece.place.lines = (!is_line).then(Vec::new);
        piece.records = (!is_key || !rules.key.is_plain()).then(Batch::default);
        piece.rejects = self.reading.rejects.as_ref().map(|_| Batch::default());
        piece
    }

    /// Reads the input to the end; `None` if the receiver is gone. `common` is the header of the first input that has
    /// one. Sends the records read before an error.
    fn read(
        &mut self,
        mut records: Records,
        common: &mut CommonHeader,
        to: &Sender<Piece<Read>, Error>,
    ) -> Result<Option<()>, Error> {
        let limit = if self.reading.steady { STEADY as u64 } else { CHUNK };
        let (mut piece, mut begun) = (self.piece(), records.offset());
        let header = records.header().filter(|_| self.reading.writes);
        if let Some(header) = header {
            piece.place.header = common.admit(name(self.path).as_ref(), header)?.then(|| header.to_vec());
        }
        // Whether there is anything to send.
        let mut has_any = piece.place.header.is_some();
        loop {
            let is_full = piece.keys.len() >= KEYS || records.offset() - begun >= limit;
            if has_any && (is_full || !self.reading.steady && records.may_wait()) {
                begun = records.offset();
                if to.send(std::mem::replace(&mut piece, self.piece())).is_err() {
                    return Ok(None);
                }
                has_any = false;
            }
            let goes_on = self.next(&mut records, &mut piece);
            if !matches!(goes_on, Ok(true)) {
                let sent = if has_any { to.send(piece) } else { Ok(()) };
                return goes_on.map(|_| sent.ok());
            }
            has_any = true;
        }
    }

    /// Adds the next record to a piece. Returns false at the end.
    fn next(&mut self, records: &mut Records, piece: &mut Piece<Read>) -> Result<bool, Error> {
        let Some(found) = records.next()? else { return Ok(false) };
        let (before, keeps) = (piece.keys.len(), self.reading.missing == Missing::Keep);
        let skip = piece.add(found, &self.reading.rules, keeps);
        if piece.keys.len() > before {
            piece.place.lines.iter_mut().for_each(|lines| lines.push(records.line()));
        }
        match skip {
            None => self.keys += 1,
            Some(skip) => {
                let mut tally = Tally::default();
                tally.skip(&skip);
                // A record that ends the run is named by the error, and is not counted.
                self.check(skip, records)?;
                self.skipped.add(&tally);
            }
        }
        Ok(true)
    }

    /// Fails if such a record ends the run.
    fn check(&self, skip: Skip, records: &Records) -> Result<(), Error> {
        let Reading { rules, missing, rejects, .. } = self.reading;
        let problem = match skip {
            Skip::Malformed(malformed) if rejects.is_none() => return Err(records.malformed(*malformed)),
            Skip::TooLong => {
                let (unit, number) = (rules.format.unit_of_key(), records.line());
                InputProblem::KeyTooLong { unit, number, limit: LONGEST }
            }
            skip if *missing == Missing::Fail => {
                let place = format!("{} {}", rules.format.unit(), records.line());
                let Some(problem) = rules.missing(&skip, place) else { return Ok(()) };
                problem
            }
            _ => return Ok(()),
        };
        Err(Error::Input { path: name(self.path).into(), problem })
    }

    /// Notes how many records had no key.
    fn note(&self) {
        let done = if self.reading.missing == Missing::Keep { "printed" } else { "skipped" };
        let time = self.reading.rules.time_name();
        note_skipped(name(self.path), &self.skipped, (done, time), self.reading.rejects.as_deref());
    }
}

/// Notes how many records of an input had no key. `done` says what was done with records without the field or a time, as
/// in "skipped". `time` is the word for their times.
pub(super) fn note_skipped(
    input: impl fmt::Display,
    skipped: &Tally,
    (done, time): (&str, &str),
    rejects: Option<&Path>,
) {
    let Tally { no_field, malformed, no_time, .. } = *skipped;
    if no_field > 0 {
        output::note(format_args!(
            "{input}: {no_field} records were {done} that lack the field, or hold an empty or no single value in it"
        ));
    }
    if no_time > 0 {
        output::note(format_args!("{input}: {no_time} records were {done} that have no valid {time}"));
    }
    if let (1.., Some(path)) = (malformed, rejects) {
        // They may still be unwritten.
        output::note(format_args!("{input}: {malformed} malformed records, for {}", path.display()));
    }
}

/// Notes how many keys of a file were late or early. `number` formats the counts. `not` says what was not done with the
/// keys, as in "not stored".
pub(super) fn note_untimely(file: &Path, keys: &Tally, not: &str, number: fn(u64) -> String) {
    for (keys, which, why) in [
        (keys.late, "late", "the filter has forgotten their times"),
        (keys.early, "early", "their times are more than five minutes ahead of the clock"),
    ] {
        if keys > 0 {
            let (file, keys) = (file.display(), number(keys));
            output::note(format_args!("{file}: {keys} {which} keys were {not}: {why}"));
        }
    }
}

/// The name of an input in messages.
fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

fn file(path: &Path) -> Result<File, Error> {
    let opened = match path.as_os_str() == "-" {
        true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        false => File::open(path),
    };
    let failed =
        |source| Error::Input { path: name(path).into(), problem: InputProblem::Io { op: "read", source } };
    opened.map_err(failed)
}

fn records(path: &Path, rules: &Rules, unpack: Unpack, read: Arc<AtomicU64>) -> Result<Records, Error> {
    Records::of_file(name(path), file(path)?, rules, unpack, read)
}

/// The first bytes of a regular file, enough to recognize its format. Reads none from a pipe, which returns each byte
/// only once.
pub(super) fn beginning(path: &Path) -> Vec<u8> {
    let mut first = Vec::new();
    if path.metadata().is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(path)
    {
        // Ignores an error: reading the input will fail again, with a message.
        let _ = file.take(Foreign::BYTES as u64).read_to_end(&mut first);
    }
    first
}

/// Fails if a file is in a format that gowk does not read.
pub(super) fn check_format(path: &Path, unpack: Unpack) -> Result<(), Failure> {
    match Foreign::of(&beginning(path)).filter(|_| unpack != Unpack::Never) {
        Some(format) => {
            Err(Error::Input { path: path.to_owned(), problem: InputProblem::Foreign { format } }.into())
        }
        None => Ok(()),
    }
}

/// The length of an input, if it is a file.
fn length(path: &Path) -> Option<u64> {
    file(path).ok()?.metadata().ok().filter(Metadata::is_file).map(|metadata| metadata.len())
}

/// Fails if a file lacks a column of the key, or has other columns than the first file. At this point the verb has
/// changed nothing. Pipes are checked only when they are read.
pub(super) fn check_headers<'a>(
    files: impl Iterator<Item = &'a Path>,
    rules: &Rules,
    unpack: Unpack,
) -> Result<(), Failure> {
    let mut common = CommonHeader::default();
    for path in files.filter(|path| path.metadata().is_ok_and(|metadata| metadata.is_file())) {
        let records = records(path, rules, unpack, Arc::default())?;
        records.header().map_or(Ok(true), |header| common.admit(path, header))?;
    }
    Ok(())
}
