//! The command line: one module for each verb, and modules that several verbs share.
//!
//! A verb parses its arguments, calls the library, and returns an `Outcome` or a `Failure`. Only [`run`] turns
//! them into an exit code and a line on standard error.

mod arguments;
mod bar;
mod check;
mod completions;
mod copy;
mod count;
mod create;
mod creation;
mod dedup;
mod failure;
mod field;
mod grow;
mod info;
mod ingest;
mod insert;
mod intake;
mod json;
mod man;
mod merge;
mod outcome;
mod output;
mod pace;
mod paths;
mod prometheus;
mod quantity;
mod refused;
mod remove;
mod repair;
mod report;
mod scratch;
mod set;
mod shrink;
mod source;
mod stop;
mod store;
mod sweep;
mod tips;
mod verify;
mod window;

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;
use outcome::Outcome;

/// A set of keys on disk in about two bytes a key: has this key been seen?
///
/// FILE is a cuckoo filter. A key that was inserted is always found. A key that was never inserted is found at a
/// known, small rate. One process writes to the filter at a time, while any number read it. It survives
/// crashes, and doubles itself when it is full.
///
/// Keys are the arguments after FILE, else the lines of each --input, else the lines of standard input.
#[derive(Parser)]
#[command(name = "gowk", version, max_term_width = 100, after_help = EXAMPLES)]
struct Gowk {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  zcat urls.gz | gowk dedup seen.gowk > new.txt     lines never seen before, in their order
  gowk check seen.gowk https://example.org/         exit 0 if it is there, 1 if not
  gowk info seen.gowk                               size, load, expected false-positive rate

Exit codes: 0 found or done, 1 not found (check, remove) or damage found (verify), 2 error, 129, 130 and 143 \
stopped by SIGHUP, SIGINT and SIGTERM, 141 output closed, as by `head`.";

#[derive(Subcommand)]
enum Verb {
    Create(create::Create),
    #[command(visible_alias = "add")]
    Insert(insert::Insert),
    #[command(visible_alias = "rm")]
    Remove(remove::Remove),
    #[command(visible_alias = "contains")]
    Check(check::Check),
    Count(count::Count),
    Dedup(dedup::Dedup),
    Ingest(ingest::Ingest),
    #[command(visible_alias = "stats")]
    Info(info::Print),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Report(report::Report),
    Copy(copy::Copy),
    Merge(merge::MergeFilters),
    Grow(grow::Grow),
    Shrink(shrink::Shrink),
    Sweep(sweep::Sweep),
    Set(set::Set),
    Store(store::Store),
    Completions(completions::Completions),
    Man(man::Manual),
}

impl Verb {
    fn run(self) -> Result<Outcome, Failure> {
        match self {
            Self::Insert(verb) => return verb.run(),
            Self::Remove(verb) => return verb.run(),
            Self::Check(verb) => return verb.run(),
            Self::Count(verb) => verb.run()?,
            Self::Dedup(verb) => return verb.run(),
            Self::Ingest(verb) => return verb.run(),
            Self::Verify(verb) => return verb.run(),
            Self::Create(verb) => verb.run()?,
            Self::Info(verb) => verb.run()?,
            Self::Repair(verb) => verb.run()?,
            Self::Report(verb) => verb.run()?,
            Self::Copy(verb) => verb.run()?,
            Self::Merge(verb) => verb.run()?,
            Self::Grow(verb) => verb.run()?,
            Self::Shrink(verb) => verb.run()?,
            Self::Sweep(verb) => verb.run()?,
            Self::Set(verb) => verb.run()?,
            Self::Store(verb) => verb.run()?,
            Self::Completions(verb) => verb.run(&mut Gowk::command())?,
            Self::Man(verb) => verb.run(Gowk::command())?,
        }
        Ok(Outcome::Done)
    }
}

/// The command with one line for each option in `-h`. `--help` shows the whole text.
fn brief(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = verbs.iter().fold(command, |command, verb| command.mut_subcommand(verb, brief));
    command.mut_args(|arg| {
        let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
        let whole = arg.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
        let clause = first_clause(&help).to_owned();
        let short = Arg::help(arg, clause);
        short.long_help(whole)
    })
}

/// The text up to the end of its first clause, or up to a comma if the clause is longer than a line.
fn first_clause(text: &str) -> &str {
    const LINE: usize = 50;
    let up_to = |text: &'_ str, ends: &[&str]| {
        ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len())
    };
    let clause = text.get(..up_to(text, &[". ", "; ", ": ", " (", " [", ", as "])).unwrap_or(text);
    if clause.len() <= LINE { clause } else { clause.get(..up_to(clause, &[", "])).unwrap_or(clause) }
}

/// Runs the verb that the arguments name, and returns the exit code. The first argument is the program's name. Wrong
/// arguments and `--help` end the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(next) = arguments::unclear_wait(&arguments) {
        let next = next.display();
        output::note(format_args!(
            "--wait {next}: is {next} the seconds to wait, or a key or file? For seconds say `--wait={next}`; for a key or \
             file of this name, `--wait -- {next}`"
        ));
        return 2;
    }
    let parsed = brief(Gowk::command()).try_get_matches_from(&arguments);
    let verb = match parsed.and_then(|matches| Gowk::from_arg_matches(&matches)) {
        Ok(gowk) => gowk.verb,
        Err(error) => tips::improved(error, &arguments, &Gowk::command()).exit(),
    };
    match stop::survive_file_size_limits().and_then(|()| verb.run()) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::NotFound) => 1,
        // The exit code that a shell reports for a process killed by the signal.
        Ok(Outcome::Stopped(signal)) => 128_u8.saturating_add(signal as u8),
        Err(failure) => {
            // If the reader of the output closed it, it needs no message.
            if failure.is_broken_pipe() {
                return stop::OUTPUT_CLOSED;
            }
            output::note(&failure);
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_all_verbs_are_consistent() {
        Gowk::command().debug_assert();
        brief(Gowk::command()).debug_assert();
    }

    #[test]
    fn a_short_help_is_the_first_clause() {
        assert_eq!(
            first_clause("Keys end with NUL, in input and output"),
            "Keys end with NUL, in input and output"
        );
        assert_eq!(
            first_clause("Commit also after every KEYS keys. A filter is"),
            "Commit also after every KEYS keys"
        );
        assert_eq!(first_clause("Report each commit; \"unknown\": in doubt"), "Report each commit");
    }
}
