//! The failures of a store. Each message is one line that names the file, the place and the remedy.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{ErrorKind, IoError};

/// The result of every call on a store that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call on a store failed. Unless a variant says otherwise, the store is unchanged. Clones are cheap.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A filter of the store, or the operating system, refused.
    #[error(transparent)]
    Filter(#[from] crate::Error),

    /// There is no such folder.
    #[error("{}: no such folder; check the path, or create a store there", path.display())]
    NotFound {
        /// The folder.
        path: PathBuf,
    },

    /// The folder is no store.
    #[error("{}: not a store: it has no `store.toml`; check the path, or create a store there", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
    },

    /// Creation found another file or folder under its name.
    #[error("{}: is there already, and not empty; choose another name", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },

    /// A filter was being turned into a store, and its keys have not come into the store.
    #[error(
        "{}: its creation out of a filter was not finished, so that it holds no key; run the same creation again, or \
         remove the folder",
        path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },

    /// The file system refuses a hard link, which publishes each version of a store.
    #[error(
        "{}: cannot link: {source}; a store publishes its versions by link(2), which this file system refuses; create the \
         store on one that has hard links",
        path.display()
    )]
    NoLinks {
        /// The name of the link.
        path: PathBuf,
        /// The system's reason.
        source: IoError,
    },

    /// The path is in an object store that this build of the library does not support.
    #[error("{}: this build has no object stores at `{feature}://`; build it with the feature `{feature}`", path.display())]
    NoObjectStores {
        /// The address.
        path: PathBuf,
        /// The feature with which a build supports this object store.
        feature: &'static str,
    },

    /// The path is neither a folder nor an address `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
    #[error("{}: {problem}", path.display())]
    Address {
        /// The path.
        path: PathBuf,
        /// What is wrong with the path, and what it may be.
        problem: &'static str,
    },

    /// A server lets two writers create the same object, so that commits would be lost.
    #[error(
        "{}: {winners} of the writers that created one object at the same time were told that they had; \
         versions of a store would overwrite each other; use a server that honors conditions of puts, as `If-None-Match: *`",
        path.display()
    )]
    Unsafe {
        /// The address.
        path: PathBuf,
        /// How many writers succeeded in one round; it must be one.
        winners: u64,
    },

    /// A store has no version.
    #[error("{}: holds no version; restore the store from a copy, or remove it and create it again", path.display())]
    NoVersions {
        /// The folder of the versions.
        path: PathBuf,
    },

    /// `store.toml`, a version file or the head of a run has other contents than were written.
    #[error(
        "{}: its checksum does not match, so it was cut short or changed; restore it from a copy of the store",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },

    /// `store.toml` or a version file was written in a format that this build cannot read.
    #[error(
        "{}: format {found}, but this build reads format {supported} alone; use a newer gowk",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
        /// The format of this build.
        supported: u64,
    },

    /// `store.toml` or a version file has a right checksum, but is not valid.
    #[error("{}: {problem}; restore it from a copy of the store", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What the parser found, on one line.
        problem: String,
    },

    /// A field of `store.toml` or of a version file holds a value that is not allowed.
    #[error("{}: field `{field}` is {found}, not {expected}; restore it from a copy of the store", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field's name in the specification.
        field: &'static str,
        /// The field's value.
        found: String,
        /// What the value would have to be.
        expected: String,
    },

    /// There is no version of this number.
    #[error(
        "{}: no version {number}; it was vacuumed, or never made; take the newest version, {newest}",
        path.display()
    )]
    NoSuchVersion {
        /// The store.
        path: PathBuf,
        /// The number asked for.
        number: u64,
        /// The number of the newest version.
        newest: u64,
    },

    /// Since the update's base version, another commit has changed keys or a shard on which this update depends.
    #[error(
        "{}: {} by version {version}, after version {base} on which this update is based; \
         nothing was committed; make the update again on the newest version",
        path.display(),
        conflicting(*shard, *keys)
    )]
    Conflict {
        /// The store.
        path: PathBuf,
        /// The shard that both changed; the lowest of several.
        shard: u32,
        /// How many keys of this update are now judged differently; 0 if the update has rewritten the shard, as it then
        /// no longer has the keys.
        keys: u64,
        /// The version on which the update is based.
        base: u64,
        /// The version that won, or the newest version.
        version: u64,
    },

    /// A token is below the last token of its application.
    #[error(
        "{}: nothing was committed: the last token of `{application}` is {last}, above {number}, and tokens of an application \
         ascend; a retry of {number} comes too late; for new keys take a number above {last}, or another application name",
        path.display()
    )]
    TokenBelow {
        /// The store.
        path: PathBuf,
        /// The application.
        application: String,
        /// The number of the token.
        number: u64,
        /// The number of the application's last token.
        last: u64,
    },

    /// A vacuum has given up all updates that are based on versions this old.
    #[error(
        "{}: this update is based on version {base}, and a vacuum has given up updates of versions below {fence}; \
         nothing was committed; make the update again, or vacuum with a longer grace time",
        path.display()
    )]
    Expired {
        /// The store.
        path: PathBuf,
        /// The version on which the update is based.
        base: u64,
        /// Updates based on versions below this are void.
        fence: u64,
    },

    /// The file of a shard, or a run, is missing although a version names it.
    #[error(
        "{}: missing, although version {version} names it, and no vacuum has removed that version; \
         restore it from a copy of the store",
        path.display()
    )]
    MissingFile {
        /// The file.
        path: PathBuf,
        /// The version that names it.
        version: u64,
    },

    /// A version was vacuumed while a reader used it, and with it a file that it names.
    #[error(
        "{}: removed by a vacuum, as version {version} is older than the store keeps; reload the newest version",
        path.display()
    )]
    Vacuumed {
        /// The file that is gone.
        path: PathBuf,
        /// The version that the reader uses.
        version: u64,
    },

    /// A file differs from its description in a version or a commit.
    #[error("{}: its {what} is {found}, not {expected}; restore the file from a copy of the store", path.display())]
    WrongFile {
        /// The file.
        path: PathBuf,
        /// What differs: `length`, `uuid`, `commit`, `shard` or the like.
        what: &'static str,
        /// What was found.
        found: String,
        /// What the version names.
        expected: String,
    },

    /// A sealed file does not belong to this commit.
    #[error("{}: a sealed file has {what} {found}, but this commit takes {expected}", path.display())]
    Misfit {
        /// The store.
        path: PathBuf,
        /// What differs: `store`, `base`, `shard`.
        what: &'static str,
        /// What the sealed file has.
        found: String,
        /// What it would have to be.
        expected: String,
    },

    /// A commit would make a version that readers refuse.
    #[error(
        "{}: nothing was committed, as readers would refuse the version: `{field}` would be {found}, not {expected}",
        path.display()
    )]
    Invalid {
        /// The store.
        path: PathBuf,
        /// The field's name in the specification; `text` for the whole.
        field: &'static str,
        /// What the field would be.
        found: String,
        /// What the field may be.
        expected: String,
    },

    /// A commit failed, and its outcome is unknown: the version may exist.
    #[error(
        "{source}; whether version {version} of {} is durable is unknown; commit again with the same token, or \
         look for the version in the history of the store",
        path.display()
    )]
    Unknown {
        /// The store.
        path: PathBuf,
        /// The number of the version.
        version: u64,
        /// What failed.
        source: Box<crate::Error>,
    },

    /// A version was put into an object store, and a vacuum passed its number before this process saw that the version
    /// counts.
    #[error(
        "{}: a vacuum has given up versions below {first}, and version {version} is one: whether it counts is unknown; \
         look for its keys, commit with a token, or vacuum with a longer grace time",
        path.display()
    )]
    Overtaken {
        /// The store.
        path: PathBuf,
        /// The number of the version.
        version: u64,
        /// Versions below this number are given up.
        first: u64,
    },

    /// A caller asked for one shard alone, but runs have records of it.
    #[error(
        "{}: shard {shard} has records in runs, which a reader of its file would not find; ask the store, or compact it \
         with all shards first",
        path.display()
    )]
    Pending {
        /// The store.
        path: PathBuf,
        /// The shard.
        shard: u32,
    },

    /// Pages of a run do not match their checksums, or hold records that no run holds.
    #[error("{}: {} damaged; restore the file from a copy of the store", path.display(), named(pages))]
    DamagedRun {
        /// The run.
        path: PathBuf,
        /// The pages, counted from 0, ascending. A lookup names the page that it needs, verification names all.
        pages: Vec<u64>,
    },

    /// A version that must stay is missing, so a vacuum cannot know which files it names.
    #[error(
        "{}: missing, although version {newest} says that it stays; nothing was removed; if the file system shows changes \
         late, vacuum again, otherwise restore the file from a copy of the store",
        path.display()
    )]
    MissingVersion {
        /// The file of the version.
        path: PathBuf,
        /// The number of the newest version.
        newest: u64,
    },

    /// Versions were published and removed faster than they could be read.
    #[error("{}: versions keep being removed while they are read; vacuum with a longer grace time", path.display())]
    Busy {
        /// The folder of the versions.
        path: PathBuf,
    },
}

/// What another commit has changed.
fn conflicting(shard: u32, keys: u64) -> String {
    match keys {
        0 => format!("shard {shard} was changed"),
        1 => format!("1 key, of shard {shard}, was changed"),
        _ => format!("{keys} keys, the first of them of shard {shard}, were changed"),
    }
}

/// `page 2 is`, `pages 2, 5, 7 are`.
fn named(pages: &[u64]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = pages.iter().take(SHOWN).map(u64::to_string).collect();
    match pages.len() {
        1 => format!("page {} is", shown.concat()),
        all if all <= SHOWN => format!("pages {} are", shown.join(", ")),
        all => format!("pages {} and {} more are", shown.join(", "), all - SHOWN),
    }
}

impl Error {
    /// The class of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Filter(error) => error.kind(),
            Self::NotFound { .. } | Self::NoSuchVersion { .. } | Self::Vacuumed { .. } => ErrorKind::NotFound,
            Self::NotAStore { .. } => ErrorKind::Foreign,
            Self::Exists { .. } => ErrorKind::Exists,
            Self::Format { .. } => ErrorKind::Unsupported,
            Self::NoVersions { .. }
            | Self::Damaged { .. }
            | Self::Text { .. }
            | Self::Field { .. }
            | Self::MissingFile { .. }
            | Self::MissingVersion { .. }
            | Self::DamagedRun { .. }
            | Self::WrongFile { .. } => ErrorKind::Damaged,
            Self::Conflict { .. } | Self::Expired { .. } => ErrorKind::Conflict,
            Self::Address { .. }
            | Self::Misfit { .. }
            | Self::Invalid { .. }
            | Self::Pending { .. }
            | Self::TokenBelow { .. } => ErrorKind::Invalid,
            Self::Unfinished { .. } => ErrorKind::Foreign,
            Self::NoObjectStores { .. } | Self::Unsafe { .. } => ErrorKind::Unsupported,
            Self::NoLinks { .. } => ErrorKind::Io,
            Self::Unknown { .. } | Self::Overtaken { .. } => ErrorKind::Unknown,
            Self::Busy { .. } => ErrorKind::Busy,
        }
    }

    /// The file or folder that the error names, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::NotFound { path, .. }
            | Self::NotAStore { path, .. }
            | Self::Exists { path, .. }
            | Self::Unfinished { path, .. }
            | Self::NoLinks { path, .. }
            | Self::NoObjectStores { path, .. }
            | Self::Address { path, .. }
            | Self::Unsafe { path, .. }
            | Self::NoVersions { path, .. }
            | Self::Damaged { path, .. }
            | Self::Format { path, .. }
            | Self::Text { path, .. }
            | Self::Field { path, .. }
            | Self::NoSuchVersion { path, .. }
            | Self::Conflict { path, .. }
            | Self::Expired { path, .. }
            | Self::TokenBelow { path, .. }
            | Self::MissingFile { path, .. }
            | Self::Vacuumed { path, .. }
            | Self::WrongFile { path, .. }
            | Self::DamagedRun { path, .. }
            | Self::Pending { path, .. }
            | Self::Misfit { path, .. }
            | Self::Invalid { path, .. }
            | Self::Unknown { path, .. }
            | Self::Overtaken { path, .. }
            | Self::MissingVersion { path, .. }
            | Self::Busy { path, .. } => Some(path),
            Self::Filter(error) => error.path(),
        }
    }

    /// Why a link failed. File systems without hard links report it in several ways; POSIX specifies EPERM. EACCES means
    /// missing rights.
    pub(super) fn of_link(path: &Path, source: IoError) -> Self {
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        let refused = matches!(errno, Some(Errno::PERM | Errno::MLINK | Errno::XDEV));
        if refused || source.kind() == std::io::ErrorKind::Unsupported {
            return Self::NoLinks { path: path.to_owned(), source };
        }
        crate::Error::io(path, "link", source).into()
    }
}
