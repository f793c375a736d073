//! `gowk info`

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use gowk::store::StoreInfo;
use gowk::{Forecast, Growth, Info, Kind, Options, SlotsPerBucket};

use super::arguments::ReadArgs;
use super::failure::Failure;
use super::json;
use super::output::{self, Output};
use super::paths;
use super::prometheus::{self, Told};
use super::quantity::{self, grouped};
use super::store::{self, AnyReader};

/// How many doublings the library forecasts at most.
const FORECAST: usize = 8;

/// Describe a filter: its kind, size, load, age of entries, and expected false-positive rates
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk info seen.gowk
  gowk info *.gowk
  gowk info seen.gowk --json | jq .expected_false_positive_rate
  gowk info *.gowk --prometheus > gowk.prom.new; mv gowk.prom.new /var/lib/node_exporter/gowk.prom

With --json, entries_by_tail counts the entries whose tail has 0 bits, 1 bit, and so on. A new entry has the most
bits, and loses one at each doubling. forecast says what the next doublings bring. Each filter has a line of its own.")]
pub(super) struct Print {
    /// Filters and stores to describe
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,

    /// Print metrics as Prometheus reads them, for the text files of its node_exporter
    #[arg(long, conflicts_with_all = ["json", "show_seed"])]
    prometheus: bool,

    /// Also print the seed of the hash. Keep it from people who choose the keys: with it they can craft keys that collide
    #[arg(long)]
    show_seed: bool,
}

/// Explains the words that `gowk info` uses.
const LEGEND: &str = "\
tail: the bits by which an entry tells keys apart; each doubling takes one
void entry: one whose tail is used up; each further doubling copies it
quarantined bucket: one that was damaged and repaired; it answers \"present\" to every key";

/// When a filter's file was made: at the filter's creation, or at the last doubling or copy. And when the file or its
/// journal was last written to. The file system stores these times.
fn times(file: &Path) -> [Option<SystemTime>; 2] {
    let [data, journal, _] = paths::own(file).map(|path| path.metadata().ok());
    let made = data.as_ref().and_then(|data| data.created().ok());
    [made, [data, journal].into_iter().flatten().filter_map(|file| file.modified().ok()).max()]
}

impl Print {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut output = Output::standard(b'\n')?;
        let (options, mut failed, mut filters) =
            (self.read.apply(Options::new()), None::<Failure>, Vec::new());
        for (number, file) in self.files.iter().enumerate() {
            // A failure does not prevent the description of the other files.
            let found = AnyReader::open(file, &options);
            let outcome = if self.prometheus {
                let (told, outcome) = metrics(file, found);
                filters.push(told);
                outcome
            } else {
                found.and_then(|found| {
                    if number > 0 && !self.json {
                        output.line("")?;
                    }
                    self.describe(file, &found, &mut output)
                })
            };
            match outcome {
                Err(failure) if !failure.is_output() => {
                    output.flush()?;
                    failed.replace(failure).into_iter().for_each(output::note);
                }
                outcome => outcome?,
            }
        }
        if self.prometheus {
            prometheus::tell(&filters, &mut output)?;
        }
        output.flush()?;
        failed.map_or(Ok(()), Err)
    }

    fn describe(&self, file: &Path, found: &AnyReader, output: &mut Output) -> Result<(), Failure> {
        match found {
            AnyReader::Filter(reader) => self.describe_filter(file, reader.info()?, output),
            AnyReader::Store(reader) => store::print_info(file, reader, self.json, self.show_seed, output),
        }
    }

    fn describe_filter(&self, file: &Path, info: Info, output: &mut Output) -> Result<(), Failure> {
        let times = times(file);
        if self.json {
            let seed = self.show_seed.then(|| info.seed.get().to_string());
            let [file_made, last_written] = times.map(|time| time.map(quantity::utc));
            let file = file.to_string_lossy().into_owned();
            let description = json::Description { file, file_made, last_written, seed, info };
            return output.line(json::line(&description));
        }
        let seed = self.show_seed.then(|| ("seed", info.seed.get().to_string()));
        let facts = facts(file, times, &info);
        for (name, value) in facts.into_iter().chain(seed).chain(ages(&info)) {
            output.line(format_args!("{name:<24}{value}"))?;
        }
        for line in doublings(&info).into_iter().chain(halving(&info)) {
            output.line(line)?;
        }
        LEGEND.lines().try_for_each(|line| output.line(format_args!("  {line}")))
    }
}

/// The metrics of a file, and whether all of it could be read.
fn metrics(file: &Path, found: Result<AnyReader, Failure>) -> (Told<'_>, Result<(), Failure>) {
    let mut told = Told { file, info: None, store: None, last_written: times(file)[1] };
    let outcome = found.and_then(|found| {
        if let AnyReader::Store(reader) = &found {
            (told.store, told.last_written) = (Some(reader.info()), Some(reader.version().time));
        }
        told.info = Some(found.info()?);
        Ok(())
    });
    (told, outcome)
}

fn facts(file: &Path, [made, written]: [Option<SystemTime>; 2], info: &Info) -> Vec<(&'static str, String)> {
    let made_for = made_for(info.capacity, info.requested_false_positive_rate);
    let counting = info.kind == Kind::Counting;
    let (keys, stored) = if counting {
        let (inserted, removed) = (grouped(info.inserted), grouped(info.removed));
        ("copies of keys", format!("{} ({inserted} inserted, {removed} removed)", grouped(info.copies)))
    } else {
        ("keys", grouped(info.copies))
    };
    let entries = match (grouped(info.entries), grouped(info.digits)) {
        (entries, digits) if counting => format!("{entries} and {digits} digits, which count their copies"),
        (entries, _) => entries,
    };
    let saturated = match info.saturated {
        0 => "none".to_owned(),
        entries => format!(
            "{}, which stand for more copies than can be counted, and stay for good",
            grouped(entries)
        ),
    };
    let regions = format!("{} ({} when created)", grouped(info.regions), grouped(info.base_regions));
    let bits = bits_per_key(info);
    let rate = format!("{} expected now", quantity::chance(info.expected_false_positive_rate));
    let time = |time: Option<SystemTime>| time.map_or_else(|| "not known".to_owned(), quantity::time);
    let mut facts = vec![
        ("path", file.display().to_string()),
        ("format", format!("{}.{}", info.format.0, info.format.1)),
        ("uuid", json::uuid(info.uuid)),
        ("kind", kind_of(info).to_owned()),
        ("keys are taken", key_rules(info)),
        ("created for", made_for),
        ("this file since", format!("{}: its creation, or the last doubling or copy", time(made))),
        ("last written", time(written)),
        ("slots per bucket", info.slots_per_bucket.get().to_string()),
        ("generation", info.generation.to_string()),
        ("regions", regions),
        (keys, stored),
        ("entries", entries),
        ("load", format!("{:.4}", info.load)),
        ("bits a key", bits),
        ("false-positive rate", rate),
        ("quarantined buckets", grouped(info.quarantined_buckets)),
        ("commit", grouped(info.commit)),
        ("file", sized(info.file_length)),
        ("journal", sized(info.journal_length)),
        ("growth", growth(info)),
    ];
    if counting {
        facts.push(("saturated entries", saturated));
    }
    if let Some(retention) = info.retention {
        let time = info.time.map_or_else(|| "none yet".to_owned(), quantity::time_of);
        facts.insert(4, ("retention", retention.to_string()));
        facts.insert(5, ("filter's time", time));
        facts.push(("forgotten entries", grouped(info.removed)));
    }
    if let Some(newest) = info.keep_newest {
        facts.insert(4, ("retention", quantity::newest(newest)));
        facts.push(("forgotten entries", grouped(info.removed)));
    }
    if info.shards > 1 {
        facts.insert(6, ("shard", format!("{} of {}, counted from 0", info.shard, info.shards)));
    }
    facts
}

/// The capacity and rate that a filter or store was created for.
pub(super) fn made_for(capacity: u64, rate: Option<f64>) -> String {
    let rate = rate.map(|rate| format!(" at a false-positive rate of {rate}")).unwrap_or_default();
    format!("{} keys{rate}", grouped(capacity))
}

/// Below this load, the file's bits per key show how empty the filter is, rather than how much room a key takes.
const NEARLY_EMPTY: f64 = 0.1;

/// Bits that a key takes; for a nearly empty filter, the bits that a key will take once it is full.
pub(super) fn bits_per_key(info: &Info) -> String {
    let when_full = info.file_length as f64 * 8.0 / (info.slots as f64 * info.slots_per_bucket.headroom());
    match info.bits_per_key {
        None => format!("{when_full:.2} when full; no keys yet"),
        Some(_) if info.load < NEARLY_EMPTY => format!("{when_full:.2} when full; few keys yet"),
        Some(bits) => format!("{bits:.2}"),
    }
}

/// Like `bits_per_key`, for a store. The number of slots follows from the length of its files: a bucket has 8 bytes.
pub(super) fn bits_per_key_of_store(info: &StoreInfo, slots_per_bucket: SlotsPerBucket) -> String {
    let slots = info.bytes as f64 / 8.0 * f64::from(slots_per_bucket.get());
    match info.bits_per_key {
        None => "no keys yet".to_owned(),
        Some(_) if (info.entries as f64) < NEARLY_EMPTY * slots => "few keys yet".to_owned(),
        Some(bits) => format!("{bits:.2}"),
    }
}

const fn kind_of(info: &Info) -> &'static str {
    if info.keep_newest.is_some() { "forgetting: the newest keys" } else { kind(info.kind) }
}

/// A kind's name and meaning.
pub(super) const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counting => "counting: copies of keys, which can be counted and removed",
        Kind::Forgetting => "forgetting: each key for some time",
        _ => "set: each key once, for good",
    }
}

pub(super) fn sized(bytes: u64) -> String {
    format!("{} ({} bytes)", quantity::bytes(bytes), grouped(bytes))
}

pub(super) fn growth(info: &Info) -> String {
    let mut text = match info.growth {
        Growth::Auto => "when full".to_owned(),
        Growth::Never => "only by `gowk grow`".to_owned(),
    };
    if let Some(bytes) = info.max_file_size {
        text += &format!(", to {} at most", sized(bytes));
    }
    if let Some(rate) = info.max_false_positive_rate {
        text += &format!(", to an expected false-positive rate of {rate} at most");
    }
    text
}

/// Entries by the number of doublings since they were stored, oldest last.
fn ages(info: &Info) -> Vec<(&'static str, String)> {
    let by_tail = info.entries_by_tail.iter().enumerate().rev();
    let by_age = by_tail.enumerate().filter(|(age, (_, entries))| *age == 0 || **entries > 0);
    let line = |(age, (tail, entries)): (usize, (usize, &u64))| {
        // The first doubling of a set or a forgetting filter shortens no tail.
        let two_ages = info.kind != Kind::Counting && u64::from(info.generation) == age as u64 + 1;
        let doublings = match age {
            _ if two_ages && tail > 0 => format!("{age} or {} doublings old", age + 1),
            0 => "stored since the last doubling".to_owned(),
            1 => "1 doubling old".to_owned(),
            _ if tail == 0 => format!("{age} doublings old or more"),
            _ => format!("{age} doublings old"),
        };
        let name = if age == 0 { "entries by age" } else { "" };
        (name, format!("{} {doublings} ({tail} tail bits)", grouped(*entries)))
    };
    by_age.map(line).collect()
}

/// The size and rate after a halving, if one is possible.
fn halving(info: &Info) -> Option<String> {
    let Forecast { file_length, expected_false_positive_rate: rate, .. } = info.shrunk?;
    let name = "when shrunk";
    let (size, rate) = (sized(file_length), quantity::chance(rate));
    Some(format!("{name:<24}{size}, false-positive rate {rate} (`gowk shrink`)"))
}

/// The rates after each of the next doublings.
fn doublings(info: &Info) -> Vec<String> {
    let Some(last) = info.forecast.last() else {
        return vec![format!("{:<24}none left within its limits", "doublings")];
    };
    let count = info.forecast.len();
    let more = if count == FORECAST { " or more" } else { "" };
    let to = grouped(last.entries);
    let mut lines = vec![
        format!("{:<24}{count}{more} left within its limits: room for {to} entries{more}", "doublings"),
        format!(
            "{:<24}{:>10}  {:>14}  {:>19}  {:>10}",
            "when full again", "generation", "entries", "false-positive rate", "bits a key"
        ),
    ];
    lines.extend(info.forecast.iter().map(|next| {
        let (rate, bits) = (next.expected_false_positive_rate, next.bits_per_key);
        format!(
            "{:<24}{:>10}  {:>14}  {rate:>19.3e}  {bits:>10.2}",
            "",
            next.generation,
            grouped(next.entries)
        )
    }));
    lines
}

/// The key rules, in words.
pub(super) fn key_rules(info: &Info) -> String {
    info.key_rules.map_or_else(|| "by rules of a newer gowk".to_owned(), |rules| rules.to_string())
}
