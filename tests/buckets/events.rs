//! What the crates below tell subscribers of `tracing`, on all threads and in all tests of this binary.

use std::fmt::{Debug, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::proxy::{self, Fault};
use super::{has_credential, insert, options, place};
use gowk::store::Store;

/// How many events told of a request that is made again, in any test: that some did shows that events are heard.
static RETRIES: AtomicU64 = AtomicU64::new(0);
/// What showed a credential.
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Subscribed;

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

/// Keeps what shows a credential.
fn check(Text(text): Text) {
    if has_credential(&text) {
        LEAKS.lock().unwrap().push(text);
    }
}

impl Subscriber for Subscribed {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = Text::default();
        attributes.record(&mut text);
        check(text);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = Text::default();
        values.record(&mut text);
        check(text);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        RETRIES.fetch_add(text.0.contains("retry").into(), Ordering::Relaxed);
        check(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Hears all events of this process from now on.
pub(crate) fn subscribe() {
    tracing::subscriber::set_global_default(Subscribed).unwrap();
}

/// Fails if an event until now showed a credential.
pub(crate) fn check_all() {
    let leaks = LEAKS.lock().unwrap();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn events_of_requests_that_are_made_again_show_no_credential() {
    let (prefix, address) = place();
    let store = Store::create(&address, 1, &options()).unwrap();
    let before = RETRIES.load(Ordering::Relaxed);
    for fault in [Fault::Answer(500), Fault::Answer(503)] {
        proxy::plan(&prefix, fault, 0, 1, "");
        insert(&store, 0..10, None);
        proxy::relent(&prefix);
    }
    let retries = RETRIES.load(Ordering::Relaxed) - before;
    assert!(retries >= 2, "{retries} retries were heard of");
    check_all();
}
