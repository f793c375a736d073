//! `gowk store compact`.
//!
//! Invariants checked:
//!
//! 1. It folds what is due, or with `--all` everything pending, says what it did, and changes no answer. It refuses a
//!    path that is no store, in one line that names it, with exit code 2.
//! 2. Killed at any moment, it loses no key, and the store is whole. The next compaction does the work, and a vacuum
//!    removes what is left behind.
//! 3. While it runs beside inserts, each insert commits every key exactly once, and no compaction fails.
//! 4. A terminal shows its progress; nothing else does.
//! 5. `info`, `report` and the metrics show runs, their records and bytes. `verify` and `report` name the damaged page of
//!    a run and the remedy, besides their findings in shards.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use gowk::Lookup as _;
use gowk::store::{Store, Vacuum};

use crate::progress::on_a_terminal;
use crate::run::{Folder, lines};
use crate::thorough;

fn create(folder: &Folder, shards: &str, options: &[&str]) {
    let create =
        ["store", "create", "s", "--shards", shards, "--capacity", "1000", "--slots-per-bucket", "2"];
    folder.run(&[&create[..], &["--seed", "1"], options].concat(), "").done();
}

/// Makes runs of these keys, each by one commit.
fn commit(folder: &Folder, keys: std::ops::Range<u32>, commits: u32) {
    let part = (keys.end - keys.start) / commits;
    for start in keys.step_by(part as usize) {
        folder.run(&["insert", "s"], lines(start..start + part)).done();
    }
}

fn holds(folder: &Folder, keys: u32) {
    let found = folder.run(&["check", "s", "-c"], lines(0..keys + 1000)).done();
    assert_eq!(found.trim_end(), keys.to_string());
    folder.run(&["verify", "s"], "").done();
}

#[test]
fn it_folds_what_is_due_or_all_and_says_what_it_did() {
    let folder = Folder::new();
    create(&folder, "2", &[]);
    let compact =
        |arguments: &[&str]| folder.run(&[&["store", "compact", "s"], arguments].concat(), "").done();
    assert_eq!(compact(&["--all"]), "nothing to do\n");
    commit(&folder, 0..1000, 1);
    assert_eq!(compact(&[]), "nothing to do\n");
    let info = folder.info("s");
    assert_eq!((&info["runs"], &info["pending"], &info["files"]), (&1.into(), &1000.into(), &0.into()));
    let told = compact(&["--all", "--threads", "1"]);
    let info = folder.info("s");
    assert_eq!((&info["runs"], &info["pending"], &info["files"]), (&0.into(), &0.into(), &2.into()));
    assert_eq!(told, format!("2 shards folded, {} bytes written, version 3\n", info["bytes"]));
    holds(&folder, 1000);
    assert_eq!(compact(&["--all"]), "nothing to do\n");
    for (name, words) in [("none", "no such folder"), ("f", "f: ")] {
        folder.run(&["create", "f", "--capacity", "100", "--force"], "");
        let ended = folder.run(&["store", "compact", name], "");
        assert_eq!(
            (ended.code, ended.text().as_str(), ended.err.lines().count()),
            (Some(2), "", 1),
            "{ended:?}"
        );
        assert!(ended.err.contains(words), "{ended:?}");
    }
    let help = folder.run(&["store", "compact", "--help"], "").done();
    for words in
        ["Examples:\n  gowk store compact crawl.store ", "The exit status is 0", "--all", "--threads <N>"]
    {
        assert!(help.contains(words), "{words}: {help}");
    }
}

#[test]
fn a_terminal_shows_how_far_it_is() {
    let folder = Folder::new();
    create(&folder, "64", &[]);
    commit(&folder, 0..60_000, 1);
    let Some(screen) = on_a_terminal(&folder, "gowk store compact s --all --threads 1 > told") else {
        return;
    };
    assert!(screen.contains("folding") && screen.contains(" %, "), "{screen:?}");
    let told = std::fs::read_to_string(folder.path("told")).unwrap();
    assert!(told.starts_with("64 shards folded, ") && told.lines().count() == 1, "{told}");
    commit(&folder, 60_000..70_000, 1);
    let ended = folder.run(&["store", "compact", "s", "--all"], "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    holds(&folder, 70_000);
}

#[test]
fn killed_at_any_moment_it_loses_nothing() {
    const STEP: u32 = 20_000;
    let folder = Folder::new();
    create(&folder, "16", &[]);
    let compact = ["store", "compact", "s", "--all", "--threads", "2"];
    let mut random = thorough::seed(1);
    // How long one compaction takes, so that the kills cover the time from its first moment to after its last.
    commit(&folder, 0..STEP, 2);
    let start = Instant::now();
    folder.run(&compact, "").done();
    let longest = 2 * start.elapsed().as_micros() as u64;
    let kills = thorough::size("kills of compactions", 12, 150);
    let (mut keys, mut killed) = (STEP, 0);
    for _ in 0..kills {
        if folder.info("s")["pending"] == 0 {
            commit(&folder, keys..keys + STEP, 2);
            keys += STEP;
        }
        let mut command = folder.command(&compact);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros((random >> 33) % longest.max(1)));
        let _ = child.kill();
        killed += u64::from(child.wait().unwrap().code().is_none());
        holds(&folder, keys);
    }
    println!("{killed} of {kills} were killed before their end");
    folder.run(&compact, "").done();
    folder.run(&["store", "vacuum", "s", "--grace", "0"], "").done();
    holds(&folder, keys);
    let info = folder.info("s");
    assert_eq!((&info["pending"], &info["files"]), (&0.into(), &16.into()));
    for (name, expected) in [("incoming", 0), ("runs", 0), ("shards/0007", 1)] {
        assert_eq!(std::fs::read_dir(folder.path("s").join(name)).unwrap().count(), expected, "{name}");
    }
}

/// A record folded twice would count twice.
#[test]
fn beside_inserts_each_key_counts_once() {
    const WRITERS: u32 = 3;
    let rounds = thorough::size("inserts of each writer", 8, 60);
    let folder = Folder::new();
    create(&folder, "4", &["--counting"]);
    let key = |writer: u32, round: u32| (writer * rounds + round) * 500;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let folder = &folder;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let keys = lines(key(writer, round)..key(writer, round) + 500);
                        folder.run(&["insert", "s"], keys).done();
                    }
                })
            })
            .collect();
        let mut folded = 0;
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let told = folder.run(&["store", "compact", "s", "--all"], "").done();
            folded += u64::from(!told.starts_with("nothing"));
            folder.run(&["verify", "s"], "").done();
        }
        println!("{folded} compactions found something to do");
    });
    folder.run(&["store", "compact", "s", "--all"], "").done();
    let store = Store::open(folder.path("s")).unwrap();
    let reader = store.read().unwrap();
    let all = WRITERS * rounds * 500;
    assert_eq!((reader.info().pending, reader.filter_info().unwrap().copies), (0, u64::from(all)));
    for line in lines(0..all).lines() {
        assert_eq!(reader.count(line).unwrap(), 1, "{line}");
    }
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    holds(&folder, all);
}

#[test]
fn what_describes_a_store_describes_its_runs() {
    let folder = Folder::new();
    create(&folder, "2", &[]);
    commit(&folder, 0..1000, 1);
    folder.run(&["store", "compact", "s", "--all"], "").done();
    commit(&folder, 1000..3000, 2);
    let info = folder.info("s");
    let bytes = info["run_bytes"].as_u64().unwrap();
    assert_eq!((&info["runs"], &info["pending"], &info["files"]), (&2.into(), &2000.into(), &2.into()));
    assert!(folder.run(&["info", "s"], "").done().contains("2, with 2,000 records, 40.00 KiB"));
    let metrics = folder.run(&["info", "s", "--prometheus"], "").done();
    for (name, value) in [("gowk_runs", 2), ("gowk_run_records", 2000), ("gowk_run_bytes", bytes)] {
        assert!(metrics.contains(&format!("\n{name}{{file=\"s\"}} {value}\n")), "{name}: {metrics}");
    }
    assert!(folder.run(&["report", "s"], "").done().contains("<dd>2, 2,000 records, 40.00 KiB</dd>"));
    assert!(folder.run(&["verify", "s"], "").done().contains("4 files read, no damage found"));

    let run = Store::open(folder.path("s")).unwrap().newest().unwrap().runs[1].file_name();
    folder.change(&format!("s/runs/{run}"), |bytes| bytes[2 * 4096 + 5] ^= 1);
    let ended = folder.run(&["verify", "s"], "");
    assert_eq!((ended.code, ended.text().lines().count()), (Some(1), 1), "{ended:?}");
    for words in [": run: ", &run, "page 2 is damaged", "restore the file"] {
        assert!(ended.text().contains(words), "{ended:?}");
    }
    let row = folder.run(&["verify", "s", "--json"], "").text();
    let row: serde_json::Value = serde_json::from_str(&row).unwrap();
    assert_eq!((&row["clean"], &row["files"]), (&false.into(), &4.into()), "{row}");
    assert_eq!(
        (&row["damaged"][0]["shard"], &row["damaged"][0]["damaged_pages"]),
        (&().into(), &[2].into()),
        "{row}"
    );
    let metrics = folder.run(&["verify", "s", "--prometheus"], "").text();
    for (name, value) in [("gowk_clean", 0), ("gowk_damaged_pages", 1), ("gowk_damaged_files", 1)] {
        assert!(metrics.contains(&format!("\n{name}{{file=\"s\"}} {value}\n")), "{name}: {metrics}");
    }
    let page = folder.run(&["report", "s"], "").done();
    assert!(page.contains("page 2 is damaged") && page.contains(&run), "{page}");
}
