//! A service that answers whether keys were seen: async, with tokio.
//!
//! ```text
//! cargo run --release --example service -- seen.gowk 127.0.0.1:7070
//! ```
//!
//! Each line from a client is a key. The service remembers it, and answers `new` or `seen` on a line; an answer means that
//! the key is durable. All clients share one writer: what they bring while a commit syncs goes into the next one together.
//! A line `?KEY` only asks. It is looked up in the map, on the thread that has the connection.

use std::io;

use gowk::{Options, SharedWriter};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn serve(mut client: TcpStream, seen: SharedWriter) -> Outcome<()> {
    let (reader, mut writer) = client.split();
    let mut keys = BufReader::new(reader).split(b'\n');
    while let Some(key) = keys.next_segment().await? {
        let seen_before = match key.strip_prefix(b"?") {
            Some(key) => seen.contains(key)?,
            None => !seen.insert(&key).await?,
        };
        writer.write_all(if seen_before { b"seen\n" } else { b"new\n" }).await?;
    }
    Ok(())
}

async fn listen(filter: String, address: String) -> Outcome<()> {
    let open = || Options::new().capacity(1_000_000).open(filter)?.into_shared();
    let (seen, listener) = (spawn_blocking(open).await??, TcpListener::bind(address).await?);
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
