//! Signals. The first SIGINT or SIGTERM asks the verb to finish, and the second one kills the process. SIGXFSZ becomes an
//! error of the write that caused it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::failure::Failure;

/// From now on a write past the limit on the size of files fails, and no longer kills the process.
pub(super) fn survive_file_size_limits() -> Result<(), Failure> {
    let outcome = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    outcome.map(drop).map_err(|source| Failure::System { op: "listen to signals", source })
}

/// Whether a signal has come.
pub(super) struct Stop(Arc<AtomicI32>);

impl Stop {
    /// From now on signals are noted by a thread of its own, which then calls `wake`.
    pub(super) fn listen(wake: impl Fn() + Send + 'static) -> Result<Self, Failure> {
        let failed = |source| Failure::System { op: "listen to signals", source };
        let noted = Arc::new(AtomicI32::new(0));
        let stop = Self(noted.clone());
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let listen = move || {
            for signal in signals.forever() {
                if noted.swap(signal, Ordering::Relaxed) != 0 {
                    // Does not return: both signals end a process that does not handle them.
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
