//! Other files under the filter's names, and other processes that remove or move its files.
//!
//! Invariants checked:
//!
//! 1. No file that belongs to somebody else is removed, overwritten or replaced, whatever its name.
//! 2. The data file itself says that a writer has it: removing the lock file does not allow a second writer.
//! 3. While a commit is being applied, readers get the counts and metadata of the previous commit.
//! 4. Files left by a dead or closing writer never block the next writer.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gowk::disk::{Disk, SystemDisk};
use gowk::{Error, JournalDefect, Lookup, Options, Reader, Untrusted, Writer};

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

/// A closed filter with these keys.
fn filter(path: &Path, keys: std::ops::Range<u64>) {
    let mut writer = Options::new().capacity(10_000).seed(1).create(path).unwrap();
    keys.for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
}

fn all_present(reader: &Reader, mut keys: std::ops::Range<u64>) -> bool {
    keys.all(|i| reader.contains(&key(i)).unwrap())
}

#[test]
fn a_file_in_the_journals_place_is_refused_by_name_and_left_alone() {
    let diary = "dear diary, ".repeat(100);
    for (length, exists) in [(6, false), (6, true), (1000, false), (1000, true)] {
        let dir = tempfile::tempdir().unwrap();
        let (path, journal) = (dir.path().join("urls"), dir.path().join("urls-journal"));
        if exists {
            filter(&path, 0..10);
        }
        fs::write(&journal, &diary[..length]).unwrap();
        let refused = Options::new().open(&path).and_then(|mut writer| writer.commit()).unwrap_err();
        let told = refused.to_string();
        assert!(matches!(refused, Error::Journal { defect: JournalDefect::NotAJournal, .. }), "{told}");
        assert!(told.contains("urls-journal") && told.contains("move it away"), "{told}");
        assert_eq!(fs::read_to_string(&journal).unwrap(), diary[..length]);
        assert_eq!(path.exists(), exists);
    }
}

#[test]
fn a_folder_in_the_journals_place_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("urls-journal")).unwrap();
    let refused =
        Options::new().open(dir.path().join("urls")).and_then(|mut writer| writer.commit()).unwrap_err();
    assert!(matches!(refused, Error::Untrusted { problem: Untrusted::NotAFile, .. }), "{refused}");
    assert!(refused.to_string().contains("urls-journal"), "{refused}");
}

#[test]
fn a_filter_in_the_journals_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("a-journal");
    filter(&other, 0..10);
    let before = fs::read(&other).unwrap();
    let refused = Options::new().create(dir.path().join("a")).and_then(|mut writer| writer.commit());
    assert!(matches!(refused, Err(Error::Journal { defect: JournalDefect::NotAJournal, .. })), "{refused:?}");
    assert!(fs::read(&other).unwrap() == before && all_present(&Reader::open(&other).unwrap(), 0..10));
}

#[test]
fn a_journal_that_was_never_finished_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (path, journal) = (dir.path().join("urls"), dir.path().join("urls-journal"));
    for left in [b"".as_slice(), &[0; 5], &[0; 512], b"gowkjr", b"g\0w\0jr\0l and what a torn write left"] {
        filter(&path, 0..10);
        fs::write(&journal, left).unwrap();
        let mut writer = Options::new().open_existing(&path).unwrap();
        writer.insert(&key(10)).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        assert!(all_present(&Reader::open(&path).unwrap(), 0..11));
        fs::remove_file(&path).unwrap();
    }
}

/// Moves another filter over one that a writer has open. Then the writer commits.
fn moved_over(dir: &Path, change: impl FnOnce(&mut Writer)) {
    let [path, other, own] = ["live", "other", "own"].map(|name| dir.join(name));
    filter(&path, 0..10);
    filter(&other, 1000..6000);
    let mut writer = Options::new().open_existing(&path).unwrap();
    change(&mut writer);
    fs::rename(&path, &own).unwrap();
    fs::rename(&other, &path).unwrap();
    let before = fs::read(&path).unwrap();
    let refused = writer.commit().unwrap_err();
    assert!(matches!(refused, Error::NameTaken { .. }), "{refused}");
    assert!(refused.to_string().contains("give the filter its name back"), "{refused}");
    assert!(fs::read(&path).unwrap() == before, "the other filter was changed");
    // The remedy in the message.
    fs::rename(&path, &other).unwrap();
    let refused = writer.commit().unwrap_err();
    assert!(matches!(refused, Error::Removed { .. }), "{refused}");
    fs::rename(&own, &path).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    assert!(all_present(&Reader::open(&other).unwrap(), 1000..6000));
}

#[test]
fn a_filter_moved_over_one_that_a_writer_has_is_not_replaced_by_its_doubling() {
    let dir = tempfile::tempdir().unwrap();
    moved_over(dir.path(), |writer| {
        writer.insert(&key(10)).unwrap();
        writer.grow().unwrap();
    });
    // Once the other file was moved away, the doubling was published.
    assert!(all_present(&Reader::open(dir.path().join("live")).unwrap(), 0..11));
}

#[test]
fn a_commit_into_a_file_that_lost_its_name_to_another_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    moved_over(dir.path(), |writer| _ = writer.insert(&key(10)).unwrap());
}

#[test]
fn a_removed_lock_file_lets_nobody_in_beside_a_living_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filter(&path, 0..10);
    let mut writer = Options::new().open_existing(&path).unwrap();
    let mut last = 10;
    let mut commit = |writer: &mut Writer| {
        for _ in 0..10 {
            writer.insert(&key(last)).unwrap();
            last += 1;
        }
        writer.commit().unwrap();
        last
    };
    let end = commit(&mut writer);
    fs::remove_file(dir.path().join("f-lock")).unwrap();
    let journal = fs::read(dir.path().join("f-journal")).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(all_present(&reader, 0..end));
    assert!(fs::read(dir.path().join("f-journal")).unwrap() == journal, "the reader has emptied the journal");
    assert!(matches!(Options::new().open_existing(&path), Err(Error::Locked { .. })));
    // The same after a doubling: the new file has a lock of its own.
    writer.grow().unwrap();
    let end = commit(&mut writer);
    let _ = fs::remove_file(dir.path().join("f-lock"));
    assert!(matches!(Options::new().open_existing(&path), Err(Error::Locked { .. })));
    assert!(all_present(&Reader::open(&path).unwrap(), 0..end) && all_present(&reader, 0..end));
    let end = commit(&mut writer);
    assert!(all_present(&reader, 0..end));
    writer.close().unwrap();
    Options::new().open_existing(&path).unwrap();
}

#[test]
fn the_second_name_that_a_killed_publication_left_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let second = dir.path().join("f-gowk-new-00112233445566ff");
    for reads in [false, true] {
        // The file says that a writer has it, as right after its publication.
        let mut writer = Options::new().capacity(1000).create(&path).unwrap();
        writer.insert(&key(1)).unwrap();
        writer.commit().unwrap();
        let copy = fs::read(&path).unwrap();
        drop(writer);
        fs::write(&path, copy).unwrap();
        fs::hard_link(&path, &second).unwrap();
        if reads {
            assert!(Reader::open(&path).unwrap().contains(&key(1)).unwrap());
        } else {
            assert!(Options::new().open_existing(&path).unwrap().contains(&key(1)).unwrap());
        }
        assert!(!second.exists());
        fs::remove_file(&path).unwrap();
    }
}

/// Once armed, stops before the next write to the data file until the test continues it. Counts the syncs of folders.
#[derive(Debug)]
struct Stopping {
    length: AtomicUsize,
    armed: AtomicBool,
    stopped: Mutex<Sender<()>>,
    told: Mutex<Receiver<()>>,
    syncs_of_folders: AtomicUsize,
}

impl Disk for Stopping {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_data = file.metadata()?.len() as usize == self.length.load(Ordering::Relaxed);
        if is_data && self.armed.swap(false, Ordering::Relaxed) {
            self.stopped.lock().unwrap().send(()).unwrap();
            self.told.lock().unwrap().recv().unwrap();
        }
        SystemDisk.write_at(file, bytes, offset)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.syncs_of_folders.fetch_add(1, Ordering::Relaxed);
        SystemDisk.sync_dir(dir)
    }
}

#[test]
fn info_and_metadata_are_those_of_the_last_commit_while_the_next_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filter(&path, 0..100);
    let (stopped, is_stopped) = channel();
    let (tell, told) = channel();
    let disk = Arc::new(Stopping {
        length: AtomicUsize::new(fs::metadata(&path).unwrap().len() as usize),
        armed: AtomicBool::new(false),
        stopped: Mutex::new(stopped),
        told: Mutex::new(told),
        syncs_of_folders: AtomicUsize::new(0),
    });
    let mut writer = Options::new().disk(disk.clone()).open_existing(&path).unwrap();
    let reader = Options::new().disk(disk.clone()).read(&path).unwrap();
    let syncs = disk.syncs_of_folders.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| {
            (100..200).for_each(|i| _ = writer.insert(&key(i)).unwrap());
            writer.metadata_mut().unwrap().set("position", "two");
            disk.armed.store(true, Ordering::Relaxed);
            writer.commit().unwrap();
        });
        is_stopped.recv().unwrap();
        for _ in 0..1000 {
            let info = reader.info().unwrap();
            assert_eq!((info.commit, info.copies), (1, 100));
            assert_eq!(reader.metadata().unwrap().get("position"), None);
        }
        tell.send(()).unwrap();
        committing.join().unwrap();
    });
    assert_eq!(disk.syncs_of_folders.load(Ordering::Relaxed), syncs, "the reader opened the file again");
    let info = reader.info().unwrap();
    assert_eq!((info.commit, info.copies), (2, 200));
    assert_eq!(reader.metadata().unwrap().get("position"), Some(b"two".as_slice()));
}

#[test]
fn a_writer_that_ends_removes_its_temporary_file_before_it_gives_up_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filter(&path, 0..10);
    for round in 0..100 {
        let mut writer = Options::new().open_existing(&path).unwrap();
        writer.grow().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let lock = File::open(dir.path().join("f-lock")).unwrap();
                while fs2::FileExt::try_lock_exclusive(&lock).is_err() {
                    std::hint::spin_loop();
                }
                let names = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
                let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("-new-")).collect();
                assert!(left.is_empty(), "round {round}: {left:?} is there, though nobody has the lock");
                // Closing the file is not enough: a process that another test is starting has inherited it.
                fs2::FileExt::unlock(&lock).unwrap();
                done.store(true, Ordering::Relaxed);
            });
            std::thread::sleep(Duration::from_micros(round * 10));
            drop(writer);
        });
        assert!(done.load(Ordering::Relaxed));
    }
}

#[test]
fn the_error_of_a_failed_allocation_has_the_systems_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "").unwrap();
    let refused = SystemDisk.allocate(&File::open(&path).unwrap(), 4096).unwrap_err();
    assert!(refused.raw_os_error().is_some_and(|errno| errno > 0), "{refused}");
    let file = File::options().write(true).open(&path).unwrap();
    let refused = SystemDisk.allocate(&file, 1 << 60).unwrap_err();
    assert!(refused.raw_os_error().is_some_and(|errno| errno > 0), "{refused}");
}
