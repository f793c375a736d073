//! Why a verb failed, in one line that names the file and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use gowk::{Error, GrowthRefusal, Kind};
use gowk_ingest::keys::Foreign;

use super::paths;
use super::quantity;

#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{}", with_remedy(.0))]
    Filter(#[from] Error),

    /// The library's error about options does not name the file.
    #[error("{}: {error}", file.display())]
    Creation { file: PathBuf, error: Error },

    /// An error of a job; or, for another verb, an error that is not about an input.
    #[error("{}{}", .0, by_option(.0))]
    Ingest(gowk_ingest::Error),

    /// An error about an input of another verb than `ingest`.
    #[error("{}{}", .0, by_option_of_keys(.0))]
    Records(gowk_ingest::Error),

    #[error(transparent)]
    Store(gowk::store::Error),

    #[error(
        "--column: this gowk does not read Parquet; build it with the feature `parquet`, as with \
         `cargo install --path crates/cli --profile dist --features parquet`, or write the column of keys as CSV first, as with \
         `duckdb -csv -c \"select COLUMN from 'FILE'\" > NEW`"
    )]
    NoParquet,

    #[error("{}: takes keys by rules that this gowk does not know; use a newer gowk", file.display())]
    UnknownRules { file: PathBuf },

    #[error(
        "{}: takes keys by other rules (--trim, --ignore-case) than {}; look into them one after the other",
        file.display(), other.display()
    )]
    OtherRules { file: PathBuf, other: PathBuf },

    #[error("{}: is the filter that the keys go into, and cannot be a --filter as well; leave it out", file.display())]
    WindowOfItself { file: PathBuf },

    #[error(
        "{}: is the filter that the keys go into, and cannot be merged into itself; name the others alone",
        file.display()
    )]
    MergeOfItself { file: PathBuf },

    #[error("{}: is named twice; its keys would be counted twice; name each filter once", file.display())]
    MergedTwice { file: PathBuf },

    #[error("{}: {option} is for stores, and this is none; leave it out, or create a store", file.display())]
    ForStores { file: PathBuf, option: &'static str },

    #[error(
        "{}: token {number} of `{application}` is below its last one, {last}; give a number above that",
        store.display()
    )]
    TokenBelow { store: PathBuf, application: String, number: u64, last: u64 },

    #[error("{}; or replace it, and forget its keys, with --force", with_remedy(.0))]
    InTheWay(Error),

    /// Some inputs could not be read to the end; each was reported.
    #[error(
        "{failed} of {of} inputs could not be read to their ends; all others were; correct these and run this again"
    )]
    Inputs { failed: u64, of: u64 },

    #[error("{input}: cannot {op}: {source}; check the path given with --input")]
    Input { input: String, op: &'static str, source: io::Error },

    #[error(
        "{}: is a file, and not a key; {}; if the name itself is a key, put it behind `--`: `-- {}`",
        name.display(), meant(name, *is_filter), name.display()
    )]
    FileAsKey { name: PathBuf, is_filter: bool },

    #[error("standard output: cannot write: {}; {} and run the command again", .0, output_remedy(.0))]
    Output(#[source] io::Error),

    #[error("standard output: is {is}; redirect it to another file")]
    StandardOutputIs { is: String },

    #[error("{}: cannot {op}: {source}; {} and run the command again", path.display(), output_remedy(source))]
    File { path: PathBuf, op: &'static str, source: io::Error },

    #[error("{}: another run writes to it; try again when that has ended, or give another file", path.display())]
    BusyOutput { path: PathBuf },

    #[error("{}: is {is}; give another file with {option}", path.display())]
    RefusedOutput { path: PathBuf, is: String, option: &'static str },

    /// Some keys found no room; `cause` has the reason for the first of them, and the remedy.
    #[error(
        "{cause}; {refused} of this run's {keys} keys found no room and are not in the {place}{}; all others are",
        written.as_ref().map_or_else(String::new, |path| format!(", but in {}", path.display()))
    )]
    NoRoom { cause: String, refused: u64, keys: u64, place: &'static str, written: Option<PathBuf> },

    /// All keys were late or early.
    #[error(
        "{}: none of the {keys} keys was stored: all their times are late or early; check the field of the time, and its unit",
        file.display()
    )]
    AllUntimely { file: PathBuf, keys: u64 },

    #[error("cannot {op}: {source}; try again when the system has more to give")]
    System { op: &'static str, source: io::Error },

    /// `cause` occurred during the commit `number`, which may be durable or not. The first `committed` keys were
    /// committed before; this commit holds the keys after them, up to key `taken`.
    #[error(
        "{cause}; of this run's keys, the first {committed} are committed for certain; whether keys {} to {taken} \
         are, commit {number}, is unknown: {next}",
        committed + 1
    )]
    InDoubt { cause: Box<Self>, number: u64, committed: u64, taken: u64, next: HowToGoOn },

    /// `cause` occurred after keys had been taken; the first `committed` of them are committed. Some of the keys after
    /// these are also committed: `within` has their number, and the number of keys among which they are.
    #[error(
        "{cause}; of this run's keys, the first {committed} are committed{}",
        within.map_or_else(String::new, |[some, of]| format!(", and {some} of the {of} after them"))
    )]
    Partly { cause: Box<Self>, committed: u64, within: Option<[u64; 2]> },

    /// `cause` occurred after the commit to a store, while its new keys were printed.
    #[error(
        "{cause}; the commit was made, so that the same command with the same token prints all its new keys"
    )]
    Unprinted { cause: Box<Self> },

    /// Another process has committed some of the keys after this one printed them, and before it committed them.
    #[error(
        "{cause}; what this run printed is void: run the command again, or with --token, which prints after the commit"
    )]
    Void { cause: Box<Self> },

    /// After `cause`, committing the earlier keys also failed.
    #[error("{cause}; and then, committing the keys before it: {then}")]
    Twice { cause: Box<Self>, then: Box<Self> },
}

/// The likely meaning of a file's name in place of a key.
fn meant(name: &Path, is_filter: bool) -> String {
    let name = name.display();
    if is_filter {
        format!("`check` and `dedup` look into a further filter by `--filter {name}`")
    } else {
        format!("for the keys in it, say `--input {name}`")
    }
}

/// The next step after a commit that may be durable or not.
#[derive(Debug, thiserror::Error)]
pub(super) enum HowToGoOn {
    /// Look at the filter.
    #[error(
        "they are if `gowk info {}` shows that commit or a higher one; if it shows a lower one, or no filter, they are \
         not, so give them again",
        .0.display()
    )]
    Look(PathBuf),
    /// Look at the versions of the store.
    #[error(
        "they are if `gowk store log {}` lists that version; if it does not, give them again, with the same --token if \
         they had one",
        .0.display()
    )]
    Log(PathBuf),
    /// Run the job again.
    #[error("run the job again; it goes on from where the filter is")]
    Again,
}

impl From<gowk::store::Error> for Failure {
    fn from(error: gowk::store::Error) -> Self {
        match error {
            gowk::store::Error::Filter(error) => error.into(),
            error => Self::Store(error),
        }
    }
}

impl From<gowk_ingest::Error> for Failure {
    fn from(error: gowk_ingest::Error) -> Self {
        use gowk_ingest::{Error, InputProblem};
        match error {
            Error::Filter(error) => error.into(),
            Error::Store(error) => error.into(),
            Error::Input { path, problem: InputProblem::Io { op, source } } => {
                Self::Input { input: path.display().to_string(), op, source }
            }
            Error::Inputs { failed, of, .. } => Self::Inputs { failed: failed.len() as u64, of },
            error @ Error::Input { .. } => Self::Records(error),
            error => Self::Ingest(error),
        }
    }
}

impl Failure {
    /// A function that turns a system error into a failure to do `op` to a file.
    pub(super) fn of_file<'a>(path: &'a Path, op: &'static str) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::File { path: path.to_owned(), op, source }
    }

    /// Adds how many keys are committed.
    pub(super) fn partly(self, committed: u64, within: Option<[u64; 2]>) -> Self {
        Self::Partly { cause: Box::new(self), committed, within }
    }

    /// Adds which keys are in doubt, and the next step.
    pub(super) fn in_doubt(self, number: u64, committed: u64, taken: u64, next: HowToGoOn) -> Self {
        Self::InDoubt { cause: Box::new(self), number, committed, taken, next }
    }

    pub(super) fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Partly { cause, .. } | Self::InDoubt { cause, .. } | Self::Unprinted { cause } => {
                cause.is_broken_pipe()
            }
            Self::Twice { then, .. } => then.is_broken_pipe(),
            _ => false,
        }
    }

    /// Whether another commit to the store was in the way.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == gowk::ErrorKind::Conflict)
    }

    /// Whether printing keys failed; these keys must not be committed.
    pub(super) fn is_output(&self) -> bool {
        matches!(self, Self::Output(_) | Self::File { .. })
    }
}

/// An error of the library, with the remedy if the library's message lacks one.
pub(super) fn with_remedy(error: &Error) -> String {
    match error {
        Error::NotFound { path } => {
            let path = path.display();
            format!("{path}: no such filter; check the path, or create it with `gowk create`")
        }
        Error::Full { path, region, load } => format!(
            "{}: no room in region {region} at load {load:.3}, and growth is off; double it with `gowk grow`, let \
             it grow with `gowk set --growth auto`, or create a larger filter",
            path.display()
        ),
        Error::Kind { path, found, wanted, op } => format!(
            "{}: is a {found}, but {op} needs a {wanted}; create another filter for that, {}",
            path.display(),
            match (found, wanted) {
                (_, Kind::Counting) => "with `--counting`",
                (_, Kind::Forgetting) => "with `--forget-after`",
                (Kind::Forgetting, _) => "without `--forget-after`",
                _ => "without `--counting`",
            }
        ),
        Error::Newest { path, op } => format!(
            "{}: keeps the newest keys, and {op} is not for such filters, as only one sequence of keys has newest \
             ones; create a filter that keeps each key for a time, with --forget-after",
            path.display()
        ),
        Error::Clock { clock, filter, path } => format!(
            "{}: the time {} is {} the filter's time {}, {}; correct the clock, or say --clock-is-right{}",
            path.display(),
            quantity::time_of(*clock),
            if clock < filter { "before" } else { "more than a year after" },
            quantity::time_of(*filter),
            if clock < filter { "which never goes back" } else { "and all keys would be forgotten" },
            if clock < filter { "; if the filter's time is wrong, create it anew" } else { "" }
        ),
        Error::Damaged { path, region, page } => format!(
            "{}: page {page} (region {region}) is damaged; run `gowk verify`, then restore a copy or `gowk repair`",
            path.display()
        ),
        Error::NotSealed { path, reason } => format!(
            "{}: {reason}, so it cannot be opened as sealed; close its writer, or open it once where it may be \
             written, as `gowk info` does; or open a copy that `gowk copy` made",
            path.display()
        ),
        Error::Empty { path } if paths::store_of(path).is_some() => {
            format!("{error}, and belongs to a store; restore it from a copy of the store")
        }
        Error::Empty { .. } => {
            format!("{error}; `gowk create` makes one, and `gowk dedup` does where there is no file")
        }
        Error::Unlike { .. } => format!("{error} (`gowk create --like`)"),
        Error::Exists { path } => format!("{}: exists already; choose another name", path.display()),
        Error::Locked { path } => {
            let holder =
                paths::holder(path).map_or_else(String::new, |process| format!(", process {process}"));
            let path = path.display();
            format!(
                "{path}: locked by another writer{holder}; try again when it is done, or wait with --wait"
            )
        }
        error => match remedy(error) {
            Some(remedy) => format!("{error}; {remedy}"),
            None => error.to_string(),
        },
    }
}

/// The option of `ingest` that does what the library's message suggests.
pub(super) const fn by_option(error: &gowk_ingest::Error) -> &'static str {
    use gowk_ingest::{Error, InputProblem, JobProblem, OutputProblem};
    match error {
        Error::CursorFull { .. } => " (--forget-missing, --forget JOB)",
        Error::Cursor { .. } | Error::Job { problem: JobProblem::OtherOptions { .. }, .. } => {
            " (--forget JOB)"
        }
        Error::Input { problem: InputProblem::Shrunken { .. } | InputProblem::Changed { .. }, .. } => {
            " (--restart INPUT; `rotated = \"restart\"` under [input] does that for all)"
        }
        Error::Input {
            problem:
                InputProblem::GrownWithinRecord | InputProblem::Gone { .. } | InputProblem::OtherOptions { .. },
            ..
        } => " (--restart INPUT)",
        Error::Input { problem: InputProblem::Json { .. }, .. } => {
            ", or go on after it (`rejects = \"FILE\"` under [output])"
        }
        Error::Input { problem: InputProblem::NoKey { .. }, .. } => " (`missing = \"drop\"` under [input])",
        Error::Output {
            problem:
                OutputProblem::Short { .. }
                | OutputProblem::Changed { .. }
                | OutputProblem::Appended { .. }
                | OutputProblem::Other,
            ..
        } => " (--new-output)",
        _ => "",
    }
}

/// Like `by_option`, for the other verbs.
pub(super) fn by_option_of_keys(error: &gowk_ingest::Error) -> &'static str {
    use gowk_ingest::{Error, InputProblem};
    let Error::Input { problem, .. } = error else { return "" };
    match problem {
        InputProblem::Foreign { format: Foreign::Parquet } if cfg!(feature = "parquet") => {
            ", or name that column (--column COLUMN), or take it as it is (--plain)"
        }
        InputProblem::Foreign { format: Foreign::Parquet } => {
            ", or build gowk with the feature `parquet`, or take it as it is (--plain)"
        }
        InputProblem::NotParquet => " (--csv or --json-field instead of --column)",
        InputProblem::NoFile => " (--input)",
        InputProblem::Truncated { .. } | InputProblem::Corrupt { .. } | InputProblem::Foreign { .. } => {
            ", or take it as it is (--plain)"
        }
        InputProblem::LongWindow => " (--long=31 for this command)",
        InputProblem::Json { .. } => ", or go on after it (--rejects FILE)",
        InputProblem::NoKey { .. } => " (--missing drop)",
        _ => "",
    }
}

fn output_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there",
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files",
        io::ErrorKind::PermissionDenied => "check its permissions",
        _ => "check what it goes to",
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    match error {
        Error::Growth { reason: GrowthRefusal::FileSize { .. }, .. } => {
            Some("`gowk set --max-file-size` raises it")
        }
        Error::Growth { reason: GrowthRefusal::Rate { .. }, .. } => {
            Some("`gowk set --max-false-positive-rate` raises the limit")
        }
        Error::AfterCommit { source, .. } | Error::Unknown { source, .. } => remedy(source),
        // A server's message names its remedy.
        Error::Io { path, .. } if gowk::store::Store::is_address(path) => None,
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::IsADirectory => Some("give the path of a filter file"),
            io::ErrorKind::NotFound => Some("check the path, or create the folder"),
            io::ErrorKind::NotADirectory => Some("check the path"),
            io::ErrorKind::PermissionDenied => Some("check the permissions of the file and its folder"),
            io::ErrorKind::ReadOnlyFilesystem => Some("copy the filter to where it can be written"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room and try again"),
            io::ErrorKind::FileTooLarge => Some("raise the limit on the size of files and try again"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_fits_what_is_wrong_with_standard_output() {
        use nix::errno::Errno;
        for (code, remedy) in [
            (Errno::ENOSPC, "make room there and run"),
            (Errno::EDQUOT, "make room there and run"),
            (Errno::EFBIG, "raise the limit on the size of files and run"),
            (Errno::EIO, "check what it goes to and run"),
            (Errno::EBADF, "check what it goes to and run"),
        ] {
            let message = Failure::Output(io::Error::from_raw_os_error(code as i32)).to_string();
            assert!(message.contains(remedy), "{code}: {message}");
        }
    }
}
