//! The outcome of a verb without an error.

/// The outcome of a verb without an error.
pub(super) enum Outcome {
    /// The verb did its work, or found the keys.
    Done,
    /// A key was not found, or damage was found.
    NotFound,
    /// A signal of this number stopped the verb; the keys taken until then are committed.
    Stopped(i32),
}
