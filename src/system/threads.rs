//! Work divided over threads.

/// Does `work` for each of `all`, the last on this thread and the others each on one of their own.
pub(crate) fn on_threads<T: Send, R: Send>(mut all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let Some(last) = all.pop() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(move || work(one))).collect();
        let last = work(last);
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).chain([last]).collect::<Vec<R>>()
    })
}
