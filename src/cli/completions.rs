//! `gowk completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::failure::Failure;
use super::output::Output;
use super::{Gowk, Outcome};

/// Print a script that completes gowk's arguments in a shell
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk completions bash > ~/.local/share/bash-completion/completions/gowk")]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        // Not straight to the output: the generator panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Gowk::command(), "gowk", &mut script);
        let mut output = Output::standard(b'\n')?;
        output.key(&script)?;
        output.flush()?;
        Ok(Outcome::Done)
    }
}
