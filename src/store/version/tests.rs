use std::path::Path;
use std::time::Duration;

use super::text::{MAX_OPERATION, MAX_RUNS, MAX_STRINGS};
use super::*;
use crate::Options;
use crate::store::description::Description;
use crate::store::error::Error;
use crate::store::files::MAX_VERSION;

fn path() -> &'static Path {
    Path::new("/tmp/versions/000000000017.toml")
}

fn store() -> Description {
    Description::design(path(), 4, &Options::new()).unwrap()
}

fn version() -> Version {
    let file = |base, since| ShardFile {
        name: Name { base, uuid: [base as u8; 16] },
        commit: 1,
        bytes: 262_144,
        entries: 1000,
        expected_false_positive_rate: 2.5e-4,
        since,
        folded: base,
        epoch: 0,
    };
    let run = |base, from, to, since| RunFile {
        name: Name { base, uuid: [since as u8; 16] },
        from,
        to,
        records: 1000,
        bytes: 16_384,
        since,
        epoch: 0,
    };
    let done = Done { number: 118, version: 16, base: 14, state: "line 3\n\"x\"".to_owned(), epoch: 0 };
    Version {
        number: 17,
        id: [9; 16],
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_781_645_123),
        operation: "insert".to_owned(),
        base: 15,
        first: 3,
        fence: 4,
        epoch: 0,
        until: None,
        tokens: BTreeMap::from([("crawl".to_owned(), done)]),
        shards: BTreeMap::from([(0, file(1, 2)), (3, file(15, 17))]),
        runs: vec![run(12, 3, 9, 14), run(9, 10, 10, 10), run(16, 16, 17, 17)],
    }
}

#[test]
fn what_was_encoded_is_read_back() {
    let store = store();
    let text = version().encode(path(), store.uuid).unwrap();
    println!("{text}");
    assert_eq!(Version::decode(path(), text.as_bytes(), 17, &store).unwrap(), version());
    let first = Version::first([3; 16], 0);
    let text = first.encode(path(), store.uuid).unwrap();
    let read = Version::decode(path(), text.as_bytes(), 1, &store).unwrap();
    assert_eq!((read.number, read.shards.len(), read.id), (1, 0, [3; 16]));
    // A version is refused under another number, or in another store.
    let text = version().encode(path(), store.uuid).unwrap();
    assert!(matches!(
        Version::decode(path(), text.as_bytes(), 18, &store),
        Err(Error::Field { field: "number", .. })
    ));
    let other = Description { uuid: [7; 16], ..store };
    assert!(matches!(
        Version::decode(path(), text.as_bytes(), 17, &other),
        Err(Error::Field { field: "store", .. })
    ));
}

/// The version after the highest number would have a name that nobody lists.
#[test]
fn a_version_that_could_not_be_continued_is_refused_by_readers_commits_and_vacuums() {
    use crate::store::{Store, Vacuum};

    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path().join("s"), 2, &Options::new().capacity(1000)).unwrap();
    let plant = |number: u64| {
        let version = Version { number, id: [5; 16], ..Version::first([0; 16], 0) };
        let path = store.path().join(crate::store::files::version(number));
        std::fs::write(&path, version.encode(&path, store.description().uuid).unwrap()).unwrap();
        path
    };
    let commit = || {
        let mut update = store.update()?;
        crate::Batches::insert_batch(&mut update, &["a"])?.complete().unwrap();
        update.commit("insert", None)
    };
    // The highest version that can be read has no room for another one.
    let last = plant(MAX_VERSION - 1);
    assert_eq!(store.newest().unwrap().number, MAX_VERSION - 1);
    let outcome = commit();
    assert!(matches!(outcome, Err(Error::Invalid { field: "number", .. })), "{outcome:?}");
    let grace = Vacuum::default().grace(Duration::ZERO);
    assert!(matches!(store.vacuum(&grace), Err(Error::Invalid { field: "number", .. })));
    let beyond = plant(MAX_VERSION);
    for outcome in [store.newest().map(drop), commit().map(drop), store.vacuum(&grace).map(drop)] {
        assert!(matches!(outcome, Err(Error::Field { field: "number", .. })), "{outcome:?}");
    }
    assert!(last.exists() && beyond.exists());
}

#[test]
fn values_that_are_not_allowed_are_refused_by_name() {
    type Change = fn(&mut Version);
    let wrong: [(&str, Change); 31] = [
        ("operation", |version| version.operation = "x".repeat(257)),
        ("token.application", |version| {
            let done = version.tokens["crawl"].clone();
            version.tokens.insert("x".repeat(1025), done);
        }),
        ("token.state", |version| version.tokens.get_mut("crawl").unwrap().state = "x".repeat((1 << 20) + 1)),
        ("token.state", |version| {
            let done = Done { state: "x".repeat(1 << 20), ..version.tokens["crawl"].clone() };
            version.tokens = (0..16).map(|number| (number.to_string(), done.clone())).collect();
        }),
        ("token", |version| {
            let done = version.tokens["crawl"].clone();
            version.tokens = (0..65_537).map(|number| (number.to_string(), done.clone())).collect();
        }),
        ("token.base", |version| version.tokens.get_mut("crawl").unwrap().base = 0),
        ("base", |version| version.base = 17),
        ("first", |version| version.first = 0),
        ("first", |version| version.first = 18),
        ("fence", |version| version.fence = 18),
        ("token.version", |version| version.tokens.get_mut("crawl").unwrap().version = 18),
        ("token.version", |version| version.tokens.get_mut("crawl").unwrap().version = 1),
        ("token.base", |version| version.tokens.get_mut("crawl").unwrap().base = 16),
        ("shard.since", |version| version.shards.get_mut(&3).unwrap().since = 18),
        ("shard.since", |version| version.shards.get_mut(&3).unwrap().since = 1),
        ("shard.file", |version| version.shards.get_mut(&3).unwrap().name.base = 17),
        ("shard.rate", |version| version.shards.get_mut(&3).unwrap().expected_false_positive_rate = f64::NAN),
        ("shard.folded", |version| version.shards.get_mut(&3).unwrap().folded = 17),
        ("shard.folded", |version| version.shards.get_mut(&3).unwrap().folded = 0),
        ("run.since", |version| version.runs[2].since = 18),
        ("run.since", |version| version.runs[0].since = 1),
        ("run.to", |version| version.runs[2].to = 18),
        ("run.from", |version| version.runs[2].from = 10),
        ("run.from", |version| version.runs[0].from = 1),
        ("run.from", |version| version.runs[0].from = 10),
        ("run.from", |version| version.runs.swap(0, 1)),
        ("run.records", |version| version.runs[0].records = 0),
        ("run.bytes", |version| version.runs[0].bytes = 0),
        ("run.file", |version| version.runs[2].name.base = 17),
        ("run", |version| version.runs = vec![version.runs[0].clone(); 4097]),
        ("shard.shard", |version| {
            let file = version.shards[&3].clone();
            version.shards.insert(4, file);
        }),
    ];
    let store = store();
    for (name, change) in wrong {
        let mut version = version();
        change(&mut version);
        let text = version.encode(path(), store.uuid).unwrap();
        match Version::decode(path(), text.as_bytes(), 17, &store) {
            Err(Error::Field { field, .. }) => assert_eq!(field, name),
            outcome => panic!("{name}: {outcome:?}"),
        }
    }
}

/// Ensures that no version within the bounds is longer than a text may be.
#[test]
fn tables_and_characters_take_no_more_text_than_the_bounds_are_made_for() {
    let store = store();
    let length = |version: &Version| version.encode(path(), store.uuid).unwrap().len();
    let (number, since) = (MAX_VERSION, MAX_VERSION);
    let file = ShardFile {
        name: Name { base: MAX_VERSION - 1, uuid: [0xab; 16] },
        commit: MAX_VERSION,
        bytes: MAX_VERSION,
        entries: MAX_VERSION,
        // The smallest numbers have the longest text.
        expected_false_positive_rate: 1.234_567_890_123_456_7e-308,
        since,
        folded: MAX_VERSION - 1,
        epoch: 1 << 53,
    };
    let done = Done { number, version: number, base: number - 1, state: String::new(), epoch: 1 << 53 };
    let strings = |character: char| (character.to_string().repeat(1000), character.to_string().repeat(5000));
    let run = RunFile {
        name: file.name,
        from: since,
        to: since,
        records: crate::store::run::MAX_RECORDS,
        bytes: MAX_VERSION,
        since,
        epoch: 1 << 53,
    };
    let bare = Version { tokens: BTreeMap::new(), shards: BTreeMap::new(), runs: Vec::new(), ..version() };
    let long = Version { runs: vec![run], ..bare.clone() };
    assert!(length(&long) - length(&bare) < 320, "{}", length(&long) - length(&bare));
    let shard = Version { shards: BTreeMap::from([(65_535, file)]), ..bare.clone() };
    assert!(length(&shard) - length(&bare) < 640, "{}", length(&shard) - length(&bare));
    for character in (0..0x100).filter_map(char::from_u32).chain(['\u{ffff}', '\u{10ffff}']) {
        let (application, state) = strings(character);
        let bytes = application.len() + state.len();
        let token = BTreeMap::from([(application, Done { state, ..done.clone() })]);
        let longer = length(&Version { tokens: token, ..bare.clone() }) - length(&bare);
        assert!(longer < 256 + 6 * bytes, "{character:?}: {longer}");
    }
    assert!(
        65_536 * (640 + 256) + MAX_RUNS * 320 + 6 * MAX_STRINGS + 6 * MAX_OPERATION + 1024
            < crate::store::text::LONGEST as usize
    );
}

#[test]
fn no_text_with_a_right_checksum_makes_it_panic() {
    let store = store();
    let text = version().encode(path(), store.uuid).unwrap();
    let body = text.rsplit_once("# crc32").unwrap().0;
    let sealed = |body: &[u8]| {
        let seal = format!("# crc32 = {:08x}\n", crc32fast::hash(body));
        [body, seal.as_bytes()].concat()
    };
    let mut refused = 0;
    for at in 0..body.len() {
        for to in [b'0', b'9', b'-', b'"', b'\n', b'[', 0xff, 0] {
            let mut changed = body.as_bytes().to_vec();
            changed[at] = to;
            refused += usize::from(Version::decode(path(), &sealed(&changed), 17, &store).is_err());
        }
        let _ = Version::decode(path(), &sealed(&body.as_bytes()[..at]), 17, &store);
    }
    assert!(refused > 1000);
}

#[test]
fn a_version_of_a_forgetting_store_has_epochs_and_no_other_has_any() {
    let forgetting = Options::new().forget_after(Duration::from_secs(30 * 86_400));
    let store = Description::design(path(), 4, &forgetting).unwrap();
    let plain = version;
    let version = || {
        let mut version = Version { epoch: 1400, ..plain() };
        version.tokens.values_mut().for_each(|done| done.epoch = 1399);
        version.shards.values_mut().for_each(|file| file.epoch = 1);
        version.runs.iter_mut().for_each(|run| run.epoch = 1400);
        version
    };
    let read = |version: &Version| {
        let text = version.encode(path(), store.uuid).unwrap();
        Version::decode(path(), text.as_bytes(), version.number, &store)
    };
    assert_eq!(read(&version()).unwrap(), version());
    assert_eq!(read(&Version::first([3; 16], 1)).unwrap().epoch, 1);
    type Change = fn(&mut Version, u64);
    let fields: [(&str, Change, u64); 4] = [
        ("epoch", |version, epoch| version.epoch = epoch, (1 << 53) / (15 * 86_400_000)),
        ("token.epoch", |version, epoch| version.tokens.get_mut("crawl").unwrap().epoch = epoch, 1400),
        ("shard.epoch", |version, epoch| version.shards.get_mut(&3).unwrap().epoch = epoch, 1400),
        ("run.epoch", |version, epoch| version.runs[1].epoch = epoch, 1400),
    ];
    for (name, change, last) in fields {
        for wrong in [0, last + 1] {
            let mut version = version();
            change(&mut version, wrong);
            let outcome = read(&version);
            assert!(
                matches!(outcome, Err(Error::Field { field, .. }) if field == name),
                "{name}: {outcome:?}"
            );
        }
        let mut right = version();
        change(&mut right, last);
        assert!(read(&right).is_ok(), "{name}");
        // A set has none.
        let (mut version, set) = (plain(), Description::design(path(), 4, &Options::new()).unwrap());
        change(&mut version, 1);
        let text = version.encode(path(), set.uuid).unwrap();
        let outcome = Version::decode(path(), text.as_bytes(), 17, &set);
        assert!(matches!(outcome, Err(Error::Field { field, .. }) if field == name), "{name}: {outcome:?}");
    }
}

#[test]
fn a_version_has_a_file_of_another_that_it_names_and_that_came_with_it() {
    let whole = version();
    let no_shard = Version { shards: BTreeMap::from([(0, whole.shards[&0].clone())]), ..version() };
    let no_run = Version { runs: whole.runs[..2].to_vec(), ..version() };
    let neither = Version { runs: no_run.runs.clone(), ..no_shard.clone() };
    for (newest, has) in [(&whole, true), (&no_shard, true), (&no_run, true), (&neither, false)] {
        assert_eq!(newest.has_file_of(&whole), has, "{newest:?}");
    }
    let run = whole.runs[2].name;
    assert_eq!([&whole, &no_shard, &no_run].map(|version| version.names_run(run)), [true, true, false]);
}

#[test]
fn a_run_is_told_apart_by_one_of_its_versions_and_of_none_that_came_later() {
    let version = version();
    let run = |from, to| RunFile { from, to, ..version.runs[0].clone() };
    for (from, to, before, apart) in [
        (3, 9, 9, true),
        (4, 8, 16, true),
        (3, 9, 8, false),
        (2, 9, 16, false),
        (3, 10, 16, false),
        (16, 17, 16, false),
        (16, 17, 17, true),
    ] {
        assert_eq!(version.keeps_apart(&run(from, to), before), apart, "{from} to {to}, {before}");
    }
}

#[test]
fn as_many_runs_and_tokens_as_the_bounds_say_are_taken_and_no_two_runs_of_one_version() {
    let store = store();
    let run = version().runs[0].clone();
    let run = |number: u64| RunFile {
        name: Name { base: number - 1, ..run.name },
        from: number,
        to: number,
        since: number,
        ..run.clone()
    };
    let done = version().tokens["crawl"].clone();
    let tokens = |count: usize, state: usize| {
        let done = Done { state: "s".repeat(state), ..done.clone() };
        (0..count).map(|name| (format!("{name:05}"), done.clone())).collect()
    };
    let base = Version { number: 5000, ..version() };
    let is_right = |version: &Version| version.check(path(), &store).is_ok();
    for (count, right) in [(MAX_RUNS, true), (MAX_RUNS + 1, false)] {
        let runs = (2..).take(count).map(run).collect();
        assert_eq!(is_right(&Version { runs, ..base.clone() }), right, "{count} runs");
    }
    for (count, state, right) in [
        (65_536, 0, true),
        (65_537, 0, false),
        (64, MAX_STRINGS / 64 - 5, true),
        (64, MAX_STRINGS / 64 - 4, false),
    ] {
        let version = Version { tokens: tokens(count, state), ..base.clone() };
        assert_eq!(is_right(&version), right, "{count} tokens with {state} bytes");
    }
    let overlapping = |from| Version { runs: vec![run(9), RunFile { from, ..run(10) }], ..base.clone() };
    assert_eq!([9, 10].map(|from| is_right(&overlapping(from))), [false, true]);
    // In a store that does not forget, no field names an epoch.
    assert!(!version().encode(path(), store.uuid).unwrap().contains("epoch"));
}
