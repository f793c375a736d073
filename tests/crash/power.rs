//! The power is cut, processes die, and the disk fails, under sets, counting filters and forgetting ones.
//!
//! A recorder behind gowk's [`Disk`](gowk::disk::Disk) records every operation of a script. From this record, the tests
//! make the images that a power cut after each operation can leave on the medium. An image has a subset of the unsynced
//! operations: every subset of up to 8 operations (of 12 with `GOWK_THOROUGH=1`); of more, every prefix, all but each
//! one, each one alone, and 64 random subsets. Writes are also torn, at sectors and at any byte. Names are undone until
//! the folder is synced. Stores through memory maps (to the live area and unpublished files) are old, new, or noise.
//!
//! Invariants checked for each image (`power_cut_…`):
//!
//! 1. A reader or writer can open it. Entries, counters and metadata are those before or after the open transaction,
//!    never a mixture.
//! 2. Every acknowledged commit is in the filter.
//! 3. `verify` finds no fault, and another commit can be made; after that, no temporary file is left.
//! 4. The file says "in use" after an opening for writing returned, and "idle" after a close returned. A file that says
//!    "idle" holds every commit without its journal.
//! 5. All of this holds after a power cut during the recovery, and a state that was seen once is not lost.
//! 6. All of this holds if the process dies with nothing flushed, another process recovers what memory shows, and the
//!    power is cut only then, with the dead process's operations unsynced. The other process may also be a reader without
//!    the right to write, which replays the journal in its own memory.
//!
//! Each call to the disk fails once, with a full disk or an I/O error (`failing_disk_…`). Invariants checked then:
//!
//! 7. The error names file, operation and reason.
//! 8. If the transaction cannot be in doubt, it is whole, and can be committed again or rolled back. After a failed sync,
//!    or a failed write to a published file, the writer is poisoned, and reopening shows the state before or after the
//!    transaction.
//! 9. Invariants 1 to 3 hold for later power cuts. The model of the medium is harsh: changes that a failed sync should
//!    have settled stay unsettled, and later syncs of that file do not settle them either.
//!
//! Each test prints how many images it examined. Together `power_cut_…` examine more than 12,000. With `GOWK_THOROUGH=1`
//! they examine more than 24,000, and each call fails, in four ways; otherwise every sixth call fails, in one way. More
//! random images:
//!
//! ```text
//! GOWK_CRASH_IMAGES=1000000 cargo test --release --test crash power_cut
//! ```
//!
//! Every run is the same, apart from the salts, names and uuids that gowk draws. A failure names the event, the fate of
//! each unsynced operation, and the contents of the live area. `GOWK_CRASH_HISTORY=1` prints the events.

mod cut;
mod fault;
mod history;
mod image;
mod medium;
mod random;
mod record;
mod script;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write as _};
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cut::{Examiner, scratch};
use fault::Answer;
use gowk::Kind;
use record::{Fault, Limits};
use script::Edit::{Checkpoint, Grow, Insert, Remove, Set, Unset};
use script::Step::{Abandon, Close, Commit, Create, Open, Read, Replace};
use script::{ONE_REGION, Run, Script, Start, TWO_REGIONS};

use crate::thorough;

/// Every script runs on all kinds. In a forgetting filter, each removal is a day that passes instead.
const KINDS: [Kind; 3] = [Kind::Counting, Kind::Set, Kind::Forgetting];

/// The kinds for a power-cut test: the short test uses one kind, which depends on `GOWK_SEED`.
fn kinds_of(script: &str) -> Vec<Kind> {
    let first = thorough::seed(script.len() as u64) as usize % KINDS.len();
    let kinds = thorough::size("kinds of filters on which power is cut in each script", 1, KINDS.len());
    KINDS.into_iter().cycle().skip(first).take(kinds).collect()
}

/// How many images each power-cut test examines at least, for one kind.
fn share(kinds: usize) -> usize {
    let asked = std::env::var("GOWK_CRASH_IMAGES").ok();
    let all = asked.map_or_else(enough, |number| number.parse().unwrap());
    all.div_ceil(POWER_CUTS * kinds)
}

/// How many images all tests together examine at least, unless `GOWK_CRASH_IMAGES` asks for more.
fn enough() -> usize {
    static ENOUGH: OnceLock<usize> = OnceLock::new();
    *ENOUGH.get_or_init(|| thorough::size("images of cut power", 4_000, 24_000))
}

/// How many images all tests have examined so far.
static IMAGES: AtomicUsize = AtomicUsize::new(0);

fn cut_power(script: &Script, kinds: usize) {
    let start = Instant::now();
    let dir = scratch();
    let mut run = Run::start(script, dir.path(), None);
    for step in &script.steps {
        run.do_step(step).unwrap();
    }
    let history = run.recorder.history();
    let Run { states, .. } = run;
    if std::env::var_os("GOWK_CRASH_HISTORY").is_some() {
        let _ = write!(std::io::stderr(), "{}:\n{history:?}", script.name);
    }
    let mut examiner = Examiner::new(script.name, &states);
    examiner.all(&history, 0);
    let first = examiner.images;
    examiner.deaths(&history, 0);
    let deaths = examiner.images - first;
    let more = share(kinds).saturating_sub(examiner.images);
    examiner.some(&history, 0, more, 0);
    let all = IMAGES.fetch_add(examiner.images, Ordering::Relaxed) + examiner.images;
    let _ = writeln!(
        std::io::stderr(),
        "{}, {}: {} images of {} events ({} of recoveries, {deaths} after deaths), {:.1} s; {all} in all so far",
        script.name,
        script.kind,
        examiner.images,
        history.events.len(),
        examiner.second_depth,
        start.elapsed().as_secs_f64()
    );
}

/// Frames of this size hold the changes of three or four pages.
const SMALL_FRAMES: Limits = Limits { frame: 400, ..Limits::NONE };
const CHECKPOINT_EACH: Limits = Limits { journal: 0, ..Limits::NONE };

fn script(name: &'static str, start: Start, steps: Vec<script::Step>) -> Script {
    Script { name, kind: Kind::Counting, start, capacity: ONE_REGION, limits: Limits::NONE, steps }
}

fn inserts(keys: std::ops::Range<u64>) -> Vec<script::Edit> {
    keys.map(Insert).collect()
}

fn creation() -> Script {
    let steps =
        vec![Create, Commit(vec![Insert(0), Insert(1), Set("a", b"1")]), Commit(vec![Insert(2)]), Close];
    script("creation", Start::Nothing, steps)
}

fn creation_beside_stray_journal() -> Script {
    let steps = vec![Create, Commit(vec![Insert(0)]), Commit(vec![Insert(1)]), Close];
    script("creation beside a stray journal", Start::StrayJournal, steps)
}

fn small_commits() -> Script {
    let steps = vec![
        Open,
        Commit(vec![Insert(0)]),
        Commit(vec![Insert(1), Insert(2)]),
        Read,
        Commit(vec![Insert(1)]),
        Commit(vec![Insert(3), Checkpoint, Insert(1)]),
        Close,
        Read,
    ];
    script("small commits", Start::Closed, steps)
}

fn large_commits() -> Script {
    let steps = vec![
        Open,
        Commit(inserts(0..12)),
        Commit([inserts(12..20), vec![Set("b", &[7; 900])]].concat()),
        Close,
    ];
    let script = script("commits of several frames", Start::Closed, steps);
    Script { capacity: TWO_REGIONS, limits: SMALL_FRAMES, ..script }
}

fn removals_and_metadata() -> Script {
    let steps = vec![
        Open,
        Commit(vec![Remove(30), Set("a", b"after"), Set("b", &[1; 5000])]),
        Commit(vec![Unset("a"), Insert(1)]),
        Abandon(vec![Insert(2), Unset("b")]),
        Commit(vec![Remove(1), Remove(30)]),
        Close,
    ];
    script("removals and metadata", Start::Closed, steps)
}

fn checkpoints() -> Script {
    let steps = vec![
        Open,
        Commit(vec![Insert(0), Set("a", b"1")]),
        Commit(vec![Insert(1), Remove(30)]),
        Commit(vec![Insert(2), Unset("a")]),
        Close,
    ];
    Script { limits: CHECKPOINT_EACH, ..script("checkpoints", Start::Closed, steps) }
}

fn doubling() -> Script {
    let steps = vec![
        Open,
        Commit(vec![Insert(0)]),
        Commit(vec![Insert(1), Grow, Insert(2), Checkpoint, Remove(30), Set("a", b"grown")]),
        Commit(vec![Insert(3)]),
        Close,
        Read,
    ];
    script("doubling", Start::Closed, steps)
}

fn doublings_in_one_transaction() -> Script {
    let steps = vec![
        Open,
        Abandon(vec![Insert(0), Grow, Insert(1)]),
        Commit(vec![Insert(2)]),
        Commit(vec![Grow, Insert(3), Grow]),
        Close,
    ];
    script("doublings in one transaction", Start::Closed, steps)
}

fn doubling_in_creation() -> Script {
    let steps = vec![Create, Commit(vec![Insert(0), Grow, Insert(1)]), Close];
    script("doubling in a creation", Start::Nothing, steps)
}

fn replacement() -> Script {
    let steps = vec![Replace, Commit(vec![Insert(0), Insert(30)]), Close, Open, Close];
    script("replacement", Start::Closed, steps)
}

fn replacement_of_crashed() -> Script {
    let steps = vec![Replace, Commit(vec![Insert(0)]), Close];
    script("replacement of what a dead writer left", Start::Crashed, steps)
}

fn recovery_by_writer() -> Script {
    let steps = vec![Open, Commit(vec![Insert(0)]), Commit(vec![Remove(30)]), Close];
    script("recovery by a writer", Start::Crashed, steps)
}

fn recovery_by_reader() -> Script {
    let steps = vec![Read, Open, Commit(vec![Insert(0)]), Close];
    script("recovery by a reader", Start::Crashed, steps)
}

fn closing() -> Script {
    let steps =
        vec![Open, Close, Open, Commit(vec![Insert(0)]), Close, Read, Open, Abandon(vec![Insert(1)]), Close];
    script("closing", Start::Closed, steps)
}

fn after_move() -> Script {
    script("opening after a move", Start::Moved, vec![Open, Commit(vec![Insert(0)]), Close])
}

fn reading_after_move() -> Script {
    script("reading after a move", Start::Moved, vec![Read, Open, Close])
}

fn without_journal() -> Script {
    let steps = vec![Open, Commit(vec![Insert(0)]), Commit(vec![Insert(1)]), Close];
    script("a journal that was removed", Start::WithoutJournal, steps)
}

fn old_journal() -> Script {
    let steps = vec![Open, Commit(vec![Insert(0)]), Commit(vec![Insert(1)]), Close];
    script("a journal of an earlier checkpoint", Start::OldJournal, steps)
}

macro_rules! power_cuts {
    ($($test:ident: $script:ident;)*) => {
        /// How many tests there are that cut the power.
        const POWER_CUTS: usize = [$(stringify!($test)),*].len();

        $(#[test]
        fn $test() {
            let kinds = kinds_of($script().name);
            for kind in &kinds {
                cut_power(&Script { kind: *kind, ..$script() }, kinds.len());
            }
        })*
    };
}

power_cuts! {
    power_cut_in_creation: creation;
    power_cut_in_creation_beside_stray_journal: creation_beside_stray_journal;
    power_cut_in_small_commits: small_commits;
    power_cut_in_large_commits: large_commits;
    power_cut_in_removals_and_metadata: removals_and_metadata;
    power_cut_in_checkpoints: checkpoints;
    power_cut_in_doubling: doubling;
    power_cut_in_doublings_in_one_transaction: doublings_in_one_transaction;
    power_cut_in_doubling_in_creation: doubling_in_creation;
    power_cut_in_replacement: replacement;
    power_cut_in_replacement_of_crashed: replacement_of_crashed;
    power_cut_in_recovery_by_writer: recovery_by_writer;
    power_cut_in_recovery_by_reader: recovery_by_reader;
    power_cut_in_closing: closing;
    power_cut_after_move: after_move;
    power_cut_reading_after_move: reading_after_move;
    power_cut_without_journal: without_journal;
    power_cut_with_old_journal: old_journal;
}

const WAYS_TO_FAIL: [(ErrorKind, Answer); 4] = [
    (ErrorKind::StorageFull, Answer::CommitAgain),
    (ErrorKind::StorageFull, Answer::RollBack),
    (ErrorKind::Other, Answer::CommitAgain),
    (ErrorKind::Other, Answer::RollBack),
];

/// Fails calls of a script once, in every way and with every reaction of the user, and prints the outcomes. The short
/// test alternates between the ways, and fails every sixth call: other calls for each kind of filter, whose `number` this
/// is, and for odd seeds.
fn fail_calls(script: &Script, number: usize) {
    let ways = thorough::size("ways in which each call fails", 1, WAYS_TO_FAIL.len());
    let mut lines = BTreeMap::new();
    let (mut runs, mut images) = (0, 0);
    let step = if thorough::is_asked_for() { 1 } else { 2 * KINDS.len() };
    let first = 2 * number + thorough::seed(0) as usize % 2;
    for call in (first % step..fault::calls(script)).step_by(step) {
        let stride = WAYS_TO_FAIL.len() / ways;
        for (kind, answer) in WAYS_TO_FAIL.into_iter().skip(call / step % stride).step_by(stride) {
            let strike = |twice| fault::strike(script, Fault { call, kind, twice }, answer).unwrap();
            let once = strike(false);
            // A failed append is cut back, and the cut may also fail.
            let append = once.call.starts_with("append") && once.step == "commit";
            for struck in iter::once(once).chain(append.then(|| strike(true))) {
                runs += 1;
                images += struck.images;
                lines.entry((struck.step, struck.call)).or_insert_with(BTreeSet::new).insert(struck.outcome);
            }
        }
    }
    let mut text = format!("{}, {}: {runs} failures, {images} images\n", script.name, script.kind);
    for ((step, call), outcomes) in lines {
        let outcomes: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
        text += &format!("  {step}: {call}: {}\n", outcomes.join(" | "));
    }
    let _ = write!(std::io::stderr(), "{text}");
}

macro_rules! failures {
    ($($test:ident: $script:ident;)*) => {
        $(#[test]
        fn $test() {
            for (number, kind) in KINDS.into_iter().enumerate() {
                fail_calls(&Script { kind, ..$script() }, number);
            }
        })*
    };
}

failures! {
    failing_disk_in_creation: creation;
    failing_disk_in_creation_beside_stray_journal: creation_beside_stray_journal;
    failing_disk_in_small_commits: small_commits;
    failing_disk_in_large_commits: large_commits;
    failing_disk_in_removals_and_metadata: removals_and_metadata;
    failing_disk_in_checkpoints: checkpoints;
    failing_disk_in_doubling: doubling;
    failing_disk_in_doublings_in_one_transaction: doublings_in_one_transaction;
    failing_disk_in_doubling_in_creation: doubling_in_creation;
    failing_disk_in_replacement: replacement;
    failing_disk_in_replacement_of_crashed: replacement_of_crashed;
    failing_disk_in_recovery_by_writer: recovery_by_writer;
    failing_disk_in_recovery_by_reader: recovery_by_reader;
    failing_disk_in_closing: closing;
    failing_disk_after_move: after_move;
    failing_disk_reading_after_move: reading_after_move;
    failing_disk_without_journal: without_journal;
    failing_disk_with_old_journal: old_journal;
}
