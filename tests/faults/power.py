#!/usr/bin/env python3
"""Power cuts. The output lies on an ext4 file system in an image; a copy of the image, taken while it is mounted, is
what a disk would hold if the power failed then. Mounted again, it must have the old output or the complete new
one, and the new one if the command had ended with exit code 0 before.

Needs root and loop devices; without them the test is skipped (exit code 77).
"""

import os
import random
import shutil
import subprocess
import sys
import time

import harness

IMAGE_MIB = 24


def quietly(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


class Disk:
    """An ext4 file system in a file, that writes nothing before it must."""

    def __init__(self, folder):
        self.image, self.place = os.path.join(folder, "disk.img"), os.path.join(folder, "disk")
        self.copy, self.after = os.path.join(folder, "copy.img"), os.path.join(folder, "after")
        os.mkdir(self.place)
        os.mkdir(self.after)
        with open(self.image, "wb") as file:
            file.truncate(IMAGE_MIB << 20)

    def mount(self):
        return (quietly("mkfs.ext4", "-q", "-F", self.image) and
                quietly("mount", "-o", "loop,noauto_da_alloc,commit=300", self.image, self.place))

    def unmount(self):
        quietly("umount", self.place)

    def cut(self):
        shutil.copyfile(self.image, self.copy)

    def after_cut(self, name):
        """What is at `name` after the power came back."""
        if not quietly("mount", "-o", "loop", self.copy, self.after):
            return "no file system"
        found = harness.snapshot(os.path.join(self.after, name))
        quietly("umount", self.after)
        return found


def one_cut(disk, command, output, good, number, seconds):
    """Why the promise is broken, or None."""
    harness.remove(output)
    harness.write(output, os.urandom(400_000))
    os.sync()
    old = harness.snapshot(output)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = number % 4 == 0
    if ended:
        process.wait()
        if number % 8 == 0:  # commits the journal: shows a rename that came before its data
            other = os.open(os.path.join(disk.place, "other"), os.O_CREAT | os.O_WRONLY)
            os.write(other, b"x")
            os.fsync(other)
            os.close(other)
    else:
        time.sleep(seconds)
    disk.cut()
    process.wait()
    found = disk.after_cut(os.path.basename(output))
    if found == good or (found == old and not ended):
        return None
    return "lost although the command had ended" if found == old else "neither the old nor the new one"


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    tally = harness.Tally()
    source = random.Random(1)
    with harness.workspace() as folder:
        disk = Disk(folder)
        if not disk.mount():
            print("no right to mount a file system, or none to make one: power cuts are not tested here")
            sys.exit(77)
        try:
            model = os.path.join(folder, "in.safetensors")
            harness.write(model, harness.safetensors(harness.MODEL))
            output = os.path.join(disk.place, "out.safetensors")
            command = [arguments.pith, "convert", model, "-o", output, "--dtype", "f16", "--force"]
            begin = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - begin
            good = harness.snapshot(output)
            for number in range(1, arguments.rounds + 1):
                tally.add(f"power cut {number}",
                          one_cut(disk, command, output, good, number, source.uniform(0, seconds)))
        finally:
            disk.unmount()
    tally.finish("power cuts")


if __name__ == "__main__":
    main()
