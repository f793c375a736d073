//! The program `gowk-serve`.

use std::process::ExitCode;

use clap::Parser;
use gowk_serve::options::Arguments;
use gowk_serve::server;

fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let settings = arguments.settings()?;
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = arguments.threads.unwrap_or(2 * processors).max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    Ok(runtime.block_on(server::run(arguments, settings))?)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("gowk-serve: {error}");
            ExitCode::from(2)
        }
    }
}
