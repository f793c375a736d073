//! Signals. The first SIGINT, SIGTERM or SIGHUP asks the verb to finish, and the second one kills the process. A signal
//! that was ignored when the process began, as under `nohup`, stays ignored. SIGXFSZ becomes an error of the write that
//! caused it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::failure::Failure;

/// Makes a write past the limit on file sizes fail instead of killing the process.
pub(super) fn survive_file_size_limits() -> Result<(), Failure> {
    let outcome = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    outcome.map(drop).map_err(|source| Failure::System { op: "listen to signals", source })
}

/// The signals that this process ignores, the first one in the lowest bit; none if the system does not show them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The exit code after the output was closed, as a shell reports it for a process killed by SIGPIPE.
pub(super) const OUTPUT_CLOSED: u8 = 128 + SIGPIPE as u8;

/// Whether a signal has come.
pub(super) struct Stop(Arc<AtomicI32>);

impl Stop {
    /// Starts a thread that records a signal and then calls `wake`.
    pub(super) fn listen(wake: impl Fn() + Send + 'static) -> Result<Self, Failure> {
        let failed = |source| Failure::System { op: "listen to signals", source };
        let noted = Arc::new(AtomicI32::new(0));
        let stop = Self(noted.clone());
        let ignored = ignored();
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let mut signals = Signals::new(heard).map_err(failed)?;
        let listen = move || {
            for signal in signals.forever() {
                if noted.swap(signal, Ordering::Relaxed) != 0 {
                    // Does not return: the default action of each of these signals ends the process.
                    let _ = emulate_default_handler(signal);
                }
                wake();
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(failed)?;
        Ok(stop)
    }

    pub(super) fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}
