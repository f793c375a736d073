//! Invariants checked:
//!
//! 1. A creation that fails, or ends without a commit, leaves no file behind and changes no other file.
//! 2. If many processes create a filter, abandon it and commit at the same time, one at a time is its writer.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use gowk::{Error, Options, Reader, Writer};

use crate::thorough;

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn options() -> Options {
    Options::new().capacity(1000)
}

#[test]
fn a_creation_that_fails_leaves_no_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    assert!(options().max_file_size(1).create(&path).is_err());
    assert!(options().capacity(1 << 45).create(&path).is_err());
    assert_eq!(names(dir.path()), [""; 0]);

    std::fs::write(dir.path().join("f-journal"), "somebody's").unwrap();
    let error = options().create(&path).unwrap_err();
    assert!(error.to_string().contains("f-journal"), "{error}");
    assert_eq!(names(dir.path()), ["f-journal"]);
    // An existing lock file is not removed.
    std::fs::write(dir.path().join("f-lock"), "").unwrap();
    assert!(options().create(&path).is_err());
    assert_eq!(names(dir.path()), ["f-journal", "f-lock"]);
}

#[test]
fn a_filter_without_a_commit_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = options().open(&path).unwrap();
    writer.insert("key").unwrap();
    assert!(matches!(options().open(&path), Err(Error::Locked { .. })));
    drop(writer);
    assert_eq!(names(dir.path()), [""; 0]);
    assert!(matches!(options().create(&path).unwrap().close(), Err(Error::Uncommitted { .. })));
    assert_eq!(names(dir.path()), [""; 0]);
    let mut writer = options().create(&path).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    assert_eq!(names(dir.path()), ["f", "f-journal", "f-lock"]);
    assert!(Writer::open(&path).is_ok() && Reader::open(&path).is_ok());
}

/// Threads compete for locks as processes do: a lock belongs to an open file.
#[test]
fn of_many_who_create_a_filter_one_at_a_time_is_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    let filters = thorough::size("filters of many who create them", 150, 600);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while taken.load(Ordering::SeqCst) < filters {
                    match options().create(&path) {
                        Ok(writer) => {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two writers at once");
                            taken.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(writer);
                        }
                        Err(Error::Locked { .. } | Error::Busy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let mut writer = options().create(&path).unwrap();
    writer.commit().unwrap();
}
