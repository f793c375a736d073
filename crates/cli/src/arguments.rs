//! Arguments that several verbs share: keys, threads, how to read a filter, and waiting for the lock.

use std::ffi::OsString;
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use gowk::{KeyRules, Options};
use gowk_ingest::keys::{Batch, Feed, Next};
use gowk_ingest::{Item, Owner, Piece, Rules, Tally, TimeKind, Unpack};

use super::bar;
use super::failure::Failure;
use super::field::{FieldArgs, RuleArgs};
use super::output::Output;
use super::paths::{Sink, check_outputs, is_filter, is_store, is_store_and_no_key};
use super::quantity;
use super::source::{self, AHEAD, Aside, Place, Read, Reading, Source};

/// The argument after `--wait` that may be its seconds or a key. clap takes it for a key or a file, but people usually
/// mean seconds: the tool asks.
pub(super) fn unclear_wait(arguments: &[OsString]) -> Option<&OsString> {
    let options = arguments.iter().take_while(|argument| *argument != "--");
    let both = options.clone().zip(options.skip(1));
    let is_time = |text: &str| quantity::wait(text).is_ok() || quantity::duration(text).is_ok();
    both.filter(|(option, _)| *option == "--wait")
        .map(|(_, next)| next)
        .find(|next| next.to_str().is_some_and(is_time))
}

/// Whether the arguments contain a `--`, after which all are keys.
fn has_hyphens() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// The number of arguments after `--`.
fn behind_hyphens() -> usize {
    std::env::args_os().skip_while(|argument| argument != "--").skip(1).count()
}

#[derive(Args)]
pub(super) struct KeyArgs {
    /// Keys, byte for byte; put `--` before keys that begin with `-` or are names of files. A single `-` is standard
    /// input
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    /// Take the keys from the lines of this file, plain, gzip or zstd; `-` is standard input; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "keys")]
    input: Vec<PathBuf>,

    /// Take inputs as they are, although they begin as packed files do: gzip, zstd, and others that are refused
    #[arg(long, conflicts_with = "keys")]
    plain: bool,

    /// Read zstd inputs with windows up to 2^31 bytes, as `zstd --long=31` writes them: that takes up to 2 GiB of memory.
    /// Windows up to 2^27 need no option
    #[arg(long, value_name = "31", value_parser = quantity::long_window, conflicts_with_all = ["keys", "plain"])]
    long: Option<u8>,

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
    /// Threads that share the work of large batches; as many as there are processors, up to 8, by default. The results
    /// are the same with any number
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    threads: Option<NonZeroU64>,
}

/// Further processors share one memory, and batches wait for memory.
const MOST_THREADS: usize = 8;

impl ThreadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        let processors = || std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
        options.threads(match self.threads {
            Some(threads) => usize::try_from(threads.get()).unwrap_or(usize::MAX),
            None => processors(),
        })
    }
}

#[derive(Args)]
pub(super) struct ReadArgs {
    /// Assume that the filter was closed and never changes: takes no lock, and writes nothing
    #[arg(long)]
    sealed: bool,
}

impl ReadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        bar::fetching(options.sealed(self.sealed))
    }
}

#[derive(Args)]
pub(super) struct ClockArgs {
    /// Believe the clock of this computer, even if a forgetting filter would leap over more than a year and forget all
    /// keys, or if the filter's time is later than the clock
    #[arg(long)]
    clock_is_right: bool,
}

impl ClockArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.clock_is_right(self.clock_is_right)
    }
}

#[derive(Args)]
pub(super) struct LockArgs {
    /// Wait until another writer has finished, at most SECONDS; without a number, as long as it takes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = quantity::FOREVER, value_parser = quantity::wait)]
    wait: Option<Duration>,
}

impl LockArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.wait(self.wait.unwrap_or_default())
    }

    /// Notes that `--wait` has no effect on a store.
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

    const fn unpack(&self) -> Unpack {
        match self.long {
            _ if self.plain => Unpack::Never,
            Some(_) => Unpack::Long,
            None => Unpack::Usual,
        }
    }

    /// The files to read, without standard input.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.input.iter().filter(|path| path.as_os_str() != "-").map(PathBuf::as_path)
    }

    /// The keys given as arguments.
    fn given(&self) -> &[OsString] {
        if self.keys == ["-"] && !has_hyphens() { &[] } else { &self.keys }
    }

    /// Whether keys come from inputs rather than from the arguments.
    pub(super) fn is_stream(&self) -> bool {
        self.given().is_empty()
    }

    /// Fails if a key before `--` is the name of a file or store: the user probably means the keys in it. A folder that
    /// is no store passes.
    fn check_no_file_is_a_key(&self) -> Result<(), Failure> {
        let in_front = self.given().len().saturating_sub(behind_hyphens());
        let named = |name: &&OsString| {
            let path = Path::new(name);
            path.metadata().is_ok_and(|metadata| !metadata.is_dir()) || is_store_and_no_key(path)
        };
        match self.given().iter().take(in_front).find(named) {
            Some(name) => {
                let is_filter = is_filter(name.as_ref()) || is_store(name.as_ref());
                Err(Failure::FileAsKey { is_filter, name: name.into() })
            }
            None => Ok(()),
        }
    }

    /// Fails if a key is the name of a file, or if an input is a folder, does not exist, or is in a format that gowk does
    /// not read. Verbs call this first.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_no_file_is_a_key()?;
        self.fields.check()?;
        self.files().try_for_each(|path| {
            let is_dir = path.metadata().map(|metadata| metadata.is_dir());
            let outcome = is_dir
                .and_then(|is_dir| if is_dir { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
            let failed = |source| Failure::Input { input: path.display().to_string(), op: "read", source };
            outcome.map_err(failed)?;
            if self.fields.is_parquet() { Ok(()) } else { source::check_format(path, self.unpack()) }
        })
    }

    /// Starts to read the keys, and their times if the verb accepts any, for a filter or store with these rules. `writes`
    /// says whether the verb writes records, and `steady` whether the input alone determines where pieces end. Fails if
    /// the filter or store has key rules that this build does not know.
    pub(super) fn start(
        &self,
        (known, time): (Option<KeyRules>, Option<(&str, TimeKind)>),
        file: &Path,
        writes: bool,
        steady: bool,
    ) -> Result<Source, Failure> {
        let mut rules = Rules::new(self.fields.format(self.separator()));
        rules.key = known.ok_or_else(|| Failure::UnknownRules { file: file.to_owned() })?;
        // clap has checked that the format has fields.
        let timed = time.and_then(|(field, kind)| rules.clone().with_time(field, kind));
        let rules = timed.unwrap_or(rules);
        if !self.given().is_empty() {
            let first = Place { input: "arguments".into(), unit: "argument", number: 1 };
            let mut piece = Piece::new(Batch::default(), Read::new(first));
            let mut records = Batch::default();
            for key in self.given() {
                piece.keys.push(&rules.key.normal(key.as_bytes()));
                records.push(key.as_bytes());
            }
            piece.records = Some(records);
            return Ok(Source { feed: Feed::of([piece]), read: Arc::default(), bytes: None });
        }
        let writes = writes || self.fields.rejects.is_some();
        if writes || self.fields.is_parquet() {
            source::check_headers(self.files(), &rules, self.unpack())?;
        }
        let inputs = if self.input.is_empty() { vec!["-".into()] } else { self.input.clone() };
        let (unpack, missing, rejects) = (self.unpack(), self.fields.missing, self.fields.rejects.clone());
        Reading { inputs, unpack, rules, missing, rejects, writes, steady, read: Arc::default() }.start()
    }

    /// The file for records without a key.
    pub(super) fn rejects(&self) -> Option<Sink<'_>> {
        self.fields.rejects.as_deref().map(|path| Sink::file("--rejects", path))
    }

    /// The inputs; none if the keys are arguments. `-` is standard input.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Path> + Clone {
        let standard = self.is_stream() && self.input.is_empty();
        standard.then_some(Path::new("-")).into_iter().chain(self.input.iter().map(PathBuf::as_path))
    }

    /// Standard output, or a new file in its place. Fails if [`check_outputs`] refuses the file.
    pub(super) fn output_of_lookups<'a>(
        &'a self,
        path: Option<&Path>,
        filters: impl Iterator<Item = &'a Path> + Clone,
    ) -> Result<Output, Failure> {
        let sink = path.map_or(Sink::standard(), |path| Sink::replaced("--output", path));
        let outputs: Vec<Sink<'_>> = [sink].into_iter().chain(self.rejects()).collect();
        check_outputs(&outputs, self.inputs(), filters)?;
        match path {
            Some(path) => Output::anew(path, self.separator()),
            None => Output::standard(self.separator()),
        }
    }

    /// Opens the file for records without a key, if one is given.
    pub(super) fn aside(&self, prints: bool) -> Result<Aside, Failure> {
        let rejects = self.fields.rejects.as_deref();
        let rejects = rejects.map(|path| Output::appending(path, self.separator())).transpose()?;
        Ok(Aside::new(rejects, prints))
    }

    /// Passes all records, read by these key rules, to `take` in batches, until `take` breaks. Flushes the output before
    /// each wait for keys, and at the end. Returns how many records had no key.
    pub(super) fn each_batch(
        &self,
        known: Option<KeyRules>,
        file: &Path,
        prints: bool,
        output: &mut Output,
        mut take: impl FnMut(&mut Output, &[Item<'_>]) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<Tally, Failure> {
        let mut aside = self.aside(prints)?;
        let owner = Owner::new([0; 16], "lookups");
        aside.rejects.as_mut().map_or(Ok(()), |rejects| rejects.go_on(owner, None))?;
        let mut feed = self.start((known, None), file, prints, false)?.feed;
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    aside.flush(output)?;
                    feed.next(None)?
                }
            };
            let is_enough = match next {
                Next::Message(piece) => {
                    let mut pieces = vec![piece];
                    pieces.append(&mut feed.ready(AHEAD - 1));
                    aside.take(pieces.iter(), output)?;
                    let mut keys = Vec::new();
                    pieces.iter().for_each(|piece| piece.add_to(&mut keys));
                    take(output, &keys)?.is_break()
                }
                Next::End => true,
                Next::Woken => false,
            };
            if is_enough {
                aside.flush(output)?;
                return Ok(aside.skipped);
            }
        }
    }
}
