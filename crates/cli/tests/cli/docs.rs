//! Invariants checked, for the pages that users read:
//!
//! 1. The commands of `README.md` and `docs/` run, in the order of their page, with the exit status and the files that
//!    the page promises. The commands of cargo and pip, which are listed here, are left to continuous integration: it
//!    runs cargo's, and installs the wheel that pip would build.
//! 2. Links between pages resolve.
//! 3. The coprocess in `examples/` gets the right answer for each key, whatever bytes the key has.
//! 4. The words of the README's table are verbs of the tool, calls of the library and methods of the Python package.
//! 5. The front page of `cargo doc` has the same table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The commands that are left to continuous integration.
const BUILDS: [&str; 4] = [
    "gunzip -c examples/urls.txt.gz | cargo run --release -- dedup seen.gowk | wc -l",
    "cargo test",
    "cargo install --path crates/cli --profile dist",
    "pip install ./bindings/python",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The commands of all `sh` blocks of a page, without their comments.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| line.split("  #").next().unwrap().trim().to_owned());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Runs the commands of a page in one folder, each in a shell of its own.
fn run(page_name: &str, folder: &Path) -> Vec<(String, i32, String)> {
    let tool = PathBuf::from(env!("CARGO_BIN_EXE_gowk"));
    let path = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let all = commands(&page(page_name));
    assert!(!all.is_empty(), "{page_name} has no commands");
    let mut done = Vec::new();
    for command in all {
        if BUILDS.contains(&command.as_str()) {
            continue;
        }
        assert!(
            !command.contains("cargo") && !command.contains("pip"),
            "{page_name}: no test runs `{command}`"
        );
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        done.push((command, output.status.code().unwrap(), text));
    }
    done
}

fn write(folder: &Path, name: &str, lines: &[&str]) {
    fs::write(folder.join(name), lines.join("\n") + "\n").unwrap();
}

fn lines_of(folder: &Path, name: &str) -> usize {
    fs::read_to_string(folder.join(name)).unwrap().lines().count()
}

#[test]
fn the_commands_of_the_readme_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::copy(root().join("examples/urls.txt.gz"), folder.join("urls.gz")).unwrap();
    fs::copy(root().join("examples/urls.txt.gz"), folder.join("urls.job.gz")).unwrap();
    write(folder, "urls.txt", &["https://example.org/", "https://example.com/"]);
    write(folder, "pages.csv", &["id,url", "1,https://example.org/new", "2,https://example.org/new"]);
    write(folder, "reports.txt", &["spam", "eggs", "spam"]);
    write(folder, "cleared.txt", &["eggs"]);
    let job = fs::read_to_string(root().join("examples/ingest.toml")).unwrap();
    fs::write(folder.join("job.toml"), job).unwrap();
    for (command, status, message) in run("README.md", folder) {
        // `check` finds neither key, and its exit status says so.
        let expected = i32::from(command.starts_with("gowk check"));
        assert_eq!(status, expected, "{command}: {message}");
    }
    let new = lines_of(folder, "new.txt");
    assert!((12_380..=12_428).contains(&new), "{new}");
    assert_eq!(lines_of(folder, "new-118.txt"), 2);
}

#[test]
fn the_commands_of_the_pages_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let tool = |arguments: &[&str]| {
        let status =
            Command::new(env!("CARGO_BIN_EXE_gowk")).args(arguments).current_dir(folder).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    for name in ["new.gowk", "live.gowk"] {
        tool(&["create", name, "--capacity", "1000"]);
    }
    tool(&["insert", "new.gowk", "key"]);
    for (command, status, message) in run("docs/operating.md", folder) {
        assert_eq!(status, 0, "{command}: {message}");
    }
    tool(&["check", "live.gowk", "key"]);
    write(folder, "events.txt", &["a", "b", "a"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let event = |id: &str| format!("{{\"id\":\"{id}\",\"ts\":{now}}}");
    write(folder, "events.jsonl", &[&event("c"), &event("c")]);
    write(folder, "pages.csv", &["id,url,seen", &format!("1,d,{now}"), &format!("2,d,{now}")]);
    let page_of = |url: &str, ttl: &str| format!("{{\"url\":\"{url}\",\"cache\":{{\"ttl\":{ttl}}}}}");
    write(folder, "pages.jsonl", &[&page_of("e", "60"), &page_of("f", "\"31d\""), &page_of("g", "\"12h\"")]);
    for (command, status, message) in run("docs/forgetting.md", folder) {
        assert_eq!(status, 0, "{command}: {message}");
    }
    assert_eq!(["fetch.jsonl", "odd.jsonl"].map(|name| lines_of(folder, name)), [2, 1]);
    assert_eq!(["new.txt", "new.jsonl", "new.csv"].map(|name| lines_of(folder, name)), [2, 1, 2]);
    for name in ["docs/choosing.md", "docs/performance.md"] {
        assert_eq!(commands(&page(name)), [""; 0], "{name}: nobody runs these");
    }
}

/// Each recipe does what it promises.
#[test]
fn the_recipes_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let leaked =
        ["000000005AD76BD555C1D6D771DE417A4B87E4B4:10", "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:9545824"];
    write(folder, "pwned.txt", &leaked);
    let event = |id: u32| format!("{{\"id\":\"e{id}\"}}");
    let lasting = |id: u32, ttl: &str| format!("{{\"id\":\"e{id}\",\"cache\":{{\"ttl\":{ttl}}}}}");
    write(folder, "events.jsonl", &[&lasting(1, "60"), &lasting(2, "\"40d\""), &lasting(1, "\"12h\"")]);
    write(folder, "october.jsonl", &[&event(1), &event(2), &event(2)]);
    write(folder, "november.jsonl", &[&event(2), &event(3), &event(3)]);
    let batches = [["a", "b", "c"], ["b", "c", "d"]];
    write(folder, "batch-1.txt", &batches[0]);
    write(folder, "batch-2.txt", &batches[1]);
    for (command, status, message) in run("docs/recipes.md", folder) {
        assert_eq!(status, 0, "{command}: {message}");
    }
    let tool = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_gowk")).args(arguments).current_dir(folder).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let hash = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8";
    assert_eq!(tool(&["check", "pwned.gowk", hash]), format!("{hash}\n"));
    assert_eq!(tool(&["count", "digits.gowk", hash]), format!("7\t{hash}\n"));
    let once = ["once.jsonl", "fresh.jsonl", "odd.jsonl", "october-once.jsonl", "november-once.jsonl"];
    assert_eq!(once.map(|name| lines_of(folder, name)), [2, 1, 1, 2, 1]);
    // Together the crawlers fetch each URL once, and the second try fetches what the first did.
    let fetched = ["fetch-1.txt", "fetch-2.txt"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    let mut all: Vec<&str> = fetched.iter().flat_map(|text| text.lines()).collect();
    all.sort_unstable();
    assert_eq!(all, ["a", "b", "c", "d"]);
    assert_eq!(fs::read_to_string(folder.join("fetch-1-again.txt")).unwrap(), fetched[0]);
}

/// A key may contain a newline. Answers line by line would then get out of step.
#[test]
fn the_coprocess_answers_each_key() {
    let folder = tempfile::tempdir().unwrap();
    let (tool, filter) = (env!("CARGO_BIN_EXE_gowk"), folder.path().join("f"));
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run(Command::new(tool).args(["create", "--capacity", "1000"]).arg(&filter));
    run(Command::new(tool).arg("insert").arg(&filter).args(["two\nlines", "present"]));
    let script = root().join("examples/coprocess.py");
    let keys = ["two\nlines", "absent\nas well", "present", "", "two", "lines", "present"];
    let answers = run(Command::new("python3").arg(script).arg(tool).arg(&filter).args(keys));
    assert_eq!(answers, "1\n0\n1\n0\n0\n0\n1\n");
}

/// The targets of all links of a page of Markdown.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    targets.map(|target| target.split('#').next().unwrap().to_owned()).collect()
}

#[test]
fn links_to_files_of_the_project_resolve() {
    let mut seen = 0;
    for folder in ["", "docs", "format-spec", "benches/peers"] {
        let pages = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for page in pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
            for target in links(&fs::read_to_string(&page).unwrap()) {
                if !target.is_empty() && !target.contains("://") {
                    assert!(page.parent().unwrap().join(&target).exists(), "{}: {target}", page.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The words of the table of verbs on a page: for each row its name, and for each column the quoted words.
fn rows_of_the_table(text: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let (_, table) = text.split_once("# The same words everywhere\n\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|')).skip(2);
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = rows
        .map(|row| {
            let cells: Vec<&str> =
                row.strip_prefix('|').unwrap().strip_suffix('|').unwrap().split('|').collect();
            (cells[0].trim().to_owned(), cells[1..].iter().map(|cell| words(cell)).collect::<Vec<_>>())
        })
        .collect();
    assert!(rows.len() >= 4 && rows.iter().all(|(_, row)| row.len() == rows[0].1.len()), "{rows:?}");
    rows
}

/// The words of the README's table, by column.
fn words_of_the_table() -> Vec<Vec<String>> {
    let rows = rows_of_the_table(&page("README.md"));
    (0..rows[0].1.len())
        .map(|column| rows.iter().flat_map(|(_, row)| row[column].clone()).collect())
        .collect()
}

#[test]
fn the_front_page_of_the_library_has_the_table_of_the_readme() {
    let front: String = page("src/lib.rs")
        .lines()
        .map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n")
        .collect();
    let (readme, front) = (rows_of_the_table(&page("README.md")), rows_of_the_table(&front));
    assert_eq!(readme.len(), front.len());
    for ((name, readme), (title, front)) in readme.iter().zip(&front) {
        assert_eq!(name, title);
        // One column of the README holds three columns of the front page: one key, many keys and iterator.
        assert_eq!([&front[0][..], &front[1], &front[2]].concat(), readme[0], "{name}");
        assert_eq!((&front[3], &front[4]), (&readme[1], &readme[2]), "{name}");
    }
}

#[test]
fn the_words_of_the_table_are_those_of_each_surface() {
    let columns = words_of_the_table();
    let [rust, tool, python, spark, _job] = columns.as_slice() else { panic!("{columns:?}") };
    let library = ["src/write/writer.rs", "src/write/batches.rs", "src/read/lookup.rs"].map(page).concat();
    for word in rust {
        assert!(library.contains(&format!("fn {word}")), "the library has no `{word}`");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_gowk")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for word in tool {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{word} "))),
            "the tool has no `{word}`"
        );
    }
    let stubs = page("bindings/python/gowk/_gowk.pyi");
    for word in python {
        let name = if word == "in" { "__contains__" } else { word };
        assert!(stubs.contains(&format!("def {name}(")), "Python has no `{word}`");
    }
    let store = page("bindings/python/gowk/spark/_store.py");
    for word in spark {
        assert!(store.contains(&format!("    def {word}(")), "Spark has no `{word}`");
    }
}
