//! The real code on real files. Between any two storage calls of a commit, a fold, a merge or a rewriting update, other
//! processes commit, fold, merge, rewrite and vacuum.
//!
//! Invariants checked:
//!
//! 1. Each key has exactly the copies that reported commits inserted: none is lost, and no record counts twice.
//! 2. A commit fails only because of a conflict, or because a vacuum has ruled it out. A fold or merge never fails.
//! 3. All versions that remain are whole, and at the end all can be folded.
//!
//! That this test can fail: without the rules by which folds and merges give way, invariant 1 breaks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::disk::{Disk, SystemDisk};
use crate::store::files::Name;
use crate::store::storage::watched::{Verdict, Watched};
use crate::store::version::{RunFile, ShardFile};
use crate::store::{Committed, Vacuum};
use crate::{Batches as _, Lookup as _, Options, SlotsPerBucket};

/// These tests cut no power.
#[derive(Debug)]
struct WithoutSyncs;

impl Disk for WithoutSyncs {
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        SystemDisk.create(path, mode)
    }
}

/// A store, and the copies that each key should have.
struct Shared {
    store: Store,
    copies: Mutex<BTreeMap<u32, u32>>,
    _dir: tempfile::TempDir,
}

impl Shared {
    /// A store with this many runs of ten keys each, and with all of the first keys in files.
    fn new(runs: u32) -> Arc<Self> {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let options = Options::new().counting().capacity(100).seed(2).slots_per_bucket(SlotsPerBucket::Two);
        let options = options.disk(Arc::new(WithoutSyncs));
        let store = Store::create(dir.path().join("s"), 2, &options).unwrap();
        let shared = Arc::new(Self { store, copies: Mutex::default(), _dir: dir });
        shared.commit(0..10, false);
        shared.store.compact(true, &|_, _| {}).unwrap();
        (0..runs).for_each(|run| shared.commit(10 * run..10 * run + 20, false));
        shared
    }

    /// Commits one more copy of each of these keys, as another process would.
    fn commit(&self, keys: Range<u32>, rewrites: bool) {
        let outcome = insert(&self.store, keys.clone(), rewrites);
        self.count(keys, &outcome);
    }

    fn count(&self, keys: Range<u32>, outcome: &Result<Committed>) {
        if let Ok(Committed::New(_)) = outcome {
            let mut copies = self.copies.lock().unwrap();
            keys.for_each(|key| *copies.entry(key).or_default() += 1);
        }
    }

    fn intrude(&self, deed: Operation) {
        match deed {
            Operation::Commit => self.commit(300..320, false),
            Operation::Commits => (0..9).for_each(|_| self.commit(320..400, false)),
            Operation::Rewrite => self.commit(400..420, true),
            Operation::Fold => drop(self.store.compact(true, &|_, _| {}).unwrap()),
            Operation::Vacuum => drop(self.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let failed = |error: Error| error.to_string();
        let reader = self.store.read().map_err(failed)?;
        let whole = |reader: &StoreReader| -> Result<(), String> {
            let reports = reader.verify(&|_, _| {}).map_err(failed)?;
            reports.into_iter().try_for_each(|(_, report)| report.map(drop).map_err(failed))
        };
        whole(&reader)?;
        let copies = self.copies.lock().unwrap();
        for key in 0..450_u32 {
            let (found, expected) =
                (reader.count(key.to_le_bytes()).map_err(failed)?, copies.get(&key).copied());
            if found != expected.unwrap_or(0) {
                return Err(format!("key {key} has {found} copies, not {expected:?}"));
            }
        }
        let newest = reader.version();
        for number in newest.first..newest.number {
            let version = self.store.version(number).map_err(failed)?;
            whole(&self.store.read_version(version))?;
        }
        Ok(())
    }
}

fn insert(store: &Store, keys: Range<u32>, rewrites: bool) -> Result<Committed> {
    let update = store.update()?;
    let mut update = if rewrites { update.rewriting() } else { update };
    let keys: Vec<[u8; 4]> = keys.map(u32::to_le_bytes).collect();
    update.insert_batch(&keys)?.complete().map_err(Error::from)?;
    update.commit("insert", None)
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Commit,
    /// Enough commits that runs are merged.
    Commits,
    Rewrite,
    Fold,
    Vacuum,
}

const INTRUSIONS: [&[Operation]; 8] = [
    &[Operation::Commit],
    &[Operation::Commits],
    &[Operation::Rewrite],
    &[Operation::Fold],
    &[Operation::Vacuum],
    &[Operation::Commit, Operation::Fold, Operation::Vacuum],
    &[Operation::Commits, Operation::Vacuum, Operation::Fold],
    &[Operation::Fold, Operation::Commits, Operation::Commit],
];

/// What the process under test does.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// Commits keys. The run is the ninth, so that runs are merged.
    Commit,
    Rewrite,
    Fold,
}

#[test]
fn others_at_any_call_lose_no_copy_and_add_none() {
    let step = crate::thorough::size("step between the calls that others come before", 5, 1);
    let mut runs = 0;
    for program in [Program::Commit, Program::Rewrite, Program::Fold] {
        for intrusion in INTRUSIONS {
            for at in (0..).step_by(step) {
                let shared = Shared::new(8);
                let (mut calls, reached, others) = (0, Arc::new(Mutex::new(false)), shared.clone());
                let mark = reached.clone();
                let watched = Watched::new(shared.store.storage.clone(), move |_| {
                    calls += 1;
                    if calls == at + 1 {
                        *mark.lock().unwrap() = true;
                        intrusion.iter().for_each(|deed| others.intrude(*deed));
                    }
                    Verdict::Made
                });
                let store = Store { storage: Arc::new(watched), ..shared.store.clone() };
                let keys = 200..220;
                let told = match program {
                    Program::Commit | Program::Rewrite => {
                        let outcome = insert(&store, keys.clone(), matches!(program, Program::Rewrite));
                        shared.count(keys, &outcome);
                        match &outcome {
                            Ok(_)
                            | Err(Error::Conflict { .. } | Error::Expired { .. } | Error::Vacuumed { .. }) => {
                            }
                            Err(error) => panic!("{program:?}, {intrusion:?} before call {at}: {error}"),
                        }
                        format!("{outcome:?}")
                    }
                    Program::Fold => format!("{:?}", store.compact(true, &|_, _| {}).unwrap()),
                };
                let how =
                    |what: String| panic!("{program:?}, {intrusion:?} before call {at}: {what}; {told}");
                shared.check().unwrap_or_else(how);
                shared.intrude(Operation::Fold);
                shared.intrude(Operation::Vacuum);
                shared.check().unwrap_or_else(how);
                assert!(shared.store.newest().unwrap().runs.is_empty());
                runs += 1;
                if !*reached.lock().unwrap() {
                    break;
                }
            }
        }
    }
    assert!(runs * step > 200, "{runs}");
}

/// A version whose runs have these numbers of records, the oldest first.
fn with_runs(records: &[u64]) -> Version {
    let run = |(number, records): (u64, &u64)| RunFile {
        name: Name { base: number - 1, uuid: [0; 16] },
        from: number,
        to: number,
        records: *records,
        bytes: 1,
        since: number,
        epoch: 0,
    };
    Version { runs: (2..).zip(records).map(run).collect(), ..Version::first([0; 16], 0) }
}

#[test]
fn the_newest_runs_are_merged_and_older_ones_that_are_no_larger_than_all_newer_ones() {
    let after = |older: usize, records: u64, newest: &[u64]| [&vec![records; older], newest].concat();
    for (records, merged) in [
        (after(8, 1, &[]), None),
        (after(9, 1, &[]), Some(0..9)),
        (after(7, 100, &[2, 1]), Some(7..9)),
        (after(7, 100, &[50, 1]), Some(7..9)),
        (after(7, 100, &[50, 2, 1]), Some(7..10)),
        (after(6, 100, &[3, 2, 1]), Some(6..9)),
        (after(6, 100, &[4, 2, 1]), Some(7..9)),
        (after(7, MAX_RECORDS, &[MAX_RECORDS - 1, 1]), Some(7..9)),
        (after(7, 100, &[MAX_RECORDS, 1]), None),
    ] {
        assert_eq!(too_many(&with_runs(&records)), merged, "{records:?}");
    }
}

/// The uuid of the file and the shard draw the threshold: folds from half a sixteenth of the entries to the whole
/// sixteenth, updates from there to half as much again.
#[test]
fn a_shard_is_written_anew_at_a_number_that_its_file_draws() {
    let with_file = |shard, entries, byte| {
        let file = ShardFile {
            name: Name { base: 1, uuid: [byte; 16] },
            commit: 1,
            bytes: 1,
            entries,
            expected_false_positive_rate: 0.0,
            since: 2,
            folded: 1,
            epoch: 0,
        };
        Version { shards: BTreeMap::from([(shard, file)]), ..Version::first([0; 16], 0) }
    };
    for (entries, worth) in [(0, 8192), (131_072, 8192), (131_088, 8193), (1_600_000, 100_000)] {
        assert_eq!(worth_rewriting(&with_file(0, entries, 0), 0), worth);
    }
    let store = &Shared::new(0).store;
    for (shard, entries, byte, due) in [
        (0, 1_600_000, 0, 50_000),
        (0, 1_600_000, 0xff, 99_999),
        // 50,000 times the golden ratio, or times 3 minus this ratio.
        (1, 1_600_000, 0, 80_901),
        (1, 1_600_000, 0xff, 69_098),
        (0, 0, 0, 4096),
        (0, 0, 0xff, 8191),
    ] {
        let version = with_file(shard, entries, byte);
        assert_eq!(store.due_at(&version, shard), due, "{shard} {entries} {byte}");
        let worth = worth_rewriting(&version, shard);
        assert_eq!(rewritten_at(store, &version, shard), due + worth / 2, "{shard} {entries} {byte}");
    }
}

/// A run of version 11 is then in the file of shard 0, and pending for shard 1. A merge leaves out the records of
/// shard 0.
#[test]
fn a_merge_leaves_out_what_a_fold_of_the_same_version_has_folded() {
    let shared = Shared::new(0);
    let folding = shared.store.clone().folding(false);
    shared.commit(0..200, false);
    let base = folding.newest().unwrap();
    let fold = folding.fold_shard(&base, 0, None).unwrap().unwrap();
    assert_eq!(folding.commit_folds(&[fold]).unwrap().folded, 1);
    assert_eq!(folding.newest().unwrap().folded(0), base.runs.last().unwrap().to);
    (0..12).for_each(|round| shared.commit(30 * round..30 * round + 40, false));
    let newest = folding.newest().unwrap();
    assert!(!newest.names_run(base.runs.last().unwrap().name));
    shared.check().unwrap();
}

/// Other processes rewrite the shards, so that a run is pending for none of them. A fold then only drops the run.
#[test]
fn a_run_that_is_pending_for_no_shard_is_named_no_more() {
    let shared = Shared::new(0);
    let (before, store) = (shared.store.newest().unwrap(), shared.store.clone());
    shared.commit(0..50, false);
    shared.commit(50..100, true);
    let named = store.newest().unwrap();
    assert!(before.runs.is_empty() && named.runs.len() == 1);
    let told = store.compact(false, &|_, _| {}).unwrap();
    assert_eq!((told.version, told.folded, told.full), (Some(named.number + 1), 0, 0));
    assert!(store.newest().unwrap().runs.is_empty());
    shared.check().unwrap();
}

#[test]
fn progress_of_folds_ends_with_all_shards() {
    let shared = Shared::new(1);
    let told = Mutex::new(Vec::new());
    let done = shared.store.compact(true, &|done, all| told.lock().unwrap().push((done, all))).unwrap();
    let folds: Vec<ShardFile> = shared.store.newest().unwrap().shards.into_values().collect();
    assert_eq!((done.folded, done.bytes), (2, folds.iter().map(|file| file.bytes).sum()));
    assert_eq!(*told.lock().unwrap(), [(1, 2), (2, 2)]);
    let told = Mutex::new(Vec::new());
    let reader = shared.store.read().unwrap();
    reader.verify(&|done, all| told.lock().unwrap().push((done, all))).unwrap();
    assert_eq!(*told.lock().unwrap(), [(1, 2), (2, 2)]);
}

/// The shard's records in the merged run would count twice, as the file has them, too.
#[test]
fn a_merge_gives_way_to_a_fold_that_ends_in_its_midst() {
    let shared = Shared::new(8);
    let folding = shared.store.clone().folding(false);
    let base = folding.newest().unwrap();
    let fold = folding.fold_shard(&base, 0, None).unwrap().unwrap();
    let (number, last) = (base.number, base.runs.last().unwrap().to);
    let (mut files, others) = (0, folding.clone());
    let watched = Watched::new(folding.storage.clone(), move |call| {
        files += u32::from(call == "put file");
        // The second file is the merged run.
        if call == "put file" && files == 2 {
            let (reader, fold) = (others.read_strictly(base.clone()), std::slice::from_ref(&fold));
            assert!(others.publish_folds(&reader, fold, &mut Compacted::default()).unwrap().is_some());
        }
        Verdict::Made
    });
    let store = Store { storage: Arc::new(watched), ..folding.clone() };
    let outcome = insert(&store, 200..220, false);
    shared.count(200..220, &outcome);
    let newest = folding.newest().unwrap();
    assert_eq!((newest.number, newest.runs.len()), (number + 2, 9));
    assert_eq!(newest.folded(0), last);
    shared.check().unwrap();
}

/// A store with nine runs: the last commit could not merge them.
fn with_nine_runs() -> Arc<Shared> {
    let shared = Shared::new(8);
    let mut files = 0;
    let watched = Watched::new(shared.store.storage.clone(), move |call| {
        files += u32::from(call == "put file");
        if files > 1 { Verdict::Failed } else { Verdict::Made }
    });
    let store = Store { storage: Arc::new(watched), ..shared.store.clone() };
    let outcome = insert(&store, 90..110, false);
    shared.count(90..110, &outcome);
    assert_eq!(shared.store.newest().unwrap().runs.len(), 9);
    shared
}

#[test]
fn runs_of_the_base_that_others_have_merged_are_no_conflict_with_a_rewritten_shard() {
    let shared = with_nine_runs();
    let mut update = shared.store.update().unwrap().rewriting();
    update.insert_batch(&[200_u32.to_le_bytes()]).unwrap().complete().unwrap();
    let told = shared.store.clone().folding(false).compact(false, &|_, _| {}).unwrap();
    let merged = shared.store.newest().unwrap();
    let [run] = merged.runs.as_slice() else { panic!("{merged:?}") };
    assert_eq!((told.version, told.folded, told.bytes), (Some(merged.number), 0, run.bytes));
    let outcome = update.commit("insert", None);
    assert!(matches!(outcome, Ok(Committed::New(_))), "{outcome:?}");
    shared.count(200..201, &outcome);
    shared.check().unwrap();
}

/// The commit is judged over a version whose files a vacuum removes before they are opened.
#[test]
fn an_update_that_a_vacuum_gives_up_while_it_is_judged_is_told_so() {
    for rebased in [false, true] {
        let shared = Shared::new(0);
        let awaited = Arc::new(Mutex::new(None));
        let (others, opened) = (shared.clone(), awaited.clone());
        let watched = Watched::opening(shared.store.storage.clone(), move |name| {
            if opened.lock().unwrap().take_if(|awaited| awaited == name).is_some() {
                others.intrude(Operation::Fold);
                others.intrude(Operation::Vacuum);
            }
        });
        let store = Store { storage: Arc::new(watched), ..shared.store.clone() };
        let mut update = store.update().unwrap();
        update.insert_batch(&[200_u32.to_le_bytes()]).unwrap().complete().unwrap();
        let base = update.base().number;
        shared.commit(300..320, false);
        let newest = shared.store.newest().unwrap();
        *awaited.lock().unwrap() = Some(crate::store::files::run(&newest.runs.last().unwrap().name));
        let outcome = if rebased {
            update.commit_rebased("insert", None, &|_, _| {}).map(drop)
        } else {
            update.commit("insert", None).map(drop)
        };
        assert_eq!(*awaited.lock().unwrap(), None, "the run was opened");
        match outcome {
            Err(Error::Expired { base: found, fence, .. }) => assert!(found == base && fence > base),
            outcome => panic!("{rebased} {outcome:?}"),
        }
        shared.check().unwrap();
    }
}
