//! `gowk completions`

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::output::Output;

/// Print a script that completes gowk's arguments in a shell
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk completions bash > ~/.local/share/bash-completion/completions/gowk")]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, command: &mut Command) -> Result<(), Failure> {
        // Generated in memory: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "gowk", &mut script);
        let mut output = Output::standard(b'\n')?;
        output.key(&script)?;
        output.flush()
    }
}
