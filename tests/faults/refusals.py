#!/usr/bin/env python3
"""Files that must be refused: each costs one line, exit code 4, less than 64 MiB and less than a second.

The files are those of ../shared/samples (or of the folder that PITH_SHARED names) whose names begin with bad_,
and some made here that would cost much if they were believed.
"""

import os
import pathlib
import struct
import time

import harness

MOST_KIB = 64 << 10
MOST_SECONDS = 1.0


def samples():
    source = pathlib.Path(__file__).resolve().parents[2]
    shared = pathlib.Path(os.environ.get("PITH_SHARED", source.parent / "shared"))
    found = sorted((shared / "samples").glob("*/bad_*"))
    if not found:
        print("no sample files: set PITH_SHARED; only those made here are refused")
    return found


def bombs(folder):
    """Small files that promise much, and large ones that promise little."""
    def made(name, data):
        path = os.path.join(folder, name)
        harness.write(path, data)
        return path

    header = b'{"w":' + b"[" * 20_000_000
    entry = b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
    many = b"{" + b"".join(entry % i for i in range(200_000)) + b'"0":1}'
    yield made("depth.safetensors", struct.pack("<Q", len(header)) + header)
    yield made("many.safetensors", struct.pack("<Q", len(many)) + many)
    yield made("count.gguf", b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0))
    yield made("keys.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 62))
    yield made("array.gguf", b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 10, 1 << 61))
    yield made("string.gguf", b"GGUF" + struct.pack("<IQQQ1sIQ", 3, 0, 1, 1, b"k", 8, 1 << 30))
    yield made("shape.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 80) +
               b"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}".ljust(79) + b"\n")
    yield made("zeros", bytes(100))


def cost(command):
    """Exit code, stderr, resident KiB, seconds."""
    read, write = os.pipe()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(write, 2)
        os.execv(command[0], command)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), text, usage.ru_maxrss, time.monotonic() - begin


def refused(command):
    """Why the promise is broken, or None; and what it cost."""
    code, text, kib, seconds = cost(command)
    if seconds > MOST_SECONDS:  # once more: somebody else may have had the processor
        code, text, kib, seconds = cost(command)
    why = None
    if code != 4:
        why = f"exit {code}: {text[:200]}"
    elif text.count(b"\n") != 1 or not text.startswith(b"pith: ") or len(text) > 600:
        why = f"stderr: {text[:200]}"
    elif kib > MOST_KIB:
        why = f"{kib} KiB"
    elif seconds > MOST_SECONDS:
        why = f"{seconds:.2f} s"
    return why, kib, seconds


def main():
    arguments = harness.parser(__doc__).parse_args()
    tally = harness.Tally()
    most = [0, 0.0]
    with harness.workspace() as folder:
        output = os.path.join(folder, "out.safetensors")
        for path in [str(sample) for sample in samples()] + list(bombs(folder)):
            for command in ([arguments.pith, "inspect", path, "--stats"],
                            [arguments.pith, "convert", path, "-o", output, "--dtype", "f32"]):
                why, kib, seconds = refused(command)
                if why is None and os.path.exists(output):
                    why = "an output in spite of it"
                most = [max(most[0], kib), max(most[1], seconds)]
                tally.add(f"{command[1]} {path}", why)
    print(f"at most {most[0] / 1024:.1f} MiB and {most[1]:.2f} s")
    tally.finish("refusals", at_least=16)


if __name__ == "__main__":
    main()
