//! Filters open for writing.

use std::ffi::{c_char, c_void};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use core::{Batches, Options, Seen, Writer};

use crate::error::{Failure, Outcome, count, gowk_error, guarded};
use crate::handle::{borrow, borrow_mut, give, path, take, text};
use crate::info::{gowk_info, put};
use crate::keys::{
    Checked, GOWK_EARLY, GOWK_KNOWN, GOWK_LATE, GOWK_NEW, GOWK_REFUSED, array, bytes, copy_out, gowk_key,
    keys, note, packed, results,
};
use crate::options::{gowk_options, or_default};
use crate::reader::gowk_reader;

/// A filter open for writing. Over all processes there is one at a time for each filter.
///
/// Its changes belong to a transaction: this writer sees them at once, and nobody else before `gowk_writer_commit`. Any
/// thread may call, but only one at a time.
pub struct gowk_writer(Writer);

/// Opens a filter.
///
/// # Safety
///
/// As for the functions that call it.
unsafe fn open(
    at: *const c_char,
    options: *const gowk_options,
    writer: *mut *mut gowk_writer,
    error: *mut gowk_error,
    how: impl FnOnce(&Options, &std::path::Path) -> core::Result<Writer>,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { give(writer, || Ok(gowk_writer(how(&or_default(options), path(at)?)?))) }
    })
}

/// Opens or creates the filter at a path for writing; recovers it first if its last writer died. `options` may be NULL.
/// On success returns 0 and stores a handle, which `gowk_writer_close` frees; on failure stores NULL. A new filter
/// appears under its name with its first commit, even if that adds no key. Before that, a reader gets GOWK_NOT_FOUND.
///
/// Codes: GOWK_LOCKED while there is another writer; GOWK_INVALID and GOWK_KIND if the options are wrong or do not fit
/// the filter (see `gowk_options_set`); GOWK_FOREIGN, GOWK_UNSUPPORTED and GOWK_DAMAGED for a file that cannot be used;
/// GOWK_NO_SPACE; GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_open(
    path: *const c_char,
    options: *const gowk_options,
    writer: *mut *mut gowk_writer,
    error: *mut gowk_error,
) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { open(path, options, writer, error, |options, path| options.open(path)) }
}

/// Like `gowk_writer_open`, but fails with GOWK_NOT_FOUND instead of creating a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_open_existing(
    path: *const c_char,
    options: *const gowk_options,
    writer: *mut *mut gowk_writer,
    error: *mut gowk_error,
) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { open(path, options, writer, error, |options, path| options.open_existing(path)) }
}

/// Like `gowk_writer_open`, but fails with GOWK_EXISTS if the filter exists, unless the option "force" says to replace
/// it. Then an empty filter has taken its place when this returns, before any commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_create(
    path: *const c_char,
    options: *const gowk_options,
    writer: *mut *mut gowk_writer,
    error: *mut gowk_error,
) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { open(path, options, writer, error, |options, path| options.create(path)) }
}

/// Closes a writer, and frees it whatever the outcome; does nothing for NULL. Changes that were not committed are lost,
/// and the call then returns GOWK_UNCOMMITTED. So it does for a new filter that was neither committed nor rolled back.
/// Returns 0 for a poisoned writer. Codes: also GOWK_AFTER_COMMIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_close(writer: *mut gowk_writer, error: *mut gowk_error) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let Some(writer) = (unsafe { take(writer) }) else { return Ok(0) };
        writer.0.close()?;
        Ok(0)
    })
}

/// Inserts a key. Returns 1 (GOWK_NEW) if it was not there before, 0 (GOWK_KNOWN) if it was. A set stores the key
/// unless it is there; a counting filter always stores one more copy. Doubles a full filter.
///
/// Codes: GOWK_NO_ROOM if it must not double: this key is not stored, and all others stay; GOWK_DAMAGED; GOWK_CLOCK in
/// a forgetting filter; GOWK_POISONED; GOWK_NO_SPACE and GOWK_IO while doubling.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert(
    writer: *mut gowk_writer,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, key) = unsafe { (borrow_mut(writer, "the writer")?, bytes(key, length)?) };
        Ok(writer.0.insert(key)?.into())
    })
}

fn time(millis: i64) -> SystemTime {
    // No key from before 1970 is ever kept.
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

const fn code_of(seen: Seen) -> u8 {
    match seen {
        Seen::New => GOWK_NEW,
        Seen::Known => GOWK_KNOWN,
        Seen::Late => GOWK_LATE,
        Seen::Early => GOWK_EARLY,
    }
}

/// Inserts a key into a forgetting filter, with the time at which it was seen, in milliseconds since 1970. Returns
/// GOWK_NEW, GOWK_KNOWN, GOWK_LATE or GOWK_EARLY. Codes as for `gowk_writer_insert`; GOWK_KIND in another filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert_at(
    writer: *mut gowk_writer,
    key: *const c_void,
    length: usize,
    unix_ms: i64,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, key) = unsafe { (borrow_mut(writer, "the writer")?, bytes(key, length)?) };
        Ok(code_of(writer.0.insert_at(key, time(unix_ms))?).into())
    })
}

/// What happens to the keys of a batch that are not refused.
pub(crate) const OTHERS_INSERTED: &str = "the others inserted";

/// The return value of a batch, after refused keys were noted.
pub(crate) fn inserted(
    new: usize,
    refused: Vec<(usize, core::Error)>,
    results: &mut [u8],
    others: &str,
) -> Outcome {
    refused.iter().for_each(|(index, _)| note(results, *index, GOWK_REFUSED));
    let Some((_, first)) = refused.first() else { return count(new) };
    let message = format!("{first}; {} keys of the batch were refused, and {others}", refused.len());
    Err(Failure { code: first.kind().into(), message })
}

/// Inserts keys, and writes which are new. Returns how many are new, and the refused keys. A refused key that is absent
/// counts as new; nobody sees that, as calls with refused keys do not return the number.
fn insert_keys(
    writer: &mut Writer,
    keys: &[Checked],
    results: &mut [u8],
) -> core::Result<(usize, Vec<(usize, core::Error)>)> {
    let mut new = 0;
    let refused = writer.insert_each(keys, |index| {
        new += 1;
        note(results, index, GOWK_NEW);
    })?;
    Ok((new, refused))
}

/// Inserts `count` keys, several times as fast as one by one. Writes a result for each to `results`, an array of
/// `count` bytes: GOWK_NEW, GOWK_KNOWN or GOWK_REFUSED; NULL if they are not wanted. Of equal keys only the first can
/// be new. Returns how many keys were new.
///
/// Returns GOWK_NO_ROOM if any key was refused. All others were inserted, and the results say which. How many were new,
/// only the results say then.
///
/// After any other failure, some of the keys may have been inserted. They belong to the transaction, and the results
/// say GOWK_NEW for those that were new. In a counting filter, the results do not say which known keys got one more
/// copy: roll back before you insert them again. Codes as for `gowk_writer_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert_batch(
    writer: *mut gowk_writer,
    keys: *const gowk_key,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, keys, results) = unsafe {
            (borrow_mut(writer, "the writer")?, self::keys(keys, count)?, self::results(results, count))
        };
        let (new, refused) = insert_keys(&mut writer.0, keys, results)?;
        inserted(new, refused, results, OTHERS_INSERTED)
    })
}

/// Like `gowk_writer_insert_batch`, for keys that lie one after the other from `bytes` on. `ends` is an array of
/// `count` offsets from `bytes`: the first key begins at 0, and each other key where the one before it ends. The last
/// end is the number of all bytes; `bytes` may be NULL if that is 0. Inserts 4096 keys at a time, on one thread
/// whatever the option "threads" says. Codes: also GOWK_INVALID if an end is less than the one before it, and no key
/// was inserted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert_packed(
    writer: *mut gowk_writer,
    bytes: *const c_void,
    ends: *const u64,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, keys, results) = unsafe {
            (borrow_mut(writer, "the writer")?, packed(bytes, ends, count)?, self::results(results, count))
        };
        let (mut new, mut refused) = (0, Vec::new());
        // Refused keys in one part do not stop the next.
        keys.in_parts(|first, keys| {
            let part = results.get_mut(first..).unwrap_or_default();
            let (new_in_part, refused_in_part) = insert_keys(&mut writer.0, keys, part)?;
            new += new_in_part;
            refused.extend(refused_in_part.into_iter().map(|(index, error)| (first + index, error)));
            Ok(())
        })?;
        inserted(new, refused, results, OTHERS_INSERTED)
    })
}

/// Like `gowk_writer_insert_batch`, for keys that were seen at times: an array of `count` milliseconds since 1970. The
/// results may also be GOWK_LATE and GOWK_EARLY. Only for a forgetting filter, else GOWK_KIND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert_batch_at(
    writer: *mut gowk_writer,
    keys: *const gowk_key,
    unix_ms: *const i64,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, keys, times, results) = unsafe {
            (
                borrow_mut(writer, "the writer")?,
                self::keys(keys, count)?,
                array(unix_ms, count, "the array of times")?,
                self::results(results, count),
            )
        };
        let times: Vec<SystemTime> = times.iter().map(|millis| time(*millis)).collect();
        let mut new = 0;
        let refused = writer.0.insert_each_at(keys, &times, |index, seen| {
            new += usize::from(seen == Seen::New);
            note(results, index, code_of(seen));
        })?;
        inserted(new, refused, results, OTHERS_INSERTED)
    })
}

/// Like `gowk_writer_insert_batch`, but keeps each key for its own lifetime from now on: an array of `count`
/// milliseconds, none longer than the filter keeps keys. A key that is there already keeps the later of its two expiry
/// times. Only for a forgetting filter, else GOWK_KIND. After a failure other than GOWK_NO_ROOM all results are
/// GOWK_KNOWN, and do not say what was inserted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_insert_batch_for(
    writer: *mut gowk_writer,
    keys: *const gowk_key,
    lifetimes_ms: *const i64,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, keys, lifetimes, results) = unsafe {
            (
                borrow_mut(writer, "the writer")?,
                self::keys(keys, count)?,
                array(lifetimes_ms, count, "the array of lifetimes")?,
                self::results(results, count),
            )
        };
        let duration = |millis: &i64| u64::try_from(*millis).ok().map(Duration::from_millis);
        let lifetimes: Option<Vec<Duration>> = lifetimes.iter().map(duration).collect();
        let lifetimes = lifetimes.ok_or_else(|| Failure::invalid("a lifetime is less than 0"))?;
        let outcome = writer.0.insert_batch_for(keys, &lifetimes)?;
        (0..count).filter(|index| outcome.is_new(*index)).for_each(|index| note(results, index, GOWK_NEW));
        inserted(outcome.new_keys(), outcome.into_refused(), results, OTHERS_INSERTED)
    })
}

/// Removes one copy of a key from a counting filter. Returns 1 if there was one, else 0. Remove only keys that were
/// inserted: removing any other can take the entry of a stored key that it matches. Codes: GOWK_KIND in another filter,
/// and as for `gowk_writer_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_remove(
    writer: *mut gowk_writer,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, key) = unsafe { (borrow_mut(writer, "the writer")?, bytes(key, length)?) };
        Ok(writer.0.remove(key)?.into())
    })
}

/// Removes one copy of each of `count` keys. Writes a result for each to `results` unless that is NULL: 1 if a copy was
/// removed, else 0. Returns how many were removed. After a failure, the results say 1 for copies that were removed
/// before it; these removals belong to the transaction. Codes as for `gowk_writer_remove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_remove_batch(
    writer: *mut gowk_writer,
    keys: *const gowk_key,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, keys, results) = unsafe {
            (borrow_mut(writer, "the writer")?, self::keys(keys, count)?, self::results(results, count))
        };
        let mut removed = 0;
        writer.0.remove_each(keys, |index| {
            removed += 1;
            note(results, index, 1);
        })?;
        Ok(removed)
    })
}

/// Whether the transaction has the key: 1 or 0, as `gowk_reader_contains` says. Codes: GOWK_DAMAGED at a damaged page,
/// whatever the option "on_damage" says; GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_contains(
    writer: *const gowk_writer,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, key) = unsafe { (borrow(writer, "the writer")?, bytes(key, length)?) };
        Ok(writer.0.contains(key)?.into())
    })
}

/// How many copies of the key the transaction has, as `gowk_reader_count` says. Codes as for `gowk_writer_contains`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_count(
    writer: *const gowk_writer,
    key: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, key) = unsafe { (borrow(writer, "the writer")?, bytes(key, length)?) };
        Ok(writer.0.count(key)?.into())
    })
}

/// Stores a value under a name (UTF-8) in the filter's metadata, to be committed with the keys: a position in an input,
/// say. All metadata together takes at most 48 KiB, which the commit checks. Returns 0. Codes: GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_set_metadata(
    writer: *mut gowk_writer,
    name: *const c_char,
    value: *const c_void,
    length: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, name, value) =
            unsafe { (borrow_mut(writer, "the writer")?, text(name, "the name")?, bytes(value, length)?) };
        writer.0.metadata_mut()?.set(name, value);
        Ok(0)
    })
}

/// Removes a name from the metadata. Returns 1 if it was there, else 0. Codes: GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_remove_metadata(
    writer: *mut gowk_writer,
    name: *const c_char,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, name) = unsafe { (borrow_mut(writer, "the writer")?, text(name, "the name")?) };
        Ok(writer.0.metadata_mut()?.remove(name).is_some().into())
    })
}

/// The value that the transaction has under a name, as `gowk_reader_metadata` gives it. Codes: GOWK_NOT_FOUND for an
/// unknown name; GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_metadata(
    writer: *const gowk_writer,
    name: *const c_char,
    buffer: *mut c_void,
    capacity: usize,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, name) = unsafe { (borrow(writer, "the writer")?, text(name, "the name")?) };
        let value = writer.0.metadata()?.get(name).ok_or_else(|| no_metadata(name))?;
        // SAFETY: promised by the caller.
        Ok(unsafe { copy_out(value, buffer, capacity) })
    })
}

pub(crate) fn no_metadata(name: &str) -> Failure {
    let code = crate::error::gowk_code::GOWK_NOT_FOUND;
    Failure { code, message: format!("the metadata has no \"{name}\"") }
}

/// Commits the transaction: its keys and metadata are durable, and visible to all readers, when this returns 0.
///
/// Codes: GOWK_UNKNOWN if it is unknown whether the commit is durable; GOWK_AFTER_COMMIT if it is durable and something
/// failed afterwards. The writer is poisoned after either: close it, and open again.
///
/// After any other code nothing was committed: GOWK_IO or GOWK_NO_SPACE; GOWK_REPLACED if another file has the filter's
/// name, GOWK_NOT_FOUND if none has; GOWK_INVALID if there is too much metadata. The changes are still there: remove
/// the cause and commit again, or roll back. If the failure has poisoned the writer, that call returns GOWK_POISONED,
/// and the changes are lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_commit(writer: *mut gowk_writer, error: *mut gowk_error) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { done(writer, error, Writer::commit) }
}

/// Undoes all changes since the last commit. Returns 0. Codes: GOWK_POISONED; GOWK_NO_SPACE and GOWK_IO if a new filter
/// cannot be made again. The writer is poisoned after any of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_rollback(writer: *mut gowk_writer, error: *mut gowk_error) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { done(writer, error, Writer::rollback) }
}

/// Makes all commits part of the file itself, and empties the journal; closing does so too. Returns 0. Codes:
/// GOWK_POISONED; GOWK_AFTER_COMMIT, which poisons the writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_checkpoint(writer: *mut gowk_writer, error: *mut gowk_error) -> i64 {
    // SAFETY: promised by the caller.
    unsafe { done(writer, error, Writer::checkpoint) }
}

/// Makes a call of the writer that returns no value.
///
/// # Safety
///
/// As for the functions that call it.
unsafe fn done(
    writer: *mut gowk_writer,
    error: *mut gowk_error,
    call: impl FnOnce(&mut Writer) -> core::Result<()>,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        call(&mut unsafe { borrow_mut(writer, "the writer") }?.0)?;
        Ok(0)
    })
}

/// Removes the expired entries of a forgetting filter. Lookups never find them, and inserts reuse their room: call this
/// only for a filter that gets no keys for a long time. Returns how many entries it removed. Codes: GOWK_KIND,
/// GOWK_CLOCK, GOWK_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_sweep(writer: *mut gowk_writer, error: *mut gowk_error) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        count(unsafe { borrow_mut(writer, "the writer") }?.0.sweep()?)
    })
}

/// Adds all keys of another filter, as its entries hold them: the keys themselves are not needed. Both filters must
/// have the same kind, seed and shape. Returns 0. Codes: GOWK_INVALID if they differ, GOWK_NO_ROOM, GOWK_DAMAGED,
/// GOWK_BUSY, GOWK_NO_SPACE, GOWK_IO, GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_merge(
    writer: *mut gowk_writer,
    other: *const gowk_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (writer, other) = unsafe { (borrow_mut(writer, "the writer")?, borrow(other, "the reader")?) };
        writer.0.merge(&other.0)?;
        Ok(0)
    })
}

/// Describes the filter with the open transaction. Returns 0. Codes: GOWK_POISONED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_writer_info(
    writer: *const gowk_writer,
    info: *mut gowk_info,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { put(info, &borrow(writer, "the writer")?.0.info()?) }
    })
}
