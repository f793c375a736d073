//! A connection's changes and lookups in one filter in one round, made and committed together.

use std::sync::Arc;

use gowk::{Changes, Error, KeyHash};

/// What to do with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Insert,
    /// Inserts the key unless it is present.
    InsertNew,
    Remove,
    /// A lookup that must see earlier changes of the same connection.
    Contains,
    Count,
}

/// One key, and what to do with it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub verb: Verb,
    pub hash: KeyHash,
}

/// The outcome of a step.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Whether the key was new, removed or found.
    Bool(bool),
    Count(u32),
    /// There is no room for the key: because of the filter's limit, or for gowk's own reason.
    Full(Option<Arc<Error>>),
    Failed(Arc<Error>),
}

/// For fewer consecutive inserts, a batch costs more than it saves.
const BATCH: usize = 256;

/// What the steps must know about their filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub counting: bool,
    /// How many keys the filter may hold, if it must not grow.
    pub limit: Option<u64>,
}

/// Makes all steps in order.
pub(crate) fn make(changes: &mut Changes<'_>, steps: &[Step], rules: Rules) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(steps.len());
    for run in steps.chunk_by(|a, b| a.verb == b.verb) {
        if !rules.counting
            && rules.limit.is_none()
            && run.len() >= BATCH
            && run.first().is_some_and(|step| step.verb == Verb::Insert)
        {
            insert_many(changes, run, &mut outcomes);
        } else {
            outcomes.extend(run.iter().map(|step| make_one(changes, *step, rules)));
        }
    }
    outcomes
}

fn insert_many(changes: &mut Changes<'_>, run: &[Step], outcomes: &mut Vec<Outcome>) {
    let hashes: Vec<KeyHash> = run.iter().map(|step| step.hash).collect();
    let inserted = match changes.insert_batch(&hashes) {
        Ok(inserted) => inserted,
        Err(error) => {
            let error = Arc::new(error);
            outcomes.extend(run.iter().map(|_| Outcome::Failed(error.clone())));
            return;
        }
    };
    let first = outcomes.len();
    outcomes.extend((0..run.len()).map(|index| Outcome::Bool(inserted.is_new(index))));
    for (index, error) in inserted.into_refused() {
        if let Some(outcome) = outcomes.get_mut(first + index) {
            *outcome = Outcome::Full(Some(Arc::new(error)));
        }
    }
}

fn make_one(changes: &mut Changes<'_>, Step { verb, hash }: Step, rules: Rules) -> Outcome {
    let outcome = match verb {
        Verb::Contains => changes.contains(hash).map(Outcome::Bool),
        Verb::Count => changes.count(hash).map(Outcome::Count),
        Verb::Remove => changes.remove(hash).map(Outcome::Bool),
        Verb::Insert | Verb::InsertNew => insert(changes, verb, hash, rules),
    };
    outcome.unwrap_or_else(|error| match error.refuses_one_key() {
        true => Outcome::Full(Some(Arc::new(error))),
        false => Outcome::Failed(Arc::new(error)),
    })
}

fn insert(changes: &mut Changes<'_>, verb: Verb, hash: KeyHash, rules: Rules) -> gowk::Result<Outcome> {
    if verb == Verb::InsertNew && changes.contains(hash)? {
        return Ok(Outcome::Bool(false));
    }
    if let Some(limit) = rules.limit
        && changes.len()? >= limit
    {
        // A set accepts a key that it already has, and stores nothing.
        let known = !rules.counting && changes.contains(hash)?;
        return Ok(if known { Outcome::Bool(false) } else { Outcome::Full(None) });
    }
    // `CF.ADD` answers 1 for each copy, and `BF.ADD` whether the key is new.
    let new = changes.insert(hash)?;
    Ok(Outcome::Bool(new || rules.counting))
}
