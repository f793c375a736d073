//! Cuts the power: makes the images that a history allows, and checks that gowk opens each of them correctly.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use gowk::{Lookup, Options};

use super::history::{Event, FILTER, History, InUse, SECTOR, is_temporary};
use super::image::{Fate, Fill, Image, Tear};
use super::medium::{Kind, Medium, Unit};
use super::random::Random;
use super::record::{Fault, Limits, Recorder};
use super::state::{Opening, State, key, open_and_look};
use crate::thorough;

/// Of up to this many unsettled operations, all subsets are tried.
fn all_subsets() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| thorough::size("unsynced operations of which all subsets are tried", 8, 12))
}

/// Of more operations, this many random subsets are tried besides the regular ones.
const RANDOM_SUBSETS: usize = 64;
/// A write of up to this many sectors is torn at each sector.
const ALL_TEARS: usize = 8;
/// In one of this many images, the power is cut again during the recovery.
const SECOND_DEPTH: usize = 48;

/// Examines images, and counts them.
pub(crate) struct Examiner<'s> {
    name: &'s str,
    states: &'s [State],
    dir: tempfile::TempDir,
    /// Digests of images with their expected states: no image is examined twice.
    seen: HashSet<(u128, usize, usize)>,
    pub(crate) images: usize,
    /// How many of the images come from a recovery.
    pub(crate) second_depth: usize,
}

/// An image that is not made yet, and how it comes about.
struct Candidate<'a, 'h> {
    medium: &'a Medium<'h>,
    units: &'a [Unit],
    position: usize,
    /// The origin of the history, for messages.
    context: &'a str,
    origin: Origin,
}

/// How an image was chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// By rule. Two images that differ only in the live area count as one.
    Enumerated,
    /// At random. Two images that differ only in the live area count as two.
    Drawn,
    /// In a recovery.
    Recovery,
}

/// Who opens a dead process's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recoverer {
    Reader,
    Writer,
    /// A reader without the right to recover. It replays the journal in its own memory.
    DeniedReader,
}

impl Recoverer {
    /// How the file is opened, which call is denied, and what the file must finally say.
    const fn means(self) -> (Opening, Option<Fault>, InUse) {
        // A reader's first call syncs the folder. Its second call is the first of the recovery.
        let denied = Fault { call: 1, kind: ErrorKind::PermissionDenied, twice: false };
        match self {
            // The file may say "idle" in memory, but not on the medium.
            Self::Reader => (Opening::Reader, None, InUse::Changing),
            Self::Writer => (Opening::Writer, None, InUse::Yes),
            Self::DeniedReader => (Opening::Reader, Some(denied), InUse::Changing),
        }
    }
}

/// A folder for scratch files, in memory if the system has such a file system: these tests need no medium.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = tempfile::Builder::new().prefix("gowk-crash-").tempdir_in(memory);
    dir.or_else(|_| tempfile::tempdir()).unwrap()
}

impl<'s> Examiner<'s> {
    pub(crate) fn new(name: &'s str, states: &'s [State]) -> Self {
        Self { name, states, dir: scratch(), seen: HashSet::new(), images: 0, second_depth: 0 }
    }

    /// Examines every regular image of all cuts from `from` on.
    pub(crate) fn all(&mut self, history: &History, from: usize) {
        let mut medium = Medium::at(history, from);
        for position in history.cuts(from) {
            medium.advance(position);
            let units = medium.units();
            let candidate = Candidate {
                medium: &medium,
                units: &units,
                position,
                context: "",
                origin: Origin::Enumerated,
            };
            let mut random = Random::of(&[thorough::seed(position as u64)]);
            let mut all = subsets(&units, &mut random);
            all.extend(tears(&medium, &units, &mut random));
            for fates in all {
                self.examine(&candidate, &fates, &mut random);
            }
        }
    }

    /// Examines `count` more random images of cuts from `from` on, as long as there are new ones.
    pub(crate) fn some(&mut self, history: &History, from: usize, count: usize, seed: u64) {
        let cuts: Vec<usize> = history.cuts(from).collect();
        let (goal, mut vain) = (self.images + count, 0);
        let mut round = 0;
        while self.images < goal && vain < 2000 {
            let mut random = Random::of(&[thorough::seed(seed), round]);
            round += 1;
            let position = cuts[random.below(cuts.len())];
            let medium = Medium::at(history, position);
            let units = medium.units();
            let candidate =
                Candidate { medium: &medium, units: &units, position, context: "", origin: Origin::Drawn };
            for _ in 0..8 {
                let before = self.images;
                let fates = any_fates(&medium, &units, &mut random);
                self.examine(&candidate, &fates, &mut random);
                vain = if self.images == before { vain + 1 } else { 0 };
            }
        }
    }

    /// At each moment, the process dies with nothing flushed; another process recovers what memory shows; then the power
    /// fails.
    pub(crate) fn deaths(&mut self, history: &History, from: usize) {
        let mut medium = Medium::at(history, from);
        for position in history.cuts(from) {
            medium.advance(position);
            let by = if position % 2 == 0 { Recoverer::Reader } else { Recoverer::Writer };
            for by in [by, Recoverer::DeniedReader] {
                let context = format!("process died after event {position}, then {by:?} opens; ");
                medium.memory().write(self.dir.path()).unwrap();
                self.recover_and_cut(history.cut(position), medium.states, by, &context);
            }
        }
    }

    /// Opens the filter in the folder, and cuts the power during the opening.
    fn recover_and_cut(&mut self, past: History, states: (usize, usize), by: Recoverer, context: &str) {
        let from = past.events.len();
        let (opening, fault, says) = by.means();
        let recorder = Arc::new(Recorder::new(self.dir.path(), past, Limits::NONE, fault).unwrap());
        recorder.mark(Event::InUse(InUse::Changing));
        let options = Options::new().disk(recorder.clone());
        let found = open_and_look(&self.dir.path().join(FILTER), &options, opening);
        let (state, writer) = found.unwrap_or_else(|message| panic!("{}: {context}{message}", self.name));
        let number = self.number(&state, states);
        let number = number.unwrap_or_else(|message| panic!("{}: {context}{message}", self.name));
        // A state that was seen must not be lost.
        recorder.mark(Event::Settled(number));
        recorder.mark(Event::InUse(says));
        let history = recorder.history();
        drop(writer);
        let mut medium = Medium::at(&history, from);
        for position in history.cuts(from) {
            medium.advance(position);
            let units = medium.units();
            let candidate =
                Candidate { medium: &medium, units: &units, position, context, origin: Origin::Recovery };
            let mut random = Random::of(&[thorough::seed(from as u64), position as u64]);
            for fates in samples(&medium, &units, &mut random) {
                self.examine(&candidate, &fates, &mut random);
            }
        }
    }

    /// The number of the state that was found. Fails if it is not an expected state.
    fn number(&self, found: &State, (first, last): (usize, usize)) -> Result<usize, String> {
        let numbers = (first..=last).find(|number| self.states[*number] == *found);
        numbers.ok_or_else(|| format!("found {found:?}, expected one of {:?}", &self.states[first..=last]))
    }

    fn examine(&mut self, candidate: &Candidate<'_, '_>, fates: &[Fate], random: &mut Random) {
        let Candidate { medium, units, position, context, origin } = *candidate;
        let states = medium.states;
        let mut image = medium.image(units, fates);
        let (fill, opening, dive) = (any_fill(random), any_opening(random), random.chance(SECOND_DEPTH));
        let digest = image.digest();
        medium.fill(&mut image, fill);
        let digest = if origin == Origin::Drawn { image.full_digest() } else { digest };
        if !self.seen.insert((digest, states.0, states.1)) {
            return;
        }
        self.images += 1;
        let told = || describe(candidate, fates, fill, opening);
        assert!(
            medium.says_truly(&image),
            "{}: power cut after event {position}: {}\nin use?",
            self.name,
            told()
        );
        image.write(self.dir.path()).unwrap();
        let found = self.works(&image, states, opening);
        let found = found.and_then(|number| self.is_whole_alone(&image, number).map(|()| number));
        let number = found.unwrap_or_else(|message| {
            panic!("{}: {context}power cut after event {position}: {}\n{message}", self.name, told())
        });
        if origin != Origin::Recovery && dive {
            let context = format!("after event {position}: {}; {opening:?} recovers; ", told());
            image.write(self.dir.path()).unwrap();
            let before = self.images;
            let by = if opening == Opening::Reader { Recoverer::Reader } else { Recoverer::Writer };
            self.recover_and_cut(History::of(&image, number), (number, number), by, &context);
            self.second_depth += self.images - before;
        }
    }

    /// A file that says "idle" can be copied without its journal, and has every commit.
    fn is_whole_alone(&self, image: &Image, number: usize) -> Result<(), String> {
        if image.is_idle() != Some(true) {
            return Ok(());
        }
        let mut alone = image.clone();
        alone.0.retain(|name, _| name == FILTER);
        alone.write(self.dir.path()).unwrap();
        is_right(&self.dir.path().join(FILTER), &self.states[number])
            .map_err(|message| format!("the file alone: {message}"))
    }

    /// Opens the image in the folder, checks it, makes another commit, and checks it again.
    fn works(&self, image: &Image, states: (usize, usize), opening: Opening) -> Result<usize, String> {
        let path = self.dir.path().join(FILTER);
        let options = Options::new();
        let (found, writer) = open_and_look(&path, &options, opening)?;
        let number = self.number(&found, states)?;
        let told = |error: gowk::Error| format!("going on: {error} ({error:?})");
        let mut writer = match (writer, &found.filter) {
            (Some(writer), _) => writer,
            (None, None) => options.create(&path).map_err(told)?,
            (None, Some(_)) => options.open_existing(&path).map_err(told)?,
        };
        let fresh = key(1000 + image.0.len() as u64);
        // At the filter's own time: by the clock, it would forget all its keys.
        let before = writer.info().map_err(told)?;
        if let Some(time) = before.time {
            writer.insert_at(fresh, UNIX_EPOCH + Duration::from_millis(time)).map_err(told)?;
        } else {
            writer.insert(fresh).map_err(told)?;
        }
        writer.commit().map_err(told)?;
        if let Some(stale) = Image::read(self.dir.path()).unwrap().0.keys().find(|name| is_temporary(name)) {
            return Err(format!("a writer has left the stale file {stale}"));
        }
        let reader = options.read(&path).map_err(told)?;
        let (commit, entries) =
            found.filter.map_or((0, 0), |filter| (filter.commit, filter.copies.values().sum::<u32>()));
        let info = reader.info().map_err(told)?;
        let clean = reader.verify(&|_, _| {}).map_err(told)?.is_clean();
        // A forgetting filter may also hold expired entries.
        let entries = if info.kind == gowk::Kind::Forgetting {
            info.copies.max(u64::from(entries) + 1)
        } else {
            u64::from(entries) + 1
        };
        let right = (info.commit, info.copies) == (commit + 1, entries);
        if !right || !clean || !reader.contains(&fresh).map_err(told)? {
            return Err(format!("after one more commit: clean {clean}, {info:?}"));
        }
        Ok(number)
    }
}

fn describe(candidate: &Candidate<'_, '_>, fates: &[Fate], fill: Fill, opening: Opening) -> String {
    let mut text = format!("live area {fill:?}, opened by {opening:?}, states {:?}", candidate.medium.states);
    for (unit, fate) in candidate.units.iter().zip(fates) {
        let _ = write!(text, "\n  {fate:?}: event {} {}", unit.event, candidate.medium.describe(*unit));
    }
    text
}

fn any_opening(random: &mut Random) -> Opening {
    if random.chance(2) { Opening::Reader } else { Opening::Writer }
}

fn any_fill(random: &mut Random) -> Fill {
    match random.below(6) {
        0 => Fill::Old,
        1 => Fill::New,
        2 => Fill::Zeros,
        3 => Fill::Ones,
        4 => Fill::Noise(random.next()),
        _ => Fill::Mixed(random.next()),
    }
}

const fn kept(kept: bool) -> Fate {
    if kept { Fate::Kept } else { Fate::Lost }
}

/// All subsets of a few operations. Of many operations: each prefix, all but each one, each one alone, and some subsets
/// at random.
fn subsets(units: &[Unit], random: &mut Random) -> Vec<Vec<Fate>> {
    let count = units.len();
    if count <= all_subsets() {
        let subset = |set: usize| (0..count).map(|unit| kept(set >> unit & 1 == 1)).collect();
        return (0..1 << count).map(subset).collect();
    }
    let chosen = |rule: fn(usize, usize) -> bool| {
        (0..=count).map(move |chosen| (0..count).map(|unit| kept(rule(unit, chosen))).collect())
    };
    let mut all: Vec<Vec<Fate>> = chosen(|unit, length| unit < length).collect();
    all.extend(chosen(|unit, left_out| unit != left_out));
    all.extend(chosen(|unit, alone| unit == alone));
    all.extend((0..RANDOM_SUBSETS).map(|_| (0..count).map(|_| kept(random.chance(2))).collect()));
    all
}

/// Images in which the last operation is torn in every way, with all, none or some of the other operations; and images
/// with several torn operations.
fn tears(medium: &Medium<'_>, units: &[Unit], random: &mut Random) -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    let Some((last, others)) = units.split_last() else { return all };
    for tear in ways_to_tear(medium, *last, random) {
        let some: Vec<Fate> = others.iter().map(|_| kept(random.chance(2))).collect();
        for others in [vec![Fate::Kept; others.len()], vec![Fate::Lost; others.len()], some] {
            all.push([others, vec![Fate::Torn(tear)]].concat());
        }
    }
    all.extend((0..8).map(|_| any_fates(medium, units, random)));
    all
}

fn ways_to_tear(medium: &Medium<'_>, unit: Unit, random: &mut Random) -> Vec<Tear> {
    if medium.written(unit).is_none() && !matches!(unit.kind, Kind::Temporary(_)) {
        return Vec::new();
    }
    let mut ways =
        vec![Tear::Sectors(random.next()), Tear::Sectors(random.next()), Tear::Bytes(random.next())];
    let Some(bytes) = medium.written(unit) else { return ways };
    let sectors = bytes.div_ceil(SECTOR);
    if sectors <= ALL_TEARS {
        ways.extend((1..sectors).flat_map(|border| [Tear::First(border), Tear::Last(border)]));
    } else {
        let mut borders = vec![1, sectors - 1];
        borders.extend((0..4).map(|_| 1 + random.below(sectors - 1)));
        ways.extend(borders.into_iter().flat_map(|border| [Tear::First(border), Tear::Last(border)]));
    }
    ways
}

/// One random fate for each operation.
fn any_fates(medium: &Medium<'_>, units: &[Unit], random: &mut Random) -> Vec<Fate> {
    let torn = 1 + random.below(3);
    units
        .iter()
        .map(|unit| {
            let ways = if random.chance(4) || torn == 1 && random.chance(2) {
                ways_to_tear(medium, *unit, random)
            } else {
                Vec::new()
            };
            match ways.len() {
                0 => kept(random.chance(2)),
                ways_there => Fate::Torn(ways[random.below(ways_there)]),
            }
        })
        .collect()
}

/// A few images of each kind, for cuts during recoveries.
fn samples(medium: &Medium<'_>, units: &[Unit], random: &mut Random) -> Vec<Vec<Fate>> {
    let count = units.len();
    let mut all = vec![vec![Fate::Lost; count], vec![Fate::Kept; count]];
    if count > 0 {
        let chosen = random.below(count);
        all.push((0..count).map(|unit| kept(unit == chosen)).collect());
        all.push((0..count).map(|unit| kept(unit != chosen)).collect());
        all.push((0..count).map(|unit| kept(unit < chosen)).collect());
        all.push((0..count).map(|unit| kept(unit >= chosen)).collect());
        all.push((0..count).map(|_| kept(random.chance(2))).collect());
        all.extend((0..3).map(|_| any_fates(medium, units, random)));
        let ways = ways_to_tear(medium, units[count - 1], random);
        if !ways.is_empty() {
            let tear = Fate::Torn(ways[random.below(ways.len())]);
            all.push((0..count).map(|unit| if unit + 1 == count { tear } else { Fate::Kept }).collect());
        }
    }
    all
}

/// Checks that a filter holds what it should.
pub(crate) fn is_right(path: &Path, expected: &State) -> Result<(), String> {
    let (found, _) = open_and_look(path, &Options::new(), Opening::Reader)?;
    if found == *expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}
