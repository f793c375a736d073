//! Scripts: the steps that a test performs on a filter, and the states that must result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{Error, Kind, Options, Seen, SlotsPerBucket, Writer};

use super::history::{Event, FILTER, History, InUse, JOURNAL, Naming};
use super::image::Image;
use super::record::{Fault, Limits, Recorder};
use super::state::{Contents, Opening, State, Until, key, look, open_and_look};

/// One change inside a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    Insert(u64),
    /// A set cannot remove: it inserts the key with the number 10 higher instead. In a forgetting filter, a day passes,
    /// and then that key is inserted and refreshed.
    Remove(u64),
    Set(&'static str, &'static [u8]),
    Unset(&'static str),
    Grow,
    /// Makes a checkpoint of the earlier commits; the transaction continues.
    Checkpoint,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Makes a new filter; its first commit publishes it.
    Create,
    Open,
    Commit(Vec<Edit>),
    /// Makes changes, and rolls them back.
    Abandon(Vec<Edit>),
    Close,
    /// Creates an empty filter over the old one, and continues as its writer.
    Replace,
    Read,
}

/// The initial state of the folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Nothing,
    /// No filter, but a journal with commits, and the files of a dead creator.
    StrayJournal,
    /// A filter that its writer closed.
    Closed,
    /// A closed filter whose journal was removed.
    WithoutJournal,
    /// A closed filter with the empty journal of an earlier backup.
    OldJournal,
    /// A filter whose writer died during a doubling, with commits in the journal.
    Crashed,
    /// A closed filter that was just renamed, with its journal; the folder is not synced.
    Moved,
}

/// Steps that are recorded, made to fail, or cut short by the power.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) start: Start,
    pub(crate) capacity: u64,
    pub(crate) limits: Limits,
    pub(crate) steps: Vec<Step>,
}

pub(crate) const ONE_REGION: u64 = 10_000;
pub(crate) const TWO_REGIONS: u64 = 20_000;
/// A file that was never published: its name, and the number of its contents.
const STALE: (&str, u64) = ("f.gowk-gowk-new-00000000000000ab", 0xab);
const SEED: u64 = 1;
const OTHER_SEED: u64 = 2;

/// Keys of a forgetting filter are seen from this day on, and forgotten three days later. The filter's days are in the
/// past, so that the clock of a later program is right.
const FIRST_DAY: u64 = 20_000;
const DAY: Duration = Duration::from_secs(86_400);

/// A day at noon.
fn noon(day: u64) -> SystemTime {
    UNIX_EPOCH + DAY * day as u32 + DAY / 2
}

fn options(kind: Kind, capacity: u64) -> Options {
    let options = match kind {
        // An epoch lasts one day.
        Kind::Forgetting => Options::new().forget_after(14 * DAY).refresh(true),
        kind => Options::new().kind(kind),
    };
    options.capacity(capacity).slots_per_bucket(SlotsPerBucket::Two).seed(SEED)
}

/// A script while it runs.
pub(crate) struct Run {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) path: PathBuf,
    kind: Kind,
    options: Options,
    pub(crate) writer: Option<Writer>,
    /// All states that are or may be durable, by number.
    pub(crate) states: Vec<State>,
    /// The number of the last state that is certainly durable.
    pub(crate) durable: usize,
}

impl Run {
    /// Prepares `dir`, and records from then on.
    pub(crate) fn start(script: &Script, dir: &Path, fault: Option<Fault>) -> Self {
        let options = options(script.kind, script.capacity);
        let path = dir.join(FILTER);
        let state = prepare(script.start, script.kind, &options, dir);
        let mut history = History::of(&Image::read(dir).unwrap(), 0);
        let mut states = vec![state];
        if script.start == Start::Moved {
            history = moved(history);
            states.insert(0, State::default());
        }
        let recorder = Arc::new(Recorder::new(dir, history, script.limits, fault).unwrap());
        let options = options.disk(recorder.clone());
        Self { recorder, path, kind: script.kind, options, writer: None, durable: states.len() - 1, states }
    }

    /// The state that the next commit makes durable, if it succeeds.
    fn begin(&mut self, next: Contents) -> usize {
        self.states.push(State { filter: Some(next) });
        self.recorder.mark(Event::Began(self.states.len() - 1));
        self.states.len() - 1
    }

    fn acknowledge(&mut self, state: usize) {
        self.durable = state;
        self.recorder.mark(Event::Acknowledged(state));
    }

    /// From now on, only this state may be found.
    pub(crate) fn settle(&mut self, state: usize) {
        self.durable = state;
        self.recorder.mark(Event::Settled(state));
    }

    pub(crate) fn now(&self) -> &State {
        &self.states[self.durable]
    }

    /// Opens the filter through the recorder and reads its state.
    pub(crate) fn look(&self, opening: Opening) -> Result<State, String> {
        open_and_look(&self.path, &self.options, opening).map(|(state, _)| state)
    }

    pub(crate) fn do_step(&mut self, step: &Step) -> gowk::Result<()> {
        let then = match step {
            Step::Create | Step::Open | Step::Replace => InUse::Yes,
            Step::Close => InUse::No,
            Step::Commit(_) | Step::Abandon(_) | Step::Read => return self.try_step(step),
        };
        self.recorder.mark(Event::InUse(InUse::Changing));
        self.try_step(step)?;
        self.recorder.mark(Event::InUse(then));
        Ok(())
    }

    fn try_step(&mut self, step: &Step) -> gowk::Result<()> {
        match step {
            Step::Create => self.writer = Some(self.options.create(&self.path)?),
            Step::Open => {
                self.writer = Some(self.options.open_existing(&self.path)?);
                self.acknowledge(self.durable);
            }
            Step::Commit(edits) => {
                let next = self.edit(edits)?;
                let state = self.begin(next);
                self.commit(state)?;
            }
            Step::Abandon(edits) => {
                self.edit(edits)?;
                self.writer().rollback()?;
            }
            Step::Close => {
                if let Some(writer) = self.writer.take() {
                    writer.close()?;
                }
            }
            Step::Replace => {
                let commit = self.now().filter.as_ref().map_or(0, |filter| filter.commit) + 1;
                let state =
                    self.begin(Contents { kind: self.kind, seed: OTHER_SEED, commit, ..Contents::default() });
                let options = self.options.clone().seed(OTHER_SEED).force(true);
                self.writer = Some(options.create(&self.path)?);
                self.acknowledge(state);
            }
            Step::Read => {
                let mut found = self.look(Opening::Reader);
                // If a full disk prevents a reader from recovering, it answers from memory, beside a partly written
                // superblock.
                let in_part = "superblock_damaged: true";
                if self.recorder.struck().is_some()
                    && found.as_ref().is_err_and(|told| told.contains(in_part))
                {
                    found = self.look(Opening::Reader);
                }
                let expected = self.now();
                // Without a fault, a reader sees the last commit.
                assert!(found.is_err() || found.as_ref() == Ok(expected), "{found:?}");
                if let Err(message) = found {
                    let error = std::io::Error::other(message);
                    return Err(gowk::Error::Io {
                        path: self.path.clone(),
                        op: "look at",
                        source: error.into(),
                    });
                }
                self.acknowledge(self.durable);
            }
        }
        Ok(())
    }

    /// Commits the edits as the state with this number.
    pub(crate) fn commit(&mut self, state: usize) -> gowk::Result<()> {
        self.writer().commit()?;
        self.acknowledge(state);
        Ok(())
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("the script must open a writer first")
    }

    /// Changes the filter in an open transaction. Returns what the filter must then hold.
    fn edit(&mut self, edits: &[Edit]) -> gowk::Result<Contents> {
        let before = self.now().filter.clone();
        let new = Contents { kind: self.kind, seed: SEED, ..Contents::default() };
        let mut next = before.clone().unwrap_or(new);
        let writer = self.writer.as_mut().expect("the script must open a writer first");
        edits.iter().try_for_each(|edit| apply(*edit, writer, &mut next))?;
        // A commit without changes gets no number.
        next.commit += u64::from(before.as_ref() != Some(&next));
        let seen = look(writer).unwrap().filter.map(|seen| Contents { commit: next.commit, ..seen });
        assert_eq!(seen.as_ref(), Some(&next), "the writer does not see its own changes");
        Ok(next)
    }
}

fn apply(edit: Edit, writer: &mut Writer, next: &mut Contents) -> gowk::Result<()> {
    match edit {
        Edit::Insert(number) if next.kind == Kind::Forgetting => {
            let today = next.time.map_or(FIRST_DAY, |time| time / DAY.as_millis() as u64);
            // Keys with even numbers were seen twelve days ago, and expire in three days.
            let seen = if number % 2 == 0 { today - 12 } else { today };
            let is_new = !next.copies.contains_key(&number);
            let outcome = writer.insert_at(&key(number), noon(seen))?;
            assert_eq!(outcome, if is_new { Seen::New } else { Seen::Known });
            let until = next.until.0.entry(number).or_default();
            *until = (*until).max(seen + 15);
            next.copies.insert(number, 1);
            next.time = Some(next.time.unwrap_or(0).max(seen * DAY.as_millis() as u64));
        }
        Edit::Insert(number) => {
            let is_new = !next.copies.contains_key(&number);
            assert_eq!(writer.insert(&key(number))?, is_new);
            if is_new || next.kind == Kind::Counting {
                *next.copies.entry(number).or_default() += 1;
                next.inserted += 1;
            }
        }
        Edit::Remove(number) if next.kind == Kind::Set => {
            assert!(matches!(writer.remove(&key(number)), Err(Error::Kind { .. })));
            apply(Edit::Insert(number + 10), writer, next)?;
        }
        Edit::Remove(number) if next.kind == Kind::Forgetting => {
            assert!(matches!(writer.remove(&key(number)), Err(Error::Kind { .. })));
            let today = next.time.map_or(FIRST_DAY, |time| time / DAY.as_millis() as u64) + 1;
            next.time = Some(today * DAY.as_millis() as u64);
            let Until(until) = &mut next.until;
            until.retain(|_, day| *day > today);
            next.copies.retain(|number, _| until.contains_key(number));
            // An odd number: that key is seen today, so that the filter reaches this day.
            apply(Edit::Insert(number | 1), writer, next)?;
            apply(Edit::Insert((number + 10) & !1), writer, next)?;
        }
        Edit::Remove(number) => {
            assert!(writer.remove(&key(number))?);
            next.removed += 1;
            next.copies.entry(number).and_modify(|copies| *copies -= 1);
            next.copies.retain(|_, copies| *copies > 0);
        }
        Edit::Set(name, value) => {
            writer.metadata_mut()?.set(name, value);
            next.metadata.insert(name.to_owned(), value.to_vec());
        }
        Edit::Unset(name) => {
            writer.metadata_mut()?.remove(name);
            next.metadata.remove(name);
        }
        Edit::Checkpoint => writer.checkpoint()?,
        Edit::Grow => {
            writer.grow()?;
            next.generation += 1;
        }
    }
    Ok(())
}

/// The history of a folder that is on the medium, in which its files get other names.
fn moved(now: History) -> History {
    let names = now.names.iter().map(|(name, file)| (format!("before-{name}"), *file)).collect();
    let rename = |(name, file): (&String, &usize)| {
        let (from, to) = (format!("before-{name}"), name.clone());
        Event::Naming(Naming::Rename { from, to, file: *file })
    };
    let events = now.names.iter().map(rename).collect();
    History { names, events, states: (0, 1), ..now }
}

/// Puts `dir` into a script's initial state. Returns what the filter holds.
fn prepare(start: Start, kind: Kind, options: &Options, dir: &Path) -> State {
    if start == Start::Nothing {
        return State::default();
    }
    let path = dir.join(FILTER);
    let mut writer = options.create(&path).unwrap();
    let mut edits = vec![Edit::Insert(30), Edit::Insert(31), Edit::Insert(32), Edit::Set("a", b"before")];
    let mut contents = Contents { kind, seed: SEED, ..Contents::default() };
    for round in 0..3 {
        edits.iter().for_each(|edit| apply(*edit, &mut writer, &mut contents).unwrap());
        writer.commit().unwrap();
        contents.commit += 1;
        edits = vec![Edit::Insert(33 + round), Edit::Insert(30), Edit::Remove(31 + round)];
    }
    if start == Start::Crashed || start == Start::StrayJournal {
        let image = Image::read(dir).unwrap();
        drop(writer);
        // Copies, which no process has locked.
        image.write(dir).unwrap();
        let (name, number) = STALE;
        let left = [b"gowkmake".as_slice(), &number.to_le_bytes(), &[1; 5000]].concat();
        std::fs::write(dir.join(name), left).unwrap();
        if start == Start::StrayJournal {
            std::fs::remove_file(&path).unwrap();
            return State::default();
        }
    } else {
        writer.close().unwrap();
        let journal = dir.join(JOURNAL);
        let old = std::fs::read(&journal).unwrap();
        match start {
            Start::WithoutJournal => std::fs::remove_file(&journal).unwrap(),
            Start::OldJournal => {
                let mut writer = options.open_existing(&path).unwrap();
                apply(Edit::Insert(40), &mut writer, &mut contents).unwrap();
                writer.commit().unwrap();
                contents.commit += 1;
                writer.close().unwrap();
                std::fs::write(&journal, old).unwrap();
            }
            _ => {}
        }
    }
    State { filter: Some(contents) }
}
