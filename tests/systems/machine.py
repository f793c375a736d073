"""What the cases need from the machine: mounts that the kernel removes at the end, images of file systems, the tool, and
a running writer."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

# The package of Debian and Ubuntu that has each program.
PACKAGES = {
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "mksquashfs": "squashfs-tools",
    "mkfs.erofs": "erofs-utils",
    "setfacl": "acl",
    "getfacl": "acl",
    "strace": "strace",
    "fuse2fs": "fuse2fs",
}
# A bound for hangs, not for speed.
PATIENCE = int(os.environ.get("GOWK_SYSTEMS_PATIENCE", "150"))
MIB = 1 << 20


class NotHere(Exception):
    """The machine lacks what a case needs."""


class Wrong(Exception):
    """The tool did not do what the case expects."""


def need(*programs):
    """Installs missing programs, if the machine has apt-get."""
    missing = [program for program in programs if shutil.which(program) is None]
    packages = sorted({PACKAGES[program] for program in missing if program in PACKAGES})
    if packages and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", *packages]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, env=environment, check=False, timeout=600, **quiet)
    for program in missing:
        if shutil.which(program) is None:
            raise NotHere(f"{program} is not here")


def system(*command, input=None):
    """Runs a program of the system, which must succeed."""
    done = subprocess.run([str(word) for word in command], input=input, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotHere(f"`{' '.join(map(str, command))}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def keys(numbers):
    return "".join(f"key-{number}\n" for number in numbers)


def ended(status):
    """How a process ended, in words. Shells and strace exit with 128 and the signal's number."""
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    return f"exit {status}"


class Result:
    def __init__(self, verb, status, out, err):
        self.verb, self.status, self.out, self.err = verb, status, out, err

    def __str__(self):
        text = (self.err.strip() or self.out.strip())[:400]
        return f"{self.verb}: {ended(self.status)}: {text}"

    def expect(self, *statuses):
        if self.status not in statuses:
            raise Wrong(f"{self}; expected exit {' or '.join(map(str, statuses))}")
        return self

    def says(self, *words):
        """One of these words, in any case."""
        text = (self.out + self.err).lower()
        if not any(word.lower() in text for word in words):
            raise Wrong(f"{self}; expected it to say {' or '.join(repr(word) for word in words)}")
        return self


class Machine:
    """A folder in memory for one case, under which everything is mounted."""

    def __init__(self, base, tool):
        self.dir = tempfile.mkdtemp(dir=base)
        os.chmod(self.dir, 0o755)
        self.tool = tool
        self.living = []
        self.mounted = []

    def end(self):
        for process in self.living:
            if process.poll() is None:
                process.kill()
            process.wait()
        for place in reversed(self.mounted):
            if subprocess.run(["umount", place], capture_output=True).returncode != 0:
                subprocess.run(["umount", "-l", place], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def folder(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o755)
        return path

    def mount(self, *words, at):
        """Mounts at a folder or a file of this machine. Loop devices are freed when their mount goes."""
        system("mount", *words, at)
        self.mounted.append(at)
        return at

    def unmount(self, place):
        system("umount", place)
        self.mounted.remove(place)

    def image(self, kind, size, *options, name="image"):
        """A file that holds an empty file system."""
        need(f"mkfs.{kind}")
        if kind not in open("/proc/filesystems").read().split():
            subprocess.run(["modprobe", kind], capture_output=True, check=False)
        if kind not in open("/proc/filesystems").read().split():
            raise NotHere(f"this kernel has no {kind}")
        path = os.path.join(self.dir, name)
        with open(path, "wb") as file:
            file.truncate(size)
        force = {"ext4": "-F", "btrfs": "-f", "xfs": "-f"}[kind]
        system(f"mkfs.{kind}", "-q", force, *options, path)
        return path

    def disk(self, kind, size, *options, mount_options="loop"):
        """A new file system of that kind, mounted."""
        image = self.image(kind, size, *options)
        return self.mount("-t", kind, "-o", mount_options, image, at=self.folder("disk"))

    def gowk(self, verb, *words, input="", wrapper=(), user=None, groups=(), may_die=()):
        """Runs the tool to its end. Only a signal of `may_die` may kill it."""
        command = [*wrapper, self.tool, verb, *map(str, words)]
        rights = {}
        if user is not None:
            rights = {"user": user, "group": user, "extra_groups": list(groups), "cwd": "/"}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, **rights)
        try:
            out, err = process.communicate(input, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong(f"{verb}: no end after {PATIENCE} s") from None
        result = Result(verb, process.returncode, out, err)
        if process.returncode < 0 and not wrapper and -process.returncode not in may_die:
            raise Wrong(str(result))
        return result

    def filter(self, folder, inserted=0, capacity=100_000, name="f.gowk", counting=False, **rights):
        """A closed filter with that many keys."""
        path = os.path.join(folder, name)
        kind = ["--counting"] if counting else []
        self.gowk("create", path, "--capacity", capacity, "--seed", 1, *kind, **rights).expect(0)
        self.gowk("insert", path, input=keys(range(inserted)), **rights).expect(0)
        return path

    def killed_filter(self, folder, inserted, journaled, capacity=100_000, counting=False):
        """A filter whose writer was killed with commits in the journal."""
        path = self.filter(folder, inserted, capacity, counting=counting)
        writer = Writer(self, path)
        writer.commit(range(inserted, inserted + journaled))
        writer.kill()
        return path

    def all_present(self, path, numbers, **how):
        """Looks up keys that were committed."""
        absent = self.gowk("check", "-v", path, input=keys(numbers), **how)
        if absent.status == 0:
            raise Wrong(f"{len(absent.out.split())} of {len(numbers)} committed keys are reported absent")
        return absent.expect(1)


class Talker:
    """A running process of the tool, which the case talks to."""

    def __init__(self, machine, *words, **how):
        self.process = subprocess.Popen([machine.tool, *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        machine.living.append(self.process)
        self.heard = {}

    def tell(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def line(self, pipe):
        """The next line; None at the end."""
        heard = self.heard.setdefault(pipe, b"")
        until = time.monotonic() + PATIENCE
        while b"\n" not in heard:
            if not select.select([pipe], [], [], max(0, until - time.monotonic()))[0]:
                raise Wrong(f"{self.process.args[1]}: no word after {PATIENCE} s")
            piece = os.read(pipe.fileno(), 1 << 16)
            if not piece:
                return None
            heard += piece
        line, self.heard[pipe] = heard.split(b"\n", 1)
        return line.decode()

    def last_words(self):
        """Waits for the end of the process, and says how it ended."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        rest = [self.heard.get(pipe, b"") + pipe.read() for pipe in (self.process.stdout, self.process.stderr)]
        status = self.process.wait(timeout=PATIENCE)
        out, err = (text.decode(errors="replace") for text in rest)
        result = Result(self.process.args[1], status, out, err)
        if status < 0:
            raise Wrong(str(result))
        return result


class Writer(Talker):
    """A running `insert`, which commits when it is told to."""

    EVERY = 500

    def __init__(self, machine, path, **how):
        super().__init__(machine, "insert", "--json", "--commit-every", self.EVERY, path, **how)
        self.committed = 0

    def commit(self, numbers):
        """Commits keys, a multiple of EVERY. Raises Wrong if the process ends instead."""
        if self.try_commit(numbers) is not None:
            raise Wrong(str(self.last_words()))

    def try_commit(self, numbers):
        """None, or the process's last words if it ended instead."""
        for first in range(0, len(numbers), self.EVERY):
            try:
                self.tell(keys(numbers[first : first + self.EVERY]))
            except BrokenPipeError:
                pass
            line = self.line(self.process.stderr)
            if line is None or '"commit"' not in line:
                self.heard[self.process.stderr] = (line or "").encode() + b"\n" + self.heard[self.process.stderr]
                return line or ""
            self.committed += self.EVERY
        return None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.last_words().expect(0)


class LongReader(Talker):
    """A running `check`, which answers each time it is asked."""

    def __init__(self, machine, path, **how):
        super().__init__(machine, "check", path, **how)
        self.ask([])

    def ask(self, numbers):
        """The keys found. The filter must have `key-0`, whose line shows that all others were looked up."""
        self.tell(keys([*numbers, 0]))
        found = []
        while (line := self.line(self.process.stdout)) != "key-0":
            if line is None:
                raise Wrong(str(self.last_words()))
            found.append(line)
        return found


def fill(folder, room=0):
    """Fills a file system up to `room` bytes."""
    reserved = os.path.join(folder, "room")
    if room:
        with open(reserved, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, room)
    size, number = 256 * MIB, 0
    while size >= 4096:
        path = os.path.join(folder, f"filler-{number}")
        number += 1
        try:
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            # Room allocated before the failure may stay allocated.
            size //= 2
    # The rest, which only plain writes get.
    for _ in range(200):
        try:
            with open(os.path.join(folder, "filler-last"), "ab", buffering=0) as file:
                file.write(b"x" * 65536)
                os.fsync(file.fileno())
        except OSError:
            break
    if room:
        os.remove(reserved)
    os.sync()


def make_room(folder):
    for name in os.listdir(folder):
        if name.startswith("filler"):
            os.remove(os.path.join(folder, name))
    os.sync()
