//! Prints the plan of a job, and the summary of a run.

use std::path::{Path, PathBuf};

use gowk::store::Requests;
use gowk_ingest::{Job, Plan, PlannedInput, State, Summary, Tally};
use serde::Serialize;

use crate::failure::{Failure, by_option};
use crate::json;
use crate::output::{self, Output};
use crate::pace;
use crate::quantity::{self, chance, grouped};
use crate::source;

#[derive(Serialize)]
struct Found {
    /// How many records were read, including skipped ones.
    read: u64,
    seen: u64,
    skipped: u64,
    #[serde(flatten)]
    tally: Tally,
}

impl From<Tally> for Found {
    fn from(tally: Tally) -> Self {
        Self { read: tally.read(), seen: tally.seen(), skipped: tally.skipped(), tally }
    }
}

#[derive(Serialize)]
struct InputDone {
    input: String,
    finished: bool,
    #[serde(skip_serializing_if = "is_zero")]
    unfinished_bytes: u64,
    #[serde(flatten)]
    found: Found,
}

#[derive(Serialize)]
struct FilterNow {
    path: String,
    entries: u64,
    load: f64,
    expected_false_positive_rate: f64,
    commit: u64,
}

#[derive(Serialize)]
struct Done {
    job: String,
    finished: bool,
    /// The command that continues a stopped run.
    resume: Option<String>,
    inputs: Vec<InputDone>,
    finished_before: u64,
    run: Found,
    total: Found,
    seconds: f64,
    commit_seconds: f64,
    /// How many bytes this process had written to disks, including outputs, if the system counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_written: Option<u64>,
    filter: FilterNow,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Prints the summary of a run; `signal` is the signal that stopped it, if any.
pub(super) fn summary(
    job: &Job,
    summary: &Summary,
    signal: Option<i32>,
    as_json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let resume = format!("gowk ingest {}", job.path().display());
    if as_json {
        return output.line(json::line(&done(job, summary, (!summary.finished).then_some(resume))));
    }
    warn(job, summary);
    table(job, summary, output)?;
    if let Some(requests) = &summary.requests {
        output.line(quantity::requests(requests))?;
    }
    if signal.is_some() {
        let keys = summary.run.keys;
        output.flush()?;
        output::note(format_args!(
            "stopped by a signal; the {keys} keys of this run are committed; to go on: {resume}"
        ));
    }
    Ok(())
}

fn done(job: &Job, summary: &Summary, resume: Option<String>) -> Done {
    let input = |input: &gowk_ingest::InputSummary| InputDone {
        input: text(&input.path),
        finished: input.finished,
        unfinished_bytes: input.unfinished,
        found: input.tally.into(),
    };
    Done {
        job: job.name().to_owned(),
        finished: summary.finished,
        resume,
        inputs: summary.inputs.iter().map(input).collect(),
        finished_before: summary.finished_before,
        run: summary.run.into(),
        total: summary.total.into(),
        seconds: summary.duration.as_secs_f64(),
        commit_seconds: summary.committing.as_secs_f64(),
        bytes_written: pace::bytes_written(),
        filter: FilterNow {
            path: text(job.filter()),
            entries: summary.filter.entries,
            load: summary.filter.load,
            expected_false_positive_rate: summary.filter.expected_false_positive_rate,
            commit: summary.filter.commit,
        },
        requests: summary.requests,
    }
}

fn warn(job: &Job, summary: &Summary) {
    for input in &summary.inputs {
        let Tally { too_long, .. } = input.tally;
        if too_long > 0 {
            let (path, limit) = (input.path.display(), summary.max_key_length);
            output::note(format_args!("{path}: {too_long} keys longer than {limit} bytes were skipped"));
        }
        if input.restarted {
            output::note(format_args!(
                "{}: was cut or replaced; it was read from its start",
                input.path.display()
            ));
        }
        if input.unfinished > 0 {
            output::note(format_args!(
                "{}: its last line of {} bytes has no end yet, and the file was just written; it is left for a later run \
                 (`settle` under [input])",
                input.path.display(),
                input.unfinished
            ));
        }
        let done = if job.keeps_records_without_key() { "kept" } else { "skipped" };
        let done = (done, job.time_name());
        source::note_skipped(input.path.display(), &input.tally, done, job.rejects().as_deref());
        source::note_untimely(&input.path, &input.tally, "neither written nor stored", |keys| {
            keys.to_string()
        });
    }
    if summary.filter.quarantined_buckets > 0 {
        let share = 100.0 * summary.filter.expected_false_positive_rate;
        output::note(format_args!(
            "the filter was repaired: {share:.2} % of new keys are taken for seen ones; restore a copy to end that"
        ));
    }
}

fn table(job: &Job, summary: &Summary, output: &mut Output) -> Result<(), Failure> {
    let mut rows: Vec<(String, Tally)> = summary
        .inputs
        .iter()
        .map(|input| {
            let part = if input.finished { "" } else { " (in part)" };
            (format!("{}{part}", input.path.display()), input.tally)
        })
        .collect();
    rows.push(("this run".to_owned(), summary.run));
    if summary.total != summary.run {
        rows.push(("all runs".to_owned(), summary.total));
    }
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    output.line(format_args!(
        "{:width$}  {:>14}  {:>14}  {:>14}  {:>14}",
        "", "read", "new", "seen before", "skipped"
    ))?;
    for (name, tally) in &rows {
        let [read, new, seen, skipped] =
            [tally.read(), tally.new, tally.seen(), tally.skipped()].map(grouped);
        output.line(format_args!("{name:width$}  {read:>14}  {new:>14}  {seen:>14}  {skipped:>14}"))?;
    }
    if summary.total.refused > 0 {
        let [now, all] = [summary.run.refused, summary.total.refused].map(grouped);
        output.line(format_args!("keys without room: {now} in this run, {all} in all runs"))?;
    }
    if summary.finished_before > 0 {
        output.line(format_args!("inputs finished before this run: {}", summary.finished_before))?;
    }
    let seconds = summary.duration.as_secs_f64();
    let rate = summary.run.read() as f64 / seconds.max(0.001);
    let rate = grouped(rate.round() as u64);
    let share = 100.0 * summary.committing.as_secs_f64() / seconds.max(0.001);
    let written =
        pace::bytes_written().map_or_else(String::new, |bytes| format!(", {} bytes written", grouped(bytes)));
    output.line(format_args!(
        "{seconds:.1} seconds, {rate} records a second; {share:.0} % of the time in commits{written}"
    ))?;
    let (filter, info) = (job.filter().display(), &summary.filter);
    let (entries, rate) = (grouped(info.entries), chance(info.expected_false_positive_rate));
    output.line(format_args!(
        "{filter}: {entries} entries, load {:.4}, expected false-positive rate {rate}",
        info.load
    ))
}

#[derive(Serialize)]
struct Planned {
    job: String,
    filter: String,
    filter_exists: bool,
    inputs: Vec<PlannedLine>,
    output: Option<String>,
    output_keeps: Option<u64>,
    refused: Option<String>,
    refused_keeps: Option<u64>,
    rejects: Option<String>,
    rejects_keeps: Option<u64>,
}

#[derive(Serialize)]
struct PlannedLine {
    input: String,
    length: u64,
    state: &'static str,
    /// The byte at which reading continues; if the input was read in part, a byte of its decompressed content.
    from: u64,
}

impl From<&PlannedInput> for PlannedLine {
    fn from(input: &PlannedInput) -> Self {
        let (state, from) = match input.state {
            State::Finished => ("finished", input.length),
            State::Grown { from } => ("grown", from),
            State::HalfRead { base, offset } => ("half read", base + offset),
            State::Rotated => ("rotated", 0),
            _ => ("new", 0),
        };
        Self { input: text(&input.path), length: input.length, state, from }
    }
}

/// Prints the plan of a run.
pub(super) fn plan(job: &Job, plan: &Plan, as_json: bool, output: &mut Output) -> Result<(), Failure> {
    if as_json {
        let kept = |begin: &Option<(PathBuf, u64)>| {
            begin.as_ref().map(|(path, length)| (text(path), *length)).unzip()
        };
        let [new, refused, rejects] = [&plan.output, &plan.refused, &plan.rejects].map(kept);
        let planned = Planned {
            job: job.name().to_owned(),
            filter: text(job.filter()),
            filter_exists: plan.filter_exists,
            inputs: plan.inputs.iter().map(PlannedLine::from).collect(),
            output: new.0,
            output_keeps: new.1,
            refused: refused.0,
            refused_keeps: refused.1,
            rejects: rejects.0,
            rejects_keeps: rejects.1,
        };
        return output.line(json::line(&planned));
    }
    let filter = job.filter().display();
    let verb = if plan.filter_exists { "open" } else { "create" };
    output.line(format_args!("{}: would {verb} {filter}", job.name()))?;
    for PlannedInput { path, length, state, .. } in &plan.inputs {
        let path = path.display();
        match state {
            State::Finished => output.line(format_args!("{path}: finished, nothing new"))?,
            State::Grown { from } => {
                let [from, length] = [*from, *length].map(grouped);
                output.line(format_args!("{path}: has grown; would read bytes {from} to {length}"))?;
            }
            State::HalfRead { base, offset } => {
                let [offset, from] = [*offset, base + offset].map(grouped);
                output.line(format_args!(
                    "{path}: half read; would compare {offset} bytes and go on at byte {from}"
                ))?;
            }
            State::Rotated => output.line(format_args!(
                "{path}: was cut or replaced; would read {} bytes from its start",
                grouped(*length)
            ))?,
            _ => output.line(format_args!("{path}: would read {} bytes", grouped(*length)))?,
        }
    }
    for error in &plan.failed {
        output::note(format_args!("{error}{}", by_option(error)));
    }
    let outputs = [
        (&plan.output, "new keys"),
        (&plan.refused, "keys without room"),
        (&plan.rejects, "records without a key"),
    ];
    for (begin, which) in outputs {
        match begin {
            Some((path, 0)) => output.line(format_args!("{}: would get the {which}", path.display()))?,
            Some((path, length)) => {
                let length = grouped(*length);
                output.line(format_args!("{}: would get the {which} after byte {length}", path.display()))?;
            }
            None => {}
        }
    }
    Ok(())
}
