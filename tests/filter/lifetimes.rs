//! Keys with individual lifetimes, against an exact model over ninety simulated days.
//!
//! Invariants checked:
//!
//! 1. A key is present until the latest of its expiries, through commits, rollbacks, reopenings, doublings, merges and copies.
//! 2. It is absent once `forget_within` has passed after that, except for false positives.
//! 3. A lifetime that the filter cannot keep is refused before anything is inserted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use gowk::{Error, Options, Reader};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const WINDOW: u64 = 30 * DAY;

fn clock() -> (Arc<AtomicU64>, Options) {
    let now = Arc::new(AtomicU64::new(20_003 * DAY + 12_345));
    let own = now.clone();
    let options = Options::new()
        .seed(1)
        .capacity(1000)
        .false_positive_rate(1e-6)
        .forget_after(Duration::from_secs(WINDOW))
        .with_clock(move || UNIX_EPOCH + Duration::from_secs(own.load(Ordering::Relaxed)));
    (now, options)
}

/// A generator of numbers below a limit.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn each_key_stays_for_its_lifetime_and_not_much_longer() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("f"), dir.path().join("other"));
    let (now, options) = clock();
    let mut writer = options.create(&path).unwrap();
    let within = writer.info().unwrap().retention.unwrap().forget_within / 1000;
    let seed = std::env::var("GOWK_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("GOWK_SEED={seed}");
    let mut numbers = Numbers(seed);
    // When each key expires: as committed, and including the open transaction.
    let (mut committed, mut expiries) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
    let (begin, mut next, mut long_gone) = (now.load(Ordering::Relaxed), 0, 0_u64);
    while now.load(Ordering::Relaxed) < begin + 90 * DAY {
        let passed = HOUR + numbers.below(5 * HOUR);
        let time = now.fetch_add(passed, Ordering::Relaxed) + passed;
        let keys: Vec<u64> = (0..numbers.below(500))
            .map(|_| {
                if next > 0 && numbers.below(4) == 0 {
                    numbers.below(next)
                } else {
                    next += 1;
                    next - 1
                }
            })
            .collect();
        let lifetimes: Vec<u64> = keys.iter().map(|_| numbers.below(WINDOW + 1)).collect();
        let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        if numbers.below(8) == 0 {
            for (key, lifetime) in bytes.iter().zip(&lifetimes) {
                writer.insert_for(key, Duration::from_secs(*lifetime)).unwrap();
            }
        } else {
            let lifetimes: Vec<Duration> =
                lifetimes.iter().map(|seconds| Duration::from_secs(*seconds)).collect();
            writer.insert_batch_for(&bytes, &lifetimes).unwrap().complete().unwrap();
        }
        for (key, lifetime) in keys.iter().zip(&lifetimes) {
            let expiry = expiries.entry(*key).or_default();
            *expiry = (*expiry).max(time + lifetime);
        }
        let step = numbers.below(10);
        match step {
            0 => {
                writer.rollback().unwrap();
                expiries = committed.clone();
            }
            1 => {
                // A process that dies without a commit.
                drop(writer);
                expiries = committed.clone();
                writer = options.open_existing(&path).unwrap();
            }
            2 => {
                // Another filter of the same kind is merged into this one.
                let mut source = options.create(&other).unwrap();
                let (key, lifetime) = (next, numbers.below(WINDOW));
                source.insert_for(key.to_le_bytes(), Duration::from_secs(lifetime)).unwrap();
                source.commit().unwrap();
                source.close().unwrap();
                writer.merge(&Reader::open(&other).unwrap()).unwrap();
                std::fs::remove_file(&other).unwrap();
                expiries.insert(key, time + lifetime);
                next += 1;
            }
            _ => {
                writer.commit().unwrap();
                committed = expiries.clone();
            }
        }
        for (key, expiry) in &expiries {
            let is_there = writer.contains(key.to_le_bytes()).unwrap();
            assert!(is_there || *expiry <= time, "key {key} is forgotten {} s too early", expiry - time);
            // A rolled-back transaction also resets the filter's time.
            if step > 1 && expiry + within < time && is_there {
                long_gone += 1;
            }
        }
        expiries.retain(|_, expiry| *expiry + within >= time);
        committed.retain(|_, expiry| *expiry + within >= time);
    }
    assert!(writer.info().unwrap().generation > 0, "the filter has doubled on the way");
    assert!(long_gone < 3, "{long_gone} keys are there long after they expired");
}

#[test]
fn a_second_insert_keeps_the_later_expiry_and_an_impossible_lifetime_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (now, options) = clock();
    let mut writer = options.create(dir.path().join("f")).unwrap();
    let within = Duration::from_millis(writer.info().unwrap().retention.unwrap().forget_within);
    let days = |days: u64| Duration::from_secs(days * DAY);
    assert!(writer.insert_for("a", days(20)).unwrap());
    assert!(!writer.insert_for("a", days(1)).unwrap());
    assert!(writer.insert_for("b", days(1)).unwrap());
    assert!(!writer.insert_for("b", days(20)).unwrap());
    assert!(writer.insert_for("c", days(1)).unwrap());
    now.fetch_add(19 * DAY, Ordering::Relaxed);
    writer.sweep().unwrap();
    assert_eq!(["a", "b", "c"].map(|key| writer.contains(key).unwrap()), [true, true, within >= days(18)]);

    let too_long = Duration::from_secs(WINDOW) + Duration::from_millis(1);
    let error = writer.insert_batch_for(&["d", "e"], &[days(1), too_long]).unwrap_err();
    assert!(matches!(error, Error::Option { option: "lifetime", .. }), "{error}");
    assert!(writer.insert_batch_for(&["d", "e"], &[days(1)]).is_err());
    assert!(!writer.contains("d").unwrap() && !writer.contains("e").unwrap());
    let mut set = Options::new().create(dir.path().join("set")).unwrap();
    assert!(matches!(set.insert_for("a", days(1)), Err(Error::Kind { .. })));
    let mut newest = Options::new().keep_newest(1000).create(dir.path().join("newest")).unwrap();
    assert!(matches!(newest.insert_for("a", days(1)), Err(Error::Newest { .. })));
}
