//! Invariants checked: a writer holds a lock on the file that its lock file's name leads to, even if another process
//! removes that file while the writer opens. While a writer verifies all pages at opening, others can open the file.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use super::*;
use crate::format::SUPERBLOCK;
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

/// Removes the lock file in the first sync of the folder: after a writer has taken the shared lock, and before it
/// converts the lock.
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

/// While a writer reads the first page of the regions, lets a reader open the file, look up a key and close.
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

/// A disk that fails, with this error, to sync folders or to reserve room.
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

/// Without the right to sync, or on a file system without that call, readers continue. On a disk that fails, they do not:
/// a power cut could undo the file from which they answered.
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

#[test]
fn a_device_is_no_filter_and_a_folder_is_called_one() {
    assert!(matches!(open_data(Path::new("/dev/null"), false), Err(Error::NotGowk { .. })));
    let dir = tempfile::tempdir().unwrap();
    for write in [false, true] {
        match open_data(dir.path(), write) {
            Err(Error::Io { op: "open", source, .. }) => {
                assert_eq!(source.kind(), io::ErrorKind::IsADirectory);
            }
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// Calls `poll` with attempts of these outcomes and durations. Returns how many attempts were made.
fn polled<const N: usize>(wait: Duration, outcomes: [(Attempt<()>, Duration); N]) -> (Result<()>, usize) {
    let (mut outcomes, mut made) = (outcomes.into_iter(), 0);
    let outcome = poll(Path::new("f"), wait, |_| {
        made += 1;
        let (outcome, after) = outcomes.next().expect("one attempt too many");
        thread::sleep(after);
        Ok(outcome)
    });
    (outcome, made)
}

#[test]
fn a_writer_waits_as_long_as_it_was_told_to_and_longer_for_one_that_is_dying() {
    use Attempt::{Done, Locked, Present, StartOver};
    let (soon, never) = (Duration::ZERO, Duration::MAX);
    let outcomes = [(Locked, soon), (Present, DYING), (StartOver, soon), (Done(()), soon)];
    assert!(matches!(polled(never, outcomes), (Ok(()), 4)));
    assert!(matches!(polled(soon, [(Locked, soon)]), (Err(Error::Locked { .. }), 1)));
    assert!(matches!(polled(soon, [(Present, DYING)]), (Err(Error::Locked { .. }), 1)));
    // The second attempt is the last: the first took all the time for openings.
    let outcomes = [(StartOver, OPENINGS), (StartOver, soon)];
    assert!(matches!(polled(soon, outcomes), (Err(Error::Busy { op: "opened", .. }), 1..=2)));
}

fn read(path: &PathBuf) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The files of a filter with a key, as a power cut leaves them while a writer has the filter open.
fn in_use(dir: &Path, name: &str) -> Files {
    let of_writer = Files::new(&dir.join(format!("{name}-of-writer"))).unwrap();
    let mut writer = Options::new().capacity(1000).create(&of_writer.data).unwrap();
    writer.insert(b"a").unwrap();
    writer.commit().unwrap();
    let files = Files::new(&dir.join(name)).unwrap();
    std::fs::copy(&of_writer.data, &files.data).unwrap();
    std::fs::copy(&of_writer.journal, &files.journal).unwrap();
    files
}

#[test]
fn readers_do_without_a_recovery_for_a_lack_of_room_and_not_where_the_disk_fails() {
    let dir = tempfile::tempdir().unwrap();
    let files = in_use(dir.path(), "f");
    let open = |errno| Options::new().disk(Arc::new(Refusing::Room(errno))).read(&files.data);
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::ACCESS, Errno::ROFS] {
        assert!(open(errno).unwrap().contains(b"a").unwrap(), "{errno:?}");
    }
    match open(Errno::IO) {
        Err(Error::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(Errno::IO.raw_os_error())),
        outcome => panic!("{outcome:?}"),
    }
}

/// What happens when a recovering process creates the lock file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    /// Another file takes the filter's name.
    Replaced,
    /// The lock file loses its name.
    Unlocked,
}

#[derive(Debug)]
struct Recovering {
    files: Files,
    other: PathBuf,
    meanwhile: Meanwhile,
}

impl Disk for Recovering {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let file = SystemDisk.create(path, mode)?;
        assert_eq!(path, self.files.lock);
        match self.meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Replaced => std::fs::rename(&self.other, &self.files.data)?,
            Meanwhile::Unlocked => std::fs::remove_file(path)?,
        }
        Ok(file)
    }
}

/// A process would replay the journal of one file in another, or beside a writer with another lock file.
#[test]
fn a_reader_recovers_only_the_file_and_under_the_lock_that_have_the_names() {
    for meanwhile in [Meanwhile::Nothing, Meanwhile::Replaced, Meanwhile::Unlocked] {
        let dir = tempfile::tempdir().unwrap();
        let (files, other) = (in_use(dir.path(), "f"), in_use(dir.path(), "g"));
        let old = File::open(&files.data).unwrap();
        let contents = || {
            let mut bytes = vec![0; old.metadata().unwrap().len() as usize];
            old.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        let (before, journal, new) = (contents(), read(&files.journal), read(&other.data));
        let disk: Arc<dyn Disk> =
            Arc::new(Recovering { files: files.clone(), other: other.data.clone(), meanwhile });
        recover_for_reading(&files, &disk, None).unwrap();
        if meanwhile == Meanwhile::Nothing {
            assert!(contents() != before);
            continue;
        }
        assert!(contents() == before && read(&files.journal) == journal, "{meanwhile:?}");
        let named = if meanwhile == Meanwhile::Replaced { &files.data } else { &other.data };
        assert!(read(named) == new, "{meanwhile:?}");
    }
}

#[test]
fn a_reader_recovers_nothing_that_a_writer_has_whose_lock_file_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let mut writer = Options::new().open_existing(&files.data).unwrap();
    writer.insert(b"b").unwrap();
    writer.commit().unwrap();
    std::fs::remove_file(&files.lock).unwrap();
    let before = [&files.data, &files.journal].map(read);
    recover_for_reading(&files, &(Arc::new(SystemDisk) as _), None).unwrap();
    assert!([&files.data, &files.journal].map(read) == before);
    writer.insert(b"c").unwrap();
    writer.commit().unwrap();
    assert!(Options::new().read(&files.data).unwrap().contains(b"c").unwrap());
}

/// How many open files of this process are `inode`.
#[cfg(target_os = "linux")]
fn opened(inode: Inode) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let inodes = files.filter_map(|file| std::fs::metadata(file.ok()?.path()).ok());
    inodes.filter(|metadata| Inode::of(metadata) == inode).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_whose_file_is_replaced_while_it_opens_opens_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let new = dir.path().join("new");
    let mut writer = Options::new().capacity(1000).create(&new).unwrap();
    writer.insert(b"new").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let gate = File::open(&files.data).unwrap();
    fs2::FileExt::lock_exclusive(&gate).unwrap();
    let inode = files.inode().unwrap().unwrap();
    assert_eq!(opened(inode), 1);
    thread::scope(|scope| {
        let reader = scope.spawn(|| Options::new().read(&files.data)?.contains(b"new"));
        while opened(inode) == 1 && !reader.is_finished() {
            thread::yield_now();
        }
        std::fs::rename(&new, &files.data).unwrap();
        fs2::FileExt::unlock(&gate).unwrap();
        assert!(reader.join().unwrap().unwrap());
    });
}

/// How many reads the thread with this folder in `/proc` has made.
#[cfg(target_os = "linux")]
fn reads(thread: &Path) -> u64 {
    let told = std::fs::read_to_string(thread.join("io")).unwrap();
    told.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

/// A writer writes both superblocks between two looks at them.
#[cfg(target_os = "linux")]
#[test]
fn torn_superblocks_are_read_again_beside_a_writer_and_not_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let files = filter(dir.path());
    let file = OpenOptions::new().read(true).write(true).open(&files.data).unwrap();
    let mut whole = vec![0; 2 * SUPERBLOCK as usize];
    file.read_exact_at(&mut whole, 0).unwrap();
    let mut torn = whole.clone();
    [100, SUPERBLOCK as usize + 100].into_iter().for_each(|at| torn[at] ^= 1);
    let is_torn =
        |writer| matches!(stable_superblocks(&file, &files.data, writer), Err(Error::Superblocks { .. }));
    let attempt = || {
        file.write_all_at(&torn, 0).unwrap();
        assert!(is_torn(false));
        let thread = Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap());
        let (before, is_over) = (reads(&thread), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                // More reads than `reads` itself makes plus one look at the superblocks.
                while is_over.load(Ordering::SeqCst) == 0 && reads(&thread) < before + 10 {
                    thread::yield_now();
                }
                if is_over.load(Ordering::SeqCst) == 0 {
                    file.write_all_at(&whole, 0).unwrap();
                }
            });
            let outcome = is_torn(true);
            is_over.store(1, Ordering::SeqCst);
            !outcome
        })
    };
    // The other thread may be delayed for longer than the superblocks are read again.
    assert!((0..100).any(|_| attempt()));
}
