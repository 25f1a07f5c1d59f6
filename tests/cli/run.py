#!/usr/bin/env python3
"""Command-line tests: commands and all they print.

A .test file is prose with examples in it. An example is indented by two spaces: a command after "$ ", what it
must print on stdout, what it must print on stderr after "! ", and its exit code in brackets if it is not 0:

    A file that is not there is bad input.

      $ pith inspect nothing.safetensors
      ! pith: nothing.safetensors: cannot open: No such file or directory
      [4]

Commands are run by sh in a new folder with the files of inputs.py in it, all those of a .test file in the same
one, with `pith` in the path. Every byte must be equal: pipe through sed what depends on the machine.

    tests/cli/run.py --pith build/release/cli/pith              all tests
    tests/cli/run.py --pith build/release/cli/pith convert      tests/cli/convert.test
    tests/cli/run.py --pith ... --update convert                writes what is printed now; look at the diff!
"""

import argparse
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

import inputs

HERE = pathlib.Path(__file__).resolve().parent
INDENT = "  "


def run(command, folder, pith):
    """What an example looks like that agrees with what happens."""
    environment = {"PATH": f"{pith.parent}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder),
                   "TMPDIR": str(folder), "SOURCE": str(HERE.parent.parent)}
    result = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            capture_output=True, timeout=60, check=False)
    # Empty lines at the end cannot be told from those of the prose.
    lines = [f"$ {command}"] + result.stdout.decode(errors="replace").rstrip("\n").splitlines()
    lines += [f"! {line}" for line in result.stderr.decode(errors="replace").splitlines()]
    if result.returncode != 0:
        lines.append(f"[{result.returncode}]")
    return [(INDENT + line).rstrip(" ") for line in lines]


def replay(text, folder, pith):
    """The text of a test with the output of its commands as it is now, and the number of commands."""
    seen = []
    empty = []  # lines of the prose, unless output follows them
    commands = 0
    for line in text.splitlines():
        if not line:
            empty.append(line)
        elif line.startswith(INDENT) and not line.startswith(INDENT + "$ "):
            empty = []
        else:
            seen += empty
            empty = []
            if line.startswith(INDENT):
                commands += 1
                seen += run(line[len(INDENT) + 2:], folder, pith)
            else:
                seen.append(line)
    return seen, commands


def squeeze(lines):
    """Without empty lines: those of outputs and those of prose cannot be told apart."""
    return [line for line in lines if line]


def check(test, pith, update):
    text = test.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="pith-cli-") as name:
        folder = pathlib.Path(name)
        inputs.make_all(folder)
        seen, commands = replay(text, folder, pith)
    if update:
        test.write_text("\n".join(seen) + "\n", encoding="utf-8")
    difference = list(difflib.unified_diff(squeeze(text.splitlines()), squeeze(seen), "expected", "printed",
                                           lineterm=""))
    print(f"{test.name}: {commands} commands, {'as expected' if not difference else 'DIFFERENT'}")
    if difference and not update:
        print("\n".join(difference))
    return not difference


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pith", required=True, type=pathlib.Path, help="the command")
    parser.add_argument("--update", action="store_true", help="rewrite the tests")
    parser.add_argument("names", nargs="*", help="tests without .test")
    arguments = parser.parse_args()
    tests = [HERE / f"{name}.test" for name in arguments.names] or sorted(HERE.glob("*.test"))
    results = [check(test, arguments.pith.resolve(), arguments.update) for test in tests]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    os.umask(0o022)
    main()
