//! A proxy before the server of these tests. It makes requests fail, or holds them, as a test plans for its own store.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It is not carried out, and answered with this status.
    Answer(u16),
    /// It is carried out, and answered with this status.
    Told(u16),
    /// It is not carried out, and the connection ends.
    Reset,
    /// It is carried out, and the connection ends.
    Lost,
    /// It is not carried out, and never answered.
    Hang,
    /// It is not carried out; the answer says that all is well, and makes no sense.
    Garbage,
    /// It waits until the plan is taken back.
    Held,
    /// It is carried out without its condition.
    Unconditional,
}

/// The requests of one store from a number on, of so many, fail.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) fault: Fault,
    pub(crate) from: usize,
    pub(crate) count: usize,
    /// Only requests with this in their first line count, in which the path has no escapes.
    pub(crate) like: String,
    /// Those that were made, by their first lines.
    pub(crate) seen: Vec<String>,
}

static PLANS: Mutex<BTreeMap<String, Plan>> = Mutex::new(BTreeMap::new());

fn plans<T>(with: impl FnOnce(&mut BTreeMap<String, Plan>) -> T) -> T {
    with(&mut PLANS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Plans failures for the store with this prefix.
pub(crate) fn plan(prefix: &str, fault: Fault, from: usize, count: usize, like: &str) {
    let plan = Plan { fault, from, count, like: like.to_owned(), seen: Vec::new() };
    plans(|all| all.insert(prefix.to_owned(), plan));
}

/// Ends the failures of a store; returns the requests that it made.
pub(crate) fn relent(prefix: &str) -> Vec<String> {
    plans(|all| all.remove(prefix)).map(|plan| plan.seen).unwrap_or_default()
}

/// Waits until a store has made a request that the plan is for.
pub(crate) fn await_request(prefix: &str) {
    let start = Instant::now();
    while plans(|all| all.get(prefix).is_none_or(|plan| plan.seen.is_empty())) {
        assert!(start.elapsed() < Duration::from_secs(60), "no request of {prefix}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a store has made so many requests that the plan is for, or `ended` says that it makes none any more;
/// whether it has made them.
pub(crate) fn await_requests(prefix: &str, number: usize, mut ended: impl FnMut() -> bool) -> bool {
    let has = || plans(|all| all.get(prefix).is_some_and(|plan| plan.seen.len() >= number));
    let start = Instant::now();
    while !has() {
        if ended() {
            return has();
        }
        assert!(start.elapsed() < Duration::from_secs(120), "no request {number} of {prefix}");
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn fault_for(line: &str) -> Option<Fault> {
    plans(|all| {
        let (_, plan) = all.iter_mut().find(|(prefix, _)| line.contains(&**prefix))?;
        if !line.contains(&plan.like) {
            return None;
        }
        plan.seen.push(line.to_owned());
        let number = plan.seen.len() - 1;
        (plan.from..plan.from.saturating_add(plan.count)).contains(&number).then_some(plan.fault)
    })
}

/// Starts the proxy, once for all tests of this process.
pub(crate) fn start(at: &str, server: String) {
    let listener = TcpListener::bind(at).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = server.clone();
            std::thread::spawn(move || serve(client, &server));
        }
    });
}

/// The head and the body of a request.
fn request(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                return Some((head, bytes.split_off(end + 4)));
            }
        }
        match client.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// The first line of a request, with a path without escapes.
fn first_line(head: &str) -> String {
    let line = head.lines().next().unwrap_or_default();
    let (path, rest) = line.split_at(line.find('?').unwrap_or(line.len()));
    let mut parts = path.split('%');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, text) = part.split_at_checked(2).unwrap();
        plain.push(u8::from_str_radix(code, 16).unwrap());
        plain.extend_from_slice(text.as_bytes());
    }
    format!("{}{rest}", String::from_utf8_lossy(&plain))
}

/// A request without its condition.
fn unconditional(head: &str) -> String {
    let is_condition = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.starts_with("if-none-match:") || line.starts_with("x-goog-if-generation-match:")
    };
    assert!(head.lines().any(|line| is_condition(&line)), "{head}");
    head.lines().filter(|line| !is_condition(line)).collect::<Vec<_>>().join("\r\n")
}

/// What the server answers.
fn carried_out(head: &str, body: &[u8], server: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(server).ok()?;
    let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head = kept.collect::<Vec<_>>().join("\r\n");
    write!(stream, "{head}\r\nConnection: close\r\n\r\n").ok()?;
    stream.write_all(body).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(answer)
}

/// An answer with a secret in its body, as servers give some.
fn answer(status: u16) -> Vec<u8> {
    let code = if status == 503 { "SlowDown" } else { "Injected" };
    let body = format!("<Error><Code>{code}</Code><AWSAccessKeyId>gowk-test-key</AWSAccessKeyId></Error>");
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\nETag: \"x\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

fn serve(mut client: TcpStream, server: &str) {
    let Some((head, body)) = request(&mut client) else { return };
    let line = first_line(&head);
    let done = || carried_out(&head, &body, server).unwrap_or_default();
    let answered = match fault_for(&line) {
        None => done(),
        Some(Fault::Answer(status)) => answer(status),
        Some(Fault::Told(status)) => {
            done();
            answer(status)
        }
        Some(Fault::Reset) => Vec::new(),
        Some(Fault::Lost) => {
            done();
            Vec::new()
        }
        Some(Fault::Hang) => {
            std::thread::sleep(Duration::from_secs(30));
            Vec::new()
        }
        Some(Fault::Unconditional) => carried_out(&unconditional(&head), &body, server).unwrap_or_default(),
        Some(Fault::Garbage) => {
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n\xff<>\"{;\0".to_vec()
        }
        Some(Fault::Held) => {
            let is_held = || plans(|all| all.keys().any(|prefix| line.contains(&**prefix)));
            while is_held() {
                std::thread::sleep(Duration::from_millis(10));
            }
            done()
        }
    };
    let _ = client.write_all(&answered);
    let _ = client.shutdown(Shutdown::Both);
}
