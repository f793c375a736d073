//! A thread that looks at the names of the files that readers have open, and tells a view when its name leads to
//! another file, as after `mv new.gowk live.gowk`.
//!
//! A lookup cannot afford to look at a name, or even at a clock. So the thread closes the shortcut of such a view, and
//! the next lookup takes a slower way and finds the view left. A process has one such thread while it has readers of
//! files. If the thread cannot be started, batches and [`Reader::refresh`](super::Reader::refresh) still look at the
//! name.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use super::view::ViewInUse;
use crate::system::{Inode, inode_of};

/// How often the names are looked at.
const PERIOD: Duration = Duration::from_millis(500);
/// Attempts to lock the list before a view goes unwatched. The lock is held for some microseconds; but a child forked
/// in that time finds it locked for ever.
const TRIES: u32 = 100;

static NAMES: Mutex<Names> = Mutex::new(Names { process: 0, watched: Vec::new() });

struct Names {
    /// The process whose thread looks at the names; 0 if there is none. A forked child inherits the list but not the
    /// thread.
    process: u32,
    watched: Vec<Watched>,
}

#[derive(Clone)]
struct Watched {
    name: Arc<Path>,
    inode: Inode,
    view: Weak<ViewInUse>,
}

impl ViewInUse {
    /// Makes the thread look at the name of the view's file until the view is gone. Does nothing for a copy in memory,
    /// which has no name.
    pub(super) fn watch_name(self: &Arc<Self>) {
        if self.source().is_some() {
            let view = Arc::downgrade(self);
            watch(Watched { name: self.pages.path().clone(), inode: self.inode, view });
        }
    }
}

fn watch(watched: Watched) {
    let Some(mut names) = (0..TRIES).find_map(|_| {
        let names = try_lock();
        if names.is_none() {
            thread::sleep(Duration::from_micros(20));
        }
        names
    }) else {
        return;
    };
    names.watched.push(watched);
    if names.process != std::process::id() {
        let started = thread::Builder::new().name("gowk-names".to_owned()).spawn(look_until_none_is_left);
        names.process = if started.is_ok() { std::process::id() } else { 0 };
    }
}

fn try_lock() -> Option<MutexGuard<'static, Names>> {
    match NAMES.try_lock() {
        Ok(names) => Some(names),
        Err(TryLockError::Poisoned(names)) => Some(names.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn look_until_none_is_left() {
    loop {
        thread::sleep(PERIOD);
        let Some(mut names) = try_lock() else { continue };
        names.watched.retain(|watched| watched.view.strong_count() > 0);
        if names.watched.is_empty() {
            names.process = 0;
            return;
        }
        // Looking at a name may be slow, as on a network.
        let watched = names.watched.clone();
        drop(names);
        for Watched { name, inode, view } in watched {
            // The view is held only for this moment: after its last reader is dropped, the file must not stay mapped.
            if inode_of(&name).is_ok_and(|found| found.is_some_and(|found| found != inode))
                && let Some(view) = view.upgrade()
            {
                view.leave();
            }
        }
    }
}
