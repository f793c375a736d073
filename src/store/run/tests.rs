//! Invariants checked: a run holds the records that were put into it, for each key and in order. The worked example of
//! the specification is right. A file that was cut or changed anywhere is refused or found damaged, even with valid
//! checksums, and no file makes a reader panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::cuckoo::KeyHasher;
use crate::disk::{Disk, SystemDisk};
use crate::store::error::Error;
use crate::{HashKind, Kind};

const STORE: [u8; 16] = [1; 16];
const UUID: [u8; 16] = [2; 16];

fn disk() -> Arc<dyn Disk> {
    Arc::new(SystemDisk)
}

fn key(number: u64) -> RecordKey {
    let hash = KeyHasher::new(HashKind::Xxh3, 1).hash(&number.to_le_bytes());
    RecordKey::of(hash.unwrap())
}

struct Made {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

/// The epoch of a run in these tests.
const fn epoch_of(kind: Kind) -> u64 {
    match kind {
        Kind::Forgetting => 1 << 50,
        Kind::Set | Kind::Counting => 0,
    }
}

fn write(kind: Kind, at_most: u64, records: impl IntoIterator<Item = Record>) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut writer =
        RunWriter::create(&path, &disk(), None, (STORE, UUID), (kind, epoch_of(kind)), at_most).unwrap();
    records.into_iter().for_each(|record| writer.push(record).unwrap());
    let told = writer.seal().unwrap();
    if let Some((_, bytes)) = told {
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    }
    Made { _dir: dir, path }
}

fn open(made: &Made) -> Result<Run> {
    Run::open(&made.path, &disk())
}

#[test]
fn the_worked_example_is_what_is_written() {
    let hash = KeyHasher::new(HashKind::Xxh3, 1).hash(b"cuckoo").unwrap();
    let key = RecordKey::of(hash);
    assert_eq!((key.position, key.local), (0x14c1_782b_8cbf_9708, 0x3a_13df));
    let made = write(Kind::Set, 1, [Record { key, value: 1 }]);
    let bytes = fs::read(&made.path).unwrap();
    assert_eq!(bytes.len(), 3 * PAGE);
    assert_eq!(bytes[PAGE..PAGE + 8], [0x08, 0x97, 0xbf, 0x8c, 0x2b, 0x78, 0xc1, 0x14]);
    assert_eq!(bytes[PAGE + 2728..PAGE + 2732], [0xdf, 0x13, 0xba, 0x00]);
    assert!(
        bytes[PAGE + 8..PAGE + 2728].iter().chain(&bytes[PAGE + 2732..2 * PAGE - 4]).all(|byte| *byte == 0)
    );
    assert!(bytes[2 * PAGE..3 * PAGE - 4].iter().all(|byte| *byte == 0));
    open(&made).unwrap().verify().unwrap();
}

/// Every width and number of regions takes the same place and fingerprint from a record as from the hash.
#[test]
fn a_record_keeps_all_that_an_insert_uses() {
    for number in 0..2000_u64 {
        let hash = KeyHasher::new(HashKind::Xxh3, 1).hash(&number.to_le_bytes()).unwrap();
        let kept = RecordKey::of(hash).hash();
        assert_eq!(RecordKey::of(kept), RecordKey::of(hash));
        for regions in [1_u64, 3, 1 << 20, 1 << 32] {
            assert_eq!(kept.region(regions), hash.region(regions));
        }
        assert_eq!(kept.local() & 0x1fff, hash.local() & 0x1fff);
        assert_eq!(kept.local() >> 54, hash.local() >> 54);
    }
}

#[test]
fn what_was_put_is_found_and_nothing_else() {
    for (kind, count, at_most) in [
        (Kind::Set, 1, 1),
        (Kind::Set, 340, 100_000),
        (Kind::Set, 342, 342),
        (Kind::Set, 20_000, 20_000),
        // The index begins at the start of a block of pages that are written together.
        (Kind::Set, 85_000, 85_000),
        (Kind::Counting, 20_000, 60_000),
        (Kind::Forgetting, 20_000, 20_000),
    ] {
        let mut all = BTreeMap::new();
        for number in 0..count {
            let copies = match kind {
                Kind::Set => 1,
                Kind::Forgetting => epoch_of(kind) as i64 + 1 + number as i64 % 15,
                Kind::Counting => [1, -1, 300, -600, 255][number as usize % 5],
            };
            all.insert(key(number), copies);
        }
        let records = all.iter().flat_map(|(key, value)| match kind {
            Kind::Forgetting => vec![Record { key: *key, value: *value }],
            Kind::Set | Kind::Counting => Record::all_of(*key, *value).collect(),
        });
        let made = write(kind, at_most, records);
        let run = open(&made).unwrap();
        run.verify().unwrap();
        let needed = match kind {
            Kind::Counting => all.values().map(|copies| Record::needed(*copies)).sum(),
            Kind::Set | Kind::Forgetting => all.len() as u64,
        };
        assert_eq!(run.records(), needed);
        for (key, copies) in &all {
            assert_eq!(run.value(*key).unwrap(), Some(*copies));
            let near = RecordKey { local: key.local ^ 1, ..*key };
            assert_eq!(run.value(near).unwrap(), None);
        }
        for number in count..count + 5000 {
            assert_eq!(run.value(key(number)).unwrap(), None);
        }
        // The slices of all shards together are the whole run. Each has the keys of its shard.
        for shards in [1, 3, 64, 65_536] {
            let mut read = Vec::new();
            for shard in 0..shards {
                for record in run.records_of([run.slice(shard, shards).unwrap()]) {
                    let record = record.unwrap();
                    assert_eq!(record.key.hash().shard(shards.into()), u64::from(shard));
                    read.push(record);
                }
            }
            assert_eq!(read, run.all().map(Result::unwrap).collect::<Vec<_>>());
        }
        let merged: BTreeMap<_, _> = MergedRecords::new([run.all()]).map(Result::unwrap).collect();
        assert_eq!(merged, all);
    }
}

#[test]
fn runs_are_merged_by_key() {
    let run = |numbers: std::ops::Range<u64>, copies: i64| {
        let keys: std::collections::BTreeSet<_> = numbers.map(key).collect();
        let made = write(Kind::Counting, 5000, keys.into_iter().flat_map(|key| Record::all_of(key, copies)));
        let run = open(&made).unwrap();
        (made, run)
    };
    let runs = [run(0..2000, 300), run(1000..3000, -300), run(500..600, 7)];
    let merged: Vec<_> =
        MergedRecords::new(runs.iter().map(|(_, run)| run.all())).map(Result::unwrap).collect();
    assert!(merged.is_sorted_by_key(|(key, _)| *key));
    let merged: BTreeMap<_, _> = merged.into_iter().collect();
    assert_eq!(merged.len(), 3000);
    for number in 0..3000 {
        let expected = match number {
            500..600 => 307,
            0..1000 => 300,
            1000..2000 => 0,
            _ => -300,
        };
        assert_eq!(merged[&key(number)], expected, "{number}");
    }
}

#[test]
fn of_two_records_of_a_key_that_expires_the_later_one_counts() {
    let run = |numbers: std::ops::Range<u64>, later: i64| {
        let keys: std::collections::BTreeSet<_> = numbers.map(key).collect();
        let value = epoch_of(Kind::Forgetting) as i64 + later;
        let made = write(Kind::Forgetting, 5000, keys.into_iter().map(|key| Record { key, value }));
        let run = open(&made).unwrap();
        (made, run)
    };
    for order in [[3, 9], [9, 3]] {
        let runs = [run(0..2000, order[0]), run(1000..3000, order[1])];
        let merged = MergedRecords::new(runs.iter().map(|(_, run)| run.all())).map(Result::unwrap);
        let merged: BTreeMap<_, _> = merged.collect();
        for number in 0..3000 {
            let expected = match number {
                0..1000 => order[0],
                1000..2000 => 9,
                _ => order[1],
            };
            assert_eq!(merged[&key(number)], epoch_of(Kind::Forgetting) as i64 + expected, "{number}");
        }
    }
}

/// Reads a file in every possible way.
fn read_all(made: &Made) -> Result<()> {
    let run = open(made)?;
    let mut outcome = run.verify().map(drop);
    for number in 0..64 {
        outcome = outcome.and(run.value(key(number)).map(drop));
    }
    for shard in 0..3 {
        let slice =
            run.slice(shard, 3).map(|slice| run.records_of([slice]).try_for_each(|record| record.map(drop)));
        outcome = outcome.and(slice.and_then(|read| read));
    }
    outcome
}

fn small(kind: Kind) -> Made {
    let keys: std::collections::BTreeSet<_> = (0..700).map(key).collect();
    let value = epoch_of(kind) as i64 + 1;
    write(kind, 700, keys.into_iter().map(|key| Record { key, value }))
}

#[test]
fn a_file_that_was_cut_or_changed_anywhere_is_refused_or_damaged() {
    let made = small(Kind::Forgetting);
    let bytes = fs::read(&made.path).unwrap();
    for at in (0..bytes.len()).step_by(7).chain([0, 8, 12, 48, 56, 60, 67, 68, 4092, bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&made.path, &changed).unwrap();
        assert!(read_all(&made).is_err(), "byte {at}");
    }
    for length in (0..bytes.len()).step_by(511) {
        fs::write(&made.path, &bytes[..length]).unwrap();
        assert!(open(&made).is_err(), "{length} bytes");
    }
    // Two pages that change places.
    let mut changed = bytes.clone();
    changed[PAGE..3 * PAGE].rotate_left(PAGE);
    fs::write(&made.path, &changed).unwrap();
    assert!(matches!(read_all(&made), Err(Error::DamagedRun { pages, .. }) if pages == [1, 2]));
}

#[test]
fn a_hostile_file_under_right_checksums_never_panics() {
    for kind in [Kind::Set, Kind::Forgetting] {
        hostile(&small(kind));
    }
}

fn hostile(made: &Made) {
    let bytes = fs::read(&made.path).unwrap();
    let pages = bytes.len() / PAGE;
    let (mut refused, mut tried) = (0, 0);
    for page in 0..pages {
        for at in (0..if page == 0 { 72 } else { BODY }).step_by(if page == 0 { 1 } else { 97 }) {
            for value in [0, 1, 0xff] {
                let mut changed = bytes.clone();
                let place = &mut changed[page * PAGE..(page + 1) * PAGE];
                if place[at] == value {
                    continue;
                }
                place[at] = value;
                let uuid = if page == 0 { get(place, 32) } else { UUID };
                seal(place, uuid, page as u64);
                fs::write(&made.path, &changed).unwrap();
                tried += 1;
                refused += usize::from(read_all(made).is_err());
            }
        }
    }
    assert!(refused > 100 && tried > refused, "{refused} of {tried}");
}

/// Values that a writer of the kind never writes, and keys out of order: readers of records and verification find them
/// although the checksums are right.
#[test]
fn records_that_no_writer_makes_are_damage_under_right_checksums() {
    let kinds: [(Kind, &[i64], &[i64]); 3] = [
        (Kind::Set, &[1], &[-1, 0, 2]),
        (Kind::Counting, &[LEAST, -1, 1, MOST], &[0]),
        (Kind::Forgetting, &[1, 2, MOST_EPOCHS], &[-1, 0, MOST_EPOCHS + 1]),
    ];
    for (kind, right, wrong) in kinds {
        let made = small(kind);
        let bytes = fs::read(&made.path).unwrap();
        let read = |change: &dyn Fn(&mut [u8])| {
            let mut changed = bytes.clone();
            let page = &mut changed[PAGE..2 * PAGE];
            change(page);
            seal(page, UUID, 1);
            fs::write(&made.path, &changed).unwrap();
            let run = open(&made).unwrap();
            let records = run.all().try_for_each(|record| record.map(drop));
            [records, run.verify().map(drop)]
        };
        let is_damage =
            |outcome: &Result<()>| matches!(outcome, Err(Error::DamagedRun { pages, .. }) if *pages == [1]);
        let with_value = |value: i64| {
            read(&|page| {
                let key = u32::from_le_bytes(get(page, WORDS)) & ((1 << KEY_BITS) - 1);
                put(page, WORDS, &((value as u32) << KEY_BITS | key).to_le_bytes());
            })
        };
        for value in right {
            with_value(*value).into_iter().for_each(|outcome| outcome.unwrap());
        }
        for value in wrong {
            let outcomes = with_value(*value);
            assert!(outcomes.iter().all(is_damage), "{kind:?} {value}: {outcomes:?}");
        }
        let swapped = read(&|page| {
            page[..16].rotate_left(8);
            page[WORDS..WORDS + 8].rotate_left(4);
        });
        assert!(swapped.iter().all(is_damage), "{kind:?}: {swapped:?}");
        let [twice, _] = read(&|page| {
            page.copy_within(..8, 8);
            page.copy_within(WORDS..WORDS + 4, WORDS + 4);
        });
        match kind {
            // Many copies of a key take several records.
            Kind::Counting => twice.unwrap(),
            Kind::Set | Kind::Forgetting => assert!(is_damage(&twice), "{kind:?}: {twice:?}"),
        }
    }
}

#[test]
fn a_head_is_taken_up_to_its_bounds() {
    let set = Head { store: STORE, uuid: UUID, records: 1, kind: Kind::Set, epoch: 0, bits: 0 };
    let forgetting = Head { kind: Kind::Forgetting, epoch: 1, ..set };
    let decode = |head: &Head| Head::decode(Path::new("run"), &head.encode());
    for head in [
        set,
        forgetting,
        Head { kind: Kind::Counting, records: MAX_RECORDS, bits: MAX_INDEX_BITS, ..set },
        Head { epoch: MAX_EPOCHS, ..forgetting },
    ] {
        assert_eq!(decode(&head).unwrap(), head);
    }
    for (field, head) in [
        ("epoch", Head { epoch: 1, ..set }),
        ("epoch", Head { epoch: 0, ..forgetting }),
        ("epoch", Head { epoch: MAX_EPOCHS + 1, ..forgetting }),
        ("number of records", Head { records: 0, ..set }),
        ("number of records", Head { records: MAX_RECORDS + 1, ..set }),
        ("number of index bits", Head { bits: MAX_INDEX_BITS + 1, ..set }),
    ] {
        let refused = decode(&head);
        assert!(
            matches!(refused, Err(Error::WrongFile { what, .. }) if what == field),
            "{head:?}: {refused:?}"
        );
    }
}

#[test]
fn without_records_there_is_no_run() {
    let made = write(Kind::Set, 10, []);
    assert!(open(&made).is_err());
}

/// A run with several words of page bits and several pages of index; and its keys, ascending.
fn large() -> (Made, Vec<RecordKey>) {
    let keys: BTreeSet<RecordKey> = (0..24_000).map(key).collect();
    let made = write(Kind::Set, 24_000, keys.iter().map(|key| Record { key: *key, value: 1 }));
    (made, keys.into_iter().collect())
}

fn pages_of(outcome: Result<u64>) -> Vec<u64> {
    match outcome {
        Err(Error::DamagedRun { pages, .. }) => pages,
        outcome => panic!("{outcome:?}"),
    }
}

/// The second time, all other pages were already found intact.
#[test]
fn no_key_of_a_damaged_page_is_answered_whatever_was_read_before() {
    let (made, keys) = large();
    let bytes = fs::read(&made.path).unwrap();
    let last = (keys.len() as u64).div_ceil(RECORDS);
    for damaged in [1, 2, 63, 64, 65, 66, last] {
        let mut changed = bytes.clone();
        changed[damaged as usize * PAGE + BODY - 1] ^= 1;
        fs::write(&made.path, &changed).unwrap();
        let run = open(&made).unwrap();
        for (at, key) in (0..).zip(&keys).chain((0..).zip(&keys)) {
            let page: u64 = 1 + at / RECORDS;
            match run.value(*key) {
                Ok(value) => assert!(value == Some(1) && page != damaged, "{at}: {value:?}, {damaged}"),
                // Reading the damaged record also reads the records before and after it.
                Err(Error::DamagedRun { pages, .. }) => {
                    assert!(pages == [damaged] && page.abs_diff(damaged) <= 1, "{at}: {pages:?}, {damaged}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn verification_reads_what_was_read_before_and_looks_behind_the_last_record() {
    let (made, keys) = large();
    let bytes = fs::read(&made.path).unwrap();
    let run = open(&made).unwrap();
    let all = run.verify().unwrap();
    assert_eq!(all * PAGE as u64, bytes.len() as u64);
    for page in 1..all {
        let mut changed = bytes.clone();
        changed[page as usize * PAGE + BODY - 1] ^= 1;
        fs::write(&made.path, &changed).unwrap();
        assert_eq!(pages_of(run.verify()), [page]);
    }
    let (last, used) = ((keys.len() as u64).div_ceil(RECORDS), keys.len() % RECORDS as usize);
    for at in [8 * used, WORDS - 1, WORDS + 4 * used, BODY - 1] {
        let mut changed = bytes.clone();
        let page = &mut changed[last as usize * PAGE..][..PAGE];
        page[at] = 1;
        seal(page, UUID, last);
        fs::write(&made.path, &changed).unwrap();
        assert_eq!(pages_of(open(&made).unwrap().verify()), [last], "{at}");
    }
}

#[test]
fn the_page_of_the_index_is_named_that_does_not_lead_to_the_records() {
    let (made, keys) = large();
    let mut bytes = fs::read(&made.path).unwrap();
    let entry = 1500;
    let number = 1 + (keys.len() as u64).div_ceil(RECORDS) + entry / ENTRIES;
    let page = &mut bytes[number as usize * PAGE..][..PAGE];
    put(page, 4 * (entry % ENTRIES) as usize, &u32::MAX.to_le_bytes());
    seal(page, UUID, number);
    fs::write(&made.path, &bytes).unwrap();
    let run = open(&made).unwrap();
    assert_eq!(pages_of(run.verify()), [number]);
    let under = keys.iter().find(|key| key.position >> 52 == entry).unwrap();
    assert_eq!(pages_of(run.value(*under).map(|_| 0)), [number]);
}

#[test]
fn a_file_shorter_than_a_page_has_the_wrong_length() {
    let made = small(Kind::Set);
    let bytes = fs::read(&made.path).unwrap();
    for length in [0, 100, PAGE - 1, PAGE, 2 * PAGE] {
        fs::write(&made.path, &bytes[..length]).unwrap();
        let outcome = open(&made);
        assert!(matches!(outcome, Err(Error::WrongFile { what: "length", .. })), "{length}: {outcome:?}");
    }
}

#[test]
fn copies_take_as_many_records_as_are_counted_for_them() {
    let needed = [(0, 0), (1, 1), (255, 1), (256, 2), (511, 3), (-1, 1), (-256, 1), (-257, 2), (-513, 3)];
    for (copies, records) in needed {
        assert_eq!(Record::needed(copies), records, "{copies}");
        assert_eq!(Record::all_of(key(1), copies).count() as u64, records, "{copies}");
    }
}
