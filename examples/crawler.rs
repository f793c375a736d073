//! A crawler with threads: several threads fetch pages, and one filter says which links are new.
//!
//! ```text
//! cargo run --release --example crawler -- seen.gowk examples/urls.txt.gz
//! ```
//!
//! The pages here are the lines of a file, so that the example needs no network. Each thread hands its links over in
//! batches, under one lock, and commits now and then. A killed crawl goes on from its last commit.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;

use gowk::{Batches, Options, Writer};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Links of one page.
const PAGE: usize = 50;
const THREADS: usize = 4;

/// Takes pages until none is left. Returns how many links were new.
fn crawl(seen: &Mutex<Writer>, pages: &Mutex<VecDeque<Vec<String>>>) -> Outcome<usize> {
    let mut new = 0;
    loop {
        let page = pages.lock().map_err(|_| "a thread has panicked")?.pop_front();
        let Some(links) = page else { return Ok(new) };
        // Fetching and parsing belong here, outside of the lock.
        let mut seen = seen.lock().map_err(|_| "a thread has panicked")?;
        let inserted = seen.insert_batch(&links)?;
        new += inserted.new_keys();
        for (index, reason) in inserted.refused() {
            eprintln!("{}: {reason}", links[*index]);
        }
        seen.commit()?;
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: crawler FILTER LINES.gz";
    let (filter, lines) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(lines)?).read_to_string(&mut text)?;
    let links: Vec<String> = text.lines().map(str::to_owned).collect();
    let pages = Mutex::new(links.chunks(PAGE).map(<[String]>::to_vec).collect::<VecDeque<_>>());

    let seen = Arc::new(Mutex::new(Options::new().capacity(100_000).open(&filter)?));
    let new = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| crawl(&seen, &pages))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread has panicked")?)
            .sum::<Outcome<usize>>()
    })?;
    println!("{new} of {} links are new", links.len());
    let seen =
        Arc::into_inner(seen).and_then(|seen| seen.into_inner().ok()).ok_or("a thread has panicked")?;
    Ok(seen.close()?)
}
