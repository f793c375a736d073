//! The command-line tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gowk_cli::run(std::env::args_os()))
}
