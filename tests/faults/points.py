#!/usr/bin/env python3
"""Every system call of a conversion fails, is cut short, is interrupted or is the last.

A clean run tells how often each kind of call is made; then each of them is hit in turn. With
--malloc every allocation fails, once or for good.
"""

import sys

import harness

ERRORS = {
    "open": ["EIO", "EMFILE"],
    "read": ["EIO"],
    "pread": ["EIO", "EINTR", "short"],
    "write": ["EINTR", "short"],
    "pwrite": ["ENOSPC", "EIO", "EDQUOT", "EFBIG", "ENOSPC:always", "EINTR", "short"],
    "fsync": ["ENOSPC", "EIO", "EDQUOT", "EINTR"],
    "close": ["ENOSPC", "EIO", "EINTR"],
    "rename": ["EIO", "EPERM", "EROFS", "ENOSPC"],
    "link": ["EIO"],
    "unlink": ["EIO"],
    "mkdir": ["ENOSPC", "EROFS"],
    "fallocate": ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "EINTR", "EOPNOTSUPP"],
    "ftruncate": ["ENOSPC", "EIO"],
    "fchmod": ["EPERM", "EIO"],
    "flock": ["EIO", "EINTR"],
    "dup": ["EMFILE"],
}
DLOPEN_CRASHES = {}
SIGNALS = ["kill", "killafter", "int"]
RESOURCES = {5, 130}
# When these fail, an old folder that was replaced may stay until the next run.
CLEANING = {"open", "unlink"}


def count_calls(scenario):
    path = scenario.folder + "/counts"
    scenario.set_old()
    result = scenario.run({"LD_PRELOAD": SHIM, "PITH_FAULT_COUNT": path})
    if result.returncode != 0:
        sys.exit(f"{scenario.name}: {result.stderr}")
    with open(path, encoding="ascii") as file:
        return {name: int(count) for name, count in (line.split() for line in file)}


def hit(scenario, tally, kind, number, action):
    scenario.set_old()
    result = scenario.run({"LD_PRELOAD": SHIM, "PITH_FAULT": f"{kind}:{number}:{action}"})
    if kind == "malloc" and result.returncode == -11 and DLOPEN_CRASHES.setdefault(
            scenario.name, number) == number:
        # One point of each run is in the C library's dlopen, by which oneTBB looks for its
        # allocator when it starts: that does not survive without memory.
        result.returncode, result.stderr = 5, b"pith: crashed in dlopen\n"
    tally.add(f"{scenario.name} {kind}:{number}:{action}",
              scenario.check(result, killed=action.startswith("kill"), codes=RESOURCES,
                             may_stay=kind in CLEANING))


def spread(count, most):
    """At most `most` of 1 ... count, the first and the last among them."""
    if count <= most:
        return range(1, count + 1)
    return sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--malloc", action="store_true", help="allocations instead of calls")
    arguments = parser.parse_args()
    global SHIM
    SHIM = arguments.shim
    tally = harness.Tally()
    with harness.workspace() as folder:
        for scenario in harness.scenarios(arguments.pith, folder):
            calls = count_calls(scenario)
            if arguments.malloc:
                for number in spread(calls["malloc"], 2000 if arguments.long else 60):
                    for action in ("ENOMEM", "ENOMEM:always"):
                        hit(scenario, tally, "malloc", number, action)
                continue
            print(scenario.name, {name: n for name, n in calls.items() if n})
            for kind, actions in ERRORS.items():
                for number in spread(calls[kind], 400 if arguments.long else 40):
                    for action in actions + SIGNALS:
                        hit(scenario, tally, kind, number, action)
    tally.finish("points", at_least=400 if arguments.malloc else 500)


if __name__ == "__main__":
    main()
