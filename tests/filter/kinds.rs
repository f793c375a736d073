//! The kind of a filter, and closing it with uncommitted changes.
//!
//! Invariants checked:
//!
//! 1. A filter keeps the kind with which it was created. Opening it as the other kind is an error that names both, and
//!    changes nothing.
//! 2. Closing with uncommitted changes fails with [`Error::Uncommitted`]; they are rolled back, and the filter is closed
//!    cleanly. Closing without such changes does not fail: after a commit, after a rollback, and after calls that changed
//!    nothing.

use std::path::Path;

use gowk::{Batches, Error, Kind, Lookup, Options, Reader, Writer};

const KINDS: [Kind; 2] = [Kind::Set, Kind::Counting];

fn options() -> Options {
    Options::new().capacity(1000)
}

fn created(path: &Path, kind: Kind) {
    let mut writer = options().kind(kind).create(path).unwrap();
    assert!(writer.insert("a").unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_filter_is_of_the_kind_that_it_was_created_as() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = dir.path().join(kind.name());
        created(&path, kind);
        let other = KINDS[usize::from(kind == KINDS[0])];
        let before = std::fs::read(&path).unwrap();
        for open in [Options::open, Options::open_existing] {
            let refused = open(&options().kind(other), &path).unwrap_err();
            assert!(
                matches!(refused, Error::Kind { found, wanted, .. } if found == kind && wanted == other),
                "{refused}"
            );
            let text = refused.to_string();
            assert!(text.contains(path.to_str().unwrap()), "{text}");
            assert!(text.contains(&format!("is a {kind}")) && text.contains(&format!("a {other}")), "{text}");
        }
        // Opening may have changed the state word before the regions, but not the regions.
        let regions = |bytes: &[u8]| bytes[bytes.len() - 65_536..].to_vec();
        assert!(regions(&std::fs::read(&path).unwrap()) == regions(&before));
        for options in [options(), options().kind(kind)] {
            let writer = options.open(&path).unwrap();
            assert_eq!(writer.info().unwrap().kind, kind);
            writer.close().unwrap();
        }
        assert_eq!(Reader::open(&path).unwrap().info().unwrap().kind, kind);
        let like = Options::like(&Reader::open(&path).unwrap()).unwrap();
        assert_eq!(
            like.create(dir.path().join(format!("like-{}", kind.name()))).unwrap().info().unwrap().kind,
            kind
        );
        // A filter of the other kind replaces it.
        options().kind(other).force(true).create(&path).unwrap().close().unwrap();
        assert_eq!(Reader::open(&path).unwrap().info().unwrap().kind, other);
    }
    assert_eq!(Options::new().create(dir.path().join("default")).unwrap().info().unwrap().kind, Kind::Set);
}

#[test]
fn kinds_have_names() {
    for kind in KINDS {
        assert_eq!(Kind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(Kind::from_name("Set"), None);
    assert_eq!(Kind::default(), Kind::Set);
}

#[test]
fn a_set_gives_up_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    created(&path, Kind::Set);
    let mut writer = Writer::open(&path).unwrap();
    let hash = writer.hash("a").unwrap();
    let refused = [
        writer.remove("a").unwrap_err(),
        writer.remove("never inserted").unwrap_err(),
        writer.remove(hash).unwrap_err(),
        writer.remove_batch(&["a", "b"]).unwrap_err(),
        writer.remove_batch::<&str>(&[]).unwrap_err(),
        writer.remove_all(["a"]).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::Kind { found: Kind::Set, wanted: Kind::Counting, .. }), "{error}");
        let text = error.to_string();
        for part in [path.to_str().unwrap(), "is a set", "removing keys", "counting"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert!(writer.contains("a").unwrap());
    assert_eq!((writer.count("a").unwrap(), writer.count("b").unwrap()), (1, 0));
    // The refused removals changed nothing.
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        (reader.len().unwrap(), reader.info().unwrap().removed, reader.count("a").unwrap()),
        (1, 0, 1)
    );
}

/// Changes a filter and closes it. Returns whether closing reported lost changes.
fn lost(path: &Path, change: impl FnOnce(&mut Writer)) -> bool {
    let mut writer = Writer::open(path).unwrap();
    change(&mut writer);
    match writer.close() {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, Error::Uncommitted { .. }), "{error}");
            let text = error.to_string();
            for part in [path.to_str().unwrap(), "`commit`", "`rollback`", "lost"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            true
        }
    }
}

#[test]
fn closing_tells_of_changes_that_are_lost_and_closes_well() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = dir.path().join(kind.name());
        created(&path, kind);
        let before = Reader::open(&path).unwrap().info().unwrap();
        assert!(lost(&path, |writer| _ = writer.insert("b").unwrap()));
        assert!(lost(&path, |writer| _ = writer.insert_batch(&["b", "c"]).unwrap().complete().unwrap()));
        assert!(lost(&path, |writer| writer.metadata_mut().unwrap().set("name", *b"value")));
        assert!(lost(&path, |writer| writer.grow().unwrap()));
        if kind == Kind::Counting {
            assert!(lost(&path, |writer| assert!(writer.remove("a").unwrap())));
            assert!(lost(&path, |writer| assert!(!writer.insert("a").unwrap())));
        }
        // After a commit and a rollback, only the insert that follows is lost.
        assert!(lost(&path, |writer| {
            writer.commit().unwrap();
            writer.rollback().unwrap();
            writer.insert("d").unwrap();
        }));
        let reader = Reader::open(&path).unwrap();
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
        assert_eq!(reader.info().unwrap(), before);
        assert!(reader.contains("a").unwrap() && !reader.contains("b").unwrap());
        assert_eq!(reader.metadata().unwrap().iter().count(), 0);
        // Closed cleanly: nothing needs recovery, and the file says that nobody has it open.
        assert_eq!(&std::fs::read(&path).unwrap()[131_072..131_080], b"gowkidle");
        assert_eq!(Options::new().sealed(true).read(&path).unwrap().len().unwrap(), 1);
    }
}

#[test]
fn closing_without_changes_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = dir.path().join(kind.name());
        created(&path, kind);
        assert!(!lost(&path, |_| {}));
        assert!(!lost(&path, |writer| {
            writer.insert("b").unwrap();
            writer.metadata_mut().unwrap().set("name", *b"value");
            writer.grow().unwrap();
            writer.rollback().unwrap();
        }));
        assert!(!lost(&path, |writer| {
            writer.insert("b").unwrap();
            writer.commit().unwrap();
        }));
        assert!(!lost(&path, |writer| assert!(writer.contains("a").unwrap())));
        assert!(!lost(&path, |writer| {
            writer.metadata_mut().unwrap().set("name", *b"value");
            writer.metadata_mut().unwrap().remove("name");
        }));
        if kind == Kind::Set {
            // Keys that are already present are not stored, single or in a batch.
            assert!(!lost(&path, |writer| assert!(!writer.insert("a").unwrap())));
            assert!(!lost(&path, |writer| {
                assert_eq!(writer.insert_batch(&vec!["a"; 50_000]).unwrap().complete().unwrap(), 0);
            }));
        } else {
            assert!(!lost(&path, |writer| assert!(!writer.remove("never inserted").unwrap())));
        }
        assert_eq!(Reader::open(&path).unwrap().len().unwrap(), 2);
    }
}

#[test]
fn a_new_filter_that_was_never_committed_is_lost_unless_it_was_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let new = || options().create(&path).unwrap();
    let is_lost = |writer: Writer| match writer.close() {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, Error::Uncommitted { .. }), "{error}");
            true
        }
    };
    assert!(is_lost(new()));
    let mut writer = new();
    writer.insert("a").unwrap();
    assert!(is_lost(writer));
    let mut writer = new();
    writer.insert("a").unwrap();
    writer.rollback().unwrap();
    assert!(!is_lost(writer));
    // An insert after the rollback is a change again.
    let changes: [fn(&mut Writer); 3] = [
        |writer| _ = writer.insert("b").unwrap(),
        |writer| writer.metadata_mut().unwrap().set("name", *b"value"),
        |writer| writer.grow().unwrap(),
    ];
    for change in changes {
        let mut writer = new();
        writer.rollback().unwrap();
        change(&mut writer);
        assert!(is_lost(writer));
    }
    assert!(matches!(Reader::open(&path), Err(Error::NotFound { .. })), "a filter without a commit is there");
    let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "f-lock").collect();
    assert!(left.is_empty(), "{left:?}");
    // Dropping a writer reports nothing.
    drop(new());
    let mut writer = new();
    writer.rollback().unwrap();
    writer.insert("a").unwrap();
    writer.commit().unwrap();
    assert!(!is_lost(writer));
    assert!(Reader::open(&path).unwrap().contains("a").unwrap());
}
