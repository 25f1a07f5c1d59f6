#!/usr/bin/env python3
"""Signals at random moments of a conversion: SIGKILL, SIGINT, SIGTERM, SIGHUP."""

import random
import signal
import subprocess
import time

import harness


def interrupted(scenario, number, delay):
    scenario.set_old()
    process = subprocess.Popen(scenario.command, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(delay)
    process.send_signal(number)
    sent = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    seconds = time.monotonic() - sent
    result = subprocess.CompletedProcess(scenario.command, process.returncode, stdout, stderr)
    if number == signal.SIGKILL:
        return scenario.check(result, killed=True)
    # Before the handlers are in place a signal ends the process as it ends any other.
    if result.returncode == -number and not stderr:
        left = scenario.leftovers()
        return None if harness.snapshot(scenario.output) == scenario.old and not left else "torn"
    if seconds > 1:
        return f"went on for {seconds:.1f} s"
    return scenario.check(result, codes={128 + number})


def main():
    parser = harness.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="of SIGKILL; half as many of the others")
    arguments = parser.parse_args()
    kills = 1000 if arguments.long else arguments.rounds
    rounds = {"KILL": kills, "INT": kills // 2, "TERM": kills // 2, "HUP": kills // 4}
    tally = harness.Tally()
    source = random.Random(1)
    with harness.workspace() as folder:
        scenarios = harness.scenarios(arguments.pith, folder)
        for scenario in scenarios:
            # Larger than elsewhere, so that most signals come while data is written.
            begin = time.monotonic()
            scenario.run()
            scenario.seconds = time.monotonic() - begin
        for name, count in rounds.items():
            for i in range(count):
                scenario = scenarios[i % len(scenarios)]
                delay = source.uniform(0, scenario.seconds * 1.05)
                tally.add(f"{scenario.name} SIG{name} after {delay:.4f} s",
                          interrupted(scenario, getattr(signal, "SIG" + name), delay))
    tally.finish("signals")


if __name__ == "__main__":
    main()
