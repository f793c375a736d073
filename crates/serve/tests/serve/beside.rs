//! Invariants checked, for the server together with other processes:
//!
//! 1. Another process sees each answered key through its map.
//! 2. If the server cannot use a filter, it sends an error reply that names the remedy, and continues. Reasons: another
//!    writer, damage, a disk that accepts no more, files that are no filters, filters whose keys the caller hashes.
//! 3. A filter without requests is closed. The server follows one that is replaced or removed.
//! 4. SIGTERM commits, closes all filters, and ends with exit code 0.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

use gowk::{Error, HashKind, Lookup, Options, Reader};

use crate::client::{Int, Reply, Server, folder, text};

#[test]
fn another_process_sees_each_answered_key_through_its_map() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let path = folder.join("s.gowk");
    assert_eq!(server.client().line("BF.RESERVE s 0.0001 1000"), text("OK"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut client, reader) = (server.client(), Reader::open(&path).unwrap());
            // Enough keys to make the filter double during the test.
            scope.spawn(move || {
                for batch in 0..30 {
                    let keys: Vec<String> = (0..300).map(|key| format!("{thread} {batch} {key}")).collect();
                    let mut request = vec!["BF.MADD".to_owned(), "s".to_owned()];
                    request.extend_from_slice(&keys);
                    assert!(matches!(client.ask(&request), Reply::Array(answers) if answers.len() == 300));
                    assert!(keys.iter().all(|key| reader.contains(key).unwrap()));
                }
            });
        }
    });
}

#[test]
fn another_writer_is_an_error_until_it_is_done() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let mut writer = Options::new().create(folder.join("s.gowk")).unwrap();
    writer.insert("theirs").unwrap();
    writer.commit().unwrap();
    assert_eq!(client.line("BF.EXISTS s theirs"), Int(1));
    let refused = client.line("BF.ADD s ours");
    assert!(refused.error().contains("locked by another writer; wait until it is done"), "{refused:?}");
    assert_eq!(client.line("BF.ADD other x"), Int(1));
    writer.insert("later").unwrap();
    writer.close().unwrap_err();
    assert_eq!(client.line("BF.ADD s ours"), Int(1));
    let locked = Options::new().open_existing(folder.join("s.gowk"));
    assert!(matches!(locked, Err(Error::Locked { .. })));
}

#[test]
fn damage_and_foreign_files_are_errors_and_the_server_goes_on() {
    let (_dir, folder) = folder();
    let mut server = Server::start(&folder, &[]);
    let mut client = server.client();
    let keys: Vec<String> = (0..2000).map(|key| key.to_string()).collect();
    assert!(!client.line(&format!("BF.MADD s {}", keys.join(" "))).is_error());
    for _ in 0..4 {
        assert_eq!(client.line("CF.ADD c x"), Int(1));
    }
    assert_eq!(server.terminate(), Some(0));
    // Damages all pages of the data section.
    let file = OpenOptions::new().write(true).open(folder.join("s.gowk")).unwrap();
    let length = file.metadata().unwrap().len();
    (length / 2..length).step_by(64).for_each(|at| file.write_all_at(&[0x5a], at).unwrap());
    fs::write(folder.join("text.gowk"), "not a filter, but long enough to be looked at ".repeat(200))
        .unwrap();
    fs::write(folder.join("empty.gowk"), "").unwrap();
    Options::new().hash(HashKind::Caller).create(folder.join("hashed.gowk")).unwrap().commit().unwrap();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let damaged: Vec<Reply> =
        (0..100).map(|key| client.line(&format!("BF.EXISTS s {key}"))).filter(Reply::is_error).collect();
    assert!(!damaged.is_empty());
    assert!(damaged.iter().all(|reply| reply.error().contains("restore a copy or repair it")), "{damaged:?}");
    for (line, expected) in [
        ("BF.ADD text x", "not a gowk filter"),
        ("BF.EXISTS empty x", "the file is empty; remove it"),
        ("BF.ADD hashed x", "keys hashed by the caller"),
        ("BF.EXISTS hashed x", "keys hashed by the caller"),
    ] {
        let reply = client.line(line);
        assert!(reply.error().starts_with("ERR") && reply.error().contains(expected), "{line}: {reply:?}");
    }
    assert_eq!(client.line("CF.COUNT c x"), Int(4));
    assert_eq!(client.line("CF.ADD c x"), Int(1));
}

/// Files may not exceed 1 MiB: the writes fail as on a full disk.
#[test]
fn a_disk_that_takes_no_more_refuses_changes_and_nothing_else() {
    let (_dir, folder) = folder();
    let mut shell = Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$@\"", "-", env!("CARGO_BIN_EXE_gowk-serve")]);
    let server = Server::run(shell, &folder, &[]);
    let mut client = server.client();
    assert_eq!(client.line("CF.ADD other x"), Int(1));
    let mut stored = Vec::new();
    let refused = loop {
        let keys: Vec<String> = (0..5_000).map(|key| format!("{} {key}", stored.len())).collect();
        let mut request = vec!["BF.MADD".to_owned(), "s".to_owned()];
        request.extend_from_slice(&keys);
        match client.ask(&request) {
            Reply::Array(answers) if answers.iter().all(|answer| !answer.is_error()) => stored.push(keys),
            Reply::Array(answers) => break answers.into_iter().find(Reply::is_error).unwrap(),
            reply => break reply,
        }
    };
    assert!(refused.error().contains("s.gowk"), "{refused:?}");
    assert!(stored.len() > 3);
    assert!(client.line("BF.RESERVE large 0.001 100000000").is_error());
    assert_eq!(client.line("CF.ADD other x"), Int(1));
    let reader = Reader::open(folder.join("s.gowk")).unwrap();
    for keys in &stored {
        assert!(keys.iter().all(|key| reader.contains(key).unwrap()));
        assert_eq!(client.ask(&["BF.EXISTS", "s", &keys[0]]), Int(1));
    }
}

#[test]
fn a_filter_that_nobody_asks_for_is_closed() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--idle", "0"]);
    let mut client = server.client();
    assert_eq!(client.line("BF.ADD s x"), Int(1));
    let mut writer =
        Options::new().wait(Duration::from_secs(60)).open_existing(folder.join("s.gowk")).unwrap();
    assert_eq!(writer.info().unwrap().journal_length, 0);
    writer.insert("y").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    assert_eq!(client.line("BF.EXISTS s y"), Int(1));
    assert_eq!(client.line("BF.ADD s z"), Int(1));
}

#[test]
fn files_that_are_replaced_or_removed_are_followed() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let path = folder.join("s.gowk");
    let create = |name: &str, options: Options, key: &str| {
        let mut writer = options.create(folder.join(name)).unwrap();
        writer.insert(key).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
    };
    create("s.gowk", Options::new(), "first");
    assert_eq!(client.line("BF.EXISTS s first"), Int(1));
    create("next", Options::new().counting(), "second");
    fs::rename(folder.join("next"), &path).unwrap();
    while client.line("CF.EXISTS s second") != Int(1) {
        std::thread::yield_now();
    }
    assert!(client.line("BF.ADD s x").error().starts_with("WRONGTYPE"));
    fs::remove_file(&path).unwrap();
    while client.line("CF.EXISTS s second") != Int(0) {
        std::thread::yield_now();
    }
    assert_eq!(client.line("TYPE s"), text("none"));
}

#[test]
fn sigterm_commits_and_closes_all_filters() {
    let (_dir, folder) = folder();
    let mut server = Server::start(&folder, &[]);
    let (mut client, mut idle) = (server.client(), server.client());
    assert_eq!(client.line("BF.ADD s x"), Int(1));
    assert_eq!(client.line("CF.ADD c x"), Int(1));
    assert_eq!(idle.line("PING"), text("PONG"));
    assert_eq!(server.terminate(), Some(0));
    assert_eq!((client.next(), idle.next()), (None, None));
    for name in ["s.gowk", "c.gowk"] {
        let reader = Options::new().sealed(true).read(folder.join(name)).unwrap();
        assert!(reader.contains("x").unwrap(), "{name}");
    }
}
