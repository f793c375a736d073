//! Invariants checked with `--ack early`: answers come before the commit. Lookups see answered changes. The clock
//! commits, and the end of the server also commits.

use gowk::{Lookup, Reader};

use crate::client::{Int, Server, folder, ints, text};

#[test]
fn lookups_see_answered_changes_that_are_committed_later() {
    let (_dir, folder) = folder();
    let mut server = Server::start(&folder, &["--ack", "early"]);
    let (mut client, mut other) = (server.client(), server.client());
    // So low a rate that no key is taken for another.
    assert_eq!(client.line("BF.RESERVE s 0.00000001 1000"), text("OK"));
    for round in 0..50 {
        let key = format!("key {round}");
        assert_eq!(client.ask(&["BF.ADD", "s", &key]), Int(1));
        assert_eq!(other.ask(&["BF.EXISTS", "s", &key]), Int(1));
        assert_eq!(other.ask(&["BF.MEXISTS", "s", &key, "none"]), ints(&[1, 0]));
        assert_eq!(client.ask(&["CF.ADD", "c", "key"]), Int(1));
        assert_eq!(other.ask(&["CF.COUNT", "c", "key"]), Int(round + 1));
        assert_eq!(other.ask(&["BF.CARD", "s"]), Int(round + 1));
    }
    assert_eq!(client.line("INFO persistence"), text("# Persistence\r\nloading:0\r\nack:early\r\n\r\n"));
    // The clock commits without further requests.
    let reader = Reader::open(folder.join("s.gowk")).unwrap();
    while reader.len().unwrap() < 50 {
        std::thread::yield_now();
    }
    assert_eq!(client.ask(&["BF.ADD", "s", "last"]), Int(1));
    assert_eq!(server.terminate(), Some(0));
    assert!(Reader::open(folder.join("s.gowk")).unwrap().contains("last").unwrap());
}
