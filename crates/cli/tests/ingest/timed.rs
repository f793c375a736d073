//! Invariants checked, for a job whose records say when their keys were seen:
//!
//! 1. The summary counts late and early keys, and records without a valid time, separately, also for all runs together.
//!    They are in no output of new keys, and not in the filter.
//! 2. A job is refused if its filter does not forget, or forgets after another time.
//! 3. A job creates the forgetting filter that it requests, and also works with a store.

use crate::run::Folder;

const LINES: &str = "{\"id\":1,\"ts\":\"2024-03-01T00:00:00Z\"}
{\"id\":2,\"ts\":1709251200}
{\"id\":3,\"ts\":1704067200000}
{\"id\":4,\"ts\":7258118400}
{\"id\":5,\"ts\":\"2024-03-01\"}
{\"id\":1,\"ts\":1709251201}
{\"ts\":1709251201}
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("a", LINES);
    folder.job("paths = ['a*']\nformat = 'jsonl'\nfield = 'id'\ntime = 'ts'", 1);
    folder
}

#[test]
fn late_and_early_keys_are_counted_apart() {
    let folder = folder();
    folder.run(&["create", "f", "--capacity", "1000", "--forget-after", "30d"], "").done();
    let ended = folder.run(&["ingest", "job.toml"], "");
    for words in [
        "a: 1 records were skipped that have no valid time",
        "a: 1 late keys were neither written nor stored",
        "a: 1 early keys were neither written nor stored",
    ] {
        assert!(ended.code == Some(0) && ended.err.contains(words), "{ended:?}");
    }
    assert_eq!(folder.text("new"), "1\n2\n");
    folder.append("a", "{\"id\":6,\"ts\":0}\n{\"id\":7,\"ts\":1709251300}\n{\"id\":2,\"ts\":1709251300}\n");
    let summary = folder.ingest();
    let count = |of: &str, names: [&str; 7]| names.map(|name| summary[of][name].as_u64().unwrap());
    let names = ["keys", "new", "seen", "late", "early", "skipped_no_time", "skipped_no_field"];
    assert_eq!(count("run", names), [3, 1, 1, 1, 0, 0, 0], "{summary}");
    assert_eq!(count("total", names), [8, 3, 2, 2, 1, 1, 1], "{summary}");
    assert_eq!(folder.text("new"), "1\n2\n7\n");
    let absent = folder.run(&["check", "f"], "3\n4\n5\n6\n");
    assert_eq!((absent.code, absent.text().as_str()), (Some(1), ""));
}

#[test]
fn a_filter_that_does_not_forget_is_refused() {
    let folder = folder();
    folder.run(&["ingest", "job.toml"], "").refused(&["f: is a set", "inserting keys at a time"]);
    assert!(!folder.path("new").exists() && !folder.path("f").exists());
}

#[test]
fn a_job_creates_the_filter_that_it_asks_for_or_goes_on_in_a_store() {
    for store in [false, true] {
        let folder = folder();
        let job = folder.text("job.toml");
        let asked = |after: &str| {
            let filter = format!("[filter]\nforget_after = '{after}'\nforget_within = '5d'\nrefresh = true");
            folder.write("job.toml", &job.replacen("[filter]", &filter, 1));
        };
        if store {
            let create =
                "store create f --shards 3 --capacity 1000 --forget-after 30d --forget-within 5d --refresh";
            folder.run(&create.split(' ').collect::<Vec<_>>(), "").done();
        }
        asked("30d");
        let summary = folder.ingest();
        let count = |of: &str, names: [&str; 5]| names.map(|name| summary[of][name].as_u64().unwrap());
        assert_eq!(count("run", ["keys", "new", "seen", "late", "early"]), [5, 2, 1, 1, 1], "{summary}");
        assert_eq!(folder.text("new"), "1\n2\n");
        let info = folder.info("f");
        assert_eq!(info["retention"]["forget_after"], 30 * 86_400_000_u64);
        assert_eq!(info["retention"]["refresh"], true);
        // Seen again, the key is kept from that time on.
        folder.append(
            "a",
            "{\"id\":1,\"ts\":\"2024-03-20T00:00:00Z\"}\n{\"id\":8,\"ts\":\"2024-04-08T00:00:00Z\"}\n",
        );
        folder.append(
            "a",
            "{\"id\":1,\"ts\":\"2024-04-09T00:00:00Z\"}\n{\"id\":2,\"ts\":\"2024-04-09T00:00:00Z\"}\n",
        );
        folder.ingest();
        assert_eq!(folder.text("new"), "1\n2\n8\n2\n");
        asked("7d");
        folder.run(&["ingest", "job.toml"], "").refused(&["f: ", "forgets keys"]);
    }
}

#[test]
fn a_job_keeps_keys_for_the_lifetimes_of_their_records() {
    for store in [false, true] {
        let folder = Folder::new();
        folder.write("a", "id,ttl\n1,1h\n2,40d\n3,\n1,2d\n4,86400\n");
        folder.job("paths = ['a*']\nformat = 'csv'\nfield = 'id'\nttl = 'ttl'", 1);
        if !store {
            folder.run(&["ingest", "job.toml"], "").refused(&["f: is a set", "inserting keys"]);
            assert!(!folder.path("new").exists() && !folder.path("f").exists());
        }
        let create = if store { "store create f --shards 3" } else { "create f" };
        let create = format!("{create} --capacity 1000 --forget-after 30d");
        folder.run(&create.split(' ').collect::<Vec<_>>(), "").done();
        let ended = folder.run(&["ingest", "job.toml"], "");
        let words = "a: 2 records were skipped that have no valid lifetime";
        assert!(ended.code == Some(0) && ended.err.contains(words), "{ended:?}");
        assert_eq!(folder.text("new"), "1\n4\n");
        folder.append("a", "5,soon\n4,1d\n6,1d\n");
        let summary = folder.ingest();
        let count =
            |of: &str| ["keys", "new", "seen", "skipped_no_time"].map(|name| summary[of][name].as_u64());
        assert_eq!(count("run"), [2, 1, 1, 1].map(Some), "{summary}");
        assert_eq!(count("total"), [5, 3, 2, 3].map(Some), "{summary}");
        assert_eq!(folder.text("new"), "1\n4\n6\n");
        let job = folder.text("job.toml").replace("ttl = 'ttl'", "ttl = 'ttl'\ntime = 'ttl'");
        folder.write("job.toml", &job);
        folder.run(&["ingest", "job.toml"], "").refused(&["`ttl` must be left out where `time` is given"]);
    }
}
