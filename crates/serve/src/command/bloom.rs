//! `BF.*`: sets, and filters that forget.

use std::sync::Arc;

use gowk::{Growth, Info, Options};

use super::{is, reserve};
use crate::failure::{self, NOT_FOUND};
use crate::filter::Filter;
use crate::reply::{Protocol, Reply};
use crate::session::{Arguments, Form, Session};
use crate::steps::Verb;

/// Runs the command with this name after `BF.`.
pub(super) async fn run(session: &mut Session, name: &str, arguments: Arguments<'_>) -> Result<(), Reply> {
    let key = arguments.at(1);
    match name {
        "reserve" => {
            let options = reserve::bloom_reserve(arguments)?;
            reserve::reserve(session, key, options).await
        }
        "add" | "madd" => {
            let filter = get_or_create(session, key, reserve::bloom_default).await?;
            let form = Form::Bloom { many: name == "madd" };
            session.change(filter, Verb::Insert, arguments.from(2), form).await
        }
        "insert" => {
            let creation = reserve::bloom_insert(arguments)?;
            let filter = match creation.no_create {
                true => get(session, key).await?.ok_or_else(not_found)?,
                false => get_or_create(session, key, || creation.options).await?,
            };
            session
                .change(filter, Verb::Insert, arguments.from(creation.items), Form::Bloom { many: true })
                .await
        }
        "exists" | "mexists" => exists(session, key, arguments, name == "mexists").await,
        "card" => {
            session.flush().await;
            let count = match get(session, key).await? {
                Some(filter) => filter.info().await?.copies,
                None => 0,
            };
            session.reply(Reply::count(count));
            Ok(())
        }
        _ => info(session, key, arguments).await,
    }
}

fn not_found() -> Reply {
    Reply::Error(NOT_FOUND.to_owned())
}

async fn get(session: &mut Session, key: &[u8]) -> Result<Option<Arc<Filter>>, Reply> {
    match session.filter(key).await? {
        Some(filter) if filter.is_counting() => Err(failure::wrong_kind(filter.kind)),
        found => Ok(found),
    }
}

async fn get_or_create(
    session: &mut Session,
    key: &[u8],
    options: impl FnOnce() -> Options,
) -> Result<Arc<Filter>, Reply> {
    if let Some(filter) = get(session, key).await? {
        return Ok(filter);
    }
    session.server.clone().folder.create(key, options()).await?;
    // Another connection may have created the filter, perhaps of another kind.
    get(session, key).await?.ok_or_else(not_found)
}

/// A missing filter has no keys, and neither has one of another kind.
async fn exists(
    session: &mut Session,
    key: &[u8],
    arguments: Arguments<'_>,
    many: bool,
) -> Result<(), Reply> {
    match session.filter(key).await? {
        Some(filter) if !filter.is_counting() => {
            session.look_up(&filter, Verb::Contains, arguments.from(2), many)
        }
        _ => {
            let none = arguments.from(2).map(|_| Reply::Bool(false));
            session.reply(if many { Reply::Array(none.collect()) } else { Reply::Bool(false) });
            Ok(())
        }
    }
}

fn capacity(info: &Info) -> Reply {
    Reply::count(info.capacity.saturating_mul(1 << info.generation.min(63)))
}

fn expansion(info: &Info) -> Reply {
    if info.growth == Growth::Never { Reply::Null } else { Reply::Integer(2) }
}

async fn info(session: &mut Session, key: &[u8], arguments: Arguments<'_>) -> Result<(), Reply> {
    if arguments.len() > 3 {
        return Err(super::wrong_number("bf.info"));
    }
    session.flush().await;
    let info = get(session, key).await?.ok_or_else(not_found)?.info().await?;
    let all = [
        ("CAPACITY", "Capacity", capacity(&info)),
        ("SIZE", "Size", Reply::count(info.file_length)),
        ("FILTERS", "Number of filters", Reply::Integer(1)),
        ("ITEMS", "Number of items inserted", Reply::count(info.copies)),
        ("EXPANSION", "Expansion rate", expansion(&info)),
    ];
    let reply = match (arguments.len(), session.protocol()) {
        (2, _) => Reply::Map(all.into_iter().map(|(_, name, value)| (Reply::text(name), value)).collect()),
        (_, protocol) => {
            let wanted = arguments.at(2);
            let found = all.into_iter().find(|(option, ..)| is(wanted, option));
            let (_, name, value) = found.ok_or_else(|| Reply::error("Invalid information value"))?;
            match protocol {
                Protocol::Resp2 => Reply::Array(vec![value]),
                Protocol::Resp3 => Reply::Map(vec![(Reply::text(name), value)]),
            }
        }
    };
    session.reply(reply);
    Ok(())
}
