//! Tips for arguments that gowk does not understand: the most likely meaning, or no tip if none is likely.

use std::ffi::OsString;

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs, and their names in other tools.
const VERBS: [(&str, &str); 10] = [
    ("check", "has exists exist find get lookup query test"),
    ("remove", "delete del discard"),
    ("create", "new init make"),
    ("insert", "put push append"),
    ("dedup", "uniq unique filter"),
    ("info", "show describe status"),
    ("merge", "union"),
    ("verify", "fsck"),
    ("repair", "fix"),
    ("grow", "resize"),
];

/// Options, and their names in other tools.
const OPTIONS: [(&str, &str); 8] = [
    ("--false-positive-rate", "--fpr --fp-rate --fp --error-rate --error --rate"),
    ("--max-false-positive-rate", "--max-fpr"),
    ("--capacity", "--size --keys"),
    ("--input", "--file"),
    ("--absent", "--invert-match"),
    ("--null", "--null-data --zero-terminated"),
    ("--wait", "--timeout"),
    ("--threads", "--jobs"),
];

/// gowk's name for what another tool calls `other`.
fn here(names: &'static [(&str, &str)], other: &str) -> Option<&'static str> {
    names.iter().find(|(_, others)| others.split(' ').any(|name| name == other)).map(|(name, _)| *name)
}

/// A misspelt word differs from a verb by at most this many letters.
const NEAR: usize = 2;

fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn set(error: &mut clap::Error, tip: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
}

/// The error with helpful tips, and without those tips of the parser that are usually wrong: an unknown long option is
/// hardly ever meant as a key, and a verb that differs in most of its letters is hardly ever meant.
pub(super) fn improved(mut error: clap::Error, arguments: &[OsString], command: &Command) -> clap::Error {
    match error.kind() {
        ErrorKind::UnknownArgument => improve_option(&mut error, arguments, command),
        ErrorKind::InvalidSubcommand => improve_verb(&mut error),
        _ => {}
    }
    error
}

fn improve_verb(error: &mut clap::Error) {
    let given = text(error, ContextKind::InvalidSubcommand);
    if let Some(verb) = here(&VERBS, &given) {
        let verbs = ContextValue::Strings(vec![verb.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, verbs);
        return;
    }
    let is_near = |verbs: &ContextValue| match verbs {
        ContextValue::Strings(verbs) => {
            verbs.iter().any(|known| strsim::damerau_levenshtein(known, &given) <= NEAR)
        }
        _ => false,
    };
    if !error.get(ContextKind::SuggestedSubcommand).is_some_and(is_near) {
        error.remove(ContextKind::SuggestedSubcommand);
    }
}

fn improve_option(error: &mut clap::Error, arguments: &[OsString], command: &Command) {
    error.remove(ContextKind::Suggested);
    let option = text(error, ContextKind::InvalidArg);
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|argument| argument.to_str()).collect();
    let Some(verb) = words.first().and_then(|first| command.find_subcommand(first)) else {
        let then = words.iter().find(|word| command.find_subcommand(word).is_some()).unwrap_or(&"VERB");
        let version = if matches!(option.as_str(), "-v") { "; `gowk -V` prints the version" } else { "" };
        return set(
            error,
            format!("options stand behind the verb, as in `gowk {then} {option} ...`{version}"),
        );
    };
    // If the verb has verbs of its own, the given one of these.
    let inner = words.get(1).and_then(|second| verb.find_subcommand(second));
    let verb = inner.unwrap_or(verb);
    let has = |name: &str| verb.get_arguments().any(|known| known.get_long() == name.strip_prefix("--"));
    if let Some(name) = here(&OPTIONS, &option).filter(|name| has(name)) {
        return set(error, format!("it is `{name}` here"));
    }
    // If one argument holds several short options, the parser names one of them; but the whole argument may be a key.
    let Some(letter) = option.strip_prefix('-').filter(|name| !name.starts_with('-')) else { return };
    let key = words.iter().find(|word| word.starts_with('-') && word.contains(letter));
    if let Some(key) = key.filter(|_| verb.get_arguments().any(|known| known.get_id() == "keys")) {
        set(error, format!("to take '{key}' for a key, say '-- {key}'"));
    }
}
