//! `gowk info`

use std::path::PathBuf;

use clap::Args;
use gowk::{Growth, Info, Options};

use super::arguments::ReadArgs;
use super::failure::Failure;
use super::json;
use super::outcome::Outcome;
use super::output::Output;
use super::store;

/// The most doublings that the library looks ahead.
const FORECAST: usize = 8;

/// Describe a filter: its size, load, age of entries, and expected false-positive rates
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk info seen.gowk
  gowk info seen.gowk --json | jq .expected_false_positive_rate

With --json, entries_by_tail counts the entries whose tail has 0 bits, 1 bit, and so on. A new entry has the most
bits, and loses one at each doubling. forecast says what the next doublings bring.")]
pub(super) struct Print {
    /// Filter or store to describe
    file: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

impl Print {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            return store::print_info(&self.file, self.json);
        }
        let info = self.read.apply(Options::new()).read(&self.file)?.info()?;
        let mut output = Output::standard(b'\n')?;
        if self.json {
            output.line(json::line(&json::Description::from(info)))?;
        } else {
            for (name, value) in facts(&info).into_iter().chain(ages(&info)) {
                output.line(format_args!("{name:<24}{value}"))?;
            }
            for line in doublings(&info) {
                output.line(line)?;
            }
        }
        output.flush()?;
        Ok(Outcome::Done)
    }
}

fn facts(info: &Info) -> Vec<(&'static str, String)> {
    let made_for = match info.requested_false_positive_rate {
        Some(rate) => format!("{} keys at a false-positive rate of {rate}", info.capacity),
        None => format!("{} keys", info.capacity),
    };
    let entries = format!(
        "{} ({} inserted, {} removed; {} inserts stored nothing)",
        info.entries, info.inserted, info.removed, info.unrecorded
    );
    let regions = format!("{} ({} when created)", info.regions, info.base_regions);
    let bits = info.bits_per_key.map_or_else(|| "no keys yet".to_owned(), |bits| format!("{bits:.2}"));
    let rate = format!("{:.3e} expected now", info.expected_false_positive_rate);
    let mut facts = vec![
        ("format", json::version(info.format)),
        ("uuid", json::uuid(info.uuid)),
        ("seed", info.seed.to_string()),
        ("created for", made_for),
        ("slots per bucket", info.slots_per_bucket.get().to_string()),
        ("generation", info.generation.to_string()),
        ("regions", regions),
        ("entries", entries),
        ("load", format!("{:.4}", info.load)),
        ("bits a key", bits),
        ("false-positive rate", rate),
        ("quarantined buckets", info.quarantined_buckets.to_string()),
        ("commit", info.commit.to_string()),
        ("file", format!("{} bytes", info.file_length)),
        ("journal", format!("{} bytes", info.journal_length)),
        ("growth", growth(info)),
    ];
    if info.shards > 1 {
        facts.insert(6, ("shard", format!("{} of {}, counted from 0", info.shard, info.shards)));
    }
    facts
}

fn growth(info: &Info) -> String {
    let mut text = match info.growth {
        Growth::Auto => "when full".to_owned(),
        Growth::Never => "only by `gowk grow`".to_owned(),
    };
    if let Some(bytes) = info.max_file_size {
        text += &format!(", to {bytes} bytes at most");
    }
    if let Some(rate) = info.max_false_positive_rate {
        text += &format!(", to an expected false-positive rate of {rate} at most");
    }
    text
}

/// Entries by the doublings they have lived through, oldest last.
fn ages(info: &Info) -> Vec<(&'static str, String)> {
    let by_tail = info.entries_by_tail.iter().enumerate().rev();
    let by_age = by_tail.enumerate().filter(|(age, (_, entries))| *age == 0 || **entries > 0);
    let line = |(age, (tail, entries)): (usize, (usize, &u64))| {
        let doublings = match age {
            0 => "stored since the last doubling".to_owned(),
            1 => "1 doubling old".to_owned(),
            _ if tail == 0 => format!("{age} doublings old or more"),
            _ => format!("{age} doublings old"),
        };
        let name = if age == 0 { "entries by age" } else { "" };
        (name, format!("{entries} {doublings} ({tail} tail bits)"))
    };
    by_age.map(line).collect()
}

/// What the next doublings bring.
fn doublings(info: &Info) -> Vec<String> {
    let Some(last) = info.forecast.last() else {
        return vec![format!("{:<24}none left within its limits", "doublings")];
    };
    let count = info.forecast.len();
    let more = if count == FORECAST { " or more" } else { "" };
    let to = last.entries;
    let mut lines = vec![
        format!("{:<24}{count}{more} left within its limits: room for {to} entries{more}", "doublings"),
        format!(
            "{:<24}{:>10}  {:>14}  {:>19}  {:>10}",
            "when full again", "generation", "entries", "false-positive rate", "bits a key"
        ),
    ];
    lines.extend(info.forecast.iter().map(|next| {
        let (rate, bits) = (next.expected_false_positive_rate, next.bits_per_key);
        format!("{:<24}{:>10}  {:>14}  {rate:>19.3e}  {bits:>10.2}", "", next.generation, next.entries)
    }));
    lines
}
