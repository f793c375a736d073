//! Any bytes on a connection of `gowk-serve`.
//!
//! Invariants checked: whatever a client sends, the server answers or closes the connection, without panic or hang, and
//! what it answers are whole replies; another client is served afterwards; the filters then close without an error.
//!
//! Input: a byte that chooses the length of the pieces that the bytes are sent in, and the bytes. `seeds/serve` has
//! commands of each kind.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{fs, thread};

use clap::Parser;
use gowk_fuzz::{Input, folder};
use gowk_serve::options::Arguments;
use gowk_serve::server::Server;
use libfuzzer_sys::fuzz_target;
use redis_protocol::resp3::decode::complete::decode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));

/// All replies to these pieces.
async fn replies(server: &Arc<Server>, pieces: impl Iterator<Item = &[u8]>) -> Vec<u8> {
    let (client, stream) = tokio::io::duplex(4096);
    let (mut reading, mut writing) = tokio::io::split(client);
    let serving = tokio::spawn(server.clone().serve(stream));
    let mut replies = Vec::new();
    let send = async {
        for piece in pieces {
            // The server may have closed the connection.
            if writing.write_all(piece).await.is_err() {
                break;
            }
        }
        let _ = writing.shutdown().await;
    };
    let (_, read) = tokio::join!(send, reading.read_to_end(&mut replies));
    read.expect("the connection ends");
    serving.await.expect("the connection's task panicked");
    replies
}

/// Waits for the threads of closed filters, which end on their own. The leak checker takes what an ending thread is about
/// to free for lost.
fn wait_for_writers() {
    let is_writer =
        |task: fs::DirEntry| fs::read(task.path().join("comm")).is_ok_and(|name| name == b"gowk-writer\n");
    while fs::read_dir("/proc/self/task").expect("the threads").flatten().any(is_writer) {
        thread::sleep(Duration::from_millis(1));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let piece = usize::from(input.u8()) + 1;
    let dir = folder();
    let path = dir.path().to_str().expect("a name in UTF-8");
    // Whatever sizes the bytes ask for, the files stay small.
    let arguments =
        ["gowk-serve", path, "--allow-delete", "--max-filter-size", "4194304", "--max-request", "65536"];
    let settings = Arguments::parse_from(arguments).settings().expect("settings");
    let server = Arc::new(Server::new(dir.path(), settings).expect("a server"));
    RUNTIME.block_on(async {
        let answered = replies(&server, input.0.chunks(piece)).await;
        let mut rest = answered.as_slice();
        while let Some((_, length)) = decode(&bytes::Bytes::copy_from_slice(rest)).expect("a reply") {
            rest = rest.get(length..).unwrap_or_default();
        }
        assert!(rest.is_empty(), "half a reply: {:?}", rest.escape_ascii().to_string());
        let pong = replies(&server, [b"*1\r\n$4\r\nPING\r\n".as_slice()].into_iter()).await;
        assert_eq!(pong, b"+PONG\r\n");
        assert!(server.folder.close().await.is_empty(), "a filter does not close");
    });
    wait_for_writers();
});
