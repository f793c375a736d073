//! Hostile runs in a store, with and without right checksums.
//!
//! Invariants checked: whatever the bytes of a run, opening it, lookups, verification, folding and merging end in an
//! answer or an error, without panic, hang, or memory beyond what the file's length justifies; a fold that succeeds
//! leaves a store that verifies clean.
//!
//! Input: a byte that chooses the set or the counting store, and whether checksums are made right; then changes: a
//! position of two bytes, a length, 0 to cut there, and as many bytes.

#![no_main]

use std::fs;
use std::path::Path;

use gowk::store::Store;
use gowk::{Batches, Lookup};
use gowk_fuzz::{Input, folder};
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;

macro_rules! golden {
    ($name:literal) => {
        [
            (
                "store.toml",
                include_bytes!(concat!("../../format-spec/vectors/stores/", $name, "/store.toml")).as_slice(),
            ),
            (
                "versions/000000000001.toml",
                include_bytes!(concat!(
                    "../../format-spec/vectors/stores/",
                    $name,
                    "/versions/000000000001.toml"
                )),
            ),
            (
                "versions/000000000003.toml",
                include_bytes!(concat!(
                    "../../format-spec/vectors/stores/",
                    $name,
                    "/versions/000000000003.toml"
                )),
            ),
            (
                FIRST,
                include_bytes!(concat!(
                    "../../format-spec/vectors/stores/",
                    $name,
                    "/runs/000000000001-b1000000000000000000000000000000.run"
                )),
            ),
            (
                "runs/000000000002-b2000000000000000000000000000000.run",
                include_bytes!(concat!(
                    "../../format-spec/vectors/stores/",
                    $name,
                    "/runs/000000000002-b2000000000000000000000000000000.run"
                )),
            ),
        ]
    };
}

const FIRST: &str = "runs/000000000001-b1000000000000000000000000000000.run";
static STORES: [[(&str, &[u8]); 5]; 2] = [golden!("set"), golden!("counting")];

fn changed(run: &[u8], input: &mut Input<'_>, seals: bool) -> Vec<u8> {
    let mut run = run.to_vec();
    while !input.is_empty() {
        let at = usize::from(input.u16()) % run.len().max(1);
        match usize::from(input.u8()) {
            0 => run.truncate(at),
            length => run.iter_mut().skip(at).zip(input.bytes(length)).for_each(|(to, from)| *to = *from),
        }
    }
    if seals && run.len() >= PAGE {
        let uuid = run[32..48].to_vec();
        for (number, page) in (0_u64..).zip(run.chunks_exact_mut(PAGE)) {
            let mut crc = crc32fast::Hasher::new();
            [&uuid[..], &number.to_le_bytes(), &page[..PAGE - 4]].iter().for_each(|bytes| crc.update(bytes));
            page[PAGE - 4..].copy_from_slice(&crc.finalize().to_le_bytes());
        }
    }
    run
}

fn use_all(root: &Path) -> gowk::store::Result<()> {
    let store = Store::open(root)?;
    let reader = store.read()?;
    let keys: Vec<String> = (0..500).map(|number| format!("key {number}")).collect();
    for key in &keys[..20] {
        let _ = reader.contains(key);
        let _ = reader.count(key);
    }
    let _ = reader.contains_batch(&keys);
    let _ = reader.verify(&|_, _| {})?;
    let mut update = store.update()?;
    update.insert_batch(&keys)?.complete()?;
    update.commit("insert", None)?;
    store.compact(true, &|_, _| {})?;
    for (_, report) in store.read()?.verify(&|_, _| {})? {
        assert!(report?.is_clean());
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let chosen = input.u8();
    let dir = folder();
    for folder in ["versions", "runs", "incoming", "shards/0000", "shards/0001", "shards/0002", "shards/0003"]
    {
        fs::create_dir_all(dir.path().join(folder)).expect("room for a folder");
    }
    for (name, bytes) in &STORES[usize::from(chosen & 1)] {
        let path = dir.path().join(name);
        let bytes = if *name == FIRST { changed(bytes, &mut input, chosen & 2 != 0) } else { bytes.to_vec() };
        fs::write(path, bytes).expect("room for a file");
    }
    let _ = use_all(dir.path());
});
