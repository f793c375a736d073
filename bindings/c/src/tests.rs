//! Invariants checked:
//!
//! 1. `gowk.h` is what cbindgen generates from this crate.
//! 2. Every code has a name and a number of its own, and kinds of errors keep their names.
//! 3. Failures and panics become codes with messages, whatever the caller passes.
//! 4. Handles may be used by the threads that the header allows.
//!
//! `ci` runs the tests from C programs.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::{null, null_mut};

use core::ErrorKind;

use crate::error::{Failure, gowk_code, gowk_code_name, gowk_error, guarded};
use crate::keys::gowk_key;
use crate::options::{gowk_options_free, gowk_options_new, gowk_options_set};
use crate::reader::*;
use crate::store::*;
use crate::writer::*;

#[test]
fn the_header_is_what_cbindgen_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_root_or_default(root);
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let (path, made) = (root.join("gowk.h"), String::from_utf8(made).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "gowk.h is not what cbindgen makes: UPDATE=1 cargo test header");
    assert!(found.contains(&format!("#define GOWK_VERSION \"{}\"", env!("CARGO_PKG_VERSION"))));
}

/// Room for the error of a call.
struct Left(MaybeUninit<gowk_error>);

impl Left {
    fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    fn place(&mut self) -> *mut gowk_error {
        self.0.as_mut_ptr()
    }

    /// The message after a call that failed.
    fn message(&self) -> String {
        // SAFETY: a call that fails has written the error.
        unsafe { CStr::from_ptr(self.0.assume_init_ref().message.as_ptr()) }.to_str().unwrap().to_owned()
    }
}

fn name(code: i64) -> &'static str {
    // SAFETY: the names are constants.
    unsafe { CStr::from_ptr(gowk_code_name(code)) }.to_str().unwrap()
}

#[test]
fn every_code_has_a_name_and_a_number_of_its_own() {
    let numbers: BTreeSet<i32> = gowk_code::ALL.iter().map(|code| *code as i32).collect();
    let names: BTreeSet<&str> = gowk_code::ALL.iter().map(|code| name(*code as i64)).collect();
    assert_eq!((numbers.len(), names.len()), (gowk_code::ALL.len(), gowk_code::ALL.len()));
    assert_eq!(numbers, (-(gowk_code::ALL.len() as i32)..0).collect());
    assert_eq!((name(0), name(7), name(-1000)), ("ok", "ok", "other"));
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::Foreign,
        ErrorKind::Unsupported,
        ErrorKind::Damaged,
        ErrorKind::Locked,
        ErrorKind::Busy,
        ErrorKind::NoRoom,
        ErrorKind::NoSpace,
        ErrorKind::Kind,
        ErrorKind::Clock,
        ErrorKind::Invalid,
        ErrorKind::Replaced,
        ErrorKind::Uncommitted,
        ErrorKind::Conflict,
        ErrorKind::Unknown,
        ErrorKind::AfterCommit,
        ErrorKind::Poisoned,
        ErrorKind::Io,
    ];
    for kind in kinds {
        assert_eq!(name(gowk_code::from(kind) as i64), kind.name());
    }
}

#[test]
fn panics_and_long_messages_become_codes() {
    let mut left = Left::new();
    let code = guarded(left.place(), || panic!("index {} of 3", 7));
    assert_eq!((name(code), left.message().as_str()), ("panic", "a defect of gowk: index 7 of 3"));
    assert_eq!(name(guarded(null_mut(), || panic!("nobody listens"))), "panic");
    // Cut before the character that does not fit in full.
    let long = format!("a{}", "ä".repeat(2000));
    guarded(left.place(), || Err(Failure::invalid(long.clone())));
    assert_eq!(left.message(), long[..1019]);
    guarded(left.place(), || Err(Failure::invalid("ä".repeat(2000))));
    assert_eq!(left.message().len(), 1018);
    assert_eq!(guarded(left.place(), || Ok(5)), 5);
}

#[test]
fn handles_may_be_used_by_the_threads_that_the_header_allows() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<gowk_reader>();
    shared::<gowk_store>();
    shared::<gowk_store_reader>();
    shared::<crate::options::gowk_options>();
    moved::<gowk_writer>();
    moved::<gowk_update>();
}

/// Passes NULL in every place that must not have it.
#[test]
fn null_is_an_error_and_never_followed() {
    let mut left = Left::new();
    let error = left.place();
    let key: *const c_void = b"key".as_ptr().cast();
    let name_of = c"name".as_ptr();
    // SAFETY: the error may be NULL, and all other arguments are as the header requires.
    unsafe {
        let codes = [
            gowk_writer_open(null(), null(), &mut null_mut(), error),
            gowk_writer_open(c"/nowhere/f".as_ptr(), null(), null_mut(), error),
            gowk_writer_insert(null_mut(), key, 3, error),
            gowk_writer_insert_at(null_mut(), key, 3, 0, error),
            gowk_writer_insert_batch(null_mut(), null(), 0, null_mut(), error),
            gowk_writer_insert_packed(null_mut(), null(), null(), 0, null_mut(), error),
            gowk_writer_insert_batch_at(null_mut(), null(), null(), 0, null_mut(), error),
            gowk_writer_insert_batch_for(null_mut(), null(), null(), 0, null_mut(), error),
            gowk_writer_remove(null_mut(), key, 3, error),
            gowk_writer_remove_batch(null_mut(), null(), 0, null_mut(), error),
            gowk_writer_contains(null(), key, 3, error),
            gowk_writer_count(null(), key, 3, error),
            gowk_writer_set_metadata(null_mut(), name_of, key, 3, error),
            gowk_writer_metadata(null(), name_of, null_mut(), 0, error),
            gowk_writer_remove_metadata(null_mut(), name_of, error),
            gowk_writer_commit(null_mut(), error),
            gowk_writer_rollback(null_mut(), error),
            gowk_writer_checkpoint(null_mut(), error),
            gowk_writer_sweep(null_mut(), error),
            gowk_writer_merge(null_mut(), null(), error),
            gowk_writer_info(null(), null_mut(), error),
            gowk_reader_open(null(), null(), &mut null_mut(), error),
            gowk_reader_open_in_memory(null(), null(), &mut null_mut(), error),
            gowk_reader_from_bytes(null(), 7, null(), &mut null_mut(), error),
            gowk_reader_contains(null(), key, 3, error),
            gowk_reader_count(null(), key, 3, error),
            gowk_reader_contains_batch(null(), null(), 0, null_mut(), error),
            gowk_reader_contains_packed(null(), null(), null(), 0, null_mut(), error),
            gowk_reader_metadata(null(), name_of, null_mut(), 0, error),
            gowk_reader_info(null(), null_mut(), error),
            gowk_reader_reload(null(), error),
            gowk_reader_verify(null(), error),
            gowk_reader_copy_to(null(), c"f".as_ptr(), 0, error),
            gowk_reader_to_bytes(null(), null_mut(), error),
            gowk_store_create(null(), 1, null(), &mut null_mut(), error),
            gowk_store_open(null(), null(), &mut null_mut(), error),
            gowk_store_insert_batch(null(), null(), 0, null_mut(), name_of, null(), 0, error),
            gowk_store_update(null(), null(), 0, &mut null_mut(), error),
            gowk_update_insert_batch(null_mut(), null(), 0, null_mut(), error),
            gowk_update_remove_batch(null_mut(), null(), 0, null_mut(), error),
            gowk_update_commit(null_mut(), name_of, error),
            gowk_store_read(null(), &mut null_mut(), error),
            gowk_store_reader_contains(null(), key, 3, error),
            gowk_store_reader_count(null(), key, 3, error),
            gowk_store_reader_contains_batch(null(), null(), 0, null_mut(), error),
            gowk_store_reader_version(null(), error),
            gowk_store_reader_reload(null_mut(), error),
            gowk_options_set(null_mut(), name_of, name_of, error),
        ];
        for (index, code) in codes.into_iter().enumerate() {
            assert_eq!(name(code), "invalid", "call {index}");
        }
        assert_eq!(gowk_writer_close(null_mut(), error), 0);
        gowk_reader_close(null_mut());
        gowk_store_close(null_mut());
        gowk_update_abandon(null_mut());
        gowk_store_reader_close(null_mut());
        gowk_options_free(null_mut());
        gowk_bytes_free(null_mut(), 0);
    }
}

#[test]
fn bad_keys_and_names_are_errors_that_say_which() {
    let dir = tempfile::tempdir().unwrap();
    let path = CString::new(dir.path().join("f").to_str().unwrap()).unwrap();
    let (mut left, mut writer) = (Left::new(), null_mut());
    // SAFETY: all pointers are as the header requires, or NULL.
    unsafe {
        assert_eq!(gowk_writer_open(path.as_ptr(), null(), &mut writer, left.place()), 0);
        assert_eq!(gowk_writer_insert(writer, null(), 0, left.place()), 1);
        assert_eq!(name(gowk_writer_insert(writer, null(), 1, left.place())), "invalid");
        let keys = [gowk_key { data: null(), length: 0 }, gowk_key { data: null(), length: 5 }];
        let code = gowk_writer_insert_batch(writer, keys.as_ptr(), 2, null_mut(), left.place());
        assert_eq!(name(code), "invalid");
        assert!(left.message().contains("key 1"), "{}", left.message());
        assert_eq!(name(gowk_writer_insert_batch(writer, null(), 2, null_mut(), left.place())), "invalid");
        let not_text = [b'a', 0xff, 0].as_ptr().cast::<c_char>();
        let code = gowk_writer_set_metadata(writer, not_text, null(), 0, left.place());
        assert_eq!(name(code), "invalid");
        assert_eq!(name(gowk_writer_metadata(writer, c"a".as_ptr(), null_mut(), 0, null_mut())), "not_found");
        assert_eq!(name(gowk_writer_close(writer, left.place())), "uncommitted");
        assert!(left.message().contains("commit"), "{}", left.message());
        let opened = gowk_reader_open(path.as_ptr(), null(), null_mut::<*mut gowk_reader>(), null_mut());
        assert_eq!(name(opened), "invalid");
    }
}

/// Descending ends, and NULL for bytes or ends, change nothing.
#[test]
fn bad_packed_keys_are_errors_before_anything_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = CString::new(dir.path().join("f").to_str().unwrap()).unwrap();
    let (mut left, mut writer, mut reader) = (Left::new(), null_mut(), null_mut());
    let error = left.place();
    let bytes: *const c_void = b"onetwothree".as_ptr().cast();
    let long: Vec<u64> = (0..5000).map(|index| if index == 4999 { 0 } else { 11 }).collect();
    // SAFETY: all pointers are as the header requires, or NULL.
    unsafe {
        assert_eq!(gowk_writer_open(path.as_ptr(), null(), &mut writer, error), 0);
        assert_eq!(gowk_writer_commit(writer, error), 0);
        assert_eq!(gowk_reader_open(path.as_ptr(), null(), &mut reader, error), 0);
        let bad: [(*const c_void, &[u64]); 7] = [
            (bytes, &[3, 2]),
            (bytes, &[3, 6, 11, 10]),
            (bytes, &[u64::MAX, 11]),
            (bytes, &long),
            (bytes, &[3, u64::MAX]),
            (null(), &[0, 3]),
            (null(), &[1 << 63]),
        ];
        let mut results = [9; 5000];
        for (bytes, ends) in bad {
            let (ends, count) = (ends.as_ptr(), ends.len());
            let code = gowk_writer_insert_packed(writer, bytes, ends, count, results.as_mut_ptr(), error);
            assert_eq!(name(code), "invalid");
            let code = gowk_reader_contains_packed(reader, bytes, ends, count, results.as_mut_ptr(), error);
            assert_eq!(name(code), "invalid");
        }
        for count in [1, usize::MAX] {
            let code = gowk_writer_insert_packed(writer, bytes, null(), count, null_mut(), error);
            assert_eq!(name(code), "invalid");
            let code = gowk_reader_contains_packed(reader, bytes, null(), count, null_mut(), error);
            assert_eq!(name(code), "invalid");
        }
        assert_eq!(results, [9; 5000]);
        let code = gowk_writer_insert_packed(writer, bytes, [3, 6, 5].as_ptr(), 3, null_mut(), error);
        assert_eq!(name(code), "invalid");
        assert!(left.message().starts_with("key 2 ends at 5,"), "{}", left.message());
        // Nothing was inserted: closing a writer with changes would fail.
        assert_eq!(gowk_writer_close(writer, left.place()), 0);
        gowk_reader_close(reader);
    }
}

/// Each option, with a value that it accepts and one that it refuses.
#[test]
fn options_take_what_the_header_lists_and_refuse_the_rest() {
    let all = [
        ("capacity", "1000", "many"),
        ("false_positive_rate", "0.01", "low"),
        ("kind", "counting", "multiset"),
        ("slots_per_bucket", "4", "8"),
        ("seed", "18446744073709551615", "-1"),
        ("growth", "never", "sometimes"),
        ("max_file_size", "1000000", "1M"),
        ("max_false_positive_rate", "0.01", "x"),
        ("forget_after", "60.5", "-1"),
        ("forget_within", "30", "inf"),
        ("refresh", "true", "1"),
        ("keep_newest", "1000", ""),
        ("auto_vacuum", "10,86400", "10"),
        ("force", "true", "yes"),
        ("threads", "2", "two"),
        ("wait", "0.5", "NaN"),
        ("verify", "eager", "lazily"),
        ("on_damage", "present", "absent"),
        ("sealed", "true", "2"),
        ("clock_is_right", "false", "no"),
        ("void_growth", "true", "TRUE"),
    ];
    let header = include_str!("../gowk.h");
    for (option, right, wrong) in all {
        let text = |text: &str| CString::new(text).unwrap();
        let mut left = Left::new();
        // SAFETY: all pointers are as the header requires.
        unsafe {
            let options = gowk_options_new();
            let set = |name: &str, value: &str, error| {
                gowk_options_set(options, text(name).as_ptr(), text(value).as_ptr(), error)
            };
            assert_eq!(set(option, right, null_mut()), 0, "{option}");
            assert_eq!(name(set(option, wrong, left.place())), "invalid", "{option}");
            assert!(left.message().starts_with(option), "{}", left.message());
            assert_eq!(name(set(&format!("{option}s"), right, left.place())), "invalid");
            gowk_options_free(options);
        }
        assert!(header.contains(&format!("    {option} ")), "{option} is not in the header");
    }
}
