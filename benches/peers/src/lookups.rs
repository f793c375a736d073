//! Lookups in a filter at load 0.9, against the cache lines that a lookup has to load.

use std::cell::RefCell;
use std::path::Path;

use gowk::{Batches, Growth, KeyHash, Lookup, Options, Reader, SlotsPerBucket};

use crate::keys::{Key, absent, sample};
use crate::limits::{Lines, buffer};
use crate::measure::{candidate, in_turns, print, seconds};
use crate::{Outcome, filters};

const LOOKUPS: usize = 4 << 20;
const ROUNDS: usize = 7;

pub fn run(mebibytes: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let path = dir.path().join("filter");
    let keys = filters::create(&path, mebibytes, 0.9)?;
    let cuckoo = if std::env::args().nth(3).is_none() { Some(filters::cuckoofilter(keys)?) } else { None };
    compare(&path, keys, cuckoo.as_ref())
}

fn compare(path: &Path, keys: u64, cuckoo: Option<&filters::Cuckoo>) -> Outcome<()> {
    let reader = Reader::open(path)?;
    let slots = SlotsPerBucket::Four;
    let length = std::fs::metadata(path)?.len();
    let own = buffer(length);
    let file = std::fs::File::open(path)?;
    // SAFETY: nobody writes to the file while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    // SAFETY: a page-aligned map of whole pages; any bits are a u64.
    let mapped = unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<u64>(), map.len() / 8) };
    let memory = Reader::open_in_memory(path)?;
    let threads = Options::new().threads(2).read(path)?;
    let (present, absent) = (sample(keys, LOOKUPS), absent(LOOKUPS));
    let hashes = |keys: &[Key]| -> Outcome<Vec<KeyHash>> {
        Ok(keys.iter().map(|key| reader.hash(key)).collect::<gowk::Result<_>>()?)
    };
    let (present_hashes, absent_hashes) = (hashes(&present)?, hashes(&absent)?);
    assert!(reader.contains_batch(&present)?.iter().all(|found| *found), "a key was lost");
    verify_all_pages(&reader)?;
    verify_all_pages(&threads)?;
    let removals = RefCell::new(0);
    let writer = RefCell::new(Options::new().growth(Growth::Never).open_existing(path)?);
    let rate = |seconds: f64| LOOKUPS as f64 / seconds / 1e6;
    let batch = |reader: &Reader, keys: &[Key]| {
        rate(seconds(|| {
            std::hint::black_box(reader.contains_batch(keys).expect("the filter is whole"));
        }))
    };
    let hash_batch = |keys: &[KeyHash]| {
        rate(seconds(|| {
            std::hint::black_box(reader.contains_batch(keys).expect("the filter is whole"));
        }))
    };
    let one = |reader: &Reader, keys: &[Key]| {
        rate(seconds(|| {
            let found = keys.iter().filter(|key| reader.contains(*key).expect("the filter is whole")).count();
            std::hint::black_box(found);
        }))
    };
    let watching = |keys: &[Key]| {
        let lookups = reader.lookups();
        rate(seconds(|| {
            let found =
                keys.iter().filter(|key| lookups.contains(*key).expect("the filter is whole")).count();
            std::hint::black_box(found);
        }))
    };
    let mut candidates = vec![
        candidate("limit: two line loads of a page, own buffer", || Lines(&own).two_in_a_page(LOOKUPS)),
        candidate("limit: the same in the mapped file", || Lines(mapped).two_in_a_page(LOOKUPS)),
        candidate("gowk contains_batch, absent", || batch(&reader, &absent)),
        candidate("gowk contains_batch, absent, by a reader just opened", || {
            let seconds = seconds(|| {
                let reader = Reader::open(path).expect("the filter is whole");
                std::hint::black_box(reader.contains_batch(&absent).expect("the filter is whole"));
            });
            rate(seconds)
        }),
        candidate("gowk contains_batch, present", || batch(&reader, &present)),
        candidate("gowk contains_batch, absent, two threads", || batch(&threads, &absent)),
        candidate("gowk contains_batch, absent, in memory", || batch(&memory, &absent)),
        candidate("gowk contains_batch of hashes, absent", || hash_batch(&absent_hashes)),
        candidate("gowk contains_batch of hashes, present", || hash_batch(&present_hashes)),
        candidate("gowk contains, absent", || one(&reader, &absent)),
        candidate("gowk contains, present", || one(&reader, &present)),
        candidate("gowk contains, absent, through lookups()", || watching(&absent)),
        candidate("gowk contains, present, through lookups()", || watching(&present)),
        candidate("gowk contains, absent, in memory", || one(&memory, &absent)),
        candidate("gowk contains, absent, each after the one before", || {
            rate(seconds(|| {
                let mut before = 0;
                for key in &absent {
                    let key = (u64::from_le_bytes(*key) ^ before).to_le_bytes();
                    before = std::hint::black_box(u64::from(reader.contains(key).expect("whole")));
                }
            }))
        }),
        candidate("gowk contains of hashes, absent", || {
            rate(seconds(|| {
                let found = absent_hashes.iter().filter(|hash| reader.contains(**hash).expect("whole"));
                std::hint::black_box(found.count());
            }))
        }),
        candidate("gowk count, present", || {
            rate(seconds(|| {
                let all: u32 =
                    present.iter().map(|key| reader.count(key).expect("the filter is whole")).sum();
                std::hint::black_box(all);
            }))
        }),
    ];
    candidates.push(candidate("gowk remove, present", || {
        // Each round has its own keys. The rollback is not timed.
        let from = *removals.borrow();
        *removals.borrow_mut() += LOOKUPS as u64 / 4;
        let keys: Vec<Key> = crate::keys::keys((from..from + LOOKUPS as u64 / 4).map(|n| n * 7 % keys));
        let mut writer = writer.borrow_mut();
        // The writer copies the filter. A virtual machine hands out memory that it has not used lately several times more
        // slowly than memory that was just freed.
        let mut memory = memmap2::MmapMut::map_anon(length as usize).expect("memory");
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        memory.fill(1);
        drop(memory);
        let seconds = seconds(|| {
            for key in &keys {
                std::hint::black_box(writer.remove(key).expect("the filter is whole"));
            }
        });
        writer.rollback().expect("a rollback");
        keys.len() as f64 / seconds / 1e6
    }));
    candidates.push(candidate("gowk remove_batch, present", || {
        let from = *removals.borrow();
        *removals.borrow_mut() += LOOKUPS as u64;
        let keys: Vec<Key> = crate::keys::keys((from..from + LOOKUPS as u64).map(|n| n * 7 % keys));
        let mut writer = writer.borrow_mut();
        let rate = rate(seconds(|| {
            std::hint::black_box(writer.remove_batch(&keys).expect("the filter is whole"));
        }));
        writer.rollback().expect("a rollback");
        rate
    }));
    if let Some(cuckoo) = cuckoo {
        for (name, keys) in [("absent", &absent), ("present", &present)] {
            candidates.push(candidate(format!("cuckoofilter contains, {name}"), || {
                rate(seconds(|| {
                    let found = keys.iter().filter(|key| cuckoo.contains(*key)).count();
                    std::hint::black_box(found);
                }))
            }));
        }
    }
    if let Some(only) = std::env::args().nth(3) {
        candidates.retain(|candidate| candidate.name.starts_with("limit") || candidate.name.contains(&only));
    }
    let medians = in_turns(ROUNDS, &mut candidates);
    println!(
        "{} MiB, {keys} keys, {} slots per bucket, one thread; millions a second, and of the limit:",
        length >> 20,
        slots.get()
    );
    print("M/s", 0, &candidates, &medians);
    Ok(())
}

/// Touches the pages first, so that no timed lookup has to verify one.
fn verify_all_pages(reader: &Reader) -> Outcome<()> {
    let pages = reader.info()?.slots / u64::from(SlotsPerBucket::Four.get()) / 512;
    // Random keys until nearly every page was touched.
    let mut from = 1 << 59;
    for _ in 0..(16 * pages).div_ceil(LOOKUPS as u64) {
        reader.contains_batch(&crate::keys::keys(from..from + LOOKUPS as u64))?;
        from += LOOKUPS as u64;
    }
    Ok(())
}
