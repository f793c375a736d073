//! Invariants checked, for clients that behave badly:
//!
//! 1. Requests beyond the limits, invalid requests and nested arrays are refused, and their connection is closed.
//! 2. A client that sends half a request, sends nothing, or does not read its replies delays nobody else.
//! 3. Memory stays bounded: for requests of gigabytes, and for many connections.
//! 4. Without the password only `AUTH` and `HELLO` work, and an address that other machines reach needs a password.

use std::fs;
use std::io::Write;
use std::iter;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::client::{Int, Reply, Server, folder, request, text};

/// The peak of the process's memory so far, in megabytes.
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn what_is_no_request_is_refused() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--max-request", "100000"]);
    for (bytes, expected) in [
        ("*1\r\n".repeat(100_000).into_bytes(), "Protocol error: expected '$', got '*'"),
        (b"*1\r\n$9000000000\r\n".to_vec(), "Protocol error: the request has more bytes"),
        (b"*9000000000\r\n".to_vec(), "Protocol error: the request has more arguments"),
        (
            request(&[b"BF.ADD".to_vec(), b"s".to_vec(), vec![0; 100_000]]),
            "Protocol error: the request has more bytes",
        ),
        (b"*1\r\n$x\r\n".to_vec(), "Protocol error: invalid bulk length"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "Protocol error: inline commands"),
        (vec![0xff; 5000], "Protocol error: inline commands"),
    ] {
        let mut client = server.client();
        // The server may close the connection before it has read everything.
        let _ = client.stream.write_all(&bytes);
        let reply = client.next();
        if let Some(reply) = reply {
            assert!(reply.error().contains(expected), "{reply:?}");
            assert_eq!(client.next(), None);
        }
    }
    assert_eq!(server.client().line("BF.ADD s x"), Int(1));
}

#[test]
fn clients_that_stop_hold_up_nobody() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--threads", "2"]);
    let whole = request(&["BF.MADD", "s", "a", "b"]);
    let mut halves: Vec<_> = (1..whole.len()).map(|cut| (server.client(), cut)).collect();
    for (client, cut) in &mut halves {
        client.send(&whole[..*cut]);
    }
    // Sends much and reads nothing, until the connection accepts no more.
    let mut deaf = server.client();
    deaf.stream.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let info = request(&["COMMAND"]).repeat(100);
    while deaf.stream.write_all(&info).is_ok() {}
    let mut client = server.client();
    for key in 0..10 {
        assert_eq!(client.ask(&["BF.ADD".to_owned(), "s".to_owned(), key.to_string()]), Int(1));
    }
    for (client, cut) in &mut halves {
        client.send(&whole[*cut..]);
        assert!(matches!(client.next(), Some(Reply::Array(answers)) if answers.len() == 2));
    }
    assert!(peak(&server) < 200, "{} MB", peak(&server));
}

/// 64 clients send 15 MB each of a request that never ends, 960 MB in all.
#[test]
fn unfinished_requests_take_bounded_memory_together() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--max-buffers", "50000000"]);
    let mut large = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\ns\r\n$16000000\r\n".to_vec();
    large.resize(15_000_000, b'x');
    let refused = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64)
            .map(|_| {
                let (mut client, large) = (server.client(), &large);
                scope.spawn(move || (client.stream.write_all(large).is_err(), client))
            })
            .collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(server.client().line("BF.ADD s x"), Int(1));
        outcomes.iter().filter(|(refused, _)| *refused).count()
    });
    assert!((40..64).contains(&refused), "{refused}");
    assert!(peak(&server) < 300, "{} MB", peak(&server));
    // Their room is free again.
    let mut whole = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\ns\r\n$16000000\r\n".to_vec();
    whole.resize(whole.len() + 16_000_000, b'y');
    whole.extend(b"\r\n");
    loop {
        let mut client = server.client();
        if client.stream.write_all(&whole).is_ok() && client.next() == Some(Int(1)) {
            break;
        }
    }
}

#[test]
fn connections_beyond_the_bound_are_refused_and_many_take_little_memory() {
    let (_dir, folder) = folder();
    let server = Server::start(&folder, &["--max-clients", "400"]);
    let mut first = server.client();
    // At the default rate, one of 400 keys is taken for another in 0.5 % of all runs.
    assert_eq!(first.line("BF.RESERVE s 0.00000001 1000"), text("OK"));
    let mut clients: Vec<_> = iter::once(first).chain((1..400).map(|_| server.client())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&request(&["BF.ADD".to_owned(), "s".to_owned(), number.to_string()]));
    }
    assert!(clients.iter_mut().all(|client| client.next() == Some(Int(1))));
    let mut refused = server.client();
    assert_eq!(refused.next(), Some(Reply::Error("ERR max number of clients reached".into())));
    clients.truncate(100);
    // The server notices that the clients have gone.
    while server.client().next_or_ping() != Some(text("PONG")) {}
    assert!(peak(&server) < 100, "{} MB", peak(&server));
}

#[test]
fn nothing_works_without_the_password() {
    let (dir, folder) = folder();
    let file = dir.path().join("password");
    fs::write(&file, "secret\nnot this\n").unwrap();
    let server = Server::start(&folder, &["--password-file", file.to_str().unwrap()]);
    let mut client = server.client();
    for line in ["PING", "BF.ADD s x", "INFO", "KEYS *", "MULTI", "EXEC", "HELLO 3", "HELLO"] {
        let reply = client.line(line);
        assert!(reply.error().starts_with("NOAUTH"), "{line}: {reply:?}");
    }
    for line in
        ["AUTH wrong", "AUTH secre", "AUTH secretx", "AUTH other secret", "HELLO 2 AUTH default wrong"]
    {
        let reply = client.line(line);
        assert!(reply.error().starts_with("WRONGPASS"), "{line}: {reply:?}");
    }
    assert!(client.line("PING").is_error());
    assert_eq!(client.line("AUTH secret"), text("OK"));
    assert_eq!(client.line("BF.ADD s x"), Int(1));
    assert_eq!(client.line("RESET"), text("RESET"));
    assert!(client.line("PING").is_error());
    assert!(!client.line("HELLO 2 AUTH default secret").is_error());
    assert_eq!(client.line("PING"), text("PONG"));
    // Before the password, a request may not be large.
    let mut stranger = server.client();
    let _ = stranger.stream.write_all(&request(&[b"AUTH".to_vec(), vec![b'x'; 8000]]));
    assert!(stranger.next().is_none_or(|reply| reply.error().contains("more bytes")));
}

#[test]
fn an_address_that_others_reach_needs_a_password() {
    let (dir, folder) = folder();
    let file = dir.path().join("password");
    fs::write(&file, "\n").unwrap();
    for (arguments, expected) in [
        (&["--listen", "0.0.0.0:0"][..], "give a password with --password-file"),
        (&["--listen", "[::]:0"], "give a password with --password-file"),
        (&["--listen", "0.0.0.0:0", "--password-file", file.to_str().unwrap()], "its first line is empty"),
        (&["--password-file", "/nowhere"], "cannot read the password"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_gowk-serve")).arg(&folder).args(arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && message.contains(expected), "{message}");
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_gowk-serve")).arg(dir.path().join("none")).output().unwrap();
    assert!(output.status.code() == Some(2));
}

#[test]
fn a_unix_socket_is_made_anew_after_a_kill_and_removed_at_the_end() {
    let (dir, folder) = folder();
    let socket = dir.path().join("socket");
    let mut server = Server::start(&folder, &["--unix", socket.to_str().unwrap()]);
    assert!(UnixStream::connect(&socket).is_ok());
    server.kill();
    assert!(socket.exists());
    let mut server = Server::start(&folder, &["--unix", socket.to_str().unwrap()]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"QUIT\r\n").unwrap();
    let mut reply = String::new();
    std::io::Read::read_to_string(&mut stream, &mut reply).unwrap();
    assert_eq!(reply, "+OK\r\n");
    assert_eq!(server.terminate(), Some(0));
    assert!(!socket.exists());
    // A file that is no socket is not removed.
    fs::write(&socket, "x").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gowk-serve"))
        .arg(&folder)
        .args(["--unix", socket.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.code() == Some(2) && fs::read(&socket).unwrap() == b"x");
    drop(TcpStream::connect(&server.address));
}
