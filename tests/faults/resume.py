#!/usr/bin/env python3
"""kill -9 at random moments of pith compress; --resume then gives the same bytes.

Each round kills a run, perhaps several times in a row, and continues it. The output must be that
of a run that nobody disturbed, and nothing may be left beside it.
"""

import os
import random
import signal
import subprocess
import time

import harness

MODEL = {f"layers.{i}.weight": [700 + 13 * i, 512] for i in range(6)}
MODEL["norm"] = [64]


class Case:
    def __init__(self, pith, folder, name, output, options):
        self.name = name
        self.input = os.path.join(folder, name, "in.safetensors")
        self.output = os.path.join(folder, name, "out", output)
        self.options = options
        os.makedirs(os.path.dirname(self.output))
        harness.write(self.input, harness.safetensors(MODEL))
        self.command = [pith, "compress", self.input, "-o", self.output, "--force", "--no-sync",
                        "--threads", "2"] + options
        begin = time.monotonic()
        self.run(self.command)
        self.seconds = time.monotonic() - begin
        self.good = harness.snapshot(self.output)

    def run(self, command):
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{self.name}: {result.stderr}")

    def kill(self, command, delay):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        return process.wait()

    def round(self, source):
        harness.remove(self.output)
        resumed = self.command + ["--resume"]
        self.kill(self.command, source.uniform(0, self.seconds))
        while source.random() < 0.3:
            self.kill(resumed, source.uniform(0, self.seconds))
        try:
            self.run(resumed)
        except RuntimeError as error:
            return str(error)
        if harness.snapshot(self.output) != self.good:
            return "another output than that of a run in one go"
        folder = os.path.dirname(self.output)
        left = [name for name in os.listdir(folder) if name != os.path.basename(self.output)]
        return f"left behind: {left}" if left else None

    def other_recipe(self):
        """A run with other options is not continued, and says why."""
        for _ in range(50):
            harness.remove(self.output)
            if self.kill(self.command, self.seconds * 0.5) == -9 and self.journaled():
                break
        else:
            return None  # never killed in time
        command = [word if word != self.options[1] else "bf16" for word in self.command]
        result = subprocess.run(command + ["--resume"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, check=False)
        if result.returncode != 2 or b"had another recipe" not in result.stderr:
            return f"exit {result.returncode}: {result.stderr}"
        self.run(self.command)
        return f"left behind: {self.left()}" if self.left() else None

    def journaled(self):
        """A run that was killed before it had begun its journal leaves nothing to continue."""
        folder = os.path.dirname(self.output)
        return any(name.endswith(".journal") and os.path.getsize(os.path.join(folder, name)) > 0
                   for name in self.left())

    def left(self):
        folder = os.path.dirname(self.output)
        return [name for name in os.listdir(folder) if name != os.path.basename(self.output)]


def main():
    arguments = harness.parser(__doc__).parse_args()
    rounds = 500 if arguments.long else 100
    tally = harness.Tally()
    source = random.Random(2)
    with harness.workspace() as folder:
        cases = [
            Case(arguments.pith, folder, "rows", "out.safetensors", ["--quantize", "int8-row"]),
            Case(arguments.pith, folder, "sparse", "out.safetensors",
                 ["--quantize", "int8", "--prune", "0.5"]),
            Case(arguments.pith, folder, "gguf", "out.gguf", ["--quantize", "q8_0"]),
        ]
        for i in range(rounds):
            case = cases[i % len(cases)]
            tally.add(f"{case.name} round {i}", case.round(source))
        tally.add("another recipe", cases[0].other_recipe())
    tally.finish("resume")


if __name__ == "__main__":
    main()
