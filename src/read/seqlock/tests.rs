//! Invariant checked: a lookup in a private replay gives no answer if another process recovers the file during the
//! lookup. Pages that the replay did not change are read from the current file; an answer would mix them with replayed
//! pages.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::system::Disk;
use crate::{Lookup, Options};

/// The disk of a process with permission only to read.
#[derive(Debug)]
struct ReadOnly;

fn denied<T>() -> io::Result<T> {
    Err(io::ErrorKind::PermissionDenied.into())
}

impl Disk for ReadOnly {
    fn create(&self, _: &Path, _: u32) -> io::Result<File> {
        denied()
    }

    fn write_at(&self, _: &File, _: &[u8], _: u64) -> io::Result<()> {
        denied()
    }

    fn set_len(&self, _: &File, _: u64) -> io::Result<()> {
        denied()
    }

    fn allocate(&self, _: &File, _: u64) -> io::Result<()> {
        denied()
    }

    fn rename(&self, _: &Path, _: &Path, _: bool) -> io::Result<()> {
        denied()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        denied()
    }
}

/// A filter whose writer died with a commit in the journal.
fn left_by_a_dead_writer(dir: &Path) -> std::path::PathBuf {
    let (path, left) = (dir.join("f"), dir.join("left"));
    let mut writer = Options::new().capacity(1000).create(&path).unwrap();
    for keys in [0..10u8, 10..20] {
        keys.for_each(|key| _ = writer.insert(&[key]).unwrap());
        writer.commit().unwrap();
    }
    std::fs::copy(&path, &left).unwrap();
    std::fs::copy(dir.join("f-journal"), dir.join("left-journal")).unwrap();
    left
}

#[test]
fn a_lookup_that_spans_a_recovery_does_not_answer_from_a_private_replay() {
    let dir = tempfile::tempdir().unwrap();
    let path = left_by_a_dead_writer(dir.path());
    let options = Options::new().disk(Arc::new(ReadOnly));
    let reader = options.read(&path).unwrap();
    let view = reader.view().unwrap();
    assert!(view.is_replayed());
    assert!((0..20u8).all(|key| reader.contains(&[key]).unwrap()));
    assert_eq!(view.read_consistent(RegionId(0), || false, |found| *found), Some(false));
    let epoch = view.pages.map.epoch();
    let recover_and_go_on = || {
        let mut writer = Options::new().open_existing(&path).unwrap();
        writer.insert(b"one more").unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        false
    };
    assert_eq!(view.read_consistent(RegionId(0), recover_and_go_on, |found| *found), None);
    // The check that a batch makes.
    assert!(!view.is_consistent(epoch) && !view.is_consistent(view.pages.map.epoch()));
    assert!(reader.contains(b"one more").unwrap());
    assert!(!reader.view().unwrap().is_replayed());
}
