//! The format: the golden files of `format-spec/vectors`, read by the library (`golden`) and by the decoder that was
//! written only from the specification (`decoder`).
//!
//! A separate test binary: `golden` replaces the allocator, to measure how much memory a refusal takes.

mod decoder;
mod golden;
#[path = "../thorough/mod.rs"]
mod thorough;
mod vectors;
