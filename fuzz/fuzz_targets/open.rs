//! Arbitrary bytes as a filter file, with or without a journal.
//!
//! Invariants checked, whatever the bytes:
//!
//! 1. Opening and all calls after it end in an answer or an error, without panic, hang, or memory beyond the fuzzer's
//!    limit. The map is as long as the file.
//! 2. No lookup in a damaged page answers "absent". A copy answers as its original does. A writer's commits are found. A
//!    repaired file verifies clean.
//!
//! Input: a byte that chooses a golden file, or 255, after which the rest *is* the file. Then changes to it: a position of
//! three bytes, whose highest bit means the journal; a length (0 cuts the file there); and as many bytes. Checksums
//! are not adjusted.

#![no_main]

use gowk_fuzz::{Filter, Input, folder, golden, read, write};
use libfuzzer_sys::fuzz_target;

fn changed(mut input: Input<'_>) -> Filter {
    let number = input.u8();
    if number == 255 {
        return Filter { data: input.0.to_vec(), journal: Vec::new() };
    }
    let mut filter = golden()[usize::from(number) % golden().len()].clone();
    while !input.is_empty() {
        let position = input.u24();
        let bytes = if position >> 23 == 0 { &mut filter.data } else { &mut filter.journal };
        let at = (position & 0x7f_ffff) as usize;
        let at = if bytes.is_empty() { 0 } else { at % bytes.len() };
        match usize::from(input.u8()) {
            0 => bytes.truncate(at),
            length => {
                for (to, from) in bytes[at..].iter_mut().zip(input.bytes(length)) {
                    *to = *from;
                }
            }
        }
    }
    filter
}

fuzz_target!(|bytes: &[u8]| {
    let filter = changed(Input(bytes));
    let dir = folder();
    let path = filter.write(dir.path());
    let _ = read(&path, Some(&dir.path().join("copy")));
    // Readers may have recovered the file, so the writer gets a new one.
    let dir = folder();
    let _ = write(&filter.write(dir.path()));
});
