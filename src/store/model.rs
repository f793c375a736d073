//! Every order in which two committers, a reader and a vacuum can take turns and die, in a small model.
//!
//! A process runs one of the programs below, one step at a time and in any order with the others, and can die between any
//! two steps. A listing is one step, and so is each change of a folder. The vacuum has no grace: it removes at once
//! whatever it may ever remove. Power cuts are left to `tests/store`, which has the real operations.
//!
//! Invariants checked, in every state that can be reached:
//!
//! 1. Every version that must stay exists, and names files that exist. These are the versions from `first` of the last
//!    vacuum's version on, and the base of each application's last token. Each token here belongs to an application of
//!    its own.
//! 2. An acknowledged commit is in the newest version; a refused commit is in none.
//! 3. A version has everything of the previous version, except for the shards that it changes itself.
//! 4. No token is in two versions.
//! 5. A reader finds the files of its version, or learns that the version was vacuumed.
//! 6. From every state, all live processes can reach their ends. A last vacuum then leaves exactly the newest version,
//!    the bases of its tokens, and the files that these name.
//!
//! All this holds in a folder and in an object store, in which the number of a vacuumed version can be used again. A
//! version with such a number does not count: invariants 3 and 4 are about versions that count.
//!
//! That the model is of this code: the real code makes the calls to the storage and the disk that the programs name, in
//! the same order. That the model can fail: each of a list of changes to the programs violates an invariant.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::{Name, incoming};
use super::interrupted::{Operation, Shared};
use super::storage::watched::{Verdict, Watched};
use super::{Change, Store};
use crate::disk::{Disk, SystemDisk};
use crate::explorer::{self, Model, Outcome, assert_each_breaks, explore};
use crate::store::Vacuum;
use crate::{Batches as _, Options};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// Chooses the version on which the update is based.
    Begin,
    /// Makes the file of the shard.
    Seal,
    /// Lists the versions.
    List,
    /// Reads the newest version; starts over if it is gone.
    Load,
    /// Ends if the loaded version has the token.
    CheckToken,
    /// Ends with a conflict if the shard has changed since the base.
    CheckConflict,
    /// Ends with an error if the base is below the fence.
    CheckFence,
    /// Reads the versions that stay; starts over if one is gone.
    ReadStaying,
    Draft,
    /// Starts over if a newer version exists.
    ListAgain,
    /// Starts over if the number is taken or the draft is gone.
    Link,
    /// In an object store: starts over if the number is taken. Needs no draft.
    Put,
    /// Starts over if `first` of the newest version is above the number that was put.
    LookAfter,
    DropDraft,
    Acknowledge,
    /// Removes the drafts that are based on versions below the fence.
    SweepDrafts,
    /// Removes the versions below the first that stays, one at a time.
    SweepVersions,
    /// Removes the files that may be removed, one at a time.
    SweepFiles,
    /// Opens the file of one shard, then of the other.
    Look,
    End,
}
use Step::*;

/// The calls to the storage and the disk that the real code makes in a step.
const fn calls(step: Step) -> &'static [&'static str] {
    match step {
        LookAfter => &["list versions"],
        Put => &["put version"],
        List | ListAgain => &["list versions", "measure version"],
        // The second call comes from reading the newest version.
        Load => &["get version", "sync versions"],
        CheckFence => &["measure file"],
        // The listings show files that could be removed.
        ReadStaying => &["list versions", "list shards", "list runs", "list incoming"],
        Draft => &["create draft", "write draft", "sync draft"],
        Link => &["link draft"],
        DropDraft => &["remove draft", "sync versions"],
        SweepDrafts => &["list incoming", "remove draft", "sync incoming"],
        SweepVersions => &["list versions", "remove version"],
        SweepFiles => &["list shards", "remove file", "list runs", "list incoming"],
        _ => &[],
    }
}

/// Like `calls`, in an object store of two shards.
const fn calls_of_objects(step: Step) -> &'static [&'static str] {
    match step {
        List => &["list versions"],
        Load => &["get version", "settle versions"],
        Put => &["put version", "settle versions"],
        SweepVersions => &["list incoming", "settle incoming", "list versions", "delete version"],
        SweepFiles => &["list shards", "delete file", "list shards", "list runs", "list incoming"],
        step => calls(step),
    }
}

type Programs = explorer::Programs<Step>;

const COMMIT: usize = 0;
const VACUUM: usize = 1;
const READ: usize = 2;

fn programs() -> Programs {
    explorer::Programs(vec![
        vec![
            Begin,
            Seal,
            List,
            Load,
            CheckToken,
            CheckConflict,
            CheckFence,
            Draft,
            ListAgain,
            Link,
            DropDraft,
            Acknowledge,
            End,
        ],
        vec![
            List,
            Load,
            ReadStaying,
            Draft,
            ListAgain,
            Link,
            DropDraft,
            SweepDrafts,
            SweepVersions,
            SweepFiles,
            End,
        ],
        vec![List, Load, Look, End],
    ])
}

/// The programs over an object store.
fn of_objects() -> Programs {
    let without = |program: &Vec<Step>| -> Vec<Step> {
        let steps =
            program.iter().filter(|step| !matches!(step, Draft | ListAgain | DropDraft | SweepDrafts));
        steps.flat_map(|step| if *step == Link { vec![Put, LookAfter] } else { vec![*step] }).collect()
    };
    explorer::Programs(programs().0.iter().map(without).collect())
}

/// How many versions there can be; number 0 means none.
const VERSIONS: usize = 8;
const SHARDS: usize = 2;
const TOKENS: usize = 3;
/// How many files all updates make together; file 0 means none.
const FILES: usize = 6;

/// A version. Its file of a shard is 0 if the shard is empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Version {
    files: [u8; SHARDS],
    since: [u8; SHARDS],
    first: u8,
    fence: u8,
    /// Bits of the tokens in the version, and of its own token.
    tokens: u8,
    made: u8,
    /// The base of each token in the version.
    bases: [u8; TOKENS],
}

impl Version {
    fn keeps(&self, number: u8) -> bool {
        number >= self.first || self.bases.contains(&number)
    }

    /// Bits of the files that the version names.
    fn named(&self) -> u8 {
        self.files.iter().fold(0, |all, file| all | 1 << file)
    }
}

/// The kind and the state of a process. All kinds share one form, so that a world is small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    program: u8,
    at: u8,
    /// Of a committer: its shard, and the bit of its token.
    shard: u8,
    token: u8,
    base: u8,
    file: u8,
    newest: u8,
    /// The version that the process loaded.
    loaded: Version,
    /// Of a vacuum: bits of the files that must stay.
    staying: u8,
    /// The version on which its draft was built; 0 means none.
    draft: u8,
    /// How many updates may still be started over.
    left: u8,
    ended: bool,
    dead: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    versions: [Option<Version>; VERSIONS],
    /// The version that was published last, and its number.
    last: Version,
    highest: u8,
    /// Bits of the tokens that any version has used.
    tokens: u8,
    /// The base of each file that exists, and the bits of the tokens whose keys it holds.
    files: [Option<(u8, u8)>; FILES],
    made: u8,
    acknowledged: u8,
    deaths: u8,
    processes: [Option<Process>; 4],
}

/// Who takes part: the program, the shard and the token.
type Part = Option<(usize, u8, u8)>;

impl World {
    fn new(parts: [Part; 4], rounds: u8, deaths: u8) -> Self {
        let first = Version { first: 1, ..Version::default() };
        let mut versions = [None; VERSIONS];
        versions[1] = Some(first);
        let processes = parts.map(|part| part.map(|part| Process::new(part, rounds)));
        let files = [None; FILES];
        Self {
            versions,
            last: first,
            highest: 1,
            tokens: 0,
            files,
            made: 0,
            acknowledged: 0,
            deaths,
            processes,
        }
    }

    fn newest(&self) -> u8 {
        (1..VERSIONS).rev().find(|number| self.versions[*number].is_some()).unwrap_or_default() as u8
    }

    fn version(&self, number: u8) -> Option<Version> {
        self.versions[usize::from(number)]
    }

    fn holds(&self) -> Outcome<()> {
        let newest = self.newest();
        let now = self.version(newest).ok_or("there is no version")?;
        for number in 1..=newest {
            if !now.keeps(number) {
                continue;
            }
            let version = self.version(number).ok_or_else(|| format!("version {number} is gone"))?;
            for file in version.files.into_iter().filter(|file| *file > 0) {
                if self.files[usize::from(file)].is_none() {
                    return Err(format!("version {number} names a file that is gone"));
                }
            }
        }
        let held = now.files.map(|file| self.files[usize::from(file)].map_or(0, |(_, held)| held));
        if self.acknowledged & !(now.tokens & held.into_iter().fold(0, |all, held| all | held)) != 0 {
            return Err("an acknowledged commit is lost".to_owned());
        }
        Ok(())
    }

    fn one_step(&self, index: usize, programs: &Programs) -> Outcome<Option<Self>> {
        let Some(process) = self.processes[index].filter(|process| !process.ended && !process.dead) else {
            return Ok(None);
        };
        let program = &programs.0[usize::from(process.program)];
        let step = program[usize::from(process.at)];
        let mut next = *self;
        let Some(me) = next.processes[index].as_mut() else { return Ok(None) };
        me.at += 1;
        let start_over = |me: &mut Process| {
            me.at = program.iter().position(|step| *step == List).unwrap_or_default() as u8;
            (me.newest, me.loaded, me.staying, me.draft) = (0, Version::default(), 0, 0);
        };
        let newest = self.newest();
        match step {
            Begin => {
                me.base = newest;
                me.file = self.version(newest).unwrap_or_default().files[usize::from(me.shard)];
            }
            Seal => match (me.file, self.files[usize::from(me.file)]) {
                // A vacuum has removed the file that the process would copy.
                (1.., None) => refused(me),
                (_, copied) => {
                    let file = self.made + 1;
                    me.file = file;
                    let held = copied.map_or(0, |(_, held)| held) | me.token;
                    next.files[usize::from(file)] = Some((me.base, held));
                    next.made = file;
                }
            },
            List => me.newest = newest,
            Load => match self.version(process.newest) {
                Some(version) => me.loaded = version,
                None => start_over(me),
            },
            CheckToken if process.loaded.tokens & process.token != 0 => {
                me.ended = true;
                // The commit is already done.
                next.acknowledged |= process.token;
            }
            CheckConflict if process.loaded.since[usize::from(process.shard)] > process.base => refused(me),
            CheckFence if process.base < process.loaded.fence => refused(me),
            ReadStaying => {
                // The newest version was already loaded, and is not read again.
                me.staying |= process.loaded.named();
                for number in (1..process.newest).filter(|number| process.loaded.bases.contains(number)) {
                    match self.version(number) {
                        Some(version) => me.staying |= version.named(),
                        None if newest == process.newest => return Err("a version is gone".to_owned()),
                        None => {
                            start_over(me);
                            break;
                        }
                    }
                }
            }
            Draft => me.draft = process.newest,
            ListAgain if newest != process.newest => start_over(me),
            Link | Put => {
                let number = usize::from(process.newest) + 1;
                if step == Link && process.draft == 0 || self.versions[number].is_some() {
                    start_over(me);
                } else if step == Put && number <= usize::from(self.highest) {
                    next.versions[number] = Some(process.publishes(number as u8));
                } else {
                    let version = process.publishes(number as u8);
                    if number != usize::from(self.highest) + 1 {
                        return Err(format!("number {number} is given after {}", self.highest));
                    }
                    if process.loaded != self.last {
                        return Err(format!("version {number} does not continue the one before it"));
                    }
                    if self.tokens & version.made != 0 {
                        return Err("a token was made twice".to_owned());
                    }
                    next.versions[number] = Some(version);
                    (next.last, next.highest) = (version, number as u8);
                    next.tokens |= version.made;
                }
            }
            LookAfter if self.version(newest).unwrap_or_default().first > process.newest + 1 => {
                // A vacuum that starts over behaves like a new one, so the model ends it here.
                if usize::from(process.program) == VACUUM { me.ended = true } else { start_over(me) }
            }
            DropDraft => me.draft = 0,
            Acknowledge => next.acknowledged |= process.token,
            SweepDrafts => {
                let fence = process.newest + 1;
                let drafts = next.processes.iter_mut().flatten();
                drafts
                    .filter(|other| other.draft > 0 && other.draft < fence)
                    .for_each(|other| other.draft = 0);
            }
            SweepVersions => {
                let goes =
                    |number: &u8| self.version(*number).is_some() && !process.loaded.bases.contains(number);
                if let Some(number) = (1..=process.newest).find(goes) {
                    next.versions[usize::from(number)] = None;
                    me.at -= 1;
                }
            }
            SweepFiles => {
                let goes = |(file, base): (usize, Option<(u8, u8)>)| {
                    base.is_some_and(|(base, _)| base <= process.newest) && process.staying >> file & 1 == 0
                };
                if let Some(file) = (1..FILES).find(|file| goes((*file, self.files[*file]))) {
                    next.files[file] = None;
                    me.at -= 1;
                }
            }
            Look => {
                let stays = self.version(newest).is_some_and(|version| version.keeps(process.newest));
                let missing = process.loaded.files[usize::from(process.shard)];
                if missing > 0 && self.files[usize::from(missing)].is_none() && stays {
                    return Err("a reader misses a file, and is not told why".to_owned());
                }
                // The other shard is looked up later.
                if process.shard == 0 {
                    (me.shard, me.at) = (1, process.at);
                }
            }
            End => me.ended = true,
            CheckToken | CheckConflict | CheckFence | ListAgain | LookAfter => {}
        }
        if next.made as usize + 1 >= FILES || usize::from(next.newest()) + 1 >= VERSIONS {
            return Err("the model is too small".to_owned());
        }
        Ok(Some(next))
    }
}

impl Model for World {
    type Step = Step;

    const PROCESSES: usize = 4;

    fn check(&self, programs: &Programs) -> Outcome<()> {
        self.holds()?;
        if self.is_over() { last_vacuum(*self, programs) } else { Ok(()) }
    }

    /// The world after the next step of this process, and after further steps that no other process can observe: they
    /// only look at loaded data.
    fn after(&self, index: usize, programs: &Programs) -> Outcome<Vec<Self>> {
        let Some(mut next) = self.one_step(index, programs)? else { return Ok(Vec::new()) };
        loop {
            let process = next.processes[index].filter(|process| !process.ended);
            let step = process.map(|me| programs.0[usize::from(me.program)][usize::from(me.at)]);
            let is_own = |step| matches!(step, CheckToken | CheckConflict | CheckFence | Acknowledge | End);
            match step.filter(|step| is_own(*step)) {
                Some(_) => next = next.one_step(index, programs)?.unwrap_or(next),
                None => break,
            }
        }
        if let Some(me) = next.processes[index].as_mut().filter(|me| me.ended) {
            *me = Process { ended: true, draft: me.draft, ..Process::new((COMMIT, 0, 0), 0) };
        }
        Ok(vec![next])
    }

    fn after_death(&self, index: usize) -> Option<Self> {
        let process = self.processes[index].filter(|process| !process.dead && !process.ended)?;
        let mut next = *self;
        next.deaths = self.deaths.checked_sub(1)?;
        // Its draft remains, and nothing else of the process matters.
        let Process { draft, .. } = process;
        next.processes[index] = Some(Process { dead: true, draft, ..Process::new((COMMIT, 0, 0), 0) });
        Some(next)
    }

    fn is_over(&self) -> bool {
        self.processes.iter().flatten().all(|process| process.ended || process.dead)
    }
}

/// A committer finds that its update is void, and begins another update or gives up.
fn refused(me: &mut Process) {
    let part = (usize::from(me.program), me.shard, me.token);
    *me = Process { ended: me.left == 0, ..Process::new(part, me.left.saturating_sub(1)) };
}

impl Process {
    fn new((program, shard, token): (usize, u8, u8), left: u8) -> Self {
        Self {
            program: program as u8,
            at: 0,
            shard,
            token,
            base: 0,
            file: 0,
            newest: 0,
            loaded: Version::default(),
            staying: 0,
            draft: 0,
            left,
            ended: false,
            dead: false,
        }
    }

    /// The version that the process publishes on top of the loaded version.
    fn publishes(&self, number: u8) -> Version {
        let mut version = Version { made: self.token, ..self.loaded };
        if usize::from(self.program) == VACUUM {
            (version.first, version.fence) = (number, number);
        } else {
            version.files[usize::from(self.shard)] = self.file;
            version.since[usize::from(self.shard)] = number;
            version.tokens |= self.token;
            version.bases[self.token.trailing_zeros() as usize] = self.base;
        }
        version
    }
}

/// A vacuum after all other processes are gone.
fn last_vacuum(mut world: World, programs: &Programs) -> Outcome<()> {
    let drafts = world.processes.iter().flatten().any(|process| process.draft > 0);
    world.processes[3] = V.map(|part| Process::new(part, 0));
    world.processes[..3].iter_mut().flatten().for_each(|process| process.ended = true);
    for _ in 0..100 {
        if world.is_over() {
            break;
        }
        world = *world.after(3, programs)?.first().ok_or("a vacuum stands still")?;
        world.holds()?;
    }
    if !world.is_over() {
        return Err("a vacuum comes to no end".to_owned());
    }
    let now = world.version(world.newest()).unwrap_or_default();
    let files = (1..FILES).filter(|file| world.files[*file].is_some());
    let bases = (1..world.newest()).filter(|number| now.bases.contains(number));
    let (mut staying, mut all) = (now.named(), 1);
    for base in bases {
        staying |= world.version(base).unwrap_or_default().named();
        all += 1;
    }
    let stray = files.filter(|file| staying >> file & 1 == 0).count();
    let versions = world.versions.iter().flatten().count();
    let left = world.processes.iter().flatten().any(|process| process.draft > 0);
    if stray > 0 || versions != all || left {
        return Err(format!("a vacuum left {stray} files, {versions} versions, a draft {drafts}, {left}"));
    }
    Ok(())
}

const V: Part = Some((VACUUM, 0, 0));
const R: Part = Some((READ, 0, 0));
/// Committers: of shard 0, of the other shard, and of the same token.
const A: Part = Some((COMMIT, 0, 1));
const B: Part = Some((COMMIT, 0, 2));
const C: Part = Some((COMMIT, 1, 4));

/// Each cast: who takes part, how often an update is made again, and how many die.
const CASTS: [([Part; 4], u8, u8); 5] = [
    ([A, B, V, None], 1, 1),
    ([A, C, V, None], 0, 2),
    ([A, A, V, None], 0, 2),
    ([A, V, V, None], 1, 1),
    ([A, V, R, None], 1, 1),
];

#[test]
fn no_order_of_steps_and_deaths_breaks_an_invariant() {
    let mut told = String::new();
    for (cast, rounds, deaths) in CASTS {
        let states = explore(World::new(cast, rounds, deaths), &programs()).unwrap();
        writeln!(told, "{cast:?}, {rounds} rounds, {deaths} deaths: {states} states").unwrap();
        assert!(states > 500);
    }
    for (cast, rounds, deaths) in CASTS {
        let states = explore(World::new(cast, rounds, deaths), &of_objects()).unwrap();
        writeln!(told, "objects: {cast:?}, {rounds} rounds, {deaths} deaths: {states} states").unwrap();
        assert!(states > 500);
    }
    for programs in [programs(), of_objects()] {
        let all = explore(World::new([A, C, V, R], 0, 1), &programs).unwrap();
        writeln!(told, "two committers, a vacuum, a reader, 1 death: {all} states").unwrap();
    }
    print!("{told}");
}

const NAMES: [&str; 3] = ["commit", "vacuum", "read"];

/// The steps left out, and the neighbours swapped, that break an invariant without a power cut. The others change the
/// order of looks at loaded data, or leave out protection that another step also gives.
const BREAKING: [&str; 27] = [
    "commit: without Seal",
    "commit: without Load",
    "commit: without CheckToken",
    "commit: without CheckConflict",
    "commit: without CheckFence",
    "commit: without Draft",
    "commit: without ListAgain",
    "commit: without Link",
    "commit: Seal before Begin",
    "commit: Load before List",
    "commit: CheckToken before Load",
    "commit: ListAgain before Draft",
    "commit: Link before ListAgain",
    "commit: DropDraft before Link",
    "vacuum: without List",
    "vacuum: without Load",
    "vacuum: without ReadStaying",
    "vacuum: without Draft",
    "vacuum: without ListAgain",
    "vacuum: without Link",
    "vacuum: without SweepDrafts",
    "vacuum: without SweepVersions",
    "vacuum: without SweepFiles",
    "vacuum: Load before List",
    "vacuum: ListAgain before Draft",
    "vacuum: SweepVersions before SweepDrafts",
    "read: without List",
];

/// Like `BREAKING`, in an object store. Some need two vacuums while a committer stands still.
const BREAKING_OF_OBJECTS: [&str; 20] = [
    "commit: without Seal",
    "commit: without Load",
    "commit: without CheckToken",
    "commit: without CheckConflict",
    "commit: without CheckFence",
    "commit: without Put",
    "commit: without LookAfter",
    "commit: Seal before Begin",
    "commit: Load before List",
    "commit: CheckToken before Load",
    "commit: LookAfter before Put",
    "vacuum: without List",
    "vacuum: without Load",
    "vacuum: without ReadStaying",
    "vacuum: without Put",
    "vacuum: without LookAfter",
    "vacuum: without SweepVersions",
    "vacuum: without SweepFiles",
    "vacuum: Load before List",
    "read: without List",
];

#[test]
fn removing_or_swapping_steps_breaks_an_invariant() {
    let starts = CASTS.map(|(cast, rounds, deaths)| World::new(cast, rounds, deaths));
    assert_each_breaks(&starts, &programs(), &NAMES, &BREAKING);
    assert_each_breaks(&starts, &of_objects(), &NAMES, &BREAKING_OF_OBJECTS);
}

/// A program's calls to the storage and the disk.
fn calls_of(
    programs: &Programs,
    calls: fn(Step) -> &'static [&'static str],
    program: usize,
) -> Vec<&'static str> {
    let mut told: Vec<&str> = programs.0[program].iter().flat_map(|step| calls(*step)).copied().collect();
    told.dedup();
    told
}

/// Records the calls to the disk, as `calls_of` does. Calls that only read are recorded one level above, at the storage.
#[derive(Debug, Default)]
struct Probe(Mutex<Vec<String>>);

impl Probe {
    fn tell(&self, call: &str, path: &Path) {
        let folder =
            path.parent().unwrap_or(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what = match folder.as_str() {
            "incoming" => "draft",
            "versions" => "version",
            _ => "file",
        };
        self.0.lock().unwrap().push(format!("{call} {what}"));
    }
}

impl Disk for Probe {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.tell("create", path);
        SystemDisk.create(path, mode)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap().push("write draft".to_owned());
        SystemDisk.write_at(file, bytes, offset)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.0.lock().unwrap().push("sync draft".to_owned());
        SystemDisk.sync(file)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell("link", from);
        SystemDisk.link(from, to)
    }
    fn rename(&self, from: &Path, _: &Path, _: bool) -> io::Result<()> {
        panic!("{from:?} is renamed")
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.tell("remove", path);
        SystemDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.0.lock().unwrap().push(format!("sync {name}"));
        SystemDisk.sync_dir(dir)
    }
}

#[test]
fn the_real_code_takes_the_steps_of_the_programs() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path().join("s"), 1, &Options::new()).unwrap();
    for key in [b"a", b"c"] {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&[key]).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&[b"b"]).unwrap().complete().unwrap();
    let (base, sealed) = (update.base().number, update.seal().unwrap());
    let left = Name { base: 1, uuid: [1; 16] };
    std::fs::write(store.path_of(&incoming(&left.draft())), b"left by a dead committer").unwrap();

    let probe = Arc::new(Probe::default());
    let told = || {
        let mut told = std::mem::take(&mut *probe.0.lock().unwrap());
        told.dedup();
        told
    };
    let mut store = Store::open_with(store.path(), &Options::new().disk(probe.clone())).unwrap();
    let above = probe.clone();
    store.storage = Arc::new(Watched::new(store.storage, move |call| {
        if ["list", "get", "measure"].iter().any(|reads| call.starts_with(reads)) {
            above.0.lock().unwrap().push(call.to_owned());
        }
        Verdict::Made
    }));
    let change = Change { base, operation: "insert".to_owned(), token: None, sealed };
    store.commit(&change).unwrap();
    assert_eq!(told(), calls_of(&programs(), calls, COMMIT));
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    assert_eq!(told(), calls_of(&programs(), calls, VACUUM));
    store.read().unwrap();
    assert_eq!(told(), calls_of(&programs(), calls, READ));
}

#[test]
fn the_real_code_takes_the_steps_of_the_programs_in_an_object_store() {
    let shared = Shared::of_objects();
    for _ in 0..2 {
        shared.intrude(Operation::Commit(0, None));
    }
    let change = shared.change(shared.store.newest().unwrap().number, 0, None);
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = log.clone();
    let watched = Watched::new(shared.memory.clone(), move |call| {
        kept.lock().unwrap().push(call.to_owned());
        Verdict::Made
    });
    let store = shared.over(Arc::new(watched));
    let told = || {
        let mut told = std::mem::take(&mut *log.lock().unwrap());
        told.dedup();
        told
    };
    let calls = |program| calls_of(&of_objects(), calls_of_objects, program);
    store.commit(&change).unwrap();
    assert_eq!(told(), calls(COMMIT));
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    assert_eq!(told(), calls(VACUUM));
    store.read().unwrap();
    assert_eq!(told(), calls(READ));
}
