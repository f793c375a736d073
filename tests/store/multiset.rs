//! Real processes that insert into one counting store and remove from it, while others fold, merge and vacuum; all of
//! them are killed at random moments.
//!
//! Invariants checked:
//!
//! 1. Each version holds exactly the copies that the commits in it inserted and did not remove, whatever was folded and
//!    merged. The tokens of the version say which commits these are.
//! 2. In the order of their versions, each commit called a key new if it was absent, and removed only copies that
//!    existed.
//! 3. If a process was killed before it knew that its commit was made, a retry judges all keys as before.
//! 4. Calls fail only because of a conflict, or because a vacuum has given up their version.
//! 5. At the end every key can be inserted once more, and is then found.
//!
//! 4 processes make 20 commits each, or 300 with `GOWK_THOROUGH=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use gowk::store::{Committed, Error, Store, StoreReader, Token, Vacuum};
use gowk::{Batches, Lookup, Options, SlotsPerBucket};

use crate::images::{Random, is_tidy};
use crate::{Key, place_in, quiet, thorough};

/// So few keys that copies of a key often come and go between two merges.
const KEYS: usize = 60;
const WORKERS: u64 = 4;
const ROLE: &str = "GOWK_ROLE_AT_A_MULTISET";

fn options() -> Options {
    Options::new().counting().capacity(1000).seed(3).slots_per_bucket(SlotsPerBucket::Two).threads(1)
}

/// What a commit did, as recorded before it is made.
#[derive(Clone, Default, PartialEq, Debug)]
struct Deeds {
    /// Inserted copies of each key, minus removed ones.
    copies: BTreeMap<u64, i64>,
    /// The answers for inserted keys: whether each was new.
    new: BTreeMap<u64, bool>,
}

impl Deeds {
    fn text(&self) -> String {
        let mut text = String::new();
        self.copies.iter().for_each(|(key, copies)| writeln!(text, "copies {key} {copies}").unwrap());
        self.new.iter().for_each(|(key, new)| writeln!(text, "new {key} {}", i64::from(*new)).unwrap());
        text
    }

    fn read(path: &Path) -> Self {
        let mut deeds = Self::default();
        for line in fs::read_to_string(path).unwrap().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (key, value) = (words[1].parse().unwrap(), words[2].parse::<i64>().unwrap());
            match words[0] {
                "copies" => drop(deeds.copies.insert(key, value)),
                _ => drop(deeds.new.insert(key, value == 1)),
            }
        }
        deeds
    }
}

/// Where a process records a commit before it makes it, and its version afterwards.
fn noted(dir: &Path, what: &str, process: u64, number: u64) -> PathBuf {
    dir.join(format!("{what}-{process}-{number}"))
}

fn note(path: &Path, text: &str) {
    fs::write(path.with_extension("part"), text).unwrap();
    fs::rename(path.with_extension("part"), path).unwrap();
}

/// Makes the commit of a process with this number. Returns the number of its version.
fn commit(dir: &Path, store: &Store, process: u64, number: u64) -> Result<u64, Error> {
    let mut random = Random(process << 32 | number);
    let application = format!("p{process}");
    let mut update = store.update_of(store.before(&application, number)?);
    let (kind, is_rebased) = (random.below(8), random.below(2) == 0);
    if kind >= 6 {
        update = update.rewriting();
    }
    let mut deeds = Deeds::default();
    let steps: &[bool] = match kind {
        0..=2 | 6 => &[true],
        3 | 4 => &[false],
        _ => &[false, true, false],
    };
    for inserts in steps {
        let mut numbers: Vec<u64> = (0..1 + random.below(6)).map(|_| random.below(KEYS) as u64).collect();
        if random.below(8) == 0 {
            // One key many times, but never more often than a filter can count.
            numbers.extend(vec![numbers[0]; 50]);
        }
        let keys: Vec<Key> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        if *inserts {
            let new = update.insert_batch(&keys)?.mask();
            for (number, new) in numbers.iter().zip(new) {
                *deeds.copies.entry(*number).or_default() += 1;
                deeds.new.entry(*number).or_insert(new);
            }
        } else {
            for (number, removed) in numbers.iter().zip(update.remove_batch(&keys)?) {
                *deeds.copies.entry(*number).or_default() -= i64::from(removed);
            }
        }
    }
    if steps.len() > 1 || is_rebased && kind < 3 {
        // Keys whose copies add up to 0 are not in the commit; and a rebased commit judges again.
        deeds.new.clear();
    }
    // Others commit, merge and fold during this time.
    sleep(Duration::from_millis(random.below(3) as u64 * random.below(20) as u64));
    let path = noted(dir, "deeds", process, number);
    let before = path.exists().then(|| Deeds::read(&path));
    note(&path, &deeds.text());
    let token = Some(Token::new(application, number));
    let committed = match is_rebased {
        true => update.commit_rebased("test", token, &quiet)?.0,
        false => update.commit("test", token)?,
    };
    match committed {
        Committed::New(version) => Ok(version.number),
        Committed::Already(done) => {
            assert_eq!(before.unwrap(), deeds, "commit {number} of process {process}, judged again");
            Ok(done.version)
        }
        Committed::Unchanged => panic!("a commit with a token"),
    }
}

const fn may_happen(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. } | Error::Expired { .. } | Error::Vacuumed { .. })
}

/// Folds as tasks of a cluster do: first the files, and later the version.
fn fold(store: &Store, random: &mut Random) -> Result<(), Error> {
    let base = store.newest()?;
    let mut folds = Vec::new();
    for shard in store.to_fold(&base, true)? {
        folds.extend(store.fold_shard(&base, shard, None)?);
        sleep(Duration::from_millis(random.below(80) as u64));
    }
    store.commit_folds(&folds).map(drop)
}

/// The child process's part. Does nothing without a role, as the test harness also runs it by itself.
#[test]
fn what_the_processes_do() {
    let Ok(asked) = std::env::var(ROLE) else { return };
    let mut parts = asked.splitn(4, ':');
    let role = parts.next().unwrap();
    let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
    let (process, commits) = (number(), number());
    let dir = Path::new(parts.next().unwrap());
    let store = Store::open_with(place_in(dir, "s"), &options()).unwrap();
    let mut random = Random(thorough::seed(process));
    let is_over = || dir.join("over").exists();
    match role {
        "commit" => {
            for number in (1..=commits).filter(|number| !noted(dir, "made", process, *number).exists()) {
                let version = loop {
                    match commit(dir, &store, process, number) {
                        Err(error) if may_happen(&error) => {}
                        version => break version.unwrap(),
                    }
                };
                note(&noted(dir, "made", process, number), &version.to_string());
            }
        }
        "compact" => {
            while !is_over() {
                let done = match random.below(2) {
                    0 => store.compact(true, &quiet).map(drop),
                    _ => fold(&store, &mut random),
                };
                match done {
                    Err(error) if may_happen(&error) => {}
                    done => done.unwrap(),
                }
                sleep(Duration::from_millis(random.below(400) as u64));
            }
        }
        _ => {
            while !is_over() {
                // Commits into a bucket take longer.
                let step = if crate::is_in_a_bucket() { 4000 } else { 400 };
                let grace = Duration::from_millis(step * random.below(4) as u64);
                let vacuum = Vacuum::default().keep(1 + random.below(3) as u64).grace(grace);
                store.vacuum(&vacuum).unwrap();
                sleep(Duration::from_millis(100 + random.below(200) as u64));
            }
        }
    }
}

fn start(dir: &Path, role: &str, process: u64, commits: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "multiset::what_the_processes_do", "--nocapture"])
        .env(ROLE, format!("{role}:{process}:{commits}:{}", dir.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Compares a version with the commits that its tokens name.
fn check(dir: &Path, reader: &StoreReader) -> Result<(), Error> {
    let mut expected = vec![0; KEYS];
    for (application, done) in &reader.version().tokens {
        let process = application[1..].parse().unwrap();
        for number in 1..=done.number {
            let deeds = Deeds::read(&noted(dir, "deeds", process, number));
            deeds.copies.iter().for_each(|(key, copies)| expected[*key as usize] += copies);
        }
    }
    let keys: Vec<Key> = (0..KEYS as u64).map(u64::to_le_bytes).collect();
    let found = reader.contains_batch(&keys)?;
    for ((key, expected), found) in keys.iter().zip(&expected).zip(found) {
        let highest = SlotsPerBucket::Two.highest_count();
        let (number, version) = (u64::from_le_bytes(*key), reader.version().number);
        assert!(*expected >= 0, "key {number} has {expected} copies in version {version}");
        let count = reader.count(key)?;
        assert_eq!(
            i64::from(count),
            (*expected).min(i64::from(highest)),
            "key {number} in version {version}"
        );
        assert_eq!(found, *expected > 0, "key {number} in version {version}");
    }
    Ok(())
}

/// Replays the commits in the order of their versions.
fn replay(dir: &Path, commits: u64) {
    let mut all = BTreeMap::new();
    for (process, number) in
        (0..WORKERS).flat_map(|process| (1..=commits).map(move |number| (process, number)))
    {
        let version = fs::read_to_string(noted(dir, "made", process, number)).unwrap();
        let other = all.insert(version.parse::<u64>().unwrap(), (process, number));
        assert_eq!(other, None, "two commits made version {version}");
    }
    let mut copies = vec![0; KEYS];
    for (version, (process, number)) in all {
        let deeds = Deeds::read(&noted(dir, "deeds", process, number));
        for (key, new) in deeds.new {
            assert_eq!(new, copies[key as usize] == 0, "key {key} of version {version}");
        }
        for (key, more) in deeds.copies {
            copies[key as usize] += more;
            assert!(copies[key as usize] >= 0, "key {key} of version {version}");
        }
    }
}

#[test]
fn every_version_holds_what_its_commits_brought_and_did_not_take() {
    let commits = thorough::size("commits of each of 4 processes", 20, 300);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let store = Store::create(place_in(path, "s"), 3, &options()).unwrap();
    let roles = (0..WORKERS).map(|process| ("commit", process));
    let roles: Vec<_> = roles.chain([("compact", 0), ("compact", 1), ("vacuum", 0)]).collect();
    let mut children: Vec<Child> =
        roles.iter().map(|(role, process)| start(path, role, *process, commits)).collect();
    let mut random = Random(thorough::seed(1));
    let (mut killed, mut checked) = (0, 0);
    let is_over = || (0..WORKERS).all(|process| noted(path, "made", process, commits).exists());
    while !is_over() {
        let unlucky = random.below(4 * roles.len());
        if let (Some((role, process)), Some(child)) = (roles.get(unlucky), children.get_mut(unlucky)) {
            child.kill().unwrap();
            let ended = child.wait().unwrap();
            assert!(ended.success() || ended.code().is_none(), "{role}: {ended}");
            killed += 1;
            *child = start(path, role, *process, commits);
        }
        for (child, (role, _)) in children.iter_mut().zip(&roles) {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none_or(|ended| ended.success()), "{role}: {ended:?}");
        }
        match check(path, &store.read().unwrap()) {
            Err(error) if may_happen(&error) => {}
            outcome => {
                outcome.unwrap();
                checked += 1;
            }
        }
        sleep(Duration::from_millis(random.below(30) as u64));
    }
    fs::write(path.join("over"), "").unwrap();
    for (mut child, (role, _)) in children.into_iter().zip(&roles) {
        let ended = child.wait().unwrap();
        assert!(ended.success(), "{role}: {ended}");
    }
    println!("{killed} killed, {checked} versions compared, {} in all", store.newest().unwrap().number);
    replay(path, commits);
    check(path, &store.read().unwrap()).unwrap();
    let keys: Vec<Key> = (0..KEYS as u64).map(u64::to_le_bytes).collect();
    let mut update = store.update().unwrap();
    update.insert_batch(&keys).unwrap().complete().unwrap();
    let before = store.read().unwrap();
    update.commit("insert", None).unwrap();
    for told in [true, false] {
        let reader = store.read().unwrap();
        for key in &keys {
            let expected = (before.count(key).unwrap() + 1).min(SlotsPerBucket::Two.highest_count());
            assert_eq!(reader.count(key).unwrap(), expected);
        }
        if told {
            store.compact(true, &quiet).unwrap();
        }
    }
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    is_tidy(&store).unwrap();
}

/// More removals than a shard keeps as records: it is rewritten, and each removes one copy. While removals are pending,
/// batches of lookups find the same as single lookups.
#[test]
fn many_removals_in_one_batch_take_one_copy_each_and_pending_ones_count_in_batches() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store(&dir, 1, &crate::options().capacity(20_000).counting());
    let all = crate::keys(0..13_000);
    let insert = |keys: &[crate::Key]| {
        crate::update(&store, keys).commit("insert", None).unwrap();
    };
    insert(&all);
    insert(&all);
    let remove = |keys: &[crate::Key]| {
        let mut update = store.update().unwrap();
        assert!(update.remove_batch(keys).unwrap().iter().all(|removed| *removed));
        update.commit("remove", None).unwrap();
        store.read().unwrap()
    };
    let reader = remove(&all);
    for key in &all {
        assert_eq!(reader.count(key).unwrap(), 1);
    }
    let reader = remove(&all[..10]);
    assert!(!reader.version().runs.is_empty());
    let found = reader.contains_batch(&all).unwrap();
    assert!(found.iter().enumerate().all(|(at, found)| *found == (at >= 10)));
}

/// A shard whose records would not fit into its file still accepts removals, and refuses further copies.
#[test]
fn removals_need_no_room_where_a_shard_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::options().counting().growth(gowk::Growth::Never);
    let store = crate::store(&dir, 1, &options).folding(false);
    let all = crate::keys(0..16_000);
    for part in all.chunks(8000) {
        crate::update(&store, part).commit("insert", None).unwrap();
    }
    let mut update = store.update().unwrap();
    // More than a shard keeps as records, and then a few.
    for part in [&all[..9000], &all[9000..9100]] {
        let removed = update.remove_batch(part).unwrap();
        assert!(removed.len() == part.len() && removed.iter().all(|removed| *removed));
    }
    for _ in 0..2 {
        let refused = update.insert_batch(&crate::keys(20_000..20_100)).unwrap().into_refused();
        assert_eq!(refused.len(), 100);
    }
    update.commit("remove", None).unwrap();
    let found = store.read().unwrap().contains_batch(&all).unwrap();
    assert!(found.iter().enumerate().all(|(at, found)| *found == (at >= 9100)));
}
