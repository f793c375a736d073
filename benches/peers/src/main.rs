//! gowk beside the machine's limits and beside other crates.
//!
//! `cargo run --release -- SECTION [OPTIONS]`, in this folder; see `README.md` for the sections. Every figure
//! is a median over rounds in which all candidates take turns, so that other work on the machine slows all of them alike.
//! Only ratios within one run can be compared.

mod commits;
mod copies;
mod filters;
mod forgetting;
mod growth;
mod keys;
mod limits;
mod lookups;
mod measure;
mod opening;
mod paging;
mod peers;
mod singles;
mod table;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let section = arguments.next().unwrap_or_default();
    // `opening` and `paging` run these in child processes.
    if let Some(work) = opening::child(&section) {
        return work(std::path::Path::new(&arguments.next().unwrap_or_default()));
    }
    if ["copies", "copies-rates", "multisets"].contains(&&*section) {
        let file = arguments.next().ok_or("a file of lines is missing")?;
        let number = arguments.next().map(|number| number.replace('_', "").parse()).transpose()?;
        return match section.as_str() {
            "copies" => copies::loads(&file, number.unwrap_or(20)),
            "multisets" => copies::multisets(&file, number.unwrap_or(100)),
            _ => copies::rates(&file, number.unwrap_or(10_000_000)),
        };
    }
    let number = arguments.next().map(|number| number.replace('_', "").parse::<u64>()).transpose()?;
    match section.as_str() {
        "table" => {
            let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
            table::run(number.unwrap_or(10_000_000), rounds, &arguments.next().unwrap_or_default())
        }
        "singles" => {
            let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
            singles::run(number.unwrap_or(10_000_000), rounds)
        }
        "latency" => {
            limits::latencies(number.unwrap_or(512));
            Ok(())
        }
        "lookups" => lookups::run(number.unwrap_or(1024)),
        "loading" => table::loading(number.unwrap_or(100_000_000)),
        "commits" => commits::run(number.unwrap_or(10_000_000)),
        "large-commits" => commits::large(number.unwrap_or(1024)),
        "forgetting" => forgetting::run(number.unwrap_or(20_000_000)),
        "growth" => growth::run(number.unwrap_or(64_000_000)),
        "opening" => opening::run(number.unwrap_or(8192)),
        "paging" => paging::run(number.unwrap_or(1024), arguments.next()),
        _ => Err("sections: table [KEYS [ROUNDS [NAME]]], singles [KEYS [ROUNDS]], latency [MIB], lookups [MIB], loading [KEYS], \
                  commits [KEYS], large-commits [MIB], growth [KEYS], forgetting [EVENTS], opening [MIB], paging MIB CONTROL_GROUP, \
                  copies FILE [SEEDS], multisets FILE [SEEDS], copies-rates FILE [COPIES]"
            .into()),
    }
}
