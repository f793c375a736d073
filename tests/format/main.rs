//! The format: the golden files of `format-spec/vectors`, read by the library (`golden`) and by the decoder that was
//! written from the specification alone (`decoder`).
//!
//! A test binary of its own, for the sake of the allocator by which `golden` counts how much memory a refusal takes.

mod decoder;
mod golden;
mod vectors;
