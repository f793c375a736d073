//! The program's arguments, and what a run needs of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gowk::Commits;

use crate::request::Bounds;

/// When a change is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Ack {
    /// Once it is durable: a crash loses nothing that was answered
    #[default]
    Durable,
    /// At once, with a commit each second: a crash loses up to a second of answered changes
    Early,
}

/// Serve a folder of gowk filters by the Redis protocol
///
/// The commands BF.* work on sets, CF.* on counting filters. The key `seen:urls` is the file `seen%3Aurls.gowk` in the
/// folder, which other processes may read at the same time. An answer means that the change is durable.
#[derive(Clone, Debug, Parser)]
#[command(name = "gowk-serve", version, max_term_width = 100)]
pub struct Arguments {
    /// The folder of the filters, which must exist
    pub folder: PathBuf,

    /// The address to listen on; an address that other machines reach needs --password-file [default: 127.0.0.1:6379 without --unix]
    ///
    /// Names are not resolved. Nothing is encrypted: let a proxy or tunnel do that.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// Listen on a Unix socket at this path, with the rights that the umask leaves
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,

    /// A file whose first line is the password that clients must send
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// When a change is answered
    #[arg(long, value_enum, default_value_t)]
    pub ack: Ack,

    /// Allow DEL and UNLINK, which remove filters with their files
    #[arg(long)]
    pub allow_delete: bool,

    /// Close a filter after this many seconds without a request, so that other processes may write to it
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub idle: u64,

    /// The most bytes that the file of a filter may have which a client creates; it is kept in the filter
    #[arg(long, value_name = "BYTES")]
    pub max_filter_size: Option<u64>,

    /// The most connections at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    pub max_clients: usize,

    /// The most bytes of one request
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub max_request: usize,

    /// The most bytes that requests of all connections may wait in together, beyond 64 KiB each
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub max_buffers: usize,

    /// Threads that serve connections. A lookup whose page must come from the disk blocks one [default: two a processor]
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<usize>,
}

/// How many arguments one request may have, as in Redis.
const MOST_ARGUMENTS: usize = 1 << 20;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    pub commits: Commits,
    pub password: Option<Vec<u8>>,
    pub allow_delete: bool,
    pub idle: u64,
    pub most_filter_bytes: Option<u64>,
    pub most_clients: usize,
    pub bounds: Bounds,
    pub most_buffers: usize,
}

/// Why the arguments are refused.
#[derive(Debug, thiserror::Error)]
pub enum BadArguments {
    /// Other machines could use the server without a password.
    #[error("--listen {0} can be reached from other machines; give a password with --password-file")]
    Open(SocketAddr),
    /// The password file cannot be used.
    #[error("{}: cannot read the password: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file's first line is empty.
    #[error("{}: its first line is empty; write the password there", .0.display())]
    NoPassword(PathBuf),
}

impl Arguments {
    /// The address to listen on, if any.
    pub fn address(&self) -> Option<SocketAddr> {
        let default = SocketAddr::from(([127, 0, 0, 1], 6379));
        self.listen.or(self.unix.is_none().then_some(default))
    }

    /// Checks the arguments.
    pub fn settings(&self) -> Result<Settings, BadArguments> {
        let password = self.password_file.as_ref().map(read_password).transpose()?;
        if let Some(address) = self.address().filter(|address| !address.ip().is_loopback())
            && password.is_none()
        {
            return Err(BadArguments::Open(address));
        }
        Ok(Settings {
            commits: match self.ack {
                Ack::Durable => Commits::Always,
                Ack::Early => Commits::Every(Duration::from_secs(1)),
            },
            password,
            allow_delete: self.allow_delete,
            idle: self.idle,
            most_filter_bytes: self.max_filter_size,
            most_clients: self.max_clients,
            bounds: Bounds { bytes: self.max_request, arguments: MOST_ARGUMENTS },
            most_buffers: self.max_buffers,
        })
    }
}

fn read_password(path: &PathBuf) -> Result<Vec<u8>, BadArguments> {
    let text =
        std::fs::read(path).map_err(|source| BadArguments::Unreadable { path: path.clone(), source })?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    if line.is_empty() { Err(BadArguments::NoPassword(path.clone())) } else { Ok(line.to_vec()) }
}
