//! Filters open for lookups.

use std::ffi::{c_char, c_void};

use core::{Lookup, Reader};

use crate::error::{Failure, Outcome, count, gowk_error, guarded};
use crate::handle::{borrow, give, path, take, text};
use crate::info::{gowk_info, put};
use crate::keys::{bytes, copy_out, gowk_key, keys, note, packed, results};
use crate::options::{gowk_options, or_default};
use crate::writer::no_metadata;

/// A filter open for lookups, beside a writer in any process or without one. Sees each commit as soon as the call that
/// commits returns.
///
/// Any number of threads may call at the same time.
pub struct gowk_reader(pub(crate) Reader);

/// Opens the filter at a path for lookups; recovers it first if its last writer died. `options` may be NULL. On success
/// returns 0 and stores a handle, which `gowk_reader_close` frees; on failure stores NULL.
///
/// Codes: GOWK_NOT_FOUND; GOWK_FOREIGN, GOWK_UNSUPPORTED and GOWK_DAMAGED for a file that cannot be used; GOWK_KIND if the
/// options ask for another kind; GOWK_LOCKED and GOWK_BUSY if another process has been opening it for a minute; GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_open(
    path: *const c_char,
    options: *const gowk_options,
    reader: *mut *mut gowk_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { give(reader, || Ok(gowk_reader(or_default(options).read(self::path(path)?)?))) }
    })
}

/// Like `gowk_reader_open`, with a copy of the filter in memory, as of its last commit. It sees no later commits, and does
/// not use the file afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_open_in_memory(
    path: *const c_char,
    options: *const gowk_options,
    reader: *mut *mut gowk_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { give(reader, || Ok(gowk_reader(or_default(options).read_in_memory(self::path(path)?)?))) }
    })
}

/// Like `gowk_reader_open`, but reads the filter from bytes: from `gowk_reader_to_bytes`, or from a file whose last
/// writer has closed it. Checks them like a file, and copies them: the caller may free them when this returns. Code:
/// also GOWK_INVALID for a copy of a file that was open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_from_bytes(
    bytes: *const c_void,
    length: usize,
    options: *const gowk_options,
    reader: *mut *mut gowk_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe {
            give(reader, || Ok(gowk_reader(or_default(options).read_bytes(self::bytes(bytes, length)?)?)))
        }
    })
}

/// Closes a reader, and frees it; does nothing for NULL. No other call may use it then or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_close(reader: *mut gowk_reader) {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: promised by the caller.
        drop(unsafe { take(reader) });
        Ok(0)
    });
}

/// Whether the key is there: 1 or 0. "No" is always right; "yes" is wrong at the filter's false-positive rate. Codes:
/// GOWK_DAMAGED at a damaged page, unless the option "on_damage" says to answer 1 there; GOWK_BUSY if a writer stopped in
/// the middle of a commit; the codes of `gowk_reader_open` if another file has taken the filter's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_contains(
    reader: *const gowk_reader,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, key) = unsafe { (borrow(reader, "the reader")?, bytes(key, length)?) };
        Ok(reader.0.contains(key)?.into())
    })
}

/// How many copies of the key are stored: in a counting filter inserted minus removed, never too low; in other filters
/// 0 or 1. The highest count that a filter can tell stands for that many copies or more. Codes as for
/// `gowk_reader_contains`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_count(
    reader: *const gowk_reader,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, key) = unsafe { (borrow(reader, "the reader")?, bytes(key, length)?) };
        Ok(reader.0.count(key)?.into())
    })
}

/// Looks up `count` keys, several times as fast as one by one. Writes 1 or 0 for each to `found`, an array of `count`
/// bytes; NULL if they are not wanted. Returns how many are there. After a failure, `found` means nothing. Codes as for
/// `gowk_reader_contains`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_contains_batch(
    reader: *const gowk_reader,
    keys: *const gowk_key,
    count: usize,
    found: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, keys, found) =
            unsafe { (borrow(reader, "the reader")?, self::keys(keys, count)?, results(found, count)) };
        answered(&reader.0.contains_batch(keys)?, found)
    })
}

/// Like `gowk_reader_contains_batch`, for keys that lie one after the other from `bytes` on. `ends` is an array of
/// `count` offsets from `bytes`: the first key begins at 0, and each other key where the one before it ends. The last
/// end is the number of all bytes; `bytes` may be NULL if that is 0. Looks up 4096 keys at a time, on one thread
/// whatever the option "threads" says. Codes: also GOWK_INVALID if an end is less than the one before it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_contains_packed(
    reader: *const gowk_reader,
    bytes: *const c_void,
    ends: *const u64,
    count: usize,
    found: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, keys, found) =
            unsafe { (borrow(reader, "the reader")?, packed(bytes, ends, count)?, results(found, count)) };
        let mut present = 0;
        keys.in_parts(|first, keys| {
            let found = found.get_mut(first..).unwrap_or_default();
            present += answered(&reader.0.contains_batch(keys)?, found)?;
            Ok(())
        })?;
        Ok(present)
    })
}

/// Writes the answers of a batch, and counts the "yes" answers.
pub(crate) fn answered(answers: &[bool], found: &mut [u8]) -> Outcome {
    for (index, answer) in answers.iter().enumerate() {
        note(found, index, u8::from(*answer));
    }
    count(answers.iter().filter(|answer| **answer).count())
}

/// The value under a name (UTF-8) in the metadata, as of the last commit. Copies at most `capacity` bytes to `buffer`,
/// without a NUL at the end. Returns the length of the whole value; more than `capacity` means that it was cut.
/// `buffer` may be NULL. Codes: GOWK_NOT_FOUND for an unknown name, GOWK_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_metadata(
    reader: *const gowk_reader,
    name: *const c_char,
    buffer: *mut c_void,
    capacity: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, name) = unsafe { (borrow(reader, "the reader")?, text(name, "the name")?) };
        let metadata = reader.0.metadata()?;
        let value = metadata.get(name).ok_or_else(|| no_metadata(name))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { copy_out(value, buffer, capacity) })
    })
}

/// Describes the filter as of its last commit. Returns 0. Codes: GOWK_BUSY, GOWK_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_info(
    reader: *const gowk_reader,
    info: *mut gowk_info,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { put(info, &borrow(reader, "the reader")?.0.info()?) }
    })
}

/// Reopens the filter if another file has taken its name, as after `mv new live`. Returns 1 if so, else 0. Batches do
/// this first; commits and doublings are seen without it. Codes as for `gowk_reader_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_reload(reader: *const gowk_reader, error: *mut gowk_error) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        Ok(unsafe { borrow(reader, "the reader") }?.0.reload()?.into())
    })
}

/// Reads the whole filter, and compares each page with its checksum. Returns 0 if all is well; else GOWK_DAMAGED, and the
/// message says how many pages are damaged. Codes: also GOWK_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_verify(reader: *const gowk_reader, error: *mut gowk_error) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let reader = &unsafe { borrow(reader, "the reader") }?.0;
        let report = reader.verify(&|_, _| {})?;
        if report.is_clean() {
            return Ok(0);
        }
        let (damaged, malformed) = (report.damaged.len(), report.malformed.len());
        let message = format!(
            "{}: {damaged} pages are damaged, {malformed} malformed; `gowk verify` says where, and what to do",
            reader.path().display()
        );
        Err(Failure { code: crate::error::gowk_code::GOWK_DAMAGED, message })
    })
}

/// Copies the filter, as of one commit, to a file that must not exist. If `replace` is not 0, the file may be a filter:
/// the copy replaces it, and its readers go on with the copy. Returns 0. Codes: GOWK_EXISTS, GOWK_LOCKED, GOWK_DAMAGED,
/// GOWK_BUSY, GOWK_NO_SPACE, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_copy_to(
    reader: *const gowk_reader,
    path: *const c_char,
    replace: i32,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (reader, path) = unsafe { (borrow(reader, "the reader")?, self::path(path)?) };
        match replace {
            0 => reader.0.copy_to(path, &|_, _| {})?,
            _ => reader.0.copy_over(path, &|_, _| {})?,
        }
        Ok(0)
    })
}

/// Copies the filter, as of one commit, to memory: the same bytes that `gowk_reader_copy_to` writes to a file. Stores
/// them at `*bytes`, and returns their number, which `gowk_bytes_free` needs. On failure stores NULL. Codes:
/// GOWK_DAMAGED, GOWK_BUSY; GOWK_IO when out of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_reader_to_bytes(
    reader: *const gowk_reader,
    bytes: *mut *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        if bytes.is_null() {
            return Err(Failure::invalid("the place for the bytes is NULL"));
        }
        // SAFETY: promised by the caller.
        unsafe { bytes.write(std::ptr::null_mut()) };
        // SAFETY: promised by the caller.
        let copy = unsafe { borrow(reader, "the reader") }?.0.copy_to_bytes()?.into_boxed_slice();
        let length = copy.len();
        // SAFETY: promised by the caller.
        unsafe { bytes.write(Box::into_raw(copy).cast()) };
        count(length)
    })
}

/// Frees bytes of `gowk_reader_to_bytes`, with the length that it returned; does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_bytes_free(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: the caller promises that both came from `gowk_reader_to_bytes`, where they were a boxed slice.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes, length)) });
    }
}
