//! The view that each thread last looked into.
//!
//! Sharing a pointer that may be replaced takes locked instructions, and those wait for all loads before them: no
//! lookup could begin before the one before has its cache lines, which takes several times as long. A view tells
//! itself whether it is still current, so a thread may keep one. It lets it go when it looks up anything in
//! another one, or ends, or drops the last clone of the reader.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::view::View;

thread_local! {
    /// Has no destructor, so that no access has to ask whether it has run: `ENDING` empties it.
    static RECENT: Cell<Option<Kept>> = const { Cell::new(None) };
    static ENDING: Ending = const { Ending };
}

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let_go(|_| true);
    }
}

/// A thread's view, which goes back with [`put_back`].
type Kept = ManuallyDrop<Arc<View>>;

/// The view that the thread keeps, which then keeps none.
#[inline(always)]
pub(super) fn take() -> Option<Kept> {
    RECENT.take()
}

/// After [`take`].
#[inline(always)]
pub(super) fn put_back(view: Kept) {
    RECENT.set(Some(view));
}

/// Keeps a view for the thread's next lookup, in place of the one that it had.
pub(super) fn keep(view: Arc<View>) {
    // A thread about to end has nothing left that would empty it.
    if ENDING.try_with(|_| ()).is_ok() {
        let before = RECENT.replace(Some(ManuallyDrop::new(view)));
        drop(before.map(ManuallyDrop::into_inner));
    }
}

/// Lets go of the thread's view if `is_left`.
pub(super) fn let_go(is_left: impl FnOnce(&View) -> bool) {
    let Some(view) = take() else { return };
    if is_left(&view) {
        drop(ManuallyDrop::into_inner(view));
    } else {
        put_back(view);
    }
}
