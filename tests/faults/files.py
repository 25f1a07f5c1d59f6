#!/usr/bin/env python3
"""Inputs that shrink while they are read, outputs that are inputs, two runs on one output, modes."""

import os
import shutil
import subprocess

import harness


def shrinking_inputs(pith, shim, folder, tally):
    """The input is cut to half after the k-th read of it."""
    source = os.path.join(folder, "whole.safetensors")
    harness.write(source, harness.safetensors({"w": [900, 1000]}))
    for name in ("whole.safetensors", "a.gguf", "a.npz", "a.npy"):
        path = os.path.join(folder, name)
        if name != "whole.safetensors":
            subprocess.run([pith, "convert", source, "-o", path], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for point in range(1, 21):
            victim = os.path.join(folder, "victim" + os.path.splitext(name)[1])
            shutil.copy(path, victim)
            output = os.path.join(folder, "out.safetensors")
            harness.remove(output)
            environment = {"LD_PRELOAD": shim, "PITH_FAULT": f"pread:{point}:cut={victim}"}
            for command in (["convert", victim, "-o", output, "--dtype", "f16", "--threads", "1"],
                            ["inspect", victim, "--stats", "--threads", "1"]):
                shutil.copy(path, victim)
                result = subprocess.run([pith] + command, env={**os.environ, **environment},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        check=False)
                why = None
                # A file that is cut behind its last read is read as a whole.
                if result.returncode not in (0, 4):
                    why = f"exit {result.returncode}: {result.stderr}"
                elif result.returncode == 4 and result.stderr.count(b"\n") != 1:
                    why = f"{result.stderr}"
                elif result.returncode == 4 and os.path.exists(output) and command[0] == "convert":
                    why = "an output in spite of it"
                tally.add(f"{command[0]} {name} cut after read {point}", why)


def aliases(pith, folder, tally):
    data = harness.safetensors(harness.MODEL)
    place = os.path.join(folder, "alias")
    os.makedirs(os.path.join(place, "sub"))
    target = os.path.join(place, "in.safetensors")
    harness.write(target, data)
    os.symlink("in.safetensors", os.path.join(place, "link.safetensors"))
    os.link(target, os.path.join(place, "hard.safetensors"))
    os.symlink(place, os.path.join(folder, "other"))
    names = ["in.safetensors", "link.safetensors", "hard.safetensors", "sub/../in.safetensors",
             "../other/in.safetensors", "./in.safetensors"]
    before = sorted(os.listdir(place))
    for first in names:
        for second in names:
            result = subprocess.run(
                [pith, "convert", os.path.join(place, first), "-o", os.path.join(place, second),
                 "--dtype", "f16", "--force"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                check=False)
            with open(target, "rb") as file:
                whole = file.read() == data
            good = whole and result.returncode == 2 and result.stderr.count(b"\n") == 1
            good = good and sorted(os.listdir(place)) == before
            tally.add(f"{first} to {second}", None if good else
                      f"exit {result.returncode}, input whole: {whole}, {result.stderr}")


def two_runs(pith, folder, tally, rounds):
    """Pairs of runs on one output: it is one of the two complete files."""
    place = os.path.join(folder, "pair")
    for name, seed in (("a", 1), ("b", 2)):
        harness.write(os.path.join(place, name + ".safetensors"),
                      harness.safetensors(harness.MODEL, seed))
    output = os.path.join(place, "out.safetensors")
    good = set()
    for name in "ab":
        subprocess.run([pith, "convert", f"{place}/{name}.safetensors", "-o", output, "--force"],
                       check=True, stdout=subprocess.DEVNULL)
        good.add(harness.snapshot(output))
    before = sorted(os.listdir(place))
    for number in range(rounds):
        force = [["--force"], []][number % 2]
        harness.remove(output)
        runs = [subprocess.Popen([pith, "convert", f"{place}/{name}.safetensors", "-o", output]
                                 + force, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for name in "ab"]
        codes = []
        for run in runs:
            run.communicate()
            codes.append(run.returncode)
        expected = [[0, 0]] if force else [[0, 2], [2, 0]]
        why = None
        if harness.snapshot(output) not in good:
            why = "a mixture"
        elif codes not in expected:
            why = f"exit codes {codes}"
        elif sorted(os.listdir(place)) != before:
            why = f"left behind: {os.listdir(place)}"
        tally.add(f"two runs, round {number}", why)


def modes(pith, folder, tally):
    source = os.path.join(folder, "mode.safetensors")
    harness.write(source, harness.safetensors(harness.MODEL))
    for mask in (0o022, 0o077, 0o002):
        for old in (None, 0o600, 0o664):
            output = os.path.join(folder, "moded.safetensors")
            harness.remove(output)
            if old is not None:
                harness.write(output, b"old")
                os.chmod(output, old)
            subprocess.run([pith, "convert", source, "-o", output, "--force"], check=True,
                           stdout=subprocess.DEVNULL, umask=mask)
            mode = os.stat(output).st_mode & 0o777
            wanted = 0o666 & ~mask if old is None else old
            tally.add(f"umask {mask:o}, old mode {old}",
                      None if mode == wanted else f"mode {mode:o}, expected {wanted:o}")


def main():
    arguments = harness.parser(__doc__).parse_args()
    tally = harness.Tally()
    with harness.workspace() as folder:
        shrinking_inputs(arguments.pith, arguments.shim, folder, tally)
        aliases(arguments.pith, folder, tally)
        two_runs(arguments.pith, folder, tally, 200 if arguments.long else 60)
        modes(arguments.pith, folder, tally)
    tally.finish("files", at_least=200)


if __name__ == "__main__":
    main()
