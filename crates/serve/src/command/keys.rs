//! Commands on the folder: its keys, their types, and their removal.

use bytes::Bytes;
use gowk::Kind;

use super::{is, number};
use crate::folder::place;
use crate::reply::Reply;
use crate::session::{Arguments, Session};

/// Runs the command with this name.
pub(super) async fn run(session: &mut Session, name: &str, arguments: Arguments<'_>) -> Result<(), Reply> {
    session.flush().await;
    let reply = match name {
        "exists" => {
            let mut count = 0;
            for key in arguments.from(1) {
                count += i64::from(session.server.folder.has(key)?);
            }
            Reply::Integer(count)
        }
        "type" => Reply::Status(type_of(session, arguments.at(1)).await?),
        "dbsize" => Reply::count(session.server.folder.keys().await?.len() as u64),
        "keys" => {
            let pattern = Pattern::new(arguments.at(1))?;
            let keys = session.server.folder.keys().await?;
            Reply::Array(keys.into_iter().filter(|key| pattern.matches(key)).map(bulk).collect())
        }
        "scan" => scan(session, arguments).await?,
        _ => delete(session, arguments).await?,
    };
    session.reply(reply);
    Ok(())
}

fn bulk(key: Vec<u8>) -> Reply {
    Reply::Bulk(Bytes::from(key))
}

/// RedisBloom's names for its types.
async fn type_of(session: &mut Session, key: &[u8]) -> Result<&'static str, Reply> {
    Ok(match session.filter(key).await? {
        None => "none",
        Some(filter) if filter.kind == Kind::Counting => "MBbloomCF",
        Some(_) => "MBbloom--",
    })
}

async fn delete(session: &mut Session, arguments: Arguments<'_>) -> Result<Reply, Reply> {
    if !session.server.settings.allow_delete {
        return Err(Reply::Error(
            "NOPERM this server does not remove filters; start it with --allow-delete, or remove the files"
                .to_owned(),
        ));
    }
    let mut count = 0;
    for key in arguments.from(1) {
        count += i64::from(session.server.folder.delete(key).await?);
    }
    Ok(Reply::Integer(count))
}

/// A pattern of keys, in Redis' syntax.
struct Pattern(glob::Pattern);

impl Pattern {
    fn new(pattern: &[u8]) -> Result<Self, Reply> {
        // Here `**` means the same as `*`, but the crate gives it another meaning.
        let mut text = String::from_utf8_lossy(pattern).into_owned();
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        let pattern = glob::Pattern::new(&text);
        pattern.map(Self).map_err(|error| Reply::error(format!("bad pattern: {error}")))
    }

    fn matches(&self, key: &[u8]) -> bool {
        self.0.matches(&String::from_utf8_lossy(key))
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`. The cursor is the place of the last key.
async fn scan(session: &mut Session, arguments: Arguments<'_>) -> Result<Reply, Reply> {
    let cursor: u64 = number(arguments.at(1)).ok_or_else(|| Reply::error("invalid cursor"))?;
    let (mut pattern, mut count, mut wanted) = (None, 10_usize, None);
    if !arguments.len().is_multiple_of(2) {
        return Err(Reply::error("syntax error"));
    }
    for at in (2..arguments.len()).step_by(2) {
        let (option, value) = (arguments.at(at), arguments.at(at + 1));
        if is(option, "MATCH") {
            pattern = Some(Pattern::new(value)?);
        } else if is(option, "COUNT") {
            count = number(value).filter(|count| *count > 0).ok_or_else(|| Reply::error("syntax error"))?;
        } else if is(option, "TYPE") {
            wanted = Some(value);
        } else {
            return Err(Reply::error("syntax error"));
        }
    }
    let keys = session.server.folder.keys().await?;
    let start = keys.partition_point(|key| place(key) <= cursor);
    let rest = keys.get(start..).unwrap_or_default();
    let last = rest.get(count - 1).map(|key| place(key));
    // Keys of equal places are returned together.
    let end = last.map_or(rest.len(), |last| rest.partition_point(|key| place(key) <= last));
    let next = last.filter(|_| end < rest.len()).unwrap_or(0);
    let mut found = Vec::new();
    for key in rest.iter().take(end) {
        let matches = pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
        let fits = match wanted {
            // A filter that cannot be opened has no type.
            Some(wanted) if matches => type_of(session, key).await.is_ok_and(|found| is(wanted, found)),
            _ => true,
        };
        if matches && fits {
            found.push(bulk(key.clone()));
        }
    }
    Ok(Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(found)]))
}
