//! Finds where a request ends and where its arguments lie: an array of bulk strings, in both protocols.
//!
//! The crate `redis-protocol` encodes the replies, but does not read requests. Its reader handles nested arrays by
//! unlimited recursion, so a few kilobytes of `*1\r
//! ` would overflow the stack. It also starts over with each piece of a request. Requests are flat, so this code reads
//! headers one after the other, continues where it stopped, and refuses a length before its bytes arrive.

use std::ops::Range;

/// The longest line of a header, or of an inline command.
const LINE: usize = 1024;

/// The limits for one request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many bytes all its arguments and headers may have.
    pub bytes: usize,
    /// How many arguments it may have, including the command's name.
    pub arguments: usize,
}

/// Why a request is refused. Then the connection is closed: nobody knows where the next request begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Malformed {
    /// A header that is not a number.
    #[error("Protocol error: invalid {0}")]
    Number(&'static str),
    /// An argument that is not a bulk string.
    #[error("Protocol error: expected '$', got '{}'", (*.0 as char).escape_default())]
    NotBulk(u8),
    /// More bytes or arguments than the server accepts.
    #[error("Protocol error: the request has more {0} than this server takes; send it in parts")]
    TooLarge(&'static str),
    /// An inline command that this server does not accept.
    #[error("Protocol error: inline commands other than PING, INFO and QUIT are not taken")]
    Inline,
}

/// Reads requests from a buffer that grows at its end.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The arguments of the current request, as ranges from its first byte.
    arguments: Vec<Range<usize>>,
    /// How many arguments the header announced; `None` before the header was read.
    announced: Option<usize>,
    /// How many bytes of the request were read.
    read: usize,
}

impl Requests {
    /// Continues to read; `bytes` begins with the first byte of the request. Returns the length of the request once it
    /// has arrived in full. Then [`arguments`](Self::arguments) returns its arguments until the next call.
    pub(crate) fn read(&mut self, bytes: &[u8], bounds: Bounds) -> Result<Option<usize>, Malformed> {
        if self.announced.is_some_and(|announced| self.arguments.len() == announced) {
            *self = Self { arguments: std::mem::take(&mut self.arguments), announced: None, read: 0 };
            self.arguments.clear();
        }
        let announced = match self.announced {
            Some(announced) => announced,
            None => match bytes.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(count) = self.header(bytes, "multibulk length")? else { return Ok(None) };
                    // An array without arguments is skipped, like a null one.
                    let count = usize::try_from(count).unwrap_or(0);
                    if count > bounds.arguments {
                        return Err(Malformed::TooLarge("arguments"));
                    }
                    *self.announced.insert(count)
                }
                Some(_) => return self.inline(bytes),
            },
        };
        while self.arguments.len() < announced {
            match bytes.get(self.read) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(other) => return Err(Malformed::NotBulk(*other)),
            }
            let start = self.read;
            let Some(length) = self.header(bytes, "bulk length")? else { return Ok(None) };
            let length = usize::try_from(length).map_err(|_| Malformed::Number("bulk length"))?;
            let end = self.read.saturating_add(length);
            if end > bounds.bytes {
                return Err(Malformed::TooLarge("bytes"));
            }
            // The two bytes after the argument, its line end, must have arrived. They are not checked.
            if bytes.len() < end + 2 {
                self.read = start;
                return Ok(None);
            }
            self.arguments.push(self.read..end);
            self.read = end + 2;
        }
        Ok(Some(self.read))
    }

    /// The arguments of the last request, as ranges from its first byte.
    pub(crate) fn arguments(&self) -> &[Range<usize>] {
        &self.arguments
    }

    /// The number after the first byte of a header; `None` if the line has not arrived in full.
    fn header(&mut self, bytes: &[u8], what: &'static str) -> Result<Option<i64>, Malformed> {
        let Some((line, next)) = line(bytes, self.read) else {
            let unread = bytes.len() - self.read;
            return if unread > LINE { Err(Malformed::Number(what)) } else { Ok(None) };
        };
        let digits = bytes.get(line).and_then(|line| std::str::from_utf8(line.get(1..)?).ok());
        let number = digits.and_then(|digits| digits.parse().ok()).ok_or(Malformed::Number(what))?;
        self.read = next;
        Ok(Some(number))
    }

    /// Health checks send `PING` as a line. Other lines are refused: a web page can make a browser send them.
    fn inline(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some((line, next)) = line(bytes, 0) else {
            return if bytes.len() > LINE { Err(Malformed::Inline) } else { Ok(None) };
        };
        let text = bytes.get(line.clone()).unwrap_or_default().trim_ascii_end();
        self.read = next;
        if text.is_empty() {
            self.announced = Some(0);
        } else if [&b"PING"[..], b"INFO", b"QUIT"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
            self.announced = Some(1);
            self.arguments.push(line.start..line.start + text.len());
        } else {
            return Err(Malformed::Inline);
        }
        Ok(Some(next))
    }
}

/// The line that begins at `from`, without its end, and where the next line begins.
fn line(bytes: &[u8], from: usize) -> Option<(Range<usize>, usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().take(LINE + 2).position(|byte| *byte == b'\n')?;
    let text = rest.get(..end)?;
    let length = text.strip_suffix(b"\r").unwrap_or(text).len();
    Some((from..from + length, from + end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 1000, arguments: 10 };

    fn request(arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend_from_slice(argument);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    fn all(mut bytes: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
        let (mut requests, mut found) = (Requests::default(), Vec::new());
        while let Some(length) = requests.read(bytes, BOUNDS)? {
            let arguments = requests.arguments().iter().map(|range| bytes[range.clone()].to_vec());
            found.push(arguments.collect());
            bytes = &bytes[length..];
        }
        Ok(found)
    }

    #[test]
    fn malformed_requests_are_refused_and_others_are_read() {
        let read = |text: &str| all(text.as_bytes());
        assert_eq!(read("*1\r\n$4\r\nPING\r\nPING\r\n\r\n").unwrap().len(), 3);
        let expected: [Vec<Vec<u8>>; 3] = [vec![], vec![], vec![vec![]]];
        assert_eq!(read("*0\r\n*-1\r\n*1\r\n$0\r\n\r\n").unwrap(), expected);
        assert_eq!(read("*1\r\n*1\r\n"), Err(Malformed::NotBulk(b'*')));
        assert_eq!(read("*1\r\n$-1\r\n"), Err(Malformed::Number("bulk length")));
        assert_eq!(read("*x\r\n"), Err(Malformed::Number("multibulk length")));
        assert_eq!(read(&format!("*{}", "1".repeat(2000))), Err(Malformed::Number("multibulk length")));
        assert_eq!(read("*11\r\n"), Err(Malformed::TooLarge("arguments")));
        assert_eq!(read("*2\r\n$1\r\na\r\n$2000000000\r\n"), Err(Malformed::TooLarge("bytes")));
        assert_eq!(read("POST / HTTP/1.1\r\n"), Err(Malformed::Inline));
        assert_eq!(read(&"x".repeat(2000)), Err(Malformed::Inline));
        assert_eq!(read(""), Ok(vec![]));
    }

    proptest! {
        /// Requests are read alike, whatever pieces they arrive in.
        #[test]
        fn requests_are_read_as_they_were_sent(
            sent in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5), 0..5),
            cuts in prop::collection::vec(0_usize..300, 0..8),
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|arguments| request(arguments)).collect();
            let mut ends: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let (mut requests, mut found, mut start) = (Requests::default(), Vec::new(), 0);
            for end in ends {
                while let Some(length) = requests.read(&bytes[start..end], BOUNDS).unwrap() {
                    let arguments = requests.arguments().iter();
                    found.push(arguments.map(|at| bytes[start..end][at.clone()].to_vec()).collect::<Vec<_>>());
                    start += length;
                }
            }
            prop_assert_eq!(found, sent);
            prop_assert_eq!(start, bytes.len());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(prop::sample::select(&b"*$1290-\r\nax"[..]), 0..200)) {
            let _ = all(&bytes);
        }
    }
}
