//! Stores: many filters under versions.

use std::ffi::{c_char, c_void};

use core::store::{Committed, Error, Store, StoreReader, Token, Update};
use core::{Batches, Lookup};

use crate::error::{Failure, Outcome, count, gowk_error, guarded};
use crate::handle::{borrow, borrow_mut, give, path, take, text};
use crate::keys::{GOWK_NEW, bytes, gowk_key, keys, note, results};
use crate::options::{gowk_options, or_default};
use crate::reader::answered;
use crate::writer::{OTHERS_INSERTED, inserted};

/// How often a batch is judged again after other commits came first.
const ATTEMPTS: u32 = 32;

/// A store: a folder of filters with versions. Any number of processes may commit to it, and any number of threads may
/// call at the same time.
pub struct gowk_store(Store);

/// Changes to a store, based on one version. Any thread may call, but only one at a time.
pub struct gowk_update {
    update: Update,
    token: Option<Token>,
}

/// One version of a store, open for lookups. Any number of threads may look up at the same time; while one reloads or
/// closes it, no other may call.
pub struct gowk_store_reader(StoreReader);

/// Creates a store of `shards` filters, 1 to 65536, in a folder that does not exist or is empty. The options describe
/// one filter that would hold all keys, but "max_file_size" limits the file of each shard, and "force" does nothing.
/// NULL for the defaults. On success returns 0 and stores a handle, which `gowk_store_close` frees; on failure stores
/// NULL. Codes: GOWK_EXISTS if the folder is not empty, GOWK_INVALID, GOWK_NO_SPACE, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_create(
    path: *const c_char,
    shards: u32,
    options: *const gowk_options,
    store: *mut *mut gowk_store,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe {
            give(store, || Ok(gowk_store(Store::create(self::path(path)?, shards, &or_default(options))?)))
        }
    })
}

/// Opens a store that exists, and gives a handle as `gowk_store_create` does. To create a store unless it exists, call
/// that first, and this after GOWK_EXISTS. `options` may be NULL. Codes: GOWK_NOT_FOUND, GOWK_FOREIGN, GOWK_DAMAGED,
/// GOWK_UNSUPPORTED; GOWK_KIND and GOWK_INVALID if the options do not fit the store; GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_open(
    path: *const c_char,
    options: *const gowk_options,
    store: *mut *mut gowk_store,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { give(store, || Ok(gowk_store(Store::open_with(self::path(path)?, &or_default(options))?))) }
    })
}

/// Frees a store; does nothing for NULL. Updates and readers of it stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_close(store: *mut gowk_store) {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: promised by the caller.
        drop(unsafe { take(store) });
        Ok(0)
    });
}

/// The token of a commit; `None` without an application.
///
/// # Safety
///
/// As for `text`.
unsafe fn token(application: *const c_char, number: u64) -> Result<Option<Token>, Failure> {
    if application.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    Ok(Some(Token::new(unsafe { text(application, "the application") }?, number)))
}

/// An update of the newest version; or, if this token was already committed, of the version on which its commit was
/// based.
fn updated(store: &Store, token: Option<&Token>) -> Result<Update, Error> {
    let Some(token) = token else { return store.update() };
    Ok(store.update_of(store.before(&token.application, token.number)?))
}

/// Inserts `count` keys and commits them, at most once for each token. A token is the name of an application (UTF-8, at
/// most 1024 bytes) and a number, which the application raises with each new batch. To try again, call with the same
/// token and the same keys: if they were committed before, nothing changes, and the results are those of that commit.
/// Never use a token again with other keys: they would not be stored, and nothing would say so. A number below the last
/// one of its application returns GOWK_INVALID: `gowk_store_last_token` gives that number.
/// `application` may be NULL: then there is no token, and `number` means nothing.
///
/// Writes GOWK_NEW, GOWK_KNOWN or GOWK_REFUSED for each key to `results`, an array of `count` bytes; NULL if they are
/// not wanted. Returns how many keys were new. If other processes have committed some of the same keys first, judges
/// all keys again. `operation` is a word for the store's log, such as "insert", of at most 256 bytes; not NULL.
///
/// After a failure other than GOWK_UNKNOWN nothing was committed. After GOWK_NO_ROOM the results say which keys were
/// refused; after any other failure they mean nothing.
///
/// Codes: GOWK_NO_ROOM if any key was refused; GOWK_UNKNOWN if the commit's outcome is unknown (call again with the
/// same token); GOWK_CONFLICT if others came first 32 times; GOWK_NOT_FOUND if a vacuum (`gowk store vacuum`) has
/// removed the version that the token's commit was based on; GOWK_INVALID; GOWK_DAMAGED, GOWK_NO_SPACE, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_insert_batch(
    store: *const gowk_store,
    keys: *const gowk_key,
    count: usize,
    results: *mut u8,
    operation: *const c_char,
    application: *const c_char,
    number: u64,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (store, keys, results, operation, token) = unsafe {
            (
                &borrow(store, "the store")?.0,
                self::keys(keys, count)?,
                self::results(results, count),
                text(operation, "the operation")?,
                token(application, number)?,
            )
        };
        let mut attempt = 1;
        loop {
            let mut update = updated(store, token.as_ref())?;
            results.fill(0);
            let new = insert(&mut update, keys, results, "nothing was committed")?;
            match update.commit(operation, token.clone()) {
                Err(Error::Conflict { .. }) if attempt < ATTEMPTS => attempt += 1,
                outcome => {
                    outcome?;
                    return Ok(new);
                }
            }
        }
    })
}

/// `others` says what happened to the other keys, if some are refused.
fn insert(update: &mut Update, keys: &[crate::keys::Checked], results: &mut [u8], others: &str) -> Outcome {
    let mut new = 0;
    let refused = update.insert_each(keys, |index| {
        new += 1;
        note(results, index, GOWK_NEW);
    })?;
    inserted(new, refused, results, others)
}

/// Stores the number of the last token that an application has committed, and returns 1; returns 0, and stores 0, if it has
/// committed none. An application that starts again goes on with a higher number. Neither pointer may be NULL. Codes:
/// GOWK_INVALID, GOWK_DAMAGED, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_last_token(
    store: *const gowk_store,
    application: *const c_char,
    number: *mut u64,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        if number.is_null() {
            return Err(Failure::invalid("the place for the number is NULL"));
        }
        // SAFETY: promised by the caller.
        let (store, application) =
            unsafe { (&borrow(store, "the store")?.0, text(application, "the application")?) };
        let newest = store.newest()?;
        let last = newest.tokens.get(application);
        // SAFETY: promised by the caller.
        unsafe { number.write(last.map_or(0, |done| done.number)) };
        Ok(last.is_some().into())
    })
}

/// Begins an update: for more keys than one call of `gowk_store_insert_batch` should take, or to remove keys. The token
/// works as in that call, but a number that is too low fails only at the commit. The update is based on the newest
/// version or, if this token was committed before, on the version that its commit was based on. On success returns 0
/// and stores a handle, which `gowk_update_commit` and `gowk_update_abandon` free; on failure stores NULL. Codes:
/// GOWK_NOT_FOUND if a vacuum has removed that version, GOWK_DAMAGED, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_update(
    store: *const gowk_store,
    application: *const c_char,
    number: u64,
    update: *mut *mut gowk_update,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe {
            give(update, || {
                let token = token(application, number)?;
                let update = updated(&borrow(store, "the store")?.0, token.as_ref())?;
                Ok(gowk_update { update, token })
            })
        }
    })
}

/// Inserts keys into an update, as `gowk_writer_insert_batch` does into a filter. After GOWK_NO_ROOM the update may be
/// committed without the refused keys. After GOWK_DAMAGED, GOWK_NO_SPACE or GOWK_IO it may have some of the keys:
/// abandon it, and begin again. Codes: those four.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_update_insert_batch(
    update: *mut gowk_update,
    keys: *const gowk_key,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (update, keys, results) = unsafe {
            (borrow_mut(update, "the update")?, self::keys(keys, count)?, self::results(results, count))
        };
        insert(&mut update.update, keys, results, OTHERS_INSERTED)
    })
}

/// Removes one copy of each key, as `gowk_writer_remove_batch` does. After GOWK_DAMAGED, GOWK_NO_SPACE or GOWK_IO
/// abandon the update, and begin again. Codes: those three; GOWK_KIND unless it is a store of counting filters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_update_remove_batch(
    update: *mut gowk_update,
    keys: *const gowk_key,
    count: usize,
    results: *mut u8,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (update, keys, results) = unsafe {
            (borrow_mut(update, "the update")?, self::keys(keys, count)?, self::results(results, count))
        };
        let mut removed = 0;
        update.update.remove_each(keys, |index| {
            removed += 1;
            note(results, index, 1);
        })?;
        Ok(removed)
    })
}

/// Commits an update, and frees it whatever the outcome; NULL is GOWK_INVALID. `operation` is as in
/// `gowk_store_insert_batch`. Returns the number of the version that holds its changes: a new one, the version of the
/// first commit with this token, or its base if there was nothing to change.
///
/// Codes: GOWK_CONFLICT if others have changed the same keys since it began, and nothing was committed: begin again;
/// GOWK_UNKNOWN: make the update again with the same token; GOWK_INVALID if the token's number is below the last one of
/// its application; GOWK_NO_SPACE, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_update_commit(
    update: *mut gowk_update,
    operation: *const c_char,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller. Taken first, so that every failure frees it.
        let update = unsafe { take(update) }.ok_or_else(|| Failure::invalid("the update is NULL"))?;
        // SAFETY: promised by the caller.
        let operation = unsafe { text(operation, "the operation") }?;
        let gowk_update { update, token } = *update;
        let base = update.base().number;
        match update.commit(operation, token)? {
            Committed::New(version) => crate::error::count(version.number),
            Committed::Already(done) => crate::error::count(done.version),
            Committed::Unchanged => crate::error::count(base),
        }
    })
}

/// Frees an update without committing it; does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_update_abandon(update: *mut gowk_update) {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: promised by the caller.
        drop(unsafe { take(update) });
        Ok(0)
    });
}

/// Opens the newest version for lookups. On success returns 0 and stores a handle, which `gowk_store_reader_close` frees;
/// on failure stores NULL. Codes: GOWK_DAMAGED, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_read(
    store: *const gowk_store,
    reader: *mut *mut gowk_store_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        unsafe { give(reader, || Ok(gowk_store_reader(borrow(store, "the store")?.0.read()?))) }
    })
}

/// Closes a reader of a store, and frees it; does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_close(reader: *mut gowk_store_reader) {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: promised by the caller.
        drop(unsafe { take(reader) });
        Ok(0)
    });
}

/// Whether the version has the key, as `gowk_reader_contains` says. Codes: GOWK_DAMAGED, GOWK_NOT_FOUND if a vacuum has
/// removed the version's files, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_contains(
    reader: *const gowk_store_reader,
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

/// How many copies of the key the version has, as `gowk_reader_count` says. Codes as for `gowk_store_reader_contains`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_count(
    reader: *const gowk_store_reader,
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

/// Looks up `count` keys, as `gowk_reader_contains_batch` does. Codes as for `gowk_store_reader_contains`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_contains_batch(
    reader: *const gowk_store_reader,
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

/// The number of the version that a reader looks into. Codes: none but GOWK_INVALID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_version(
    reader: *const gowk_store_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        count(unsafe { borrow(reader, "the reader") }?.0.version().number)
    })
}

/// Moves a reader to the newest version. Returns 1 if that is another one, else 0; if it fails, the version stays. No
/// other thread may use the reader during the call. Codes: GOWK_DAMAGED, GOWK_IO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_store_reader_reload(
    reader: *mut gowk_store_reader,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        Ok(unsafe { borrow_mut(reader, "the reader") }?.0.reload()?.into())
    })
}
