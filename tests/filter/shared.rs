//! Invariants checked, for writers that threads and tasks share:
//!
//! 1. An answered change is durable and visible, with one answer for each commit and with many.
//! 2. All waiting changes become one commit, and the queue's bound holds.
//! 3. The failure of a commit reaches all who wait for it, and none of its changes become part of the next commit.
//! 4. Closing, and dropping the last handle, commit all waiting changes. After that every change is refused.
//! 5. With `Commits::Every`, answers come before the commit, and `commit` waits for it.

use std::future::Future;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use gowk::{Commits, Error, ErrorKind, Lookup, Metadata, Options, Pending, Reader, SharedWriter, Writer};
use tempfile::TempDir;

fn create(options: Options) -> (TempDir, Writer) {
    let dir = tempfile::tempdir().unwrap();
    let writer = options.capacity(10_000).seed(7).create(dir.path().join("f")).unwrap();
    (dir, writer)
}

fn shared() -> (TempDir, SharedWriter) {
    let (dir, writer) = create(Options::new());
    (dir, writer.into_shared().unwrap())
}

/// Keeps the writer's thread busy until something is sent, or the sender is dropped. Returns once the thread is busy.
fn busy(seen: &SharedWriter) -> (Sender<()>, Pending<()>) {
    let (go, wait) = mpsc::channel::<()>();
    let (begun, begin) = mpsc::channel();
    let pending = seen.change(0, move |_| {
        begun.send(()).unwrap();
        let _ = wait.recv();
        Ok(())
    });
    begin.recv().unwrap();
    (go, pending)
}

struct Wakes(Sender<()>);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn commit(seen: &SharedWriter) -> u64 {
    seen.reader().info().unwrap().commit
}

#[test]
fn a_key_is_durable_and_visible_when_its_answer_comes() {
    let (_dir, seen) = shared();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (seen, start) = (seen.clone(), &start);
            scope.spawn(move || {
                let reader = Reader::open(seen.path()).unwrap();
                start.wait();
                for key in 0..50 {
                    let key = format!("{thread} {key}");
                    assert!(seen.insert(&key).wait().unwrap());
                    assert!(reader.contains(&key).unwrap() && seen.contains(&key).unwrap());
                    assert!(!seen.insert(&key).wait().unwrap());
                }
            });
        }
    });
    assert_eq!(seen.reader().len().unwrap(), 200);
}

#[test]
fn all_that_waits_is_one_commit_and_tasks_need_no_runtime_of_their_own() {
    let (_dir, seen) = shared();
    let before = commit(&seen);
    let (go, busy) = busy(&seen);
    let singles: Vec<_> = (0..100_u32).map(|key| seen.insert(key.to_le_bytes())).collect();
    let batch: Vec<_> = (50..150_u32).map(u32::to_le_bytes).collect();
    let batch = seen.insert_batch(&batch);
    let position = seen.change(0, |changes| {
        changes.metadata_mut()?.set("position", "line 150");
        changes.len()
    });
    drop(go);
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        for single in singles {
            assert!(single.await.unwrap());
        }
        assert_eq!(batch.await.unwrap().complete().unwrap(), 50);
        assert_eq!(position.await.unwrap(), 150);
        busy.await.unwrap();
    });
    assert_eq!(commit(&seen), before + 1);
    let metadata = Reader::open(seen.path()).unwrap().metadata().unwrap();
    assert_eq!(metadata.get("position"), Some(&b"line 150"[..]));
}

#[test]
fn a_failed_commit_reaches_all_and_leaves_nothing_behind() {
    let (_dir, seen) = shared();
    let (go, busy) = busy(&seen);
    let key = seen.insert("key");
    let large = seen.change(0, |changes| {
        changes.metadata_mut()?.set("large", vec![0; Metadata::LIMIT]);
        Ok(())
    });
    let batch = seen.insert_batch(&["a", "b"]);
    drop(go);
    let full = |error: &Error| matches!(error, Error::MetadataFull { .. });
    busy.wait().unwrap();
    assert!(full(&key.wait().unwrap_err()));
    assert!(full(&large.wait().unwrap_err()));
    assert!(full(&batch.wait().unwrap_err()));
    assert!(seen.insert("other").wait().unwrap());
    assert!(!seen.contains("key").unwrap() && !seen.contains("a").unwrap());
    assert_eq!(Reader::open(seen.path()).unwrap().len().unwrap(), 1);
}

#[test]
fn an_error_of_one_change_is_its_own() {
    let (_dir, seen) = shared();
    let (go, _busy) = busy(&seen);
    let (removed, key) = (seen.remove("key"), seen.insert("key"));
    drop(go);
    assert_eq!(removed.wait().unwrap_err().kind(), ErrorKind::Kind);
    assert!(key.wait().unwrap());
}

#[test]
fn the_queue_is_bounded_and_more_waits_for_room() {
    const HALF: u32 = 1 << 19;
    let (_dir, seen) = shared();
    let batch = |from: u32| (from..from + HALF).map(u32::to_le_bytes).collect::<Vec<_>>();
    let (go, _busy) = busy(&seen);
    let first = [seen.insert_batch(&batch(0)), seen.insert_batch(&batch(0))];
    let forgotten = seen.insert("forgotten");
    let mut single = Box::pin(seen.insert("single"));
    let (woken, wakes) = mpsc::channel();
    let waker = Waker::from(Arc::new(Wakes(woken)));
    let mut context = Context::from_waker(&waker);
    assert!(format!("{forgotten:?} {single:?}").matches("queued: false").count() == 2);
    assert!(single.as_mut().poll(&mut context).is_pending());
    assert!(wakes.try_recv().is_err());
    drop(forgotten);
    drop(go);
    let answer = loop {
        wakes.recv().unwrap();
        if let Poll::Ready(answer) = single.as_mut().poll(&mut context) {
            break answer;
        }
    };
    assert!(answer.unwrap());
    let [first, again] = first.map(|batch| batch.wait().unwrap().complete().unwrap());
    assert!(first > HALF as usize / 100 * 99 && again == 0, "{first} {again}");
    assert!(!seen.contains("forgotten").unwrap());
}

#[test]
fn closing_waits_for_all_and_refuses_what_follows() {
    let (dir, seen) = shared();
    let other = seen.clone();
    let (go, _busy) = busy(&seen);
    let key = seen.insert("key");
    let (first, second) = (seen.close(), other.clone().close());
    let refused = other.insert("late");
    drop(go);
    first.wait().unwrap();
    second.wait().unwrap();
    assert!(key.wait().unwrap());
    assert!(matches!(*refused.wait().unwrap_err(), Error::Closed { .. }));
    assert!(matches!(*other.clone().close().wait().unwrap_err(), Error::Closed { .. }));
    // The lock is free, and the journal is empty.
    let writer = Options::new().open_existing(dir.path().join("f")).unwrap();
    assert!(writer.contains("key").unwrap() && writer.info().unwrap().journal_length == 0);
}

#[test]
fn dropping_the_last_handle_commits_what_waits() {
    let (dir, seen) = shared();
    let (go, _busy) = busy(&seen);
    let key = seen.insert("key");
    drop(seen);
    drop(go);
    assert!(key.wait().unwrap());
    let writer = Options::new().wait(Duration::from_secs(60)).open_existing(dir.path().join("f")).unwrap();
    assert!(writer.contains("key").unwrap());
}

#[test]
fn early_answers_come_before_the_commit_that_commit_waits_for() {
    let (dir, writer) = create(Options::new().counting());
    let seen = writer.into_shared_with(Commits::Every(Duration::from_secs(3600))).unwrap();
    let before = commit(&seen);
    assert!(seen.insert("key").wait().unwrap());
    assert!(!seen.insert("key").wait().unwrap());
    assert_eq!(seen.change(1, |changes| changes.count("key")).wait().unwrap(), 2);
    assert!(commit(&seen) == before && !seen.contains("key").unwrap());
    seen.commit().wait().unwrap();
    assert!(commit(&seen) == before + 1 && seen.contains("key").unwrap());
    assert!(seen.remove("key").wait().unwrap());
    seen.close().wait().unwrap();
    assert_eq!(Reader::open(dir.path().join("f")).unwrap().count("key").unwrap(), 1);
}

#[test]
fn early_answers_are_committed_in_time() {
    let (_dir, writer) = create(Options::new());
    let seen = writer.into_shared_with(Commits::Every(Duration::from_millis(1))).unwrap();
    let before = commit(&seen);
    assert!(seen.insert("key").wait().unwrap());
    // Only the clock causes the commit.
    while commit(&seen) == before {
        std::thread::yield_now();
    }
    assert!(seen.contains("key").unwrap());
}

/// Changes that were answered early remain for the next attempt.
#[test]
fn a_failed_commit_of_early_answers_is_reported_until_one_succeeds() {
    let (_dir, writer) = create(Options::new());
    let seen = writer.into_shared_with(Commits::Every(Duration::from_secs(3600))).unwrap();
    let large = |bytes: usize| {
        seen.change(0, move |changes| {
            changes.metadata_mut()?.set("large", vec![0; bytes]);
            Ok(())
        })
    };
    assert!(seen.insert("key").wait().unwrap());
    large(Metadata::LIMIT).wait().unwrap();
    assert!(matches!(*seen.commit().wait().unwrap_err(), Error::MetadataFull { .. }));
    assert!(matches!(*seen.insert("other").wait().unwrap_err(), Error::MetadataFull { .. }));
    assert!(large(1).wait().is_err());
    seen.commit().wait().unwrap();
    assert!(seen.contains("key").unwrap() && seen.contains("other").unwrap());
    assert!(!seen.insert("other").wait().unwrap());
}

#[test]
fn a_panic_in_a_change_ends_all_waiting() {
    let (dir, seen) = shared();
    let (go, busy) = busy(&seen);
    let panics = seen.change(0, |_| -> gowk::Result<()> { panic!("a test") });
    let key = seen.insert("key");
    drop(go);
    busy.wait().unwrap();
    for outcome in [panics.wait(), key.wait().map(drop)] {
        assert!(matches!(*outcome.unwrap_err(), Error::Closed { .. }));
    }
    assert!(matches!(*seen.insert("late").wait().unwrap_err(), Error::Closed { .. }));
    assert!(matches!(*seen.close().wait().unwrap_err(), Error::Closed { .. }));
    let options = Options::new().wait(Duration::from_secs(60));
    assert!(!options.open_existing(dir.path().join("f")).unwrap().contains("key").unwrap());
}

#[test]
fn bytes_are_refused_where_the_caller_hashes() {
    let (_dir, writer) = create(Options::new().hash(gowk::HashKind::Caller));
    let seen = writer.into_shared().unwrap();
    assert!(matches!(*seen.insert("key").wait().unwrap_err(), Error::CallerHashes { .. }));
    assert!(matches!(*seen.insert_batch(&["key"]).wait().unwrap_err(), Error::CallerHashes { .. }));
    assert!(seen.insert(gowk::KeyHash::new(7 << 90)).wait().unwrap());
    assert!(seen.contains(gowk::KeyHash::new(7 << 90)).unwrap());
}
