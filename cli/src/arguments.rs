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
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use gowk::ingest::{Item, Piece, Rules};
use gowk::keys::{Batch, Feed, Next};
use gowk::{KeyRules, Options};

use super::failure::Failure;
use super::field::{FieldArgs, RuleArgs};
use super::output::{self, Output};
use super::quantity;
use super::refused;
use super::source::{self, AHEAD, Aside, Place, Read, Reading, Skipped, Source};

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

/// Without the tips that are most often wrong: a long option that is unknown was hardly meant as a key, and verbs that
/// differ in most of their letters have little in common.
pub(super) fn without_false_tips(mut error: clap::Error) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let option = text(&error, ContextKind::InvalidArg);
    if !option.is_empty() {
        error.remove(ContextKind::Suggested);
    }
    // Of several short options in one argument, one is named; the argument may be a key.
    let short = option.strip_prefix('-').filter(|name| !name.starts_with('-'));
    let holds = |argument: &String, name| argument.starts_with('-') && argument.contains(name);
    if let Some(key) = short.and_then(|name| {
        std::env::args_os()
            .filter_map(|argument| argument.into_string().ok())
            .find(|argument| holds(argument, name))
    }) {
        let tip = StyledStr::from(format!("to take '{key}' for a key, say '-- {key}'"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let verb = text(&error, ContextKind::InvalidSubcommand);
    let is_near = |verbs: &ContextValue| match verbs {
        ContextValue::Strings(verbs) => {
            verbs.iter().any(|known| strsim::damerau_levenshtein(known, &verb) <= 2)
        }
        _ => false,
    };
    if !error.get(ContextKind::SuggestedSubcommand).is_some_and(is_near) {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    error
}

#[derive(Args)]
pub(super) struct KeyArgs {
    /// Keys, byte for byte; put `--` before keys that begin with `-`. A single `-` is standard input
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    /// Take the keys from the lines of this file, plain, gzip or zstd; `-` is standard input; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "keys")]
    input: Vec<PathBuf>,

    /// Take inputs as they are, although they begin as gzip or zstd files do
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

    /// Says how to read a file whose name is the only key.
    fn point_out_files(&self) {
        let [key] = self.given() else { return };
        if !has_hyphens() && Path::new(key).is_file() {
            let name = Path::new(key).display();
            output::note(format_args!(
                "{name}: is taken for a key, and not read; for the keys in this file, say --input {name}; to say that \
                 the name is a key, -- {name}"
            ));
        }
    }

    /// Fails if an input is a folder or is not there, before anything else is done.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.files().try_for_each(|path| {
            let is_dir = path.metadata().map(|metadata| metadata.is_dir());
            let outcome = is_dir
                .and_then(|is_dir| if is_dir { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
            outcome.map_err(|source| Failure::Input { input: path.display().to_string(), op: "read", source })
        })
    }

    /// Fails if the filter or store takes keys by rules that this build does not know.
    fn rules(&self, known: Option<KeyRules>, file: &Path) -> Result<Rules, Failure> {
        let mut rules = Rules::new(self.fields.format(self.separator()));
        rules.key = known.ok_or_else(|| Failure::UnknownRules { file: file.to_owned() })?;
        Ok(rules)
    }

    /// Starts to read the keys for a filter or store with these rules; `writes` says whether records are written, and
    /// `steady` whether pieces are to end where the input alone says.
    pub(super) fn start(
        &self,
        known: Option<KeyRules>,
        file: &Path,
        writes: bool,
        steady: bool,
    ) -> Result<Source, Failure> {
        let rules = self.rules(known, file)?;
        if !self.given().is_empty() {
            self.point_out_files();
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
        if writes {
            source::check_headers(self.files(), &rules, self.plain)?;
        }
        let standard = || PathBuf::from("-");
        let inputs = if self.input.is_empty() { vec![standard()] } else { self.input.clone() };
        let (plain, missing, rejects) = (self.plain, self.fields.missing, self.fields.rejects.clone());
        Reading { inputs, plain, rules, missing, rejects, writes, steady, read: Arc::default() }.start()
    }

    /// Where records without a key go; fails if that is something else that the command reads or writes.
    pub(super) fn aside(&self, file: &Path, prints: bool) -> Result<Aside, Failure> {
        let rejects = self.fields.rejects.as_deref();
        let rejects = rejects.map(|path| refused::open(path, self, file, "--rejects")).transpose()?;
        Ok(Aside::new(rejects, prints))
    }

    /// Hands all records, for filters with these rules, to `take`, some at a time, until it wants no more. What it has
    /// written is flushed whenever there are no keys yet, and at the end. Returns how many had no key.
    pub(super) fn each_batch(
        &self,
        known: Option<KeyRules>,
        file: &Path,
        prints: bool,
        output: &mut Output,
        mut take: impl FnMut(&mut Output, &[Item<'_>]) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<Skipped, Failure> {
        let mut aside = self.aside(file, prints)?;
        let mut feed = self.start(known, file, prints, false)?.feed;
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    output.flush()?;
                    aside.flush()?;
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
                output.flush()?;
                aside.flush()?;
                return Ok(aside.skipped);
            }
        }
    }
}
