//! The caller's code panics inside a call of the library, and the caller catches the panic.
//!
//! Invariant checked: after the panic, a commit that returns `Ok` has all changes that were acknowledged before, and its
//! counters equal a scan. A writer that cannot promise that returns an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gowk::{Batches, Kind, Lookup, Options, Reader, SlotsPerBucket, Writer};

const COMMITTED: u64 = 60_000;
/// How many keys the open transaction has before the panic.
const OPEN: u64 = 20_000;
const BATCH: u64 = 60_000;

fn keys(numbers: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    numbers.map(u64::to_le_bytes).collect()
}

fn options() -> Options {
    Options::new().capacity(200_000).slots_per_bucket(SlotsPerBucket::Four).seed(1).threads(2)
}

/// A published filter with an open transaction.
fn writer(path: &Path, kind: Kind) -> Writer {
    let mut writer = options().kind(kind).create(path).unwrap();
    writer.insert_batch(&keys(0..COMMITTED)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    assert!(writer.insert_batch(&keys(COMMITTED..COMMITTED + OPEN)).unwrap().refused().is_empty());
    writer
}

/// A key. The n-th read of any such key panics.
struct Key<'a> {
    bytes: [u8; 8],
    reads: &'a AtomicUsize,
    panic_at: usize,
}

impl AsRef<[u8]> for Key<'_> {
    fn as_ref(&self) -> &[u8] {
        assert!(self.reads.fetch_add(1, Ordering::Relaxed) != self.panic_at, "the key panics");
        &self.bytes
    }
}

/// Commits, and checks that the keys below `there` are present.
fn check(mut writer: Writer, path: &Path, there: u64) {
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Reader::open(path).unwrap();
    let absent = keys(0..there).iter().filter(|key| !reader.contains(*key).unwrap()).count();
    assert_eq!(absent, 0);
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_key_that_panics_while_a_batch_is_hashed_leaves_the_transaction_whole() {
    let dir = tempfile::tempdir().unwrap();
    for panic_at in [0, 1, 20_000, 40_000, BATCH as usize - 1] {
        for kind in [Kind::Counting, Kind::Set] {
            let path = dir.path().join(format!("{panic_at}-{}", kind.name()));
            let mut writer = writer(&path, kind);
            let reads = AtomicUsize::new(0);
            let batch = keys(1 << 32..(1 << 32) + BATCH);
            let batch: Vec<_> =
                batch.iter().map(|key| Key { bytes: *key, reads: &reads, panic_at }).collect();
            let outcome = catch_unwind(AssertUnwindSafe(|| writer.insert_batch(&batch)));
            assert!(outcome.is_err());
            check(writer, &path, COMMITTED + OPEN);
        }
    }
}

#[test]
fn a_key_that_panics_after_a_doubling_loses_nothing_that_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = options().capacity(10_000).create(&path).unwrap();
    writer.insert_batch(&keys(0..10_000)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    let reads = AtomicUsize::new(0);
    // Every key is read once; keys without room are read again after the doubling.
    let batch = keys(10_000..10_000 + BATCH);
    let panic_at = BATCH as usize + 10;
    let batch: Vec<_> = batch.iter().map(|key| Key { bytes: *key, reads: &reads, panic_at }).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| writer.insert_batch(&batch))).is_err());
    check(writer, &path, 10_000);
}

#[test]
fn a_panic_while_the_progress_of_a_repair_is_told_leaves_the_counters_right() {
    let dir = tempfile::tempdir().unwrap();
    for panic_at in [1, 40, 96] {
        let path = dir.path().join(panic_at.to_string());
        let mut first = writer(&path, Kind::Set);
        first.commit().unwrap();
        first.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // Damages some pages of each region.
        let regions = bytes.len() - 65_536 * Reader::open(&path).unwrap().info().unwrap().regions as usize;
        let pages = (regions..bytes.len()).step_by(7 * 4096);
        let damaged = pages.len();
        pages.for_each(|at| bytes[at + 77] ^= 8);
        std::fs::write(&path, &bytes).unwrap();
        let mut writer = options().open_existing(&path).unwrap();
        let calls = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            writer.repair(&|_, _| {
                let before = calls.fetch_add(1, Ordering::Relaxed);
                assert!(before + 1 != panic_at, "the progress callback panics");
            })
        }));
        assert!(outcome.is_err(), "{calls:?} calls");
        writer.commit().unwrap();
        writer.close().unwrap();
        // Every quarantined bucket is counted.
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.info().unwrap().quarantined_buckets, 0);
        assert_eq!(reader.verify(&|_, _| {}).unwrap().damaged.len(), damaged, "panic at {panic_at}");
        let mut writer = options().open_existing(&path).unwrap();
        assert!(!writer.repair(&|_, _| {}).unwrap().is_empty());
        check(writer, &path, COMMITTED + OPEN);
    }
}

#[test]
fn a_panic_while_the_progress_of_a_doubling_is_told_leaves_the_transaction_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("asked");
    let mut asked = writer(&path, Kind::Counting);
    let progress = &|done, _| assert!(done != 2, "the progress callback panics");
    assert!(catch_unwind(AssertUnwindSafe(|| asked.grow_with(progress))).is_err());
    check(asked, &path, COMMITTED + OPEN);

    let path = dir.path().join("needed");
    let mut first = writer(&path, Kind::Set);
    first.commit().unwrap();
    first.close().unwrap();
    let progress = |done, _| assert!(done != 2, "the progress callback panics");
    let mut writer = options().growth_progress(progress).open_existing(&path).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| writer.insert_batch(&keys(COMMITTED..500_000))));
    assert!(outcome.is_err());
    check(writer, &path, COMMITTED + OPEN);
}
