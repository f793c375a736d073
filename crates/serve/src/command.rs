//! The commands: their names, and the functions that run them.

mod bloom;
mod cuckoo;
mod general;
mod info;
mod keys;
mod reserve;

use crate::reply::Reply;
use crate::session::{Arguments, Session};

/// The facts about a command for clients that ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// In lower case.
    pub name: &'static str,
    /// The number of arguments, including the name; if negative, the least number.
    pub arity: i64,
    /// `write` or `readonly` for commands on filters.
    flag: Option<&'static str>,
    /// The first and the last argument that is a key, and the step between keys.
    keys: (i64, i64, i64),
}

const fn on_filter(name: &'static str, arity: i64, flag: &'static str) -> Command {
    Command { name, arity, flag: Some(flag), keys: (1, 1, 1) }
}

const fn on_keys(name: &'static str, arity: i64, flag: &'static str) -> Command {
    Command { name, arity, flag: Some(flag), keys: (1, -1, 1) }
}

const fn general(name: &'static str, arity: i64) -> Command {
    Command { name, arity, flag: None, keys: (0, 0, 0) }
}

const COMMANDS: &[Command] = &[
    on_filter("bf.reserve", -4, "write"),
    on_filter("bf.add", 3, "write"),
    on_filter("bf.madd", -3, "write"),
    on_filter("bf.insert", -4, "write"),
    on_filter("bf.exists", 3, "readonly"),
    on_filter("bf.mexists", -3, "readonly"),
    on_filter("bf.card", 2, "readonly"),
    on_filter("bf.info", -2, "readonly"),
    on_filter("bf.scandump", 3, "readonly"),
    on_filter("bf.loadchunk", 4, "write"),
    on_filter("cf.reserve", -3, "write"),
    on_filter("cf.add", 3, "write"),
    on_filter("cf.addnx", 3, "write"),
    on_filter("cf.insert", -4, "write"),
    on_filter("cf.insertnx", -4, "write"),
    on_filter("cf.exists", 3, "readonly"),
    on_filter("cf.mexists", -3, "readonly"),
    on_filter("cf.count", 3, "readonly"),
    on_filter("cf.del", 3, "write"),
    on_filter("cf.info", 2, "readonly"),
    on_filter("cf.scandump", 3, "readonly"),
    on_filter("cf.loadchunk", 4, "write"),
    on_filter("gowk.reserve", -4, "write"),
    on_keys("exists", -2, "readonly"),
    on_filter("type", 2, "readonly"),
    on_keys("del", -2, "write"),
    on_keys("unlink", -2, "write"),
    general("keys", 2),
    general("scan", -2),
    general("dbsize", 1),
    general("ping", -1),
    general("echo", 2),
    general("hello", -1),
    general("auth", -2),
    general("select", 2),
    general("client", -2),
    general("command", -1),
    general("config", -2),
    general("module", -2),
    general("info", -1),
    general("multi", 1),
    general("exec", 1),
    general("discard", 1),
    general("reset", 1),
    general("quit", -1),
];

impl Command {
    /// Whether the command may come before the password.
    pub(crate) fn needs_no_password(&self) -> bool {
        matches!(self.name, "auth" | "hello" | "quit" | "reset")
    }

    fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// The command's entry in `COMMAND`.
    fn described(&self) -> Reply {
        let flags = self.flag.map(Reply::Status).into_iter().collect();
        let (first, last, step) = self.keys;
        let numbers = [first, last, step].map(Reply::Integer);
        let start = [Reply::text(self.name), Reply::Integer(self.arity), Reply::Array(flags)];
        Reply::Array(start.into_iter().chain(numbers).collect())
    }
}

/// The first characters of a client's argument, for a message.
pub(crate) fn shown(argument: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(argument).chars().take(64).collect();
    text.escape_default().to_string()
}

pub(crate) fn named(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
}

/// The command of a request. Fails if its number of arguments is wrong.
pub(crate) fn find(arguments: Arguments<'_>) -> Result<&'static Command, Reply> {
    let name = arguments.at(0);
    let unknown = || Reply::error(format!("unknown command '{}'", shown(name)));
    let command = named(name).ok_or_else(unknown)?;
    if command.takes(arguments.len()) { Ok(command) } else { Err(wrong_number(command.name)) }
}

fn wrong_number(name: &str) -> Reply {
    Reply::error(format!("wrong number of arguments for '{name}' command"))
}

/// Runs a command, which adds one reply to the session.
pub(crate) async fn run(
    session: &mut Session,
    command: &Command,
    arguments: Arguments<'_>,
) -> Result<(), Reply> {
    match command.name.split_once('.') {
        Some((_, "scandump" | "loadchunk")) => Err(Reply::error(
            "filters are not dumped in chunks; copy the file with `gowk copy`, also while it is served",
        )),
        Some(("bf", name)) => bloom::run(session, name, arguments).await,
        Some(("cf", name)) => cuckoo::run(session, name, arguments).await,
        Some(_) => reserve::gowk_reserve(session, arguments).await,
        None => match command.name {
            "exists" | "type" | "del" | "unlink" | "keys" | "scan" | "dbsize" => {
                keys::run(session, command.name, arguments).await
            }
            name => general::run(session, name, arguments),
        },
    }
}

/// A number in an argument.
fn number<T: std::str::FromStr>(argument: &[u8]) -> Option<T> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

fn is(argument: &[u8], name: &str) -> bool {
    argument.eq_ignore_ascii_case(name.as_bytes())
}
