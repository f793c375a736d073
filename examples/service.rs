//! A service that answers whether keys were seen: async, with tokio.
//!
//! ```text
//! cargo run --release --example service -- seen.gowk 127.0.0.1:7070
//! ```
//!
//! Each line from a client is a key. The service remembers it, and answers `new` or `seen` on a line. A lookup may wait for
//! memory or the disk, and a commit waits for the disk. Both run on tokio's threads for blocking calls, so the threads that
//! serve connections never wait.

use std::io;
use std::sync::{Arc, Mutex};

use gowk::{Options, Writer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Seen = Arc<Mutex<Writer>>;

/// Remembers a key durably. Returns whether it is new.
async fn insert(seen: Seen, key: Vec<u8>) -> Outcome<bool> {
    spawn_blocking(move || {
        let mut seen = seen.lock().map_err(|_| "an earlier call has panicked")?;
        let new = seen.insert(&key)?;
        seen.commit()?; // a busy service would commit by the clock, before it answers
        Ok(new)
    })
    .await?
}

async fn serve(mut client: TcpStream, seen: Seen) -> Outcome<()> {
    let (reader, mut writer) = client.split();
    let mut keys = BufReader::new(reader).split(b'\n');
    while let Some(key) = keys.next_segment().await? {
        let answer: &[u8] = if insert(seen.clone(), key).await? { b"new\n" } else { b"seen\n" };
        writer.write_all(answer).await?;
    }
    Ok(())
}

async fn listen(filter: String, address: String) -> Outcome<()> {
    let writer = spawn_blocking(|| Options::new().capacity(1_000_000).open(filter)).await??;
    let (seen, listener) = (Arc::new(Mutex::new(writer)), TcpListener::bind(address).await?);
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        let seen = seen.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(client, seen).await {
                eprintln!("{error}");
            }
        });
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: service FILTER ADDRESS");
    let (filter, address) = (arguments.next().ok_or_else(usage)?, arguments.next().ok_or_else(usage)?);
    tokio::runtime::Builder::new_multi_thread().enable_io().build()?.block_on(listen(filter, address))
}
