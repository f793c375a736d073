//! Durable inserts with a commit every n keys, against redb and the medium's own limit.

use std::path::Path;
use std::time::Instant;

use gowk::{Batches, Growth, Options, SlotsPerBucket};
use redb::{Database, TableDefinition};

use crate::keys::keys;
use crate::measure::{candidate, in_turns, print};
use crate::{Outcome, filters};

const EVERY: u64 = 100_000;
const TABLE: TableDefinition<'_, u64, ()> = TableDefinition::new("hashes");

/// Inserts keys into a new filter that is sized for them.
pub fn run(count: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let path = dir.path().join("filter");
    let mut candidates = [
        candidate("gowk insert_batch, a commit every 100,000", || {
            let result = gowk(&path, count, true);
            result.expect("gowk")
        }),
        candidate("gowk insert, a commit every 100,000", || gowk(&path, count, false).expect("gowk")),
        candidate("redb, a transaction every 100,000", || {
            redb(&dir.path().join("redb"), count).expect("redb")
        }),
    ];
    let medians = in_turns(3, &mut candidates);
    println!("{count} keys into a fresh filter sized for them, each commit durable; millions a second:");
    print("M/s", 2, &candidates, &medians);
    Ok(())
}

fn gowk(path: &Path, count: u64, batches: bool) -> Outcome<f64> {
    let _ = std::fs::remove_file(path);
    let start = Instant::now();
    let mut writer = Options::new().capacity(count).create(path)?;
    let mut seconds = start.elapsed().as_secs_f64();
    for from in (0..count).step_by(EVERY as usize) {
        let keys = keys(from..count.min(from + EVERY));
        let start = Instant::now();
        if batches {
            writer.insert_batch(&keys)?.complete()?;
        } else {
            for key in &keys {
                writer.insert(key)?;
            }
        }
        writer.commit()?;
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    writer.close()?;
    seconds += start.elapsed().as_secs_f64();
    Ok(count as f64 / seconds / 1e6)
}

/// The alternative: the keys' hashes, 8 bytes each, in a B-tree.
fn redb(path: &Path, count: u64) -> Outcome<f64> {
    let _ = std::fs::remove_file(path);
    let start = Instant::now();
    let database = Database::create(path)?;
    let mut seconds = start.elapsed().as_secs_f64();
    for from in (0..count).step_by(EVERY as usize) {
        let keys = keys(from..count.min(from + EVERY));
        let start = Instant::now();
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for key in &keys {
                table.insert(xxhash_rust::xxh3::xxh3_64(key), ())?;
            }
        }
        transaction.commit()?;
        seconds += start.elapsed().as_secs_f64();
    }
    Ok(count as f64 / seconds / 1e6)
}

/// Inserts into a published filter, with a commit every ten million keys.
pub fn large(mebibytes: u64) -> Outcome<()> {
    const COMMIT: u64 = 10_000_000;
    let dir = tempfile::tempdir_in(".")?;
    let path = dir.path().join("filter");
    let have = filters::create(&path, mebibytes, 0.5)?;
    let slots = SlotsPerBucket::Four;
    let mut writer = Options::new().growth(Growth::Never).open_existing(&path)?;
    let commits = ((mebibytes << 19) as f64 * 0.4 / COMMIT as f64) as u64;
    let (mut inserting, mut committing) = (0.0, 0.0);
    for commit in 0..commits {
        let from = have + commit * COMMIT;
        let keys = keys(from..from + COMMIT);
        let start = Instant::now();
        writer.insert_batch(&keys)?.complete()?;
        let inserted = start.elapsed().as_secs_f64();
        writer.commit()?;
        let all = start.elapsed().as_secs_f64();
        (inserting, committing) = (inserting + inserted, committing + all - inserted);
        println!("commit {commit}: {inserted:.2} s to insert, {:.2} s to commit", all - inserted);
    }
    let start = Instant::now();
    writer.close()?;
    let closing = start.elapsed().as_secs_f64();
    let count = commits * COMMIT;
    println!(
        "{count} keys into a published filter of {mebibytes} MiB, {} slots per bucket, from load 0.5, in commits of {COMMIT}:",
        slots.get()
    );
    let all = inserting + committing + closing;
    println!(
        "{:.2} M/s, sync and closing included ({inserting:.1} s to insert, {committing:.1} s to commit, {closing:.1} s to close)",
        count as f64 / all / 1e6
    );
    Ok(())
}
