//! `gowk store vacuum`

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gowk::store::{Store, Vacuumed};

use super::super::failure::Failure;
use super::super::output;
use super::super::quantity;

/// Remove old versions of a store, and files left by unfinished updates
///
/// Readers of a removed version get an error that asks for a newer version, and updates based on it are refused: no
/// process gets a wrong answer. Nothing else removes what others may need, unless the store was created with --keep or --grace.
/// The version before the last --token of each application stays, so that a run with it can be repeated.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk store vacuum crawl.store                        what was replaced more than a day ago
  gowk store vacuum crawl.store --keep 30              the last 30 versions stay whatever their age
  gowk store vacuum crawl.store --grace 0              all but the newest, while nobody else uses the store")]
pub(super) struct Vacuum {
    /// Store to clean up
    store: PathBuf,

    /// Number of versions that stay at any age, the newest included
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::positive)]
    keep: NonZeroU64,

    /// How long a version stays after the next one was made: seconds, or a number with m, h or d
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = duration)]
    grace: Duration,

    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Seconds, or minutes, hours or days by their letter.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let (number, seconds) = quantity::split(text, UNITS, 1);
    let number = quantity::count(number).map_err(|error| format!("{error}, 90s, 12h or 7d"))?;
    let seconds = number.checked_mul(seconds).ok_or_else(|| "longer than can be counted".to_owned())?;
    Ok(Duration::from_secs(seconds))
}

impl Vacuum {
    pub(super) fn run(self) -> Result<(), Failure> {
        let store = Store::open(&self.store)?;
        let vacuum = gowk::store::Vacuum::default().keep(self.keep.get()).grace(self.grace);
        let Vacuumed { version, versions, files, bytes, foreign, uploads, uploads_hidden, .. } =
            if self.dry_run { store.would_vacuum(&vacuum)? } else { store.vacuum(&vacuum)? };
        if uploads_hidden {
            output::note(format_args!(
                "{}: the server does not list uploads in parts that were cut short; give the bucket a rule that aborts them",
                self.store.display()
            ));
        }
        output::print(|output| {
            let done = if self.dry_run { "would be removed" } else { "removed" };
            output
                .line(format_args!("{versions} versions and {files} files {done}, {bytes} bytes in all"))?;
            if versions == 0 && files == 0 {
                let grace = humantime::format_duration(self.grace);
                output.line(format_args!(
                    "what was replaced less than {grace} ago stays (--grace), and so does the newest version"
                ))?;
            }
            if let Some(version) = version {
                output.line(format_args!("version {version} says so"))?;
            }
            if uploads > 0 {
                let done = if self.dry_run { "would be given up" } else { "given up" };
                output.line(format_args!("{uploads} uploads that were cut short {done}"))?;
            }
            if foreign > 0 {
                output.line(format_args!("{foreign} files that are none of the store's are left alone"))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_documented() {
        let seconds = |text| duration(text).map(|time| time.as_secs());
        assert_eq!((seconds("0"), seconds("90"), seconds("90s")), (Ok(0), Ok(90), Ok(90)));
        assert_eq!((seconds("2m"), seconds("12h"), seconds("7d")), (Ok(120), Ok(43_200), Ok(604_800)));
        assert!(duration("").is_err() && duration("d").is_err() && duration("1.5h").is_err());
        assert!(duration("18446744073709551615d").is_err());
    }
}
