//! The medium: what a power cut leaves of a history.
//!
//! Assumptions (section 10 of the specification): a sync of a file settles all earlier changes of that file, and nothing
//! else. A sync of the folder settles its names. An unsettled change may be on the medium or not, in any order: any part
//! of a write, a change of names only as a whole. After a failed sync, the changes that it should have settled stay
//! unsettled for good: later syncs of that file do not cover them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::{
    Change, Event, FILTER, FileId, History, InUse, LIVE, Naming, Piece, is_temporary, live_area,
};
use super::image::{Fate, Fill, Image, apply, fill_live};

/// An unsettled change, by its event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    pub(crate) event: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Naming,
    Change,
    /// All changes of a file that only ever had a temporary name: nobody reads it.
    Temporary(FileId),
}

/// One file: its settled contents, and the changes since then.
#[derive(Clone)]
struct OnMedium {
    base: Arc<Vec<u8>>,
    tail: Vec<Done>,
}

#[derive(Clone, Copy)]
struct Done {
    event: usize,
    certainty: Certainty,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// The next sync settles it.
    Open,
    /// A sync failed to settle it. Later syncs do not settle it either.
    Never,
    Settled,
}

/// The medium at one moment of a history.
#[derive(Clone)]
pub(crate) struct Medium<'h> {
    history: &'h History,
    position: usize,
    files: Vec<OnMedium>,
    names: BTreeMap<String, FileId>,
    naming: Vec<usize>,
    /// The first and the last state that a power cut may leave.
    pub(crate) states: (usize, usize),
    in_use: InUse,
}

impl<'h> Medium<'h> {
    pub(crate) fn at(history: &'h History, position: usize) -> Self {
        let files = history.files.iter().map(|base| OnMedium { base: base.clone(), tail: Vec::new() });
        let mut medium = Self {
            history,
            position: 0,
            files: files.collect(),
            names: history.names.clone(),
            naming: Vec::new(),
            states: history.states,
            in_use: InUse::Changing,
        };
        medium.advance(position);
        medium
    }

    /// Advances to a later moment.
    pub(crate) fn advance(&mut self, position: usize) {
        for event in self.position..position {
            match &self.history.events[event] {
                Event::Change(file, _) => {
                    self.files[*file].tail.push(Done { event, certainty: Certainty::Open });
                }
                Event::Naming(_) => self.naming.push(event),
                Event::Sync(file) => self.synced(*file, Certainty::Settled),
                Event::SyncFailed(file) => self.synced(*file, Certainty::Never),
                Event::SyncDir => {
                    for event in std::mem::take(&mut self.naming) {
                        self.naming(event).apply(&mut self.names);
                    }
                }
                Event::Began(state) => self.states.1 = self.states.1.max(*state),
                Event::Acknowledged(state) => self.states.0 = self.states.0.max(*state),
                Event::Settled(state) => self.states = (*state, *state),
                Event::InUse(said) => self.in_use = *said,
            }
        }
        self.position = self.position.max(position);
    }

    fn naming(&self, event: usize) -> &'h Naming {
        match &self.history.events[event] {
            Event::Naming(naming) => naming,
            _ => unreachable!("event {event} names nothing"),
        }
    }

    fn change(&self, event: usize) -> &'h Change {
        match &self.history.events[event] {
            Event::Change(_, change) => change,
            _ => unreachable!("event {event} changes nothing"),
        }
    }

    fn synced(&mut self, file: FileId, certainty: Certainty) {
        let history = self.history;
        let OnMedium { base, tail } = &mut self.files[file];
        for done in tail.iter_mut().filter(|done| done.certainty == Certainty::Open) {
            // The recorder cannot see a store of bytes that are already there, and the next sync would seem to cover
            // changes that a failed one did not. So any successful sync settles stores.
            let live = matches!(&history.events[done.event], Event::Change(_, Change::StoredLive(_)));
            if certainty == Certainty::Settled || !live {
                done.certainty = certainty;
            }
        }
        let settled = tail.iter().take_while(|done| done.certainty == Certainty::Settled).count();
        for done in tail.drain(..settled) {
            if let Event::Change(_, change) = &history.events[done.event] {
                apply(change, Arc::make_mut(base), Fate::Kept);
            }
        }
    }

    /// The unsettled changes in order, without the live area.
    pub(crate) fn units(&self) -> Vec<Unit> {
        let naming = self.naming.iter().map(|event| Unit { event: *event, kind: Kind::Naming });
        let mut units: Vec<Unit> = naming.collect();
        for (id, file) in self.files.iter().enumerate() {
            let open = file.tail.iter().filter(|done| done.certainty != Certainty::Settled);
            let events = open.map(|done| done.event).filter(|event| !self.change(*event).is_live());
            let names = self.possible_names(id);
            if names.iter().any(|name| !is_temporary(name)) {
                units.extend(events.map(|event| Unit { event, kind: Kind::Change }));
            } else if !names.is_empty() {
                units.extend(events.take(1).map(|event| Unit { event, kind: Kind::Temporary(id) }));
            }
        }
        units.sort_by_key(|unit| unit.event);
        units
    }

    /// The names that may lead to a file after a power cut.
    fn possible_names(&self, file: FileId) -> BTreeSet<&String> {
        let settled = self.names.iter().filter(|(_, named)| **named == file).map(|(name, _)| name);
        let open = self.naming.iter().map(|event| self.naming(*event));
        let open = open.filter(|naming| naming.file() == file).filter_map(|naming| match naming {
            Naming::Create { name, .. } | Naming::Rename { to: name, .. } => Some(name),
            Naming::Remove { .. } => None,
        });
        settled.chain(open).collect()
    }

    pub(crate) fn describe(&self, unit: Unit) -> String {
        self.history.describe(unit.event)
    }

    /// The bytes that a unit writes, if enough to be torn.
    pub(crate) fn written(&self, unit: Unit) -> Option<usize> {
        match self.history.events.get(unit.event)? {
            Event::Change(_, Change::Write((_, bytes))) if unit.kind == Kind::Change => Some(bytes.len()),
            _ => None,
        }
    }

    /// The image in which the units have these fates. The live area is as last synced.
    pub(crate) fn image(&self, units: &[Unit], fates: &[Fate]) -> Image {
        let mut names = self.names.clone();
        let mut fate_of: BTreeMap<usize, Fate> = BTreeMap::new();
        let mut temporary: BTreeMap<FileId, Fate> = BTreeMap::new();
        for (unit, fate) in units.iter().zip(fates) {
            match unit.kind {
                Kind::Naming if *fate == Fate::Lost => {}
                Kind::Naming => self.naming(unit.event).apply(&mut names),
                Kind::Change => drop(fate_of.insert(unit.event, *fate)),
                Kind::Temporary(file) => drop(temporary.insert(file, *fate)),
            }
        }
        let files = names.into_iter().map(|(name, file)| {
            let all = temporary.get(&file).copied();
            let content = self.content(file, |event| all.or_else(|| fate_of.get(&event).copied()));
            (name, (file, content))
        });
        Image(files.collect())
    }

    fn content(&self, file: FileId, fate: impl Fn(usize) -> Option<Fate>) -> Arc<Vec<u8>> {
        let OnMedium { base, tail } = &self.files[file];
        let mut content = base.clone();
        for Done { event, certainty } in tail {
            let change = self.change(*event);
            let fate = match certainty {
                Certainty::Settled => Fate::Kept,
                _ if change.is_live() => Fate::Lost,
                _ => fate(*event).unwrap_or(Fate::Lost),
            };
            if fate != Fate::Lost {
                apply(change, Arc::make_mut(&mut content), fate);
            }
        }
        content
    }

    /// Checks that the filter's file in an image says correctly whether it is in use.
    pub(crate) fn says_truly(&self, image: &Image) -> bool {
        match (image.is_idle(), self.in_use) {
            (None, _) | (_, InUse::Changing) => true,
            (Some(idle), said) => idle == (said == InUse::No),
        }
    }

    /// The files as all processes see them: every change, settled or not.
    pub(crate) fn memory(&self) -> Image {
        let units = self.units();
        let mut image = self.image(&units, &vec![Fate::Kept; units.len()]);
        self.fill(&mut image, Fill::New);
        image
    }

    /// Fills the live area of the image's filter with possible contents.
    pub(crate) fn fill(&self, image: &mut Image, fill: Fill) {
        let Some((file, content)) = image.0.get_mut(FILTER) else { return };
        let Some(live) = live_area(content.len()) else { return };
        let stored = self.files[*file].tail.iter().filter(|done| done.certainty != Certainty::Settled);
        let stored: Vec<&Piece> =
            stored.filter_map(|done| self.change(done.event).live_pieces()).flatten().collect();
        debug_assert!(stored.iter().all(|(at, _)| *at >= LIVE));
        fill_live(content, live, &stored, fill);
    }
}
