"""Filters behind mounts: single files that are mounted, overlays, read-only file systems; and a lock file that somebody
removes.

Expected: if two names of one file would have different locks, the tool refuses and names the remedy. A read-only file is
read."""

import os

from machine import LongReader, NotHere, Writer, Wrong, keys, need, system

KEYS = 2000
MOUNTED = ("mount point", "mounted")


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def mounted_alone(machine):
    """A filter in one folder, and the same file mounted over another, as `docker run -v FILE:FILE` does."""
    path = machine.filter(machine.folder("outside"), KEYS, capacity=KEYS)
    inside = os.path.join(machine.folder("inside"), "f.gowk")
    open(inside, "w").close()
    machine.mount("--bind", path, at=inside)
    return path, inside


def reader_of_a_file_mounted_alone(machine):
    path, inside = mounted_alone(machine)
    writer = Writer(machine, path)
    writer.commit(range(KEYS, KEYS + 1000))
    before = bytes_of(path)
    found = machine.gowk("check", "-c", inside, input=keys(range(KEYS + 1000)))
    if bytes_of(path) != before:
        raise Wrong(f"the reader changed the file under its writer, which lives; {found}")
    found.expect(2).says(*MOUNTED).says("folder")
    writer.commit(range(KEYS + 1000, KEYS + 1500))
    machine.all_present(path, range(KEYS + 1500))


def second_writer_of_a_file_mounted_alone(machine):
    path, inside = mounted_alone(machine)
    writer = Writer(machine, path)
    writer.commit(range(KEYS, KEYS + 500))
    machine.gowk("insert", inside, "another").expect(2).says(*MOUNTED).says("folder")
    machine.all_present(path, range(KEYS + 500))


def file_mounted_alone_after_a_doubling(machine):
    path, inside = mounted_alone(machine)
    machine.gowk("insert", path, input=keys(range(50_000))).expect(0)
    absent = machine.gowk("check", "-v", "-c", inside, input=keys(range(50_000)))
    if absent.status == 0:
        raise Wrong(f"{absent.out.strip()} of 50000 committed keys are reported absent by the other name")
    absent.expect(2).says(*MOUNTED).says("folder")


def folder_that_is_mounted(machine):
    """The remedy in the message must work."""
    path = machine.filter(machine.folder("outside"), KEYS)
    inside = machine.mount("--bind", machine.folder("outside"), at=machine.folder("inside"))
    read_only = machine.mount("--bind", "-o", "ro", machine.folder("outside"), at=machine.folder("read"))
    writer = Writer(machine, path)
    writer.commit(range(KEYS, KEYS + 500))
    for folder in (inside, read_only):
        machine.all_present(os.path.join(folder, "f.gowk"), range(KEYS + 500))
    machine.gowk("insert", os.path.join(inside, "f.gowk"), "another").expect(2).says("locked")


def removed_lock_file_and_a_reader(machine):
    path = machine.filter(machine.folder("d"), KEYS)
    writer = Writer(machine, path)
    writer.commit(range(KEYS, KEYS + 1000))
    os.remove(f"{path}-lock")
    before = bytes_of(path), bytes_of(f"{path}-journal")
    machine.all_present(path, range(KEYS + 1000))
    after = bytes_of(path), bytes_of(f"{path}-journal")
    if before != after:
        raise Wrong("a reader recovered the file of a writer that lives")
    writer.commit(range(KEYS + 1000, KEYS + 1500))
    machine.all_present(path, range(KEYS + 1500))
    writer.close()
    machine.all_present(path, range(KEYS + 1500))
    machine.gowk("verify", path).expect(0)


def removed_lock_file_and_a_second_writer(machine):
    path = machine.filter(machine.folder("d"), KEYS)
    writer = Writer(machine, path)
    writer.commit(range(KEYS, KEYS + 500))
    os.remove(f"{path}-lock")
    machine.gowk("insert", path, "another").expect(2).says("locked")
    writer.commit(range(KEYS + 500, KEYS + 1000))
    writer.close()
    machine.all_present(path, range(KEYS + 1000))
    machine.gowk("verify", path).expect(0)


def overlay(machine):
    """A closed filter in the lower layer; returns its name in the overlay."""
    machine.filter(machine.folder("lower"), KEYS)
    lower, upper, work = (machine.folder(name) for name in ("lower", "upper", "work"))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    merged = machine.mount("-t", "overlay", "overlay", "-o", options, at=machine.folder("merged"))
    return os.path.join(merged, "f.gowk")


def reader_of_a_lower_layer(machine):
    path = overlay(machine)
    reader = LongReader(machine, path)
    inserted = machine.gowk("insert", path, input=keys(range(KEYS, 2 * KEYS)))
    if inserted.status == 2:
        return f"the writer is refused: {inserted.err.strip()}"
    inserted.expect(0)
    found = len(reader.ask(range(1, 2 * KEYS))) + 1
    if found != 2 * KEYS:
        raise Wrong(f"a reader opened before the copy-up finds {found} of {2 * KEYS} committed keys")
    machine.gowk("insert", path, input=keys(range(2 * KEYS, 3 * KEYS))).expect(0)
    found = len(reader.ask(range(1, 3 * KEYS))) + 1
    if found != 3 * KEYS:
        raise Wrong(f"after a second writer it finds {found} of {3 * KEYS} committed keys")
    reader.last_words().expect(0)


def reader_of_a_lower_layer_beside_a_writer(machine):
    path = overlay(machine)
    reader = LongReader(machine, path)
    writer = Writer(machine, path)
    for first in range(KEYS, 2 * KEYS, Writer.EVERY):
        writer.commit(range(first, first + Writer.EVERY))
        found = len(reader.ask(range(1, first + Writer.EVERY))) + 1
        if found != first + Writer.EVERY:
            raise Wrong(f"beside a live writer it finds {found} of {first + Writer.EVERY} committed keys")
    machine.gowk("insert", path, "another").expect(2).says("locked")
    machine.gowk("grow", path).expect(2).says("locked")
    writer.close()
    machine.gowk("grow", path).expect(0)
    if len(reader.ask(range(1, 2 * KEYS))) + 1 != 2 * KEYS:
        raise Wrong("after a doubling it misses committed keys")


def read_only(pack, kind):
    """A closed filter, and one that a killed writer left, on a file system that nobody can write."""

    def case(machine):
        need(pack)
        if kind not in open("/proc/filesystems").read().split():
            raise NotHere(f"this kernel has no {kind}")
        machine.filter(machine.folder("d/closed"), KEYS)
        machine.killed_filter(machine.folder("d/killed"), KEYS, 1000)
        image = os.path.join(machine.dir, "image")
        words = [machine.folder("d"), image, "-quiet"] if pack == "mksquashfs" else ["--quiet", image, machine.folder("d")]
        system(pack, *words)
        disk = machine.mount("-t", kind, "-o", "loop,ro", image, at=machine.folder("disk"))
        for name, inserted in (("closed", KEYS), ("killed", KEYS + 1000)):
            path = os.path.join(disk, name, "f.gowk")
            machine.all_present(path, range(inserted))
            machine.gowk("info", path).expect(0)
            machine.gowk("verify", path).expect(0)
            machine.gowk("insert", path, "another").expect(2).says("read-only")
            copy = os.path.join(machine.dir, f"{name}.gowk")
            machine.gowk("copy", path, copy).expect(0)
            machine.all_present(copy, range(inserted))

    return case


CASES = [
    ("mounted file alone: a reader is refused", reader_of_a_file_mounted_alone),
    ("mounted file alone: a second writer is refused", second_writer_of_a_file_mounted_alone),
    ("mounted file alone: no key is absent after a doubling", file_mounted_alone_after_a_doubling),
    ("mounted folder: reader and locks work", folder_that_is_mounted),
    ("removed lock file: a reader leaves the file to its writer", removed_lock_file_and_a_reader),
    ("removed lock file: a second writer is locked out", removed_lock_file_and_a_second_writer),
    ("overlay: a reader opened before the copy-up sees later commits", reader_of_a_lower_layer),
    ("overlay: the same beside a live writer, and through a doubling", reader_of_a_lower_layer_beside_a_writer),
    ("read-only image of squashfs: check, info, verify, copy", read_only("mksquashfs", "squashfs")),
    ("read-only image of erofs: check, info, verify, copy", read_only("mkfs.erofs", "erofs")),
]
