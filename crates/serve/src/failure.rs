//! Errors of gowk as replies.

use gowk::{Error, ErrorKind, Kind};

use crate::reply::Reply;

/// The reply of other servers if there is no such filter.
pub(crate) const NOT_FOUND: &str = "ERR not found";

/// The reply for a failure, which names the file and the remedy.
pub(crate) fn reply(error: &Error) -> Reply {
    match error.kind() {
        ErrorKind::NotFound => Reply::Error(NOT_FOUND.to_owned()),
        ErrorKind::Kind => Reply::Error(format!("WRONGTYPE {error}")),
        // Redis' word for a disk to which it cannot write.
        ErrorKind::NoSpace | ErrorKind::Unknown | ErrorKind::AfterCommit => {
            Reply::Error(format!("MISCONF {error}"))
        }
        _ => Reply::error(error.to_string()),
    }
}

/// The reply if a filter of this kind does not support the command's family.
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

/// Whether a writer is unusable after this error.
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
