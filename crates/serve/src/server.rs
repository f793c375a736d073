//! The server: its listeners, its connections, its shutdown.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::connection;
use crate::folder::Folder;
use crate::options::{Arguments, Settings};

/// How long connections may continue their current work when the server ends.
const END: Duration = Duration::from_secs(5);

/// The state that all connections share.
#[derive(Debug)]
pub struct Server {
    pub folder: Folder,
    pub settings: Settings,
    pub started: Instant,
    pub counters: Counters,
    /// True once the server ends.
    ending: watch::Sender<bool>,
}

/// Numbers for `INFO`.
#[derive(Debug, Default)]
pub struct Counters {
    pub clients: AtomicUsize,
    pub connections: AtomicU64,
    pub refused_connections: AtomicU64,
    pub commands: AtomicU64,
    pub errors: AtomicU64,
    /// Bytes of requests beyond each connection's own allowance.
    pub buffered: AtomicUsize,
}

impl Server {
    /// A server of this folder. It does not listen yet.
    pub fn new(folder: &Path, settings: Settings) -> io::Result<Self> {
        let folder = Folder::new(folder, settings.commits, settings.most_filter_bytes)?;
        let (started, counters) = (Instant::now(), Counters::default());
        Ok(Self { folder, settings, started, counters, ending: watch::Sender::new(false) })
    }

    /// Becomes true when the server ends.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Serves one connection until it ends.
    pub async fn serve(self: Arc<Self>, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Counters { clients, connections, refused_connections, .. } = &self.counters;
        let id = connections.fetch_add(1, Ordering::Relaxed) + 1;
        if clients.fetch_add(1, Ordering::Relaxed) >= self.settings.most_clients {
            refused_connections.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
        } else {
            // A client that has gone needs no report.
            let _ = connection::serve(&self, id, &mut stream).await;
        }
        clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves until a signal ends the process. Prints the addresses on which it listens.
pub async fn run(arguments: &Arguments, settings: Settings) -> io::Result<bool> {
    let place =
        |what: String| move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let folder = &arguments.folder;
    let server = Server::new(folder, settings)
        .map_err(place(format!("{}: cannot serve the folder", folder.display())))?;
    let server = Arc::new(server);
    // Registered before anybody can connect, so that no signal is missed.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    if let Some(address) = arguments.address() {
        let listener =
            TcpListener::bind(address).await.map_err(place(format!("{address}: cannot listen")))?;
        println!("listening on {}", listener.local_addr()?);
        tokio::spawn(accept_tcp(server.clone(), listener));
    }
    let mut socket = None;
    if let Some(path) = &arguments.unix {
        let failed = place(format!("{}: cannot listen", path.display()));
        let listener = listen_at(path).map_err(failed)?;
        println!("listening on {}", path.display());
        socket = Some(Socket(path.clone()));
        tokio::spawn(accept_unix(server.clone(), listener));
    }
    let sweeping = tokio::spawn(sweep(server.clone()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(socket);
    server.ending.send_replace(true);
    let deadline = Instant::now() + END;
    while server.counters.clients.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sweeping.abort();
    let _ = sweeping.await;
    let failures = server.folder.close().await;
    failures.iter().for_each(|error| eprintln!("gowk-serve: {error}"));
    Ok(failures.is_empty())
}

async fn sweep(server: Arc<Server>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        server.folder.sweep(server.settings.idle).await;
    }
}

/// The socket's file, which is removed at the end.
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Replaces a dead server's socket, but no other file.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

async fn accept_tcp(server: Arc<Server>, listener: TcpListener) {
    let mut ending = server.ending();
    while !*ending.borrow() {
        tokio::select! {
            _ = ending.changed() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(server.clone().serve(stream));
                }
                Err(error) => accept_later(&error).await,
            }
        }
    }
}

async fn accept_unix(server: Arc<Server>, listener: UnixListener) {
    let mut ending = server.ending();
    while !*ending.borrow() {
        tokio::select! {
            _ = ending.changed() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(server.clone().serve(stream));
                }
                Err(error) => accept_later(&error).await,
            }
        }
    }
}

/// Waits before the next connection is accepted. Usually no file descriptor is free, and a connection must end first.
async fn accept_later(error: &io::Error) {
    eprintln!("gowk-serve: cannot accept a connection: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}
