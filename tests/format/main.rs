//! The format: the golden files of `format-spec/vectors`, read by the library (`golden`) and by the decoder that was
//! written from the specification alone (`decoder`).
//!
//! A test binary of its own: `golden` replaces the allocator, to measure how much memory a refusal takes.

mod decoder;
mod golden;
#[path = "../thorough/mod.rs"]
mod thorough;
mod vectors;
