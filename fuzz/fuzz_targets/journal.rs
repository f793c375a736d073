//! Arbitrary journal bytes beside a good file.
//!
//! Invariants checked: recovery ends in a filter or in an error, without panic or hang. The filter has the golden file's
//! commits up to one of them, whole and unchanged: that commit's counters and keys. After an error, file and journal
//! are unchanged.
//!
//! Input: a byte. After 0, the bytes of a journal. Otherwise changes to the golden journal: a position of two bytes, a
//! length (0 cuts the journal there), and as many bytes.

#![no_main]

use std::fs;
use std::ops::Range;

use gowk::{Error, Lookup, Reader};
use gowk_fuzz::{Filter, Input, UNAPPLIED, folder, golden, key};
use libfuzzer_sys::fuzz_target;

/// The entries and the key numbers after commits 1 to 4 of the golden file.
const COMMITS: [(u64, Range<u64>); 4] = [(100, 0..100), (140, 0..140), (120, 20..140), (140, 20..160)];

fn changed(mut input: Input<'_>) -> Vec<u8> {
    if input.u8() == 0 {
        return input.0.to_vec();
    }
    let mut journal = golden()[UNAPPLIED].journal.clone();
    while !input.is_empty() && !journal.is_empty() {
        let at = usize::from(input.u16()) % journal.len();
        match usize::from(input.u8()) {
            0 => journal.truncate(at),
            length => {
                for (to, from) in journal[at..].iter_mut().zip(input.bytes(length)) {
                    *to = *from;
                }
            }
        }
    }
    journal
}

/// Whether the bytes have a header or a frame with a right CRC that no writer has made: a fuzzer can guess a CRC.
fn is_forged(journal: &[u8]) -> bool {
    let original = &golden()[UNAPPLIED].journal;
    let word = |at: usize| journal.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if let (Some(body), Some(crc)) = (journal.get(..508), word(508))
        && crc32fast::hash(body) == crc
        && original[..512] != journal[..512]
    {
        return true;
    }
    (512..journal.len()).step_by(512).any(|at| {
        let (Some(payload), Some(crc)) = (word(at + 32), word(at + 60)) else { return false };
        let Some(content) = journal.get(at + 64..(at + 64).saturating_add(payload as usize)) else {
            return false;
        };
        let sealed = [&journal[at..at + 60], content].concat();
        let frame = &journal[at..at + 64 + content.len()];
        crc32fast::hash(&sealed) == crc && !original.windows(frame.len()).any(|window| window == frame)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let journal = changed(Input(bytes));
    let filter = Filter { data: golden()[UNAPPLIED].data.clone(), journal };
    let dir = folder();
    let path = filter.write(dir.path());
    let reader = match Reader::open(&path) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(matches!(error, Error::Journal { .. }), "{error}");
            assert!(fs::read(&path).ok() == Some(filter.data), "a refused file was changed");
            let found = fs::read(dir.path().join("f-journal")).ok();
            assert!(found == Some(filter.journal), "a refused journal was changed");
            return;
        }
    };
    if is_forged(&filter.journal) {
        return;
    }
    let info = reader.info().expect("a recovered filter");
    let (entries, keys) = &COMMITS[info.commit as usize - 1];
    assert_eq!(info.entries, *entries, "commit {}", info.commit);
    for number in keys.clone() {
        assert!(reader.contains(key(number).as_bytes()).expect("an intact filter"), "key {number} is lost");
    }
    let report = reader.verify(&|_, _| {}).expect("an intact filter");
    assert!(report.is_clean(), "{report:?}");
});
