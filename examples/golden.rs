//! Makes golden files: filters as every later version must read them, or refuse them.
//!
//! ```text
//! cargo run --release --example golden -- format-spec/vectors
//! ```
//!
//! makes those that are not there yet, and prints their rows for `format-spec/vectors/README.md`. What is there is
//! never made anew: uuids and salts are random, and golden files are kept, byte for byte, for all later versions.
//!
//! Accepted files come from the writer itself, some copied while it has them open. Rejected ones are one such
//! file with something wrong in it, under right checksums where it would not be noticed otherwise. Offsets are
//! written out here as in the specification; nothing of the crate's insides is used.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gowk::{Growth, HashKind, KeyHash, Options, Reader, SlotsPerBucket, Writer};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let target = PathBuf::from(std::env::args().nth(1).ok_or("which folder? format-spec/vectors")?);
    fs::create_dir_all(target.join("accept"))?;
    fs::create_dir_all(target.join("reject"))?;
    for (name, what, make) in ACCEPTED {
        let file = target.join("accept").join(name);
        if !with_suffix(&file, ".gz").exists() {
            let scratch = tempfile::tempdir()?;
            let made = make(scratch.path())?;
            store(&file, &made.filter)?;
            println!("{}", accepted_row(name, what, &made)?);
        }
    }
    let base = Base::new()?;
    for (name, what, refused, error, message, make) in rejected() {
        let file = target.join("reject").join(name);
        if !with_suffix(&file, ".gz").exists() {
            let filter = make(&base);
            store(&file, &filter)?;
            let (hash, journal_hash) = filter.hashes();
            println!("| {name} | {refused} | {error} | {message} | {what} | {hash} | {journal_hash} |");
        }
    }
    Ok(())
}

/// A filter's file and its journal, if it has one.
#[derive(Clone)]
struct Filter {
    data: Vec<u8>,
    journal: Option<Vec<u8>>,
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Filter {
    /// As it lies on the disk, whoever has it open.
    fn read(path: &Path) -> Outcome<Self> {
        Ok(Self { data: fs::read(path)?, journal: fs::read(with_suffix(path, "-journal")).ok() })
    }

    fn write(&self, path: &Path) -> Outcome {
        fs::write(path, &self.data)?;
        if let Some(journal) = &self.journal {
            fs::write(with_suffix(path, "-journal"), journal)?;
        }
        Ok(())
    }

    /// By a hash that, unlike a CRC, is not blind to bytes changed under a CRC of their own.
    fn hashes(&self) -> (String, String) {
        let hash = |bytes: &[u8]| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes));
        (hash(&self.data), self.journal.as_deref().map_or("-".to_owned(), hash))
    }
}

fn store(file: &Path, filter: &Filter) -> Outcome {
    let compress = |path: PathBuf, bytes: &[u8]| -> Outcome {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(bytes)?;
        Ok(fs::write(path, to.finish()?)?)
    };
    if let Some(journal) = &filter.journal {
        compress(with_suffix(file, "-journal.gz"), journal)?;
    }
    compress(with_suffix(file, ".gz"), &filter.data)
}

/// An accepted file and what is known of it.
struct Made {
    filter: Filter,
    /// The numbers of keys that must be found.
    present: String,
    /// Keys with the copies counted of each.
    copies: String,
    /// Whether a writer may open it.
    writable: bool,
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

/// The hash of a key in filters whose caller hashes: its number on a multiplicative lattice.
fn lattice(number: u64) -> KeyHash {
    KeyHash::new(u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn accepted_row(name: &str, what: &str, made: &Made) -> Outcome<String> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("f");
    made.filter.write(&path)?;
    let reader = Reader::open(&path)?;
    let info = reader.info()?;
    let mut found = 0;
    for number in 1_000_000..1_010_000 {
        let present = match info.hash {
            HashKind::Caller => reader.contains_hash(lattice(number)),
            HashKind::Xxh3 => reader.contains(key(number).as_bytes()),
        };
        found += u64::from(present?);
    }
    let metadata: Vec<String> = (reader.metadata()?.iter())
        .map(|(name, value)| format!("{name:?}:{}:{:08x}", value.len(), crc32fast::hash(value)))
        .collect();
    let by_tail: Vec<String> = info.entries_by_tail.iter().map(u64::to_string).collect();
    let (hash, journal_hash) = made.filter.hashes();
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    Ok(format!(
        "| {name} | {what} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {found} | {} | {hash} | \
         {journal_hash} |",
        info.slots_per_bucket.get(),
        info.base_regions,
        info.generation,
        info.commit,
        info.inserted,
        info.removed,
        info.unrecorded,
        by_tail.join(" "),
        info.quarantined_buckets,
        or_dash(metadata.join(" ")),
        or_dash(made.present.clone()),
        or_dash(made.copies.clone()),
        if made.writable { "yes" } else { "no" },
    ))
}

// ---------------------------------------------------------------------------------------------------------------
// Accepted

fn slots(n: u32) -> SlotsPerBucket {
    SlotsPerBucket::new(n).unwrap_or(SlotsPerBucket::Four)
}

fn options(n: u32) -> Options {
    Options::new().capacity(1).slots_per_bucket(slots(n)).seed(u64::from(n)).void_growth(true)
}

fn insert(writer: &mut Writer, numbers: Range<u64>) -> Outcome {
    for number in numbers {
        writer.insert(key(number).as_bytes())?;
    }
    Ok(())
}

/// Closes the filter, and takes its file alone.
fn closed(writer: Writer, path: &Path, present: &str) -> Outcome<Made> {
    writer.close()?;
    let filter = Filter { journal: None, ..Filter::read(path)? };
    Ok(made(filter, present))
}

fn made(filter: Filter, present: &str) -> Made {
    Made { filter, present: present.to_owned(), copies: String::new(), writable: true }
}

fn of_width(dir: &Path, n: u32) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = options(n).open(&path)?;
    insert(&mut writer, 0..300)?;
    writer.commit()?;
    closed(writer, &path, "0-299")
}

/// With keys of every generation.
fn grown(dir: &Path, n: u32, generations: u64) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = options(n).open(&path)?;
    for generation in 0..=generations {
        if generation > 0 {
            writer.grow()?;
        }
        insert(&mut writer, 200 * generation..200 * (generation + 1))?;
        writer.commit()?;
    }
    closed(writer, &path, &format!("0-{}", 200 * (generations + 1) - 1))
}

/// Three commits beyond the checkpoint, with the file before and after each, as a writer has them.
struct Unclean {
    /// Before the three.
    before: Filter,
    /// After each.
    after: [Filter; 3],
}

impl Unclean {
    fn new(dir: &Path) -> Outcome<Self> {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..100)?;
        writer.metadata_mut()?.set("cursor", *b"one");
        writer.commit()?;
        writer.close()?;
        let mut writer = options(4).open(&path)?;
        let before = Filter::read(&path)?;
        insert(&mut writer, 100..140)?;
        writer.commit()?;
        let first = Filter::read(&path)?;
        for number in 0..20 {
            writer.remove(key(number).as_bytes())?;
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

    /// The file before all three, with the journal of all three.
    fn unapplied(&self) -> Filter {
        Filter { data: self.before.data.clone(), journal: self.after[2].journal.clone() }
    }
}

const ALL_COMMITS: &str = "20-159";
const IDLE: &[u8; 8] = b"gowkidle";
const BUSY: &[u8; 8] = b"gowkbusy";
const STATE: usize = 131_072;
const EPOCH: usize = STATE + 16;
const SEQUENCES: usize = STATE + 53_248;

type Make = fn(&Path) -> Outcome<Made>;

const ACCEPTED: &[(&str, &str, Make)] = &[
    ("width-2", "two slots a bucket", |dir| of_width(dir, 2)),
    ("width-3", "three slots a bucket", |dir| of_width(dir, 3)),
    ("width-4", "four slots a bucket", |dir| of_width(dir, 4)),
    ("width-5", "five slots a bucket", |dir| of_width(dir, 5)),
    ("width-6", "six slots a bucket", |dir| of_width(dir, 6)),
    ("width-7", "seven slots a bucket", |dir| of_width(dir, 7)),
    ("grown-2", "doubled once", |dir| grown(dir, 2, 1)),
    ("grown-3", "doubled once", |dir| grown(dir, 3, 1)),
    ("grown-4", "doubled twice, keys of each generation", |dir| grown(dir, 4, 2)),
    ("grown-5", "doubled twice, keys of each generation", |dir| grown(dir, 5, 2)),
    ("void-6", "doubled four times: void entries", |dir| grown(dir, 6, 4)),
    ("void-7", "doubled three times: void entries, copied", |dir| grown(dir, 7, 3)),
    ("three-regions", "a base that is no power of two, doubled once", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).capacity(90_000).open(&path)?;
        insert(&mut writer, 0..200)?;
        writer.grow()?;
        insert(&mut writer, 200..300)?;
        writer.commit()?;
        closed(writer, &path, "0-299")
    }),
    ("empty", "no key", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
        writer.commit()?;
        closed(writer, &path, "")
    }),
    ("removed", "every third key removed, across a doubling", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
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
    ("duplicates", "copies of some keys, up to the limit and beyond", |dir| {
        let path = dir.join("f");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..50)?;
        insert(&mut writer, 0..20)?;
        for _ in 0..9 {
            // Two of these find no room.
            let _ = writer.insert(key(7).as_bytes());
        }
        writer.commit()?;
        let made = closed(writer, &path, "0-49")?;
        Ok(Made { copies: "0=2 7=8 19=2 20=1 49=1".to_owned(), ..made })
    }),
    ("unique", "keys inserted unless present, so that some stored nothing", |dir| {
        let path = dir.join("f");
        let mut writer = options(7).open(&path)?;
        for number in (0..400).chain(0..100) {
            writer.insert_unique(key(number).as_bytes())?;
        }
        writer.commit()?;
        closed(writer, &path, "0-399")
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
            writer.insert_hash(lattice(number))?;
        }
        writer.grow()?;
        writer.commit()?;
        closed(writer, &path, "0-299")
    }),
    ("dense", "a journal with whole pages", |dir| {
        let path = dir.join("f");
        let mut writer = options(2).hash(HashKind::Caller).open(&path)?;
        writer.commit()?;
        let before = Filter::read(&path)?;
        // Every bucket of page 3, alike.
        for bucket in 3 * 512..4 * 512u128 {
            writer.insert_hash(KeyHash::new(0x8888 << 112 | bucket))?;
        }
        writer.insert_hash(lattice(0))?;
        writer.commit()?;
        let filter = Filter { journal: Filter::read(&path)?.journal, ..before };
        drop(writer);
        Ok(made(filter, "0-0"))
    }),
    ("quarantined-4", "a damaged page, repaired, and keys inserted since", |dir| quarantined(dir, 4)),
    ("quarantined-7", "the same at another width, and doubled", |dir| {
        let path = dir.join("f");
        quarantined(dir, 7)?;
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
            slot[12..16].fill(0xff);
            slot[180] = 1;
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
    ("read-only-feature", "a feature that readers may ignore", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.superblocks(|slot| slot[24] = 2);
        Ok(Made { writable: false, ..made })
    }),
    ("unused-bytes", "anything in bytes that are never interpreted", |dir| {
        let mut made = of_width(dir, 4)?;
        made.filter.data[STATE + 24..STATE + 1024].fill(0x33);
        made.filter.data[STATE + 1328..STATE + 4096].fill(0x44);
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
        let unclean = Unclean::new(dir)?;
        Ok(made(unclean.after[2].clone(), ALL_COMMITS))
    }),
    ("replay-unapplied", "three commits in the journal, none applied", |dir| {
        Ok(made(Unclean::new(dir)?.unapplied(), ALL_COMMITS))
    }),
    ("replay-half-applied", "three commits, the last written to some pages and no checksum", |dir| {
        let unclean = Unclean::new(dir)?;
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
        let mut filter = Unclean::new(dir)?.unapplied();
        filter.journal_mut()[3] ^= 0x10;
        Ok(made(filter, ALL_COMMITS))
    }),
    ("replay-two-frames", "the same journal, its first transaction in two frames", |dir| {
        let mut filter = Unclean::new(dir)?.unapplied();
        divide_first_frame(filter.journal_mut());
        Ok(made(filter, ALL_COMMITS))
    }),
    ("torn-append", "two commits and a third that was never synced", |dir| {
        let unclean = Unclean::new(dir)?;
        let mut filter = unclean.after[1].clone();
        filter.journal.clone_from(&unclean.after[2].journal);
        let length = filter.journal_mut().len();
        filter.journal_mut().truncate(length - 700);
        Ok(made(filter, "20-139"))
    }),
    ("torn-alone", "one commit that was never synced", |dir| {
        let unclean = Unclean::new(dir)?;
        let mut filter = unclean.before.clone();
        filter.journal.clone_from(&unclean.after[0].journal);
        filter.journal_mut()[600] ^= 1;
        Ok(made(filter, "0-99"))
    }),
    ("two-attempts", "a frame that follows on another attempt at its commit", |dir| {
        let unclean = Unclean::new(dir)?;
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
        let mut filter = Unclean::new(dir)?.after[2].clone();
        filter.data = fs::read(path)?;
        filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        filter.journal_mut()[20..300].fill(0);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("checkpoint-torn", "the journal not reset behind a checkpoint", |dir| {
        let path = dir.join("f");
        let mut filter = Unclean::new(dir)?.after[2].clone();
        filter.data = fs::read(path)?;
        filter.data[STATE..STATE + 8].copy_from_slice(BUSY);
        Ok(made(filter, ALL_COMMITS))
    }),
    ("checkpoint-half", "the same, with one slot of the checkpoint written", |dir| {
        let path = dir.join("f");
        let unclean = Unclean::new(dir)?;
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
        let mut journal =
            Unclean::new(&fresh_dir(dir, "other")?)?.after[0].journal.clone().unwrap_or_default();
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
            Some((0..3000u32).map(|i| if i < 512 { 0 } else { (i * i >> 3) as u8 }).collect());
        Ok(made)
    }),
];

fn fresh_dir(dir: &Path, name: &str) -> Outcome<PathBuf> {
    let dir = dir.join(name);
    fs::create_dir(&dir)?;
    Ok(dir)
}

fn quarantined(dir: &Path, n: u32) -> Outcome<Made> {
    let path = dir.join("f");
    let mut made = of_width(dir, n)?;
    let pages = made.filter.data.len() - 65_536;
    made.filter.data[pages + 2 * 4096 + 100] ^= 1;
    made.filter.write(&path)?;
    let mut writer = options(n).open(&path)?;
    assert_eq!(writer.repair(&mut |_, _| {})?.quarantined.len(), 1);
    closed(writer, &path, "0-299")
}

// ---------------------------------------------------------------------------------------------------------------
// Rejected

/// The files that rejected ones are made from.
struct Base {
    /// One region of four slots a bucket, 20 keys, some metadata; closed.
    plain: Filter,
    /// Three commits in the journal, none applied.
    unclean: Filter,
    /// The same, all applied.
    applied: Filter,
    /// The same filter after its writer closed it.
    closed: Filter,
    /// Another filter with a journal.
    other: Filter,
    /// A filter doubled once, with commits in the journal since.
    doubled: Filter,
    /// The same before it doubled.
    undoubled: Filter,
}

impl Base {
    fn new() -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("plain");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..20)?;
        writer.metadata_mut()?.set("a", *b"1");
        writer.metadata_mut()?.set("b", *b"2");
        writer.commit()?;
        let plain = closed(writer, &path, "")?.filter;
        let unclean_dir = fresh_dir(dir.path(), "unclean")?;
        let unclean = Unclean::new(&unclean_dir)?;
        let closed = Filter { journal: None, ..Filter::read(&unclean_dir.join("f"))? };
        let other = Unclean::new(&fresh_dir(dir.path(), "other")?)?.after[2].clone();
        let path = dir.path().join("doubled");
        let mut writer = options(4).open(&path)?;
        insert(&mut writer, 0..20)?;
        writer.commit()?;
        let undoubled = Filter { journal: None, ..Filter::read(&path)? };
        writer.grow()?;
        writer.commit()?;
        insert(&mut writer, 20..30)?;
        writer.commit()?;
        let doubled = Filter::read(&path)?;
        drop(writer);
        let applied = unclean.after[2].clone();
        Ok(Self { plain, unclean: unclean.unapplied(), applied, closed, other, doubled, undoubled })
    }

    /// The plain file with both slots changed and sealed again.
    fn slots(&self, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = self.plain.clone();
        filter.superblocks(change);
        filter
    }

    /// The plain file with its newer slot changed and sealed again, or its older one.
    fn slot(&self, newer: bool, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = self.plain.clone();
        let a_is_newer = filter.data[40] > filter.data[65_536 + 40];
        let (a, b) = filter.data[..131_072].split_at_mut(65_536);
        let slot = if a_is_newer == newer { a } else { b };
        change(slot);
        seal_slot(slot);
        filter
    }

    /// The plain file with a number of 8 bytes in both slots changed.
    fn u64(&self, at: usize, value: u64) -> Filter {
        self.slots(|slot| slot[at..at + 8].copy_from_slice(&value.to_le_bytes()))
    }

    fn u32(&self, at: usize, value: u32) -> Filter {
        self.slots(|slot| slot[at..at + 4].copy_from_slice(&value.to_le_bytes()))
    }

    /// The plain file, all of whose sizes claim `regions` regions and agree with each other.
    fn regions(&self, regions: u64) -> Filter {
        let align = |value: u64, to: u64| value.div_ceil(to) * to;
        let sums = 131_072 + align(53_248 + 4 * regions, 4096);
        let data = align(sums + align(64 * regions, 4096), 65_536);
        self.slots(|slot| {
            for (at, value) in [(96, regions), (120, sums), (128, data), (136, data + 65_536 * regions)] {
                slot[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        })
    }

    /// The plain file with its first page changed and sealed again.
    fn page(&self, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = self.plain.clone();
        let start = filter.data.len() - 65_536;
        let (head, pages) = filter.data.split_at_mut(start);
        change(&mut pages[..4096]);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head[48..64]);
        crc.update(&head[104..108]);
        crc.update(&[0; 8]);
        crc.update(&pages[..4096]);
        head[188_416..188_420].copy_from_slice(&crc.finalize().to_le_bytes());
        filter
    }

    /// The unclean file with one frame of its journal changed, and the journal sealed again.
    fn frame(&self, number: usize, change: impl Fn(&mut [u8])) -> Filter {
        let mut filter = self.unclean.clone();
        let journal = filter.journal_mut();
        let (start, _) = frames(journal)[number];
        change(&mut journal[start..]);
        seal_journal(journal);
        filter
    }
}

impl Filter {
    fn journal_mut(&mut self) -> &mut Vec<u8> {
        self.journal.get_or_insert_default()
    }

    /// Changes both slots, and seals them again.
    fn superblocks(&mut self, change: impl Fn(&mut [u8])) {
        for slot in self.data[..131_072].chunks_mut(65_536) {
            change(slot);
            seal_slot(slot);
        }
    }

    fn with_state(mut self, state: &[u8; 8]) -> Self {
        self.data[STATE..STATE + 8].copy_from_slice(state);
        self
    }
}

fn seal_slot(slot: &mut [u8]) {
    let crc = crc32fast::hash(&slot[..65_532]);
    slot[65_532..].copy_from_slice(&crc.to_le_bytes());
}

fn seal_header(journal: &mut [u8]) {
    let crc = crc32fast::hash(&journal[..508]);
    journal[508..512].copy_from_slice(&crc.to_le_bytes());
}

/// Where each frame begins, and its length with padding.
fn frames(journal: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = 512;
    while at < journal.len() {
        let length = (64 + payload_of(journal, at)).next_multiple_of(512);
        frames.push((at, length));
        at += length;
    }
    frames
}

fn payload_of(journal: &[u8], frame: usize) -> usize {
    let bytes = journal[frame + 32..].first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(bytes) as usize
}

fn seal_frame(journal: &mut [u8], frame: usize) {
    let payload = payload_of(journal, frame);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&journal[frame..frame + 60]);
    crc.update(&journal[frame + 64..frame + 64 + payload]);
    journal[frame + 60..frame + 64].copy_from_slice(&crc.finalize().to_le_bytes());
}

/// Divides the first frame behind its first record, as a transaction too long for one frame is.
fn divide_first_frame(journal: &mut Vec<u8>) {
    let start = 512;
    let payload = payload_of(journal, start);
    let count = usize::from(journal[start + 64 + 12]);
    let record = 16 + (2 * count).next_multiple_of(8) + 8 * count;
    let header = journal[start..start + 64].to_vec();
    let content = journal[start + 64..start + 64 + payload].to_vec();
    let (_, length) = frames(journal)[0];
    let frame = |order: u8, flags: u8, records: u8, payload: &[u8]| {
        let mut frame = header.clone();
        (frame[24], frame[28], frame[36]) = (order, flags, records);
        frame[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(payload);
        frame.resize(frame.len().next_multiple_of(512), 0);
        frame
    };
    let divided =
        [frame(0, 0, 1, &content[..record]), frame(1, 1, header[36] - 1, &content[record..])].concat();
    journal.splice(start..start + length, divided);
    seal_journal(journal);
}

/// Makes every frame follow on the one before it, and seals it.
fn seal_journal(journal: &mut [u8]) {
    seal_header(journal);
    let mut previous = 508;
    for (start, _) in frames(journal) {
        journal.copy_within(previous..previous + 4, start + 40);
        seal_frame(journal, start);
        previous = start + 60;
    }
}

type Reject =
    (&'static str, &'static str, &'static str, &'static str, &'static str, Box<dyn Fn(&Base) -> Filter>);

/// Name, what is wrong, who refuses it, the error's variant, a part of its message.
fn rejected() -> Vec<Reject> {
    let mut all: Vec<Reject> = Vec::new();
    let mut add = |name, what, refused, error, message, make: Box<dyn Fn(&Base) -> Filter>| {
        all.push((name, what, refused, error, message, make));
    };
    macro_rules! open {
        ($name:literal, $what:literal, $error:literal, $message:literal, $make:expr) => {
            add($name, $what, "open", $error, $message, Box::new($make))
        };
    }
    // No gowk file, or not all of one.
    open!("nothing", "an empty file", "NotGowk", "not a gowk filter", |_| Filter {
        data: vec![],
        journal: None
    });
    open!("zeros", "a file of zeros", "NotGowk", "not a gowk filter", |b| Filter {
        data: vec![0; b.plain.data.len()],
        journal: None
    });
    open!("text", "some text", "NotGowk", "not a gowk filter", |_| Filter {
        data: b"gowk: a cuckoo, in Scots\n".repeat(10),
        journal: None
    });
    open!("magic-newline", "line ends converted on the way", "NotGowk", "not a gowk filter", |b| b
        .slots(|slot| { slot[5..8].copy_from_slice(b"\n\x1a\0") }));
    open!(
        "magic-alone",
        "nothing but the magic number",
        "Length",
        "8 bytes long, but its superblock says 131072",
        |b| { Filter { data: b.plain.data[..8].to_vec(), journal: None } }
    );
    open!(
        "half-a-slot",
        "cut in the first superblock",
        "Length",
        "30000 bytes long, but its superblock says 131072",
        |b| { Filter { data: b.plain.data[..30_000].to_vec(), journal: None } }
    );
    open!(
        "one-slot",
        "cut after the first superblock",
        "Length",
        "65536 bytes long, but its superblock says 262144",
        |b| { Filter { data: b.plain.data[..65_536].to_vec(), journal: None } }
    );
    open!("cut-page", "a page cut off", "Length", "258048 bytes long, but its superblock says 262144", |b| {
        Filter { data: b.plain.data[..258_048].to_vec(), journal: None }
    });
    open!(
        "byte-too-long",
        "a byte too long",
        "Length",
        "262145 bytes long, but its superblock says 262144",
        |b| { Filter { data: [&b.plain.data[..], &[0]].concat(), journal: None } }
    );
    // Versions and features.
    open!(
        "major-2",
        "major version 2, sealed as ours",
        "Version",
        "format version 2.3, but this build reads 1.x",
        |b| { b.slots(|slot| slot[8..12].copy_from_slice(&[2, 0, 3, 0])) }
    );
    open!("major-2-other-seal", "major version 2, sealed otherwise", "Version", "format version 2.0", |b| {
        let mut filter = b.slots(|slot| slot[8] = 2);
        filter.data[65_535] ^= 1;
        filter.data[131_071] ^= 1;
        filter
    });
    open!("major-0", "major version 0", "Version", "format version 0.9, but this build reads 1.x", |b| {
        b.slots(|slot| slot[8..12].copy_from_slice(&[0, 0, 9, 0]))
    });
    open!(
        "majors-differ",
        "two damaged slots, of different major versions",
        "Superblocks",
        "both superblocks",
        |b| {
            let mut filter = b.plain.clone();
            filter.data[8] = 2;
            filter.data[65_536 + 100] ^= 1;
            filter
        }
    );
    open!(
        "incompatible-feature",
        "an unknown feature",
        "Features",
        "0x8000000000000001 needed for reading",
        |b| { b.u64(16, 1 << 63 | 1) }
    );
    add(
        "read-only-feature",
        "an unknown feature that only readers may ignore",
        "write",
        "Features",
        "0x2 needed for writing",
        Box::new(|b| b.u64(24, 2)),
    );
    open!(
        "both-slots-damaged",
        "both superblocks damaged",
        "Superblocks",
        "both superblocks are damaged",
        |b| {
            let mut filter = b.plain.clone();
            filter.data[200] ^= 1;
            filter.data[65_536 + 200] ^= 1;
            filter
        }
    );
    // Sizes.
    open!(
        "regions-2-60",
        "2^60 regions",
        "Field",
        "field `n0` is 1152921504606846976, not 1 to 4294967296",
        |b| { b.u64(96, 1 << 60) }
    );
    open!(
        "regions-all",
        "as many regions as a number can say",
        "Field",
        "field `n0` is 18446744073709551615",
        |b| { b.u64(96, u64::MAX) }
    );
    open!("regions-0", "no region", "Field", "field `n0` is 0, not 1 to 4294967296", |b| b.u64(96, 0));
    open!(
        "regions-2",
        "twice the regions, nothing else",
        "Field",
        "field `file length` is 262144, not 327680",
        |b| { b.u64(96, 2) }
    );
    open!(
        "regions-2-32",
        "2^32 regions, all offsets fitting",
        "Length",
        "262144 bytes long, but its superblock says",
        |b| { b.regions(1 << 32) }
    );
    open!(
        "regions-two-fitting",
        "two regions, all offsets fitting",
        "Length",
        "its superblock says 327680",
        |b| { b.regions(2) }
    );
    open!("generation-64", "64 doublings", "Field", "field `g` is 64, not 0 to 32", |b| b.u32(104, 64));
    open!("generation-33", "33 doublings", "Field", "field `g` is 33, not 0 to 32", |b| b.u32(104, 33));
    open!("generation-all", "2^32 - 1 doublings", "Field", "field `g` is 4294967295, not 0 to 32", |b| {
        b.u32(104, u32::MAX)
    });
    open!(
        "generation-too-high",
        "too many doublings of so many regions",
        "Field",
        "field `g` is 2, not 0 to 1",
        |b| {
            b.slots(|slot| {
                slot[96..104].copy_from_slice(&(1u64 << 31).to_le_bytes());
                slot[104] = 2;
            })
        }
    );
    open!("n-0", "no slots in a bucket", "Field", "field `n` is 0, not 2 to 7", |b| b.u32(76, 0));
    open!("n-1", "one slot in a bucket", "Field", "field `n` is 1, not 2 to 7", |b| b.u32(76, 1));
    open!("n-8", "eight slots in a bucket", "Field", "field `n` is 8, not 2 to 7", |b| b.u32(76, 8));
    open!("n-255", "255 slots in a bucket", "Field", "field `n` is 255, not 2 to 7", |b| b.u32(76, 255));
    open!(
        "live-overlaps",
        "the live area over the second superblock",
        "Field",
        "field `live` is 65536, not 131072",
        |b| { b.u64(112, 65_536) }
    );
    open!(
        "live-unaligned",
        "the live area not at a page",
        "Field",
        "field `live` is 131073, not 131072",
        |b| { b.u64(112, 131_073) }
    );
    open!(
        "sums-overlap",
        "the checksums over the live area",
        "Field",
        "field `sums` is 131072, not 188416",
        |b| { b.u64(120, 131_072) }
    );
    open!(
        "sums-past-end",
        "the checksums past the end",
        "Field",
        "field `sums` is 9223372036854775808, not",
        |b| { b.u64(120, 1 << 63) }
    );
    open!(
        "sums-unaligned",
        "the checksums not at a page",
        "Field",
        "field `sums` is 188420, not 188416",
        |b| { b.u64(120, 188_420) }
    );
    open!(
        "data-overlaps",
        "the regions over the checksums",
        "Field",
        "field `data` is 188416, not 196608",
        |b| { b.u64(128, 188_416) }
    );
    open!("data-past-end", "the regions past the end", "Field", "field `data` is 262144, not 196608", |b| {
        b.u64(128, 262_144)
    });
    open!("data-at-0", "the regions over everything", "Field", "field `data` is 0, not 196608", |b| b
        .u64(128, 0));
    open!(
        "data-unaligned",
        "the regions not at a region's size",
        "Field",
        "field `data` is 200704, not",
        |b| { b.u64(128, 200_704) }
    );
    open!(
        "file-length",
        "another length than the regions make",
        "Field",
        "field `file length` is 327680, not",
        |b| { b.u64(136, 327_680) }
    );
    open!(
        "file-length-all",
        "the longest length",
        "Field",
        "field `file length` is 18446744073709551615, not",
        |b| { b.u64(136, u64::MAX) }
    );
    // Two slots.
    open!("uuids-differ", "two uuids", "Field", "field `superblock` is", |b| b
        .slot(false, |slot| slot[50] ^= 1));
    open!("seeds-differ", "two seeds, each with its canary", "Field", "field `superblock` is", |b| {
        b.slot(true, |slot| {
            slot[64..72].copy_from_slice(&99u64.to_le_bytes());
            let canary = xxhash_rust::xxh3::xxh3_128_with_seed(b"gowk", 99);
            slot[80..96].copy_from_slice(&canary.to_le_bytes());
        })
    });
    open!(
        "hash-ids-differ",
        "keys hashed by the filter and by the caller",
        "Field",
        "field `superblock` is",
        |b| {
            b.slot(true, |slot| {
                slot[72] = 0;
                slot[80..96].fill(0);
            })
        }
    );
    open!("generations-differ", "two generations, each fitting", "Field", "field `superblock` is", |b| {
        let doubled = b.regions(2);
        let mut filter = b.slot(true, |_| {});
        let older = usize::from(filter.data[40] > filter.data[65_536 + 40]) * 65_536;
        filter.data[older..older + 65_536].copy_from_slice(&doubled.data[older..older + 65_536]);
        filter
    });
    open!("ids-equal", "two slots of one id", "Field", "field `superblock` is 0, not consistent", |b| b
        .u64(40, 5));
    open!("older-slot-hostile", "nonsense in the older slot", "Field", "field `n` is 9, not 2 to 7", |b| {
        b.slot(false, |slot| slot[76] = 9)
    });
    // Other fields.
    open!("hash-id-2", "an unknown hash", "Field", "field `hash id` is 2, not 0 to 1", |b| b.u32(72, 2));
    open!(
        "canary",
        "another hash function's canary",
        "HashMismatch",
        "hash check value does not match",
        |b| { b.u64(80, 1) }
    );
    open!("canary-of-caller", "a canary where the caller hashes", "HashMismatch", "hash check value", |b| b
        .u32(72, 0));
    open!("seed", "a seed that is not the canary's", "HashMismatch", "hash check value", |b| b.u64(64, 77));
    open!("growth-2", "an unknown policy", "Field", "field `growth` is 2, not 0 to 1", |b| b.u32(108, 2));
    open!("rate-above-1", "a rate above 1", "Field", "field `requested rate` is", |b| b
        .u64(152, 1.5f64.to_bits()));
    open!("rate-nan", "a rate that is no number", "Field", "field `requested rate` is", |b| b
        .u64(152, f64::NAN.to_bits()));
    open!("max-rate-negative", "a negative rate", "Field", "field `maximal rate` is", |b| b
        .u64(160, (-0.5f64).to_bits()));
    open!(
        "entries-too-many",
        "more entries than slots",
        "Field",
        "field `entries` is 32788, not 0 to 32768",
        |b| { b.u64(240, 32_768) }
    );
    open!(
        "entries-wrap",
        "entries whose sum wraps",
        "Field",
        "field `entries` is 18446744073709551615",
        |b| { b.slots(|slot| slot[240..320].fill(0xff)) }
    );
    open!(
        "tails-too-long",
        "entries with longer tails than slots have",
        "Field",
        "field `entries by tail length` is 1",
        |b| { b.u64(240 + 80, 1) }
    );
    open!(
        "universal-too-many",
        "more universal slots than slots",
        "Field",
        "field `entries` is 32788",
        |b| { b.u64(232, 32_768) }
    );
    open!(
        "metadata-too-long",
        "too much metadata",
        "Field",
        "field `metadata length` is 49153, not 0 to 49152",
        |b| { b.u32(496, 49_153) }
    );
    open!(
        "metadata-cut",
        "metadata cut in an entry",
        "Field",
        "field `metadata` is 10, not the end of",
        |b| b.u32(496, 19)
    );
    open!(
        "metadata-unordered",
        "names out of order",
        "Field",
        "field `metadata` is 10, not the end of",
        |b| { b.slots(|slot| slot[4096 + 8] = b'c') }
    );
    open!("metadata-twice", "one name twice", "Field", "field `metadata` is 10", |b| b
        .slots(|slot| slot[4096 + 8] = b'b'));
    open!("metadata-not-text", "a name that is not UTF-8", "Field", "field `metadata` is 0", |b| {
        b.slots(|slot| slot[4096 + 8] = 0xff)
    });
    open!("metadata-zero", "bytes that are 0 in metadata", "Field", "field `metadata` is 0", |b| {
        b.slots(|slot| slot[4096 + 2] = 1)
    });
    for (name, what, at) in [
        ("reserved-0", "reserved byte 12", 12usize),
        ("reserved-1", "reserved byte 191", 191),
        ("reserved-2", "reserved byte 500", 500),
        ("reserved-3", "reserved byte 4095", 4095),
        ("reserved-metadata", "a byte behind the metadata", 4096 + 20),
        ("reserved-4", "reserved byte 65531", 65_531),
    ] {
        add(
            name,
            what,
            "open",
            "Field",
            "field `reserved` is 1, not 0",
            Box::new(move |b| b.slots(|slot| slot[at] = 1)),
        );
    }
    // Pages.
    add(
        "page-damaged",
        "a flipped bit in a page",
        "damaged",
        "Damaged",
        "page 5 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            let page = filter.data.len() - 65_536 + 5 * 4096;
            filter.data[page + 17] ^= 0x20;
            filter
        }),
    );
    add(
        "checksum-damaged",
        "a flipped bit in the checksum table",
        "damaged",
        "Damaged",
        "page 15 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            filter.data[188_416 + 60] ^= 1;
            filter
        }),
    );
    add(
        "page-misplaced",
        "two pages exchanged, with their checksums",
        "damaged",
        "Damaged",
        "page 0 (region 0) is damaged",
        Box::new(|b| {
            let mut filter = b.plain.clone();
            let pages = filter.data.len() - 65_536;
            let (first, second) = filter.data[pages..].split_at_mut(4096);
            first.swap_with_slice(&mut second[..4096]);
            (188_416..188_420).for_each(|at| filter.data.swap(at, at + 4));
            filter
        }),
    );
    add(
        "slot-malformed",
        "a tag with nothing behind it",
        "malformed",
        "-",
        "-",
        Box::new(|b| b.page(|page| page[7] = 0x44)),
    );
    add(
        "quarantine-partial",
        "a universal slot beside others",
        "malformed",
        "-",
        "-",
        Box::new(|b| b.page(|page| page[8..16].copy_from_slice(&[0, 0x80, 0, 0, 0, 0, 0, 0]))),
    );
    add(
        "counts-differ",
        "counts that differ from what is there",
        "counts",
        "-",
        "-",
        Box::new(|b| b.slots(|slot| slot[240 + 72] += 1)),
    );
    // Journals.
    macro_rules! journal {
        ($name:literal, $what:literal, $message:literal, $make:expr) => {
            add($name, $what, "open", "Journal", $message, Box::new($make))
        };
    }
    journal!(
        "journal-foreign",
        "the journal of another filter, with commits",
        "the journal of another filter",
        |b| { Filter { journal: b.other.journal.clone(), ..b.unclean.clone() } }
    );
    journal!(
        "journal-foreign-idle",
        "the same beside a file at rest",
        "the journal of another filter",
        |b| Filter { journal: b.other.journal.clone(), ..b.plain.clone() }
    );
    journal!(
        "journal-other-history",
        "commits behind a checkpoint that the file never had",
        "holds commits up to 5",
        |b| {
            let mut filter = b.closed.clone();
            let mut journal = b.unclean.journal.clone().unwrap_or_default();
            let base = 2u64;
            journal[40..48].copy_from_slice(&base.to_le_bytes());
            for (number, (start, _)) in (base + 1..).zip(frames(&journal)) {
                journal[start + 16..start + 24].copy_from_slice(&number.to_le_bytes());
            }
            seal_journal(&mut journal);
            filter.journal = Some(journal);
            filter
        }
    );
    journal!("journal-of-backup", "an older file restored beside its journal", "of another history", |b| {
        // The journal continues the checkpoint at which the file was closed; the file is from before that.
        let mut filter = b.unclean.clone();
        let closed_salt = b.closed.data[200..208].to_vec();
        let mut journal = b.unclean.journal.clone().unwrap_or_default();
        journal[32..40].copy_from_slice(&closed_salt);
        journal[40] = 4;
        for (number, (start, _)) in (5..).zip(frames(&journal)) {
            journal[start + 8..start + 16].copy_from_slice(&closed_salt);
            journal[start + 16] = number;
        }
        seal_journal(&mut journal);
        filter.journal = Some(journal);
        filter
    });
    journal!("journal-newer", "the journal of a later generation", "of another history", |b| Filter {
        journal: b.doubled.journal.clone(),
        ..b.undoubled.clone()
    });
    journal!("journal-major-2", "a journal of major version 2", "journal format version 2.5 is newer", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        journal[8..12].copy_from_slice(&[2, 0, 5, 0]);
        seal_journal(journal);
        filter
    });
    journal!(
        "journal-broken-first",
        "a flipped bit in the first of three commits",
        "commits 2 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone();
            filter.journal_mut()[512 + 100] ^= 1;
            filter
        }
    );
    journal!(
        "journal-broken-middle",
        "a flipped bit in the second of three commits",
        "commits 3 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone();
            let journal = filter.journal_mut();
            let (second, _) = frames(journal)[1];
            journal[second + 100] ^= 1;
            filter
        }
    );
    journal!("journal-broken-applied", "the same with all three applied", "commits 3 to 4 after it", |b| {
        let mut filter = b.applied.clone();
        let journal = filter.journal_mut();
        let (second, _) = frames(journal)[1];
        journal[second + 100] ^= 1;
        filter
    });
    journal!(
        "journal-broken-idle",
        "the same beside a file that says it is at rest",
        "commits 3 to 4 after it",
        |b| {
            let mut filter = b.unclean.clone().with_state(IDLE);
            let journal = filter.journal_mut();
            let (second, _) = frames(journal)[1];
            journal[second + 100] ^= 1;
            filter
        }
    );
    journal!("journal-sector-lost", "a sector of the second commit zeroed", "commits 3 to 4 after it", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        let (second, _) = frames(journal)[1];
        journal[second..second + 512].fill(0);
        filter
    });
    journal!(
        "journal-headerless",
        "header and first commit damaged",
        "damaged at byte 512: commits 2 to 4",
        |b| {
            let mut filter = b.unclean.clone();
            filter.journal_mut()[0] ^= 1;
            filter.journal_mut()[512] ^= 1;
            filter
        }
    );
    for (name, what, at, value) in [
        ("frame-order", "a frame's order in its transaction", 24usize, 1u8),
        ("frame-flags", "an unknown flag", 28, 3),
        ("frame-not-commit", "a transaction that never ends", 28, 0),
        ("frame-records", "a record too many", 36, 0xff),
        ("frame-previous", "a frame that follows on another", 40, 0x5a),
        ("frame-reserved", "a reserved byte", 50, 1),
        ("frame-payload", "a longer payload than is there", 35, 0xff),
        ("frame-count", "a page without words", 64 + 12, 0),
        ("frame-index", "an index beyond the page", 64 + 17, 0xff),
    ] {
        let make = move |b: &Base| {
            let mut filter = b.unclean.clone();
            let journal = filter.journal_mut();
            let (start, _) = frames(journal)[1];
            let payload = payload_of(journal, start);
            // Where the field is the same by chance, another value.
            journal[start + at] = if journal[start + at] == value { value ^ 0x11 } else { value };
            if payload_of(journal, start) == payload {
                seal_frame(journal, start);
            }
            filter
        };
        add(name, what, "open", "Journal", "commits 3 to 4 after it", Box::new(make));
    }
    journal!("commit-skipped", "a commit number left out", "commits 3 to 6 after it", |b| {
        let mut filter = b.unclean.clone();
        let journal = filter.journal_mut();
        for (start, _) in frames(journal).into_iter().skip(1) {
            journal[start + 16] += 2;
        }
        seal_journal(journal);
        filter
    });
    journal!("replay-page-beyond", "a page that the file has not", "commits 2 to 4 after it", |b| {
        b.frame(0, |frame| frame[64 + 4] = 1)
    });
    journal!("replay-counts", "counts that do not fit", "commits 4 to 4 after it", |b| {
        b.frame(2, |frame| {
            // Behind the records: the counts' longest tails.
            let payload = u32::from_le_bytes([frame[32], frame[33], frame[34], frame[35]]) as usize;
            frame[64 + payload - 8 - 8] = 1;
        })
    });
    journal!("replay-metadata", "metadata that is not well formed", "commits 3 to 4 after it", |b| {
        b.frame(1, |frame| {
            let payload = u32::from_le_bytes([frame[32], frame[33], frame[34], frame[35]]) as usize;
            frame[64 + payload - 24 + 2] = 1;
        })
    });
    all
}
