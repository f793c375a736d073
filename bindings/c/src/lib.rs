//! The C interface: every function of `gowk.h`, which cbindgen generates from this crate.
//!
//! Invariants:
//!
//! 1. No panic crosses into C. Every function runs within [`error::guarded`] or cannot panic.
//! 2. A pointer is used only if it is not NULL. The caller promises that it points to what the header says; every
//!    `unsafe` block here relies on that.
//! 3. A handle is a `Box`. The call that makes it passes it to the caller, and the call that closes it takes it back.

// In the order of the header, which the empty lines preserve.
mod error;

mod options;

mod keys;

mod info;

mod writer;

mod reader;

mod store;

mod handle;

use std::ffi::c_char;

/// The version of the library that is running, such as "0.1.0". `GOWK_VERSION` is the version of this header.
#[unsafe(no_mangle)]
pub extern "C" fn gowk_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests;
