//! Work divided over threads.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Does `work` for each of `all`, and gives the outcomes in their order. The last is done on this thread, the others on
/// a thread each. If a thread cannot be started, its work is done on this one.
pub(crate) fn on_threads<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    // What is moved into a thread that cannot be started is lost. So each thread fetches its item when it runs.
    let waiting: Vec<_> = all.into_iter().map(|one| Mutex::new(Some(one))).collect();
    let work = |place: &Mutex<Option<T>>| {
        let one = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        one.map(&work)
    };
    let Some((last, others)) = waiting.split_last() else { return Vec::new() };
    scope(|scope| {
        let work = &work;
        let start = |place| Builder::new().spawn_scoped(scope, move || work(place)).ok();
        let threads: Vec<_> = others.iter().map(|place| (place, start(place))).collect();
        let last = work(last);
        let finish = |(place, thread): (_, Option<std::thread::ScopedJoinHandle<'_, Option<R>>>)| match thread
        {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => work(place),
        };
        threads.into_iter().map(finish).chain([last]).flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_order_and_a_panic_comes_through() {
        for count in [0, 1, 2, 7] {
            let doubled: Vec<usize> = (0..count).map(|number| 2 * number).collect();
            assert_eq!(on_threads((0..count).collect(), |number| 2 * number), doubled);
        }
        for bad in 0..3 {
            let work = || on_threads(vec![0, 1, 2], |number| assert!(number != bad, "number {bad}"));
            assert!(std::panic::catch_unwind(work).is_err());
        }
    }
}
