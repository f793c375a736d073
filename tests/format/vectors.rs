//! The golden files of `format-spec/vectors`, and the tables of its README.

use std::fs::{self, File};
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use gowk::{KeyHash, Kind};

/// Where the golden files are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("format-spec/vectors")
}

/// Keys that are in no file. The row of an accepted file says how many of them a lookup finds.
pub(crate) const ABSENT: std::ops::Range<u64> = 1_000_000..1_010_000;

/// The row of a filter that must be accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) slots_per_bucket: u32,
    pub(crate) base_regions: u64,
    pub(crate) generation: u32,
    pub(crate) commit: u64,
    pub(crate) inserted: u64,
    pub(crate) removed: u64,
    pub(crate) entries_by_tail: Vec<u64>,
    pub(crate) digits: u64,
    pub(crate) saturated: u64,
    pub(crate) quarantined_buckets: u64,
    /// Name, length and CRC of each entry.
    pub(crate) metadata: Vec<String>,
    /// The numbers of the keys that must be found.
    pub(crate) present: Vec<RangeInclusive<u64>>,
    /// Numbers of keys, each with its count.
    pub(crate) copies: Vec<(u64, u32)>,
    /// How many keys of `ABSENT` are found.
    pub(crate) found: u64,
    pub(crate) writable: bool,
}

/// The row of an accepted filter that forgets.
#[derive(Debug)]
pub(crate) struct Forgetting {
    pub(crate) name: String,
    /// How long it keeps keys, in words.
    pub(crate) keeps: String,
    pub(crate) time: Option<u64>,
    /// When its entries expire, and how many.
    pub(crate) expiries: Vec<(u64, u64)>,
}

/// The row of a filter that must be refused.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) name: String,
    /// The step that must refuse it: see the README.
    pub(crate) refused: String,
    pub(crate) error: String,
    pub(crate) message: String,
}

/// The text of a key.
pub(crate) fn key(number: u64) -> String {
    format!("key-{number}")
}

/// The hash of a key in filters whose keys the caller hashes.
pub(crate) fn caller_hash(number: u64) -> KeyHash {
    KeyHash::new(u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// The rows of the README's tables for `accept` or `reject`.
fn rows(kind: &str) -> Vec<Vec<String>> {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, section) = readme.split_once(&format!("\n## {kind}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &str| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").map(|cell| cell.trim().to_owned()).collect())
    };
    section.lines().filter_map(cells).skip(1).collect()
}

fn words(cell: &str) -> Vec<&str> {
    if cell == "-" { Vec::new() } else { cell.split(' ').collect() }
}

pub(crate) fn accepted() -> Vec<Accepted> {
    let row = |row: Vec<String>| {
        let number = |column: usize| row[column].parse::<u64>().unwrap();
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap();
            first.parse().unwrap()..=last.parse().unwrap()
        };
        let copies = |word: &str| {
            let (key, copies) = word.split_once('=').unwrap();
            (key.parse().unwrap(), copies.parse().unwrap())
        };
        Accepted {
            name: row[0].clone(),
            kind: Kind::from_name(&row[2]).unwrap(),
            slots_per_bucket: number(3) as u32,
            base_regions: number(4),
            generation: number(5) as u32,
            commit: number(6),
            inserted: number(7),
            removed: number(8),
            entries_by_tail: words(&row[9]).into_iter().map(|word| word.parse().unwrap()).collect(),
            digits: number(10),
            saturated: number(11),
            quarantined_buckets: number(12),
            metadata: words(&row[13]).into_iter().map(str::to_owned).collect(),
            present: words(&row[14]).into_iter().map(range).collect(),
            copies: words(&row[15]).into_iter().map(copies).collect(),
            found: number(16),
            writable: row[17] == "yes",
        }
    };
    rows("Accepted").into_iter().map(row).collect()
}

pub(crate) fn forgetting() -> Vec<Forgetting> {
    let row = |row: Vec<String>| {
        let expiry = |word: &str| {
            let (at, entries) = word.split_once('=').unwrap();
            (at.parse().unwrap(), entries.parse().unwrap())
        };
        Forgetting {
            name: row[0].clone(),
            keeps: row[1].clone(),
            time: row[2].parse().ok(),
            expiries: words(&row[3]).into_iter().map(expiry).collect(),
        }
    };
    rows("Forgetting").into_iter().map(row).collect()
}

pub(crate) fn rejected() -> Vec<Rejected> {
    let row = |row: Vec<String>| Rejected {
        name: row[0].clone(),
        refused: row[1].clone(),
        error: row[2].clone(),
        message: row[3].clone(),
    };
    rows("Rejected").into_iter().map(row).collect()
}

/// The hashes of a file and its journal, from its row.
pub(crate) fn hashes(kind: &str, name: &str) -> [String; 2] {
    let kind = if kind == "accept" { "Accepted" } else { "Rejected" };
    let row = rows(kind).into_iter().find(|row| row[0] == name).unwrap();
    [row[row.len() - 2].clone(), row[row.len() - 1].clone()]
}

/// The names of the files in a folder of golden files, without journals.
pub(crate) fn names(kind: &str) -> Vec<String> {
    let entries = folder().join(kind).read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| name.strip_suffix(".gz").unwrap().to_owned()).collect();
    let all = names.clone();
    names.retain(|name| name.strip_suffix("-journal").is_none_or(|data| !all.iter().any(|one| one == data)));
    names.sort();
    names
}

fn unzip(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(File::open(path).ok()?).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

/// The bytes of a golden file, and of its journal if it has one.
pub(crate) fn read(kind: &str, name: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    let path = |suffix: &str| folder().join(kind).join(format!("{name}{suffix}.gz"));
    (unzip(&path("")).unwrap_or_else(|| panic!("no golden file {name}")), unzip(&path("-journal")))
}

/// Unpacks a golden file and its journal into a folder. Returns the filter's path.
pub(crate) fn unpack(kind: &str, name: &str, into: &Path) -> PathBuf {
    let (data, journal) = read(kind, name);
    let path = into.join(name);
    fs::write(&path, data).unwrap();
    if let Some(journal) = journal {
        fs::write(into.join(format!("{name}-journal")), journal).unwrap();
    }
    path
}
