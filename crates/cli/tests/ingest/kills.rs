//! Invariant checked: a job that is killed with SIGKILL at random moments, and run again each time, ends like a job that
//! was never killed, with the same entries in the same slots, the same cursor and the same output. This holds even for
//! kills during a doubling.
//!
//! `GOWK_KILLS=1000 cargo test --release --test ingest kills -- --nocapture` kills that many times in each test.
//! `GOWK_URLS=FILE.gz` reads the lines of another file than the sample.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::run::Folder;
use crate::sample::{Left, gunzip, gzip, urls, zstd};
use crate::thorough;

/// Random points in time.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(thorough::seed(1) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// How many kills a test makes: as many as the environment requests, or else the size of the test.
fn kills(otherwise: u32) -> u32 {
    std::env::var("GOWK_KILLS").map_or_else(
        |_| thorough::size("kills of a job", otherwise.div_ceil(4), otherwise),
        |kills| kills.parse().unwrap(),
    )
}

/// A job that can be run any number of times from the start.
struct Case {
    prepare: Box<dyn Fn(&Folder)>,
    output: &'static str,
    /// What the job leaves without a kill, and how long it takes.
    whole: Left,
    takes: Duration,
}

impl Case {
    fn new(output: &'static str, prepare: impl Fn(&Folder) + 'static) -> Self {
        let folder = Folder::new();
        prepare(&folder);
        let start = Instant::now();
        folder.ingest();
        let takes = start.elapsed();
        let whole = folder.left(output);
        println!("{} entries, generation {}, {takes:?}", whole.entries, whole.generation);
        Self { prepare: Box::new(prepare), output, whole, takes }
    }

    fn folder(&self) -> Folder {
        let folder = Folder::new();
        (self.prepare)(&folder);
        folder
    }

    /// Kills the job `kills` times, each after a random time. A finished job is compared, and started anew.
    fn killed_at_random(&self, kills: u32) {
        let mut random = Random::new();
        let (mut killed, mut compared, mut in_a_row, mut most) = (0, 0, 0, 0);
        let mut folder = self.folder();
        while killed < kills {
            let mut job = folder.start(&["ingest", "job.toml"]);
            std::thread::sleep(Duration::from_micros(random.below(self.takes.as_micros() as u64)));
            if job.has_ended().is_none() {
                job.kill();
                killed += 1;
                in_a_row += 1;
                most = most.max(in_a_row);
                continue;
            }
            assert_eq!(job.wait().code(), Some(0));
            self.whole.assert_same(&folder.left(self.output));
            compared += 1;
            in_a_row = 0;
            folder = self.folder();
        }
        folder.ingest();
        self.whole.assert_same(&folder.left(self.output));
        println!("{killed} kills, at most {most} in one job; {} jobs compared", compared + 1);
    }

    /// Kills the job `kills` times, each soon after a doubling has created its new file.
    fn killed_while_doubling(&self, kills: u32) {
        let mut random = Random::new();
        let (mut killed, mut compared) = (0, 0);
        while killed < kills {
            let folder = self.folder();
            while killed < kills {
                let left = files(&folder);
                let mut job = folder.start(&["ingest", "job.toml"]);
                let doubles = wait_for_doubling(&folder, &left, || job.has_ended().is_some());
                std::thread::sleep(Duration::from_micros(random.below(3000)));
                if !doubles || job.has_ended().is_some() {
                    assert_eq!(job.wait().code(), Some(0));
                    break;
                }
                job.kill();
                killed += 1;
            }
            folder.ingest();
            self.whole.assert_same(&folder.left(self.output));
            compared += 1;
            assert!(compared <= kills, "the test does not notice doublings");
        }
        println!("{killed} kills while doubling; {compared} jobs compared");
    }
}

/// Whether a temporary file that was not `left` before appeared beside an existing filter before `ended`.
fn wait_for_doubling(folder: &Folder, left: &[String], mut ended: impl FnMut() -> bool) -> bool {
    loop {
        let now = files(folder);
        let filter = now.iter().any(|name| name == "f");
        let is_new = |name: &&String| name.starts_with("f-") && !left.contains(name);
        if filter && now.iter().filter(is_new).any(|name| !["f-journal", "f-lock"].contains(&name.as_str())) {
            return true;
        }
        if ended() {
            return false;
        }
    }
}

fn files(folder: &Folder) -> Vec<String> {
    let entries = folder.path(".").read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The lines of the sample, or of the file that `GOWK_URLS` names.
fn input() -> String {
    std::env::var_os("GOWK_URLS").map_or_else(urls, |path| gunzip(Path::new(&path)))
}

/// The sample itself: gzip, with several members.
#[test]
fn a_job_over_the_sample_survives_kills() {
    let case = Case::new("new", |folder| {
        let urls = input();
        let (first, second) = urls.as_bytes().split_at(urls.len() / 2);
        folder.write("urls.txt.gz", [gzip(first), gzip(second)].concat());
        folder.job("paths = ['urls.txt.gz']", 500);
    });
    assert!(case.whole.entries > 12_000);
    case.killed_at_random(kills(100));
}

/// A job over variants of the sample that double the filter several times: five times the keys, in files of all kinds,
/// with a compressed output, and with commits in the middle of inputs.
fn growing() -> Case {
    Case::new("new.zst", |folder| {
        let urls = input();
        for part in 0..5 {
            let lines: String = urls.lines().map(|line| format!("{line}?{part}\n")).collect();
            match part % 3 {
                0 => folder.write(&format!("{part}.in"), gzip(lines.as_bytes())),
                1 => folder.write(&format!("{part}.in"), lines),
                _ => folder.write(&format!("{part}.in"), zstd(lines.as_bytes())),
            }
        }
        folder.job("paths = ['*.in']", 3_333);
        let text = folder.text("job.toml").replace("\"new\"", "\"new.zst\"");
        folder.write("job.toml", text);
    })
}

/// Every third record has no key, and is once in the output of rejects.
#[test]
fn rejects_survive_kills() {
    let case = Case::new("rejects", |folder| {
        let urls = input();
        let record = |(number, url): (usize, &str)| match number % 6 {
            0 => format!("{{\"number\":{number}}}\n"),
            3 => format!("{{\"url\":{number}\n"),
            _ => format!("{{\"url\":\"{url}\"}}\n"),
        };
        folder.write("a", urls.lines().enumerate().map(record).collect::<String>());
        folder.job("paths = ['a']\nformat = 'jsonl'\nfield = 'url'", 500);
        folder.write("job.toml", folder.text("job.toml") + "rejects = 'rejects'\n");
    });
    assert!(case.whole.entries > 8_000);
    let rejects = case.whole.output.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(rejects, input().lines().count().div_ceil(3));
    case.killed_at_random(kills(40));
}

/// Ninety days of records in a filter that keeps keys for ten days: it forgets most of them again, and some records are
/// late.
#[test]
fn forgetting_survives_kills() {
    let case = Case::new("new", |folder| {
        let urls = input();
        let record = |(number, url): (usize, &str)| {
            let late = if number % 50 == 49 { 30 * 86_400 } else { 0 };
            format!("{{\"url\":\"{url}\",\"ts\":{}}}\n", 1_700_000_000 + number * 400 - late)
        };
        folder.write("a", urls.lines().enumerate().map(record).collect::<String>());
        folder.job("paths = ['a']\nformat = 'jsonl'\nfield = 'url'\ntime = 'ts'", 500);
        let job =
            folder.text("job.toml").replace("capacity", "forget_after = '10d'\nrefresh = true\ncapacity");
        folder.write("job.toml", job);
    });
    assert!((1_000..6_000).contains(&case.whole.entries));
    case.killed_at_random(kills(40));
}

/// CSV rows with quoted fields, some of them repeated, in two files with the same header. The output is compressed or not.
#[test]
fn whole_records_survive_kills() {
    for output in ["new", "new.zst"] {
        let case = Case::new(output, move |folder| {
            let urls = input();
            let rows = |lines: &mut dyn Iterator<Item = &str>| {
                let rows = lines
                    .enumerate()
                    .map(|(number, url)| format!("{number},\"{url}\",\"of\r\n\"\"{number}\"\"\"\r\n"));
                format!("number,url,text\r\n{}", rows.collect::<String>())
            };
            folder.write("a.csv", rows(&mut urls.lines().take(12_000)));
            folder.write("b.csv", gzip(rows(&mut urls.lines().skip(8_000)).as_bytes()));
            folder.job("paths = ['*.csv']\nformat = 'csv'\nfield = 'url'", 500);
            let job = folder.text("job.toml").replace("\"new\"", &format!("\"{output}\""));
            folder.write("job.toml", job + "records = true\n");
        });
        assert!(case.whole.entries > 12_000);
        case.killed_at_random(kills(40));
    }
}

#[test]
fn a_growing_filter_survives_kills_at_random_moments() {
    let case = growing();
    assert!(case.whole.generation >= 3);
    case.killed_at_random(kills(60));
}

#[test]
fn a_growing_filter_survives_kills_while_it_doubles() {
    growing().killed_while_doubling(kills(30));
}
