//! The kinds of failures: for programs that react to them, and for bindings to other languages.

use std::fmt;
use std::path::Path;

use super::Error;

/// The kind of a failure. These names are stable: bindings to other languages map each to an exception.
///
/// | kind | remedy |
/// |---|---|
/// | [`NotFound`](Self::NotFound) | check the path, or create it |
/// | [`Exists`](Self::Exists) | choose another name |
/// | [`Foreign`](Self::Foreign) | check the path: the file is not a filter, the folder not a store, or something else has a name that gowk uses |
/// | [`Unsupported`](Self::Unsupported) | use a newer gowk |
/// | [`Damaged`](Self::Damaged) | verify, then restore a copy or repair |
/// | [`Locked`](Self::Locked) | wait for the other process, or ask to wait |
/// | [`Busy`](Self::Busy) | try again |
/// | [`NoRoom`](Self::NoRoom) | let the filter grow, or create a larger one |
/// | [`NoSpace`](Self::NoSpace) | free room on the disk |
/// | [`Kind`](Self::Kind) | create a filter of another kind |
/// | [`Clock`](Self::Clock) | correct the clock, or say that it is right |
/// | [`Invalid`](Self::Invalid) | change what was asked for |
/// | [`Replaced`](Self::Replaced) | open it again |
/// | [`Uncommitted`](Self::Uncommitted) | commit before closing |
/// | [`Conflict`](Self::Conflict) | make the update again on the newest version |
/// | [`Unknown`](Self::Unknown) | open it again, and look whether the commit is there |
/// | [`AfterCommit`](Self::AfterCommit) | open it again; the commit is durable |
/// | [`Poisoned`](Self::Poisoned) | open it again |
/// | [`Io`](Self::Io) | see the system's message |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such filter, store, folder or version.
    NotFound,
    /// Something of this name already exists.
    Exists,
    /// The file is not a filter, the folder is not a store, or something else has a name that gowk uses.
    Foreign,
    /// The file needs another version of gowk.
    Unsupported,
    /// The bytes differ from what was written.
    Damaged,
    /// Another process has the filter open.
    Locked,
    /// The filter kept changing while it was read.
    Busy,
    /// A filter has no room for a key, and must not grow.
    NoRoom,
    /// The file system has too little room.
    NoSpace,
    /// The filter is not of the kind that is needed.
    Kind,
    /// The clock, or the time of a key, seems wrong.
    Clock,
    /// An argument, an option or a combination of filters is not allowed.
    Invalid,
    /// Another file has taken the filter's name.
    Replaced,
    /// A writer was closed with uncommitted changes.
    Uncommitted,
    /// Another commit came first; nothing was committed.
    Conflict,
    /// A commit failed, and it is unknown whether it is durable.
    Unknown,
    /// Something failed after a commit was already durable.
    AfterCommit,
    /// The writer is closed: by an earlier failure, or because it was shared and a clone closed it.
    Poisoned,
    /// The operating system refused.
    Io,
}

impl ErrorKind {
    /// The name in lower case, with `_` between words: `not_found`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Foreign => "foreign",
            Self::Unsupported => "unsupported",
            Self::Damaged => "damaged",
            Self::Locked => "locked",
            Self::Busy => "busy",
            Self::NoRoom => "no_room",
            Self::NoSpace => "no_space",
            Self::Kind => "kind",
            Self::Clock => "clock",
            Self::Invalid => "invalid",
            Self::Replaced => "replaced",
            Self::Uncommitted => "uncommitted",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::AfterCommit => "after_commit",
            Self::Poisoned => "poisoned",
            Self::Io => "io",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Error {
    /// The kind of this failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::Removed { .. } => ErrorKind::NotFound,
            Self::Exists { .. } => ErrorKind::Exists,
            Self::NotGowk { .. } | Self::Empty { .. } | Self::Untrusted { .. } => ErrorKind::Foreign,
            Self::Version { .. } | Self::Features { .. } | Self::HashMismatch { .. } => {
                ErrorKind::Unsupported
            }
            Self::Superblocks { .. }
            | Self::Field { .. }
            | Self::Length { .. }
            | Self::Damaged { .. }
            | Self::Journal { .. } => ErrorKind::Damaged,
            Self::Locked { .. } | Self::Stalled { .. } => ErrorKind::Locked,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Full { .. } | Self::Growth { .. } => ErrorKind::NoRoom,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Kind { .. } => ErrorKind::Kind,
            Self::Clock { .. } => ErrorKind::Clock,
            Self::CallerHashes { .. }
            | Self::OtherShard { .. }
            | Self::MountPoint { .. }
            | Self::NotSealed { .. }
            | Self::Unclosed { .. }
            | Self::KeyRules { .. }
            | Self::HardLinks { .. }
            | Self::MetadataFull { .. }
            | Self::Shrink { .. }
            | Self::Option { .. }
            | Self::Rate { .. }
            | Self::Indivisible { .. }
            | Self::Unlike { .. }
            | Self::Newest { .. }
            | Self::Retention { .. } => ErrorKind::Invalid,
            Self::NameTaken { .. } | Self::Replaced { .. } => ErrorKind::Replaced,
            Self::Uncommitted { .. } => ErrorKind::Uncommitted,
            Self::Unknown { .. } => ErrorKind::Unknown,
            Self::AfterCommit { .. } => ErrorKind::AfterCommit,
            Self::Poisoned { .. } | Self::Closed { .. } => ErrorKind::Poisoned,
            Self::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::StorageFull => ErrorKind::NoSpace,
                _ => ErrorKind::Io,
            },
        }
    }

    /// The file or folder that the error names, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::NotFound { path, .. }
            | Self::Exists { path, .. }
            | Self::NotGowk { path, .. }
            | Self::Empty { path, .. }
            | Self::Version { path, .. }
            | Self::Features { path, .. }
            | Self::Superblocks { path, .. }
            | Self::Field { path, .. }
            | Self::Length { path, .. }
            | Self::HashMismatch { path, .. }
            | Self::CallerHashes { path, .. }
            | Self::OtherShard { path, .. }
            | Self::Damaged { path, .. }
            | Self::Journal { path, .. }
            | Self::Untrusted { path, .. }
            | Self::Locked { path, .. }
            | Self::MountPoint { path, .. }
            | Self::NotSealed { path, .. }
            | Self::Unclosed { path, .. }
            | Self::Stalled { path, .. }
            | Self::NameTaken { path, .. }
            | Self::Removed { path, .. }
            | Self::HardLinks { path, .. }
            | Self::Full { path, .. }
            | Self::Growth { path, .. }
            | Self::Kind { path, .. }
            | Self::Newest { path, .. }
            | Self::Retention { path, .. }
            | Self::Clock { path, .. }
            | Self::KeyRules { path, .. }
            | Self::Uncommitted { path, .. }
            | Self::Poisoned { path, .. }
            | Self::Closed { path, .. }
            | Self::Unknown { path, .. }
            | Self::AfterCommit { path, .. }
            | Self::MetadataFull { path, .. }
            | Self::NoSpace { path, .. }
            | Self::Shrink { path, .. }
            | Self::Rate { path, .. }
            | Self::Indivisible { path, .. }
            | Self::Unlike { path, .. }
            | Self::Replaced { path, .. }
            | Self::Busy { path, .. } => Some(path),
            Self::Option { .. } => None,
        }
    }
}
