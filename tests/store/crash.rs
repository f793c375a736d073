//! The power is cut while a store is created, updated, read and vacuumed, and each call to the disk fails once.
//!
//! A recorder behind gowk's [`Disk`](gowk::disk::Disk) records every operation of a script. From this record, the tests
//! make the folders that a power cut after each operation can leave. An image has a subset of the unsynced names: every
//! subset of up to seven names, random ones of more.
//!
//! Invariants checked for each image:
//!
//! 1. The newest version is the one before or after the open commit, and is whole. It has every acknowledged commit, and
//!    every commit that a reader has seen.
//! 2. Every version that the store promises to keep is whole.
//! 3. Another commit can be made. A vacuum then leaves exactly the newest version and its files.
//!
//! Without each kind of sync, some image breaks these invariants (`without_…`).
//!
//! Every sixth call to the disk, or reading of a run, fails once, with a full disk or with an I/O error
//! (`failing_disk…`); with `GOWK_THOROUGH=1` each does, with both. Invariants checked then: the error names the file and
//! the reason. The store has the state before or after the step. The step can be done again.
//!
//! The tests examine 1,500 images, or 20,000 with `GOWK_THOROUGH=1`. More: `GOWK_CRASH_IMAGES=1000000 cargo test
//! --release --test store power_cut`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use gowk::store::{Committed, Error, Result, Store};
use gowk::{Batches, Options, SlotsPerBucket};

use crate::images::{Examiner, STORE, State, continues, key, look};
use crate::record::{Event, Fault, Recorder};
use crate::thorough;

#[derive(Clone, Debug)]
enum Step {
    Create,
    /// Inserts these keys. Several updates begin on the same version, and are committed one after the other.
    Commit(Vec<Vec<u64>>),
    /// Commits these keys with a token of this number.
    Token(u64, Vec<u64>),
    /// Makes working copies that are never committed.
    Abandon(Vec<u64>),
    Seal(Vec<u64>),
    /// Folds all pending records.
    Compact,
    Vacuum(u64),
    Read,
    /// This many days pass until the next commit.
    Later(u64),
}
use Step::*;

/// Whether updates write runs, or rewrite the shards that they change. Runs go into a set or a forgetting store; shards
/// are rewritten in a counting store. `killed` has runs of counting stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Runs,
    Forgetting,
    Shards,
}

/// A script while it runs.
struct Run {
    way: Way,
    recorder: Arc<Recorder>,
    root: std::path::PathBuf,
    options: Options,
    states: Vec<State>,
    /// The number of the last state that is certainly durable.
    durable: usize,
    /// The clock of a forgetting store, in days.
    day: Arc<AtomicU64>,
    /// The day on which each key was last stored.
    born: BTreeMap<u64, u64>,
}

/// A forgetting store keeps a key for this many days, in epochs of two days.
const KEPT: u64 = 28;

const SHARDS: u32 = 2;

impl Run {
    fn start(way: Way, root: &Path, fault: Option<Fault>, forgets: Option<&'static str>) -> Self {
        let recorder = Recorder::new(root, fault, forgets);
        let options = Options::new().capacity(100).seed(1).disk(recorder.clone());
        let day = Arc::new(AtomicU64::new(20_000));
        let clock = day.clone();
        let options = match way {
            Way::Runs => options,
            Way::Shards => options.counting(),
            Way::Forgetting => options
                .slots_per_bucket(SlotsPerBucket::Two)
                .forget_after(Duration::from_secs(KEPT * 86_400))
                .with_clock(move || UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::Relaxed) * 86_400)),
        };
        let (states, born) = (vec![State(None)], BTreeMap::new());
        Self { way, recorder, root: root.to_owned(), options, states, durable: 0, day, born }
    }

    fn store(&self) -> Result<Store> {
        Store::open_with(self.root.join(STORE), &self.options)
    }

    fn now(&self) -> (u64, BTreeSet<u64>) {
        self.states[self.durable].0.clone().unwrap_or_default()
    }

    fn begin(&mut self, state: State) -> usize {
        self.states.push(state);
        self.recorder.mark(Event::Began(self.states.len() - 1));
        self.states.len() - 1
    }

    fn acknowledge(&mut self, state: usize) {
        self.durable = state;
        self.recorder.mark(Event::Acknowledged(state));
    }

    /// Whether a forgetting store still keeps a key today.
    fn lives(&self, key: u64) -> bool {
        (self.born[&key] + KEPT).div_ceil(2) > self.day.load(Ordering::Relaxed) / 2
    }

    /// Commits an update that has these keys.
    fn commit(
        &mut self,
        update: gowk::store::Update,
        keys: &[u64],
        token: Option<gowk::store::Token>,
    ) -> Result<()> {
        let (number, mut held) = self.now();
        if self.way == Way::Forgetting {
            let today = self.day.load(Ordering::Relaxed);
            held.retain(|key| self.lives(*key));
            self.born.extend(keys.iter().map(|key| (*key, today)));
        }
        held.extend(keys);
        // A ninth run is merged with others at once, in a version of its own.
        let merges = Store::open(self.root.join(STORE))?.newest()?.runs.len() >= 8;
        let state = self.begin(State(Some((number + 1, held.clone()))));
        let merged = if merges { self.begin(State(Some((number + 2, held)))) } else { state };
        match update.commit("insert", token)? {
            Committed::New(version) => {
                assert_eq!(version.number, number + 1);
                let newest = Store::open(self.root.join(STORE))?.newest()?;
                self.acknowledge(if newest.number > version.number { merged } else { state });
            }
            Committed::Already(_) => {
                // No commit was made, so its expected state is replaced.
                self.states.pop();
                self.begin(self.states[self.durable].clone());
                self.acknowledge(self.states.len() - 1);
            }
            Committed::Unchanged => panic!("the commit says that nothing changed"),
        }
        Ok(())
    }

    fn do_step(&mut self, step: &Step) -> Result<()> {
        let way = self.way;
        let update = |store: &Store, keys: &[u64]| -> Result<gowk::store::Update> {
            let update = store.update()?;
            let mut update = if way == Way::Shards { update.rewriting() } else { update };
            let keys: Vec<_> = keys.iter().map(|number| key(*number)).collect();
            assert!(update.insert_batch(&keys)?.refused().is_empty());
            Ok(update)
        };
        match step {
            Create => {
                let state = self.begin(State(Some((1, BTreeSet::new()))));
                Store::create(self.root.join(STORE), SHARDS, &self.options)?;
                self.acknowledge(state);
            }
            Commit(all) => {
                let store = self.store()?;
                let updates = all.iter().map(|keys| update(&store, keys)).collect::<Result<Vec<_>>>()?;
                for (update, keys) in updates.into_iter().zip(all) {
                    self.commit(update, keys, None)?;
                }
            }
            Token(number, keys) => {
                let update = update(&self.store()?, keys)?;
                self.commit(update, keys, Some(gowk::store::Token::new("test", *number)))?;
            }
            Abandon(keys) => drop(update(&self.store()?, keys)?),
            Seal(keys) => drop(update(&self.store()?, keys)?.seal()?),
            Compact => {
                let (mut number, mut held) = self.now();
                let (store, today) = (self.store()?, self.day.load(Ordering::Relaxed));
                let time = Store::open(self.root.join(STORE))?.read()?.info().store_time;
                // A forgetting store first advances to the time of the clock, in a version of its own.
                let timed = if time.is_some_and(|time| time / 86_400_000 / 2 < today / 2) {
                    held.retain(|key| self.lives(*key));
                    number += 1;
                    self.begin(State(Some((number, held.clone()))))
                } else {
                    self.durable
                };
                let state = self.begin(State(Some((number + 1, held))));
                let told = store.compact(true, &|_, _| {})?;
                match told.version {
                    Some(made) if made == number + 1 => {}
                    // No commit was made, so its expected state is replaced.
                    Some(made) if made == number => self.states[state] = self.states[timed].clone(),
                    None if timed == self.durable => self.states[state] = self.states[timed].clone(),
                    _ => panic!("{told:?}"),
                }
                self.acknowledge(state);
            }
            Vacuum(keep) => {
                let (number, held) = self.now();
                let state = self.begin(State(Some((number + 1, held))));
                let told = self
                    .store()?
                    .vacuum(&gowk::store::Vacuum::default().keep(*keep).grace(Duration::ZERO))?;
                assert!(told.version.is_none_or(|made| made == number + 1), "{told:?}");
                if told.version.is_none() {
                    // No commit was made, so its expected state is replaced.
                    self.states[state] = self.states[self.durable].clone();
                }
                self.acknowledge(state);
            }
            Later(days) => _ = self.day.fetch_add(*days, Ordering::Relaxed),
            Read => {
                self.store()?.read()?;
                let found = look(&self.root).unwrap();
                let seen = (self.durable..self.states.len()).rev().find(|state| self.states[*state] == found);
                self.acknowledge(seen.unwrap());
            }
        }
        Ok(())
    }
}

/// Keys of the first shard, and of the second.
fn keys_of_shards() -> [Vec<u64>; 2] {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path().join("s"), SHARDS, &Options::new().capacity(100).seed(1)).unwrap();
    let shard = |number: &u64| store.description().shard_of(store.hash(&key(*number)).unwrap());
    [0, 1].map(|wanted| (0..crate::images::KEYS).filter(|number| shard(number) == wanted).collect())
}

fn scripts() -> Vec<(&'static str, Way, Vec<Step>)> {
    let [one, two] = keys_of_shards();
    let scripts = [
        ("commits", vec![Create, Commit(vec![vec![one[0], two[0]]]), Commit(vec![vec![one[1]]]), Read]),
        (
            "commits on one base",
            vec![Create, Commit(vec![vec![one[0]], vec![two[0]]]), Commit(vec![vec![two[1]], vec![one[1]]])],
        ),
        ("tokens", vec![Create, Token(1, vec![one[0]]), Token(1, vec![one[0]]), Token(2, vec![two[0]])]),
        (
            "vacuums",
            vec![
                Create,
                Commit(vec![vec![one[0]]]),
                Commit(vec![vec![one[1]]]),
                Seal(vec![two[3]]),
                Abandon(vec![two[3]]),
                Commit(vec![vec![one[2]]]),
                Vacuum(2),
                Commit(vec![vec![one[3]]]),
                Vacuum(1),
                Vacuum(1),
                Commit(vec![vec![two[0]]]),
            ],
        ),
    ];
    let folds = vec![
        Create,
        Commit(vec![vec![one[0], two[0]]]),
        Compact,
        Commit(vec![vec![one[1]], vec![one[2], two[1]]]),
        Compact,
        Compact,
        Commit(vec![vec![two[2]]]),
        Vacuum(1),
        Compact,
        Vacuum(1),
    ];
    let more = |keys: &[u64]| Commit(vec![keys.to_vec()]);
    let mut merges = vec![Create];
    merges.extend((0..11).map(|at| more(&[one[at], two[at]])));
    merges.extend([Vacuum(1), more(&one[11..13]), Compact, Vacuum(1)]);
    let later = |days, keys: &[u64]| [Later(days), Commit(vec![keys.to_vec()])];
    let mut forgets = vec![Create, Commit(vec![vec![one[0], two[0]]])];
    forgets.extend(later(10, &[one[1], two[1]]));
    forgets.push(Compact);
    forgets.extend(later(12, &[one[2]]));
    // The first keys expire here, and one of them recurs; then all but the last expire.
    forgets.extend(later(7, &[one[0], two[2]]));
    forgets.extend([Compact, Vacuum(1)]);
    forgets.extend((3..12).flat_map(|at| later(1, &[one[at]])));
    forgets.extend(later(20, &[one[1], two[3]]));
    forgets.extend([Compact, Vacuum(1), Token(1, vec![two[4]]), Token(1, vec![two[4]])]);
    let in_both = |(name, steps): (&'static str, Vec<Step>)| {
        [(name, Way::Runs, steps.clone()), (name, Way::Shards, steps)]
    };
    scripts
        .into_iter()
        .flat_map(in_both)
        .chain([("folds", Way::Runs, folds), ("merges", Way::Runs, merges)])
        .chain([("forgets", Way::Forgetting, forgets)])
        .collect()
}

fn scratch() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("gowk-stores-").tempdir_in("/dev/shm");
    dir.or_else(|_| tempfile::tempdir()).unwrap()
}

#[test]
fn power_cut_anywhere_leaves_a_whole_store() {
    if crate::needs_a_folder("fails calls to the disk") {
        return;
    }
    let asked = std::env::var("GOWK_CRASH_IMAGES").ok().map(|number| number.parse().unwrap());
    let enough: usize = asked.unwrap_or_else(|| thorough::size("images of cut power", 1500, 20_000));
    let mut images = 0;
    let scripts = scripts();
    for (name, way, steps) in &scripts {
        let start = Instant::now();
        let dir = scratch();
        let mut run = Run::start(*way, dir.path(), None, None);
        steps.iter().for_each(|step| run.do_step(step).unwrap());
        let history = run.recorder.history();
        let mut examiner = Examiner::new(&history, &run.states);
        let share = enough.div_ceil(scripts.len());
        let rounds = 1 + share as u64;
        examiner.all(rounds, share.max(1)).unwrap_or_else(|how| panic!("{name}, {way:?}: {how}"));
        images += examiner.images;
        let (events, took) = (history.0.len(), start.elapsed().as_secs_f64());
        let _ = writeln!(
            std::io::stderr(),
            "{name}, {way:?}: {} images of {events} events, {took:.1} s; {images} in all",
            examiner.images
        );
    }
}

/// Examines images until one violates an invariant.
fn breaks(forgets: &'static str, way: Way, steps: &[Step], fault: Option<Fault>) -> Option<String> {
    let dir = scratch();
    let mut run = Run::start(way, dir.path(), fault, Some(forgets));
    for step in steps {
        if let Err(error) = run.do_step(step) {
            assert!(fault.is_some(), "{error}");
        }
    }
    let history = run.recorder.history();
    Examiner::new(&history, &run.states).all(3, 4000).err()
}

macro_rules! without {
    ($($test:ident: $forgets:literal;)*) => {
        $(#[test]
        fn $test() {
            if crate::needs_a_folder("fails calls to the disk") {
                return;
            }
            let broken = scripts().into_iter().find_map(|(name, way, steps)| {
                breaks($forgets, way, &steps, None).map(|how| format!("{name}, {way:?}: {how}"))
            });
            println!("{}", broken.expect("no image is wrong"));
        })*
    };
}

without! {
    without_the_sync_of_a_working_copy_an_image_is_wrong: "working copy";
    without_the_sync_of_a_run_an_image_is_wrong: "a run that is written";
    without_the_sync_of_runs_an_image_is_wrong: "runs";
    without_the_sync_of_a_draft_an_image_is_wrong: "draft";
    without_the_sync_of_a_shards_folder_an_image_is_wrong: "a shard's folder";
    without_the_sync_of_versions_an_image_is_wrong: "versions";
    without_the_sync_of_shards_an_image_is_wrong: "shards";
    without_the_sync_of_the_store_an_image_is_wrong: "the store";
    without_the_sync_of_the_folder_above_an_image_is_wrong: "the folder above";
}

/// A commit whose sync after the link fails, and a reader that sees its version.
fn seen_in_doubt(forgets: Option<&'static str>) -> Option<String> {
    let steps = [Create, Commit(vec![vec![1]]), Read];
    let calls = {
        let dir = scratch();
        let mut run = Run::start(Way::Runs, dir.path(), None, None);
        steps[..2].iter().for_each(|step| run.do_step(step).unwrap());
        run.recorder.calls()
    };
    // The last call of a commit.
    let dir = scratch();
    let fault = Fault { call: calls - 1, kind: ErrorKind::Other };
    let mut run = Run::start(Way::Runs, dir.path(), Some(fault), None);
    run.do_step(&steps[0]).unwrap();
    let error = run.do_step(&steps[1]).unwrap_err();
    assert!(matches!(error, Error::Unknown { version: 2, .. }), "{error:?}");
    run.recorder.forget(forgets);
    run.do_step(&steps[2]).unwrap();
    assert_eq!(run.now().0, 2);
    let history = run.recorder.history();
    Examiner::new(&history, &run.states).all(3, 4000).err()
}

#[test]
fn without_the_sync_before_a_version_is_read_an_image_is_wrong() {
    if crate::needs_a_folder("fails calls to the disk") {
        return;
    }
    assert_eq!(seen_in_doubt(None), None);
    println!("{}", seen_in_doubt(Some("versions")).expect("no image is wrong"));
}

/// Ignores the sync of `versions` after each link, except after the link of the creation.
#[test]
fn without_the_sync_after_a_link_an_image_is_wrong() {
    if crate::needs_a_folder("fails calls to the disk") {
        return;
    }
    let dir = scratch();
    let mut run = Run::start(Way::Runs, dir.path(), None, None);
    run.do_step(&Create).unwrap();
    run.recorder.forget(Some("versions"));
    run.do_step(&Commit(vec![vec![1]])).unwrap();
    let history = run.recorder.history();
    println!("{}", Examiner::new(&history, &run.states).all(3, 4000).expect_err("no image is wrong"));
}

/// A step that failed once can be done again.
#[test]
fn failing_disk_leaves_the_store_as_before_or_as_after() {
    if crate::needs_a_folder("fails calls to the disk") {
        return;
    }
    std::thread::scope(|scope| {
        for (name, way, steps) in scripts() {
            scope.spawn(move || fail_each_call(name, way, &steps));
        }
    });
}

fn fail_each_call(name: &str, way: Way, steps: &[Step]) {
    let calls = {
        let dir = scratch();
        let mut run = Run::start(way, dir.path(), None, None);
        steps.iter().for_each(|step| run.do_step(step).unwrap());
        run.recorder.calls()
    };
    let mut lines: std::collections::BTreeMap<String, usize> = Default::default();
    let stride = thorough::size("step between the calls to the disk that fail", 6, 1);
    for call in (0..calls).step_by(stride) {
        // In the short test the reasons alternate.
        let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
        let turn = call / stride % kinds.len();
        for (_, kind) in kinds.into_iter().enumerate().filter(|(at, _)| stride == 1 || *at == turn) {
            let dir = scratch();
            let mut run = Run::start(way, dir.path(), Some(Fault { call, kind }), None);
            let mut outcome = "unnoticed";
            for step in steps {
                if let Err(error) = run.do_step(step) {
                    outcome = get_over(&mut run, step, &error, kind);
                }
            }
            let struck = run.recorder.struck().unwrap();
            let what = format!("{name}: {struck} ({kind:?}, call {call}): {outcome}");
            let found = look(dir.path()).unwrap_or_else(|how| panic!("{what}: {how}"));
            let newest = run.states[run.durable].0.clone().unwrap();
            let found_keys = found.0.clone().unwrap().1;
            assert_eq!(found_keys, newest.1, "{what}");
            let history = run.recorder.history();
            let mut examiner = Examiner::new(&history, &run.states);
            examiner.all(2, 12).unwrap_or_else(|how| panic!("{what}: {how}"));
            continues(dir.path(), &found).unwrap_or_else(|how| panic!("{what}: {how}"));
            *lines.entry(format!("{struck}: {outcome}")).or_default() += 1;
        }
    }
    println!("{name}: {calls} calls; {lines:#?}");
}

/// Checks the error, and does the step again if it was not done.
fn get_over(run: &mut Run, step: &Step, error: &Error, kind: ErrorKind) -> &'static str {
    let message = error.to_string();
    let reason = std::io::Error::from(kind).to_string();
    assert!(message.contains(&reason) && message.contains(&*run.root.to_string_lossy()), "{message}");
    assert!(!message.contains('\n'), "{message}");
    let found = look(&run.root).unwrap_or_else(|how| panic!("{message}: {how}"));
    let after = (run.durable + 1..run.states.len()).find(|after| found == run.states[*after]);
    let is_unknown = matches!(error, Error::Unknown { .. });
    if let Some(after) = after {
        // A vacuum publishes first, and removes files then.
        assert!(is_unknown || matches!(step, Vacuum(_) | Create), "{step:?}: {message}");
        run.acknowledge(after);
        if matches!(step, Vacuum(_)) {
            return "done in part";
        }
        return "done";
    }
    assert_eq!(found, run.states[run.durable], "{step:?}: {message}");
    // The step made no commit, so its expected states are dropped.
    run.states.truncate(run.durable + 1);
    // If the step has several commits, the ones that were not made.
    let held = run.now().1;
    let step = match step {
        Commit(all) => Commit(all.iter().filter(|keys| !held.contains(&keys[0])).cloned().collect()),
        other => other.clone(),
    };
    run.do_step(&step).unwrap_or_else(|again| panic!("{step:?}: {message}, and again: {again}"));
    "done again"
}
