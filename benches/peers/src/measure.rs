//! Timing, medians, and lines of a table.

use std::time::Instant;

pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A candidate: a name, and a function that returns one figure a call.
pub struct Candidate<'a> {
    pub name: String,
    pub measure: Box<dyn FnMut() -> f64 + 'a>,
}

pub fn candidate<'a>(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Candidate<'a> {
    Candidate { name: name.into(), measure: Box::new(measure) }
}

/// Medians over `rounds`, after a warm-up round.
pub fn in_turns(rounds: usize, candidates: &mut [Candidate<'_>]) -> Vec<f64> {
    let mut figures = vec![Vec::new(); candidates.len()];
    for round in 0..=rounds {
        for (candidate, figures) in candidates.iter_mut().zip(&mut figures) {
            let figure = (candidate.measure)();
            if round > 0 {
                figures.push(figure);
            }
        }
    }
    figures.iter().map(|figures| median(figures)).collect()
}

/// Prints a table of the medians, and their ratios to the median of the candidate number `limit`.
pub fn print(unit: &str, limit: usize, candidates: &[Candidate<'_>], medians: &[f64]) {
    let to = medians.get(limit).copied().unwrap_or(f64::NAN);
    println!("| | {unit} | ratio |\n|---|---|---|");
    for (candidate, median) in candidates.iter().zip(medians) {
        println!("| {} | {median:.2} | {:.2} |", candidate.name, median / to);
    }
}
