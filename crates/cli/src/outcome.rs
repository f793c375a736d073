//! The outcome of a verb that meets no error.

/// The outcome of a verb that met no error.
pub(super) enum Outcome {
    /// The verb did what was asked for, or found the keys.
    Done,
    /// A key was not found, or damage was found.
    NotFound,
    /// A signal of this number stopped it; the keys taken until then are committed.
    Stopped(i32),
}
