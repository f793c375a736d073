//! `gowk man`

use std::fs;
use std::iter;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use super::failure::Failure;
use super::output::Output;
use super::paths::{Sink, check_outputs};

/// Write the manual pages of gowk and its verbs into a folder
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk man ~/.local/share/man/man1 && man gowk-dedup")]
pub(super) struct Manual {
    /// Folder to write them to; created if it does not exist
    folder: PathBuf,
}

impl Manual {
    pub(super) fn run(self, mut command: Command) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder).map_err(Failure::of_file(&self.folder, "create"))?;
        // Building the command gives each verb its full name.
        command.build();
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help").cloned();
        let verbs = verbs.map(|verb| {
            let name = format!("gowk-{}", verb.get_name());
            (name.clone(), verb.display_name(name))
        });
        for (name, command) in [("gowk".to_owned(), command.clone())].into_iter().chain(verbs) {
            let path = self.folder.join(format!("{name}.1"));
            let mut page = Vec::new();
            Man::new(command).title(name).render(&mut page).map_err(Failure::of_file(&path, "write"))?;
            check_outputs(&[Sink::replaced("FOLDER", &path)], iter::empty(), iter::empty())?;
            let mut output = Output::anew(&path, b'\n')?;
            output.text(String::from_utf8_lossy(&page).trim_end())?;
            output.finish()?;
        }
        Ok(())
    }
}
