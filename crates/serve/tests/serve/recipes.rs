//! The recipes of `docs/serving.md`, with a client that sends the same commands as the programs there.
//!
//! Invariants checked:
//!
//! 1. If crawlers ask for URLs at the same time, exactly one gets each URL, even if the server is killed in between.
//! 2. A pipeline passes each event once. After a stop of the server, it passes exactly the unanswered events again.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Barrier;

use crate::client::{Bool, Int, Reply, Server, folder, text};

/// Checks that the page has these lines.
fn page(lines: &[&str]) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serving.md");
    let page = fs::read_to_string(path).unwrap();
    for line in lines {
        assert!(page.contains(line), "docs/serving.md has no {line:?}");
    }
}

const RESERVE: &str = "GOWK.RESERVE seen:urls 50000000 0.0001";
const RESERVE_EVENTS: &str = "GOWK.RESERVE seen:events 10000000 0.00001 TTL 604800";

#[test]
fn crawlers_that_share_a_filter_get_each_url_once() {
    page(&[RESERVE, "BF.ADD\", \"seen:urls\", url"]);
    let (_dir, folder) = folder();
    let mut server = Server::start(&folder, &[]);
    assert_eq!(server.client().line(&RESERVE.replace("50000000", "50000")), text("OK"));
    let mut taken = BTreeMap::<u64, u64>::new();
    for round in 0..2 {
        let start = Barrier::new(6);
        let fetched: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let crawlers: Vec<_> = (0..6_u64)
                .map(|crawler| {
                    let (mut client, start) = (server.client(), &start);
                    scope.spawn(move || {
                        start.wait();
                        // Each crawler finds the links of all, in an order of its own.
                        let urls = (0..300).map(|step| round * 150 + (step * 7 + crawler * 50) % 300);
                        let ask = |url: &u64| {
                            let url = format!("https://example.org/{url}");
                            client.ask(&["BF.ADD", "seen:urls", &url]) == Int(1)
                        };
                        urls.filter(ask).collect()
                    })
                })
                .collect();
            crawlers.into_iter().map(|crawler| crawler.join().unwrap()).collect()
        });
        fetched.into_iter().flatten().for_each(|url| *taken.entry(url).or_default() += 1);
        // The answers were durable.
        server.kill();
        server = Server::start(&folder, &[]);
    }
    assert_eq!(taken.len(), 450);
    assert!(taken.values().all(|times| *times == 1), "{taken:?}");
}

#[test]
fn a_pipeline_passes_each_event_once() {
    let drops = "if [\"0\", \"false\"].contains(meta(\"is_new\")) { deleted() }";
    page(&[RESERVE_EVENTS, "command: bf.add", "[ \"seen:events\", this.id ]", drops]);
    let (_dir, folder) = folder();
    let mut server = Server::start(&folder, &[]);
    assert_eq!(server.client().line(&RESERVE_EVENTS.replace("10000000", "10000")), text("OK"));
    // Events that are delivered at least once.
    let events: Vec<u64> = (0..400).map(|number| number * 13 % 250).collect();
    let mut passed = Vec::new();
    for (number, part) in events.chunks(100).enumerate() {
        // Every other client speaks RESP3.
        let (mut client, new, seen) = match number % 2 {
            0 => (server.client(), Int(1), Int(0)),
            _ => (server.client().of_resp3(), Bool(true), Bool(false)),
        };
        for event in part {
            match client.ask(&["bf.add", "seen:events", &format!("e{event}")]) {
                answer if answer == new => passed.push(*event),
                answer => assert_eq!(answer, seen),
            }
        }
        if number == 1 {
            server.kill();
            server = Server::start(&folder, &[]);
        }
    }
    passed.sort_unstable();
    assert_eq!(passed, (0..250).collect::<Vec<_>>());
    assert!(matches!(server.client().line("BF.INFO seen:events"), Reply::Array(_)));
    assert_eq!(server.terminate(), Some(0));
}
