//! The project itself: the source (`walls`), the names that users call (`surface`), the packages (`package`), and the
//! examples (`examples`).
//! `crates/cli/tests/cli/docs.rs` checks the pages that users read.

mod examples;
mod package;
mod sources;
mod surface;
mod walls;
