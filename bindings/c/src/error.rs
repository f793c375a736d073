//! Codes and messages of failures, and the wall that panics do not pass.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use core::ErrorKind;

/// What went wrong, and what to do. The numbers never change; later versions may add some.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum gowk_code {
    /// There is no such filter, store, folder, version or metadata: create it, or check the path.
    GOWK_NOT_FOUND = -1,
    /// Something of this name is there already: choose another name.
    GOWK_EXISTS = -2,
    /// The file is not a filter, or the folder not a store: check the path.
    GOWK_FOREIGN = -3,
    /// The file needs another version of gowk.
    GOWK_UNSUPPORTED = -4,
    /// The bytes read are not the bytes written: verify, then restore a copy or repair (`gowk repair`).
    GOWK_DAMAGED = -5,
    /// Another writer has the filter, in this process or another: wait and try again, or set the option "wait".
    GOWK_LOCKED = -6,
    /// The file kept changing while it was read: try again.
    GOWK_BUSY = -7,
    /// A filter has no room for a key, and must not grow: create a larger one, or one that grows.
    GOWK_NO_ROOM = -8,
    /// The file system has too little room.
    GOWK_NO_SPACE = -9,
    /// The filter is of another kind than the call needs, such as removing keys from a set.
    GOWK_KIND = -10,
    /// The clock, or the time of a key, cannot be believed.
    GOWK_CLOCK = -11,
    /// An argument or option is not allowed, or not in this place; also NULL where that is not allowed.
    GOWK_INVALID = -12,
    /// Another file has taken the filter's name: open it again.
    GOWK_REPLACED = -13,
    /// A writer was closed with changes that were never committed. They are lost.
    GOWK_UNCOMMITTED = -14,
    /// Another commit to the store came first, and nothing was committed: make the update again.
    GOWK_CONFLICT = -15,
    /// A commit failed, and it is unknown whether it is durable: open again, and look.
    GOWK_UNKNOWN = -16,
    /// Something failed after a commit had become durable: open again to go on.
    GOWK_AFTER_COMMIT = -17,
    /// An earlier failure has stopped this writer: close it and open again.
    GOWK_POISONED = -18,
    /// The operating system refused: see the message.
    GOWK_IO = -19,
    /// A defect of gowk itself, caught before it reached the caller: close the handle, and report the message.
    GOWK_PANIC = -20,
    /// A failure that this version of the header has no code for: see the message.
    GOWK_OTHER = -21,
}

use gowk_code::*;

impl gowk_code {
    /// All codes.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 21] = [
        GOWK_NOT_FOUND,
        GOWK_EXISTS,
        GOWK_FOREIGN,
        GOWK_UNSUPPORTED,
        GOWK_DAMAGED,
        GOWK_LOCKED,
        GOWK_BUSY,
        GOWK_NO_ROOM,
        GOWK_NO_SPACE,
        GOWK_KIND,
        GOWK_CLOCK,
        GOWK_INVALID,
        GOWK_REPLACED,
        GOWK_UNCOMMITTED,
        GOWK_CONFLICT,
        GOWK_UNKNOWN,
        GOWK_AFTER_COMMIT,
        GOWK_POISONED,
        GOWK_IO,
        GOWK_PANIC,
        GOWK_OTHER,
    ];
}

impl From<ErrorKind> for gowk_code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => GOWK_NOT_FOUND,
            ErrorKind::Exists => GOWK_EXISTS,
            ErrorKind::Foreign => GOWK_FOREIGN,
            ErrorKind::Unsupported => GOWK_UNSUPPORTED,
            ErrorKind::Damaged => GOWK_DAMAGED,
            ErrorKind::Locked => GOWK_LOCKED,
            ErrorKind::Busy => GOWK_BUSY,
            ErrorKind::NoRoom => GOWK_NO_ROOM,
            ErrorKind::NoSpace => GOWK_NO_SPACE,
            ErrorKind::Kind => GOWK_KIND,
            ErrorKind::Clock => GOWK_CLOCK,
            ErrorKind::Invalid => GOWK_INVALID,
            ErrorKind::Replaced => GOWK_REPLACED,
            ErrorKind::Uncommitted => GOWK_UNCOMMITTED,
            ErrorKind::Conflict => GOWK_CONFLICT,
            ErrorKind::Unknown => GOWK_UNKNOWN,
            ErrorKind::AfterCommit => GOWK_AFTER_COMMIT,
            ErrorKind::Poisoned => GOWK_POISONED,
            ErrorKind::Io => GOWK_IO,
            _ => GOWK_OTHER,
        }
    }
}

/// How many bytes a message has, with its final NUL.
const MESSAGE: usize = 1020;

/// Why a call failed. Lies wherever the caller puts it, usually on the stack, and needs neither initialization nor
/// freeing. A call that fails fills it in; a call that succeeds leaves it alone.
#[repr(C)]
pub struct gowk_error {
    /// The `gowk_code` that the call returned.
    pub code: i32,
    /// One line of UTF-8 that names the file, the place and the remedy, cut at 1019 bytes; ends with a NUL.
    pub message: [c_char; 1020],
}

const _: () = assert!(size_of::<gowk_error>() == 4 + MESSAGE);

/// A failure on its way to the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: gowk_code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: GOWK_INVALID, message: message.into() }
    }
}

impl From<core::Error> for Failure {
    fn from(error: core::Error) -> Self {
        Self { code: error.kind().into(), message: error.to_string() }
    }
}

impl From<core::store::Error> for Failure {
    fn from(error: core::store::Error) -> Self {
        Self { code: error.kind().into(), message: error.to_string() }
    }
}

/// The outcome of a call: a number of at least 0.
pub(crate) type Outcome = Result<i64, Failure>;

/// The number of things, in the form that a call returns.
pub(crate) fn count(things: impl TryInto<i64>) -> Outcome {
    Ok(things.try_into().unwrap_or(i64::MAX))
}

/// Runs a call. A failure, or a panic, is written to `error` and becomes its code.
pub(crate) fn guarded(error: *mut gowk_error, call: impl FnOnce() -> Outcome) -> i64 {
    // A panicking call's data is not used afterwards: the panic poisons a writer, and calls do not change readers.
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let failure = match outcome {
        Ok(Ok(number)) => return number.max(0),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let message = format!("a defect of gowk: {}", text_of(&*panic));
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            Failure { code: GOWK_PANIC, message }
        }
    };
    let code = failure.code as i32;
    if !error.is_null() {
        let mut message = [0; MESSAGE];
        let text = cut(&failure.message);
        message.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte as c_char);
        // SAFETY: the caller promises that a pointer to an error that is not NULL points to room for one.
        unsafe { error.write(gowk_error { code, message }) };
    }
    code.into()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// As much of a message as fits, without a partial character, and without a NUL.
fn cut(message: &str) -> &str {
    let message = message.split('\0').next().unwrap_or_default();
    let ends = (0..MESSAGE).rev().find(|end| message.is_char_boundary(*end));
    let end = if message.len() < MESSAGE { message.len() } else { ends.unwrap_or(0) };
    message.get(..end).unwrap_or_default()
}

/// The name of a code, such as "not_found"; "ok" for 0 and above, "other" for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn gowk_code_name(code: i64) -> *const c_char {
    let name: &CStr = match code {
        0.. => c"ok",
        -1 => c"not_found",
        -2 => c"exists",
        -3 => c"foreign",
        -4 => c"unsupported",
        -5 => c"damaged",
        -6 => c"locked",
        -7 => c"busy",
        -8 => c"no_room",
        -9 => c"no_space",
        -10 => c"kind",
        -11 => c"clock",
        -12 => c"invalid",
        -13 => c"replaced",
        -14 => c"uncommitted",
        -15 => c"conflict",
        -16 => c"unknown",
        -17 => c"after_commit",
        -18 => c"poisoned",
        -19 => c"io",
        -20 => c"panic",
        _ => c"other",
    };
    name.as_ptr()
}
