"""Stores on file systems whose locks fail, and on read-only ones.

Expected: no verb makes a call that locks anything, and all work where every such call would fail. A store on a read-only
file system is read. NFS is shown over loopback if the machine can export a folder."""

import os
import shutil

from machine import NotHere, Wrong, keys, need, system

COUNT = 3000


def plainly(machine, *words, **how):
    return machine.gowk(*words, **how).expect(0)


def refusing_locks(machine, *words, input=""):
    """Runs the tool while every lock fails. Checks that it asks for none."""
    log = os.path.join(machine.folder("traces"), f"locks-{len(os.listdir(machine.folder('traces')))}")
    fail = ("strace", "-f", "-o", log, "-e", "trace=flock,fcntl", "-e", "inject=flock:error=ENOLCK")
    result = machine.gowk(*words, input=input, wrapper=fail).expect(0)
    with open(log) as lines:
        for line in lines:
            if "flock(" in line or "SETLK" in line:
                raise Wrong(f"{words[0]}: {line.strip()}")
    return result


def works(machine, run, store):
    """Creates, changes, reads and vacuums a store."""
    run(machine, "store", "create", store, "--shards", "4", "--capacity", "1000", "--false-positive-rate", "1e-8")
    run(machine, "dedup", store, input=keys(range(COUNT)))
    again = run(machine, "dedup", store, "--token", "a:1", input=keys(range(COUNT // 2, 2 * COUNT)))
    if again.out != keys(range(COUNT, 2 * COUNT)):
        raise Wrong(f"{again.out.count(chr(10))} keys were new")
    run(machine, "insert", store, "--threads", "2", input=keys(range(2 * COUNT, 3 * COUNT)))
    if run(machine, "check", store, "-c", input=keys(range(4 * COUNT))).out.strip() != str(3 * COUNT):
        raise Wrong("keys are lost, or too many are found")
    run(machine, "verify", store).says("no damage")
    # Of five versions, two stay: the newest, and the one before the token's commit, for a retry.
    run(machine, "store", "vacuum", store, "--grace", "0").says("3 versions")
    run(machine, "verify", store).says("no damage")


def without_locks(machine):
    need("strace")
    works(machine, refusing_locks, os.path.join(machine.folder("store-without-locks"), "s"))
    return "no lock is even asked for"


def read_only(machine):
    folder = machine.folder("writable")
    works(machine, plainly, os.path.join(folder, "s"))
    store = os.path.join(machine.mount("--bind", "-o", "ro", folder, at=machine.folder("read-only")), "s")
    found = machine.gowk("check", "-c", store, input=keys(range(4 * COUNT))).expect(0)
    if found.out.strip() != str(3 * COUNT):
        raise Wrong(str(found))
    machine.gowk("info", store).expect(0).says("version")
    machine.gowk("verify", store).expect(0)
    machine.gowk("insert", store, "x").expect(2).says("Read-only")


def on_a_full_disk(machine):
    """Every step of an update may find no room. Nothing is lost then, and a vacuum makes room."""
    disk = machine.mount("-t", "tmpfs", "-o", "size=6m", "none", at=machine.folder("small"))
    store = os.path.join(disk, "s")
    plainly(machine, "store", "create", store, "--shards", "4", "--capacity", "1000", "--false-positive-rate", "1e-8")
    done, refused = 0, 0
    ballast = os.path.join(disk, "ballast")
    for round in range(40):
        # Each run leaves a different amount of room, down to a few pages.
        with open(ballast, "wb") as file:
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
            file.write(bytes(max(0, free - 65536 * round)))
        result = machine.gowk("insert", store, input=keys(range(done, done + 50))).expect(0, 2)
        if result.status == 0:
            done += 50
        else:
            refused += 1
            result.says("no space", "free; free some")
        found = machine.gowk("check", "-c", store, input=keys(range(done + 50))).expect(0, 1)
        if found.out.strip() != str(done):
            raise Wrong(f"{done} keys were committed: {found}")
        os.remove(ballast)
        if round % 5 == 4:
            plainly(machine, "store", "vacuum", store, "--grace", "0")
    plainly(machine, "verify", store)
    if refused == 0 or done == 0:
        raise Wrong(f"{refused} commits found no room, {done} keys are in")
    return f"{refused} of 40 commits found no room"


def over_nfs(machine):
    if not shutil.which("exportfs") or not os.path.isdir("/proc/fs/nfsd"):
        raise NotHere("this machine exports no folder over NFS")
    exported, mounted = machine.folder("exported"), machine.folder("mounted")
    system("exportfs", "-o", "rw,no_root_squash,fsid=77", f"127.0.0.1:{exported}")
    try:
        system("mount", "-t", "nfs", f"127.0.0.1:{exported}", mounted)
        try:
            works(machine, plainly, os.path.join(mounted, "s"))
        finally:
            system("umount", "-l", mounted)
    finally:
        system("exportfs", "-u", f"127.0.0.1:{exported}")


def where_links_are_refused(machine):
    """link fails with EPERM, as on FAT."""
    need("strace")
    store = os.path.join(machine.folder("store-without-links"), "s")
    refuse = ("strace", "-f", "-o", "/dev/null", "-e", "trace=link,linkat", "-e", "inject=link,linkat:error=EPERM")
    result = machine.gowk("store", "create", store, "--shards", "2", "--capacity", "1000", wrapper=refuse).expect(2)
    result.says("link(2)", "hard links")
    if "permissions" in result.err:
        raise Wrong(f"a wrong remedy: {result.err}")
    machine.gowk("info", store).expect(2)
    return "the need is named"


def where_close_fails(machine):
    """A network file system may report at a close that it lost the connection. The bytes read before are right."""
    need("strace")
    store = os.path.join(machine.folder("store-with-failing-closes"), "s")
    works(machine, plainly, store)
    # Only closes of listed folders fail: the loader of programs needs to close its own files.
    folders = (part for name in ("versions", "shards/0000", "incoming") for part in ("-P", os.path.join(store, name)))
    fail = ("strace", "-f", "-o", "/dev/null", *folders, "-e", "trace=close", "-e", "inject=close:error=EIO")
    machine.gowk("info", store, wrapper=fail).expect(0).says("version")
    machine.gowk("insert", store, "x", wrapper=fail).expect(0)
    machine.gowk("store", "vacuum", store, "--grace", "0", wrapper=fail).expect(0)
    machine.gowk("check", store, "x").expect(0)
    return "no close is relied on"


CASES = [
    ("store where every lock fails", without_locks),
    ("store where links are refused", where_links_are_refused),
    ("store where closing a folder fails", where_close_fails),
    ("store in a folder mounted read-only", read_only),
    ("store on a full disk", on_a_full_disk),
    ("store over NFS", over_nfs),
]
