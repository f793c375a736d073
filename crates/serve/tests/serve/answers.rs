//! Invariants checked, for answers:
//!
//! 1. Each command answers as RedisBloom documents it, in both protocols, including its options and mistakes.
//! 2. Commands of a pipeline are answered in their order, and see each other's changes.
//! 3. Each key has one file in the folder, with a readable name, and no other file.

use crate::client::{Bool, Client, Int, Null, Reply, Server, folder, ints, text};

fn check(client: &mut Client, cases: &[(&str, Reply)]) {
    for (line, expected) in cases {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

/// Checks errors by their beginnings.
fn check_errors(client: &mut Client, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.is_error() && reply.error().starts_with(expected), "{line}: {reply:?}");
    }
}

const OK: fn() -> Reply = || text("OK");

#[test]
fn sets_answer_as_bloom_filters_do() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    check(
        &mut client,
        &[
            ("BF.RESERVE a 0.001 1000", OK()),
            ("bf.reserve b 0.01 3 NONSCALING", OK()),
            ("BF.RESERVE c 0.9 3 EXPANSION 4", OK()),
            ("BF.RESERVE d 0.01 3 EXPANSION 0", OK()),
            ("BF.ADD a x", Int(1)),
            ("BF.ADD a x", Int(0)),
            ("BF.MADD a x y z", ints(&[0, 1, 1])),
            ("BF.INSERT a ITEMS x w", ints(&[0, 1])),
            ("BF.INSERT a NOCREATE ITEMS w", ints(&[0])),
            ("BF.INSERT e CAPACITY 5000 ERROR 0.0001 EXPANSION 2 ITEMS 1 2 1", ints(&[1, 1, 0])),
            ("BF.EXISTS a x", Int(1)),
            ("BF.EXISTS a q", Int(0)),
            ("BF.MEXISTS a x q y", ints(&[1, 0, 1])),
            ("BF.EXISTS none x", Int(0)),
            ("BF.MEXISTS none x y", ints(&[0, 0])),
            ("BF.CARD a", Int(4)),
            ("BF.CARD none", Int(0)),
            ("BF.MADD b 1 2 3", ints(&[1, 1, 1])),
            ("BF.ADD b 1", Int(0)),
            ("BF.ADD new x", Int(1)),
            ("BF.INFO a ITEMS", ints(&[4])),
            ("BF.INFO a capacity", ints(&[1000])),
            ("BF.INFO a EXPANSION", ints(&[2])),
            ("BF.INFO b EXPANSION", Reply::Array(vec![Null])),
            ("TYPE a", text("MBbloom--")),
            ("TYPE none", text("none")),
        ],
    );
    let Reply::Array(cut) = client.line("BF.MADD b 1 4 2") else { panic!() };
    assert_eq!(cut, [Int(0), Reply::Error("ERR non scaling filter is full".into())]);
    check_errors(
        &mut client,
        &[
            ("BF.ADD b 4", "ERR non scaling filter is full"),
            ("BF.RESERVE a 0.001 1000", "ERR item exists"),
            ("BF.RESERVE f x 1000", "ERR bad error rate"),
            ("BF.RESERVE f 1 1000", "ERR error rate must be in the range"),
            ("BF.RESERVE f 0 1000", "ERR error rate must be in the range"),
            ("BF.RESERVE f 1e-30 1000", "ERR false-positive rate"),
            ("BF.RESERVE f 0.1 x", "ERR bad capacity"),
            ("BF.RESERVE f 0.1 0", "ERR capacity must be in the range"),
            ("BF.RESERVE f 0.1 1 EXPANSION", "ERR no expansion"),
            ("BF.RESERVE f 0.1 1 EXPANSION x", "ERR bad expansion"),
            ("BF.RESERVE f 0.1 1 EXPANSION -1", "ERR expansion must be in the range"),
            ("BF.RESERVE f 0.1 1 NONSCALING EXPANSION 2", "ERR Nonscaling filters cannot expand"),
            ("BF.RESERVE f 0.1 1 SCALING", "ERR Unknown argument received: 'SCALING'"),
            ("BF.RESERVE f 0.1", "ERR wrong number of arguments for 'bf.reserve' command"),
            ("BF.INSERT none NOCREATE ITEMS x", "ERR not found"),
            ("BF.INSERT a ITEMS", "ERR wrong number"),
            ("BF.INSERT a CAPACITY 3", "ERR wrong number"),
            ("BF.INSERT a x ITEMS y", "ERR Unknown argument received: 'x'"),
            ("BF.ADD a", "ERR wrong number"),
            ("BF.ADD a x y", "ERR wrong number"),
            ("BF.INFO none", "ERR not found"),
            ("BF.INFO a SIZES", "ERR Invalid information value"),
            ("BF.INFO a SIZE ITEMS", "ERR wrong number"),
            ("BF.SCANDUMP a 0", "ERR filters are not dumped in chunks; copy the file with `gowk copy`"),
            ("BF.LOADCHUNK a 1 x", "ERR filters are not dumped in chunks; copy the file with `gowk copy`"),
            ("SET a b", "ERR unknown command 'SET'"),
        ],
    );
}

#[test]
fn counting_filters_answer_as_cuckoo_filters_do() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    check(
        &mut client,
        &[
            ("CF.RESERVE a 1000 BUCKETSIZE 4 MAXITERATIONS 50 EXPANSION 2", OK()),
            ("CF.ADD a x", Int(1)),
            ("CF.ADD a x", Int(1)),
            ("CF.ADDNX a x", Int(0)),
            ("CF.ADDNX a y", Int(1)),
            ("CF.INSERT a ITEMS x z", ints(&[1, 1])),
            ("CF.INSERTNX a ITEMS x w", ints(&[0, 1])),
            ("CF.COUNT a x", Int(3)),
            ("CF.COUNT a q", Int(0)),
            ("CF.COUNT none q", Int(0)),
            ("CF.EXISTS a x", Int(1)),
            ("CF.MEXISTS a x q", ints(&[1, 0])),
            ("CF.MEXISTS none x q", ints(&[0, 0])),
            ("CF.DEL a x", Int(1)),
            ("CF.COUNT a x", Int(2)),
            ("CF.DEL a q", Int(0)),
            ("CF.INSERT b CAPACITY 5000 ITEMS x", ints(&[1])),
            ("CF.RESERVE c 4 EXPANSION 0", OK()),
            ("CF.INSERT c ITEMS 1 2 3 4", ints(&[1, 1, 1, 1])),
            ("CF.INSERT c ITEMS 5 6", ints(&[-1, -1])),
            ("CF.INSERTNX c ITEMS 1 6", ints(&[0, -1])),
            ("TYPE a", text("MBbloomCF")),
        ],
    );
    let Reply::Array(info) = client.line("CF.INFO a") else { panic!() };
    let value = |name: &str| info[info.iter().position(|found| *found == text(name)).unwrap() + 1].clone();
    assert_eq!(
        [value("Number of items inserted"), value("Number of items deleted"), value("Number of filters")],
        [Int(5), Int(1), Int(1)]
    );
    check_errors(
        &mut client,
        &[
            ("CF.ADD c 7", "ERR Filter is full"),
            ("CF.DEL none x", "ERR Not found"),
            ("CF.INFO none", "ERR not found"),
            ("CF.RESERVE a 10", "ERR item exists"),
            ("CF.RESERVE d 1", "ERR Capacity must be in the range"),
            ("CF.RESERVE d 10 BUCKETSIZE", "ERR wrong number"),
            ("CF.RESERVE d 10 BUCKETSIZE 0", "ERR BUCKETSIZE must be in the range [1, 255]"),
            ("CF.RESERVE d 10 MAXITERATIONS x", "ERR bad MAXITERATIONS"),
            ("CF.INSERT d NOCREATE ITEMS x", "ERR not found"),
            ("CF.INSERT d CAPACITY 3 ITEMS x", "ERR Capacity must be in the range"),
            ("CF.INSERT d x", "ERR wrong number"),
            ("CF.INSERT d x y", "ERR Unknown argument"),
            ("CF.SCANDUMP a 0", "ERR filters are not dumped"),
        ],
    );
}

#[test]
fn a_filter_has_the_commands_of_its_kind_alone() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    check(
        &mut client,
        &[
            ("GOWK.RESERVE set 1000 0.001", OK()),
            ("GOWK.RESERVE counting 1000 0.001 COUNTING", OK()),
            ("GOWK.RESERVE forgetting 1000 0.001 TTL 3600", OK()),
            ("BF.ADD set x", Int(1)),
            ("BF.ADD forgetting x", Int(1)),
            ("BF.ADD forgetting x", Int(0)),
            ("CF.ADD counting x", Int(1)),
            // As in RedisBloom, lookups find nothing in it.
            ("BF.EXISTS counting x", Int(0)),
            ("CF.MEXISTS set x", ints(&[0])),
        ],
    );
    check_errors(
        &mut client,
        &[
            ("BF.ADD counting x", "WRONGTYPE"),
            ("CF.ADD set x", "WRONGTYPE"),
            ("CF.ADDNX forgetting x", "WRONGTYPE"),
            ("BF.CARD counting", "WRONGTYPE"),
            ("CF.INFO set", "WRONGTYPE"),
            ("CF.DEL set x", "ERR Not found"),
            ("GOWK.RESERVE set 1000 0.001", "ERR item exists"),
            ("GOWK.RESERVE x 1000 0.001 TTL 5 COUNTING", "ERR TTL and COUNTING exclude each other"),
            ("GOWK.RESERVE x 1000 0.001 TTL", "ERR Unknown argument"),
            ("GOWK.RESERVE x 1000 0.001 TTL 0", "ERR TTL must be in the range"),
        ],
    );
}

#[test]
fn clients_that_create_one_filter_at_the_same_time_all_use_it() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    for round in 0..5 {
        let start = std::sync::Barrier::new(20);
        std::thread::scope(|scope| {
            for number in 0..20 {
                let (mut client, start) = (server.client(), &start);
                scope.spawn(move || {
                    start.wait();
                    assert_eq!(client.line(&format!("CF.ADD c{round} {number}")), Int(1));
                });
            }
        });
        assert_eq!(server.client().line(&format!("CF.COUNT c{round} 7")), Int(1));
    }
}

#[test]
fn resp3_has_booleans_and_maps() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client().of_resp3();
    let bools = |values: &[bool]| Reply::Array(values.iter().map(|value| Bool(*value)).collect());
    check(
        &mut client,
        &[
            ("BF.ADD a x", Bool(true)),
            ("BF.MADD a x y", bools(&[false, true])),
            ("BF.EXISTS a y", Bool(true)),
            ("BF.MEXISTS none y", bools(&[false])),
            ("BF.CARD a", Int(2)),
            ("BF.INFO a ITEMS", Reply::Map(vec![(text("Number of items inserted"), Int(2))])),
            ("CF.ADD c x", Bool(true)),
            ("CF.INSERT c ITEMS x", bools(&[true])),
            ("CF.INSERTNX c ITEMS x y", ints(&[0, 1])),
            ("CF.ADDNX c x", Bool(false)),
            ("CF.COUNT c x", Int(2)),
            ("CF.DEL c x", Bool(true)),
            ("CLIENT GETNAME", Null),
            ("HELLO 4", Reply::Error("NOPROTO unsupported protocol version".into())),
        ],
    );
    assert!(matches!(client.line("BF.INFO a"), Reply::Map(entries) if entries.len() == 5));
    // Back to RESP2, in the middle of a pipeline.
    assert!(matches!(client.line("HELLO 3 SETNAME me"), Reply::Map(_)));
    assert_eq!(client.line("CLIENT GETNAME"), text("me"));
}

#[test]
fn a_pipeline_is_answered_in_order_and_sees_its_own_changes() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let lines = [
        ("BF.EXISTS a x", Int(0)),
        ("BF.ADD a x", Int(1)),
        ("BF.EXISTS a x", Int(1)),
        ("CF.ADD c x", Int(1)),
        ("BF.ADD a x", Int(0)),
        ("CF.COUNT c x", Int(1)),
        ("BF.ADD a y", Int(1)),
        ("BF.CARD a", Int(2)),
        ("CF.DEL c x", Int(1)),
        ("CF.EXISTS c x", Int(0)),
        ("PING", text("PONG")),
        ("BF.MEXISTS a x y z", ints(&[1, 1, 0])),
    ];
    for _ in 0..2 {
        let bytes: Vec<u8> = lines
            .iter()
            .flat_map(|(line, _)| crate::client::request(&line.split(' ').collect::<Vec<_>>()))
            .collect();
        client.send(&bytes);
        for (line, expected) in &lines {
            let reply = client.next().unwrap();
            // The second time, the keys of `a` are present.
            assert!(reply == *expected || line.contains(" a "), "{line}: {reply:?}");
        }
    }
}

#[test]
fn a_transaction_is_answered_as_one_array() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    let queued = || text("QUEUED");
    check(
        &mut client,
        &[
            ("MULTI", OK()),
            ("BF.ADD a x", queued()),
            ("BF.EXISTS a x", queued()),
            ("BF.MADD a x y", queued()),
        ],
    );
    assert_eq!(client.line("EXEC"), Reply::Array(vec![Int(1), Int(1), ints(&[0, 1])]));
    check(
        &mut client,
        &[("MULTI", OK()), ("BF.ADD a z", queued()), ("DISCARD", OK()), ("BF.EXISTS a z", Int(0))],
    );
    check(&mut client, &[("MULTI", OK())]);
    assert!(client.line("BF.ADD a").is_error());
    assert!(client.line("EXEC").error().starts_with("EXECABORT"));
    check_errors(
        &mut client,
        &[("EXEC", "ERR EXEC without MULTI"), ("DISCARD", "ERR DISCARD without MULTI")],
    );
}

#[test]
fn keys_are_files_that_are_listed_scanned_and_removed_if_allowed() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--allow-delete"]);
    let mut client = server.client();
    for key in 0..25 {
        assert_eq!(client.ask(&["BF.ADD".to_owned(), format!("key:{key}"), "x".to_owned()]), Int(1));
    }
    assert_eq!(client.line("CF.ADD ../c* x"), Int(1));
    assert!(folder.join("key%3A7.gowk").exists() && folder.join("%2E.%2Fc%2A.gowk").exists());
    // None of these is a filter of a key.
    for name in ["other", "a%41.gowk", ".gowk"] {
        std::fs::write(folder.join(name), "x").unwrap();
    }
    check(
        &mut client,
        &[
            ("DBSIZE", Int(26)),
            ("EXISTS key:1 key:1 none", Int(2)),
            ("KEYS key:7", Reply::Array(vec![text("key:7")])),
        ],
    );
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = client.line(&format!("SCAN {cursor} MATCH key:* COUNT 4"));
        let Reply::Array(parts) = reply else { panic!("{reply:?}") };
        let [Reply::Text(next), Reply::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(keys.iter().cloned());
        cursor.clone_from(next);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 25, "{found:?}");
    assert_eq!(
        client.line("SCAN 0 COUNT 100 TYPE MBbloomCF"),
        Reply::Array(vec![text("0"), Reply::Array(vec![text("../c*")])])
    );
    check(
        &mut client,
        &[
            ("DEL key:1 key:2 none", Int(2)),
            ("UNLINK key:3", Int(1)),
            ("DBSIZE", Int(23)),
            ("BF.EXISTS key:1 x", Int(0)),
            ("BF.ADD key:1 y", Int(1)),
            ("BF.EXISTS key:1 x", Int(0)),
        ],
    );
    assert!(!folder.join("key%3A2.gowk").exists() && !folder.join("key%3A2.gowk-journal").exists());
    check_errors(
        &mut client,
        &[
            ("SCAN x", "ERR invalid cursor"),
            ("SCAN 0 COUNT", "ERR syntax error"),
            ("SCAN 0 COUNT 0", "ERR syntax error"),
            ("KEYS [", "ERR bad pattern"),
        ],
    );
    assert!(client.ask(&["BF.ADD", "", "x"]).error().contains("the key is empty"));
    assert!(client.ask(&["BF.ADD", &"x".repeat(300), "x"]).error().contains("too long"));

    let mut careful = Server::start(&folder, &[]);
    assert!(careful.client().line("DEL key:4").error().starts_with("NOPERM"));
    assert_eq!(careful.terminate(), Some(0));
}

#[test]
fn general_commands_answer_what_clients_expect() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    check(
        &mut client,
        &[
            ("PING", text("PONG")),
            ("PING hello", text("hello")),
            ("ECHO hello", text("hello")),
            ("SELECT 0", OK()),
            ("CLIENT SETNAME me", OK()),
            ("CLIENT GETNAME", text("me")),
            ("CLIENT SETINFO LIB-NAME x", OK()),
            ("RESET", text("RESET")),
            ("CLIENT GETNAME", Null),
            ("COMMAND DOCS", Reply::Array(vec![])),
            ("CONFIG GET save", Reply::Array(vec![])),
        ],
    );
    check_errors(
        &mut client,
        &[
            ("SELECT 1", "ERR DB index is out of range"),
            ("AUTH x", "ERR AUTH <password> called without any password configured"),
            ("CLIENT NONE", "ERR unknown subcommand 'NONE'"),
            ("PING a b", "ERR wrong number"),
        ],
    );
    let Reply::Array(commands) = client.line("COMMAND") else { panic!() };
    assert_eq!(client.line("COMMAND COUNT"), Int(commands.len().try_into().unwrap()));
    client.line("BF.ADD seen:urls x");
    let Reply::Text(info) = client.line("INFO") else { panic!() };
    for part in
        ["redis_version:", "connected_clients:1\r\n", "loading:0", "filter_seen%3Aurls:kind=set,keys=1,"]
    {
        assert!(info.contains(part), "{part} not in {info}");
    }
    let Reply::Text(clients) = client.line("INFO clients") else { panic!() };
    assert!(clients.contains("# Clients") && !clients.contains("# Server"));
    // Health checks are sent as a line.
    client.send(b"PING\r\n");
    assert_eq!(client.next(), Some(text("PONG")));
    assert_eq!(client.line("QUIT"), OK());
    assert_eq!(client.next(), None);
}
