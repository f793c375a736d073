//! Copies of keys in counting filters.
//!
//! Invariants checked:
//!
//! 1. Real lines with their real numbers of copies fit at every width.
//! 2. A count is never too low. It is exact if no other key matches.
//! 3. Each copy can be removed; without copies the filter is empty.
//! 4. A key with more copies than can be counted takes no room from other keys, and cannot be removed.
//! 5. A batch has the effects of single inserts.
//!
//! `GOWK_LINES=FILE` reads the lines from another file, gzip or plain.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use gowk::{Batches, Error, Growth, GrowthRefusal, Options, Reader, SlotsPerBucket, Writer};

use crate::thorough;

/// The lines of a file, in order.
fn lines() -> Vec<Vec<u8>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/urls.txt.gz");
    let path = std::env::var_os("GOWK_LINES").map_or(own, Into::into);
    let bytes = std::fs::read(&path).unwrap();
    let mut text = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    } else {
        text = bytes;
    }
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

fn multiplicities(lines: &[Vec<u8>]) -> HashMap<&[u8], u64> {
    let mut all = HashMap::new();
    lines.iter().for_each(|line| *all.entry(line.as_slice()).or_default() += 1);
    all
}

/// Counts every key. Returns how many counts are too high, without saturated ones.
fn check_counts(writer: &Writer, times: u64, keys: &HashMap<&[u8], u64>) -> u64 {
    let highest = writer.info().unwrap().slots_per_bucket.highest_count();
    let mut wrong = 0;
    for (key, copies) in keys {
        let count = writer.count(key).unwrap();
        assert!(u64::from(count) >= copies * times || count == highest, "{count} of {copies} times {times}");
        wrong += u64::from(count != highest && u64::from(count) != copies * times);
    }
    wrong
}

/// Inserts all lines `times` times, counts them, and removes them again. Returns the number of doublings.
fn come_and_go(slots: SlotsPerBucket, times: u64, lines: &[Vec<u8>]) -> u32 {
    let keys = multiplicities(lines);
    let dir = tempfile::tempdir().unwrap();
    let capacity = keys.len() as u64 * 6 / 5;
    let options =
        Options::new().counting().capacity(capacity).slots_per_bucket(slots).void_growth(true).seed(5);
    let mut writer = options.create(dir.path().join("f")).unwrap();
    for _ in 0..times {
        for line in lines {
            writer.insert(line).unwrap();
        }
    }
    writer.commit().unwrap();
    let info = writer.info().unwrap();
    assert_eq!(info.copies, info.inserted);
    let all = lines.len() as u64 * times;
    assert!(info.copies == all || info.saturated > 0 && info.copies < all, "{info:?}");
    // A count is too high if another key matches an entry of this one, or if two entries of this key match each other.
    let wrong = check_counts(&writer, times, &keys);
    let rate = wrong as f64 / keys.len() as f64;
    let expected = info.expected_false_positive_rate;
    println!(
        "n = {}, {times} times: {} doublings, load {:.3}, {} digits; {wrong} of {} counts too high ({rate:.2e}, rate {expected:.2e})",
        slots.get(),
        info.generation,
        info.load,
        info.digits,
        keys.len(),
    );
    assert!(rate <= 2.5 * expected + 5.0 / keys.len() as f64, "{slots:?}: {rate} for {expected}");
    let report = Reader::open(dir.path().join("f")).unwrap().verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    for _ in 0..times {
        for line in lines {
            assert!(writer.remove(line).unwrap(), "a copy is missing");
        }
    }
    writer.commit().unwrap();
    let left = writer.info().unwrap();
    // A saturated group is never removed, and counts as its highest count.
    let most = u64::from(slots.highest_count() / 2);
    assert_eq!(left.copies, left.saturated * most);
    // Only saturated groups remain. Void entries may have left copies of themselves, which no key can remove.
    if left.entries_by_tail[0] == 0 {
        let digits = left.saturated * u64::from(slots.get() - 1);
        assert_eq!((left.entries, left.digits), (left.saturated, digits), "{left:?}");
    }
    info.generation
}

#[test]
fn real_lines_come_at_their_multiplicities_and_go() {
    let lines = lines();
    for slots in SlotsPerBucket::ALL {
        let doublings = come_and_go(slots, 1, &lines);
        if slots != SlotsPerBucket::Two {
            assert_eq!(doublings, 0, "{slots:?}");
        }
    }
}

#[test]
fn real_lines_come_fourteen_times_and_go() {
    let lines = lines();
    for slots in SlotsPerBucket::ALL {
        come_and_go(slots, 14, &lines);
    }
}

#[test]
fn batches_of_copies_make_the_filter_that_single_inserts_make() {
    let lines = lines();
    let dir = tempfile::tempdir().unwrap();
    for slots in SlotsPerBucket::ALL {
        let make = |name: &str, insert: &dyn Fn(&mut Writer)| {
            let options =
                Options::new().counting().capacity(lines.len() as u64 * 4).slots_per_bucket(slots).seed(9);
            let path = dir.path().join(format!("{name}-{}", slots.get()));
            let mut writer = options.threads(2).growth(Growth::Never).create(&path).unwrap();
            insert(&mut writer);
            writer.commit().unwrap();
            writer.close().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let info = Reader::open(&path).unwrap().info().unwrap();
            let regions = usize::try_from(info.regions).unwrap() * 65_536;
            (bytes[bytes.len() - regions..].to_vec(), info.entries, info.digits, info.copies)
        };
        let single = make("single", &|writer| lines.iter().for_each(|line| _ = writer.insert(line).unwrap()));
        let batch =
            make("batch", &|writer| assert!(writer.insert_batch(&lines).unwrap().refused().is_empty()));
        assert!(single == batch, "{slots:?}: {:?} {:?}", &single.1, &batch.1);
        assert_eq!(batch.3, lines.len() as u64);
    }
}

#[test]
fn a_key_inserted_a_million_times_costs_no_other_key() {
    let times = thorough::size("copies of one key", 200_000, 1_000_000);
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Options::new()
            .counting()
            .capacity(20_000)
            .slots_per_bucket(slots)
            .seed(5)
            .open(dir.path().join("f"))
            .unwrap();
        let others: Vec<[u8; 8]> = (0..10_000_u64).map(u64::to_le_bytes).collect();
        others.iter().for_each(|key| _ = writer.insert(key).unwrap());
        for _ in 0..times {
            writer.insert(b"the same").unwrap();
        }
        writer.commit().unwrap();
        let info = writer.info().unwrap();
        let counted = writer.count(b"the same").unwrap();
        let highest = slots.highest_count();
        assert!(counted == highest || u64::from(counted) >= times, "{slots:?}: {counted}");
        assert_eq!(counted == highest, info.saturated > 0, "{slots:?}: {info:?}");
        let most = u64::from(highest / 2);
        assert_eq!(info.generation, 0);
        let copies = info.copies - 10_000;
        if info.saturated > 0 {
            // One saturated group, and perhaps a nearly saturated one in the other bucket.
            assert!((most..2 * most).contains(&copies), "{slots:?}: {copies}");
        } else {
            assert_eq!(copies, times);
        }
        for _ in 0..times {
            assert!(writer.remove(b"the same").unwrap());
        }
        // The key cannot be removed if it had more copies than can be counted; otherwise it is gone.
        assert_eq!(writer.contains(b"the same").unwrap(), info.saturated > 0, "{slots:?}");
        assert!(others.iter().all(|key| writer.contains(key).unwrap()));
        others.iter().for_each(|key| assert!(writer.remove(key).unwrap()));
        writer.commit().unwrap();
        let left = writer.info().unwrap();
        assert_eq!((left.entries, left.copies), (info.saturated, info.saturated * most), "{slots:?}");
    }
}

/// A number from 0 on, by Zipf's law with an exponent of about 1: small numbers are frequent.
fn zipf(random: u64, end: u64) -> u64 {
    let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
    ((end as f64).powf(uniform) - 1.0) as u64
}

/// The model of a transaction: the copies of each key.
#[derive(Clone, Default)]
struct Model {
    copies: HashMap<u64, u64>,
}

#[test]
fn random_operations_with_multiplicities_agree_with_a_model() {
    let operations = thorough::size("operations of each width", 150_000, 1_700_000);
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let options = Options::new().counting().capacity(1).slots_per_bucket(slots).void_growth(true).seed(3);
        let mut writer = options.open(&path).unwrap();
        let (mut committed, mut open) = (Model::default(), Model::default());
        let mut state = thorough::seed(u64::from(slots.get()));
        let mut random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        };
        let (range, highest) = (operations / 4, u64::from(slots.highest_count()));
        let (mut exact, mut wrong) = (0_u64, 0_u64);
        for step in 1..=operations {
            let number = zipf(random(), range);
            let key = number.to_le_bytes();
            match random() % 1000 {
                0..605 => match writer.insert(&key) {
                    // A stored key is never new. An absent key may be a false positive.
                    Ok(new) => {
                        assert!(!new || !open.copies.contains_key(&number), "a stored key is told to be new");
                        *open.copies.entry(number).or_default() += 1;
                    }
                    Err(Error::Growth { reason: GrowthRefusal::Crowded { .. }, .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                605..990 => {
                    if let Some(copies) = open.copies.get_mut(&number) {
                        assert!(writer.remove(&key).unwrap(), "a stored copy is missing");
                        *copies -= 1;
                        if *copies == 0 {
                            open.copies.remove(&number);
                        }
                    }
                }
                990..998 => {
                    let count = u64::from(writer.count(&key).unwrap());
                    let copies = open.copies.get(&number).copied().unwrap_or(0);
                    assert!(count >= copies || count == highest, "{count} of {copies}");
                    *(if count == copies || count == highest { &mut exact } else { &mut wrong }) += 1;
                }
                998 => {
                    writer.commit().unwrap();
                    committed = open.clone();
                }
                _ => match random() % 40 {
                    0..10 => {
                        writer.rollback().unwrap();
                        open = committed.clone();
                    }
                    10..38 => {
                        // Closing loses uncommitted changes, and reports that.
                        match writer.close() {
                            Ok(()) | Err(Error::Uncommitted { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        open = committed.clone();
                        writer = options.open(&path).unwrap();
                    }
                    _ if writer.info().unwrap().generation < 5 => writer.grow().unwrap(),
                    _ => {}
                },
            }
            if step % (operations / 6) == 0 {
                for (number, copies) in &open.copies {
                    let count = u64::from(writer.count(&number.to_le_bytes()).unwrap());
                    assert!(count >= *copies || count == highest, "{count} of {copies}");
                }
                let (info, copies) = (writer.info().unwrap(), open.copies.values().sum::<u64>());
                assert!(info.copies == copies || info.saturated > 0, "{info:?}: {copies}");
            }
        }
        writer.commit().unwrap();
        let report = Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
        let info = writer.info().unwrap();
        let rate = wrong as f64 / (exact + wrong).max(1) as f64;
        println!(
            "n = {}: {exact} counts exact, {wrong} too high ({rate:.2e}; rate {:.2e}, generation {})",
            slots.get(),
            info.expected_false_positive_rate,
            info.generation
        );
        assert!(rate <= 4.0 * info.expected_false_positive_rate + 0.004, "{slots:?}: {rate}");
    }
}
