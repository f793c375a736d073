//! Fails each call of a script once, and continues as the specification says (6.9).

use std::fmt;
use std::io;

use gowk::Error;

use super::cut::{Examiner, is_right, scratch};
use super::history::{Event, InUse};
use super::record::Fault;
use super::script::{Run, Script, Step};
use super::state::{Opening, State};

/// A user's reaction to a failed commit that left the transaction whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    CommitAgain,
    RollBack,
}

/// How a script continued after a failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Outcome {
    /// The call was made again, and succeeded.
    Repeated,
    /// The transaction was whole, and a second attempt committed it.
    CommittedAgain,
    /// The transaction was whole, was rolled back, and was made again.
    RolledBack,
    /// The writer was poisoned. After reopening, the filter had the previous state.
    PoisonedBefore,
    /// The writer was poisoned. After reopening, the filter had the transaction.
    PoisonedAfter,
    /// No error was returned, as nothing depends on the call.
    Unnoticed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeated => "repeated",
            Self::CommittedAgain => "transaction whole, committed again",
            Self::RolledBack => "transaction whole, rolled back",
            Self::PoisonedBefore => "poisoned; the state before after reopening",
            Self::PoisonedAfter => "poisoned; committed after reopening",
            Self::Unnoticed => "unnoticed",
        })
    }
}

/// The result for one failed call.
pub(crate) struct Struck {
    /// The call that failed: `sync journal`.
    pub(crate) call: String,
    /// The step in which it failed.
    pub(crate) step: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) images: usize,
}

/// What the specification allows (6.5 and 6.9). A transaction that cannot be in doubt stays whole. After a failed sync,
/// or a failed write to a published file, the writer is poisoned.
fn allowed(step: &str, call: &str, answer: Answer, kind: io::ErrorKind) -> &'static [Outcome] {
    use Outcome::{CommittedAgain, PoisonedAfter, PoisonedBefore, Repeated, RolledBack, Unnoticed};
    // Failures to remove a dead writer's files are ignored. A reader that cannot recover answers from memory.
    if call.starts_with("remove") {
        return &[Unnoticed];
    }
    if step == "read" && kind == io::ErrorKind::StorageFull {
        return &[Repeated, Unnoticed];
    }
    if !matches!(step, "commit" | "abandon") {
        return if step == "replace" { &[PoisonedBefore, PoisonedAfter] } else { &[Repeated] };
    }
    let (what, at) = call.split_once(' ').unwrap_or((call, ""));
    match (what, at.split(' ').next()) {
        ("sync", Some("journal" | "filter" | "folder")) => &[PoisonedAfter, PoisonedBefore],
        // An edit created the file, and nothing relies on it yet.
        ("sync", Some("head")) => &[RolledBack],
        ("sync", _) => &[PoisonedBefore],
        ("write", Some("filter")) => &[PoisonedAfter, PoisonedBefore],
        // A failed append is cut back, unless the cut also fails.
        ("append", _) if call.contains(", cut") => &[PoisonedBefore],
        ("append", _) if answer == Answer::CommitAgain => &[CommittedAgain],
        ("append", _) => &[RolledBack],
        // The call prepares the journal, or is part of a checkpoint or publication.
        ("write" | "cut" | "create", Some("journal")) => match answer {
            Answer::CommitAgain => &[CommittedAgain, PoisonedAfter, PoisonedBefore],
            Answer::RollBack => &[RolledBack, PoisonedAfter, PoisonedBefore],
        },
        // The transaction's own file: an edit writes it, and the commit seals and publishes it.
        ("write" | "rename", _) if answer == Answer::CommitAgain => &[CommittedAgain, RolledBack],
        _ => &[RolledBack],
    }
}

const fn name(step: &Step) -> &'static str {
    match step {
        Step::Create => "create",
        Step::Open => "open",
        Step::Commit(_) => "commit",
        Step::Abandon(_) => "abandon",
        Step::Close => "close",
        Step::Replace => "replace",
        Step::Read => "read",
    }
}

/// How many calls a script makes without a failure.
pub(crate) fn calls(script: &Script) -> usize {
    let dir = scratch();
    let mut run = Run::start(script, dir.path(), None);
    script.steps.iter().for_each(|step| run.do_step(step).unwrap());
    run.recorder.calls()
}

/// Runs a script with one failing call, then cuts the power in some ways. `None` if the script does not reach the call.
pub(crate) fn strike(script: &Script, fault: Fault, answer: Answer) -> Option<Struck> {
    let dir = scratch();
    let mut run = Run::start(script, dir.path(), Some(fault));
    let mut struck = None;
    let mut cut_from = 0;
    for step in &script.steps {
        let known = struck.is_some();
        let before = run.recorder.events();
        let outcome = match run.do_step(step) {
            Ok(()) => Outcome::Unnoticed,
            Err(error) => {
                run.recorder.mark(Event::InUse(InUse::Changing));
                assert!(!known, "{}: {error} in {step:?}, without a fault", script.name);
                check_error(&error, fault.kind);
                let said = Said::of(&error, &run);
                if said == Said::Durable {
                    // The commit is durable: later power cuts must not lose it.
                    run.recorder.mark(Event::Acknowledged(run.states.len() - 1));
                }
                let outcome = get_over(&mut run, script, step, answer);
                said.check(outcome, &format!("{}: {error:?} in {step:?}: {outcome}", script.name));
                outcome
            }
        };
        if let (false, Some(call)) = (known, run.recorder.struck()) {
            (struck, cut_from) = (Some((call, name(step), outcome)), before);
        }
    }
    drop(run.writer.take());
    let (call, step, outcome) = struck?;
    assert!(
        allowed(step, &call, answer, fault.kind).contains(&outcome),
        "{}: {call} in {step}: {outcome}",
        script.name
    );
    let history = run.recorder.history();
    let what = format!("{}, {call} failed in {step} ({fault:?}, {answer:?}): {outcome}", script.name);
    is_right(&run.path, run.now()).unwrap_or_else(|message| panic!("{what}: {message}"));
    let mut examiner = Examiner::new(&what, &run.states);
    // A failed sync leaves the most possible states.
    let images = if call.starts_with("sync") { 48 } else { 8 };
    examiner.some(&history, cut_from, images, fault.call as u64);
    let images = examiner.images;
    Some(Struck { call, step, outcome, images })
}

/// What an error says about the attempted commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    NotThere,
    Unknown,
    Durable,
}

impl Said {
    fn of(error: &Error, run: &Run) -> Self {
        let attempted = run.states.last().and_then(|state| state.filter.as_ref()).map(|filter| filter.commit);
        let durable = run.now().filter.as_ref().map_or(0, |filter| filter.commit);
        match error {
            Error::Unknown { commit, .. } => {
                assert_eq!((Some(*commit), *commit), (attempted, durable + 1), "{error}");
                Self::Unknown
            }
            Error::AfterCommit { commit, .. } if *commit == durable => Self::NotThere,
            Error::AfterCommit { commit, .. } => {
                assert_eq!((Some(*commit), *commit), (attempted, durable + 1), "{error}");
                Self::Durable
            }
            _ => Self::NotThere,
        }
    }

    fn check(self, outcome: Outcome, what: &str) {
        let is_after = outcome == Outcome::PoisonedAfter;
        match self {
            Self::NotThere => {
                assert!(!is_after, "{what}, though the error says that the commit is not there")
            }
            Self::Durable => assert!(is_after, "{what}, though the error says that the commit is durable"),
            Self::Unknown => {
                assert!(
                    is_after || outcome == Outcome::PoisonedBefore,
                    "{what}, though the error says that the outcome is unknown"
                );
            }
        }
    }
}

/// Checks that the error says where, why, and what happened to the commit.
fn check_error(error: &Error, kind: io::ErrorKind) {
    if let Error::Unknown { path, commit, source } | Error::AfterCommit { path, commit, source } = error {
        let message = error.to_string();
        assert!(path.is_absolute() && message.contains(&format!("commit {commit} of {}", path.display())));
        assert!(message.contains("open the filter again"), "{message}");
        assert_eq!(message.matches(&source.to_string()).count(), 1, "{message}");
        let chain = std::iter::successors(std::error::Error::source(error), |error| error.source());
        assert!(chain.last().is_some_and(|source| source.is::<io::Error>()), "{error:?}");
        return check_error(source, kind);
    }
    let Error::Io { path, op, source } = error else { panic!("{error:?} is not an I/O error") };
    assert!(path.is_absolute() && !op.is_empty(), "{error}");
    let reason = io::Error::from(kind).to_string();
    assert!(source.kind() == kind || source.to_string().contains(&reason), "{error:?}");
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}

/// Reacts to an error as a user would, until the step is done.
fn get_over(run: &mut Run, script: &Script, step: &Step, answer: Answer) -> Outcome {
    let attempted = run.states.len() - 1;
    let poisoned =
        run.writer.as_ref().is_some_and(|writer| matches!(writer.info(), Err(Error::Poisoned { .. })));
    match step {
        Step::Commit(_) | Step::Abandon(_) if poisoned => {
            drop(run.writer.take());
            let after = reopened(run);
            reopen_writer(run, script);
            if after {
                return Outcome::PoisonedAfter;
            }
            run.do_step(step).unwrap();
            Outcome::PoisonedBefore
        }
        Step::Commit(_) if attempted > run.durable && answer == Answer::CommitAgain => {
            run.commit(attempted).unwrap();
            Outcome::CommittedAgain
        }
        Step::Commit(_) | Step::Abandon(_) => {
            run.writer.as_mut().unwrap().rollback().unwrap();
            run.settle(run.durable);
            run.do_step(step).unwrap();
            Outcome::RolledBack
        }
        Step::Close => {
            reopened(run);
            reopen_writer(run, script);
            run.do_step(step).unwrap();
            Outcome::Repeated
        }
        Step::Replace => {
            if reopened(run) {
                reopen_writer(run, script);
                return Outcome::PoisonedAfter;
            }
            run.do_step(step).unwrap();
            Outcome::PoisonedBefore
        }
        Step::Create | Step::Open | Step::Read => {
            run.do_step(step).unwrap();
            Outcome::Repeated
        }
    }
}

fn reopen_writer(run: &mut Run, script: &Script) {
    let step = if run.now().filter.is_none() { &Step::Create } else { &Step::Open };
    run.do_step(step).unwrap_or_else(|error| panic!("{}: {error}", script.name));
}

/// Opens the filter. Returns whether it holds the attempted state rather than the previous one.
fn reopened(run: &mut Run) -> bool {
    let found = run.look(Opening::Reader).unwrap();
    let last = run.states.len() - 1;
    let number = (run.durable..=last).rev().find(|number| run.states[*number] == found);
    let Some(number) = number else {
        let expected: &[State] = &run.states[run.durable..];
        panic!("found {found:?}, expected one of {expected:?}");
    };
    let after = number > run.durable;
    run.settle(number);
    after
}
