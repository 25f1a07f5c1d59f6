"""What the fault tests share: checkpoints made here, runs of pith, and what must hold after each.

After every run, however it ended, the output is the old one or the complete new one, the input is
as it was, and nothing is left beside them (a run that was killed with SIGKILL may leave its
temporary file, which the next run removes). A failure has one line on stderr and a documented exit
code.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

OLD = b"what was there before " * 500
EXIT_CODES = {0, 1, 2, 3, 4, 5, 129, 130, 143}


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--pith", required=True, help="the command to test")
    result.add_argument("--shim", help="the library that makes calls fail")
    result.add_argument("--long", action="store_true", help="many more points and rounds")
    return result


def workspace():
    """A folder in memory where there is one: what is tested is not the disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="pith-faults-", dir=place)


def safetensors(tensors, seed=1):
    """Bytes of a safetensors file with {name: shape} of random small f32."""
    source = random.Random(seed)
    header, data = {}, b""
    for name, shape in tensors.items():
        count = 1
        for extent in shape:
            count *= extent
        block = struct.pack("<256f", *(source.gauss(0, 1) for _ in range(256)))
        body = (block * (count * 4 // len(block) + 1))[: count * 4]
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


MODEL = {"layers.0.weight": [300, 512], "layers.1.weight": [100, 700], "norm": [64]}


def snapshot(path):
    """What is at `path`, as something that can be compared: None, a file's hash, a folder's."""
    if os.path.isdir(path):
        return {name: snapshot(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


class Scenario:
    """An input, a command that turns it into an output, and the output that is right."""

    def __init__(self, pith, folder, name, source, output, options):
        self.folder = os.path.join(folder, name)
        os.makedirs(os.path.join(self.folder, "out"))
        self.name = name
        self.input = os.path.join(self.folder, source)
        self.output = os.path.join(self.folder, "out", output)
        self.is_folder = not os.path.splitext(output)[1]
        self.make_input()
        self.command = [pith, "convert", self.input, "-o", self.output, "--force", "--threads",
                        "1"] + options
        self.set_old()
        clean = self.run()
        if clean.returncode != 0:
            sys.exit(f"{name}: a run without faults fails: {clean.stderr}")
        self.good = snapshot(self.output)
        self.input_before = snapshot(self.input)

    def make_input(self):
        if os.path.splitext(self.input)[1]:
            write(self.input, safetensors(MODEL))
            return
        names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
        write(os.path.join(self.input, names[0]), safetensors({"a": [300, 512]}))
        write(os.path.join(self.input, names[1]), safetensors({"b": [100, 700]}))
        index = {"metadata": {"total_size": 894400}, "weight_map": {"a": names[0], "b": names[1]}}
        write(os.path.join(self.input, "model.safetensors.index.json"), json.dumps(index).encode())
        write(os.path.join(self.input, "config.json"), b"{}\n")
        write(os.path.join(self.input, "tokenizer.json"), b"x" * 5000)

    def set_old(self):
        """Puts an old output in place, and nothing else beside it."""
        remove(os.path.dirname(self.output))
        if self.is_folder:
            write(os.path.join(self.output, "model.safetensors"), OLD)
            write(os.path.join(self.output, "config.json"), b"old")
        else:
            write(self.output, OLD)
        self.old = snapshot(self.output)

    def run(self, environment=None, command=None, timeout=120, **options):
        return subprocess.run(command or self.command, env={**os.environ, **(environment or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False, **options)

    def leftovers(self):
        folder = os.path.dirname(self.output)
        return [name for name in os.listdir(folder) if name != os.path.basename(self.output)]

    def check(self, result, killed=False, codes=None, may_stay=False):
        """Why the promise is broken, or None. `may_stay`: what is to be removed cannot be."""
        now = snapshot(self.output)
        if snapshot(self.input) != self.input_before:
            return "the input changed"
        if result.returncode == 0 and now != self.good:
            return "exit 0, but the output is not the new one"
        if result.returncode == 0 and self.leftovers():
            return self.check_cleanup() if may_stay else f"left behind: {self.leftovers()}"
        if result.returncode == 0:
            return None
        if now not in (self.old, self.good):
            return "the output is neither the old nor the new one"
        if killed and result.returncode == -9:
            return self.check_cleanup()
        if result.returncode < 0:
            return f"ended by signal {-result.returncode}"
        if self.leftovers():
            return f"left behind: {self.leftovers()}"
        lines = [line for line in result.stderr.splitlines() if not line.startswith(b"pith: note: ")]
        if len(lines) != 1 or not lines[0].startswith(b"pith: "):
            return f"{len(lines)} lines on stderr: {result.stderr[:200]}"
        allowed = codes or EXIT_CODES
        if result.returncode not in allowed:
            return f"exit {result.returncode}, expected one of {sorted(allowed)}: {result.stderr}"
        return None

    def check_cleanup(self):
        """After SIGKILL: the next run removes what is left."""
        again = self.run()
        if again.returncode != 0:
            return f"the next run fails: {again.stderr}"
        if snapshot(self.output) != self.good or self.leftovers():
            return "the next run does not clean up"
        return None


def scenarios(pith, folder):
    return [
        Scenario(pith, folder, "safetensors", "in.safetensors", "out.safetensors",
                 ["--dtype", "f16"]),
        Scenario(pith, folder, "gguf", "in.safetensors", "out.gguf", ["--dtype", "bf16"]),
        Scenario(pith, folder, "npz", "in.safetensors", "out.npz", []),
        Scenario(pith, folder, "folder", "model", "model", ["--dtype", "f16"]),
    ]


class Tally:
    """Counts what held, and tells what did not."""

    def __init__(self):
        self.held = 0
        self.total = 0

    def add(self, what, why):
        self.total += 1
        if why is None:
            self.held += 1
        else:
            print(f"BROKEN {what}: {why}")

    def finish(self, what, at_least=1):
        print(f"{what}: {self.held} of {self.total} held")
        if self.total < at_least:
            sys.exit(f"only {self.total} points, expected at least {at_least}")
        sys.exit(0 if self.held == self.total else 1)
