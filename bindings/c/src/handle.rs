//! Handles and strings: from the caller's pointers to references, and back.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Failure, Outcome};

/// The object behind a handle.
///
/// # Safety
///
/// Unless it is NULL, the pointer came from [`give`] and was not taken back, and nobody changes the object for `'a`.
pub(crate) unsafe fn borrow<'a, T>(handle: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// Like [`borrow`], for changes.
///
/// # Safety
///
/// As for `borrow`, and nobody else uses the object for `'a`.
pub(crate) unsafe fn borrow_mut<'a, T>(handle: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// Makes a handle of the object that `open` returns, and stores it at `into`; stores NULL if `open` fails.
///
/// # Safety
///
/// Unless it is NULL, `into` points to room for a pointer.
pub(crate) unsafe fn give<T>(into: *mut *mut T, open: impl FnOnce() -> Result<T, Failure>) -> Outcome {
    if into.is_null() {
        return Err(Failure::invalid("the place for the new handle is NULL"));
    }
    // SAFETY: the caller's promise. This way the place never holds an old pointer after a failure or a panic.
    unsafe { into.write(std::ptr::null_mut()) };
    let handle = Box::into_raw(Box::new(open()?));
    // SAFETY: the caller's promise.
    unsafe { into.write(handle) };
    Ok(0)
}

/// Takes a handle back; `None` for NULL.
///
/// # Safety
///
/// Unless it is NULL, the pointer came from [`give`] and was not taken back, and nobody uses it afterwards.
pub(crate) unsafe fn take<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A caller's string.
///
/// # Safety
///
/// Unless it is NULL, it ends with a NUL, and nobody changes it for `'a`.
unsafe fn string<'a>(string: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if string.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// A path, in any bytes that the file system allows.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's promise.
    let path = unsafe { string(path, "the path") }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// A name in UTF-8.
///
/// # Safety
///
/// Unless it is NULL, it ends with a NUL, and nobody changes it for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { string(text, name) }?;
    text.to_str().map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}
