#!/usr/bin/env python3
"""Full disks, limits of file size, read-only folders, little memory, results that cannot be told."""

import os
import resource
import subprocess
import sys

import harness


def full_disks(scenario, tally):
    """A file system that is too small by little or much; needs the right to mount."""
    place = os.path.join(scenario.folder, "small")
    os.mkdir(place)
    output = os.path.join(place, os.path.basename(scenario.output))
    command = [output if part == scenario.output else part for part in scenario.command]
    probe = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", place]
    if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("no right to mount: full disks are not tested here")
        return
    for kib in (64, 128, 256, 512, 768, 1024):
        # The old output and the new one do not fit together. Inside the namespace, so that the
        # mount ends with the run.
        script = f"""
            mount -t tmpfs -o size={kib}k tmpfs {place} && cp -r {scenario.output} {place}/ || exit 99
            "$@"; code=$?
            ls -A {place} >&3; cmp -s {scenario.output} {output} && echo old >&3
            exit $code"""
        scenario.set_old()
        read, write = os.pipe()
        result = scenario.run(command=["unshare", "-Urm", "sh", "-c", script.replace(">&3", f">&{write}"), "sh"] + command,
                              pass_fds=[write])
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as file:
            seen = file.read().split()
        why = None
        if result.returncode not in (0, 5):
            why = f"exit {result.returncode}: {result.stderr}"
        elif result.returncode == 5 and (seen != [os.path.basename(output), "old"]
                                         or result.stderr.count(b"\n") != 1):
            why = f"found {seen}, {result.stderr}"
        tally.add(f"{scenario.name} on a disk of {kib} KiB", why)


def file_size_limits(scenario, tally):
    good = harness.snapshot(scenario.output)
    for limit in (0, 100, 4096, 50_000, 200_000, 400_000, 800_000, 10_000_000):
        scenario.set_old()

        def restrict(limit=limit):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        result = scenario.run(preexec_fn=restrict)
        tally.add(f"{scenario.name} with files of at most {limit} bytes",
                  scenario.check(result, codes={5}))
    assert good


def little_memory(scenario, tally):
    for mib in range(20, 260, 12):
        scenario.set_old()

        def restrict(limit=mib << 20):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        result = scenario.run(preexec_fn=restrict)
        if result.returncode == 127:
            continue  # the loader had too little already
        tally.add(f"{scenario.name} with {mib} MiB of memory", scenario.check(result, codes={5}))


def read_only(scenario, tally):
    """A folder without the right to write; root has every right, so not as root."""
    if os.geteuid() == 0:
        prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        if subprocess.run(prefix + ["true"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            return
    else:
        prefix = []
    scenario.set_old()
    folder = os.path.dirname(scenario.output)
    for path in (os.path.dirname(scenario.folder), scenario.folder):
        os.chmod(path, 0o755)
    os.chmod(folder, 0o555)
    result = scenario.run(command=prefix + scenario.command)
    os.chmod(folder, 0o755)
    tally.add(f"{scenario.name} in a read-only folder", scenario.check(result, codes={5}))


def results_that_cannot_be_told(scenario, tally):
    for options in ([], ["--json"], ["--stats"]):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([scenario.command[0], "inspect", scenario.input] + options,
                                    stdout=full, stderr=subprocess.PIPE, check=False)
        tally.add(f"inspect {options} > /dev/full",
                  None if result.returncode == 5 and result.stderr.count(b"\n") == 1
                  else f"exit {result.returncode}: {result.stderr}")


def main():
    arguments = harness.parser(__doc__).parse_args()
    tally = harness.Tally()
    with harness.workspace() as folder:
        for scenario in harness.scenarios(arguments.pith, folder):
            if not scenario.is_folder:
                full_disks(scenario, tally)
            file_size_limits(scenario, tally)
            little_memory(scenario, tally)
            read_only(scenario, tally)
            results_that_cannot_be_told(scenario, tally)
    tally.finish("disk and memory", at_least=50)


if __name__ == "__main__":
    sys.exit(main())
