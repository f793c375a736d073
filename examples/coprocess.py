"""A script that runs the tool as a coprocess, and gets an answer to each key at once.

    python3 examples/coprocess.py GOWK FILTER KEY...

Keys end with NUL, in both directions, as a key may hold a newline: an answer to each line would go out of step there.
"""

import subprocess
import sys


class Seen:
    def __init__(self, gowk, filter):
        command = [gowk, "check", filter, "--mask", "--null"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __contains__(self, key):
        if "\0" in key:
            raise ValueError("a key that holds NUL cannot be asked for like this")
        self.process.stdin.write(key.encode() + b"\0")
        self.process.stdin.flush()
        answer = self.process.stdout.read(2)
        if answer not in (b"0\0", b"1\0"):
            raise RuntimeError("gowk has ended; its message is on standard error")
        return answer == b"1\0"


def main():
    gowk, filter, *keys = sys.argv[1:]
    seen = Seen(gowk, filter)
    for key in keys:
        print(int(key in seen))


main()
