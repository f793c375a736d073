//! What a thread's lookups leave of a reader: whether the file is still mapped, as the kernel says in /proc/self/maps,
//! and open, as it says in /proc/self/fd.
//!
//! Invariants checked:
//!
//! 1. A filter is unmapped and closed once its last reader is dropped, on any thread, although other threads that used it
//!    continue.
//! 2. An old generation is unmapped and closed with the first lookup of any thread after the doubling. A thread's own
//!    handle keeps it until the next lookup through that handle.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use gowk::{Lookup, Options, Reader};

const KEYS: u64 = 1000;

fn filter(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let mut writer = Options::new().capacity(10_000).create(&path).unwrap();
    (0..KEYS).for_each(|i| _ = writer.insert(&i.to_le_bytes()).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
    path
}

fn look_up(reader: &Reader) {
    // Looks up more than once, as the first lookup of a page verifies the page.
    for _ in 0..3 {
        assert!((0..KEYS).all(|i| reader.contains(&i.to_le_bytes()).unwrap()));
    }
}

fn mappings(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
}

/// How many descriptors of the file are open.
fn opened(path: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    descriptors
        .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().read_link().is_ok_and(|to| to == path)))
        .count()
}

#[test]
fn a_thread_lets_go_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    let reader = Reader::open(&path).unwrap();
    let theirs = reader.clone();
    std::thread::spawn(move || look_up(&theirs)).join().unwrap();
    assert_eq!(mappings(&path), 1);
    drop(reader);
    assert_eq!(mappings(&path), 0);
}

#[test]
fn the_drop_of_the_last_clone_lets_go_on_its_thread() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    let reader = Reader::open(&path).unwrap();
    let clone = reader.clone();
    look_up(&reader);
    drop(reader);
    look_up(&clone);
    assert_eq!(mappings(&path), 1);
    drop(clone);
    assert_eq!(mappings(&path), 0);
}

#[test]
fn readers_that_alternate_on_a_thread_keep_one_mapping_each_and_none_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| filter(dir.path(), name));
    let [a, b] = [0, 1].map(|number| Reader::open(&paths[number]).unwrap());
    for _ in 0..3 {
        look_up(&a);
        look_up(&b);
        assert_eq!(paths.each_ref().map(|path| mappings(path)), [1, 1]);
    }
    drop(a);
    assert_eq!(paths.each_ref().map(|path| mappings(path)), [0, 1]);
    look_up(&b);
    drop(b);
    assert_eq!(paths.each_ref().map(|path| mappings(path)), [0, 0]);
}

/// Lets a thread look something up and then wait while `work` runs.
fn beside_an_idle_thread(reader: Reader, work: impl FnOnce(Reader)) {
    let (theirs, (told, tell), (said, hear)) = (reader.clone(), mpsc::channel(), mpsc::channel());
    let idle = std::thread::spawn(move || {
        look_up(&theirs);
        drop(theirs);
        told.send(()).unwrap();
        hear.recv().unwrap();
    });
    tell.recv().unwrap();
    work(reader);
    said.send(()).unwrap();
    idle.join().unwrap();
}

#[test]
fn an_idle_thread_keeps_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    for in_memory in [false, true] {
        let open = if in_memory { Reader::open_in_memory(&path) } else { Reader::open(&path) };
        let reader = open.unwrap();
        beside_an_idle_thread(reader, |reader| {
            assert_eq!((mappings(&path) == 1, opened(&path) == 1), (!in_memory, !in_memory));
            drop(reader);
            assert_eq!((mappings(&path), opened(&path)), (0, 0));
        });
    }
}

#[test]
fn an_idle_thread_keeps_no_old_generation() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    let reader = Reader::open(&path).unwrap();
    beside_an_idle_thread(reader, |reader| {
        let mut writer = Options::new().open_existing(&path).unwrap();
        writer.grow().unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        let deleted = PathBuf::from(format!("{} (deleted)", path.display()));
        assert_eq!((mappings(&deleted), opened(&deleted)), (1, 1));
        look_up(&reader);
        assert_eq!((mappings(&deleted), opened(&deleted)), (0, 0));
        assert_eq!((mappings(&path), opened(&path)), (1, 1));
    });
}

#[test]
fn an_old_generation_goes_with_the_first_lookup_after_a_doubling() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    let reader = Reader::open(&path).unwrap();
    look_up(&reader);
    let mut writer = Options::new().open_existing(&path).unwrap();
    writer.grow().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let deleted = PathBuf::from(format!("{} (deleted)", path.display()));
    assert_eq!(mappings(&deleted), 1);
    look_up(&reader);
    assert_eq!((mappings(&deleted), mappings(&path)), (0, 1));
}
