//! Stores, through the tool and through jobs. `tests/stores` of the library has the rest.

#[path = "../../../tests/thorough/mod.rs"]
mod thorough;

mod ingest;
mod tool;
