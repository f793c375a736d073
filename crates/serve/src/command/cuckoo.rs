//! `CF.*`: counting filters.

use std::sync::Arc;

use gowk::{Growth, Options};

use super::reserve;
use crate::failure::{self, NOT_FOUND};
use crate::filter::Filter;
use crate::reply::Reply;
use crate::session::{Arguments, Form, Session};
use crate::steps::Verb;

/// How many buckets a region has.
const BUCKETS: u64 = 8192;
/// How many entries gowk examines for one insert.
const SEARCHED: i64 = 2000;

/// Runs the command with this name after `CF.`.
pub(super) async fn run(session: &mut Session, name: &str, arguments: Arguments<'_>) -> Result<(), Reply> {
    let key = arguments.at(1);
    match name {
        "reserve" => {
            let options = reserve::cuckoo_reserve(arguments)?;
            reserve::reserve(session, key, options).await
        }
        "add" | "addnx" => {
            let filter = get_or_create(session, key, reserve::cuckoo_default).await?;
            let new = name == "addnx";
            session.change(filter, verb(new), arguments.from(2), Form::Cuckoo { many: false, new }).await
        }
        "insert" | "insertnx" => {
            let creation = reserve::cuckoo_insert(arguments)?;
            let filter = match creation.no_create {
                true => get(session, key).await?.ok_or_else(not_found)?,
                false => get_or_create(session, key, || creation.options).await?,
            };
            let new = name == "insertnx";
            let form = Form::Cuckoo { many: true, new };
            session.change(filter, verb(new), arguments.from(creation.items), form).await
        }
        "del" => {
            // If there is no counting filter, RedisBloom says this, whatever else has the key.
            let filter = session.filter(key).await?.filter(|filter| filter.is_counting());
            let filter = filter.ok_or_else(|| Reply::error("Not found"))?;
            session.change(filter, Verb::Remove, arguments.from(2), Form::Plain { many: false }).await
        }
        "info" => info(session, key).await,
        _ => look_up(session, name, key, arguments).await,
    }
}

fn verb(new: bool) -> Verb {
    if new { Verb::InsertNew } else { Verb::Insert }
}

fn not_found() -> Reply {
    Reply::Error(NOT_FOUND.to_owned())
}

async fn get(session: &mut Session, key: &[u8]) -> Result<Option<Arc<Filter>>, Reply> {
    match session.filter(key).await? {
        Some(filter) if !filter.is_counting() => Err(failure::wrong_kind(filter.kind)),
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
async fn look_up(
    session: &mut Session,
    name: &str,
    key: &[u8],
    arguments: Arguments<'_>,
) -> Result<(), Reply> {
    let (many, verb) = (name == "mexists", if name == "count" { Verb::Count } else { Verb::Contains });
    match session.filter(key).await? {
        Some(filter) if filter.is_counting() => session.look_up(&filter, verb, arguments.from(2), many),
        _ => {
            session.reply(match (name, many) {
                ("count", _) => Reply::Integer(0),
                (_, true) => Reply::Array(arguments.from(2).map(|_| Reply::Bool(false)).collect()),
                (_, false) => Reply::Bool(false),
            });
            Ok(())
        }
    }
}

async fn info(session: &mut Session, key: &[u8]) -> Result<(), Reply> {
    session.flush().await;
    let info = get(session, key).await?.ok_or_else(not_found)?.info().await?;
    let all = [
        ("Size", Reply::count(info.file_length)),
        ("Number of buckets", Reply::count(info.regions * BUCKETS)),
        ("Number of filters", Reply::Integer(1)),
        ("Number of items inserted", Reply::count(info.copies)),
        ("Number of items deleted", Reply::count(info.removed)),
        ("Bucket size", Reply::Integer(info.slots_per_bucket.get().into())),
        ("Expansion rate", Reply::Integer(if info.growth == Growth::Never { 0 } else { 2 })),
        ("Max iterations", Reply::Integer(SEARCHED)),
    ];
    session.reply(Reply::Map(all.into_iter().map(|(name, value)| (Reply::text(name), value)).collect()));
    Ok(())
}
