//! Invariants checked, for each storage: those that `storage.rs` requires of every storage.

use std::sync::Arc;

use super::super::Error;
use super::super::files::{INCOMING, VERSIONS};
use super::memory::Memory;
use super::*;
use crate::disk::SystemDisk;

/// Runs a test over each storage, empty; the folder is one for local files.
fn each(test: impl Fn(&dyn Storage, &Path)) {
    let local = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn crate::disk::Disk> = Arc::new(SystemDisk);
    test(&Folder::prepare(&dir.path().join("s"), 2, &disk).unwrap(), local.path());
    test(&Memory::default(), local.path());
    test(&Memory::of_objects(), local.path());
    #[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
    if let Some(bucket) = std::env::var_os("GOWK_TEST_BUCKET") {
        // `tests/buckets/run` starts a server with a bucket.
        let address = Path::new(&bucket).join(crate::system::new_uuid(local.path()).unwrap()[0].to_string());
        test(&*prepare(&address, 2, &Options::new().disk(disk.clone())).unwrap().1, local.path());
    }
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) -> Put {
    let draft = format!("{INCOMING}/{}.draft", bytes.len());
    storage.put_if_absent(name, &draft, bytes, &mut || Ok(true)).unwrap()
}

#[test]
fn of_several_puts_of_one_name_one_is_done_and_its_bytes_stay() {
    each(|storage, _| {
        let name = format!("{VERSIONS}/a");
        assert!(matches!(put(storage, &name, b"one"), Put::Done));
        assert!(matches!(put(storage, &name, b"three"), Put::Taken));
        assert!(matches!(put(storage, &name, b"one"), Put::Taken));
        assert_eq!(storage.get(&name).unwrap().unwrap(), b"one");
        let done = std::thread::scope(|scope| {
            let puts: Vec<_> = (0..8_usize)
                .map(|number| scope.spawn(move || put(storage, &format!("{VERSIONS}/b"), &vec![0; number])))
                .collect();
            let puts = puts.into_iter().enumerate().map(|(number, put)| (number, put.join().unwrap()));
            puts.filter(|(_, put)| matches!(put, Put::Done)).map(|(number, _)| number).collect::<Vec<_>>()
        });
        let [winner] = done[..] else { panic!("{done:?}") };
        assert_eq!(storage.length(&format!("{VERSIONS}/b")).unwrap(), Some(winner as u64));
        assert_eq!(storage.list(INCOMING, "").unwrap(), [""; 0]);
    });
}

#[test]
fn of_fifty_creators_of_one_name_one_wins_in_each_of_twenty_rounds() {
    each(|storage, _| {
        for round in 0..20 {
            let (name, start) = (&format!("{VERSIONS}/{round}"), &std::sync::Barrier::new(50));
            let done = std::thread::scope(|scope| {
                let puts: Vec<_> = (0..50_u8)
                    .map(|own| {
                        scope.spawn(move || {
                            let draft = format!("{INCOMING}/{own}.draft");
                            start.wait();
                            storage.put_if_absent(name, &draft, &[own], &mut || Ok(true)).unwrap()
                        })
                    })
                    .collect();
                let puts = (0..50_u8).zip(puts).map(|(own, put)| (own, put.join().unwrap()));
                puts.filter(|(_, put)| matches!(put, Put::Done)).map(|(own, _)| own).collect::<Vec<_>>()
            });
            let [winner] = done[..] else { panic!("round {round}: {done:?}") };
            assert_eq!(storage.get(name).unwrap().unwrap(), [winner]);
        }
    });
}

#[test]
fn what_is_meant_as_an_address_and_is_none_is_no_folder() {
    fn of(path: &str) -> Result<Option<Address<'_>>> {
        Address::of(Path::new(path)).transpose()
    }
    for (path, scheme, bucket, prefix) in [
        ("s3://b", Scheme::S3, "b", ""),
        ("s3://b/", Scheme::S3, "b", ""),
        ("gs://b/x", Scheme::Gs, "b", "x"),
        ("az://b//x/", Scheme::Az, "b", "x"),
        ("s3://my-bucket.x_1//a/b c/\u{e9}?#%41//", Scheme::S3, "my-bucket.x_1", "a/b c/\u{e9}?#%41"),
    ] {
        let address = of(path).unwrap().unwrap();
        assert_eq!((address.scheme, address.bucket, address.prefix), (scheme, bucket, prefix), "{path}");
    }
    for path in
        ["", "s3", "s3:", "b/s3://x", "s3/b", "/s3://b", "a.b://c", "./s3://b", "c:x", "://b", "gs", "az:x"]
    {
        assert!(of(path).unwrap().is_none(), "{path}");
    }
    for path in [
        "s3://",
        "s3:///",
        "s3:///x",
        "s3:/b/x",
        "S3://b/x",
        "s3a://b/x",
        "gs:/b/x",
        "az:/b/x",
        "azure://b/x",
        "az://b@account/x",
        "s3://k:secret@b/x",
        "s3://b c/x",
        "s3://-b/x",
        "s3://b/a//b",
        "s3://b/a/../b",
        "s3://b/.",
        "s3://b/a\nb",
        "s3://b?x/y",
    ] {
        assert!(matches!(of(path), Err(Error::Address { .. })), "{path}: {:?}", of(path));
        assert!(is_store(Path::new(path)), "{path}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"s3://b/\xff"));
        assert!(matches!(Address::of(path), Some(Err(Error::Address { .. }))));
    }
}

#[test]
fn a_put_asks_while_its_draft_is_there_and_needs_it() {
    each(|storage, _| {
        if storage.is_object_store() {
            return;
        }
        let (name, draft) = (format!("{VERSIONS}/a"), format!("{INCOMING}/d"));
        let put = |due: &mut dyn FnMut() -> Result<bool>| storage.put_if_absent(&name, &draft, b"x", due);
        let mut asked = 0;
        let dropped = put(&mut || {
            asked += 1;
            assert_eq!(storage.list(INCOMING, "").unwrap(), ["d"]);
            assert_eq!(storage.length(&name).unwrap(), None);
            Ok(false)
        });
        assert!(matches!(dropped, Ok(Put::Dropped)) && asked == 1);
        let failed = put(&mut || Err(Error::NoVersions { path: "x".into() }));
        assert!(matches!(failed, Err(Error::NoVersions { .. })));
        let swept = put(&mut || Ok(storage.delete(&draft).unwrap() == Some(1)));
        assert!(matches!(swept, Ok(Put::Taken)));
        assert_eq!(storage.length(&name).unwrap(), None);
        assert_eq!(storage.list(INCOMING, "").unwrap(), [""; 0]);
        assert!(matches!(put(&mut || Ok(true)), Ok(Put::Done)));
    });
}

#[test]
fn what_was_put_is_there_and_what_was_deleted_is_not() {
    each(|storage, local| {
        for (name, length) in [("versions/b", 0), ("versions/a", 3), ("shards/0001/c", 100_000)] {
            assert_eq!((storage.get(name).unwrap(), storage.length(name).unwrap()), (None, None));
            assert_eq!(storage.delete(name).unwrap(), None);
            let file = local.join("f");
            std::fs::write(&file, vec![7; length]).unwrap();
            storage.put_file(name, &file).unwrap();
            assert!(!file.exists());
            assert_eq!(storage.get(name).unwrap().unwrap(), vec![7; length]);
            assert_eq!(storage.length(name).unwrap(), Some(length as u64));
        }
        assert_eq!(storage.list("versions", "").unwrap(), ["a", "b"]);
        assert_eq!(storage.list("versions", "a").unwrap(), ["b"]);
        assert_eq!(storage.list("versions", "b").unwrap(), [""; 0]);
        assert_eq!(storage.list("shards/0001", "").unwrap(), ["c"]);
        assert_eq!(storage.list("shards/0000", "").unwrap(), [""; 0]);
        assert_eq!(storage.delete("versions/a").unwrap(), Some(3));
        assert_eq!(storage.delete("versions/a").unwrap(), None);
        assert_eq!(storage.list("versions", "").unwrap(), ["b"]);
        assert_eq!(storage.get("versions/a").unwrap(), None);
        storage.settle("versions").unwrap();
    });
}

#[test]
fn requests_are_added_each_to_its_own() {
    let one = Requests { put: 2, get: 3, head: 5, list: 7, delete: 11, post: 13, failed: 17 };
    let other = Requests { put: 100, get: 200, head: 300, list: 400, delete: 500, post: 600, failed: 700 };
    let both = Requests { put: 102, get: 203, head: 305, list: 407, delete: 511, post: 613, failed: 717 };
    assert_eq!(one + other, both);
}

#[test]
fn an_error_of_an_address_names_all_forms_and_one_of_a_build_the_feature() {
    let told = open(Path::new("s3a://b/x"), &Options::new()).unwrap_err().to_string();
    for form in ["a folder", "`s3://bucket/prefix`", "`gs://bucket/prefix`", "`az://container/prefix`"] {
        assert!(told.contains(form), "{told}");
    }
    for (scheme, is_built) in
        [("s3", cfg!(feature = "s3")), ("gs", cfg!(feature = "gs")), ("az", cfg!(feature = "az"))]
    {
        let path = format!("{scheme}://b/x");
        for opened in [open(Path::new(&path), &Options::new()), prepare(Path::new(&path), 1, &Options::new())]
        {
            if is_built {
                continue;
            }
            let told = opened.unwrap_err().to_string();
            assert!(told.contains(&format!("build it with the feature `{scheme}`")), "{told}");
        }
    }
}

#[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
#[test]
fn the_path_of_a_store_in_a_bucket_is_its_address() {
    for (given, root) in [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://bucket//a/b//", "s3://bucket/a/b"),
        ("gs://bucket", "gs://bucket"),
        ("az://bucket/a/", "az://bucket/a"),
    ] {
        let address = super::Address::of(Path::new(given)).unwrap().unwrap();
        assert_eq!(address.root(), Path::new(root), "{given}");
    }
}
