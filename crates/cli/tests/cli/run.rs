//! A folder for the files of a test, and ways to run `gowk` in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A limit for tests that hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Folder(TempDir);

/// The output and the exit code of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with a filter `f`, created with these options. A seed excludes chance: for some seeds, a filter mistakes
    /// two keys for one.
    pub(crate) fn with_filter(options: &[&str]) -> Self {
        let folder = Self::new();
        let seed: &[&str] = if options.contains(&"--seed") { &[] } else { &["--seed", "1"] };
        folder.run(&[&["create", "f"], options, seed].concat(), "").done();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gowk"));
        self.prepare(command.args(args));
        command
    }

    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped())
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S], input: impl AsRef<[u8]>) -> Ended {
        run(&mut self.command(args), input.as_ref())
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// The tool with default signals, as from a terminal. A background process of a shell ignores SIGINT, and one of
    /// `nohup` SIGHUP.
    pub(crate) fn start_in_the_foreground<S: AsRef<OsStr>>(&self, args: &[S]) -> Running {
        let mut env = Command::new("env");
        env.args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_gowk")]).args(args);
        Running::start(self.prepare(&mut env))
    }

    /// The names and the bytes of all files in the folder and its subfolders.
    pub(crate) fn snapshot(&self) -> BTreeMap<OsString, Vec<u8>> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![self.0.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                let is_folder = path.is_dir();
                let bytes = if is_folder { Vec::new() } else { std::fs::read(&path).unwrap() };
                if is_folder {
                    folders.push(path.clone());
                }
                let name = path.strip_prefix(self.0.path()).unwrap().as_os_str().to_owned();
                found.insert(name, bytes);
            }
        }
        found
    }

    /// Whether the file system of temporary folders supports the marks of outputs.
    pub(crate) fn has_marks(&self) -> bool {
        std::fs::write(self.path("marked"), "").unwrap();
        let marked = std::fs::File::open(self.path("marked")).unwrap();
        let has = rustix::fs::fsetxattr(marked, "user.gowk", b"x", rustix::fs::XattrFlags::empty()).is_ok();
        if !has {
            println!("not run in part: temporary files have no extended attributes here");
        }
        has
    }

    pub(crate) fn info(&self, file: &str) -> Value {
        self.run(&["info", file, "--json"], "").json()
    }

    /// The offset of page 0.
    pub(crate) fn data_offset(&self, file: &str) -> usize {
        let info = self.info(file);
        let (length, regions) = (info["file_length"].as_u64().unwrap(), info["regions"].as_u64().unwrap());
        (length - 65_536 * regions) as usize
    }

    pub(crate) fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.path(file)).unwrap();
        change(&mut bytes);
        std::fs::write(self.path(file), bytes).unwrap();
    }

    #[track_caller]
    pub(crate) fn assert_holds(&self, file: &str, keys: &str) {
        let found = self.run(&["check", file], keys);
        assert_eq!((found.code, found.text()), (Some(0), keys.to_owned()));
    }

    #[track_caller]
    pub(crate) fn assert_lacks(&self, file: &str, keys: &str) {
        let found = self.run(&["check", file], keys);
        assert_eq!((found.code, found.text().as_str()), (Some(1), ""));
    }
}

/// `key FROM` to `key TO - 1`, one a line.
pub(crate) fn lines(keys: std::ops::Range<u32>) -> String {
    keys.fold(String::new(), |mut lines, i| {
        writeln!(lines, "key {i}").unwrap();
        lines
    })
}

pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ended {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // A process that does not read its input may close it.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    let err = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code(), out: output.stdout, err }
}

/// The command line in a shell, which passes `"$@"` on to `gowk`.
pub(crate) fn in_a_shell(folder: &Folder, line: &str, args: &[&str]) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", line, "bash", env!("CARGO_BIN_EXE_gowk")]).args(args);
    folder.prepare(&mut shell);
    shell
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    /// Checks for exit code 0 and an empty standard error.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self.text()
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        assert_eq!(self.text().matches('\n').count(), 1, "{self:?}");
        serde_json::from_slice(&self.out).unwrap()
    }

    /// Checks for exit code 2, and one line on standard error with these words.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert!(self.err.starts_with("gowk: ") && self.err.ends_with('\n'), "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {:?}", self.err);
        }
    }
}

/// A running process, which dropping it kills.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Self { child, stdin, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn give(&mut self, input: &str) {
        self.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
    }

    /// Waits until the process has read all its input so far.
    #[track_caller]
    pub(crate) fn reads(&self) {
        let (stdin, start) = (self.stdin.as_ref().unwrap(), Instant::now());
        while rustix::io::ioctl_fionread(stdin).unwrap() > 0 {
            assert!(start.elapsed() < DEADLINE, "the process does not read");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn out_lines(&mut self) -> Lines {
        Lines::of(self.stdout.take().unwrap())
    }

    pub(crate) fn err_lines(&mut self) -> Lines {
        Lines::of(self.stderr.take().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        // The process may have ended.
        Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.has_ended() {
                return status;
            }
            assert!(start.elapsed() < DEADLINE, "the process does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a process writes, while it writes them.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self(lines)
    }

    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(DEADLINE).expect("the process prints no line")
    }

    /// The lines until the end of the stream.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0.iter().collect()
    }
}

/// Runs `gowk` without the rights of root.
pub(crate) struct Unprivileged(Option<TempDir>);

const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

impl Unprivileged {
    /// `None` if this process is root and cannot give up root's rights.
    pub(crate) fn new() -> Option<Self> {
        if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
            return Some(Self(None));
        }
        // The folder in which the tool was built may be closed to other users.
        let tool = TempDir::new().unwrap();
        crate::thorough::copy_program(Path::new(env!("CARGO_BIN_EXE_gowk")), &tool.path().join("gowk"));
        set_mode(tool.path(), 0o755);
        let works =
            Command::new("setpriv").args(NOBODY).arg(tool.path().join("gowk")).arg("--version").output();
        works.is_ok_and(|output| output.status.success()).then_some(Self(Some(tool)))
    }

    pub(crate) fn run(&self, folder: &Folder, args: &[&str]) -> Ended {
        run(&mut self.command(folder, args), b"")
    }

    pub(crate) fn start(&self, folder: &Folder, args: &[&str]) -> Running {
        Running::start(&mut self.command(folder, args))
    }

    fn command(&self, folder: &Folder, args: &[&str]) -> Command {
        self.shell(folder, "exec \"$@\"", args)
    }

    /// A shell without the rights of root. `$1` is the tool, and `args` follow.
    pub(crate) fn shell(&self, folder: &Folder, line: &str, args: &[&str]) -> Command {
        let (mut command, tool) = match &self.0 {
            Some(tool) => {
                let mut command = Command::new("setpriv");
                command.args(NOBODY).arg("bash");
                (command, tool.path().join("gowk"))
            }
            None => (Command::new("bash"), env!("CARGO_BIN_EXE_gowk").into()),
        };
        command.args(["-c", line, "bash"]).arg(tool).args(args);
        folder.prepare(&mut command);
        command
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
