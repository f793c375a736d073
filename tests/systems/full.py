"""Full disks, and disks that became read-only.

Expected: an error that says so, or success; never a signal. Once there is room again, every reported commit is there.
Meanwhile readers get answers; where the file cannot be recovered, from a replay in their own memory."""

import os
import shutil

from machine import MIB, NotHere, Writer, fill, make_room, need, system

KEYS = 20_000


def btrfs_full(number):
    """Each run leaves a different amount of room, so that the disk is full at another step of a commit."""

    def case(machine):
        disk = machine.disk("btrfs", 160 * MIB)
        # The filter is large, so that a commit changes many pages. The file system copies each before it is written.
        path = machine.filter(disk, KEYS, capacity=3_000_000)
        fill(disk, room=[0, 64, 128, 256, 512, 1024, 2048, 4096, 8192][number] << 10)
        writer, said, first = Writer(machine, path), None, KEYS
        for _ in range(80):
            said = writer.try_commit(range(first, first + 2 * Writer.EVERY))
            if said is not None:
                break
            first += 2 * Writer.EVERY
        ended = writer.last_words()
        if said is not None or ended.status != 0:
            ended.expect(2).says("space", "room", "poisoned", "unknown")
        committed = KEYS + writer.committed
        # Readers get answers before the disk has room again.
        machine.all_present(path, range(committed))
        make_room(disk)
        machine.all_present(path, range(committed))
        machine.gowk("verify", path).expect(0)
        machine.gowk("insert", path, "another").expect(0)
        machine.gowk("verify", path).expect(0)
        return f"{writer.committed} keys until {said or 'the end'}"

    return case


def holes(kind, way, room):
    """A filter restored with holes, on a disk that is then full: stores into a hole need room. With a little
    room, the journal grows first."""

    def case(machine):
        disk = machine.disk(kind, 320 * MIB if kind == "xfs" else 64 * MIB)
        source = machine.filter(machine.folder("d"), 1000, capacity=3_000_000, counting=True)
        path = os.path.join(disk, "f.gowk")
        for suffix in ("", "-journal", "-lock"):
            sparse = "always" if way == "cp --sparse" else "never"
            system("cp", f"--sparse={sparse}", source + suffix, path + suffix)
        os.sync()
        if way == "fallocate -d":
            system("fallocate", "-d", path)
        status = os.stat(path)
        if status.st_blocks * 512 >= status.st_size:
            raise NotHere("the copy has no holes")
        fill(disk, room)
        inserted = machine.gowk("insert", path, "--commit-every", 1000, input="".join(
            f"new-{number}\n" for number in range(20_000)))
        if inserted.status != 0:
            inserted.expect(2).says("space", "room")
        machine.all_present(path, range(1000))
        machine.gowk("remove", path, "key-0").expect(0, 2)
        make_room(disk)
        machine.gowk("insert", path, "another").expect(0)
        machine.all_present(path, range(1, 1000))
        machine.gowk("verify", path).expect(0)
        return f"{inserted}"

    return case


def killed_and_read_only(machine):
    """A writer is killed, then the disk is mounted read-only."""
    disk = machine.disk("ext4", 64 * MIB)
    path = machine.killed_filter(disk, KEYS, 2000)
    system("mount", "-o", "remount,ro", disk)
    machine.all_present(path, range(KEYS + 2000))
    machine.gowk("info", path).expect(0)
    machine.gowk("verify", path).expect(0)
    machine.gowk("insert", path, "another").expect(2).says("read-only")


def poisoned_and_read_only(machine):
    """The image of the disk cannot grow, so a sync fails; then the disk is mounted read-only."""
    need("mkfs.ext4")
    small = machine.mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", at=machine.folder("small"))
    image = machine.image("ext4", 256 * MIB, "-O", "^has_journal", "-E", "lazy_itable_init=0", name="small/image")
    disk = machine.mount("-t", "ext4", "-o", "loop,errors=remount-ro", image, at=machine.folder("disk"))
    path = machine.filter(disk, KEYS, capacity=3_000_000)
    os.sync()
    with open(os.path.join(small, "filler"), "wb") as file:
        try:
            while True:
                file.write(bytes(MIB))
                file.flush()
        except OSError:
            pass
    writer, said = Writer(machine, path), None
    for first in range(KEYS, KEYS + 200_000, Writer.EVERY):
        said = writer.try_commit(range(first, first + Writer.EVERY))
        if said is not None:
            break
    if said is None:
        raise NotHere("no sync failed")
    writer.last_words().expect(2)
    committed = KEYS + writer.committed
    if not any(" ro," in line or " ro " in line for line in mount_lines(disk)):
        system("mount", "-o", "remount,ro", disk)
    machine.all_present(path, range(committed))
    machine.gowk("info", path).expect(0)
    return f"{writer.committed} keys until {said}"


def mount_lines(place):
    with open("/proc/self/mounts") as mounts:
        return [line for line in mounts if line.split()[1] == place]


def reflinked_and_full(machine):
    """A writer is killed, its file reflinked, and the disk filled: recovery has no room to copy what it writes."""
    disk = machine.disk("xfs", 320 * MIB)
    path = machine.killed_filter(disk, KEYS, 10_000, capacity=1_000_000, counting=True)
    shutil.copyfile(path, os.path.join(machine.dir, "before"))
    system("cp", "--reflink=always", path, os.path.join(disk, "snapshot"))
    fill(disk)
    machine.all_present(path, range(KEYS + 10_000))
    machine.gowk("info", path).expect(0)
    machine.gowk("verify", path).expect(0)
    refused = machine.gowk("insert", path, "another")
    if refused.status != 0:
        refused.expect(2).says("space", "room")
    make_room(disk)
    machine.all_present(path, range(KEYS + 10_000))
    machine.gowk("insert", path, "another").expect(0)
    machine.gowk("verify", path).expect(0)


CASES = [
    *((f"full disk: btrfs, after a while, run {number + 1} of 9", btrfs_full(number)) for number in range(9)),
    *(
        (f"full disk: {kind}, a filter restored with holes ({way}), {room >> 10} KiB left", holes(kind, way, room))
        for kind in ("ext4", "xfs")
        for way in ("cp --sparse", "fallocate -d")
        for room in (0, MIB)
    ),
    ("read-only disk: ext4 after a writer was killed: readers are served", killed_and_read_only),
    ("read-only disk: ext4 after a sync failed: readers are served", poisoned_and_read_only),
    ("full disk: xfs, after a reflink and a kill: readers are served", reflinked_and_full),
]
