"""`ebb train --stress` soaks the engine on the user's own device and budgets, and says what it saw."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import harness
from harness import EBB, FULL

STEPS = 2000 if FULL else 50


class Stress(unittest.TestCase):
    def run_stress(self, *arguments, code=0):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "r.json"
            command = [EBB, "train", "--stress", "--threads", "1", *map(str, arguments), "--report", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=3600)
            self.assertEqual(done.returncode, code, f"{command}\n{done.stderr[-2000:]}")
            return done, json.loads(path.read_text()) if path.exists() else None

    def test_passes_under_the_checker_with_flat_memory(self):
        for more in ([], ["--offload", "inputs"], ["--order", "fuzz:3"]):
            with self.subTest(more=more):
                done, report = self.run_stress("--steps", STEPS, "--check", *more)
                soak = report["stress"]
                self.assertEqual((soak["steps"], soak["passed"], soak["problems"]), (STEPS, True, []))
                self.assertEqual(soak["violations"], 0)
                self.assertGreater(soak["gradients_compared"], STEPS)
                self.assertGreater(soak["exceptions"], 0)
                self.assertIn(f"{STEPS} steps: passed", done.stdout)
                self.assertIn(f"step {STEPS}/{STEPS}", done.stderr)

    def test_prints_json_for_machines(self):
        done, report = self.run_stress("--steps", 20, "--json")
        self.assertEqual(json.loads(done.stdout), report)

    def test_takes_the_budgets_of_the_environment_and_the_flags(self):
        _, report = self.run_stress("--steps", 20, "--host-budget", "2MiB", "--device-budget", "64MiB")
        self.assertEqual(report["config"]["host-budget"], 2 << 20)
        self.assertEqual(report["config"]["device-budget"], 64 << 20)

    def test_a_device_that_is_too_small_fails_and_says_so(self):
        done, report = self.run_stress("--steps", 20, "--device-budget", "64KiB", code=1)
        self.assertIn("device memory", done.stderr)
        self.assertIn("device memory", report["error"]["message"])

    def test_what_it_has_no_use_for_is_a_wrong_request(self):
        for line in ("--dry", "--model gpt2", "--checkpoint every:1", "--verify-gradients", "--offload none"):
            with self.subTest(line=line):
                done, report = self.run_stress(*line.split(), code=2)
                self.assertIn("--stress", done.stderr)
                self.assertIsNone(report)


if __name__ == "__main__":
    harness.main()
