//! Invariants checked: a writer holds a lock on the file that its lock file's name leads to, even if somebody removes
//! the file while the writer opens; and while a writer verifies all pages at opening, others can open the file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::*;
use crate::system::SystemDisk;
use crate::{Lookup, options::Options};

/// A closed filter with a key.
fn filter(dir: &Path) -> Files {
    let path = dir.join("f");
    let mut writer = Options::new().capacity(1000).create(&path).unwrap();
    writer.insert(b"a").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    Files::new(&path).unwrap()
}

/// Removes the lock file in the first sync of the folder: after a writer has taken its lock, and before it converts it.
#[derive(Debug)]
struct Removing {
    lock: PathBuf,
    times: AtomicU32,
}

impl Disk for Removing {
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.times.fetch_add(1, Ordering::SeqCst) == 0 {
            std::fs::remove_file(&self.lock)?;
        }
        SystemDisk.sync_dir(dir)
    }
}

#[test]
fn a_lock_file_removed_before_the_lock_is_converted_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let disk = Arc::new(Removing { lock: files.lock.clone(), times: AtomicU32::new(0) });
    let writer = Options::new().disk(disk.clone()).open_existing(&files.data).unwrap();
    assert!(disk.times.load(Ordering::SeqCst) > 1, "it started over");
    let named = File::open(&files.lock).unwrap();
    assert!(
        fs2::FileExt::try_lock_shared(&named).is_err(),
        "the writer holds the lock of the file with the name"
    );
    drop(writer);
    assert!(fs2::FileExt::try_lock_exclusive(&named).is_ok());
}

/// Lets a reader open the file, look up a key and close, while a writer reads the first page of the regions.
#[derive(Debug)]
struct Beside {
    files: Files,
    data: u64,
    opened: AtomicU32,
}

impl Disk for Beside {
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if offset == self.data {
            let gate = File::open(&self.files.data)?;
            assert!(fs2::FileExt::try_lock_exclusive(&gate).is_ok(), "the gate is held");
            drop(gate);
            assert!(Options::new().read(&self.files.data).unwrap().contains(b"a").unwrap());
            self.opened.fetch_add(1, Ordering::SeqCst);
        }
        SystemDisk.read_at(file, bytes, offset)
    }
}

#[test]
fn others_open_the_file_while_a_writer_verifies_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let data = Options::new().read(&files.data).unwrap().view().unwrap().superblock.identity.geometry.data();
    let disk = Arc::new(Beside { files: files.clone(), data, opened: AtomicU32::new(0) });
    let options = Options::new().verify(Verify::Eager).disk(disk.clone());
    let mut writer = options.open_existing(&files.data).unwrap();
    assert_eq!(disk.opened.load(Ordering::SeqCst), 1);
    writer.insert(b"b").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
}

/// A disk whose folders cannot be synced, or on which no room can be taken, for this reason.
#[derive(Debug)]
enum Refusing {
    Sync(Errno),
    Room(Errno),
}

impl Disk for Refusing {
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::Sync(errno) => Err((*errno).into()),
            Self::Room(_) => SystemDisk.sync_dir(dir),
        }
    }

    fn reserve(&self, _: &File, _: u64, _: std::ops::Range<u64>) -> io::Result<()> {
        match self {
            Self::Sync(_) => Ok(()),
            Self::Room(errno) => Err((*errno).into()),
        }
    }
}

/// Without the right to sync, or on a file system that has no such call, readers go on; on a disk that fails, a power
/// cut could take the file back that they have answered from.
#[test]
fn a_filter_is_read_without_a_sync_for_a_lack_of_rights_and_not_where_the_disk_fails() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let open = |errno| Options::new().disk(Arc::new(Refusing::Sync(errno))).read(&files.data);
    for errno in [Errno::ACCESS, Errno::PERM, Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::ROFS] {
        assert!(open(errno).unwrap().contains(b"a").unwrap(), "{errno:?}");
    }
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
        match open(errno) {
            Err(Error::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(errno.raw_os_error())),
            outcome => panic!("{errno:?}: {outcome:?}"),
        }
    }
}

#[test]
fn a_writer_needs_room_for_all_of_the_file_before_it_opens() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let full = Options::new().disk(Arc::new(Refusing::Room(Errno::NOSPC))).open_existing(&files.data);
    assert!(matches!(full, Err(Error::Io { op: "allocate all of", .. })), "{full:?}");
    Options::new().open_existing(&files.data).unwrap().close().unwrap();
}

#[test]
fn a_file_that_cannot_be_looked_for_is_not_taken_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    assert!(matches!(open_data(&dir.path().join("g"), false), Err(Error::NotFound { .. })));
    assert!(matches!(open_data(&files.data.join("g"), false), Err(Error::Io { op: "open", .. })));
}
