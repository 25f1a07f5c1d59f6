#!/usr/bin/env python3
"""A checkpoint of 3 GiB, with tensors larger than the memory that is allowed, converted in bounded memory.

The input is a sparse file: it takes no room. The output takes 1.5 GiB while the test runs; without room for it the
test is skipped (exit code 77).
"""

import json
import os
import pty
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

import harness

GIB = 1 << 30
# Address space for everything, the code of the program among it: 256 MiB of buffers, and as much again.
MOST_ADDRESSES = 512 << 20
MARKS = {0: 1.5, 123_456_789: -2.25, 400_000_000: 65504.0, (3 * GIB >> 2) - 1: 0.0009765625}


def make_sparse(path):
    """Two tensors, of 2 and 1 GiB; zeros but for some values."""
    header = json.dumps({
        "a": {"dtype": "F32", "shape": [16384, 32768], "data_offsets": [0, 2 * GIB]},
        "b": {"dtype": "F32", "shape": [GIB >> 2], "data_offsets": [2 * GIB, 3 * GIB]}}).encode()
    header += b" " * (-len(header) % 8)
    begin = 8 + len(header)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(begin + 3 * GIB)
        for place, value in MARKS.items():
            file.seek(begin + 4 * place)
            file.write(struct.pack("<f", value))


def run(command, limit):
    """Runs with stderr on a terminal, so that progress is shown; exit code, stderr, peak resident MiB."""
    terminal, stderr = pty.openpty()
    seen = []

    def listen():
        try:
            while chunk := os.read(terminal, 65536):
                seen.append(chunk)
        except OSError:
            pass  # the other end is closed

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr,
                               env={**os.environ, "TERM": "xterm"},
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    os.close(stderr)
    listener = threading.Thread(target=listen)
    listener.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    listener.join()
    os.close(terminal)
    return process.returncode, b"".join(seen), usage.ru_maxrss / 1024


def check_output(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        begins = {name: 8 + length + header[name]["data_offsets"][0] for name in "ab"}
        if header["a"]["dtype"] != "F16" or os.path.getsize(path) != 8 + length + 3 * GIB // 2:
            return f"another file than expected: {header}"
        for place, value in MARKS.items():
            first = 2 * GIB >> 2
            name, index = ("a", place) if place < first else ("b", place - first)
            file.seek(begins[name] + 2 * index)
            found, = struct.unpack("<e", file.read(2))
            if found != value:
                return f"element {index} of '{name}' is {found}, expected {value}"
    return None


def main():
    arguments = harness.parser(__doc__).parse_args()
    if shutil.disk_usage(tempfile.gettempdir()).free < 4 * GIB:
        print(f"{tempfile.gettempdir()} has less than 4 GiB free: not tested here")
        sys.exit(77)
    tally = harness.Tally()
    with tempfile.TemporaryDirectory(prefix="pith-large-") as folder:
        source, output = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        make_sparse(source)
        common = ["--max-memory", "256MiB", "--threads", "2"]
        for command in (["inspect", source, "--stats", "--filter", "b"],
                        ["convert", source, "-o", output, "--dtype", "f16", "--no-sync"]):
            code, seen, mib = run([arguments.pith] + command + common, MOST_ADDRESSES)
            why = None
            if code != 0:
                why = f"exit {code}: {seen[-300:]}"
            elif b" %  " not in seen:
                why = f"no progress on the terminal: {seen[:200]}"
            print(f"{command[0]}: at most {mib:.0f} MiB resident")
            tally.add(command[0], why)
        tally.add("values", check_output(output))
    tally.finish("large files")


if __name__ == "__main__":
    main()
