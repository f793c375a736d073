//! The view that each thread last looked into.
//!
//! Threads that share a pointer which may be replaced need locked instructions, and those wait for all loads before
//! them. A lookup could then begin only when the one before has its cache lines, which takes several times as long. So
//! each thread keeps a view; the view itself says whether it is still current. The thread drops its view when it looks
//! a key up in another view, when the thread ends, or when it drops the last clone of the reader. Until then, a view
//! that nobody else uses holds neither map nor file ([`ViewInUse`](super::view::ViewInUse)).

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::view::View;

thread_local! {
    /// Has no destructor, so no access has to check whether one has run. The destructor of `ENDING` empties it.
    static RECENT: Cell<Option<Kept>> = const { Cell::new(None) };
    static ENDING: Ending = const { Ending };
}

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let_go(|_| true);
    }
}

/// A thread's view. [`put_back`] returns it.
type Kept = ManuallyDrop<Arc<View>>;

/// Takes the thread's view, if it keeps one.
#[inline(always)]
pub(super) fn take() -> Option<Kept> {
    RECENT.take()
}

/// Returns a view after [`take`].
#[inline(always)]
pub(super) fn put_back(view: Kept) {
    RECENT.set(Some(view));
}

/// Keeps a view for the thread's next lookup, and drops the one that the thread kept before.
pub(super) fn keep(view: Arc<View>) {
    // In a thread about to end, `ENDING` may be gone already, and nothing would drop the view.
    if ENDING.try_with(|_| ()).is_ok() {
        let before = RECENT.replace(Some(ManuallyDrop::new(view)));
        drop(before.map(ManuallyDrop::into_inner));
    }
}

/// Drops the thread's view if `is_left` says so.
pub(super) fn let_go(is_left: impl FnOnce(&View) -> bool) {
    let Some(view) = take() else { return };
    if is_left(&view) {
        drop(ManuallyDrop::into_inner(view));
    } else {
        put_back(view);
    }
}
