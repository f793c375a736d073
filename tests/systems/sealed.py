"""Sealed filters: closed, at a checkpoint, on file systems where nothing can be locked or written.

Expected: such a file is opened and answers. Its system calls lock, write and sync nothing. A file that is not at a
checkpoint is refused; the remedy in the message helps."""

import os
import re

from machine import LongReader, Writer, Wrong, keys, need, system

KEYS = 2000
ABSENT = range(1_000_000, 1_000_500)
CHANGING = re.compile(r"^\d+ +(flock|f(data)?sync|sync_file_range|syncfs|f?truncate|fallocate|unlink(at)?|rename(at2?)?|"
                      r"mkdir(at)?|(sym)?link(at)?|f?chmod(at)?|f?chown(at)?|utimensat)\(|F_(OFD_)?SETLK")


def content(folder):
    """Names, sizes and times of all files in a folder."""
    return sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(folder))


def traced(machine, folder, verb, *words, input="", **how):
    """Runs the tool, and checks its system calls."""
    # A folder that everybody may write, as the tool may run as another user.
    place = machine.folder("traces")
    os.chmod(place, 0o777)
    log = os.path.join(place, f"{verb}-{len(os.listdir(place))}")
    result = machine.gowk(verb, *words, input=input, wrapper=("strace", "-f", "-y", "-o", log), **how)
    with open(log) as lines:
        for line in lines:
            if CHANGING.search(line):
                raise Wrong(f"{verb}: {line.strip()}")
            if re.search(r"\b(write|pwrite64|writev|pwritev)\(\d+<([^>]*)>", line):
                written = re.search(r"\(\d+<([^>]*)>", line).group(1)
                if written.startswith(folder):
                    raise Wrong(f"{verb} writes: {line.strip()}")
            if folder in line and re.search(r"O_WRONLY|O_RDWR|O_CREAT|MAP_SHARED.*PROT_WRITE|PROT_WRITE.*MAP_SHARED", line):
                raise Wrong(f"{verb} opens for writing: {line.strip()}")
    return result


def answers(machine, path, **how):
    """Every verb that reads, sealed."""
    folder = os.path.dirname(path)
    before = content(folder)
    asked = keys([*range(KEYS), *ABSENT])
    found = traced(machine, folder, "check", "--sealed", path, input=asked, **how).expect(0).out.split()
    if found[:KEYS] != keys(range(KEYS)).split() or len(found) > KEYS + 50:
        raise Wrong(f"{len(found)} keys found of {KEYS} and {len(ABSENT)} absent ones")
    counted = traced(machine, folder, "count", "--sealed", path, input=keys(range(10)), **how).expect(0)
    if any(not line.startswith("1\t") for line in counted.out.splitlines()):
        raise Wrong(str(counted))
    traced(machine, folder, "info", "--sealed", path, **how).expect(0).says(f"{KEYS:,} inserted")
    traced(machine, folder, "verify", "--sealed", path, **how).expect(0)
    if content(folder) != before:
        raise Wrong(f"{content(folder)} were {before}")


def closed(machine, folder):
    """A filter and nothing beside it, as after it was copied or unpacked."""
    path = machine.filter(folder, KEYS, counting=True)
    for name in ("-journal", "-lock"):
        os.remove(path + name)
    return path


def on_squashfs(machine):
    need("mksquashfs", "strace")
    closed(machine, machine.folder("d/sealed"))
    image = os.path.join(machine.dir, "image")
    system("mksquashfs", machine.folder("d"), image, "-quiet")
    disk = machine.mount("-t", "squashfs", "-o", "loop,ro", image, at=machine.folder("disk"))
    path = os.path.join(disk, "sealed", "f.gowk")
    answers(machine, path)
    # On such a file system the tool does so without the option, too.
    traced(machine, disk, "check", path, "key-1").expect(0)
    copy = os.path.join(machine.dir, "copy.gowk")
    machine.gowk("copy", "--sealed", path, copy).expect(0)
    machine.all_present(copy, range(KEYS))


def without_any_right_to_write(machine):
    need("strace")
    folder = machine.folder("d")
    path = closed(machine, folder)
    os.chmod(path, 0o444)
    os.chmod(folder, 0o555)
    answers(machine, path, user=65534)


def immutable(machine):
    need("strace")
    disk = machine.disk("ext4", 64 << 20)
    path = closed(machine, disk)
    system("chattr", "+i", path)
    try:
        answers(machine, path)
    finally:
        system("chattr", "-i", path)


def mounted_alone(machine):
    """The file alone, as `docker run -v FILE:FILE:ro` mounts it; and its folder."""
    need("strace")
    path = closed(machine, machine.folder("outside"))
    inside = os.path.join(machine.folder("inside"), "f.gowk")
    open(inside, "w").close()
    machine.mount("--bind", "-o", "ro", path, at=inside)
    answers(machine, inside)
    machine.gowk("check", inside, "key-1").expect(2).says("sealed")
    folder = machine.mount("--bind", "-o", "ro", machine.folder("outside"), at=machine.folder("folder"))
    traced(machine, folder, "check", os.path.join(folder, "f.gowk"), "key-1").expect(0)


def not_at_a_checkpoint(machine):
    folder = machine.folder("killed")
    path = machine.killed_filter(folder, KEYS, 1000)
    before = content(folder)
    for verb in ("check", "count", "info", "verify"):
        words = ("key-1",) if verb in ("check", "count") else ()
        machine.gowk(verb, "--sealed", path, *words).expect(2).says("sealed").says("gowk info")
    if content(folder) != before:
        raise Wrong("a refused opening changed something")
    machine.gowk("info", path).expect(0)
    absent = machine.gowk("check", "--sealed", "-v", path, input=keys(range(KEYS + 1000)))
    absent.expect(1)
    writer = Writer(machine, path)
    # After its first commit, the writer has the file open.
    writer.commit(range(KEYS + 1000, KEYS + 1000 + Writer.EVERY))
    machine.gowk("check", "--sealed", path, "key-1").expect(2).says("a writer has it")
    writer.close()
    machine.gowk("check", "--sealed", path, "key-1").expect(0)
    # Beside the journal of another moment.
    other = machine.killed_filter(machine.folder("other"), KEYS, 1000)
    os.replace(f"{other}-journal", f"{path}-journal")
    machine.gowk("check", "--sealed", path, "key-1").expect(2).says("journal")


def read_only_mount_beside_a_writer(machine):
    """A folder that a container sees read-only, while its writer goes on outside."""
    path = machine.filter(machine.folder("outside"), KEYS, counting=True)
    folder = machine.mount("--bind", "-o", "ro", machine.folder("outside"), at=machine.folder("inside"))
    inside = os.path.join(folder, "f.gowk")
    reader = LongReader(machine, inside)
    done = KEYS
    for _ in range(3):
        writer = Writer(machine, path)
        for _ in range(2):
            writer.commit(range(done, done + Writer.EVERY))
            done += Writer.EVERY
            if len(reader.ask(range(1, done))) + 1 != done:
                raise Wrong("a reader that began before the writer misses committed keys")
            machine.all_present(inside, range(done))
        writer.close()
        if len(reader.ask(range(1, done))) + 1 != done:
            raise Wrong("after the writer closed it misses committed keys")
    machine.gowk("grow", path).expect(0)
    if len(reader.ask(range(1, done))) + 1 != done:
        raise Wrong("after a doubling it misses committed keys")


CASES = [
    ("sealed on squashfs: nothing is locked, written or synced", on_squashfs),
    ("sealed in a folder without any right to write", without_any_right_to_write),
    ("sealed and immutable (chattr +i)", immutable),
    ("sealed, the file mounted alone and read-only", mounted_alone),
    ("sealed opening of a file not at a checkpoint is refused, with the way out", not_at_a_checkpoint),
    ("sealed or not, a folder mounted read-only beside a writer outside", read_only_mount_beside_a_writer),
]
