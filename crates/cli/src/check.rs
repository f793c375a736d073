//! `gowk check`

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use gowk::{OnDamage, Options};
use gowk_ingest::Item;

use super::arguments::{KeyArgs, ReadArgs, ThreadArgs};
use super::failure::Failure;
use super::json;
use super::outcome::Outcome;
use super::paths;
use super::quantity;
use super::window::Window;

/// Print the keys that are present; exit 0 if any was, 1 if none
///
/// Present keys are selected, or absent ones with -v. The exit code says whether any key was selected. A key that
/// was inserted is always found. A key that was never inserted is found at the rate that `gowk info` shows.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk check seen.gowk -q https://example.org/ && echo seen
  gowk check seen.gowk -v --input candidates.txt       the keys that were never seen
  gowk check seen.gowk -c < candidates.txt             how many were
  gowk check seen.gowk --mask < candidates.txt         1 or 0 for each of them, in their order
  gowk check 2026-05.gowk --filter 2026-04.gowk --filter 2026-03.gowk < urls.txt

As a coprocess of a script: the answers to all lines that were given are there before more input is waited for.
  coproc SEEN { gowk check seen.gowk --mask; }
  echo https://example.org/ >&\"${SEEN[1]}\"; read -r answer <&\"${SEEN[0]}\"

With --json one object takes the place of the keys: {\"keys\":3,\"present\":2,\"absent\":1,\"selected\":2,\
\"skipped\":0}; records without a key are skipped")]
pub(super) struct Check {
    /// Filter or store to look into
    file: PathBuf,

    /// Look into this filter or store too: a key is present if it is in any of them; may be repeated
    #[arg(long, value_name = "FILE")]
    filter: Vec<PathBuf>,

    /// Select the keys that are absent
    #[arg(short = 'v', long)]
    absent: bool,

    /// Print how many keys are selected instead of the keys
    #[arg(short, long)]
    count: bool,

    /// Print 1 for each key that is selected and 0 for each other one, in their order, instead of the keys
    #[arg(short, long, conflicts_with_all = ["count", "quiet", "json"])]
    mask: bool,

    /// Print nothing, and stop at the first key selected
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    /// Write to this file instead of standard output; it takes the place of an older one at the end, when it is whole;
    /// compressed if it ends in .zst
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// What to answer for a key whose page is damaged: an error, or that the key is present
    #[arg(long, default_value = "error", value_parser = quantity::word_of(&ON_DAMAGE))]
    on_damage: OnDamage,

    /// Print one JSON object instead of the keys
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    keys: KeyArgs,
}

const ON_DAMAGE: [(&str, OnDamage); 2] = [("error", OnDamage::Error), ("present", OnDamage::Present)];

impl Check {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let options = self.read.apply(self.threads.apply(Options::new())).on_damage(self.on_damage);
        let options = self.keys.rules.apply(options);
        let window = Window::open(std::iter::once(&self.file).chain(&self.filter), &options)?;
        let rules = window.rules()?;
        window.check_rules(rules, &self.file)?;
        let mut output = self.keys.output_of_lookups(paths::output(self.output.as_ref()), window.files())?;
        let prints_keys = !(self.count || self.quiet || self.json || self.mask);
        let (mut all, mut selected) = (0, 0);
        let skipped =
            self.keys.each_batch(rules, &self.file, prints_keys, &mut output, |output, records| {
                let keyed: Vec<Item<'_>>;
                let keys = if records.iter().all(Item::has_key) {
                    records
                } else {
                    keyed = records.iter().copied().filter(Item::has_key).collect();
                    &keyed
                };
                let found = window.known(keys)?;
                all += keys.len() as u64;
                if self.mask {
                    let answer = |found: &bool| if *found == self.absent { b"0" } else { b"1" };
                    found.iter().try_for_each(|found| output.key(answer(found)))?;
                }
                let mut found = found.into_iter();
                for record in records {
                    let is_selected =
                        record.has_key() && found.next().is_some_and(|found| found != self.absent);
                    selected += u64::from(is_selected);
                    if prints_keys && (is_selected || !record.has_key()) {
                        output.key(record.record)?;
                    }
                }
                Ok(if self.quiet && selected > 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            })?;
        if self.json {
            let (present, absent) =
                if self.absent { (all - selected, selected) } else { (selected, all - selected) };
            let skipped = skipped.no_field + skipped.malformed;
            let requests = window.requests();
            let checked = json::Checked { keys: all, present, absent, selected, skipped, requests };
            output.line(json::line(&checked))?;
        } else if self.count && !self.quiet {
            output.line(selected)?;
        }
        output.finish()?;
        Ok(if selected > 0 { Outcome::Done } else { Outcome::NotFound })
    }
}
