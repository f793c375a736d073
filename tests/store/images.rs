//! Images: the folders that a power cut can leave, and the checks that a store in one is whole.
//!
//! Assumptions about the medium: a sync of a file settles its contents, and a sync of a folder its names. Any part of the
//! unsettled changes may be on the medium. A file that was never synced may have any contents.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gowk::store::{Error, Store, Vacuum};
use gowk::{Batches, Lookup, Options};

use crate::record::{Event, FileId, role};

/// Of up to this many unsettled names, all subsets are tried.
const ALL_SUBSETS: usize = 7;
/// How many keys the tests look up.
pub(crate) const KEYS: u64 = 64;
pub(crate) const STORE: &str = "s";

pub(crate) fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// What a store should hold: the keys, by the number of its newest version; `None` without a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct State(pub(crate) Option<(u64, BTreeSet<u64>)>);

/// A sequence of numbers, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}

/// The contents of a file that was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Contents {
    Nothing,
    Zeros,
    All,
}

/// Whole files by name below the folder; folders have no contents.
type Image = BTreeMap<PathBuf, Option<Arc<Vec<u8>>>>;

/// A folder's names: a folder, or a file.
type Names = BTreeMap<PathBuf, Option<FileId>>;

pub(crate) struct Examiner<'a> {
    events: &'a [Event],
    /// What each file holds in memory.
    memory: &'a [Arc<Vec<u8>>],
    states: &'a [State],
    seen: HashSet<u64>,
    /// Files by the address of their contents, for images to link to.
    cache: HashMap<usize, PathBuf>,
    dir: tempfile::TempDir,
    pub(crate) images: usize,
}

fn apply(event: &Event, names: &mut Names) {
    match event {
        Event::Folder(path) => drop(names.insert(path.clone(), None)),
        Event::Named(path, file) => drop(names.insert(path.clone(), Some(*file))),
        Event::Unnamed(path, file) => names.retain(|name, named| name != path || *named != Some(*file)),
        _ => {}
    }
}

fn parent_of(event: &Event) -> Option<&Path> {
    match event {
        Event::Folder(path) | Event::Named(path, _) | Event::Unnamed(path, _) => path.parent(),
        _ => None,
    }
}

impl<'a> Examiner<'a> {
    pub(crate) fn new(history: &'a (Vec<Event>, Vec<Arc<Vec<u8>>>), states: &'a [State]) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = tempfile::Builder::new().prefix("gowk-stores-").tempdir_in(memory);
        let dir = dir.or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(dir.path().join("cache")).unwrap();
        Self {
            events: &history.0,
            memory: &history.1,
            states,
            seen: HashSet::new(),
            cache: HashMap::new(),
            dir,
            images: 0,
        }
    }

    /// Examines images of every moment, in `rounds` rounds with different random choices. Stops at the first image that
    /// violates an invariant, and returns the fault.
    pub(crate) fn all(&mut self, rounds: u64, enough: usize) -> Result<(), String> {
        for round in 0..rounds {
            let mut random = Random(crate::thorough::seed(round + 1));
            for cut in 0..=self.events.len() {
                self.cut(cut, round, &mut random)?;
                if self.images >= enough {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self, cut: usize, round: u64, random: &mut Random) -> Result<(), String> {
        let (mut names, mut open, mut synced, mut states) =
            (Names::new(), Vec::new(), HashMap::new(), (0, 0));
        for event in &self.events[..cut] {
            match event {
                Event::Synced(file, content) => drop(synced.insert(*file, content.clone())),
                Event::SyncedFolder(folder) => open.retain(|event| {
                    let settled = parent_of(event) == Some(folder);
                    if settled {
                        apply(event, &mut names);
                    }
                    !settled
                }),
                Event::Began(state) => states.1 = *state,
                Event::Acknowledged(state) => states = (*state, states.1.max(*state)),
                naming => open.push(naming.clone()),
            }
        }
        let count = open.len();
        let mut subsets: Vec<Vec<bool>> = Vec::new();
        if round == 0 && count <= ALL_SUBSETS {
            subsets
                .extend((0..1_u32 << count).map(|set| (0..count).map(|bit| set >> bit & 1 == 1).collect()));
        } else if round == 0 {
            subsets.extend((0..=count).map(|length| (0..count).map(|at| at < length).collect()));
            subsets.extend((0..count).map(|lost| (0..count).map(|at| at != lost).collect()));
        } else {
            subsets.push((0..count).map(|_| random.below(2) == 0).collect());
        }
        for kept in subsets {
            let mut names = names.clone();
            let chosen = open.iter().zip(&kept).filter(|(_, kept)| **kept);
            chosen.for_each(|(event, _)| apply(event, &mut names));
            let contents = match random.below(3) {
                0 => Contents::Nothing,
                1 => Contents::Zeros,
                _ => Contents::All,
            };
            let image = self.image(&names, &synced, contents);
            let mut hasher = std::hash::DefaultHasher::new();
            let digest =
                image.iter().map(|(name, content)| (name, content.as_ref().map(|c| Arc::as_ptr(c) as usize)));
            std::hash::Hash::hash(&(digest.collect::<Vec<_>>(), contents, states), &mut hasher);
            if !self.seen.insert(std::hash::Hasher::finish(&hasher)) {
                continue;
            }
            self.images += 1;
            let outcome = self.write(&image).and_then(|root| self.goes_on(&root, states));
            outcome.map_err(|how| {
                let lost: Vec<_> = open
                    .iter()
                    .zip(&kept)
                    .filter(|(_, kept)| !**kept)
                    .map(|(event, _)| told(event))
                    .collect();
                format!("cut after event {cut}, unsynced files {contents:?}, lost: {lost:?}: {how}")
            })?;
        }
        Ok(())
    }

    fn image(&self, names: &Names, synced: &HashMap<FileId, Arc<Vec<u8>>>, contents: Contents) -> Image {
        let nothing = Arc::new(Vec::new());
        let has_folder = |path: &Path| {
            path.ancestors()
                .skip(1)
                .filter(|above| *above != Path::new(""))
                .all(|above| names.contains_key(above))
        };
        let there = names.iter().filter(|(name, _)| has_folder(name));
        let content = |file: &FileId| match (synced.get(file), contents) {
            (Some(content), _) => content.clone(),
            (None, Contents::Nothing) => nothing.clone(),
            (None, Contents::Zeros) => Arc::new(vec![0; self.memory[*file].len()]),
            (None, Contents::All) => self.memory[*file].clone(),
        };
        there.map(|(name, file)| (name.clone(), file.as_ref().map(content))).collect()
    }

    fn write(&mut self, image: &Image) -> Result<PathBuf, String> {
        let root = self.dir.path().join("image");
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).unwrap();
        for (name, content) in image {
            let path = root.join(name);
            let Some(content) = content else {
                std::fs::create_dir(&path).unwrap();
                continue;
            };
            // Each distinct contents in the history has its own address.
            let lasts = Arc::strong_count(content) > 1 && content.len() > 4096;
            if !lasts {
                std::fs::write(&path, &**content).unwrap();
                continue;
            }
            let number = self.cache.len();
            let dir = self.dir.path().join("cache");
            let cached = self.cache.entry(Arc::as_ptr(content) as usize).or_insert_with(|| {
                let cached = dir.join(number.to_string());
                std::fs::write(&cached, &**content).unwrap();
                cached
            });
            std::fs::hard_link(cached, &path).unwrap();
        }
        Ok(root)
    }

    fn goes_on(&self, root: &Path, (first, last): (usize, usize)) -> Result<(), String> {
        let found = look(root)?;
        let expected = &self.states[first..=last];
        if !expected.contains(&found) {
            return Err(format!("found {found:?}, expected one of {expected:?}"));
        }
        continues(root, &found)
    }
}

fn told(event: &Event) -> String {
    match event {
        Event::Folder(path) => format!("folder {}", role(path)),
        Event::Named(path, _) => format!("name of {}", role(path)),
        Event::Unnamed(path, _) => format!("removal of {}", role(path)),
        _ => String::new(),
    }
}

/// The contents of the store in a folder. Checks that every version that the store promises to keep is whole.
pub(crate) fn look(root: &Path) -> Result<State, String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error} ({error:?})");
    let store = match Store::open(root.join(STORE)) {
        Err(Error::NotFound { .. } | Error::NotAStore { .. }) => return Ok(State(None)),
        outcome => outcome.map_err(failed("opening"))?,
    };
    let newest = store.newest().map_err(failed("the newest version"))?;
    let bases = newest.tokens.values().map(|done| done.base);
    for number in (newest.first..newest.number).chain(bases) {
        let version = store.version(number).map_err(failed("a version that is promised"))?;
        keys_of(&store, version)?;
    }
    let number = newest.number;
    Ok(State(Some((number, keys_of(&store, newest)?))))
}

fn keys_of(store: &Store, version: gowk::store::Version) -> Result<BTreeSet<u64>, String> {
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error} ({error:?})");
    let reader = store.read_version(version);
    for (shard, report) in reader.verify(&|_, _| {}).map_err(failed("verifying"))? {
        let report = report.map_err(|error| format!("shard {shard:?}: {error} ({error:?})"))?;
        if !report.is_clean() {
            return Err(format!("shard {shard:?}: {report:?}"));
        }
    }
    let mut found = BTreeSet::new();
    for number in 0..KEYS {
        if reader.contains(&key(number)).map_err(failed("looking"))? {
            found.insert(number);
        }
    }
    let entries = reader.version().entries();
    // Keys that a forgetting store has forgotten stay in its files for a while.
    if entries != found.len() as u64 && reader.store().description().retention.is_none() {
        return Err(format!("{entries} entries, but {found:?}"));
    }
    Ok(found)
}

/// Makes one more commit and a vacuum. Checks that exactly the newest version and its files remain.
pub(crate) fn continues(root: &Path, found: &State) -> Result<(), String> {
    let failed = |what: &'static str| move |error: Error| format!("going on: {what}: {error} ({error:?})");
    let path = root.join(STORE);
    let store = match found.0 {
        None => Store::create(&path, 2, &Options::new().capacity(100).seed(1)).map_err(failed("create"))?,
        Some(_) => Store::open(&path).map_err(failed("open"))?,
    };
    // A forgetting store continues at its own time.
    let store = match store.read().map_err(failed("read"))?.info().store_time {
        None => store,
        Some(time) => {
            let clock = move || std::time::UNIX_EPOCH + Duration::from_millis(time);
            Store::open_with(&path, &Options::new().with_clock(clock)).map_err(failed("open"))?
        }
    };
    let mut update = store.update().map_err(failed("update"))?;
    let fresh = [key(1 << 40), key((1 << 40) + 1), key((1 << 40) + 2)];
    let inserted = update.insert_batch(&fresh).map_err(failed("insert"))?;
    assert!(inserted.refused().is_empty());
    update.commit("insert", None).map_err(failed("commit"))?;
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).map_err(failed("vacuum"))?;
    is_tidy(&store)?;
    let reader = store.read().map_err(failed("read"))?;
    let old = found.0.iter().flat_map(|(_, keys)| keys).map(|number| key(*number));
    for key in fresh.into_iter().chain(old) {
        if !reader.contains(&key).map_err(failed("look"))? {
            return Err("one commit later, a key is lost".to_owned());
        }
    }
    Ok(())
}

/// Whether the folder has only the newest version, the bases of its tokens, and the files that these name.
pub(crate) fn is_tidy(store: &Store) -> Result<(), String> {
    let newest = store.newest().unwrap();
    let mut expected: BTreeSet<PathBuf> = BTreeSet::from(["store.toml".into()]);
    let bases = newest.tokens.values().map(|done| done.base);
    for number in bases.chain([newest.number]) {
        let version = store.version(number).map_err(|error| error.to_string())?;
        expected.insert(format!("versions/{number:012}.toml").into());
        let files = version.shards.iter();
        expected.extend(files.map(|(shard, file)| format!("shards/{shard:04}/{}", file.file_name()).into()));
        expected.extend(version.runs.iter().map(|run| format!("runs/{}", run.file_name()).into()));
    }
    let found = crate::files_of(store);
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
}
