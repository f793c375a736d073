//! One connection: requests in, replies out, in rounds.
//!
//! A round takes all requests that have arrived, within limits, makes their changes together, and then sends all replies.
//! A client that does not read its replies delays only its own rounds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::reply::Reply;
use crate::request::Requests;
use crate::server::Server;
use crate::session::{Arguments, Session};

/// How many requests a round has at most.
const ROUND: usize = 1024;
/// How many bytes the buffer of a connection has that waits for requests.
const SMALL: usize = 4 << 10;
/// How many bytes are read at a time at most, and how many a connection may hold without asking.
const LARGE: usize = 64 << 10;

/// A connection's buffer bytes beyond [`LARGE`], which count against the limit of all connections together.
struct Share<'a> {
    server: &'a Server,
    bytes: usize,
}

impl Share<'_> {
    /// Changes the share to the need of a buffer of this length. Returns whether there is room.
    fn resize(&mut self, length: usize) -> bool {
        let (wanted, buffered) = (length.saturating_sub(LARGE), &self.server.counters.buffered);
        if wanted > self.bytes {
            let more = wanted - self.bytes;
            if buffered.fetch_add(more, Ordering::Relaxed) + more > self.server.settings.most_buffers {
                buffered.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            buffered.fetch_sub(self.bytes - wanted, Ordering::Relaxed);
        }
        self.bytes = wanted;
        true
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.server.counters.buffered.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    server: &Arc<Server>,
    id: u64,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<()> {
    let (mut session, mut requests) = (Session::new(server.clone(), id), Requests::default());
    let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
    let mut share = Share { server, bytes: 0 };
    let mut ending = server.ending();
    let mut chunk = SMALL;
    loop {
        let more = round(&mut session, &mut requests, &mut input, &mut output).await;
        if !output.is_empty() {
            stream.write_all(&output).await?;
            output = BytesMut::new();
        }
        if session.is_over() || *ending.borrow() {
            return stream.shutdown().await;
        }
        if more {
            // Gives other tasks a turn.
            tokio::task::yield_now().await;
            continue;
        }
        if input.is_empty() {
            // An idle connection holds no large buffer.
            input = BytesMut::new();
            share.resize(0);
        }
        input.reserve(chunk);
        let read = tokio::select! {
            read = stream.read_buf(&mut input) => read?,
            _ = ending.changed() => continue,
        };
        if read == 0 {
            return Ok(());
        }
        chunk = if read >= chunk { LARGE.min(chunk * 4) } else { SMALL.max(read) };
        if !share.resize(input.len()) {
            Reply::error(
                "the requests of all connections together are larger than this server takes (--max-buffers)",
            )
            .encode(session.protocol(), &mut output);
            stream.write_all(&output).await?;
            return stream.shutdown().await;
        }
    }
}

/// Answers the requests that have arrived in full. Returns whether there may be more.
async fn round(
    session: &mut Session,
    requests: &mut Requests,
    input: &mut BytesMut,
    output: &mut BytesMut,
) -> bool {
    let bounds = session.bounds();
    let (mut start, mut count) = (0, 0);
    while count < ROUND && !session.is_over() {
        let rest = input.get(start..).unwrap_or_default();
        match requests.read(rest, bounds) {
            Ok(Some(length)) => {
                if !requests.arguments().is_empty() {
                    session.execute(Arguments::new(rest, requests.arguments())).await;
                }
                start += length;
                count += 1;
            }
            Ok(None) => break,
            Err(error) => session.refuse(Reply::error(error.to_string())),
        }
    }
    session.finish(output).await;
    if start == input.len() {
        input.clear()
    } else {
        input.advance(start)
    }
    count == ROUND
}
