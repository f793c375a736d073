"""A block that the disk cannot read, under each part of a filter's file.

The kernel may have no device mapper. Instead, one block of the file is moved behind all others in an ext4 image, and the
image is cut there while it is mounted. The loop device keeps its size, and answers with EIO. A write restores the
block, like a disk that remaps a bad sector; extending the image makes it readable, as zeros.

Expected: `verify` names the unreadable part and exits 1, unless opening the file has rewritten that part of the live area;
`copy` fails or is whole; `repair` mends; none of them dies of a signal. `check` reads through the map, and may die of
SIGBUS there (`format-spec/README.md`, section 10), but reports no key absent."""

import os
import re
import signal
import subprocess

from machine import MIB, NotHere, Wrong, keys, need, system

BLOCK = 4096
SIZE = 124 * MIB
# A block behind all that mkfs and the filter use, in the first group of blocks.
FAR = SIZE // BLOCK - 20
# Places in blocks of the file, for up to 128 regions (`format-spec/README.md`, section 5).
KEYS, CAPACITY = 100_000, 200_000
DATA = 48
PARTS = {
    "superblock slot 0": (0, ("superblock",)),
    "superblock slot 1": (16, ("superblock",)),
    "the metadata of slot 0": (1, ("superblock",)),
    "the live area": (32, ("live",)),
    "the sequences of the live area": (45, ("live", "sequence")),
    "the checksum table": (46, ("page", "checksum")),
    "a data page": (DATA + 17, ("page 17 ",)),
    "the first data page": (DATA, ("page 0 ",)),
}


def prepared(machine, block):
    """The filter on a mounted disk with one unreadable block, and the disk's image."""
    need("debugfs", "mkfs.ext4")
    image = machine.image("ext4", SIZE, "-b", BLOCK, "-O", "^has_journal")
    disk = machine.mount("-t", "ext4", "-o", "loop", image, at=machine.folder("disk"))
    path = machine.filter(disk, KEYS, capacity=CAPACITY)
    regions, rest = divmod(os.stat(path).st_size - DATA * BLOCK, 16 * BLOCK)
    if rest != 0 or not 2 <= regions <= 128:
        raise Wrong(f"a filter of {os.stat(path).st_size} bytes is not laid out as this case thinks")
    machine.unmount(disk)
    ask = lambda request: system("debugfs", "-R", request, image)
    near = int(ask(f"bmap /f.gowk {block}").split()[0])
    if "not in use" not in ask(f"testb {FAR}"):
        raise NotHere("the far block is in use")
    with open(image, "r+b") as file:
        contents = os.pread(file.fileno(), BLOCK, near * BLOCK)
        os.pwrite(file.fileno(), contents, FAR * BLOCK)
    system("debugfs", "-w", "-R", f"setb {FAR}", image)
    system("debugfs", "-w", "-R", f"sif /f.gowk bmap[{block}] {FAR}", image)
    if int(ask(f"bmap /f.gowk {block}").split()[0]) != FAR:
        raise NotHere("debugfs did not move the block")
    # The block's old place is free now, which the counts of free blocks must say.
    if subprocess.run(["e2fsck", "-fy", image], capture_output=True).returncode > 1:
        raise NotHere("e2fsck cannot settle the image")
    machine.mount("-t", "ext4", "-o", "loop", image, at=disk)
    os.truncate(image, FAR * BLOCK)
    lost = [number for number in range(os.stat(path).st_size // BLOCK) if not can_be_read(path, number)]
    # Neighbours may be unreadable too, as the page cache may keep several pages as one.
    if block not in lost or any(abs(number - block) >= 16 for number in lost):
        raise NotHere(f"block {block} was to be unreadable, but {lost} are")
    return path, image


def can_be_read(path, block):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        try:
            return len(os.pread(file.fileno(), BLOCK, block * BLOCK)) == BLOCK
        except OSError:
            return False


def verify_names_it(block, words):
    def case(machine):
        path, _ = prepared(machine, block)
        verified = machine.gowk("verify", path)
        if verified.status == 0 and "live" in words and can_be_read(path, block):
            return "written anew when it was opened"
        verified.expect(1).says(*words)

    return case


def lookups_find_or_fail(block, words):
    def case(machine):
        path, _ = prepared(machine, block)
        absent = machine.gowk("check", "-v", path, input=keys(range(KEYS)), may_die=[signal.SIGBUS])
        if absent.status == -signal.SIGBUS:
            return "check dies of SIGBUS, as specified"
        if absent.status == 0:
            raise Wrong(f"{len(absent.out.split())} of {KEYS} committed keys are reported absent")
        absent.expect(1, 2)
        forgiving = machine.gowk("check", "-v", "--on-damage", "present", path, input=keys(range(KEYS)))
        if forgiving.status == 0:
            raise Wrong(f"{len(forgiving.out.split())} of {KEYS} committed keys are reported absent")
        machine.gowk("info", path).expect(0, 2)

    return case


def copy_fails_or_is_whole(block, words):
    def case(machine):
        path, _ = prepared(machine, block)
        copy = os.path.join(machine.dir, "copy.gowk")
        copied = machine.gowk("copy", path, copy).expect(0, 2)
        if copied.status == 0:
            if block >= 46:
                raise Wrong("a copy without what cannot be read was reported as done")
            machine.all_present(copy, range(KEYS))
            machine.gowk("verify", copy).expect(0)
        elif os.path.exists(copy):
            raise Wrong("a failed copy left a file")

    return case


def repair_mends(block, words):
    def case(machine):
        path, image = prepared(machine, block)
        first = machine.gowk("repair", path).expect(0, 1, 2)
        note = f"unread: {first.out.splitlines()[0] if first.status == 0 else first.err.strip()}"
        if machine.gowk("verify", path).status != 0:
            # A good disk replaces the bad one.
            os.truncate(image, SIZE)
            machine.unmount(os.path.dirname(path))
            machine.mount("-t", "ext4", "-o", "loop", image, at=os.path.dirname(path))
            machine.gowk("repair", path).expect(0)
        machine.gowk("verify", path).expect(0)
        machine.all_present(path, range(KEYS))
        machine.gowk("insert", path, "another").expect(0)
        machine.gowk("verify", path).expect(0)
        return re.sub(r"/\S*/", "", note)

    return case


CASES = [
    (f"unreadable block: {part}: {what}", make(block, words))
    for part, (block, words) in PARTS.items()
    for what, make in (
        ("verify names it", verify_names_it),
        ("no key is absent", lookups_find_or_fail),
        ("copy", copy_fails_or_is_whole),
        ("repair", repair_mends),
    )
]
