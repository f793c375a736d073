//! Visits every state that a model of a protocol can reach: its processes take their steps in any order, and die between
//! any two. Compiled only for tests. The models are `file/open/model.rs`, `store/model.rs` and `store/compact/model.rs`.
//!
//! Invariants checked: the model's own, in every state; and from every state all living processes can reach their ends,
//! unless another one dies.
//!
//! A model that cannot fail shows nothing. [`assert_each_breaks`] therefore takes changes to the programs, and each must
//! violate an invariant.

use std::fmt::Debug;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// `Err` says which invariant is violated, and how.
pub(crate) type Outcome<T> = Result<T, String>;

/// The steps of each program, by the program's number.
#[derive(Clone)]
pub(crate) struct Programs<Step>(pub(crate) Vec<Vec<Step>>);

/// A state: everything that the processes share, and the progress of each.
pub(crate) trait Model: Copy + Eq + Hash + Debug + Sync {
    type Step: Copy + Debug + Sync;

    /// How many processes there can be.
    const PROCESSES: usize;

    /// Fails if this state violates an invariant.
    fn check(&self, programs: &Programs<Self::Step>) -> Outcome<()>;

    /// The states after the next step of a process; none if the process waits, or has ended.
    fn after(&self, process: usize, programs: &Programs<Self::Step>) -> Outcome<Vec<Self>>;

    /// The state after the death of a process in this state; `None` if it cannot die.
    fn after_death(&self, process: usize) -> Option<Self>;

    /// Whether every process has ended or died.
    fn is_over(&self) -> bool;
}

/// How many states can be reached. Fails at the first state that violates an invariant.
pub(crate) fn explore<M: Model>(start: M, programs: &Programs<M::Step>) -> Outcome<usize> {
    let mut numbers = FxHashMap::from_iter([(start, 0_usize)]);
    // Depth first. The order only affects how soon a broken invariant is found.
    let mut waiting = vec![start];
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut over = Vec::new();
    while let Some(state) = waiting.pop() {
        let number = numbers[&state];
        state.check(programs)?;
        if state.is_over() {
            over.push(number);
        }
        let mut reach = |next: M, counts: bool| {
            let new = before.len();
            let number_of_next = *numbers.entry(next).or_insert(new);
            if number_of_next == new {
                before.push(Vec::new());
                waiting.push(next);
            }
            if counts {
                before[number_of_next].push(number);
            }
        };
        for process in 0..M::PROCESSES {
            for next in state.after(process, programs)? {
                reach(next, true);
            }
            // A death does not count as a way to the end.
            if let Some(next) = state.after_death(process) {
                reach(next, false);
            }
        }
    }
    let mut can_end = vec![false; before.len()];
    while let Some(number) = over.pop() {
        if !std::mem::replace(&mut can_end[number], true) {
            over.extend(&before[number]);
        }
    }
    match can_end.iter().position(|can| !can) {
        None => Ok(before.len()),
        Some(stuck) => {
            let state = numbers.iter().find(|(_, number)| **number == stuck).map(|(state, _)| state);
            Err(format!("no way to the end from {state:#?}"))
        }
    }
}

/// Each change to the programs violates an invariant from one of the starts. A change reads `commit: without Append`, or
/// `commit: MakeEven before ApplyAll`, which swaps two neighbours. `names` has the programs' names by number.
pub(crate) fn assert_each_breaks<M: Model>(
    starts: &[M],
    programs: &Programs<M::Step>,
    names: &[&str],
    changes: &[&str],
) {
    let breaks = |change: &str| {
        let changed = changed(programs, names, change);
        let broken = starts.iter().find_map(|start| explore(*start, &changed).err());
        let how = broken.unwrap_or_else(|| panic!("{change} breaks nothing"));
        println!("{change}: {}", how.lines().next().unwrap_or_default());
    };
    // Tests of this kind run last, so each uses two processors.
    std::thread::scope(|scope| {
        for half in changes.chunks(changes.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|change| breaks(change)));
        }
    });
}

fn changed<Step: Copy + Debug>(programs: &Programs<Step>, names: &[&str], change: &str) -> Programs<Step> {
    let mut changed = programs.clone();
    let parts = change.split_once(": ").and_then(|(name, how)| {
        let number = names.iter().position(|known| *known == name)?;
        Some((changed.0.get_mut(number)?, how))
    });
    let (program, how) = parts.unwrap_or_else(|| panic!("{change} names no program"));
    let place = |wanted: &str| {
        let at = program.iter().position(|step| format!("{step:?}") == wanted);
        at.unwrap_or_else(|| panic!("{change}: the program has no step {wanted}"))
    };
    if let Some(step) = how.strip_prefix("without ") {
        let at = place(step);
        program.remove(at);
    } else {
        let Some((second, first)) = how.split_once(" before ") else { panic!("{change} is no change") };
        let (at, next) = (place(first), place(second));
        assert_eq!(at + 1, next, "{change}: the steps are no neighbours");
        program.swap(at, next);
    }
    changed
}

/// A model of two processes that count to 2 together. A process passes `Wait` once the other has counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pair {
    at: [u8; 2],
    counted: u8,
    deaths: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Count,
    Wait,
    Check,
}

impl Model for Pair {
    type Step = Turn;

    const PROCESSES: usize = 2;

    fn check(&self, _: &Programs<Turn>) -> Outcome<()> {
        if self.counted > 2 { Err(format!("{} counted", self.counted)) } else { Ok(()) }
    }

    fn after(&self, process: usize, programs: &Programs<Turn>) -> Outcome<Vec<Self>> {
        let Some(step) = programs.0[0].get(usize::from(self.at[process])) else { return Ok(Vec::new()) };
        let mut next = *self;
        next.at[process] += 1;
        match step {
            Turn::Count => next.counted += 1,
            Turn::Wait if self.counted < 2 => return Ok(Vec::new()),
            Turn::Wait => {}
            Turn::Check if self.counted < 2 => return Err("too early".to_owned()),
            Turn::Check => {}
        }
        Ok(vec![next])
    }

    fn after_death(&self, process: usize) -> Option<Self> {
        let mut next = *self;
        next.deaths = self.deaths.checked_sub(1)?;
        next.at[process] = u8::MAX;
        Some(next)
    }

    fn is_over(&self) -> bool {
        self.at.iter().all(|at| *at >= 3)
    }
}

const PAIR: Pair = Pair { at: [0; 2], counted: 0, deaths: 0 };

#[test]
fn every_order_of_steps_is_visited() {
    let programs = Programs(vec![vec![Turn::Count, Turn::Wait, Turn::Check]]);
    // 3 states until both have counted, and 9 with each process at Wait, at Check or at its end.
    assert_eq!(explore(PAIR, &programs), Ok(12));
    assert_each_breaks(&[PAIR], &programs, &["pair"], &["pair: without Wait", "pair: Check before Wait"]);
}

#[test]
fn a_state_from_which_the_living_cannot_come_to_an_end_is_told() {
    let programs = Programs(vec![vec![Turn::Count, Turn::Wait, Turn::Check]]);
    let stuck = explore(Pair { deaths: 1, ..PAIR }, &programs).unwrap_err();
    // The first process died before it counted, and the second waits for it.
    assert!(stuck.starts_with("no way to the end from"), "{stuck}");
    assert_each_breaks(&[PAIR], &programs, &["pair"], &["pair: without Count"]);
}
