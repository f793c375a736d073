//! Filters that must be read. The writer makes them; some are copied while it has them open.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gowk::{Growth, HashKind, KeyHash, Kind, Options, SlotsPerBucket, Writer};

use crate::Outcome;
use crate::filter::{BUSY, Filter, STATE, divide_first_frame, seal_frame};

/// An accepted file and its expected contents.
pub(crate) struct Made {
    pub(crate) filter: Filter,
    /// The numbers of keys that must be found.
    pub(crate) present: String,
    /// Keys, with the count of each.
    pub(crate) copies: String,
    /// Whether a writer may open it.
    pub(crate) writable: bool,
}

pub(crate) fn key(number: u64) -> String {
    format!("key-{number}")
}

/// The hash of a key in filters whose keys the caller hashes.
pub(crate) fn lattice(number: u64) -> KeyHash {
    KeyHash::new(u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn slots(n: u32) -> SlotsPerBucket {
    SlotsPerBucket::new(n).unwrap_or(SlotsPerBucket::Four)
}

pub(crate) fn options(n: u32) -> Options {
    Options::new().capacity(1).slots_per_bucket(slots(n)).seed(u64::from(n)).void_growth(true)
}

pub(crate) fn counting(n: u32) -> Options {
    options(n).counting()
}

pub(crate) fn insert(writer: &mut Writer, numbers: Range<u64>) -> Outcome {
    for number in numbers {
        writer.insert(key(number).as_bytes())?;
    }
    Ok(())
}

/// Closes the filter, and reads its file without the journal.
pub(crate) fn closed(writer: Writer, path: &Path, present: &str) -> Outcome<Made> {
    writer.close()?;
    let filter = Filter { journal: None, ..Filter::read(path)? };
    Ok(made(filter, present))
}

pub(crate) fn made(filter: Filter, present: &str) -> Made {
    Made { filter, present: present.to_owned(), copies: String::new(), writable: true }
}

fn of_width(dir: &Path, n: u32) -> Outcome<Made> {
    of_kind(dir, n, Kind::Set)
}

fn of_kind(dir: &Path, n: u32, kind: Kind) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = options(n).kind(kind).open(&path)?;
    insert(&mut writer, 0..300)?;
    writer.commit()?;
    closed(writer, &path, "0-299")
}

/// Keys 0 to 5 with 1, 2, 32, 33, 993 and 994 copies. Of key n, n copies are then removed.
fn copies(dir: &Path, n: u32) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = counting(n).open(&path)?;
    let mut present = Vec::new();
    for (number, copies) in (0..).zip([1, 2, 32, 33, 993, 994]) {
        (0..copies).try_for_each(|_| insert(&mut writer, number..number + 1))?;
        for _ in 0..number {
            writer.remove(key(number).as_bytes())?;
        }
        present.push(format!("{number}={}", copies - number));
    }
    insert(&mut writer, 6..100)?;
    writer.commit()?;
    let made = closed(writer, &path, "0-99")?;
    Ok(Made { copies: present.join(" "), ..made })
}

/// A filter with keys of every generation.
fn grown(dir: &Path, n: u32, generations: u64, kind: Kind) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = options(n).kind(kind).open(&path)?;
    for generation in 0..=generations {
        if generation > 0 {
            writer.grow()?;
        }
        insert(&mut writer, 200 * generation..200 * (generation + 1))?;
        writer.commit()?;
    }
    closed(writer, &path, &format!("0-{}", 200 * (generations + 1) - 1))
}

/// Three commits after the checkpoint, with the writer's file before and after each.
pub(crate) struct Unclean {
    /// The file before the three commits.
    pub(crate) before: Filter,
    /// The file after each.
    pub(crate) after: [Filter; 3],
}

impl Unclean {
    pub(crate) fn new(dir: &Path, kind: Kind) -> Outcome<Self> {
        let path = dir.join("f");
        let mut writer = options(4).kind(kind).open(&path)?;
        insert(&mut writer, 0..100)?;
        writer.metadata_mut()?.set("cursor", *b"one");
        writer.commit()?;
        writer.close()?;
        let mut writer = options(4).open(&path)?;
        let before = Filter::read(&path)?;
        insert(&mut writer, 100..140)?;
        writer.commit()?;
        let first = Filter::read(&path)?;
        match kind {
            Kind::Counting => (0..20).try_for_each(|number| writer.remove(key(number)).map(drop))?,
            // Most of these are stored.
            _ => insert(&mut writer, 120..145)?,
        }
        writer.metadata_mut()?.set("cursor", *b"two");
        writer.commit()?;
        let second = Filter::read(&path)?;
        insert(&mut writer, 140..160)?;
        writer.commit()?;
        let third = Filter::read(&path)?;
        drop(writer);
        Ok(Self { before, after: [first, second, third] })
    }

    /// The file before the three commits, with the journal of all three.
    pub(crate) fn unapplied(&self) -> Filter {
        Filter { data: self.before.data.clone(), journal: self.after[2].journal.clone() }
    }
}

const ALL_COMMITS: &str = "20-159";
const ALL_COMMITS_OF_SET: &str = "0-159";
const EPOCH: usize = STATE + 16;
const SEQUENCES: usize = STATE + 53_248;

pub(crate) type Make = fn(&Path) -> Outcome<Made>;

pub(crate) const ACCEPTED: &[(&str, &str, Make)] = &[
    ("width-2", "two slots a bucket", |dir| of_width(dir, 2)),
    ("width-3", "three slots a bucket", |dir| of_width(dir, 3)),
    ("width-4", "four slots a bucket", |dir| of_width(dir, 4)),
    ("width-5", "five slots a bucket", |dir| of_width(dir, 5)),
    ("width-6", "six slots a bucket", |dir| of_width(dir, 6)),
    ("width-7", "seven slots a bucket", |dir| of_width(dir, 7)),
    ("grown-2", "doubled once", |dir| grown(dir, 2, 1, Kind::Set)),
    ("grown-3", "doubled once", |dir| grown(dir, 3, 1, Kind::Set)),
    ("grown-4", "doubled twice, keys of each generation", |dir| grown(dir, 4, 2, Kind::Set)),
    ("grown-5", "doubled twice, keys of each generation", |dir| grown(dir, 5, 2, Kind::Set)),
    ("void-6", "doubled four times: void entries", |dir| grown(dir, 6, 4, Kind::Counting)),
    ("void-7", "doubled three times: void entries, copied", |dir| grown(dir, 7, 3, Kind::Counting)),
    ("void-7-set", "a set doubled three times: void entries, copied", |dir| grown(dir, 7, 3, Kind::Set)),
    ("three-regions", "a base that is no power of two, doubled once", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).capacity(90_000).open(&path)?;
        insert(&mut writer, 0..200)?;
        writer.grow()?;
        insert(&mut writer, 200..300)?;
        writer.commit()?;
        closed(writer, &path, "0-299")
    }),
    ("shard", "shard 2 of 5, doubled once; keys of other shards are refused", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).shard(2, 5).open(&path)?;
        let mine =
            |number: &u64| matches!(writer.hash(key(*number).as_bytes()), Ok(hash) if hash.shard(5) == 2);
        let numbers: Vec<u64> = (0..300).filter(mine).collect();
        for (at, number) in numbers.iter().enumerate() {
            if at == numbers.len() / 2 {
                writer.grow()?;
            }
            writer.insert(key(*number).as_bytes())?;
        }
        writer.commit()?;
        let present: Vec<String> = numbers.iter().map(|number| format!("{number}-{number}")).collect();
        closed(writer, &path, &present.join(" "))
    }),
    ("empty", "no key", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
        writer.commit()?;
        closed(writer, &path, "")
    }),
    ("empty-counting", "no key, and a kind", |dir| {
        let path = dir.join("f");
        let mut writer = counting(4).open(&path)?;
        writer.commit()?;
        closed(writer, &path, "")
    }),
    ("removed", "every third key removed, across a doubling", |dir| {
        let path = dir.join("f");
        let mut writer = counting(4).open(&path)?;
        insert(&mut writer, 0..150)?;
        writer.grow()?;
        insert(&mut writer, 150..300)?;
        writer.commit()?;
        for number in (0..300).filter(|number| number % 3 == 0) {
            writer.remove(key(number).as_bytes())?;
        }
        writer.commit()?;
        let present: Vec<String> =
            (0..300).filter(|n| n % 3 == 1).map(|n| format!("{n}-{}", n + 1)).collect();
        closed(writer, &path, &present.join(" "))
    }),
    ("copies-2", "copies of some keys, two slots a bucket", |dir| copies(dir, 2)),
    ("copies-3", "copies of some keys, three slots a bucket", |dir| copies(dir, 3)),
    ("copies-4", "copies of some keys, four slots a bucket", |dir| copies(dir, 4)),
    ("copies-5", "copies of some keys, five slots a bucket", |dir| copies(dir, 5)),
    ("copies-6", "copies of some keys, six slots a bucket", |dir| copies(dir, 6)),
    ("copies-7", "copies of some keys, seven slots a bucket", |dir| copies(dir, 7)),
    ("copies-grown", "copies inserted before and after a doubling", |dir| {
        let path = dir.join("f");
        let mut writer = counting(4).open(&path)?;
        (0..40).try_for_each(|_| insert(&mut writer, 0..10))?;
        writer.grow()?;
        (0..3).try_for_each(|_| insert(&mut writer, 5..15))?;
        writer.commit()?;
        let made = closed(writer, &path, "0-14")?;
        Ok(Made { copies: "0=40 5=43 14=3".to_owned(), ..made })
    }),
    ("copies-void", "copies of void entries, which doublings have copied", |dir| {
        let path = dir.join("f");
        let mut writer = counting(7).open(&path)?;
        (0..40).try_for_each(|_| insert(&mut writer, 0..3))?;
        (0..4).try_for_each(|_| writer.grow())?;
        writer.commit()?;
        let made = closed(writer, &path, "0-2")?;
        Ok(Made { copies: "0=40 2=40".to_owned(), ..made })
    }),
    ("saturated", "a key with more copies than can be counted, of which some were removed", |dir| {
        let path = dir.join("f");
        let mut writer = counting(2).open(&path)?;
        insert(&mut writer, 0..100)?;
        (0..2000).try_for_each(|_| insert(&mut writer, 7..8))?;
        for _ in 0..1500 {
            writer.remove(key(7).as_bytes())?;
        }
        writer.commit()?;
        let made = closed(writer, &path, "0-99")?;
        Ok(Made { copies: "7=1024 8=1".to_owned(), ..made })
    }),
    ("found", "a set: keys inserted again, and keys found by the entries of others", |dir| {
        let path = dir.join("f");
        let mut writer = options(7).open(&path)?;
        let new = (0..4000).chain(0..100).try_fold(0, |new, number| -> Outcome<u64> {
            Ok(new + u64::from(writer.insert(key(number))?))
        })?;
        assert!(new < 4000 && new == writer.len()?, "{new} of 4000 keys are new");
        writer.commit()?;
        let made = closed(writer, &path, "0-3999")?;
        Ok(Made { copies: "0=1 399=1".to_owned(), ..made })
    }),
    ("metadata", "names and values of several kinds", |dir| {
        let path = dir.join("f");
        let mut writer = options(5).open(&path)?;
        insert(&mut writer, 0..10)?;
        let metadata = writer.metadata_mut()?;
        metadata.set("", *b"no name");
        metadata.set("empty", []);
        metadata.set("Straße/鍵", (0..=255).collect::<Vec<u8>>());
        metadata.set("z", vec![b'z'; 3000]);
        writer.commit()?;
        closed(writer, &path, "0-9")
    }),
    ("metadata-full", "as much metadata as there may be", |dir| {
        let path = dir.join("f");
        let mut writer = options(3).open(&path)?;
        insert(&mut writer, 0..10)?;
        writer.metadata_mut()?.set("all", vec![0x5a; 49_152 - 11]);
        writer.commit()?;
        closed(writer, &path, "0-9")
    }),
    ("policy", "no growth, limits, a rate asked for", |dir| {
        let path = dir.join("f");
        let options = Options::new().capacity(5000).false_positive_rate(0.01).seed(u64::MAX);
        let options = options.growth(Growth::Never).max_file_size(1 << 40).max_false_positive_rate(0.25);
        let mut writer = options.open(&path)?;
        insert(&mut writer, 0..10)?;
        writer.commit()?;
        closed(writer, &path, "0-9")
    }),
    ("caller-hashed", "keys hashed by the caller", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).hash(HashKind::Caller).open(&path)?;
        for number in 0..300 {
            writer.insert(lattice(number))?;
        }
        writer.grow()?;
        writer.commit()?;
        closed(writer, &path, "0-299")
    }),
    ("dense", "a journal with whole pages", |dir| {
        let path = dir.join("f");
        let mut writer = counting(2).hash(HashKind::Caller).open(&path)?;
        writer.commit()?;
        let before = Filter::read(&path)?;
        // All buckets of page 3 get the same bytes.
        for bucket in 3 * 512..4 * 512u128 {
            writer.insert(KeyHash::new(0x8888 << 112 | bucket))?;
        }
        writer.insert(lattice(0))?;
        writer.commit()?;
        let filter = Filter { journal: Filter::read(&path)?.journal, ..before };
        drop(writer);
        Ok(made(filter, "0-0"))
    }),
    ("quarantined-4", "a damaged page, repaired", |dir| quarantined(dir, 4, Kind::Set)),
    ("quarantined-counting", "the same in a counting filter", |dir| quarantined(dir, 4, Kind::Counting)),
    ("quarantined-7", "the same at another width, and doubled", |dir| {
        let path = dir.join("f");
        quarantined(dir, 7, Kind::Set)?;
        let mut writer = options(7).open(&path)?;
        writer.grow()?;
        insert(&mut writer, 300..400)?;
        writer.commit()?;
        closed(writer, &path, "0-399")
    }),
    ("slot-a-damaged", "the first superblock slot damaged", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[300] ^= 1;
        Ok(made)
    }),
    ("slot-b-damaged", "the second superblock slot damaged", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[65_536..131_072].fill(0xaa);
        Ok(made)
    }),
    ("minor-newer", "minor version 1, with something in reserved bytes", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.superblocks(|slot| {
            slot[10] = 1;
            slot[508..512].fill(0xff);
            slot[1000..2000].fill(7);
            slot[60_000] = 9;
        });
        Ok(made)
    }),
    ("compatible-feature", "a feature that programs may ignore", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.superblocks(|slot| slot[32 + 5] = 0x40);
        Ok(made)
    }),
    ("totals-highest", "totals that no scan can check, as high as numbers go", |dir| {
        let mut made = of_kind(dir, 4, Kind::Counting)?;
        made.filter.superblocks(|slot| slot[208..224].fill(0xff));
        Ok(made)
    }),
    ("total-highest", "a set in which as many keys were stored as numbers go", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.superblocks(|slot| slot[208..216].fill(0xff));
        Ok(made)
    }),
    ("read-only-feature", "a feature that readers may ignore", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.superblocks(|slot| slot[24] = 2);
        Ok(Made { writable: false, ..made })
    }),
    ("unused-bytes", "anything in bytes that are never interpreted", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE + 24..STATE + 1024].fill(0x33);
        made.filter.data[STATE + 1336..STATE + 4096].fill(0x44);
        made.filter.data[SEQUENCES + 4..188_416].fill(0x55);
        made.filter.data[188_416 + 64..196_608].fill(0x66);
        Ok(made)
    }),
    ("superseded", "the superseded flag set in a file that is not", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE + 8] = 1;
        Ok(made)
    }),
    ("busy", "a writer died before its first commit", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        Ok(made)
    }),
    ("poisoned", "a writer gave up: poisoned flag, odd epoch and sequence", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        made.filter.data[STATE + 12] = 1;
        made.filter.data[EPOCH] = 7;
        made.filter.data[SEQUENCES] = 3;
        Ok(made)
    }),
    ("live-rotten", "a live area that says nothing right, in use", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE..188_416].fill(0xff);
        Ok(made)
    }),
    ("replay", "three commits in the journal, all applied", |dir| {
        let unclean = Unclean::new(dir, Kind::Counting)?;
        Ok(made(unclean.after[2].clone(), ALL_COMMITS))
    }),
    ("replay-set", "three commits to a set in the journal, all applied", |dir| {
        let unclean = Unclean::new(dir, Kind::Set)?;
        Ok(made(unclean.after[2].clone(), ALL_COMMITS_OF_SET))
    }),
    ("replay-set-unapplied", "the same, none applied", |dir| {
        Ok(made(Unclean::new(dir, Kind::Set)?.unapplied(), ALL_COMMITS_OF_SET))
    }),
    ("replay-unapplied", "three commits in the journal, none applied", |dir| {
        Ok(made(Unclean::new(dir, Kind::Counting)?.unapplied(), ALL_COMMITS))
    }),
    ("replay-half-applied", "three commits, the last written to some pages and no checksum", |dir| {
        let unclean = Unclean::new(dir, Kind::Counting)?;
        let mut filter = unclean.after[1].clone();
        let pages = filter.data.len() - 65_536;
        for page in (pages..filter.data.len()).step_by(3 * 4096) {
            let applied = &unclean.after[2].data[page..page + 4096];
            filter.data[page..page + 4096].copy_from_slice(applied);
        }
        filter.data[EPOCH] |= 1;
        filter.data[SEQUENCES] |= 1;
        filter.journal.clone_from(&unclean.after[2].journal);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("replay-without-header", "the same journal, its header damaged", |dir| {
        let mut filter = Unclean::new(dir, Kind::Counting)?.unapplied();
        filter.journal_mut()[3] ^= 0x10;
        Ok(made(filter, ALL_COMMITS))
    }),
    ("replay-two-frames", "the same journal, its first transaction in two frames", |dir| {
        let mut filter = Unclean::new(dir, Kind::Counting)?.unapplied();
        divide_first_frame(filter.journal_mut());
        Ok(made(filter, ALL_COMMITS))
    }),
    ("torn-append", "two commits and a third that was never synced", |dir| {
        let unclean = Unclean::new(dir, Kind::Counting)?;
        let mut filter = unclean.after[1].clone();
        filter.journal.clone_from(&unclean.after[2].journal);
        let length = filter.journal_mut().len();
        filter.journal_mut().truncate(length - 700);
        Ok(made(filter, "20-139"))
    }),
    ("torn-alone", "one commit that was never synced", |dir| {
        let unclean = Unclean::new(dir, Kind::Counting)?;
        let mut filter = unclean.before.clone();
        filter.journal.clone_from(&unclean.after[0].journal);
        filter.journal_mut()[600] ^= 1;
        Ok(made(filter, "0-99"))
    }),
    ("two-attempts", "a frame that follows on another attempt at its commit", |dir| {
        let unclean = Unclean::new(dir, Kind::Counting)?;
        let mut filter = unclean.after[1].clone();
        let own = filter.journal_mut().len();
        let mut stray = unclean.after[2].journal.clone().unwrap_or_default().split_off(own);
        stray[40] ^= 1;
        let journal = filter.journal_mut();
        journal.extend_from_slice(&stray);
        seal_frame(journal, own);
        Ok(made(filter, "20-139"))
    }),
    ("reset-torn", "a reset cut short: half a header, frames of before", |dir| {
        let path = dir.join("f");
        let mut filter = Unclean::new(dir, Kind::Counting)?.after[2].clone();
        filter.data = fs::read(path)?;
        filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        filter.journal_mut()[20..300].fill(0);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("checkpoint-torn", "the journal not reset behind a checkpoint", |dir| {
        let path = dir.join("f");
        let mut filter = Unclean::new(dir, Kind::Counting)?.after[2].clone();
        filter.data = fs::read(path)?;
        filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("checkpoint-half", "the same, with one slot of the checkpoint written", |dir| {
        let path = dir.join("f");
        let unclean = Unclean::new(dir, Kind::Counting)?;
        let mut filter = unclean.after[2].clone();
        let closed = fs::read(path)?;
        let id = |data: &[u8], slot: usize| data[slot * 65_536 + 40];
        let newer = usize::from(id(&closed, 1) > id(&closed, 0));
        let range = newer * 65_536..(newer + 1) * 65_536;
        filter.data[range.clone()].copy_from_slice(&closed[range]);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("published", "the journal not reset behind a doubling", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..100)?;
        writer.commit()?;
        insert(&mut writer, 100..200)?;
        writer.commit()?;
        let journal = Filter::read(&path)?.journal;
        writer.grow()?;
        writer.commit()?;
        let filter = Filter { journal, ..Filter::read(&path)? };
        drop(writer);
        Ok(made(filter, "0-199"))
    }),
    ("journal-foreign-empty", "the journal of another filter, without commits", |dir| {
        let mut made = of_width(dir, 4)?;
        let mut journal = Unclean::new(&fresh_dir(dir, "other")?, Kind::Counting)?.after[0]
            .journal
            .clone()
            .unwrap_or_default();
        journal.truncate(800);
        made.filter.journal = Some(journal);
        Ok(made)
    }),
    ("journal-own", "an empty journal: nothing but its header", |dir| {
        let path = dir.join("f");
        let made = of_width(dir, 4)?;
        Ok(Made { filter: Filter::read(&path)?, ..made })
    }),
    ("journal-garbage", "a journal of zeros and noise", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.journal =
            Some((0..3000u32).map(|i| if i < 512 { 0 } else { ((i * i) >> 3) as u8 }).collect());
        Ok(made)
    }),
];

pub(crate) fn fresh_dir(dir: &Path, name: &str) -> Outcome<PathBuf> {
    let dir = dir.join(name);
    fs::create_dir(&dir)?;
    Ok(dir)
}

fn quarantined(dir: &Path, n: u32, kind: Kind) -> Outcome<Made> {
    let path = dir.join("f");
    let mut made = of_kind(dir, n, kind)?;
    let pages = made.filter.data.len() - 65_536;
    made.filter.data[pages + 2 * 4096 + 100] ^= 1;
    made.filter.write(&path)?;
    let mut writer = options(n).open(&path)?;
    assert_eq!(writer.repair(&|_, _| {})?.quarantined.len(), 1);
    closed(writer, &path, "0-299")
}
