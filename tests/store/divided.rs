//! Invariants checked, for stores made out of a filter:
//!
//! 1. Whichever call of the creation fails, the folder is no store before it has all keys. The same creation, run again,
//!    completes the store without losing a key.
//! 2. A filter that cannot be divided leaves nothing behind.
//! 3. On a file system without hard links, the error says so.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gowk::disk::{Disk, SystemDisk};
use gowk::store::{Error, Store};
use gowk::{Batches, Lookup, Options, Reader};

const KEYS: u64 = 500;

/// A filter of this many regions with some keys.
fn filter(dir: &Path, capacity: u64) -> Reader {
    let path = dir.join("f.gowk");
    let mut writer = Options::new().capacity(capacity).create(&path).unwrap();
    (0..KEYS).for_each(|key| _ = writer.insert(key.to_le_bytes()).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
    Reader::open(&path).unwrap()
}

fn quiet(_: u64, _: u64) {}

/// Fails every call from a certain one on, like a disk that was unplugged.
#[derive(Debug)]
struct Failing {
    left: AtomicU64,
}

impl Failing {
    fn new(calls: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(calls) })
    }

    fn check(&self) -> io::Result<()> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("gone"))
    }
}

impl Disk for Failing {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.check()?;
        SystemDisk.create(path, mode)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        SystemDisk.write_at(file, bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.check()?;
        SystemDisk.rename(from, to, replace)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        SystemDisk.link(from, to)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.check()?;
        SystemDisk.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check()?;
        SystemDisk.sync_dir(dir)
    }
}

fn assert_whole(store: &Store) {
    let reader = store.read().unwrap();
    assert!((0..KEYS).all(|key| reader.contains(key.to_le_bytes()).unwrap()));
}

#[test]
fn a_creation_out_of_a_filter_that_fails_anywhere_leaves_no_store_and_can_go_on() {
    if crate::needs_a_folder("fails calls to the disk") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let filter = filter(dir.path(), 50_000);
    let mut unfinished = 0;
    for calls in 0.. {
        let path = dir.path().join(format!("s{calls}"));
        let options = Options::new().disk(Failing::new(calls));
        match Store::create_from(&path, 4, &filter, &options, &quiet) {
            Ok(_) => {
                assert!(calls > 30, "only {calls} calls");
                assert_whole(&Store::open(&path).unwrap());
                break;
            }
            Err(_) => match Store::open(&path) {
                Err(Error::NotFound { .. } | Error::NotAStore { .. }) => {}
                Err(error @ Error::Unfinished { .. }) => {
                    unfinished += 1;
                    assert!(error.to_string().contains("run the same creation again"), "{error}");
                    // A creation with other options does not continue it.
                    assert!(Store::create(&path, 4, &Options::new()).is_err());
                    assert!(Store::create_from(&path, 2, &filter, &Options::new(), &quiet).is_err());
                }
                // The link of the first version was made, and a later call failed.
                Ok(store) => assert_whole(&store),
                Err(error) => panic!("{error}"),
            },
        }
        let again = Store::create_from(&path, 4, &filter, &Options::new(), &quiet);
        match again {
            Ok(_) | Err(Error::Exists { .. }) => assert_whole(&Store::open(&path).unwrap()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(unfinished > 5, "only {unfinished} creations were unfinished");
}

#[test]
fn a_filter_that_cannot_be_divided_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let filter = filter(dir.path(), 50_000);
    assert_eq!(filter.info().unwrap().regions, 2);
    for shards in [0, 3, 5, 6, 65_535] {
        let path = crate::place(&dir);
        assert!(Store::create_from(&path, shards, &filter, &Options::new(), &quiet).is_err());
        let is_there = path.exists() || (crate::is_in_a_bucket() && !crate::files_at(&path).is_empty());
        assert!(!is_there, "{shards} shards");
    }
}

/// A file system without hard links, like FAT and some network mounts.
#[derive(Debug)]
struct WithoutLinks(i32);

impl Disk for WithoutLinks {
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(self.0))
    }
}

#[test]
fn where_links_are_refused_the_error_names_them_and_not_the_permissions() {
    if crate::needs_a_folder("is about links") {
        return;
    }
    use nix::errno::Errno;
    let dir = tempfile::tempdir().unwrap();
    for (number, code) in
        [Errno::EPERM, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EXDEV].into_iter().enumerate()
    {
        let options = Options::new().capacity(1000).disk(Arc::new(WithoutLinks(code as i32)));
        let path = dir.path().join(format!("new-{number}"));
        let error = Store::create(&path, 2, &options).unwrap_err();
        assert!(matches!(error, Error::NoLinks { .. }), "{error}");
        assert!(
            error.to_string().contains("link(2)") && !error.to_string().contains("permissions"),
            "{error}"
        );
        assert!(matches!(Store::open(&path), Err(Error::NotAStore { .. })));
        // A store that was copied to such a file system.
        let path = dir.path().join(format!("copied-{number}"));
        Store::create(&path, 2, &Options::new().capacity(1000)).unwrap();
        let mut update = Store::open_with(&path, &options).unwrap().update().unwrap();
        update.insert_batch(&[b"a"]).unwrap().complete().unwrap();
        let error = update.commit("insert", None).unwrap_err();
        assert!(matches!(error, Error::NoLinks { .. }), "{error}");
    }
    let options = Options::new().capacity(1000).disk(Arc::new(WithoutLinks(Errno::EACCES as i32)));
    let error = Store::create(dir.path().join("forbidden"), 2, &options).unwrap_err();
    assert!(matches!(error, Error::Filter(gowk::Error::Io { .. })), "{error}");
}

/// No shard is ever created anew, and each file has its share of the filter's limit.
#[test]
fn a_store_made_of_a_filter_with_a_limit_has_none_and_is_unfinished_without_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.gowk");
    let mut writer = Options::new().capacity(1_000_000).max_file_size(1 << 30).create(&path).unwrap();
    writer.insert(1_u64.to_le_bytes()).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let filter = Reader::open(&path).unwrap();
    let place = crate::place(&dir);
    let create = || Store::create_from(&place, 2, &filter, &Options::new(), &quiet);
    let store = create().unwrap();
    assert_eq!((store.description().max_file_size, store.description().divided), (None, true));
    assert!(matches!(create(), Err(Error::Exists { .. })));
    crate::remove(&store.path().join("versions/000000000002.toml"));
    assert!(matches!(Store::open(&place), Err(Error::Unfinished { .. })));
}
