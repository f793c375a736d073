//! Shared by the fuzz targets: golden files to start from, folders in memory, and a tour through all calls of readers and
//! writers.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use gowk::{Error, HashKind, KeyHash, Kind, Lookup, OnDamage, Options, Reader, Verify, Writer};

/// A filter's file and its journal, which is empty if there is none.
#[derive(Clone, Default)]
pub struct Filter {
    pub data: Vec<u8>,
    pub journal: Vec<u8>,
}

macro_rules! golden {
    ($($data:literal $(with $journal:literal)?),* $(,)?) => {
        &[$((
            include_bytes!(concat!("../../format-spec/vectors/accept/", $data, ".gz")),
            &[$(include_bytes!(concat!("../../format-spec/vectors/accept/", $journal, ".gz")))?],
        )),*]
    };
}

/// Small golden files of many kinds, compressed.
const GOLDEN: &[(&[u8], &[&[u8]])] = golden![
    "width-4",
    "replay-unapplied" with "replay-unapplied-journal",
    "replay-half-applied" with "replay-half-applied-journal",
    "dense" with "dense-journal",
    "quarantined-7",
    "metadata",
    "grown-2",
    "caller-hashed",
    "checkpoint-half" with "checkpoint-half-journal",
    "published" with "published-journal",
    "replay-two-frames" with "replay-two-frames-journal",
    "width-3",
    "copies-4",
    "replay-set-unapplied" with "replay-set-unapplied-journal",
    "forgetting-4-3",
    "forgetting-replay" with "forgetting-replay-journal",
    "forgetting-refresh",
    "newest",
];

/// The index of the golden file with three commits in its journal alone.
pub const UNAPPLIED: usize = 1;

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut unzipped = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut unzipped).expect("a golden file is damaged");
    unzipped
}

/// All golden files.
pub fn golden() -> &'static [Filter] {
    static FILTERS: OnceLock<Vec<Filter>> = OnceLock::new();
    FILTERS.get_or_init(|| {
        let unzip = |(data, journal): &(&[u8], &[&[u8]])| Filter {
            data: unzip(data),
            journal: journal.first().map_or_else(Vec::new, |journal| unzip(journal)),
        };
        GOLDEN.iter().map(unzip).collect()
    })
}

/// A folder, in memory if the system has such a file system. Dropping it removes it.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("gowk-fuzz-");
        builder
    };
    if memory.is_dir()
        && let Ok(dir) = builder().tempdir_in(memory)
    {
        return dir;
    }
    builder().tempdir().expect("a folder for temporary files")
}

impl Filter {
    /// Writes the file, and the journal if it is not empty.
    pub fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join("f");
        fs::write(&path, &self.data).expect("room for the file");
        if !self.journal.is_empty() {
            fs::write(dir.join("f-journal"), &self.journal).expect("room for the journal");
        }
        path
    }
}

/// Fuzzed bytes, read from the front; zeros once they are used up.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn number(&mut self, size: usize) -> u64 {
        self.bytes(size).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    pub fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub fn u24(&mut self) -> u32 {
        self.number(3) as u32
    }

    pub fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub fn u64(&mut self) -> u64 {
        self.number(8)
    }
}

/// Keys that the golden files have, and keys that they do not have.
pub fn key(number: u64) -> String {
    format!("key-{number}")
}

fn probe(reader: &Reader, number: u64, kind: HashKind) -> Result<bool, Error> {
    match kind {
        HashKind::Xxh3 => {
            let key = key(number);
            let found = reader.contains(key.as_bytes())?;
            // A count is never too low.
            assert!(reader.count(key.as_bytes())? > 0 || !found);
            Ok(found)
        }
        HashKind::Caller => reader.contains(caller_hash(number)),
    }
}

pub fn caller_hash(number: u64) -> KeyHash {
    KeyHash::new(u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Makes all calls of a reader. Any error is right. Exactly the file is mapped.
pub fn read(path: &Path, copy: Option<&Path>) -> Result<(), Error> {
    let reader = Reader::open(path)?;
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    let info = reader.info();
    let kind = info.as_ref().map_or(HashKind::Xxh3, |info| info.hash);
    if let Ok(info) = &info {
        assert_eq!(info.file_length, length, "the length differs from the file's");
        assert!(info.regions * 65_536 < length);
        assert!((0.0..=1.0).contains(&info.expected_false_positive_rate));
    }
    let lenient = Options::new().on_damage(OnDamage::Present).read(path)?;
    for number in [0, 1, 50, 150, 1000, 1001, 1002] {
        // Where one call finds damage, the other answers "present".
        match probe(&reader, number, kind) {
            Err(Error::Damaged { .. }) if kind == HashKind::Xxh3 => {
                let outcome = lenient.contains(key(number).as_bytes());
                assert!(!matches!(outcome, Ok(false) | Err(Error::Damaged { .. })), "{outcome:?}");
            }
            Err(error @ Error::Busy { .. }) => panic!("busy, though no writer has the file: {error}"),
            _ => {}
        }
    }
    let metadata = reader.metadata();
    let report = reader.verify(&|_, _| {});
    if let (Ok(report), Ok(_)) = (&report, &metadata)
        && let Some(copy) = copy
    {
        let copied = reader.copy_to(copy, &|_, _| {});
        assert!(copied.is_err() || report.damaged.is_empty(), "damaged pages were copied");
        if copied.is_ok() {
            let copied = Reader::open(copy)?;
            let both = [0, 1, 1000].map(|n| (probe(&reader, n, kind).ok(), probe(&copied, n, kind).ok()));
            assert!(both.iter().all(|(one, other)| one == other), "{both:?}");
        }
    }
    let _ = Options::new().verify(Verify::Eager).read(path);
    info?;
    metadata?;
    report?;
    Ok(())
}

/// Makes the calls of a reader of these bytes, as of a file. Any error is right.
pub fn read_bytes(bytes: &[u8]) -> Result<(), Error> {
    let reader = Reader::from_bytes(bytes)?;
    let info = reader.info()?;
    assert_eq!(info.file_length, bytes.len() as u64, "the length differs from that of the bytes");
    let answers = |reader: &Reader| [0, 1, 50, 150, 1000].map(|number| probe(reader, number, info.hash).ok());
    let before = answers(&reader);
    reader.metadata()?;
    let report = reader.verify(&|_, _| {})?;
    let copy = reader.copy_to_bytes()?;
    assert!(report.damaged.is_empty(), "damaged pages were copied");
    assert_eq!(answers(&Reader::from_bytes(copy)?), before);
    Ok(())
}

fn insert(writer: &mut Writer, number: u64, kind: HashKind) -> Result<bool, Error> {
    match kind {
        HashKind::Xxh3 => writer.insert(key(number).as_bytes()),
        HashKind::Caller => writer.insert(caller_hash(number)),
    }
}

/// Makes all calls of a writer. Its commits are found afterwards, or an error says why not.
pub fn write(path: &Path) -> Result<(), Error> {
    // The day on which the golden files that forget were written.
    let clock = || UNIX_EPOCH + Duration::from_secs(20_049 * 86_400);
    let mut writer = Options::new().void_growth(true).with_clock(clock).open_existing(path)?;
    let info = writer.info()?;
    let kind = info.hash;
    let mut stored = Vec::new();
    for number in 7_000..7_005 {
        if insert(&mut writer, number, kind).is_ok() {
            stored.push(number);
        }
    }
    let _ = insert(&mut writer, 7_001, kind);
    let removed = writer.remove(key(0));
    assert!(info.kind == Kind::Counting || removed.is_err(), "a set removed a key");
    writer.metadata_mut()?.set("fuzz", *b"1");
    writer.commit()?;
    if info.file_length < 1 << 20 && writer.grow().is_ok() {
        if insert(&mut writer, 7_010, kind).is_ok() {
            stored.push(7_010);
        }
        writer.commit()?;
    }
    let _ = insert(&mut writer, 7_020, kind);
    writer.rollback()?;
    writer.close()?;
    // A writer has closed the file, so it must open, except for numbers at the end of their range.
    let reader = match Reader::open(path) {
        Err(error @ Error::Field { field: "id" | "commit", .. }) => return Err(error),
        outcome => outcome.expect("a filter that a writer has closed does not open"),
    };
    // Of few newest keys, the first of these have gone.
    let all_kept = info.keep_newest.is_none_or(|newest| newest.at_least > stored.len() as u64);
    for number in stored.into_iter().filter(|_| all_kept) {
        let found = probe(&reader, number, kind);
        assert!(!matches!(found, Ok(false)), "a committed key is lost");
    }
    assert_eq!(reader.metadata()?.get("fuzz"), Some(&b"1"[..]));
    let mut writer = Options::new().open_existing(path)?;
    writer.repair(&|_, _| {})?;
    writer.close()?;
    let report = Reader::open(path)?.verify(&|_, _| {})?;
    assert!(report.is_clean(), "after repair: {report:?}");
    Ok(())
}
