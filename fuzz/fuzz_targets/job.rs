//! Ingest jobs: arbitrary job files, arbitrary inputs in each format, arbitrary cursors.
//!
//! Invariants checked, whatever the bytes:
//!
//! 1. Reading, planning and running a job end in an answer or in an error of one line, without panic, hang, or
//!    memory beyond the fuzzer's limit, even if a few bytes decompress to many.
//! 2. No false negatives: the filter has each key that a run has taken. For lines, this target splits the keys itself.
//! 3. A run that is stopped after some of its commits and started again leaves the same output, counts and filter as a run
//!    without a stop, or ends with the same error.
//! 4. A finished input is not read again. If it is restarted, none of its keys is new.
//! 5. Bytes added to an input are read, and the keys before them stay.
//!
//! Input: a byte that chooses one of three cases, then the text of a job file; or options and the bytes of a cursor; or
//! options and the content of an input, which is compressed or not. See `Case`.

#![no_main]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use gowk::{Lookup, Options, Reader};
use gowk_fuzz::{Input, folder};
use gowk_ingest::{Error, Event, Ingest, Job, State, Summary};
use libfuzzer_sys::fuzz_target;

/// A run stops after this many records or commits: a few bytes may decompress to millions of empty keys.
const MOST_RECORDS: u64 = 100_000;
const MOST_COMMITS: u64 = 1000;

/// An input is extended to this many bytes by repetition, before it is compressed.
const MOST_REPEATED: usize = 100_000;

/// The same for an input that is compressed data: four of its bytes may decompress to 128 KiB, of few records.
const MOST_REPEATED_COMPRESSED: usize = 2000;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).expect("memory");
    to.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

/// Whether a job decompresses what begins so.
fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1f\x8b")
        || bytes.starts_with(b"\x28\xb5\x2f\xfd")
        || bytes.get(1..4) == Some(b"\x2a\x4d\x18")
}

/// Whether every path of the job stays in the folder of the job file.
fn is_confined(text: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return true };
    let inside = |value: Option<&toml::Value>| match value {
        Some(toml::Value::String(path)) => Path::new(path).components().all(|part| match part {
            // A pattern that begins with a dot can match `..` too.
            Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
            part => part == Component::CurDir,
        }),
        _ => true,
    };
    let of = |table_name: &str, key: &str| table.get(table_name).and_then(|table| table.get(key));
    let patterns = match of("input", "paths") {
        Some(toml::Value::Array(paths)) => paths.iter().all(|path| inside(Some(path))),
        _ => true,
    };
    // A job may ask for a filter of any size.
    let small = match of("filter", "capacity") {
        Some(toml::Value::Integer(keys)) => *keys < 2_000_000,
        _ => true,
    };
    patterns && small && inside(of("filter", "path")) && inside(of("output", "new_keys"))
}

/// Runs a job to its end, or until its n-th commit.
fn run(ingest: &Ingest<'_>, commits: u64) -> Result<Summary, Error> {
    let mut left = commits;
    ingest.run(&mut |event| {
        match event {
            Event::Commit { .. } => left = left.saturating_sub(1),
            Event::Progress(progress) if progress.tally.read() > MOST_RECORDS => left = 0,
            _ => {}
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

fn any_job(text: &str) {
    if !is_confined(text) {
        return;
    }
    let dir = folder();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect("room");
    write("a", b"1\n2\n\n 3 \r\n2");
    write("b.gz", &gzip(b"4\n1\n"));
    write("c.zst", &zstd(b"5\0001\0"));
    write("d.csv", b"id,url\n1,\"a\nb\"\n2,c\n");
    write("e.jsonl", b"{\"url\":\"a\"}\n{\"url\":12}\n\n{\"x\":[]}\n");
    fs::create_dir(dir.path().join("f")).expect("room");
    write("f/g.gz", &gzip(b"6\n"));
    let path = dir.path().join("job.toml");
    write("job.toml", text.as_bytes());
    let job = match Job::read(&path) {
        Ok(job) => job,
        Err(error) => return drop(told(&error, dir.path())),
    };
    let ingest = Ingest::new(&job);
    let planned = ingest.plan();
    let outcome = run(&ingest, MOST_COMMITS);
    if let Ok(summary) = outcome {
        assert!(planned.is_ok(), "the job ran, but cannot be planned: {planned:?}");
        if summary.finished {
            // It may also fail: the first run may have written to an input.
            let again = run(&Ingest::new(&job), MOST_COMMITS);
            if let Ok(again) = again {
                assert_eq!(again.run.read(), 0, "the input was read twice");
            }
        }
    }
}

/// How a job reads its input, and what is in it.
struct Case {
    options: String,
    /// For lines and NUL: the byte that ends a record.
    separator: Option<u8>,
    trim: bool,
    skip_empty: bool,
    max_key_length: usize,
    every_keys: u64,
    compressed_output: bool,
}

impl Case {
    fn new(input: &mut Input<'_>) -> Self {
        let (shape, flags, every) = (input.u8(), input.u8(), input.u8());
        let (format, separator) = match shape % 8 {
            0 => ("format = 'lines'", Some(b'\n')),
            1 => ("format = 'nul'", Some(0)),
            2 => ("format = 'csv'\nfield = 'url'", None),
            3 => ("format = 'csv'\nfield = 1", None),
            4 => ("format = 'csv'\nfield = 2\nheader = true\ndelimiter = ';'", None),
            5 => ("format = 'csv'\nfield = ''", None),
            6 => ("format = 'jsonl'\nfield = 'url'", None),
            _ => ("format = 'jsonl'\nfield = ''", None),
        };
        let (trim, skip_empty) = (flags & 1 != 0, flags & 2 != 0);
        let max_key_length = if flags & 4 != 0 { 3 } else { 16 << 20 };
        let options =
            format!("{format}\ntrim = {trim}\nskip_empty = {skip_empty}\nmax_key_length = {max_key_length}");
        let every_keys = u64::from(every % 128) * if every < 128 { 1 } else { 500 } + 1;
        Self {
            options,
            separator,
            trim,
            skip_empty,
            max_key_length,
            every_keys,
            compressed_output: flags & 8 != 0,
        }
    }

    fn output(&self) -> &'static str {
        if self.compressed_output { "new.zst" } else { "new" }
    }

    fn job(&self, dir: &Path) -> Job {
        let text = format!(
            "[filter]\npath = 'f'\ncapacity = 1000\nslots_per_bucket = 2\nseed = 7\n\
             [input]\npaths = ['a']\nsettle = '0s'\n{}\n[commit]\nevery_keys = {}\nevery_seconds = 0\n\
             [output]\nnew_keys = '{}'\n",
            self.options,
            self.every_keys,
            self.output()
        );
        Job::parse(&text, dir.join("job.toml")).expect("a job of ours")
    }

    /// The keys of an input of lines.
    fn keys<'a>(&self, content: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let separator = self.separator?;
        let mut records: Vec<&[u8]> = content.split(|byte| *byte == separator).collect();
        // The bytes after the last separator are a record unless there are none.
        if records.last().is_some_and(|record| record.is_empty()) {
            records.pop();
        }
        let trimmed = records.into_iter().map(|key| if self.trim { key.trim_ascii() } else { key });
        let fits = |key: &&[u8]| !(self.skip_empty && key.is_empty()) && key.len() <= self.max_key_length;
        Some(trimmed.filter(fits).collect())
    }
}

/// The text of an error without the folder's random name.
fn told(error: &Error, dir: &Path) -> String {
    let text = error.to_string().replace(&dir.display().to_string(), "DIR");
    assert!(!text.contains('\n'), "more than one line: {text:?}");
    text
}

/// The words of an error without the numbers of keys and lines, which differ in a run that was stopped and continued.
fn cause<'a>(error: &'a Error) -> &'a Error {
    match error {
        Error::Partly { cause: inner, .. } => cause(inner),
        error => error,
    }
}

/// The results of a job: all buckets, the metadata and the output.
type Left = (Vec<u8>, Vec<(String, Vec<u8>)>, Vec<u8>);

fn left(dir: &Path, case: &Case) -> Option<Left> {
    let path = dir.join("f");
    if !path.exists() {
        return None;
    }
    let reader = Reader::open(&path).expect("a filter of ours");
    let report = reader.verify(&|_, _| {}).expect("intact");
    assert!(report.is_clean(), "{report:?}");
    let regions = reader.info().expect("intact").regions as usize;
    let file = fs::read(&path).expect("a filter of ours");
    let metadata = reader.metadata().expect("intact");
    let metadata = metadata.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    let output = fs::read(dir.join(case.output())).expect("an output");
    Some((file[file.len() - 65_536 * regions..].to_vec(), metadata, output))
}

fn assert_present(dir: &Path, keys: &[&[u8]]) {
    let reader = Reader::open(dir.join("f")).expect("a filter of ours");
    for key in keys.iter().collect::<BTreeSet<_>>() {
        assert!(reader.contains(key).expect("intact"), "{key:?} is lost");
    }
}

fn any_input(mut input: Input<'_>) {
    let case = Case::new(&mut input);
    let (packing, repeat, cut, stops) = (input.u8(), input.u16(), input.u16(), input.u8());
    let most = if is_compressed(input.0) { MOST_REPEATED_COMPRESSED } else { MOST_REPEATED };
    let times = usize::from(repeat).min(most / input.0.len().max(1)).max(1);
    let content = input.0.repeat(times);
    let middle = usize::from(cut) * content.len() / 65_536;
    let (first, second) = content.split_at(middle);
    let pack = |bytes: &[u8]| match packing % 4 {
        0 | 1 => bytes.to_vec(),
        2 => gzip(bytes),
        _ => zstd(bytes),
    };
    // Members and frames end where an addition begins.
    let (packed_first, packed) = (pack(first), [pack(first), pack(second)].concat());
    let is_known = packing % 4 > 1 || !is_compressed(&content);
    let (one, other) = (folder(), folder());
    let dirs = [one.path(), other.path()];
    let jobs = dirs.map(|dir| case.job(dir));
    dirs.iter().for_each(|dir| fs::write(dir.join("a"), &packed).expect("room"));
    let whole = run(&Ingest::new(&jobs[0]), MOST_COMMITS);
    if matches!(&whole, Ok(whole) if !whole.finished) {
        return;
    }
    // The other job is stopped again and again.
    let mut stopped = run(&Ingest::new(&jobs[1]), 1 + u64::from(stops % 4));
    for _ in 0..stops % 8 {
        if matches!(&stopped, Ok(summary) if !summary.finished) {
            stopped = run(&Ingest::new(&jobs[1]), 1 + u64::from(stops / 8));
        }
    }
    if !matches!(&stopped, Ok(summary) if summary.finished) {
        stopped = run(&Ingest::new(&jobs[1]), u64::MAX);
    }
    match (&whole, &stopped) {
        (Ok(whole), Ok(stopped)) => {
            assert!(whole.finished && stopped.finished);
            assert_eq!(whole.total, stopped.total);
        }
        (Err(whole), Err(stopped)) => {
            assert_eq!(told(cause(whole), dirs[0]), told(cause(stopped), dirs[1]));
        }
        outcomes => panic!("the stopped job ends otherwise: {outcomes:?}"),
    }
    let left_whole = left(dirs[0], &case);
    assert!(left_whole == left(dirs[1], &case), "the stopped job left other results");
    let Ok(whole) = whole else { return };
    if is_known && let Some(keys) = case.keys(&content) {
        assert_eq!(whole.total.keys, keys.len() as u64);
        assert_present(dirs[0], &keys);
    }
    let plan = Ingest::new(&jobs[0]).plan().expect("it ran");
    assert!(plan.inputs.iter().all(|input| input.state == State::Finished));
    let again = run(&Ingest::new(&jobs[0]), u64::MAX).expect("it ran");
    assert_eq!((again.run.read(), again.finished_before), (0, 1));
    let restarted = run(&Ingest::new(&jobs[0]).restart("a"), u64::MAX).expect("it ran");
    assert_eq!((restarted.run.read(), restarted.run.new), (whole.run.read(), 0));

    // The same input in two parts.
    if stops >= 128 {
        return;
    }
    let grown = folder();
    let job = case.job(grown.path());
    fs::write(grown.path().join("a"), &packed_first).expect("room");
    let Ok(before) = run(&Ingest::new(&job), u64::MAX) else { return };
    fs::write(grown.path().join("a"), &packed).expect("room");
    match run(&Ingest::new(&job), u64::MAX) {
        Ok(after) => {
            assert!(after.finished && after.total.keys >= before.total.keys);
            // If the first part ends inside a record, that piece is a key too, or its line is read again.
            if is_known
                && packing % 4 < 2
                && let Some(keys) = case.keys(&content)
            {
                assert_present(grown.path(), &keys);
            }
        }
        Err(error) => drop(told(&error, grown.path())),
    }
    left(grown.path(), &case);
}

fn any_cursor(mut input: Input<'_>) {
    let case = Case::new(&mut input);
    let dir = folder();
    let path: PathBuf = dir.path().join("f");
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect("room");
    let content = b"1\n2\n,url\n{}\n\"a\",b\n{\"url\":\"3\"}";
    write("a", content);
    let output = input.u8();
    if !output.is_multiple_of(3) {
        write(case.output(), &vec![b'1'; usize::from(output)]);
    }
    let job = case.job(dir.path());
    let mut writer = Options::new().capacity(1000).slots_per_bucket(gowk::SlotsPerBucket::Two).seed(7);
    let mut cursor = input.bytes(40_000).to_vec();
    // Mostly known versions and flags, as unknown ones are refused at once.
    if let [version, flags, ..] = &mut cursor[..] {
        (*version, *flags) = (*version % 2, *flags % 64);
    }
    writer = writer.growth(gowk::Growth::Never);
    let mut writer = writer.open(&path).expect("a new filter");
    writer.metadata_mut().expect("open").set("ingest/job", cursor);
    writer.commit().expect("room");
    writer.close().expect("room");
    let mut ingest = Ingest::new(&job);
    if output % 2 == 0 {
        ingest = ingest.restart("a").new_output(output % 4 == 0).forget_missing(true);
    }
    match ingest.plan() {
        Ok(_) => {}
        Err(error) => drop(told(&error, dir.path())),
    }
    match run(&ingest, u64::MAX) {
        Ok(summary) => {
            let _ = (summary.total.seen(), summary.total.skipped(), summary.total.read());
            assert!(summary.finished);
        }
        Err(error) => drop(told(&error, dir.path())),
    }
    let report = Reader::open(&path).expect("a filter of ours").verify(&|_, _| {}).expect("intact");
    assert!(report.is_clean(), "{report:?}");
    assert!(fs::read(dir.path().join("a")).ok().as_deref() == Some(content), "an input was changed");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    match input.u8() % 3 {
        0 => any_job(&String::from_utf8_lossy(input.0)),
        1 => any_cursor(input),
        _ => any_input(input),
    }
});
