"""The rights of a filter after a writer who is not root doubled it, which makes a new file.

Expected: nobody has more rights than before. Mode, group and access control list stay the same if the writer may set them;
otherwise the new file grants less."""

import os
import stat
import subprocess

from machine import MIB, NotHere, Wrong, need, system

OWNER, GROUP, STRANGER, LISTED = 1001, 2001, 4000, 3000
KEYS = 1000


def owned(machine, owner, group, mode, folder_mode=0o777):
    """A filter of some owner, in a folder on ext4."""
    need("setfacl", "getfacl")
    disk = machine.disk("ext4", 64 * MIB)
    folder = os.path.join(disk, "d")
    os.mkdir(folder)
    os.chmod(folder, folder_mode)
    path = machine.filter(folder, KEYS, capacity=KEYS)
    for suffix in ("", "-journal", "-lock"):
        os.chown(path + suffix, owner, group)
        os.chmod(path + suffix, mode)
    return path


def rights_of(path):
    return system("getfacl", "-n", "-p", "-c", "-E", path).split()


def may(path, how, user, group, groups=()):
    """Whether a user can open a file to read ("r") or write ("a"), by trying."""
    program = ["python3", "-c", "import sys; open(sys.argv[1], sys.argv[2] + 'b')", path, how]
    done = subprocess.run(program, user=user, group=group, extra_groups=list(groups), capture_output=True, cwd="/")
    return done.returncode == 0


def grow(machine, path, user, groups=()):
    before = os.stat(path).st_ino
    machine.gowk("grow", path, user=user, groups=groups).expect(0)
    if os.stat(path).st_ino == before:
        raise NotHere("the doubling made no new file")
    machine.all_present(path, range(KEYS))


def group_is_kept(machine):
    path = owned(machine, OWNER, GROUP, 0o660)
    grow(machine, path, OWNER, [GROUP])
    now = os.stat(path)
    if (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) != (OWNER, GROUP, 0o660):
        raise Wrong(f"{OWNER}:{GROUP} 660 became {now.st_uid}:{now.st_gid} {stat.S_IMODE(now.st_mode):o}")


def group_is_kept_by_another_owner(machine):
    """A member of the group who does not own the file."""
    path = owned(machine, 1002, GROUP, 0o660)
    grow(machine, path, OWNER, [GROUP])
    now = os.stat(path)
    if (now.st_gid, stat.S_IMODE(now.st_mode)) != (GROUP, 0o660):
        raise Wrong(f"group {GROUP}, mode 660 became group {now.st_gid}, mode {stat.S_IMODE(now.st_mode):o}")
    if not may(path, "a", 1003, 1003, [GROUP]):
        raise Wrong("a member of the group can no longer write")


def group_that_cannot_be_kept(machine):
    """The owner is no member of the file's group, and cannot give the new file to it."""
    path = owned(machine, OWNER, GROUP, 0o660)
    grow(machine, path, OWNER)
    if may(path, "r", 5000, OWNER) or may(path, "a", 5000, OWNER):
        now = os.stat(path)
        raise Wrong(f"what group {GROUP} might, group {now.st_gid} may now (mode {stat.S_IMODE(now.st_mode):o})")


def list_is_kept(machine):
    path = owned(machine, OWNER, OWNER, 0o600)
    system("setfacl", "-m", f"u:{LISTED}:rw", path)
    before = rights_of(path)
    grow(machine, path, OWNER)
    if rights_of(path) != before:
        raise Wrong(f"{before} became {rights_of(path)}")


def mask_becomes_no_right_of_the_group(machine):
    """With a list, the middle bits of the mode are the mask: the group has no rights here."""
    path = owned(machine, OWNER, GROUP, 0o600)
    system("setfacl", "-m", f"u:{LISTED}:rw,g::---", path)
    if may(path, "r", 5000, GROUP):
        raise NotHere("lists have no effect on this file system")
    grow(machine, path, OWNER, [GROUP])
    for group in (GROUP, OWNER):
        if may(path, "r", 5000, group) or may(path, "a", 5000, group):
            raise Wrong(f"group {group} may read or write now: {rights_of(path)}")


def list_of_a_folder_widens_nothing(machine):
    path = owned(machine, OWNER, OWNER, 0o640)
    system("setfacl", "-d", "-m", f"u:{STRANGER}:rw", os.path.dirname(path))
    before = rights_of(path)
    grow(machine, path, OWNER)
    if may(path, "r", STRANGER, STRANGER) or may(path, "a", STRANGER, STRANGER):
        raise Wrong(f"user {STRANGER} may read or write now: {before} became {rights_of(path)}")
    if rights_of(path) != before:
        raise Wrong(f"{before} became {rights_of(path)}")


def new_journal_gives_no_more(machine):
    """Missing journals and lock files are created: they must not grant more than the filter."""
    path = owned(machine, OWNER, OWNER, 0o640)
    system("setfacl", "-d", "-m", f"u:{STRANGER}:rw", os.path.dirname(path))
    for suffix in ("-journal", "-lock"):
        os.remove(path + suffix)
    machine.gowk("insert", path, "another", user=OWNER).expect(0)
    for suffix in ("-journal", "-lock"):
        if may(path + suffix, "r", STRANGER, STRANGER) or may(path + suffix, "a", STRANGER, STRANGER):
            raise Wrong(f"user {STRANGER} may read or write FILE{suffix}: {rights_of(path + suffix)}")


CASES = [
    ("rights: doubling by the owner: the group is kept", group_is_kept),
    ("rights: doubling by a member of the group: the group is kept", group_is_kept_by_another_owner),
    ("rights: a group that cannot be kept: its rights go to no other group", group_that_cannot_be_kept),
    ("rights: the access control list is kept", list_is_kept),
    ("rights: the mask of a list becomes no right of the group", mask_becomes_no_right_of_the_group),
    ("rights: the default list of the folder widens nothing", list_of_a_folder_widens_nothing),
    ("rights: the default list of the folder widens nothing: journal and lock file", new_journal_gives_no_more),
]
