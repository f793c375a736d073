//! A thread keeps the reader that it used last. /proc/self/maps tells whether a filter is still mapped.
//!
//! Invariant checked: a filter is unmapped once its last reader is dropped and no thread keeps it. A thread lets it go
//! when it ends, drops the last clone, looks something up in another filter, or calls `release_thread`.

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
    // More than once: the first lookup of a page verifies it.
    for _ in 0..3 {
        assert!((0..KEYS).all(|i| reader.contains(&i.to_le_bytes()).unwrap()));
    }
}

fn mappings(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
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

#[test]
fn an_idle_thread_lets_go_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(dir.path(), "f");
    let reader = Reader::open(&path).unwrap();
    let (theirs, (told, tell), (said, hear)) = (reader.clone(), mpsc::channel(), mpsc::channel());
    let idle = std::thread::spawn(move || {
        look_up(&theirs);
        drop(theirs);
        told.send(()).unwrap();
        hear.recv().unwrap();
        Reader::release_thread();
        // A second call has nothing to release.
        Reader::release_thread();
        told.send(()).unwrap();
        hear.recv().unwrap();
    });
    tell.recv().unwrap();
    drop(reader);
    // The idle thread keeps the mapping, as the documentation says.
    assert_eq!(mappings(&path), 1);
    said.send(()).unwrap();
    tell.recv().unwrap();
    assert_eq!(mappings(&path), 0);
    said.send(()).unwrap();
    idle.join().unwrap();
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
