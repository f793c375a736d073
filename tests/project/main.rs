//! The project itself: the source (`walls`), the packages (`package`), and the examples (`examples`).
//! `crates/cli/tests/cli/docs.rs` checks the pages that users read.

mod examples;
mod package;
mod walls;
