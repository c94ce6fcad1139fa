"""Many small cases in one process, each made of its number: counts of what became of them, and the failures."""

import argparse
import collections
import signal
import sys
import time

SECONDS = 30  # per case; a longer one ends the process
SHOWN = 40


def run_cases(description, count, run_case):
    """Run the cases that the command line asks for, print the counts, and exit with 1 if any failed.

    Parameters
    ----------
    description : str
        For ``--help``.
    count : int
        Default number of cases.
    run_case : callable
        Takes the number of a case; returns what became of it, and a sentence if it should not be so.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=count)
    options = parser.parse_args()
    counts, failures, begin = collections.Counter(), [], time.monotonic()
    for number in range(options.first, options.first + options.count):
        signal.alarm(SECONDS)
        kind, failure = run_case(number)
        signal.alarm(0)
        counts[kind] += 1
        if failure:
            failures.append(f"case {number}: {failure}")
    for kind, number in counts.most_common(SHOWN):
        print(f"{number:8d}  {kind}")
    print(f"{options.count} cases, {time.monotonic() - begin:.0f} s")
    print("\n".join(f"FAILED {failure}" for failure in failures[:SHOWN]) or "no failures")
    sys.exit(bool(failures))
