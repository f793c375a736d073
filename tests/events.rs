//! Invariants checked: a subscriber of `tracing` receives the events of filters and stores, with the fields that
//! `src/events.rs` lists, and never the seed or a key.
//!
//! A separate test binary, which `Cargo.toml` builds only with the feature `tracing`: continuous integration runs it
//! without the features of the other tests.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use gowk::store::{Store, Vacuum};
use gowk::{Batches, Growth, Lookup, Options, Reader};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Stores each event as a line.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0.insert_str(0, &format!("{value:?}")),
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "gowk"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), line.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The events during `work` for one path, without the path itself.
fn heard(path: &std::path::Path, work: impl FnOnce()) -> Vec<String> {
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), work);
    let about = format!(" path={}", path.display());
    let lines = heard.0.lock().unwrap();
    lines.iter().filter(|line| line.contains(&about)).map(|line| line.replace(&about, "")).collect()
}

#[test]
fn the_life_of_a_filter_is_heard() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    let options = Options::new().capacity(1000).seed(1_234_567_890_123);
    let lines = heard(&path, || {
        let mut writer = options.create(&path).unwrap();
        writer.insert("a secret key").unwrap();
        writer.commit().unwrap();
        writer.commit().unwrap(); // without changes
        writer.grow().unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        drop(Reader::open(&path).unwrap());
    });
    let expected = [
        "INFO created regions=1",
        "DEBUG committed commit=1 entries=1",
        "INFO doubled regions=2 entries=1",
        "DEBUG committed commit=2 entries=1",
        "DEBUG opened mode=\"read\"",
    ];
    assert_eq!(lines, expected);
    assert!(!lines.concat().contains("1234567890123") && !lines.concat().contains("secret"));

    // Copies of the files, as after the death of a writer that has committed.
    let copy = path.with_file_name("copy");
    let mut writer = options.open_existing(&path).unwrap();
    writer.insert("another").unwrap();
    writer.commit().unwrap();
    for end in ["", "-journal"] {
        let name =
            |of: &std::path::Path| of.with_file_name(format!("{}{end}", of.file_name().unwrap().display()));
        std::fs::copy(name(&path), name(&copy)).unwrap();
    }
    let lines = heard(&copy, || drop(options.open_existing(&copy).unwrap()));
    let expected = ["INFO recovered checkpoint=2 commit=3", "DEBUG opened mode=\"write\""];
    assert_eq!(lines, expected);
    let lines = heard(&path, || {
        writer.checkpoint().unwrap();
        assert!(writer.repair(&|_, _| {}).unwrap().is_empty());
    });
    assert_eq!(lines, ["DEBUG checkpointed commit=3", "WARN repaired pages=0"]);
}

#[test]
fn keys_without_room_are_heard_by_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    let lines = heard(&path, || {
        let mut writer =
            Options::new().capacity(1000).growth(Growth::Never).max_kicks(1).create(&path).unwrap();
        let refused = (0..34_000u32).filter(|key| writer.insert(key.to_le_bytes()).is_err()).count();
        assert!(refused > 1000);
    });
    assert_eq!(lines[0], "INFO created regions=1");
    assert!(lines[1].starts_with("DEBUG refused reason=") && lines[1].contains("load"), "{}", lines[1]);
    assert!(lines.len() > 1000);
}

#[test]
fn the_versions_of_a_store_are_heard() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("s");
    let lines = heard(&path, || {
        let store = Store::create(&path, 8, &Options::new().capacity(10_000)).unwrap();
        let mut first = store.update().unwrap();
        let mut second = store.update().unwrap();
        // Keys of two shards, so that the commits do not conflict.
        let of = |shard: u32| {
            let is_of =
                |key: &u32| store.description().shard_of(store.hash(key.to_le_bytes()).unwrap()) == shard;
            (0..10_000).find(is_of).unwrap().to_le_bytes()
        };
        first.insert_batch(&[of(0)]).unwrap().complete().unwrap();
        second.insert_batch(&[of(1)]).unwrap().complete().unwrap();
        first.commit("insert", None).unwrap();
        second.commit("insert", None).unwrap();
        store.vacuum(&Vacuum::default().grace(std::time::Duration::ZERO)).unwrap();
    });
    let (last, rest) = lines.split_last().unwrap();
    let expected = [
        "INFO store committed version=2 base=1",
        "INFO store rebased base=1 version=2",
        "INFO store committed version=3 base=1",
    ];
    assert_eq!(rest, expected);
    assert!(last.starts_with("INFO store vacuumed versions="), "{last}");
}

#[test]
fn a_copy_that_is_refused_is_heard() {
    let dir = tempfile::tempdir().unwrap();
    let (path, near) = (dir.path().canonicalize().unwrap().join("s"), dir.path().canonicalize().unwrap());
    let store = Store::create(&path, 1, &Options::new().capacity(1000)).unwrap();
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&["a"]).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    let copy = near.join(store.newest().unwrap().shards[&0].file_name());
    std::fs::write(&copy, "no filter").unwrap();
    let lines = heard(&copy, || assert!(store.copies(&near).read().unwrap().contains("a").unwrap()));
    assert!(lines.len() == 1 && lines[0].starts_with("WARN copy refused reason="), "{lines:?}");
    assert!(lines[0].contains("not a gowk filter"), "{lines:?}");
}
