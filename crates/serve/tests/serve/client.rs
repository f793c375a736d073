//! The server as a process, and a client that reads replies with the crate `redis-protocol`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis_protocol::resp2::decode::decode as decode2;
use redis_protocol::resp2::types::OwnedFrame as Frame2;
use redis_protocol::resp3::decode::complete::decode as decode3;
use redis_protocol::resp3::types::OwnedFrame as Frame3;

/// A running server, which dropping it kills.
pub(crate) struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_gowk-serve")), folder, arguments)
    }

    /// Starts the server through a command that finally runs its arguments.
    pub(crate) fn run(mut command: Command, folder: &Path, arguments: &[&str]) -> Self {
        command.arg(folder).args(arguments);
        if !arguments.contains(&"--listen") && !arguments.contains(&"--unix") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("the server has started").to_owned();
        Self { child, address }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end. Returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply in the form that the tests use.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Reply {
    Text(String),
    Error(String),
    Int(i64),
    Bool(bool),
    Null,
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

pub(crate) use Reply::{Bool, Int, Null};

pub(crate) fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

pub(crate) fn ints(numbers: &[i64]) -> Reply {
    Reply::Array(numbers.iter().map(|number| Int(*number)).collect())
}

impl Reply {
    /// The text of an error.
    pub(crate) fn error(&self) -> &str {
        let Self::Error(text) = self else { panic!("{self:?} is no error") };
        text
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl From<Frame2> for Reply {
    fn from(frame: Frame2) -> Self {
        match frame {
            Frame2::SimpleString(bytes) | Frame2::BulkString(bytes) => Self::Text(lossy(&bytes)),
            Frame2::Error(text) => Self::Error(text),
            Frame2::Integer(number) => Int(number),
            Frame2::Array(frames) => Self::Array(frames.into_iter().map(Self::from).collect()),
            Frame2::Null => Null,
        }
    }
}

impl From<Frame3> for Reply {
    fn from(frame: Frame3) -> Self {
        match frame {
            Frame3::SimpleString { data, .. } | Frame3::BlobString { data, .. } => Self::Text(lossy(&data)),
            Frame3::SimpleError { data, .. } => Self::Error(data),
            Frame3::Number { data, .. } => Int(data),
            Frame3::Boolean { data, .. } => Bool(data),
            Frame3::Array { data, .. } => Self::Array(data.into_iter().map(Self::from).collect()),
            Frame3::Map { data, .. } => {
                Self::Map(data.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
            Frame3::Null => Null,
            other => panic!("{other:?}"),
        }
    }
}

/// The bytes of a request.
pub(crate) fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments.iter().map(AsRef::as_ref) {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// One connection.
pub(crate) struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
    resp3: bool,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, unread: Vec::new(), resp3: false }
    }

    /// Switches to RESP3 with `HELLO 3`.
    pub(crate) fn of_resp3(mut self) -> Self {
        self.resp3 = true;
        assert!(matches!(self.ask(&["HELLO", "3"]), Reply::Map(_)));
        self
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply; `None` once the server has closed the connection or died.
    pub(crate) fn next(&mut self) -> Option<Reply> {
        loop {
            let (reply, length) = match self.resp3 {
                true => decode3(&self.unread).unwrap().map(|(frame, length)| (frame.into(), length)),
                false => decode2(&self.unread).unwrap().map(|(frame, length)| (frame.into(), length)),
            }
            .unzip();
            if let (Some(reply), Some(length)) = (reply, length) {
                self.unread.drain(..length);
                return Some(reply);
            }
            let mut buffer = [0; 16 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.unread.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn ask<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Reply {
        self.send(&request(arguments));
        self.next().expect("the server answers")
    }

    /// Sends the words of a line as one request.
    pub(crate) fn line(&mut self, line: &str) -> Reply {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }
}

/// A folder to serve.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filters");
    std::fs::create_dir(&path).unwrap();
    (dir, path)
}

impl Client {
    /// The answer to `PING`; `None` if the server closes the connection instead.
    pub(crate) fn next_or_ping(&mut self) -> Option<Reply> {
        let _ = self.stream.write_all(&request(&["PING"]));
        self.next()
    }
}
