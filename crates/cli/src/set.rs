//! `gowk set`

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gowk::{Growth, Limits, Options};

use super::arguments::LockArgs;
use super::creation::{GROWTH, refused};
use super::failure::Failure;
use super::info;
use super::output;
use super::quantity;

/// Change how far a filter may grow
///
/// Settings that are not given stay as they are, and so do the keys.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk set seen.gowk --max-file-size 8G
  gowk set seen.gowk --growth never --max-file-size none")]
#[group(skip)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)))]
pub(super) struct Set {
    /// Filter to change
    file: PathBuf,

    /// Whether the filter doubles itself when it is full
    #[arg(long, value_parser = quantity::word_of(&GROWTH), group = "change")]
    growth: Option<Growth>,

    /// Bytes that the file may grow to; K, M, G and T mean powers of 1024; the word none removes this limit
    #[arg(long, value_name = "BYTES", value_parser = limit_of(quantity::size), group = "change")]
    max_file_size: Option<Limit<u64>>,

    /// Expected false-positive rate that the filter may grow to, above 0 and below 1; the word none removes this limit
    #[arg(long, value_name = "P", value_parser = limit_of(quantity::rate), group = "change")]
    max_false_positive_rate: Option<Limit<f64>>,

    #[command(flatten)]
    lock: LockArgs,
}

/// A limit; `None` removes it.
#[derive(Clone, Copy)]
struct Limit<T>(Option<T>);

fn limit_of<T>(parse: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Limit<T>, String> + Clone {
    move |text| if text == "none" { Ok(Limit(None)) } else { parse(text).map(|limit| Limit(Some(limit))) }
}

impl Set {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut writer = self.lock.apply(Options::new()).open_existing(&self.file)?;
        let now = writer.limits()?;
        let limits = Limits {
            growth: self.growth.unwrap_or(now.growth),
            max_file_size: self.max_file_size.map_or(now.max_file_size, |Limit(limit)| limit),
            max_false_positive_rate: self
                .max_false_positive_rate
                .map_or(now.max_false_positive_rate, |Limit(limit)| limit),
        };
        writer.set_limits(limits).map_err(|error| refused(&self.file, error))?;
        let growth = info::growth(&writer.info()?);
        writer.close()?;
        output::print(|output| output.line(format_args!("{}: grows {growth}", self.file.display())))
    }
}
