"""File systems without RENAME_NOREPLACE, where a new filter gets its name by a link and an unlink.

Expected: a process killed between the two calls leaves a file with two names. The next process that opens it removes the
temporary name, and goes on."""

import os
import stat
import subprocess
import time

from machine import MIB, NotHere, Wrong, keys, need

KEYS = 1000


def with_two_names(machine, folder, inject):
    """A filter whose creator was killed before it removed the temporary name."""
    need("strace")
    path = os.path.join(folder, "f.gowk")
    trace = os.path.join(machine.dir, "trace")
    wrapper = ["strace", "-f", "-qq", "-o", trace, "-e", "trace=renameat2,link,linkat,unlink,unlinkat", *inject,
               "-e", "inject=unlink,unlinkat:signal=KILL:when=1"]
    machine.gowk("dedup", path, input=keys(range(KEYS)), wrapper=wrapper)
    calls = [line for line in open(trace).read().splitlines() if "-new-" in line]
    if not any("renameat2" in call and "EINVAL" in call for call in calls):
        raise NotHere(f"RENAME_NOREPLACE works here: {calls[:1]}")
    if not os.path.exists(path) or os.stat(path).st_nlink != 2:
        raise NotHere("the creator was not killed between link and unlink")
    return path


def goes_on(machine, path):
    folder = os.path.dirname(path)
    machine.all_present(path, range(KEYS))
    machine.gowk("insert", path, "another").expect(0)
    left = sorted(name for name in os.listdir(folder) if name.startswith("f.gowk"))
    if left != ["f.gowk", "f.gowk-journal", "f.gowk-lock"]:
        raise Wrong(f"left behind: {left}")
    if os.stat(path).st_nlink != 1:
        raise Wrong(f"{os.stat(path).st_nlink} links are left")
    machine.gowk("verify", path).expect(0)


def by_injection(machine):
    """renameat2 fails as on a system without the flag."""
    path = with_two_names(machine, machine.folder("d"), ["-e", "inject=renameat2:error=EINVAL"])
    goes_on(machine, path)


def first_a_reader(machine):
    """A reader that may write nothing gets answers too."""
    path = with_two_names(machine, machine.folder("d"), ["-e", "inject=renameat2:error=EINVAL"])
    machine.all_present(path, range(KEYS), user=65534)


def a_link_of_somebody_else(machine):
    """gowk removes no second name that it has not made."""
    path = with_two_names(machine, machine.folder("d"), ["-e", "inject=renameat2:error=EINVAL"])
    os.link(path, os.path.join(machine.dir, "d", "mine"))
    machine.gowk("insert", path, "another").expect(2).says("link")
    if not os.path.exists(os.path.join(machine.dir, "d", "mine")):
        raise Wrong("it removed a name that is not its own")


def fuse(machine):
    """fuse2fs knows no flags of rename."""
    need("fuse2fs", "mkfs.ext4")
    if not os.path.exists("/dev/fuse"):
        raise NotHere("there is no /dev/fuse")
    image = machine.image("ext4", 64 * MIB)
    disk = machine.folder("disk")
    daemon = subprocess.Popen(["fuse2fs", "-f", "-o", "fakeroot", image, disk], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    for _ in range(600):
        if os.path.ismount(disk):
            break
        if daemon.poll() is not None:
            raise NotHere("fuse2fs does not mount here")
        time.sleep(0.1)
    else:
        raise NotHere("fuse2fs does not mount in time")
    machine.mounted.append(disk)
    path = machine.filter(disk, KEYS, capacity=KEYS, name="plain.gowk")
    machine.gowk("grow", path).expect(0)
    machine.all_present(path, range(KEYS))
    if stat.S_ISREG(os.stat(path).st_mode) and os.stat(path).st_nlink != 1:
        raise Wrong("a created filter has two names")
    goes_on(machine, with_two_names(machine, disk, []))


CASES = [
    ("link and unlink (renameat2 made to fail by strace): the next opener removes the other name", by_injection),
    ("link and unlink (the same): a reader who may not write is served", first_a_reader),
    ("link and unlink (the same): a name of somebody else stays", a_link_of_somebody_else),
    ("link and unlink on fuse2fs, which has no RENAME_NOREPLACE", fuse),
]
