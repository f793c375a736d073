//! Stores, as callers of the library see them. `cli/tests/cli/stores.rs` tests the tool on them,
//! `cli/tests/ingest/stores.rs` jobs.
//!
//! - `answers`: a store answers as one filter with the same keys.
//! - `crash`: power cuts and failing disks, with `images` and `record`.
//! - `decoded`: golden stores, and stores with runs as `decode.py` reads them.
//! - `divided`: a store made out of a filter.
//! - `errors`: files of a store that are damaged, missing or foreign.
//! - `killed`: a process that dies before each of its calls to the disk.
//! - `folds`: folds that other processes make than the one that publishes them.
//! - `forgetting`: stores that forget, beside a model with a clock.
//! - `multiset`: processes that insert, remove, fold and vacuum at the same time, and are killed.
//! - `processes`: processes that commit at the same time, and are killed.
//! - `rebased`: updates that judge keys again which others have brought meanwhile.
//! - `readers`: readers, copies and updates while versions come and go.
//! - `runs`: stores whose commits write runs.

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod decoded;
mod divided;
mod errors;
mod folds;
mod forgetting;
mod images;
mod killed;
mod multiset;
mod processes;
mod readers;
mod rebased;
mod record;
mod runs;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use gowk::store::{Store, Update};
use gowk::{Batches, Options, SlotsPerBucket};

type Key = [u8; 8];

fn keys(range: std::ops::Range<u64>) -> Vec<Key> {
    range.map(u64::to_le_bytes).collect()
}

/// Progress that nobody is told.
fn quiet(_: u64, _: u64) {}

/// No false positives at the sizes of these tests.
fn options() -> Options {
    Options::new().capacity(1000).seed(3).slots_per_bucket(SlotsPerBucket::Two)
}

/// The variable with the bucket in which the stores of these tests lie, in place of a folder.
const BUCKET: &str = "GOWK_TEST_BUCKET";

/// Where the store of a test lies: in its folder, or in the bucket under a name of its own.
fn place(dir: &tempfile::TempDir) -> PathBuf {
    match (std::env::var_os(BUCKET), dir.path().file_name()) {
        (Some(bucket), Some(name)) => PathBuf::from(bucket).join(name),
        _ => dir.path().join("s"),
    }
}

/// Whether a test that needs a folder must not run, as stores lie in a bucket. It says so.
fn needs_a_folder(why: &str) -> bool {
    let is_in_a_bucket = std::env::var_os(BUCKET).is_some();
    if is_in_a_bucket {
        let test = std::thread::current();
        println!("not run in a bucket: {}: {why}", test.name().unwrap_or_default());
    }
    is_in_a_bucket
}

/// All files of a store, by their paths in it.
fn files_of(store: &Store) -> BTreeSet<PathBuf> {
    if let Some(address) = store.path().to_str().and_then(|path| path.strip_prefix("s3://")) {
        return objects_at(address);
    }
    let (mut found, mut folders) = (BTreeSet::new(), vec![store.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(store.path()).unwrap().to_owned());
            }
        }
    }
    found
}

/// The names of all objects at an address, below it: as the server of the tests tells them, which asks for no signature.
fn objects_at(address: &str) -> BTreeSet<PathBuf> {
    let (bucket, prefix) = address.split_once('/').unwrap();
    let server = std::env::var("GOWK_TEST_SERVER").unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    let query = format!("/{bucket}?list-type=2&prefix={prefix}/");
    write!(stream, "GET {query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.contains("<IsTruncated>false</IsTruncated>"), "{told}");
    let keys = told.split("<Key>").skip(1).map(|from| from.split("</Key>").next().unwrap());
    keys.map(|key| Path::new(key).strip_prefix(prefix).unwrap().to_owned()).collect()
}

/// A new store, opened with the same options.
fn store(dir: &tempfile::TempDir, shards: u32, options: &Options) -> Store {
    Store::create(place(dir), shards, options).unwrap();
    Store::open_with(place(dir), options).unwrap()
}

/// An update of the newest version that has these keys.
fn update(store: &Store, keys: &[Key]) -> Update {
    let mut update = store.update().unwrap();
    update.insert_batch(keys).unwrap().complete().unwrap();
    update
}
