#!/usr/bin/env python3
"""Run the goals of the spool at a chosen size and print one table.

    soak.py [ROW]... [--size small|full|NUMBER] [--seed N] [--build DIR] [--source DIR]

Without ROW all rows run.  `full` is the size of the goals and takes hours, `small` about a minute; a NUMBER
sets the number of kills, cuts, jobs or trials of the rows.  A row that needs what the machine does not have is
skipped with the reason.

A row is a check (0 lost, same bits), which makes the exit status 1 if it fails, or a measurement of a time, a
rate or a size, which never does: both print whether they meet the goal.  Status 77: all rows were skipped.
What failed is described on standard error, and its folder is kept.
"""
import argparse
import os
import random
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import clocks  # noqa: E402
import crowds  # noqa: E402
import cuts  # noqa: E402
import hostile  # noqa: E402
import injections  # noqa: E402
import kills  # noqa: E402
import nodes  # noqa: E402
import week  # noqa: E402
from folder import Setting  # noqa: E402
from result import Skip  # noqa: E402

ROWS = {
    "kills": kills.random_kills,
    "calls": kills.kills_at_calls,
    "cuts": cuts.power_cuts,
    "crowd": crowds.at_once,
    "stopped": crowds.while_stopped,
    "start": crowds.start_latency,
    "rate": crowds.rate,
    "status": crowds.status,
    "once": injections.faults_once,
    "lasting": injections.faults_lasting,
    "dead": kills.dead_watch,
    "upgrade": kills.upgrade,
    "term": kills.stop_requests,
    "clock": clocks.clocks,
    "hostile": hostile.hostile,
    "week": week.week,
    "nodes": nodes.several_nodes,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--size", default="small", help="small, full, or a number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=".")
    parser.add_argument("--source", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    options = parser.parse_args()
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row {name}; the rows are {', '.join(ROWS)}")
    number = int(options.size) if options.size.isdigit() else 0
    if not number and options.size not in ("small", "full"):
        parser.error("--size must be small, full or a number")

    failed, ran = [], False
    print("| goal | size | result | goal value | ok? |\n|---|---|---|---|---|", flush=True)
    for name in options.rows or ROWS:
        setting = Setting(options.build, options.source, options.size != "full", number, random.Random(options.seed))
        started = time.monotonic()
        keep = False
        try:
            for result in ROWS[name](setting):
                ran = True
                result.print(name)
                if result.fails():
                    keep = True
                    failed.append(name)
                    print(*result.details[:20], sep="\n", file=sys.stderr, flush=True)
        except Skip as reason:
            print(f"| {name} | - | skipped: {reason} | - | - |", flush=True)
        except Exception:  # one broken row must not hide the others
            traceback.print_exc()
            keep = True
            failed.append(name)
            print(f"| {name} | - | could not run | - | **no** |", flush=True)
        finally:
            setting.end_all()
            if keep:
                print(f"soak: {name}: files are kept in {setting.top}", file=sys.stderr)
            else:
                setting.close()
        print(f"soak: {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    if failed:
        return 1
    return 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
