"""What other users plant in a folder that they may write to: links, pipes and files under the names that gowk derives from
a filter's or a store's; seen by root and by another user, in both directions.

Expected: gowk opens no link and waits for no pipe, changes and gives away no file that it has not made, and names what is in
the way. What a group shares goes on working."""

import os
import stat
import tempfile

from machine import Wrong, keys

NOBODY, OTHER, TEAM = 65534, 1001, 2001
KEYS = 500


def of_nobody(machine):
    """A new folder that belongs to nobody, with a filter of nobody in it; and a secret of root in the folder above."""
    folder = tempfile.mkdtemp(dir=machine.dir)
    os.chmod(folder, 0o755)
    os.chown(folder, NOBODY, NOBODY)
    path = machine.filter(folder, KEYS, capacity=KEYS, user=NOBODY)
    secret = os.path.join(machine.dir, "secret")
    with open(secret, "w") as file:
        file.write("secret\n")
    os.chmod(secret, 0o600)
    return path, secret


def check_secret(secret, content="secret\n"):
    found = os.stat(secret)
    if (found.st_uid, stat.S_IMODE(found.st_mode)) != (0, 0o600) or open(secret).read() != content:
        raise Wrong(f"the file of root became {found.st_uid} {stat.S_IMODE(found.st_mode):o}, {found.st_size} bytes")


def plant(kind, name, secret):
    if os.path.lexists(name):
        os.remove(name)
    if kind == "link":
        os.symlink(secret, name)
    elif kind == "hard link":
        os.link(secret, name)
    elif kind == "link that leads nowhere":
        os.symlink(f"{secret}-new", name)
    elif kind == "pipe":
        os.mkfifo(name)
    if kind != "hard link":
        os.lchown(name, NOBODY, NOBODY)


KINDS = ("link", "hard link", "link that leads nowhere", "pipe")


def planted_lock(machine):
    for kind in KINDS:
        path, secret = of_nobody(machine)
        plant(kind, f"{path}-lock", secret)
        copy = os.path.join(machine.dir, "copy.gowk")
        machine.gowk("copy", path, copy).expect(0, 2)
        for verb in ("insert", "dedup", "remove", "grow", "set", "repair"):
            words = {"set": ["--growth", "never"], "remove": ["key-1"]}.get(verb, [])
            done = machine.gowk(verb, path, *words, input="another\n")
            done.expect(2).says("-lock")
            check_secret(secret)
        machine.gowk("create", path, "--force", "--capacity", 10).expect(2)
        machine.gowk("merge", path, copy).expect(2)
        check_secret(secret)
        if os.path.exists(f"{secret}-new"):
            raise Wrong("a file was made where the link leads")
        os.remove(f"{path}-lock")
        for name in ("copy.gowk", "copy.gowk-lock", "copy.gowk-journal"):
            if os.path.exists(os.path.join(machine.dir, name)):
                os.remove(os.path.join(machine.dir, name))


def planted_beside_a_new_filter(machine):
    for kind in KINDS:
        for suffix in ("-lock", "-journal"):
            path, secret = of_nobody(machine)
            if kind in ("link", "hard link") and suffix == "-journal":
                open(secret, "w").close()
            new = os.path.join(os.path.dirname(path), "new.gowk")
            plant(kind, new + suffix, secret)
            for verb in (["create", new, "--capacity", 10], ["dedup", new], ["copy", path, new], ["merge", new, path]):
                machine.gowk(*verb, input="another\n").expect(2).says(suffix)
            check_secret(secret, open(secret).read())
            if os.stat(secret).st_size > len("secret\n") or os.path.exists(f"{secret}-new"):
                raise Wrong(f"something was written where the {kind} leads")
            os.remove(new + suffix)


def planted_journal(machine):
    for kind in KINDS:
        path, secret = of_nobody(machine)
        open(secret, "w").close()
        plant(kind, f"{path}-journal", secret)
        machine.gowk("insert", path, "another").expect(2).says("-journal")
        if kind != "hard link":
            machine.gowk("check", path, "key-1").expect(2).says("-journal")
        check_secret(secret, "")


def planted_state(machine):
    """`gowkbusy` makes a reader recover the file."""
    for kind in KINDS:
        path, secret = of_nobody(machine)
        plant(kind, f"{path}-lock", secret)
        with open(path, "r+b") as file:
            file.seek(131072)
            file.write(b"gowkbusy")
        for verb in (["info", path], ["check", path, "key-1"], ["verify", path]):
            machine.gowk(*verb).expect(2).says("-lock")
        check_secret(secret)
        os.remove(f"{path}-lock")


def sticky(machine):
    """A folder like /tmp: others may make files, and not remove those of others."""
    folder = machine.folder("tmp")
    os.chmod(folder, 0o1777)
    return folder


def planted_in_tmp(machine):
    """Both directions: root's filter and nobody's file, and nobody's filter and another's file."""
    for owner, planter in ((None, NOBODY), (NOBODY, OTHER)):
        folder = sticky(machine)
        for suffix in ("-lock", "-journal"):
            path = machine.filter(folder, KEYS, capacity=KEYS, name=f"{owner}{suffix}.gowk", user=owner)
            side = path + suffix
            os.remove(side)
            with open(side, "wb") as file:
                file.write(b"\0" * 1024 if suffix == "-journal" else b"")
            os.chown(side, planter, planter)
            os.chmod(side, 0o666)
            for verb in (["insert", path, "another"], ["check", path, "key-1"], ["info", path]):
                machine.gowk(*verb, user=owner).expect(2).says(suffix).says("belongs to user")
            found = os.stat(side)
            if (found.st_uid, stat.S_IMODE(found.st_mode)) != (planter, 0o666):
                raise Wrong(f"{side} was changed")
            os.remove(side)
            machine.gowk("insert", path, "another", user=owner).expect(0)
            machine.all_present(path, range(KEYS), user=owner)
    # Root goes on with what the owner has made.
    path = machine.filter(folder, KEYS, capacity=KEYS, name="both.gowk", user=NOBODY)
    machine.gowk("insert", path, "another").expect(0)
    os.remove(f"{path}-journal")
    machine.gowk("insert", path, "more").expect(0)
    machine.gowk("insert", path, "and more", user=NOBODY).expect(0)
    # Who is neither cannot make what the owner would refuse.
    os.chmod(path, 0o666)
    os.chmod(f"{path}-lock", 0o666)
    os.remove(f"{path}-journal")
    machine.gowk("insert", path, "a stranger", user=OTHER).expect(2).says("-journal")
    machine.gowk("insert", path, "at last", user=NOBODY).expect(0)


def shared_by_a_group(machine):
    """Two members, in a folder of the group and in one that everybody may write to; also through doublings."""
    for number, mode in enumerate((0o2775, 0o777, 0o770)):
        folder = machine.folder(f"group-{number}")
        os.chown(folder, NOBODY, TEAM)
        os.chmod(folder, mode)
        path = machine.filter(folder, KEYS, capacity=KEYS, user=NOBODY, groups=[TEAM])
        for suffix in ("", "-lock", "-journal"):
            os.chown(path + suffix, NOBODY, TEAM)
            os.chmod(path + suffix, 0o660)
        for suffix in ("-lock", "-journal"):
            os.remove(path + suffix)
        for turn in range(2):
            for user in (OTHER, NOBODY):
                machine.gowk("insert", path, f"{user} {turn}", user=user, groups=[TEAM]).expect(0)
                machine.gowk("grow", path, user=user, groups=[TEAM]).expect(0)
        machine.all_present(path, range(KEYS), user=NOBODY, groups=[TEAM])


def store(machine, folder, name, **how):
    path = os.path.join(folder, name)
    machine.gowk("store", "create", path, "--capacity", 10_000, "--shards", 4, **how).expect(0)
    machine.gowk("insert", path, input=keys(range(KEYS)), **how).expect(0)
    return path


def files_below(path):
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            found[file] = os.stat(file).st_size
    return found


def store_with_a_folder_of_another(machine):
    folder = machine.folder("d")
    other = store(machine, folder, "other")
    # What the vacuum would remove, as nothing of this store names it.
    machine.gowk("store", "compact", other, input="").expect(0, 1)
    for own in ("shards/0000", "shards", "incoming", "runs", "versions"):
        path = store(machine, folder, own.replace("/", "-"))
        place = os.path.join(path, own)
        os.rename(place, f"{path}-away")
        os.symlink(os.path.join(other, own), place)
        before = files_below(other)
        machine.gowk("store", "vacuum", path, "--grace", "0s").expect(2).says("symbolic link")
        machine.gowk("store", "compact", path).expect(0, 2)
        machine.gowk("insert", path, input=keys(range(KEYS, 5000))).expect(0, 2)
        if files_below(other) != before:
            raise Wrong(f"{own} was a link, and the other store was changed")
    machine.all_present(other, range(KEYS))


def store_with_pipes(machine):
    path = store(machine, machine.folder("d"), "s")
    newest = sorted(os.listdir(os.path.join(path, "versions")))[-1]
    number = int(newest.split(".")[0]) + 1
    os.mkfifo(os.path.join(path, "versions", f"{number:012}.toml"))
    for verb in (["check", path, "key-1"], ["info", path], ["insert", path, "x"], ["store", "vacuum", path]):
        machine.gowk(*verb).expect(2).says(f"{number:012}.toml", "not a regular file")
    os.remove(os.path.join(path, "versions", f"{number:012}.toml"))
    machine.all_present(path, range(KEYS))
    os.rename(os.path.join(path, "store.toml"), os.path.join(path, "away"))
    os.mkfifo(os.path.join(path, "store.toml"))
    machine.gowk("check", path, "key-1").expect(2)


def umask_of_root(machine):
    """Root inserts into nobody's store, with a umask that leaves nothing to others."""
    folder = machine.folder("d")
    os.chown(folder, NOBODY, NOBODY)
    path = store(machine, folder, "s", user=NOBODY)
    mask = os.umask(0o077)
    try:
        machine.gowk("insert", path, input=keys(range(KEYS, 20_000))).expect(0)
        machine.gowk("store", "compact", path).expect(0)
        machine.gowk("insert", path, "one more").expect(0)
        filter = machine.filter(folder, KEYS, capacity=KEYS, user=NOBODY)
        for suffix in ("-lock", "-journal"):
            os.remove(filter + suffix)
        machine.gowk("insert", filter, "another").expect(0)
    finally:
        os.umask(mask)
    machine.all_present(path, range(20_000), user=NOBODY)
    machine.gowk("insert", path, "nobody's", user=NOBODY).expect(0)
    machine.gowk("insert", filter, "nobody's", user=NOBODY).expect(0)
    for file in files_below(path):
        if os.stat(file).st_uid != NOBODY:
            raise Wrong(f"{file} belongs to {os.stat(file).st_uid}")


CASES = [
    ("planted: a lock file that is a link or a pipe", planted_lock),
    ("planted: a lock file or a journal beside a filter that is not there yet", planted_beside_a_new_filter),
    ("planted: a journal that is a link or a pipe", planted_journal),
    ("planted: a state that makes readers recover, and a link", planted_state),
    ("planted: side files of another user in a folder like /tmp", planted_in_tmp),
    ("planted: what a group shares goes on working", shared_by_a_group),
    ("planted: a store whose folders are links into another", store_with_a_folder_of_another),
    ("planted: pipes in a store", store_with_pipes),
    ("planted: root with umask 077 writes to filter and store of nobody", umask_of_root),
]
