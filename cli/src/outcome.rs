//! How a verb ends that meets no error.

/// How a verb ended that met no error.
pub(super) enum Outcome {
    /// What was asked for is done, or was found.
    Done,
    /// A key was not found, or damage was.
    NotFound,
    /// A signal of this number stopped it; the keys taken until then are committed.
    Stopped(i32),
}
