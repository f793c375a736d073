//! The pictures of one filter. Pictures of entries are also drawn for all shards of a store together.

use std::collections::BTreeMap;
use std::path::Path;

use gowk::{Expiry, Forecast, Growth, Info, Kind, Reader, Report};

use super::super::bar;
use super::super::failure::Failure;
use super::super::info::{bits_per_key, growth};
use super::super::quantity::{self, bytes, chance, grouped};
use super::html::Page;
use super::svg::{self, Bar, Cell, Point, Scale};
use super::{foot, made, name, percent};

/// The most cells of a map: with more, they would be too small to see.
const CELLS: usize = 768;
/// Columns of a distribution: one for each hundredth of the load.
const COLUMNS: usize = 100;
/// How many damaged regions are named one by one at most.
const NAMED: usize = 12;

pub(super) fn page(path: &Path, reader: &Reader) -> Result<String, Failure> {
    let info = reader.info()?;
    let report = reader.verify(&bar::of("reading"))?;
    let mut page = Page::new(&name(path), &made(path));
    let regions = Regions::of(&info, &report);
    regions.damage(&mut page, &report);
    next(&mut page, &info, &next_doubling(&info));
    page.facts(&facts(&info));
    regions.map(&mut page);
    regions.distribution(&mut page);
    room(&mut page, &info, &next_doubling(&info));
    expiries(&mut page, &info, report.expiries);
    ages(&mut page, &info);
    rates(&mut page, &info);
    Ok(page.end(&foot()))
}

fn facts(info: &Info) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("kind", info.kind.name().to_owned()),
        (if info.kind == Kind::Counting { "copies of keys" } else { "keys" }, grouped(info.copies)),
        ("entries", grouped(info.entries)),
        ("slots in use", percent(info.load)),
        ("false-positive rate", chance(info.expected_false_positive_rate)),
        ("file", bytes(info.file_length)),
        ("bits a key", bits_per_key(info)),
        ("slots per bucket", info.slots_per_bucket.get().to_string()),
        ("doublings so far", info.generation.to_string()),
        ("grows", growth(info)),
        ("last commit", grouped(info.commit)),
    ];
    if info.shards > 1 {
        facts.push(("shard", format!("{} of {}", info.shard, info.shards)));
    }
    facts
}

/// How much of each region is in use, and which regions are damaged.
struct Regions {
    /// The load of each region, from 0 to 1.
    loads: Vec<f64>,
    damaged: Vec<bool>,
    full: f64,
}

impl Regions {
    fn of(info: &Info, report: &Report) -> Self {
        let slots = info.slots as f64 / info.regions.max(1) as f64;
        let loads: Vec<f64> = report.used_slots.iter().map(|used| f64::from(*used) / slots).collect();
        let mut damaged = vec![false; loads.len()];
        for page in report.damaged.iter().chain(&report.malformed) {
            if let Some(is) = usize::try_from(page.region).ok().and_then(|region| damaged.get_mut(region)) {
                *is = true;
            }
        }
        Self { loads, damaged, full: info.slots_per_bucket.headroom() }
    }

    fn map(&self, page: &mut Page) {
        let each = self.loads.len().div_ceil(CELLS).max(1);
        let cells: Vec<Cell> = self
            .loads
            .chunks(each)
            .zip(self.damaged.chunks(each))
            .enumerate()
            .map(|(index, (loads, damaged))| {
                let (first, last) = (index * each, index * each + loads.len() - 1);
                let mean = loads.iter().sum::<f64>() / loads.len() as f64;
                let wrong = damaged.contains(&true);
                let place = if first == last {
                    format!("region {first}")
                } else {
                    format!("regions {first} to {last}")
                };
                let also = if wrong { "; damaged" } else { "" };
                Cell { full: mean, wrong, words: format!("{place}: {} of slots in use{also}", percent(mean)) }
            })
            .collect();
        let regions = grouped(self.loads.len() as u64);
        let (lowest, highest) = self.ends();
        let of = if each == 1 { "one region".to_owned() } else { format!("{each} regions") };
        let words = format!(
            "{regions} regions, of which each takes the keys that hash to it. A cell is {of}; the stronger its colour, the fuller. The \
             emptiest has {} of its slots in use, the fullest {}. Keys are spread evenly: a cell that stands out would be \
             a sign of keys that were made to collide.",
            percent(lowest),
            percent(highest)
        );
        page.picture("Occupancy", &words, &svg::map("Slots in use by region", &cells));
    }

    fn ends(&self) -> (f64, f64) {
        let lowest = self.loads.iter().copied().fold(1.0, f64::min);
        (lowest, self.loads.iter().copied().fold(0.0, f64::max))
    }

    fn distribution(&self, page: &mut Page) {
        let mut counts = vec![0_u32; COLUMNS];
        for load in &self.loads {
            let column = ((load * COLUMNS as f64) as usize).min(COLUMNS - 1);
            counts.get_mut(column).into_iter().for_each(|count| *count += 1);
        }
        let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
        let heights: Vec<f64> = counts.iter().map(|count| f64::from(*count) / most).collect();
        let names: Vec<(usize, String)> =
            (0..5).map(|part| (part * 20, format!("{} %", part * 20))).collect();
        let mean = self.loads.iter().sum::<f64>() / self.loads.len().max(1) as f64;
        let words = format!(
            "How many regions have how much of their slots in use: {} in the mean. Up to {}, the broken line, every region \
             finds room for its keys; above it the first that does not makes the filter double.",
            percent(mean),
            percent(self.full)
        );
        let mark = Some((self.full, "full"));
        page.picture(
            "Distribution",
            &words,
            &svg::columns("Regions by slots in use", &heights, &names, mark),
        );
    }

    fn damage(&self, page: &mut Page, report: &Report) {
        let pages = report.damaged.len() + report.malformed.len();
        let mut lines = Vec::new();
        if pages > 0 {
            let regions: Vec<usize> =
                self.damaged.iter().enumerate().filter(|(_, is)| **is).map(|(region, _)| region).collect();
            let named: Vec<String> = regions.iter().take(NAMED).map(usize::to_string).collect();
            let more = if regions.len() > NAMED { ", and more" } else { "" };
            lines.push(format!(
                "{} of {} pages do not match their checksums, or hold what gowk never writes. They lie in {} of {} \
                 regions: {}{more}. Lookups there fail; `gowk repair` makes them answer \"present\" to every key.",
                grouped(pages as u64),
                grouped(report.pages),
                grouped(regions.len() as u64),
                grouped(self.damaged.len() as u64),
                named.join(", ")
            ));
        }
        let others = [
            (report.superblock_damaged, "One of the two superblocks is damaged; the other one serves."),
            (
                report.counts_differ,
                "The entries found are not those counted, so the figures of this page are not right.",
            ),
            (
                report.live_differs,
                "The live area is of another commit than the superblock, or cannot be read.",
            ),
        ];
        lines.extend(others.into_iter().filter(|(is, _)| *is).map(|(_, words)| words.to_owned()));
        let bad = !lines.is_empty();
        if bad {
            lines.push(
                "`gowk verify` names each page; a copy of the filter is better than a repair.".to_owned(),
            );
        } else {
            lines.push(format!("None: all of {} pages match their checksums.", grouped(report.pages)));
        }
        page.words("Damage", &lines, bad);
    }
}

fn next_doubling(info: &Info) -> String {
    match info.forecast.first() {
        Some(next) if info.growth == Growth::Auto => {
            format!("then it doubles, to {}", bytes(next.file_length))
        }
        Some(_) => "then inserts fail; `gowk grow` doubles it".to_owned(),
        None => "then inserts fail, as it may not double".to_owned(),
    }
}

/// How many more keys find room.
fn keys_left(info: &Info) -> u64 {
    ((info.slots_per_bucket.headroom() - info.load).max(0.0) * info.slots as f64) as u64
}

/// What to expect of the filter next. `then` says what happens when no room is left.
pub(super) fn next(page: &mut Page, info: &Info, then: &str) {
    page.words("Next", &[format!("About {} more keys, {then}.", grouped(keys_left(info)))], false);
}

/// How the slots are used. `next` says what happens when no room is left.
pub(super) fn room(page: &mut Page, info: &Info, next: &str) {
    let slots = info.slots.max(1) as f64;
    let quarantined = info.quarantined_buckets * u64::from(info.slots_per_bucket.get());
    let bar = |name: &str, slots_in: u64, wrong| Bar {
        name: name.to_owned(),
        length: slots_in as f64 / slots,
        value: format!("{} ({})", grouped(slots_in), percent(slots_in as f64 / slots)),
        wrong,
    };
    let room_left = keys_left(info);
    let counting = info.kind == Kind::Counting;
    let mut bars = vec![bar("entries", info.entries, false)];
    if counting {
        bars.push(bar("digits", info.digits, false));
    }
    bars.push(bar("room left", room_left, false));
    if quarantined > 0 {
        bars.push(bar("quarantined", quarantined, true));
    }
    let digits = if counting {
        format!(", and {} by digits, which count their copies", grouped(info.digits))
    } else {
        String::new()
    };
    let words = format!(
        "Of {} slots, {} are taken by entries, one for each distinct key{digits}. There is room for about {} more keys; \
         {next}.",
        grouped(info.slots),
        grouped(info.entries),
        grouped(room_left)
    );
    page.picture("Room", &words, &svg::bars("Slots by what they hold", &bars));
}

/// How many entries expire at which time, in a filter or store that forgets. `parts` may have several counts for one
/// time.
pub(super) fn expiries(page: &mut Page, info: &Info, parts: impl IntoIterator<Item = Expiry>) {
    if info.kind != Kind::Forgetting {
        return;
    }
    let now = if info.keep_newest.is_some() { info.inserted } else { info.time.unwrap_or(0) };
    // All expired entries share one bar, whenever they expired.
    let (mut expired, mut left) = (0, BTreeMap::new());
    for Expiry { at, entries, .. } in parts {
        *(if at <= now { &mut expired } else { left.entry(at).or_insert(0_u64) }) += entries;
    }
    let living: u64 = left.values().sum();
    let bar = |name: String, entries: u64, most: u64| Bar {
        name,
        length: entries as f64 / most.max(1) as f64,
        value: format!(
            "{} ({})",
            grouped(entries),
            percent(entries as f64 / (living + expired).max(1) as f64)
        ),
        wrong: false,
    };
    let most = left.values().copied().max().unwrap_or(0).max(expired);
    let when = |at: u64| match info.keep_newest {
        Some(_) => format!("after {} more keys", grouped(at - now)),
        None => quantity::time_of(at),
    };
    let mut bars: Vec<Bar> = left.iter().map(|(at, entries)| bar(when(*at), *entries, most)).collect();
    if expired > 0 {
        bars.insert(0, bar("expired".to_owned(), expired, most));
    }
    let retention = match (info.retention, info.keep_newest) {
        (Some(retention), _) => format!("It {retention}. "),
        (None, Some(newest)) => format!("It {}. ", quantity::newest(newest)),
        (None, None) => String::new(),
    };
    if bars.is_empty() {
        page.words("Expiry", &[format!("{retention}There are no entries yet.")], false);
        return;
    }
    let gone = match expired {
        0 => String::new(),
        _ => {
            format!("; {} have expired, whose slots are free already, and wait for a sweep", grouped(expired))
        }
    };
    let words = format!("{retention}When its {} entries expire{gone}.", grouped(living));
    page.picture("Expiry", &words, &svg::bars("Entries by the time at which they expire", &bars));
}

/// How old the entries are.
pub(super) fn ages(page: &mut Page, info: &Info) {
    if info.entries == 0 {
        page.words("Age", &["There are no entries yet."], false);
        return;
    }
    let all = info.entries.max(1) as f64;
    let by_tail = info.entries_by_tail.iter().enumerate().rev();
    let shown = by_tail.enumerate().filter(|(age, (_, entries))| *age == 0 || **entries > 0);
    let bars: Vec<Bar> = shown
        .map(|(age, (tail, entries))| Bar {
            name: match age {
                _ if tail == 0 => "no tail left".to_owned(),
                0 => "since the last".to_owned(),
                1 => "1 doubling".to_owned(),
                _ => format!("{age} doublings"),
            },
            length: *entries as f64 / all,
            value: format!("{} ({tail} bits)", grouped(*entries)),
            wrong: tail == 0,
        })
        .collect();
    let void = info.entries_by_tail.first().copied().unwrap_or(0);
    let words = format!(
        "Entries by the doublings that they have lived through. Each doubling takes one bit of an entry's tail, and \
         doubles the chance that it is found for another key. {} have no tail left: a further doubling copies them.",
        if void == 0 { "None".to_owned() } else { grouped(void) }
    );
    page.picture("Age", &words, &svg::bars("Entries by age, with the bits of their tails", &bars));
}

/// The rates after each of the next doublings.
fn rates(page: &mut Page, info: &Info) {
    let rate = |rate: f64| format!("{rate:.2e}");
    let now = Point {
        name: "now".to_owned(),
        value: info.expected_false_positive_rate,
        words: rate(info.expected_false_positive_rate),
    };
    let next = info.forecast.iter().map(|next: &Forecast| Point {
        name: bytes(next.file_length),
        value: next.expected_false_positive_rate,
        words: rate(next.expected_false_positive_rate),
    });
    let points: Vec<Point> = [now].into_iter().chain(next).filter(|point| point.value > 0.0).collect();
    let limit = info.max_false_positive_rate.map(|limit| (limit, format!("limit {limit}")));
    let within = match (&limit, info.forecast.len()) {
        (_, 0) => "It may not double any more.".to_owned(),
        (Some(_), count) => format!("Within its limits it can double {count} times or more."),
        (None, count) => format!("The next {count} doublings are shown; it has no limit of the rate."),
    };
    let words = format!(
        "The chance that a key that was never inserted is found: {} now; then after each doubling, when the filter, of the \
         size below, is full again. {within}",
        chance(info.expected_false_positive_rate)
    );
    if points.is_empty() {
        page.words("False-positive rate", &["There are no entries yet, so no key is found."], false);
        return;
    }
    let rows: Vec<Vec<String>> =
        points.iter().map(|point| vec![point.name.clone(), chance(point.value)]).collect();
    let picture = svg::line("False-positive rate now and after doublings", Scale::Decades, &points, limit);
    page.picture("False-positive rate", &words, &picture);
    page.table(&["file", "false-positive rate"], &rows);
}
