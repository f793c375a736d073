//! A history: the initial files of a folder, and every operation since.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::image::Image;

/// The filter's name in its folder.
pub(crate) const FILTER: &str = "f.gowk";
pub(crate) const JOURNAL: &str = "f.gowk-journal";
pub(crate) const LOCK: &str = "f.gowk-lock";
const TEMPORARY: &str = "-gowk-new-";

pub(crate) const SECTOR: usize = 512;
/// Where the live area begins (specification, 5.1).
pub(crate) const LIVE: usize = 131_072;

/// The range of the live area in a filter of this length. Writers store to it through a memory map.
pub(crate) fn live_area(length: usize) -> Option<Range<usize>> {
    (1..=64_usize).find_map(|regions| {
        let sums = LIVE + (53_248 + 4 * regions).next_multiple_of(4096);
        let data = (sums + (64 * regions).next_multiple_of(4096)).next_multiple_of(65_536);
        (data + 65_536 * regions == length).then_some(LIVE..sums)
    })
}

/// A file for as long as it exists, under any name: an index into [`History::files`].
pub(crate) type FileId = usize;
/// Bytes and their offset.
pub(crate) type Piece = (usize, Arc<[u8]>);

/// A change of one file.
#[derive(Clone)]
pub(crate) enum Change {
    Write(Piece),
    Length(usize),
    /// Extends the file to at least this length.
    Allocate(usize),
    /// Sectors of an unpublished file that were stored to through a map since the last operation.
    Stored(Vec<Piece>),
    /// Sectors of the live area of a published file that were stored to through a map since the last operation.
    StoredLive(Vec<Piece>),
}

/// A change of the folder.
#[derive(Clone)]
pub(crate) enum Naming {
    Create { name: String, file: FileId },
    Rename { from: String, to: String, file: FileId },
    Remove { name: String, file: FileId },
}

#[derive(Clone)]
pub(crate) enum Event {
    Change(FileId, Change),
    Naming(Naming),
    Sync(FileId),
    /// A sync that returned an error. The changes that it should have settled are never settled.
    SyncFailed(FileId),
    SyncDir,
    /// From here on, a power cut may leave the state with this number.
    Began(usize),
    /// From here on, a power cut may leave only this state or later ones.
    Acknowledged(usize),
    /// From here on, a power cut may leave only this state.
    Settled(usize),
    /// From here on, the filter's file must say this.
    InUse(InUse),
}

/// Whether a filter's file must say on the medium that it is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InUse {
    /// A writer has it.
    Yes,
    /// Its writer closed it.
    No,
    /// Either: a process is just changing it.
    Changing,
}

impl Event {
    const fn changes_nothing(&self) -> bool {
        matches!(self, Self::Began(_) | Self::InUse(InUse::Changing))
    }
}

/// The initial state of a folder, and the operations on it.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) files: Vec<Arc<Vec<u8>>>,
    /// The initial names.
    pub(crate) names: BTreeMap<String, FileId>,
    pub(crate) events: Vec<Event>,
    /// The states that a power cut at the beginning may leave.
    pub(crate) states: (usize, usize),
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.events.len()).try_for_each(|event| writeln!(f, "{event:4} {}", self.describe(event)))
    }
}

impl History {
    /// The history of a folder that is entirely on the medium.
    pub(crate) fn of(image: &Image, state: usize) -> Self {
        let files = image.0.values().map(|(_, content)| content.clone()).collect();
        let names = image.0.keys().cloned().zip(0..).collect();
        Self { files, names, events: Vec::new(), states: (state, state) }
    }

    /// The history up to `position`.
    pub(crate) fn cut(&self, position: usize) -> Self {
        Self { events: self.events[..position].to_vec(), ..self.clone() }
    }

    /// The names that all processes see at the end, whether on the medium or not.
    pub(crate) fn names_now(&self) -> BTreeMap<String, FileId> {
        let mut names = self.names.clone();
        for event in &self.events {
            if let Event::Naming(naming) = event {
                naming.apply(&mut names);
            }
        }
        names
    }

    /// Where a power cut makes a difference: after every event, except before a store (a cut after it allows at least the
    /// same images) and before an acknowledgement (a cut after it must keep more).
    pub(crate) fn cuts(&self, from: usize) -> impl Iterator<Item = usize> {
        (from..=self.events.len()).filter(move |position| {
            let next = self.events.get(*position);
            let before = position.checked_sub(1).map(|last| &self.events[last]);
            *position == from
                || !before.is_some_and(Event::changes_nothing)
                    && !matches!(
                        next,
                        Some(
                            Event::Acknowledged(_)
                                | Event::Settled(_)
                                | Event::InUse(InUse::Yes | InUse::No)
                                | Event::Change(_, Change::StoredLive(_) | Change::Stored(_))
                        )
                    )
        })
    }

    pub(crate) fn describe(&self, event: usize) -> String {
        match &self.events[event] {
            Event::Change(file, change) => format!("{change} to {}", self.role(*file)),
            Event::Naming(Naming::Create { name, .. }) => format!("create {}", role(name)),
            Event::Naming(Naming::Rename { from, to, .. }) => {
                format!("rename {} to {}", role(from), role(to))
            }
            Event::Naming(Naming::Remove { name, .. }) => format!("remove {}", role(name)),
            Event::Sync(file) => format!("sync {}", self.role(*file)),
            Event::SyncFailed(file) => format!("failed sync of {}", self.role(*file)),
            Event::SyncDir => "sync folder".to_owned(),
            Event::Began(state) => format!("-- began {state}"),
            Event::Acknowledged(state) => format!("-- acknowledged {state}"),
            Event::Settled(state) => format!("-- settled {state}"),
            Event::InUse(said) => format!("-- in use: {said:?}"),
        }
    }

    fn role(&self, file: FileId) -> String {
        let named = self.names.iter().find(|(_, named)| **named == file).map(|(name, _)| role(name));
        let created = self.events.iter().find_map(|event| match event {
            Event::Naming(Naming::Create { name, file: created }) if *created == file => Some(role(name)),
            _ => None,
        });
        format!("{} (file {file})", named.or(created).unwrap_or("unnamed"))
    }
}

/// The role of a file with this name: data, journal, or another.
pub(crate) fn role(name: &str) -> &'static str {
    match name {
        FILTER => "filter",
        JOURNAL => "journal",
        LOCK => "lock file",
        "folder" => "folder",
        _ if is_temporary(name) => "new file",
        _ => "other",
    }
}

pub(crate) fn is_temporary(name: &str) -> bool {
    name.contains(TEMPORARY)
}

impl Change {
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self, Self::StoredLive(_))
    }

    pub(crate) fn live_pieces(&self) -> Option<&Vec<Piece>> {
        match self {
            Self::StoredLive(pieces) => Some(pieces),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write((at, bytes)) => write!(f, "write {at}+{}", bytes.len()),
            Self::Length(length) => write!(f, "cut or extend to {length}"),
            Self::Allocate(length) => write!(f, "allocate {length}"),
            Self::Stored(pieces) => write!(f, "store {} sectors", pieces.len()),
            Self::StoredLive(pieces) => write!(f, "store {} live sectors", pieces.len()),
        }
    }
}

impl Naming {
    pub(crate) fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                names.retain(|name, named| name != from || named != file);
                names.insert(to.clone(), *file);
            }
            Self::Remove { name, file } => names.retain(|other, named| other != name || named != file),
        }
    }

    pub(crate) const fn file(&self) -> FileId {
        match self {
            Self::Create { file, .. } | Self::Rename { file, .. } | Self::Remove { file, .. } => *file,
        }
    }
}
