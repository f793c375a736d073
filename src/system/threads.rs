//! Work divided over threads.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Does `work` for each of `all`, and returns the outcomes in their order. This thread does the last item; every other
/// item gets a thread of its own. If a thread cannot be started, this thread does its work.
pub(crate) fn on_threads<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    // An item moved into a thread that cannot be started would be lost. So each thread fetches its item when it runs.
    let places: Vec<_> = all.into_iter().map(|one| Mutex::new((Some(one), None))).collect();
    on_each_index(places.len(), &|index| {
        let Some(place) = places.get(index) else { return };
        let one = place.lock().unwrap_or_else(PoisonError::into_inner).0.take();
        let outcome = one.map(&work);
        place.lock().unwrap_or_else(PoisonError::into_inner).1 = outcome;
    });
    let outcome = |place: Mutex<(_, Option<R>)>| place.into_inner().unwrap_or_else(PoisonError::into_inner).1;
    places.into_iter().filter_map(outcome).collect()
}

/// Does `work` for each index below `count`, on threads as [`on_threads`] does.
pub(crate) fn on_each_index(count: usize, work: &(dyn Fn(usize) + Sync)) {
    let Some(last) = count.checked_sub(1) else { return };
    scope(|scope| {
        let start = |index| Builder::new().spawn_scoped(scope, move || work(index)).ok();
        let threads: Vec<_> = (0..last).map(start).collect();
        work(last);
        for (index, thread) in threads.into_iter().enumerate() {
            match thread {
                Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => work(index),
            }
        }
    });
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
