//! `gowk check`

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gowk::{OnDamage, Options};

use super::arguments::{KeyArgs, ReadArgs, ThreadArgs};
use super::failure::Failure;
use super::json;
use super::outcome::Outcome;
use super::output::Output;
use super::store::AnyReader;

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

With --json one object takes the place of the keys: {\"keys\":3,\"present\":2,\"absent\":1,\"selected\":2}")]
pub(super) struct Check {
    /// Filter or store to look into
    file: PathBuf,

    /// Select the keys that are absent
    #[arg(short = 'v', long)]
    absent: bool,

    /// Print how many keys are selected instead of the keys
    #[arg(short, long)]
    count: bool,

    /// Print nothing, and stop at the first key selected
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    /// What to answer for a key whose page is damaged: an error, or that the key is present
    #[arg(long, value_enum, default_value_t)]
    on_damage: Damage,

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

#[derive(Clone, Copy, Default, ValueEnum)]
enum Damage {
    #[default]
    Error,
    Present,
}

impl Check {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let on_damage = match self.on_damage {
            Damage::Error => OnDamage::Error,
            Damage::Present => OnDamage::Present,
        };
        let options = self.read.apply(self.threads.apply(Options::new()));
        let reader = AnyReader::open(&self.file, &options.on_damage(on_damage))?;
        let mut output = Output::standard(self.keys.separator())?;
        output.check_beside(&self.file)?;
        let prints_keys = !(self.count || self.quiet || self.json);
        let (mut found, mut all, mut selected) = (Vec::new(), 0, 0);
        self.keys.each_batch(&mut output, |output, keys| {
            reader.contains_batch(keys, &mut found)?;
            all += keys.len() as u64;
            for (key, _) in keys.iter().zip(&found).filter(|(_, found)| **found != self.absent) {
                selected += 1;
                if prints_keys {
                    output.key(key)?;
                }
            }
            Ok(if self.quiet && selected > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if self.json {
            let (present, absent) =
                if self.absent { (all - selected, selected) } else { (selected, all - selected) };
            output.line(json::line(&json::Checked { keys: all, present, absent, selected }))?;
        } else if self.count && !self.quiet {
            output.line(selected)?;
        }
        output.flush()?;
        Ok(if selected > 0 { Outcome::Done } else { Outcome::NotFound })
    }
}
