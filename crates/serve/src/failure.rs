//! Errors of gowk as replies.

use gowk::{Error, ErrorKind, Kind};

use crate::reply::Reply;

/// What clients of other servers get where no such filter is.
pub(crate) const NOT_FOUND: &str = "ERR not found";

/// The reply for a failure. It names the file and the remedy.
pub(crate) fn reply(error: &Error) -> Reply {
    match error.kind() {
        ErrorKind::NotFound => Reply::Error(NOT_FOUND.to_owned()),
        ErrorKind::Kind => Reply::Error(format!("WRONGTYPE {error}")),
        // As Redis calls a disk that it cannot write to.
        ErrorKind::NoSpace | ErrorKind::Unknown | ErrorKind::AfterCommit => {
            Reply::Error(format!("MISCONF {error}"))
        }
        _ => Reply::error(error.to_string()),
    }
}

/// The reply where a filter of this kind does not have the command's family.
pub(crate) fn wrong_kind(found: Kind) -> Reply {
    let (kind, family) = match found {
        Kind::Counting => ("counting filter", "CF"),
        Kind::Forgetting => ("forgetting filter", "BF"),
        _ => ("set", "BF"),
    };
    Reply::Error(format!(
        "WRONGTYPE Operation against a key holding the wrong kind of value: it is a {kind}, which the commands {family}.* \
         are for"
    ))
}

/// Whether a writer cannot be used any more after this error.
pub(crate) fn ends_the_writer(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unknown
            | ErrorKind::AfterCommit
            | ErrorKind::Poisoned
            | ErrorKind::Replaced
            | ErrorKind::NotFound
    )
}
