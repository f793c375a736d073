//! Replies, in the connection's protocol.

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3::types::BytesFrame as Frame3;
use redis_protocol::{resp2, resp3};

/// The protocol of a connection: RESP2, unless `HELLO 3` changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Every client begins with it.
    #[default]
    Resp2,
    /// With booleans and maps.
    Resp3,
}

/// A reply to one command.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// `OK`, for example.
    Status(&'static str),
    /// Begins with a word in capitals, for which clients look.
    Error(String),
    Integer(i64),
    /// In RESP2, 1 or 0.
    Bool(bool),
    Bulk(Bytes),
    Null,
    Array(Vec<Reply>),
    /// In RESP2, alternating names and values.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    pub const OK: Self = Self::Status("OK");

    /// A text of any length.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bulk(text.into().into())
    }

    /// An error of the most common kind.
    pub fn error(text: impl AsRef<str>) -> Self {
        Self::Error(format!("ERR {}", text.as_ref()))
    }

    /// An integer, at most 2^63 - 1, the protocol's limit.
    pub fn count(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Appends the reply to the output.
    pub fn encode(self, protocol: Protocol, to: &mut BytesMut) {
        let encoded = match protocol {
            Protocol::Resp2 => resp2::encode::extend_encode(to, &self.resp2(), false),
            Protocol::Resp3 => resp3::encode::complete::extend_encode(to, &self.resp3(), false),
        };
        // The buffer grows with the reply, so encoding cannot fail.
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }

    fn resp2(self) -> Frame2 {
        match self {
            Self::Status(text) => Frame2::SimpleString(Bytes::from_static(text.as_bytes())),
            Self::Error(text) => Frame2::Error(one_line(text).into()),
            Self::Integer(number) => Frame2::Integer(number),
            Self::Bool(value) => Frame2::Integer(value.into()),
            Self::Bulk(bytes) => Frame2::BulkString(bytes),
            Self::Null => Frame2::Null,
            Self::Array(replies) => Frame2::Array(replies.into_iter().map(Self::resp2).collect()),
            Self::Map(entries) => Frame2::Array(
                entries.into_iter().flat_map(|(name, value)| [name.resp2(), value.resp2()]).collect(),
            ),
        }
    }

    fn resp3(self) -> Frame3 {
        match self {
            Self::Status(text) => {
                Frame3::SimpleString { data: Bytes::from_static(text.as_bytes()), attributes: None }
            }
            Self::Error(text) => Frame3::SimpleError { data: one_line(text).into(), attributes: None },
            Self::Integer(data) => Frame3::Number { data, attributes: None },
            Self::Bool(data) => Frame3::Boolean { data, attributes: None },
            Self::Bulk(data) => Frame3::BlobString { data, attributes: None },
            Self::Null => Frame3::Null,
            Self::Array(replies) => {
                Frame3::Array { data: replies.into_iter().map(Self::resp3).collect(), attributes: None }
            }
            Self::Map(entries) => {
                let entries = entries.into_iter().map(|(name, value)| (name.resp3(), value.resp3()));
                Frame3::Map { data: entries.collect(), attributes: None }
            }
        }
    }
}

/// An error must be one line, whatever bytes a client's argument in it has.
fn one_line(text: String) -> String {
    if text.contains(['\r', '\n']) { text.replace(['\r', '\n'], " ") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(reply: Reply, protocol: Protocol) -> String {
        let mut bytes = BytesMut::new();
        reply.encode(protocol, &mut bytes);
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn each_reply_has_its_form_in_both_protocols() {
        let reply = || {
            Reply::Array(vec![
                Reply::OK,
                Reply::error("a\r\nb"),
                Reply::Integer(-7),
                Reply::Bool(true),
                Reply::text("x"),
                Reply::Null,
                Reply::Map(vec![(Reply::text("n"), Reply::Integer(1))]),
            ])
        };
        let two = "*7\r\n+OK\r\n-ERR a  b\r\n:-7\r\n:1\r\n$1\r\nx\r\n$-1\r\n*2\r\n$1\r\nn\r\n:1\r\n";
        let three = "*7\r\n+OK\r\n-ERR a  b\r\n:-7\r\n#t\r\n$1\r\nx\r\n_\r\n%1\r\n$1\r\nn\r\n:1\r\n";
        assert_eq!(encoded(reply(), Protocol::Resp2), two);
        assert_eq!(encoded(reply(), Protocol::Resp3), three);
    }
}
