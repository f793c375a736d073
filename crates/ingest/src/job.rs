//! The job file, read and checked.

mod known;
mod text;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::creation::Creation;
use super::csv::Dialect;
use super::decode::Unpack;
use super::rules::{Format, Rules};
use gowk::{KeyRules, Options};

/// A checked job file. The files that it names have not been checked yet.
///
/// Paths in it are relative to its folder.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// The folder of the job file; empty for the current one.
    pub(super) base: PathBuf,
    pub(super) filter: PathBuf,
    pub(super) creation: Creation,
    pub(super) patterns: Vec<String>,
    pub(super) rules: Rules,
    pub(super) unpack: Unpack,
    /// How old a file must be for its last record to be read although it has no end.
    pub(super) settle: Duration,
    pub(super) rotated: Rotated,
    pub(super) every_keys: Option<NonZeroU64>,
    /// The time between commits; zero to commit only by keys.
    pub(super) every: Option<Duration>,
    /// The output of each [`OutputKind`], relative to `base` unless it is absolute. With an output of rejects, malformed
    /// records do not end the run.
    pub(super) outputs: [Option<PathBuf>; 3],
    /// Whether whole records go to the output of new keys.
    pub(super) records: bool,
    pub(super) missing: Missing,
}

/// What happens to a record that lacks the field, or whose field holds no single value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Missing {
    /// It is written to the output of new records.
    Keep,
    /// It is skipped.
    Drop,
    /// The run ends with an error.
    Fail,
}

/// What happens to an input that was replaced or cut since it was read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rotated {
    /// It is not read; the run ends with an error.
    #[default]
    Error,
    /// It is read from the start.
    Restart,
}

/// The contents of an output of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OutputKind {
    /// New keys, or their records.
    New,
    /// Keys without room.
    Refused,
    /// Records without a key.
    Rejects,
}

impl OutputKind {
    /// In the order of the cursor.
    pub(super) const ALL: [Self; 3] = [Self::New, Self::Refused, Self::Rejects];
}

impl Job {
    /// Adds the kind, the lifetime of keys and the key rules that the job asks for, if any.
    pub(super) fn asked(&self, options: Options) -> Options {
        let options = self.creation.ask(options);
        if self.rules.key.is_plain() { options } else { options.key_rules(self.rules.key) }
    }

    /// The job with the key rules of its filter.
    pub(super) fn following(&self, key: KeyRules) -> Self {
        Self { rules: Rules { key, ..self.rules.clone() }, ..self.clone() }
    }

    /// What messages call the time of a record: `time` or `lifetime`.
    pub const fn time_name(&self) -> &'static str {
        self.rules.time_name()
    }

    /// The job's name, under which the filter remembers it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The filter.
    pub fn filter(&self) -> &Path {
        &self.filter
    }

    /// The output of keys seen for the first time, or of their records.
    pub fn output(&self) -> Option<PathBuf> {
        self.path_of(OutputKind::New)
    }

    /// The dialect of CSV; `None` for another format.
    pub(super) const fn dialect(&self) -> Option<Dialect> {
        match self.rules.format {
            Format::Csv { delimiter, quotes, .. } => Some(Dialect { delimiter, quotes }),
            _ => None,
        }
    }

    /// The dialect of CSV, if an output has whole records and so begins with the header of the inputs; otherwise `None`.
    pub(super) fn header_dialect(&self) -> Option<Dialect> {
        let has_header = matches!(self.rules.format, Format::Csv { header: true, .. });
        self.dialect().filter(|_| has_header && (self.records || self.has_rejects()))
    }

    /// Whether this output has whole records, and so the header of the inputs.
    pub(super) const fn has_records(&self, kind: OutputKind) -> bool {
        match kind {
            OutputKind::New => self.records,
            OutputKind::Refused => false,
            OutputKind::Rejects => true,
        }
    }

    /// The output of keys that found no room in the filter.
    pub fn refused(&self) -> Option<PathBuf> {
        self.path_of(OutputKind::Refused)
    }

    /// The output of records without a key.
    pub fn rejects(&self) -> Option<PathBuf> {
        self.path_of(OutputKind::Rejects)
    }

    pub(super) fn path_of(&self, kind: OutputKind) -> Option<PathBuf> {
        self.outputs[kind as usize].as_ref().map(|path| self.base.join(path))
    }

    pub(super) const fn has_rejects(&self) -> bool {
        self.outputs[OutputKind::Rejects as usize].is_some()
    }

    /// Whether a record that lacks the field goes to the output of new records, as `missing = "keep"` says.
    pub fn keeps_records_without_key(&self) -> bool {
        self.missing == Missing::Keep
    }

    /// The byte that ends a key in the outputs.
    pub(super) const fn separator(&self) -> u8 {
        self.rules.format.separator()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::LONGEST;

    const LEAST: &str = "[filter]\npath = 'f'\n[input]\npaths = ['a']\n";

    fn refused(text: &str) -> String {
        Job::parse(text, "jobs/nightly.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_job_with_only_what_it_needs_has_the_documented_defaults() {
        let job = Job::parse(LEAST, "jobs/nightly.toml").unwrap();
        assert_eq!((job.name(), job.filter()), ("nightly", Path::new("jobs/f")));
        assert_eq!((job.every_keys, job.every), (None, None));
        let by_keys = Job::parse(&format!("{LEAST}[commit]\nevery_seconds = 0\n"), "j.toml").unwrap();
        assert_eq!((by_keys.every_keys, by_keys.every), (NonZeroU64::new(1_000_000), Some(Duration::ZERO)));
        assert_eq!((job.separator(), job.output()), (b'\n', None));
        assert_eq!(job.rules.max_key_length, LONGEST);
        assert!(job.rules.key.is_plain() && !job.rules.skip_empty);
        assert_eq!(Job::parse(LEAST, "nightly.toml").unwrap().filter(), Path::new("f"));
        let in_bucket = LEAST.replace("'f'", "'s3://b/f'");
        assert_eq!(Job::parse(&in_bucket, "jobs/nightly.toml").unwrap().filter(), Path::new("s3://b/f"));
    }

    /// The list for suggestions must name the fields of the structures that serde fills.
    #[test]
    fn every_known_key_is_accepted() {
        let text = r#"
            name = "a"
            [filter]
            path = "f"
            kind = "forgetting"
            forget_after = "30d"
            forget_within = "72h"
            refresh = true
            capacity = 3_000_000
            false_positive_rate = 0.001
            slots_per_bucket = 4
            seed = 1
            growth = "never"
            max_file_size = 1_000_000
            max_false_positive_rate = 0.1
            [input]
            paths = ["a"]
            format = "csv"
            field = "url"
            time = "seen"
            header = true
            delimiter = ";"
            quotes = false
            long = 31
            settle = "5m"
            rotated = "restart"
            trim = true
            ignore_case = "unicode"
            skip_empty = true
            max_key_length = 100
            missing = "keep"
            [commit]
            every_keys = 1
            every_seconds = 0
            [output]
            new_keys = "n"
            records = true
            refused = "r"
            rejects = "j"
        "#;
        Job::parse(text, "j").unwrap();
        let newest = "[filter]\npath = 'f'\nkind = 'forgetting'\nkeep_newest = 5\n[input]\npaths = ['a']\n";
        Job::parse(newest, "j").unwrap();
        let lasting = text.replace("time = \"seen\"", "ttl = \"seen\"");
        Job::parse(&lasting, "j").unwrap();
        let text = [text, newest, &lasting].concat();
        let mentioned =
            |key: &&str| text.contains(&format!("{key} = ")) || text.contains(&format!("[{key}]"));
        let known = || known::KNOWN.iter().flat_map(|(_, keys)| keys.split(' '));
        assert_eq!(known().filter(mentioned).count(), known().count());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            (
                "[filter]\npath = 'f'\n[input]\npahts = ['a']\n",
                "line 4: unknown key `pahts` in [input]; did you mean `paths`?",
            ),
            (
                "[filter]\npath = 3\n[input]\npaths = ['a']\n",
                "line 2: invalid type: integer `3`, expected path string",
            ),
            ("[filter]\npath = 'f'\n", "missing field `input`"),
            ("[filter\n", "line 1: "),
            ("name = ''\n[filter]\npath = 'f'\n[input]\npaths = ['a']\n", "line 1: `name` must be 1 to 200"),
            ("[filter]\npath = 'f'\n[input]\npaths = []\n", "line 4: `paths` must be"),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'cvs'\n",
                "line 5: unknown variant `cvs`, expected one of",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'csv'\n",
                "line 5: `field` must be given",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nfield = 'x'\n",
                "line 5: `field` must be given for formats",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'csv'\nfield = 0\n",
                "line 6: `field` must be a name, or a number from 1",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'jsonl'\nfield = 1\n",
                "line 6: `field` must be a name",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\ntime = 'ts'\n",
                "line 5: `time` must be given for formats `csv` and `jsonl` only",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'jsonl'\nfield = 'a'\ntime = 1\n",
                "line 7: `time` must be a name, for format",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'csv'\nfield = 1\nheader = false\ntime = 't'\n",
                "line 8: `time` must be a number, from 1, where",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\ndelimiter = ';'\n",
                "line 5: `delimiter` must be",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nquotes = false\n",
                "line 5: `quotes` must be given for format `csv` only",
            ),
            ("[filter]\npath = 'f'\n[input]\npaths = ['a']\nlong = 40\n", "line 5: `long` must be 31"),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nmax_key_length = 0\n",
                "line 5: `max_key_length` must be",
            ),
            (
                "[filter]\npath = 'f'\nslots_per_bucket = 8\n[input]\npaths = ['a']\n",
                "line 3: `slots_per_bucket` must be",
            ),
            (
                "[filter]\npath = 'f'\nforget_after = '30 days'\n[input]\npaths = ['a']\n",
                "line 3: `forget_after` must be a time, as in \"30d\"",
            ),
            (
                "[filter]\npath = 'f'\nforget_after = '5m'\nforget_within = 's'\n[input]\npaths = ['a']\n",
                "line 4: `forget_within` must be a time",
            ),
            (
                "[filter]\npath = 'f'\nrefresh = false\n[input]\npaths = ['a']\n",
                "line 3: `refresh` must be given beside `forget_after`",
            ),
            (
                "[filter]\npath = 'f'\nkeep_newest = 5\ncapacity = 5\n[input]\npaths = ['a']\n",
                "line 4: `capacity` must be left out beside `keep_newest`",
            ),
            (
                "[filter]\npath = 'f'\nkeep_newest = 5\nforget_after = '1d'\n[input]\npaths = ['a']\n",
                "line 4: `forget_after` must be left out beside `keep_newest`",
            ),
            (
                "[filter]\npath = 'f'\nkeep_newest = 5\nforget_within = '1d'\n[input]\npaths = ['a']\n",
                "line 4: `forget_within` must be left out beside `keep_newest`",
            ),
            (
                "[filter]\npath = 'f'\nkeep_newest = 5\nrefresh = true\n[input]\npaths = ['a']\n",
                "line 4: `refresh` must be left out beside `keep_newest`",
            ),
            (
                "[filter]\npath = 'f'\nkind = 'counting'\nkeep_newest = 5\n[input]\npaths = ['a']\n",
                "line 4: `keep_newest` must be given for a filter of the kind",
            ),
            (
                "[filter]\npath = 'f'\nkind = 'set'\nforget_after = '1d'\n[input]\npaths = ['a']\n",
                "line 4: `forget_after` must be given for a filter of the kind",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[output]\nrecords = true\n",
                "line 6: `records` must be given beside `new_keys`",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[commit]\nevery_keys = 0\n",
                "line 6: `every_keys` must be at least 1",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[commit]\nevery_seconds = -1\n",
                "line 6: `every_seconds` must be",
            ),
        ];
        for (text, message) in cases {
            let found = refused(text);
            assert!(found.starts_with("jobs/nightly.toml") && found.contains(message), "{found}");
            assert!(!found.contains('\n'), "{found}");
        }
    }

    #[test]
    fn a_job_shows_no_seed() {
        let text = "[filter]\npath = 'f'\nseed = 9187343239835811000\n[input]\npaths = ['a']\n";
        let job = Job::parse(text, "job.toml").unwrap();
        assert!(!format!("{job:?} {:?}", crate::Ingest::new(&job)).contains("9187343239835811000"));
    }
}
