//! Invariants checked: the shortcut answers once every page is intact and a lookup has noted an epoch. After a commit
//! or a flag, or in a view of another reader, it gives no answer until a slower lookup notes an epoch again.

use std::path::Path;

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

/// Looks keys up until the thread keeps the view and has noted an epoch.
fn look(reader: &Reader) {
    for _ in 0..2 {
        assert!(reader.contains(KEY).unwrap());
    }
}

#[test]
fn it_opens_when_every_page_is_intact_and_closes_with_each_change_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let mut writer = filter(&path, Options::new().counting().capacity(100_000));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let view = reader.view().unwrap();
    let answer = |key: &[u8]| view.contains_in_line(view.reader, &key);

    assert_eq!(answer(KEY), None);
    look(&reader);
    assert_eq!(
        [KEY, LONG, b"absent..", b"absent"].map(answer),
        [Some(true), Some(true), Some(false), Some(false)]
    );
    assert_eq!(view.count_in_line(view.reader, &KEY), Some(1));
    assert_eq!(view.contains_in_line(view.reader, &reader.hash(KEY).unwrap()), Some(true));
    assert_eq!(view.contains_in_line(view.reader + 1, &KEY), None);

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
    assert_eq!(view.contains_in_line(view.reader, &KEY), Some(true));
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
        assert_eq!(view.contains_in_line(view.reader, &KEY), None, "{name}");
        assert_eq!(view.count_in_line(view.reader, &KEY), None, "{name}");
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
    assert_eq!(view.contains_in_line(view.reader, &hash), Some(true));
    assert_eq!(view.contains_in_line(view.reader, &KEY), None);
}

#[test]
fn a_lookup_that_ends_after_the_view_was_left_does_not_open_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    drop(filter(&path, Options::new().capacity(100_000)));
    let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
    let view = reader.view().unwrap();
    look(&reader);
    assert_eq!(view.contains_in_line(view.reader, &KEY), Some(true));
    let epoch = view.shortcut.epoch.load(std::sync::atomic::Ordering::Acquire);
    view.leave();
    assert_eq!(view.contains_in_line(view.reader, &KEY), None);
    // A lookup that found this epoch ends only now.
    view.note_epoch(epoch);
    assert_eq!(view.contains_in_line(view.reader, &KEY), None);
    assert_eq!(view.contains_in_line(view.reader, &reader.hash(KEY).unwrap()), None);
    assert_eq!(view.count_in_line(view.reader, &KEY), None);
}

/// Threads that keep a view look keys up while the view loses its last user: each answer is right, or there is none.
#[test]
fn a_view_that_is_given_up_meanwhile_answers_no_present_key_absent() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let keys: Vec<[u8; 4]> = (0..2000u32).map(u32::to_le_bytes).collect();
    let mut writer = Options::new().capacity(100_000).seed(1).create(&path).unwrap();
    keys.iter().for_each(|key| assert!(writer.insert(key).unwrap()));
    writer.commit().unwrap();
    writer.close().unwrap();
    let (answered, given_up) = (AtomicU64::new(0), AtomicU64::new(0));
    for _ in 0..300 {
        let reader = Options::new().verify(Verify::Eager).read(&path).unwrap();
        keys.iter().for_each(|key| assert!(reader.contains(key).unwrap()));
        let number = reader.view().unwrap().reader;
        let hash = |key: &[u8; 4]| reader.hash(key).unwrap();
        let hashes: Vec<KeyHash> = keys.iter().map(hash).collect();
        let views = [0; 2].map(|_| reader.view().unwrap().to_keep());
        std::thread::scope(|scope| {
            for (view, quickly) in views.into_iter().zip([false, true]) {
                let (keys, hashes, answered, given_up) = (&keys, &hashes, &answered, &given_up);
                scope.spawn(move || {
                    loop {
                        for (key, hash) in keys.iter().zip(hashes) {
                            let found = match quickly {
                                false => view.contains_in_line(number, key),
                                true => view.contains_quickly(number, *hash),
                            };
                            match found {
                                Some(found) => assert!(found, "a key was lost"),
                                None => return given_up.fetch_add(1, Ordering::SeqCst),
                            };
                        }
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let before = answered.load(Ordering::SeqCst);
            while answered.load(Ordering::SeqCst) == before && given_up.load(Ordering::SeqCst) % 2 == 0 {
                std::thread::yield_now();
            }
            drop(reader);
        });
    }
    assert_eq!(given_up.load(Ordering::SeqCst), 600);
    assert!(answered.load(Ordering::SeqCst) > 0);
}
