//! The cache of sealed files while others remove what is in it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use gowk::store::Store;

use super::proxy::{self, Fault};
use super::{cached, insert, is_there, keys, options, path_of_bucket, place};
use gowk::{Batches as _, Lookup as _};

const SHARDS: u32 = 8;
const KEYS: u32 = 4000;

/// A store with a file for each shard, and a run.
fn filled() -> (Store, std::path::PathBuf) {
    let (_, address) = place();
    let store = Store::create(&address, SHARDS, &options()).unwrap();
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&keys(0..KEYS)).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    insert(&store, KEYS..KEYS + 10, None);
    (store, address)
}

/// Readers that open all files anew, one key at a time and many at once.
fn read_all(address: &Path) {
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..4 {
                    let store = Store::open_with(address, &options()).unwrap();
                    assert!(is_there(&store, 0..KEYS + 10));
                    let reader = store.read().unwrap();
                    for key in keys(0..KEYS).into_iter().step_by(97) {
                        assert!(reader.contains(key).unwrap());
                    }
                }
            });
        }
    });
}

/// Runs a test of this file again, in a process with a cache of its own.
fn in_a_process_with(cache: &Path, size: u64, test: &str, address: &Path) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GOWK_TEST_ADDRESS", address)
        // Not through the proxy, which is in this process.
        .envs([super::endpoint(&super::of_script("GOWK_TEST_SERVER"))])
        .env("GOWK_CACHE", cache)
        .env("GOWK_CACHE_SIZE", size.to_string())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

/// Two processes share a cache that has room for no file at all, and lies in a folder with other things.
#[test]
fn readers_that_evict_each_others_files_all_get_answers_and_nothing_else_is_removed() {
    if let Some(address) = std::env::var_os("GOWK_TEST_ADDRESS") {
        return read_all(Path::new(&address));
    }
    let (_, address) = filled();
    let cache = tempfile::tempdir().unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(365 * 24 * 60 * 60);
    let others = ["photos/a.jpg", "work/thesis.txt", "0123456789abcdef0123456789abcdef/notes"];
    let left = "work/fedcba9876543210fedcba9876543210";
    for name in others.into_iter().chain([left]) {
        let path = cache.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        std::fs::File::open(&path).unwrap().set_modified(long_ago).unwrap();
    }
    let own = "cache::readers_that_evict_each_others_files_all_get_answers_and_nothing_else_is_removed";
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| in_a_process_with(cache.path(), 1, own, &address));
        }
    });
    for name in others {
        assert!(cache.path().join(name).exists(), "{name}");
    }
    assert!(!cache.path().join(left).exists(), "a dead process has left it");
    let sealed = |path: &Path| path.extension().is_some_and(|end| end == "gowk" || end == "run");
    let folders = std::fs::read_dir(cache.path()).unwrap().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
    let kept = files.filter(|file| sealed(&file.path())).count();
    assert!(kept <= 12, "{kept} files are kept, but each reader fetches one at a time in the end");
}

#[test]
fn a_cache_may_be_removed_under_running_readers() {
    if let Some(address) = std::env::var_os("GOWK_TEST_ADDRESS") {
        return read_all(Path::new(&address));
    }
    let (_, address) = filled();
    let (dir, ended) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let cache = dir.path().join("cache");
    let removed = std::thread::scope(|scope| {
        let remover = scope.spawn(|| {
            let mut removed = 0;
            while !ended.load(Ordering::Relaxed) {
                // A removal is told to have failed if a reader makes files meanwhile; most are gone then.
                removed += u32::from(cache.exists());
                let _ = std::fs::remove_dir_all(&cache);
                // Removes the cache as soon as it exists, and then ever more seldom, so that readers end however slow the server is.
                std::thread::sleep(Duration::from_millis(10.max(500 * u64::from(removed))));
            }
            removed
        });
        let own = "cache::a_cache_may_be_removed_under_running_readers";
        let outcome = std::panic::catch_unwind(|| in_a_process_with(&cache, 1 << 30, own, &address));
        ended.store(true, Ordering::Relaxed);
        outcome.unwrap();
        remover.join().unwrap()
    });
    assert!(removed > 0, "the cache was not there while the readers ran");
}

/// A batch opens each file once, however small the cache is.
#[test]
fn a_batch_fetches_each_file_once() {
    let count = |address: &Path| {
        let store = Store::open_with(address, &options()).unwrap();
        assert!(is_there(&store, 0..KEYS + 10));
        let files = store.newest().unwrap();
        let requests = store.requests().unwrap();
        (requests.get, (files.shards.len() + files.runs.len()) as u64)
    };
    if let Some(address) = std::env::var_os("GOWK_TEST_ADDRESS") {
        let (gets, files) = count(Path::new(&address));
        // Two texts, and a part of each file.
        assert!((files..=files + 3).contains(&gets), "{gets} of {files} files");
        return;
    }
    let (_, address) = filled();
    let cache = tempfile::tempdir().unwrap();
    in_a_process_with(cache.path(), 1, "cache::a_batch_fetches_each_file_once", &address);
}

/// The files of the newest version that the cache has.
fn cached_of(store: &Store) -> Vec<std::path::PathBuf> {
    let version = store.newest().unwrap();
    let names = version.shards.values().map(|file| file.file_name());
    let names: Vec<_> = names.chain(version.runs.iter().map(|run| run.file_name())).collect();
    let mut files = cached();
    files.retain(|file| names.iter().any(|name| file.ends_with(name)));
    files
}

/// Eight fetches wait for their answers, and all are under way.
#[test]
fn a_batch_fetches_its_files_side_by_side_and_none_has_its_name_before_it_is_whole() {
    let (store, address) = filled();
    let prefix = address.file_name().unwrap().to_str().unwrap();
    cached_of(&store).iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let (told, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let heard = told.clone();
    let options = options().fetch_progress(move |done, all| heard.lock().unwrap().push((done, all)));
    let reader = Store::open_with(&address, &options).unwrap().read().unwrap();
    proxy::plan(prefix, Fault::Held, 0, usize::MAX, &format!("GET {}/{prefix}/shards/", path_of_bucket()));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| reader.contains_batch(&keys(0..KEYS + 10)).unwrap());
        let ended = || start.elapsed() > Duration::from_secs(30);
        let are_held = proxy::await_requests(prefix, SHARDS as usize, ended);
        let early =
            cached_of(&store).iter().filter(|file| file.extension().is_some_and(|end| end == "gowk")).count();
        let seen = proxy::relent(prefix);
        assert!(are_held && early == 0, "{early} {seen:#?}");
        assert!(asked.join().unwrap().into_iter().all(|found| found));
    });
    let files = cached_of(&store);
    assert_eq!(files.len(), SHARDS as usize + 1);
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    // Fetches that overlap count together, and those after them begin at 0 again.
    let told = told.lock().unwrap();
    assert!(told.iter().all(|(done, all)| done <= all && *all > 0), "{told:?}");
    let ends = told
        .iter()
        .enumerate()
        .filter(|(at, (done, _))| told.get(at + 1).is_none_or(|(next, _)| next < done));
    let ends: Vec<(u64, u64)> = ends.map(|(_, end)| *end).collect();
    assert!(ends.iter().all(|(done, all)| done == all), "{told:?}");
    assert_eq!(ends.iter().map(|(done, _)| done).sum::<u64>(), bytes, "{told:?}");
}
