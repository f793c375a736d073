//! Commands that need no filter.

use bytes::Bytes;

use super::{COMMANDS, info, is, named, number, shown, wrong_number};
use crate::reply::{Protocol, Reply};
use crate::session::{Arguments, Session};

/// The version of Redis whose protocol the server speaks, for clients that ask.
pub(super) const REDIS_VERSION: &str = "7.2.0";
/// The version of RedisBloom whose commands the server has, in RedisBloom's numbering: 2.8.0.
const BLOOM_VERSION: i64 = 20_800;

/// Runs the command with this name.
pub(super) fn run(session: &mut Session, name: &str, arguments: Arguments<'_>) -> Result<(), Reply> {
    let reply = match name {
        "ping" => match arguments.len() {
            1 => Reply::Status("PONG"),
            2 => bulk(arguments.at(1)),
            _ => return Err(wrong_number(name)),
        },
        "echo" => bulk(arguments.at(1)),
        "hello" => hello(session, arguments)?,
        "auth" => auth(session, arguments)?,
        "select" => match number::<i64>(arguments.at(1)) {
            Some(0) => Reply::OK,
            Some(_) => return Err(Reply::error("DB index is out of range")),
            None => return Err(Reply::error("value is not an integer or out of range")),
        },
        "client" => client(session, arguments)?,
        "command" => command(arguments)?,
        // Benchmarks ask for options that this server does not have.
        "config" if is(arguments.at(1), "GET") => Reply::Map(Vec::new()),
        "module" if is(arguments.at(1), "LIST") => Reply::Array(vec![module()]),
        "config" | "module" => return Err(unknown_subcommand(arguments)),
        "info" => Reply::text(info::text(&session.server, arguments)),
        "reset" => {
            session.reset();
            Reply::Status("RESET")
        }
        // `find` returns no other command.
        _ => {
            session.end();
            Reply::OK
        }
    };
    session.reply(reply);
    Ok(())
}

fn bulk(bytes: &[u8]) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(bytes))
}

fn unknown_subcommand(arguments: Arguments<'_>) -> Reply {
    Reply::error(format!("unknown subcommand '{}'", shown(arguments.at(1))))
}

fn module() -> Reply {
    let entry = |name: &str, value| (Reply::text(name), value);
    Reply::Map(vec![entry("name", Reply::text("bf")), entry("ver", Reply::Integer(BLOOM_VERSION))])
}

/// Compares all bytes, even after a difference.
fn is_password(session: &Session, given: &[u8]) -> bool {
    let Some(password) = &session.server.settings.password else { return true };
    let differing = password.iter().zip(given).fold(0, |differing, (a, b)| differing | (a ^ b));
    password.len() == given.len() && differing == 0
}

fn check_password(session: &mut Session, user: &[u8], password: &[u8]) -> Result<(), Reply> {
    session.authenticated = user == b"default" && is_password(session, password);
    if session.authenticated {
        return Ok(());
    }
    let text = "WRONGPASS invalid username-password pair or user is disabled.";
    Err(Reply::Error(text.to_owned()))
}

fn auth(session: &mut Session, arguments: Arguments<'_>) -> Result<Reply, Reply> {
    let (user, password) = match arguments.len() {
        2 => (&b"default"[..], arguments.at(1)),
        3 => (arguments.at(1), arguments.at(2)),
        _ => return Err(Reply::error("syntax error")),
    };
    if session.server.settings.password.is_none() && arguments.len() == 2 {
        return Err(Reply::error(
            "AUTH <password> called without any password configured for the default user",
        ));
    }
    check_password(session, user, password)?;
    Ok(Reply::OK)
}

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`.
fn hello(session: &mut Session, arguments: Arguments<'_>) -> Result<Reply, Reply> {
    let protocol = match arguments.len() {
        1 => session.protocol(),
        _ => match arguments.at(1) {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            _ => return Err(Reply::Error("NOPROTO unsupported protocol version".to_owned())),
        },
    };
    let (mut at, mut name) = (2, None);
    while at < arguments.len() {
        if is(arguments.at(at), "AUTH") && at + 2 < arguments.len() {
            check_password(session, arguments.at(at + 1), arguments.at(at + 2))?;
            at += 3;
        } else if is(arguments.at(at), "SETNAME") && at + 1 < arguments.len() {
            name = Some(arguments.at(at + 1));
            at += 2;
        } else {
            return Err(Reply::error(format!("Syntax error in HELLO option '{}'", shown(arguments.at(at)))));
        }
    }
    if !session.authenticated {
        return Err(Reply::Error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
                .to_owned(),
        ));
    }
    if let Some(name) = name {
        session.name = name.to_vec();
    }
    session.set_protocol(protocol);
    let number = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let entries = [
        ("server", Reply::text("redis")),
        ("version", Reply::text(REDIS_VERSION)),
        ("proto", Reply::Integer(number)),
        ("id", Reply::count(session.id)),
        ("mode", Reply::text("standalone")),
        ("role", Reply::text("master")),
        ("modules", Reply::Array(vec![module()])),
    ];
    Ok(Reply::Map(entries.map(|(name, value)| (Reply::text(name), value)).into()))
}

fn client(session: &mut Session, arguments: Arguments<'_>) -> Result<Reply, Reply> {
    let subcommand = arguments.at(1).to_ascii_uppercase();
    Ok(match (&*subcommand, arguments.len()) {
        (b"ID", 2) => Reply::count(session.id),
        (b"GETNAME", 2) if session.name.is_empty() => Reply::Null,
        (b"GETNAME", 2) => bulk(&session.name),
        (b"SETNAME", 3) => {
            session.name = arguments.at(2).to_vec();
            Reply::OK
        }
        (b"INFO" | b"LIST", 2) => Reply::text(format!(
            "id={} name={} db=0 resp={}\n",
            session.id,
            shown(&session.name),
            if session.protocol() == Protocol::Resp3 { 3 } else { 2 }
        )),
        // Accepted without effect: the names of client libraries, and settings without a meaning here.
        (b"SETINFO", 4) | (b"NO-EVICT" | b"NO-TOUCH", 3) => Reply::OK,
        _ => return Err(unknown_subcommand(arguments)),
    })
}

fn command(arguments: Arguments<'_>) -> Result<Reply, Reply> {
    if arguments.len() == 1 {
        return Ok(Reply::Array(COMMANDS.iter().map(|command| command.described()).collect()));
    }
    let subcommand = arguments.at(1).to_ascii_uppercase();
    Ok(match &*subcommand {
        b"COUNT" => Reply::count(COMMANDS.len() as u64),
        b"LIST" => Reply::Array(COMMANDS.iter().map(|command| Reply::text(command.name)).collect()),
        b"DOCS" => Reply::Map(Vec::new()),
        b"INFO" => {
            let described = |name| named(name).map_or(Reply::Null, |command| command.described());
            Reply::Array(arguments.from(2).map(described).collect())
        }
        _ => return Err(unknown_subcommand(arguments)),
    })
}
