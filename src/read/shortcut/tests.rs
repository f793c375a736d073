//! Invariants checked: the shortcut answers once every page is intact and a lookup has noted an epoch. After a commit
//! or a flag it gives no answer until a slow lookup notes an epoch again. Hashes of another seed never take it.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::file::LiveHead as _;
use crate::format::{LIVE, LIVE_EPOCH, SUPERBLOCK, UUID_AT};
use crate::{Growth, HashKind, KeyHash, Lookup, Options, Reader, SlotsPerBucket, Verify, Writer};

const KEY: &[u8] = b"8 bytes.";
const LONG: &[u8] = b"not eight bytes";

fn filter(path: &Path, options: Options) -> Writer {
    let mut writer = options.create(path).unwrap();
    writer.insert(KEY).unwrap();
    writer.insert(LONG).unwrap();
    writer.commit().unwrap();
    writer
}

/// A lookup that notes an epoch.
fn look(reader: &Reader) {
    assert!(reader.contains(KEY).unwrap());
}

#[test]
fn it_opens_when_every_page_is_intact_and_closes_with_each_change_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let mut writer = filter(&path, Options::new().counting().capacity(100_000));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let view = reader.view().unwrap();
    let answer = |key: &[u8]| view.contains_fast(&key);

    assert_eq!(answer(KEY), None);
    look(&reader);
    assert_eq!(
        [KEY, LONG, b"absent..", b"absent"].map(answer),
        [Some(true), Some(true), Some(false), Some(false)]
    );
    assert_eq!(view.count_fast(&KEY), Some(1));
    assert_eq!(view.contains_fast(&reader.hash(KEY).unwrap()), Some(true));

    assert!(writer.remove(LONG).unwrap());
    writer.commit().unwrap();
    assert_eq!(answer(LONG), None);
    look(&reader);
    assert_eq!([answer(KEY), answer(LONG)], [Some(true), Some(false)]);

    writer.grow().unwrap();
    writer.commit().unwrap();
    assert_eq!([KEY, LONG, b"absent.."].map(answer), [None; 3], "the file lost its name");
    look(&reader);
    assert_eq!([KEY, LONG, b"absent.."].map(answer), [None; 3], "the file lost its name for good");
    let view = reader.view().unwrap();
    look(&reader);
    assert_eq!(view.contains_fast(&KEY), Some(true));
}

#[test]
fn it_stays_closed_while_a_page_was_not_verified_and_for_other_widths() {
    let dir = tempfile::tempdir().unwrap();
    for (name, verify, slots) in
        [("pages", Verify::FirstTouch, SlotsPerBucket::Four), ("width", Verify::Eager, SlotsPerBucket::Five)]
    {
        let path = dir.path().join(name);
        filter(&path, Options::new().capacity(100_000).slots_per_bucket(slots).growth(Growth::Never));
        let reader = Options::new().verify(verify).read(&path).unwrap();
        look(&reader);
        let view = reader.view().unwrap();
        assert_eq!(view.contains_fast(&KEY), None, "{name}");
        assert_eq!(view.count_fast(&KEY), None, "{name}");
    }
}

#[test]
fn it_takes_no_keys_where_the_caller_hashes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let hash = KeyHash::new(0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210);
    let mut writer = Options::new().capacity(1000).hash(HashKind::Caller).create(&path).unwrap();
    writer.insert(hash).unwrap();
    writer.commit().unwrap();
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    for _ in 0..3 {
        assert!(reader.contains(hash).unwrap());
        assert!(matches!(reader.contains(KEY), Err(crate::Error::CallerHashes { .. })));
    }
    let view = reader.view().unwrap();
    assert_eq!(view.contains_fast(&hash), Some(true));
    assert_eq!(view.contains_fast(&KEY), None);
}

#[test]
fn a_lookup_that_ends_after_the_view_was_left_does_not_open_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    drop(filter(&path, Options::new().capacity(100_000)));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let view = reader.view().unwrap();
    look(&reader);
    assert_eq!(view.contains_fast(&KEY), Some(true));
    view.leave();
    assert_eq!(view.contains_fast(&KEY), None);
    // Only now, a lookup that began earlier in this view ends.
    view.open_shortcut(view.hasher());
    assert_eq!(view.contains_fast(&KEY), None);
    assert_eq!(view.contains_fast(&reader.hash(KEY).unwrap()), None);
    assert_eq!(view.count_fast(&KEY), None);
}

#[test]
fn hashes_of_the_filter_that_was_replaced_never_take_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    drop(filter(&path, Options::new().capacity(1000).seed(1)));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let hash = reader.hash(KEY).unwrap();
    look(&reader);
    assert_eq!(reader.view().unwrap().contains_fast(&hash), Some(true));
    drop(filter(&path, Options::new().capacity(1000).seed(2).force(true)));
    assert!(reader.reload().unwrap());
    look(&reader);
    let view = reader.view().unwrap();
    assert_eq!((view.contains_fast(&KEY), view.contains_fast(&hash)), (Some(true), None));
    assert!(matches!(reader.lookups().contains(hash), Err(crate::Error::Replaced { .. })));
}

/// The handle of a thread sees commits, doublings and the end of the file, as its reader does, and releases an old
/// generation with its next lookup.
#[test]
fn the_view_of_a_handle_is_the_current_one_after_each_lookup() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let mut writer = filter(&path, Options::new().counting().capacity(100_000));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let (seen, other) = (reader.lookups(), reader.lookups());
    assert!(seen.contains(KEY).unwrap() && other.contains(KEY).unwrap());
    let first = std::sync::Arc::downgrade(&reader.view().unwrap());
    assert!(writer.remove(LONG).unwrap());
    writer.commit().unwrap();
    assert_eq!((seen.contains(LONG).unwrap(), seen.count(KEY).unwrap()), (false, 1));
    writer.grow().unwrap();
    writer.insert(b"later").unwrap();
    writer.commit().unwrap();
    assert!(seen.contains(b"later").unwrap() && reader.contains(b"later").unwrap());
    assert!(first.upgrade().is_some(), "the other handle has it");
    assert!(other.contains(b"later").unwrap());
    assert!(first.upgrade().is_none());
    let last = std::sync::Arc::downgrade(&reader.view().unwrap());
    drop((reader, seen));
    assert!(last.upgrade().is_some() && other.contains(b"later").unwrap());
    drop(other);
    assert!(last.upgrade().is_none());
}

/// Checking for a filter that was written over this one takes system calls, so lookups check again only at a new epoch.
#[test]
fn the_superblocks_are_compared_once_at_each_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    filter(&path, Options::new().capacity(1000).slots_per_bucket(SlotsPerBucket::Five)).close().unwrap();
    let reader = Reader::open(&path).unwrap();
    look(&reader);
    let view = reader.view().unwrap();
    assert!(view.is_own());
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    [0, SUPERBLOCK].into_iter().for_each(|slot| file.write_all_at(&[1; 16], slot + UUID_AT).unwrap());
    assert!(view.is_own(), "the superblocks were compared again");
    let next = view.pages.map.epoch() + 2;
    file.write_all_at(&next.to_le_bytes(), LIVE + LIVE_EPOCH).unwrap();
    assert!(!view.is_own());
}
