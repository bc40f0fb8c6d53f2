"""Runs `ebb` for the tests beside this file, at one of two sizes.

EBB is the program, EBB_MATRIX "small" (ctest; the default) or "full" (.ci/full: the sizes
that the project promises its figures for).
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import report_keys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBB = os.environ.get("EBB", str(ROOT / "build/release/bin/ebb"))
FULL = os.environ.get("EBB_MATRIX", "small") == "full"
TEXT = ROOT / "examples/data/kjv_genesis_to_esther.txt"

if FULL:
    STEPS = 20
    FEW_STEPS = 4  # Where many runs ask for the same.
    MODEL = ["--model", "gpt2-nano"]
    SCATTERED = "layers:1,5,10"
else:
    STEPS = FEW_STEPS = 3
    MODEL = "--layers 4 --heads 4 --hidden 64 --batch 2 --seq 64 --min-offload-bytes 4096".split()
    SCATTERED = "layers:0,2"
SEEDS = int(os.environ.get("EBB_SEEDS", 20))  # Of fuzzed order.

PLAIN = ("none", "none")
POLICIES = [
    ("every:1", "inputs"),
    ("none", "saved"),
    ("every:1", "saved"),
    ("sqrt", "inputs"),
    ("every:3", "inputs"),
    (SCATTERED, "inputs"),
    (SCATTERED, "saved"),
]


def flags(policy):
    return ["--checkpoint", policy[0], "--offload", policy[1]]


def without(flag, arguments):
    """Arguments less a flag and its value."""
    if flag not in arguments:
        return arguments
    at = arguments.index(flag)
    return arguments[:at] + arguments[at + 2 :]


class Run:
    """One run of `ebb`: its exit code, what it printed, and its report if it wrote one."""

    def __init__(self, arguments, timeout=3600):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            command = [EBB, "train", "--data", str(TEXT), *map(str, arguments), "--report", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
            self.command = " ".join(command)
            self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
            self.report = json.loads(path.read_text()) if path.exists() else None
            self.left_behind = sorted(entry.name for entry in path.parent.iterdir() if entry != path)


def run_all(jobs):
    """Runs each list of arguments, as many at a time as there are cores, each on one thread."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(Run, [[*job, "--threads", "1"] for job in jobs]))


class EbbTest(unittest.TestCase):
    maxDiff = None

    def assert_succeeds(self, run):
        self.assertEqual(run.code, 0, f"{run.command}\n{run.err[-2000:]}")
        self.assertIsNotNone(run.report, run.command)
        self.assertEqual(report_keys.problems(run.report, dry="--dry" in run.command.split()), [], run.command)
        self.assertEqual(run.left_behind, [], run.command)
        return run.report

    def assert_refused(self, run, code=1):
        self.assertEqual(run.code, code, f"{run.command}\n{run.err[-2000:]}")
        self.assertEqual(run.left_behind, [], run.command)
        if run.report is not None:
            self.assertEqual(report_keys.problems(run.report), [], run.command)
            return run.report["error"]

    def train(self, *arguments):
        return self.assert_succeeds(run_all([list(arguments)])[0])


def main():
    unittest.main(verbosity=2 if FULL else 1)
