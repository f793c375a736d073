//! Stores, as callers of the library see them. `crates/cli/tests/cli/stores.rs` tests the tool with stores, and
//! `crates/cli/tests/ingest/stores.rs` jobs.
//!
//! - `answers`: a store answers as one filter with the same keys.
//! - `crash`: power cuts and failing disks, with `images` and `record`.
//! - `decoded`: golden stores, and stores with runs as `decode.py` reads them.
//! - `divided`: a store made out of a filter.
//! - `errors`: files of a store that are damaged, missing or foreign.
//! - `killed`: a process that dies before each of its calls to the disk.
//! - `folds`: folds that other processes make than the one that publishes them.
//! - `forgetting`: stores that forget, against a model with a clock.
//! - `many`: updates with so many records of a shard that they write its file.
//! - `multiset`: processes that insert, remove, fold and vacuum at the same time, and are killed.
//! - `processes`: processes that commit at the same time, and are killed.
//! - `rebased`: updates that judge keys again which others have inserted since.
//! - `readers`: readers, copies and updates while versions come and go.
//! - `runs`: stores whose commits write runs.
//! - `tokens`: commits that happen at most once.

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
mod many;
mod multiset;
mod processes;
mod readers;
mod rebased;
mod record;
mod runs;
mod tokens;

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

/// A progress function that ignores its calls.
fn quiet(_: u64, _: u64) {}

/// Options without false positives at the sizes of these tests.
fn options() -> Options {
    Options::new().capacity(1000).seed(3).slots_per_bucket(SlotsPerBucket::Two)
}

/// The variable that names the bucket for the stores of these tests, in place of a folder.
const BUCKET: &str = "GOWK_TEST_BUCKET";

/// Where the store of a test lies: in the test's folder, or in the bucket under a name of its own.
fn place(dir: &tempfile::TempDir) -> PathBuf {
    place_in(dir.path(), "s")
}

/// Where a store of this name lies, for a test with this folder.
fn place_in(dir: &Path, name: &str) -> PathBuf {
    match (std::env::var_os(BUCKET), dir.file_name()) {
        (Some(bucket), Some(of_test)) => PathBuf::from(bucket).join(of_test).join(name),
        _ => dir.join(name),
    }
}

/// Whether to skip a test that needs a folder, as stores lie in a bucket. Prints that. These tests are skipped, and no
/// others:
///
/// | why | instead, in buckets |
/// |---|---|
/// | fails calls to the disk, or dies before them | `tests/buckets` fails each request, and kills processes at each |
/// | is about links | a commit has none |
/// | renames files under readers, or changes bytes under a map | an object never changes; `tests/buckets` spoils and removes what the cache has |
/// | reads copies in place of files | the cache takes their place |
/// | says what is wrong with folders | `listings_that_fail_for_good_are_named_and_nothing_is_lost` in `tests/buckets`, and addresses in `src/store/storage/tests.rs` |
/// | has the decoder read files | the decoder reads folders; the bytes of objects are the same |
fn needs_a_folder(why: &str) -> bool {
    if is_in_a_bucket() {
        let test = std::thread::current();
        println!("not run in a bucket: {}: {why}", test.name().unwrap_or_default());
    }
    is_in_a_bucket()
}

fn is_in_a_bucket() -> bool {
    std::env::var_os(BUCKET).is_some()
}

/// The address of an object without its scheme; `None` for a file.
fn object(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix("s3://")
}

/// The answer of the tests' server to a request; the server checks no signature.
fn asked_of_server(method: &str, address: &str, body: &[u8]) -> Vec<u8> {
    let server = std::env::var("GOWK_TEST_SERVER").unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} /{address} HTTP/1.1\r\nHost: x\r\nAuthorization: AWS gowk-test-key:x\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut told = Vec::new();
    stream.read_to_end(&mut told).unwrap();
    let end = told.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&told[..end]).into_owned();
    assert!(head.lines().next().unwrap().contains(" 20"), "{method} {address}: {head}");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    told.split_off(end + 4)
}

/// The contents of a file of a store.
fn bytes_of(path: &Path) -> Vec<u8> {
    object(path).map_or_else(|| std::fs::read(path).unwrap(), |address| asked_of_server("GET", address, b""))
}

/// A filter's bytes, with every byte of the last region changed.
fn with_damaged_region(filter: &[u8]) -> Vec<u8> {
    let region = filter.len() - 65536;
    filter.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at >= region)).collect()
}

/// Removes a file of a store that others may have changed, and its copy in the cache.
fn remove(path: &Path) {
    let Some(address) = object(path) else { return std::fs::remove_file(path).unwrap() };
    asked_of_server("DELETE", address, b"");
    for folder in std::fs::read_dir(std::env::var_os("GOWK_CACHE").unwrap()).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(folder.path().join(path.file_name().unwrap()));
    }
}

/// Gives a file of a store these bytes, whether it exists or not.
fn put(path: &Path, bytes: &[u8]) {
    let Some(address) = object(path) else { return std::fs::write(path, bytes).unwrap() };
    remove(path);
    asked_of_server("PUT", address, bytes);
}

/// All files of a store, by their paths in it; none without a folder.
fn files_of(store: &Store) -> BTreeSet<PathBuf> {
    files_at(store.path())
}

fn files_at(store: &Path) -> BTreeSet<PathBuf> {
    if let Some(address) = object(store) {
        return objects_at(address);
    }
    let (mut found, mut folders) = (BTreeSet::new(), vec![store.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(store).unwrap().to_owned());
            }
        }
    }
    found
}

/// The names of all objects at an address, below it.
fn objects_at(address: &str) -> BTreeSet<PathBuf> {
    let (bucket, prefix) = address.split_once('/').unwrap();
    let told = asked_of_server("GET", &format!("{bucket}?list-type=2&prefix={prefix}/"), b"");
    let told = String::from_utf8(told).unwrap();
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
