"""The program itself: its commands, exit codes, streams and what Ctrl-C leaves behind. EBB is the program."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

EBB = os.environ["EBB"]
SHAPE = "--layers 2 --heads 2 --hidden 32 --batch 1 --seq 16 --threads 1".split()
SMALL = [*SHAPE, "--steps", "2"]


class Main(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ebb(self, *arguments, **environment):
        return subprocess.run(
            [EBB, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )

    def assert_wrong(self, names, *arguments, **environment):
        done = self.ebb(*arguments, **environment)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(names, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("ebb: "), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_says_what_would_work_for_a_wrong_command_line(self):
        self.assert_wrong("train, doctor")
        self.assert_wrong("'plan' is no command", "plan")
        self.assert_wrong("--nvme", "train", "--nvme", "/scratch")
        self.assert_wrong("`ebb train --help`", "train", "--frobnicate")
        self.assert_wrong("--steps", "train", "--steps")
        self.assert_wrong("--steps is given 2 times: give it once", "train", "--steps", "1", "--steps", "2")
        self.assert_wrong("--dry is given 2 times", "train", *SMALL, "--dry", "--dry")
        self.assert_wrong("EBB_NVME", "train", *SMALL, EBB_NVME="/scratch")
        self.assert_wrong("EBB_DEVICE_BUDGET", "train", *SMALL, EBB_DEVICE_BUDGET="much")

    def test_help_names_every_flag(self):
        text = self.ebb("train", "--help").stdout
        for flag in ("--model", "--device-budget", "--checkpoint", "--offload", "--verify-gradients", "--report"):
            self.assertIn(flag, text)

    def test_results_go_to_stdout_and_progress_to_stderr(self):
        done = self.ebb("train", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step 2/2", done.stderr)
        self.assertIn("device memory", done.stdout)
        self.assertNotIn("step 2/2", done.stdout)

    def under_limit(self, kib, *arguments):
        """Under `ulimit -v`."""
        return subprocess.run(
            ["bash", "-c", f'ulimit -v {kib} && exec "$@"', "bash", EBB, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )

    def skip_where_addresses_are_taken_ahead(self):
        if self.under_limit(150 << 10, "--version").returncode != 0:
            self.skipTest("a sanitizer maps more than any limit that is worth a test")

    def test_a_limit_of_the_address_space_ends_no_run_that_fits_it(self):
        self.skip_where_addresses_are_taken_ahead()
        roomy = 2 << 20  # KiB.
        for more in (["--offload", "saved"], ["--verify-gradients"], ["--device", "sim:free"]):
            done = self.under_limit(roomy, "train", *SMALL, *more)
            self.assertEqual(done.returncode, 0, (more, done.stderr))
        done = self.under_limit(roomy, "train", "--stress", "--steps", "10", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_limit_of_the_address_space_is_named(self):
        self.skip_where_addresses_are_taken_ahead()
        large = "--hidden 1024 --layers 8 --heads 2 --seq 16 --batch 1 --steps 1 --threads 1"
        for mib, line in ((400, large), (150, "--stress --threads 1")):
            done = self.under_limit(mib << 10, "train", *line.split())
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("RLIMIT_AS", done.stderr)
            self.assertIn("ulimit -v unlimited", done.stderr)

    def test_json_is_the_report(self):
        done = self.ebb("train", *SMALL, "--json", "--report", "r.json")
        self.assertEqual(json.loads(done.stdout), json.loads((self.folder / "r.json").read_text()))

    def test_a_refused_run_prints_its_report_for_machines(self):
        done = self.ebb("train", *SMALL, "--json", "--device-budget", "1000")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertGreater(json.loads(done.stdout)["error"]["smallest_device_budget_bytes"], 1000)

    def test_results_that_nobody_can_read_are_a_failure(self):
        for command in (["train", *SMALL], ["doctor"], ["--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([EBB, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("standard output", done.stderr)

    def test_sizes_and_settings_are_written_as_they_were_given(self):
        report = json.loads(self.ebb("train", *SMALL, "--json", "--checkpoint", "every:1", "--offload", "inputs",
                                     "--min-offload-bytes", "1").stdout)
        self.assertEqual(str(report["config"]["dropout"]), "0.1")
        self.assertIsInstance(report["time"]["bound"]["D"], int)
        self.assertGreater(report["time"]["bound"]["D"], 0)

    def test_ctrl_c_ends_the_run_in_order(self):
        command = [EBB, "train", *SHAPE, "--steps", "1000000", "--report", "r.json"]
        run = subprocess.Popen(
            command, cwd=self.folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.assertIn("step 1/", run.stderr.readline())
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("interrupted", errors)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["r.json"])
        report = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(report["error"]["code"], "CANCELLED")
        self.assertGreaterEqual(report["steps"], 1)
        self.assertEqual(len(report["loss"]), report["steps"])

    def test_a_read_only_report_is_said_before_the_training(self):
        path = self.folder / "r.json"
        path.write_text("kept")
        path.chmod(0o444)
        done = self.ebb("train", *SMALL, "--report", "r.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("read-only", done.stderr)
        self.assertNotIn("step", done.stderr)
        self.assertEqual(path.read_text(), "kept")


if __name__ == "__main__":
    unittest.main()
