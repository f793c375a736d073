//! Every order in which commits of runs, rewritten shards, folds, merges of runs and vacuums can take turns, stall and
//! die, in a small model. `store/model.rs` has the publishing of versions, and the choice of versions that a vacuum keeps
//! for tokens. Here a version is published in one step, which fails if the newest version is not the loaded one. A vacuum
//! has no grace: it gives up every update, and removes everything that the newest version does not name.
//!
//! Invariants checked, in every state that can be reached:
//!
//! 1. In the newest version, each key has exactly the copies that published commits inserted and did not remove: none is
//!    lost, no record counts twice, and no copy is removed twice.
//! 2. A commit of records is published on a version that judges its key as the base did. So at most one published commit
//!    calls a key new. A commit in conflict judges its key again, and continues.
//! 3. The newest version names no run and no file that a vacuum has removed. A process that misses a file learns why.
//! 4. From every state, all live processes can reach their ends.
//!
//! That the model can fail: without any one check, an invariant is violated; so it is by a vacuum that publishes nothing
//! or removes first.

use crate::explorer::{self, Model, Outcome, assert_each_breaks, explore};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    /// Chooses the base, and judges the key by it.
    Begin,
    /// Makes the file, or the run. Folds, merges and rewriting commits read the files of the base, and end or start over
    /// if a vacuum has removed them.
    Seal,
    /// Reads the newest version.
    Load,
    /// Starts over if a vacuum has given up the base.
    CheckFence,
    /// Starts over if the newest version judges the key differently. Reads the base for this, unless the shard's file is
    /// the same and no run that the base does not name has a record of the key.
    CheckJudged,
    /// Like `CheckJudged`, if a merge may have cancelled a record of the shard that is pending in the base.
    CheckCancelled,
    /// Starts over if the shard has another file than in the base.
    CheckFile,
    /// Starts over if a run that the base does not name has a record of the shard from after the base.
    CheckRuns,
    /// Starts over if the shard's pending records in the base were merged with later records.
    CheckMerged,
    /// Ends if a vacuum has given up the base.
    GiveWayToFence,
    /// Ends if the shard has another file than in the base.
    GiveWayToFile,
    /// Ends if the shard's pending records in the base were merged with later records.
    GiveWayToMerge,
    /// Ends if the merged runs are no longer in the version.
    GiveWayToRuns,
    /// Ends if a shard was folded up to some but not all of the merged runs.
    GiveWayToFold,
    /// Starts over at `Load` if the newest version is no longer the loaded one.
    Publish,
    /// Removes all versions but the newest, and the files that it does not name and that are based on older versions.
    Sweep,
}
use Step::*;

type Programs = explorer::Programs<Step>;

const ADD: usize = 0;
const REWRITE: usize = 1;
const FOLD: usize = 2;
const MERGE: usize = 3;
const VACUUM: usize = 4;
const REMOVE: usize = 5;
const NAMES: [&str; 6] = ["add", "rewrite", "fold", "merge", "vacuum", "remove"];

fn programs() -> Programs {
    explorer::Programs(vec![
        vec![Begin, Seal, Load, CheckFence, CheckJudged, CheckCancelled, Publish],
        vec![Begin, Seal, Load, CheckFile, CheckFence, CheckRuns, CheckMerged, Publish],
        vec![Begin, Seal, Load, GiveWayToFence, GiveWayToFile, GiveWayToMerge, Publish],
        vec![Begin, Seal, Load, GiveWayToFence, GiveWayToRuns, GiveWayToFold, Publish],
        vec![Load, Publish, Sweep],
        vec![Begin, Seal, Load, CheckFence, CheckJudged, CheckCancelled, Publish],
    ])
}

const KEYS: usize = 3;
const SHARDS: usize = 2;
const VERSIONS: usize = 8;
const RUNS: usize = 5;

const fn shard_of(key: usize) -> usize {
    key % SHARDS
}

/// How many copies each key has.
type Content = [i8; KEYS];

/// A run that a version names; `to` is 0 if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Run {
    from: u8,
    to: u8,
    /// The version that brought the run; its number identifies the run.
    since: u8,
    /// The version on which the run is based.
    base: u8,
    content: Content,
}

impl Run {
    fn has_any_of(&self, shard: usize) -> bool {
        (0..KEYS).any(|key| shard_of(key) == shard && self.content[key] != 0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Version {
    /// The contents of all shards' files.
    files: Content,
    since: [u8; SHARDS],
    /// For each shard's file, the version on which it is based and whose runs it has folded.
    folded: [u8; SHARDS],
    runs: [Run; RUNS],
    /// Updates based on versions below this number can no longer be committed.
    fence: u8,
}

impl Version {
    fn named(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.to > 0)
    }

    fn pending(&self, key: usize) -> i8 {
        let folded = self.folded[shard_of(key)];
        self.named().filter(|run| run.to > folded).map(|run| run.content[key]).sum()
    }

    fn copies(&self, key: usize) -> i8 {
        self.files[key] + self.pending(key)
    }

    /// The runs that are pending for a shard here, in version `number`, and that a later version has merged with later
    /// runs.
    fn merged_in(&self, number: u8, later: &Self, shard: usize) -> impl Iterator<Item = &Run> {
        let folded = self.folded[shard];
        let keeps_apart = move |run: &Run| {
            later.named().any(|own| own.from <= run.from && run.to <= own.to && own.to <= number)
        };
        self.named().filter(move |run| run.to > folded && !keeps_apart(run))
    }

    /// Whether a run that another version does not name has a pending record of the key.
    fn has_new(&self, base: &Self, key: usize) -> bool {
        let is_new = |run: &&Run| !base.named().any(|old| old == *run);
        self.named().filter(is_new).any(|run| run.to > self.folded[shard_of(key)] && run.content[key] != 0)
    }

    /// Replaces all runs.
    fn set_runs(&mut self, runs: impl IntoIterator<Item = Run>) -> Outcome<()> {
        let mut all = [Run::default(); RUNS];
        for (number, run) in runs.into_iter().enumerate() {
            *all.get_mut(number).ok_or("more runs than the model has room for")? = run;
        }
        self.runs = all;
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    program: u8,
    at: u8,
    /// The key of a commit; the shard of a fold.
    of: u8,
    base: u8,
    judged: i8,
    /// The sealed contents: the run, or the contents of the shards' files including the new one.
    run: Run,
    files: Content,
    loaded: u8,
    /// Whether the sealed file exists, and whether a vacuum has removed it.
    sealed: bool,
    gone: bool,
    /// How many updates may still be started over.
    left: u8,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    versions: [Version; VERSIONS],
    newest: u8,
    /// How many copies of each key published commits inserted, and how many of these commits called it new.
    brought: Content,
    new: Content,
    /// Versions below this number were removed.
    first: u8,
    deaths: u8,
    processes: [Option<Process>; 4],
}

/// The program, and its key or shard.
type Part = Option<(usize, u8)>;

impl World {
    /// A store after `before` commits of key 0, and then one of key 1.
    fn new(parts: [Part; 4], rounds: u8, deaths: u8, before: u8) -> Self {
        let processes = parts.map(|part| {
            part.map(|(program, of)| Process {
                program: program as u8,
                at: 0,
                of,
                base: 0,
                judged: 0,
                run: Run::default(),
                files: [0; KEYS],
                loaded: 0,
                sealed: false,
                gone: false,
                left: rounds,
                ended: false,
            })
        });
        let (mut versions, mut newest) = ([Version::default(); VERSIONS], 1);
        let (mut brought, mut new) = ([0; KEYS], [0; KEYS]);
        for number in 0..before {
            let key = usize::from(number + 1 == before);
            let mut next = versions[newest];
            newest += 1;
            let since = newest as u8;
            let mut content = [0; KEYS];
            content[key] = 1;
            next.runs[usize::from(number)] = Run { from: since, to: since, since, base: since - 1, content };
            versions[newest] = next;
            brought[key] += 1;
            new[key] = 1;
        }
        Self { versions, newest: newest as u8, brought, new, first: 1, deaths, processes }
    }

    fn version(&self, number: u8) -> Version {
        self.versions[usize::from(number)]
    }

    /// The version that a process publishes on top of the loaded one.
    fn publishes(&self, me: &Process) -> Outcome<Version> {
        let number = self.newest + 1;
        let (base, mut next) = (self.version(me.base), self.version(me.loaded));
        let of = usize::from(me.of);
        let in_file = |shard: usize, next: &mut Version| {
            for key in (0..KEYS).filter(|key| shard_of(*key) == shard) {
                next.files[key] = me.files[key];
            }
            (next.since[shard], next.folded[shard]) = (number, me.base);
        };
        match usize::from(me.program) {
            ADD | REMOVE => {
                let run = Run { from: number, to: number, since: number, base: me.base, ..me.run };
                next.set_runs(next.runs.into_iter().filter(|run| run.to > 0).chain([run]))?;
            }
            REWRITE => in_file(shard_of(of), &mut next),
            FOLD => {
                in_file(of, &mut next);
                let folded = next.folded;
                let is_needed =
                    |run: &Run| (0..SHARDS).any(|shard| run.to > folded[shard] && run.has_any_of(shard));
                next.set_runs(next.runs.into_iter().filter(|run| run.to > 0 && is_needed(run)))?;
            }
            VACUUM => next.fence = number,
            _ => {
                let merged = Run { since: number, base: me.base, ..me.run };
                let goes = |run: &Run| base.named().any(|old| old == run);
                let kept = next.runs.into_iter().filter(|run| run.to > 0 && !goes(run));
                let is_left = merged.content.iter().any(|copies| *copies != 0);
                next.set_runs(is_left.then_some(merged).into_iter().chain(kept))?;
            }
        }
        Ok(next)
    }

    fn one_step(&self, index: usize, programs: &Programs) -> Outcome<Option<Self>> {
        let Some(process) = self.processes[index].filter(|process| !process.ended) else { return Ok(None) };
        let program = &programs.0[usize::from(process.program)];
        let mut next = *self;
        let Some(me) = next.processes[index].as_mut() else { return Ok(None) };
        let Some(step) = program.get(usize::from(process.at)) else {
            me.ended = true;
            return Ok(Some(next));
        };
        me.at += 1;
        let (base, loaded, of) =
            (self.version(process.base), self.version(process.loaded), usize::from(process.of));
        let shard = if usize::from(process.program) == FOLD { of } else { shard_of(of) };
        match step {
            Begin => {
                me.base = self.newest;
                let base = self.version(self.newest);
                me.judged = base.copies(of);
                if usize::from(process.program) == MERGE && base.named().count() < 2 {
                    me.ended = true;
                }
                if usize::from(process.program) == REMOVE && me.judged == 0 {
                    me.ended = true;
                }
            }
            Seal if ![ADD, REMOVE].contains(&usize::from(process.program)) && process.base < self.first => {
                if usize::from(process.program) == REWRITE {
                    anew(me)
                } else {
                    me.ended = true
                }
            }
            Seal => {
                me.sealed = true;
                let mut content = [0; KEYS];
                match usize::from(process.program) {
                    ADD => content[of] = 1,
                    REMOVE => content[of] = -1,
                    MERGE => {
                        for (key, copies) in content.iter_mut().enumerate() {
                            *copies = base.pending(key);
                        }
                        me.run.from = base.named().map(|run| run.from).min().unwrap_or_default();
                        me.run.to = base.named().map(|run| run.to).max().unwrap_or_default();
                    }
                    program => {
                        for key in 0..KEYS {
                            me.files[key] = base.copies(key) + i8::from(program == REWRITE && key == of);
                        }
                    }
                }
                me.run.content = content;
            }
            Load => me.loaded = self.newest,
            CheckFence if process.base < loaded.fence => anew(me),
            GiveWayToFence if process.base < loaded.fence => me.ended = true,
            CheckJudged if process.base < self.first => {
                if self.newest == process.loaded {
                    return Err("a committer misses its base, and is not told why".to_owned());
                }
                me.at = program.iter().position(|step| *step == Load).unwrap_or_default() as u8;
            }
            CheckJudged if loaded.since[shard] == base.since[shard] && !loaded.has_new(&base, of) => {}
            CheckJudged if loaded.copies(of) != process.judged => anew(me),
            CheckCancelled
                if base.merged_in(process.base, &loaded, shard).next().is_some()
                    && loaded.copies(of) != process.judged =>
            {
                anew(me);
            }
            CheckFile if loaded.since[shard] > process.base => anew(me),
            CheckRuns => {
                let is_new = |run: &&Run| run.to > process.base && !base.named().any(|old| old == *run);
                if loaded.named().filter(is_new).any(|run| run.has_any_of(shard)) {
                    anew(me);
                }
            }
            CheckMerged if base.merged_in(process.base, &loaded, shard).any(|run| run.has_any_of(shard)) => {
                anew(me);
            }
            GiveWayToFile if loaded.since[shard] != base.since[shard] => me.ended = true,
            GiveWayToMerge => {
                me.ended = base.merged_in(process.base, &loaded, shard).any(|run| run.has_any_of(shard));
            }
            GiveWayToRuns => me.ended = !base.named().all(|old| loaded.named().any(|run| run == old)),
            GiveWayToFold => {
                let within = process.run.from..process.run.to;
                let folded = loaded.folded.iter().zip(base.folded);
                me.ended = folded.into_iter().any(|(now, then)| *now != then && within.contains(now));
            }
            Publish if self.newest != process.loaded => {
                me.at = program.iter().position(|step| *step == Load).unwrap_or_default() as u8;
            }
            Publish if process.gone => return Err("a version names a file that is gone".to_owned()),
            Publish => {
                me.sealed = false;
                let version = self.publishes(&process)?;
                next.newest += 1;
                *next
                    .versions
                    .get_mut(usize::from(next.newest))
                    .ok_or("more versions than there is room for")? = version;
                if [ADD, REMOVE].contains(&usize::from(process.program))
                    && loaded.copies(of) != process.judged
                {
                    return Err(format!("key {of} was judged otherwise"));
                }
                match usize::from(process.program) {
                    ADD | REWRITE => {
                        next.brought[of] += 1;
                        next.new[of] += i8::from(process.judged == 0);
                    }
                    REMOVE => {
                        next.brought[of] -= 1;
                        // The next commit calls the key new again.
                        next.new[of] = next.new[of].min(next.brought[of]);
                    }
                    _ => {}
                }
            }
            Sweep => {
                let swept = process.loaded + 1;
                let (newest, own) = (self.version(self.newest), self.version(swept));
                let is_new = |run: &&Run| !own.named().any(|known| known == *run);
                let lost_run = newest.named().filter(is_new).any(|run| run.base < swept);
                let lost_file = (0..SHARDS).any(|of| newest.since[of] > swept && newest.folded[of] < swept);
                if lost_run || lost_file {
                    return Err("a vacuum removes a file that a version names".to_owned());
                }
                next.first = self.first.max(swept);
                let others = next.processes.iter_mut().flatten();
                others.for_each(|other| other.gone |= other.sealed && other.base < swept);
            }
            _ => {}
        }
        Ok(Some(next))
    }
}

/// A committer finds a conflict, and judges by the newest version or gives up.
fn anew(me: &mut Process) {
    (me.at, me.ended, me.sealed, me.gone) = (0, me.left == 0, false, false);
    me.left = me.left.saturating_sub(1);
}

impl Model for World {
    type Step = Step;

    const PROCESSES: usize = 4;

    fn check(&self, _: &Programs) -> Outcome<()> {
        let newest = self.version(self.newest);
        for key in 0..KEYS {
            let (found, brought) = (newest.copies(key), self.brought[key]);
            if found != brought {
                return Err(format!("key {key} has {found} copies, and commits brought {brought}"));
            }
            if brought < 0 {
                return Err(format!("key {key} was removed too often"));
            }
            if self.new[key] > 1 {
                return Err(format!("key {key} was called new twice"));
            }
        }
        Ok(())
    }

    fn after(&self, process: usize, programs: &Programs) -> Outcome<Vec<Self>> {
        let Some(mut next) = self.one_step(process, programs)? else { return Ok(Vec::new()) };
        // A step that only this process observes joins the step before it.
        loop {
            let me = next.processes[process].filter(|me| !me.ended);
            let step = me.map(|me| programs.0[usize::from(me.program)].get(usize::from(me.at)).copied());
            match step {
                None | Some(Some(Begin | Seal | Load | CheckJudged | Publish | Sweep)) => {
                    return Ok(vec![next]);
                }
                Some(_) => next = next.one_step(process, programs)?.unwrap_or(next),
            }
        }
    }

    fn after_death(&self, process: usize) -> Option<Self> {
        let mut next = *self;
        next.deaths = self.deaths.checked_sub(1)?;
        next.processes[process].as_mut().filter(|process| !process.ended)?.ended = true;
        Some(next)
    }

    fn is_over(&self) -> bool {
        self.processes.iter().flatten().all(|process| process.ended)
    }
}

const fn add(key: u8) -> Part {
    Some((ADD, key))
}
const fn rewrite(key: u8) -> Part {
    Some((REWRITE, key))
}
const fn fold(shard: u8) -> Part {
    Some((FOLD, shard))
}
const fn remove(key: u8) -> Part {
    Some((REMOVE, key))
}
const M: Part = Some((MERGE, 0));
const V: Part = Some((VACUUM, 0));

/// The processes that take part, besides commits that were made before.
const CASTS: [[Part; 4]; 14] = [
    [add(0), add(2), fold(0), M],
    [add(2), add(2), fold(0), M],
    [add(0), fold(0), fold(0), M],
    [add(1), fold(0), fold(1), M],
    [rewrite(0), add(2), fold(0), M],
    [rewrite(2), rewrite(2), add(2), M],
    [rewrite(0), add(1), M, M],
    [add(0), M, M, fold(0)],
    [add(0), V, V, None],
    [add(0), fold(0), M, V],
    [rewrite(0), add(2), M, V],
    [remove(0), remove(0), M, fold(0)],
    [remove(0), rewrite(2), M, fold(0)],
    [remove(0), add(0), M, fold(0)],
];

fn starts() -> Vec<World> {
    CASTS.into_iter().flat_map(|cast| [0, 2].map(|before| World::new(cast, 1, 1, before))).collect()
}

#[test]
fn no_order_of_commits_folds_merges_and_vacuums_breaks_an_invariant() {
    for start in starts() {
        let states = explore(start, &programs()).unwrap();
        println!(
            "{:?}: {states} states",
            start.processes.map(|process| process.map(|me| (me.program, me.of)))
        );
        assert!(states > 100);
    }
}

#[test]
fn without_any_check_an_invariant_breaks() {
    let has_vacuum =
        |world: &World| world.processes.iter().flatten().any(|me| usize::from(me.program) == VACUUM);
    let (with_vacuums, without): (Vec<World>, Vec<World>) = starts().into_iter().partition(has_vacuum);
    let changes = [
        "add: without CheckJudged",
        "remove: without CheckJudged",
        "remove: without CheckCancelled",
        "add: without CheckCancelled",
        "rewrite: without CheckMerged",
        "rewrite: without CheckFile",
        "rewrite: without CheckRuns",
        "fold: without GiveWayToFile",
        "fold: without GiveWayToMerge",
        "merge: without GiveWayToRuns",
        "merge: without GiveWayToFold",
    ];
    assert_each_breaks(&without, &programs(), &NAMES, &changes);
    let changes = [
        "add: without CheckFence",
        "rewrite: without CheckFence",
        "fold: without GiveWayToFence",
        "merge: without GiveWayToFence",
        "vacuum: without Publish",
        "vacuum: Sweep before Publish",
    ];
    assert_each_breaks(&with_vacuums, &programs(), &NAMES, &changes);
}
