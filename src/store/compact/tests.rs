//! The real code on real files: at each call to its storage that a commit, a fold, a merge or a rewriting update makes,
//! others commit, fold, merge, rewrite and vacuum.
//!
//! Invariants checked:
//!
//! 1. Each key has exactly the copies that reported commits brought. So nothing is lost, and no record counts twice.
//! 2. A commit fails for a conflict or because a vacuum has given it up, and for nothing else; a fold or merge does not.
//! 3. All versions that stay are whole, and in the end all can be folded.
//!
//! That this can fail: without the rules by which folds and merges give way, invariant 1 breaks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::disk::{Disk, SystemDisk};
use crate::store::storage::watched::{Verdict, Watched};
use crate::store::{Committed, Vacuum};
use crate::{Batches as _, Lookup as _, Options, SlotsPerBucket};

/// No power is cut here.
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
    /// With so many runs of ten keys each, and all of the first keys in files.
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

    fn intrude(&self, deed: Deed) {
        match deed {
            Deed::Commit => self.commit(300..320, false),
            Deed::Commits => (0..9).for_each(|_| self.commit(320..400, false)),
            Deed::Rewrite => self.commit(400..420, true),
            Deed::Fold => drop(self.store.compact(true, &|_, _| {}).unwrap()),
            Deed::Vacuum => drop(self.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap()),
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
enum Deed {
    Commit,
    /// So many that runs are merged.
    Commits,
    Rewrite,
    Fold,
    Vacuum,
}

const INTRUSIONS: [&[Deed]; 8] = [
    &[Deed::Commit],
    &[Deed::Commits],
    &[Deed::Rewrite],
    &[Deed::Fold],
    &[Deed::Vacuum],
    &[Deed::Commit, Deed::Fold, Deed::Vacuum],
    &[Deed::Commits, Deed::Vacuum, Deed::Fold],
    &[Deed::Fold, Deed::Commits, Deed::Commit],
];

/// What the process under test does: a commit of these keys, or a fold.
#[derive(Clone, Copy, Debug)]
enum Program {
    /// Its run is the ninth, so that runs are merged then.
    Commit,
    Rewrite,
    Fold,
}

#[test]
fn others_at_any_call_lose_no_copy_and_add_none() {
    let mut runs = 0;
    for program in [Program::Commit, Program::Rewrite, Program::Fold] {
        for intrusion in INTRUSIONS {
            for at in 0.. {
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
                shared.intrude(Deed::Fold);
                shared.intrude(Deed::Vacuum);
                shared.check().unwrap_or_else(how);
                assert!(shared.store.newest().unwrap().runs.is_empty());
                runs += 1;
                if !*reached.lock().unwrap() {
                    break;
                }
            }
        }
    }
    assert!(runs > 200, "{runs}");
}
