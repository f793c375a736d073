//! Arguments that several verbs share: keys, threads, how to read a filter, and waiting for the lock.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use gowk::keys::{self, Batch, Feed, Foreign, Lines, Next, Sender};
use gowk::{KeyRules, Options};

use super::decode::Decoder;
use super::failure::Failure;
use super::field::{FieldArgs, Fields, Keyed, RuleArgs};
use super::output::{self, Output};
use super::quantity;
use super::store::is_store;

/// What every filter begins with.
const MAGIC: &[u8] = b"\x89gowk\r\n\x1a";

/// Batches that are read ahead, and that are taken together.
pub(super) const AHEAD: usize = 64;

/// Keys on their way from the command's input.
pub(super) type KeyFeed = Feed<Piece, Failure>;

/// The command's input.
pub(super) struct Source {
    pub(super) feed: KeyFeed,
    /// Bytes read so far, compressed ones where they are compressed.
    pub(super) read: Arc<AtomicU64>,
    /// Bytes to read; `None` where that is not known, as of a pipe.
    pub(super) bytes: Option<u64>,
}

/// A stream of which it is known how far it is read.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Keys of one input.
pub(super) struct Piece {
    batch: Batch,
    /// The records that the keys are of, and the lines on which they begin; `None` where they are the keys themselves.
    records: Option<(Batch, Vec<u64>)>,
    /// The place of its first key.
    first: Place,
}

/// A key, and what is printed for it.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) key: &'a [u8],
    pub(super) record: &'a [u8],
}

impl AsRef<[u8]> for Key<'_> {
    fn as_ref(&self) -> &[u8] {
        self.key
    }
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Adds its keys to the others.
    pub(super) fn add_to<'a>(&'a self, all: &mut Vec<Key<'a>>) {
        match &self.records {
            None => all.extend(self.batch.iter().map(|key| Key { key, record: key })),
            Some((records, _)) => {
                let both = self.batch.iter().zip(records.iter());
                all.extend(both.map(|(key, record)| Key { key, record }));
            }
        }
    }
}

/// Where in the input a key is.
#[derive(Clone)]
pub(super) struct Place {
    /// The file, `standard input`, or `arguments`.
    pub(super) input: Arc<str>,
    /// `line`, `key` or `argument`.
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

/// The place of the key of this index among all keys of the pieces.
pub(super) fn place(pieces: &[Piece], index: usize) -> Option<Place> {
    let mut before = 0;
    let piece = pieces.iter().find(|piece| {
        let holds = index < before + piece.len();
        before += if holds { 0 } else { piece.len() };
        holds
    })?;
    let line = piece.records.as_ref().and_then(|(_, lines)| lines.get(index - before).copied());
    let number = line.unwrap_or(piece.first.number + (index - before) as u64);
    Some(Place { number, ..piece.first.clone() })
}

/// The arguments of the command, with a number behind `--wait` joined to it: it would be a key otherwise, or a file.
pub(super) fn joined(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut options = true;
    for argument in arguments {
        options &= argument != "--";
        let is_number = argument.to_str().is_some_and(|text| text.parse::<f64>().is_ok());
        match joined.last_mut() {
            Some(last) if options && is_number && last == "--wait" => {
                last.push("=");
                last.push(argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

/// Whether `--` says that what follows it is keys.
fn has_hyphens() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Arguments behind `--`.
fn behind_hyphens() -> usize {
    std::env::args_os().skip_while(|argument| argument != "--").skip(1).count()
}

#[derive(Args)]
pub(super) struct KeyArgs {
    /// Keys, byte for byte; put `--` before keys that begin with `-` or are names of files. A single `-` is standard input
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    /// Take the keys from the lines of this file, plain, gzip or zstd; `-` is standard input; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "keys")]
    input: Vec<PathBuf>,

    /// Take inputs as they are, although they begin as packed files do: gzip, zstd, and others that are refused
    #[arg(long, conflicts_with = "keys")]
    plain: bool,

    /// Keys end with NUL instead of a newline, in input and output
    #[arg(short = '0', long)]
    null: bool,

    #[command(flatten)]
    fields: FieldArgs,

    #[command(flatten)]
    pub(super) rules: RuleArgs,
}

#[derive(Args)]
pub(super) struct ThreadArgs {
    /// Threads that look up or insert keys, whenever some ten thousand or more come at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::positive)]
    threads: NonZeroU64,
}

impl ThreadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.threads(usize::try_from(self.threads.get()).unwrap_or(usize::MAX))
    }
}

#[derive(Args)]
pub(super) struct ReadArgs {
    /// Take the filter for one that was closed and that nobody will change: no lock is needed, and nothing is written
    #[arg(long)]
    sealed: bool,
}

impl ReadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.sealed(self.sealed)
    }
}

#[derive(Args)]
pub(super) struct LockArgs {
    /// Wait until another writer has finished, at most so many seconds; without a number, as long as it takes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = quantity::FOREVER, value_parser = quantity::wait)]
    wait: Option<Duration>,
}

impl LockArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.wait(self.wait.unwrap_or_default())
    }

    /// Says that these have no effect on a store.
    pub(super) fn note_ignored_by_store(&self, store: &Path) {
        if self.wait.is_some() {
            let store = store.display();
            super::output::note(format_args!(
                "{store}: is a store, which has no lock to wait for: --wait has no effect"
            ));
        }
    }
}

impl KeyArgs {
    pub(super) const fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// The files to read, without standard input.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.input.iter().filter(|path| path.as_os_str() != "-").map(PathBuf::as_path)
    }

    /// The keys given as arguments.
    fn given(&self) -> &[OsString] {
        if self.keys == ["-"] && !has_hyphens() { &[] } else { &self.keys }
    }

    /// Whether there are inputs to read.
    pub(super) fn is_stream(&self) -> bool {
        self.given().is_empty()
    }

    pub(super) fn reads_standard_input(&self) -> bool {
        self.given().is_empty()
            && (self.input.is_empty() || self.input.iter().any(|path| path.as_os_str() == "-"))
    }

    /// Fails if a key in front of `--` is the name of a file: its keys would be meant, and one key taken. A folder is
    /// none, unless it is a store.
    fn check_no_file_is_a_key(&self) -> Result<(), Failure> {
        let in_front = self.given().len().saturating_sub(behind_hyphens());
        let named = |name: &&OsString| {
            let path = Path::new(name);
            path.metadata().is_ok_and(|metadata| !metadata.is_dir()) || is_store(path)
        };
        match self.given().iter().take(in_front).find(named) {
            Some(name) => Err(Failure::FileAsKey { is_filter: is_filter(name.as_ref()), name: name.into() }),
            None => Ok(()),
        }
    }

    /// Fails if a key is the name of a file, or if an input is a folder, is not there, or is in a format that gowk does not
    /// read: before anything else is done.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_no_file_is_a_key()?;
        self.files().try_for_each(|path| {
            let is_dir = path.metadata().map(|metadata| metadata.is_dir());
            let outcome = is_dir
                .and_then(|is_dir| if is_dir { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
            let input = || path.display().to_string();
            outcome.map_err(|source| Failure::Input { input: input(), op: "read", source })?;
            match foreign(path).filter(|_| !self.plain) {
                Some(format) => Err(Failure::Foreign { input: input(), standard: false, format }),
                None => Ok(()),
            }
        })
    }

    /// Starts to read the keys, for a filter with these rules.
    pub(super) fn start(&self, rules: KeyRules) -> Result<Source, Failure> {
        let fields = self.fields.clone().with(rules);
        let read = Arc::new(AtomicU64::new(0));
        if !self.given().is_empty() {
            let mut batch = Batch::default();
            self.given().iter().for_each(|key| batch.push(&rules.normal(key.as_bytes())));
            let records = (!fields.is_plain()).then(|| {
                let mut records = Batch::default();
                self.given().iter().for_each(|key| records.push(key.as_bytes()));
                (records, (1..=self.given().len() as u64).collect())
            });
            let first = Place { input: "arguments".into(), unit: "argument", number: 1 };
            let feed = Feed::of([Piece { batch, records, first }]);
            return Ok(Source { feed, read, bytes: None });
        }
        let separator = self.separator();
        let standard = || PathBuf::from("-");
        let inputs = if self.input.is_empty() { vec![standard()] } else { self.input.clone() };
        let plain = self.plain;
        let bytes = inputs.iter().map(|input| length(input)).sum();
        let counter = read.clone();
        let read_all = move |to: &_| {
            inputs.iter().try_for_each(|input| read_one(input, plain, &fields, separator, &counter, to))
        };
        let feed = Feed::start("input", AHEAD, read_all)
            .map_err(|source| Failure::System { op: "start the reading thread", source })?;
        Ok(Source { feed, read, bytes })
    }

    /// Hands all keys, of filters with these rules, to `take`, some at a time, until it wants no more. What it has written is flushed whenever there
    /// are no keys yet, and at the end.
    pub(super) fn each_batch(
        &self,
        rules: KeyRules,
        output: &mut Output,
        mut take: impl FnMut(&mut Output, &[Key<'_>]) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut feed = self.start(rules)?.feed;
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    output.flush()?;
                    feed.next(None)?
                }
            };
            match next {
                Next::Message(piece) => {
                    let more = feed.ready(AHEAD - 1);
                    let mut keys = Vec::new();
                    std::iter::once(&piece).chain(&more).for_each(|piece| piece.add_to(&mut keys));
                    if take(output, &keys)?.is_break() {
                        return output.flush();
                    }
                }
                Next::End => return output.flush(),
                Next::Woken => {}
            }
        }
    }
}

/// The first bytes of a regular file, as many as a format is known by; none of anything else, as a pipe gives each byte
/// once.
fn beginning(path: &Path) -> Vec<u8> {
    let mut first = Vec::new();
    if path.metadata().is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(path)
    {
        // What cannot be read here fails again where it is read.
        let _ = file.take(Foreign::BYTES as u64).read_to_end(&mut first);
    }
    first
}

/// The format of a file, where gowk does not read such files.
fn foreign(path: &Path) -> Option<Foreign> {
    Foreign::of(&beginning(path))
}

/// Whether a file is a filter, or a folder a store.
fn is_filter(path: &Path) -> bool {
    beginning(path).starts_with(MAGIC) || is_store(path)
}

/// Bytes of an input, if it is a file.
fn length(path: &Path) -> Option<u64> {
    let metadata = if path.as_os_str() == "-" {
        io::stdin().as_fd().try_clone_to_owned().map(File::from).and_then(|file| file.metadata())
    } else {
        path.metadata()
    };
    metadata.ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

/// Reads one input to its end, or until nobody takes keys any more.
fn read_one(
    path: &PathBuf,
    plain: bool,
    fields: &FieldArgs,
    separator: u8,
    read: &Arc<AtomicU64>,
    to: &Sender<Piece, Failure>,
) -> Result<(), Failure> {
    let standard = path.as_os_str() == "-";
    let input = || if standard { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = |source| Failure::Input { input: input(), op: "read", source };
    let opened =
        if standard { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let unit = if separator == 0 { "key" } else { "line" };
    let mut first = Place { input: input().into(), unit, number: 1 };
    let opened = Counted { file: opened.map_err(&unreadable)?, read: read.clone() };
    let decoder =
        if plain { Decoder::as_it_is(opened) } else { Decoder::new(opened).map_err(&unreadable)? };
    if let Some(format) = decoder.foreign() {
        return Err(Failure::Foreign { input: input(), standard, format });
    }
    let format = decoder.format();
    let mut found = Fields::new(fields, input())?;
    for batch in Lines::new(decoder, separator) {
        let batch = batch.map_err(|error| match (error, format) {
            // An error with the number of a system error is not the decompressor's.
            (keys::Error::Read(source), Some(format)) if source.raw_os_error().is_none() => {
                let is_cut = source.kind() == io::ErrorKind::UnexpectedEof;
                let defect = if is_cut { "truncated" } else { "damaged" };
                Failure::Packed { input: input(), defect, format, source }
            }
            (keys::Error::Read(source), _) => unreadable(source),
            (keys::Error::TooLong { number }, _) => Failure::TooLong { input: input(), unit, number },
        })?;
        let place = first.clone();
        first.number += batch.len() as u64;
        let piece = if fields.is_plain() {
            Piece { batch, records: None, first: place }
        } else {
            let Keyed { keys, records, lines } = found.take(&batch)?;
            Piece { batch: keys, records: Some((records, lines)), first: place }
        };
        if to.send(piece).is_err() {
            return Ok(());
        }
    }
    if found.skipped > 0 {
        let skipped = found.skipped;
        output::note(format_args!(
            "{}: {skipped} records were skipped that lack the field, or hold no single value in it",
            input()
        ));
    }
    found.end()?;
    Ok(())
}
