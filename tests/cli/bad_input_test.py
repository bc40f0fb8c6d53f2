"""Wrong requests end with exit 2, refused and failed runs with exit 1: one clear sentence, nothing half-written."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import harness
from harness import EBB, TEXT, EbbTest

SMALL = "--layers 2 --heads 2 --hidden 32 --batch 1 --seq 16 --steps 1".split()

# Flags -> what the message has to name.
WRONG = {
    "--no-such-flag": "no-such-flag",
    "--steps": "steps",
    "stray": "stray",
    "--model gpt5": "gpt2-nano",
    "--device tpu": "tpu",
    "--device sim:a1000": "a100-pcie4",
    "--device sim:missing.json": "missing.json",
    "--steps 0": "steps",
    "--steps -1": "steps",
    "--steps nan": "steps",
    "--steps 1e99": "steps",
    "--steps 99999999999999999999": "steps",
    "--batch 0": "batch",
    "--batch -3": "batch",
    "--seq 0": "seq",
    "--seq -1": "seq",
    "--seq 100000": "seq",
    "--layers 0": "layers",
    "--layers -2": "layers",
    "--layers 99999999999": "layers",
    "--heads 0": "heads",
    "--heads 3": "heads",
    "--hidden 0": "hidden",
    "--hidden -64": "hidden",
    "--vocab 0": "vocab",
    "--vocab -1": "vocab",
    "--dropout -0.1": "dropout",
    "--dropout 1": "dropout",
    "--dropout nan": "dropout",
    "--accumulate 0": "accumulate",
    "--lr nan": "lr",
    "--lr inf": "lr",
    "--lr -1": "lr",
    "--seed -1": "seed",
    "--seed x": "seed",
    "--threads 0": "threads",
    "--threads -1": "threads",
    "--threads 100000": "threads",
    "--device-budget 0": "device-budget",
    "--device-budget -1": "device-budget",
    "--device-budget nan": "device-budget",
    "--device-budget 12QiB": "device-budget",
    "--device-budget 1e400": "device-budget",
    "--host-budget -5": "host-budget",
    "--host-budget x": "host-budget",
    "--min-offload-bytes -1": "min-offload-bytes",
    "--checkpoint every:0": "every",
    "--checkpoint every:-1": "every",
    "--checkpoint every:x": "every",
    "--checkpoint layers:9": "layers",
    "--checkpoint layers:": "layers",
    "--checkpoint layers:0,0": "layers",
    "--checkpoint layers:-1": "layers",
    "--checkpoint sometimes": "sometimes",
    "--offload everything": "everything",
    "--offload inputs --checkpoint none": "checkpoint",
    "--order random": "random",
    "--order fuzz:": "fuzz",
    "--order fuzz:x": "fuzz",
    "--order fuzz:-1": "fuzz",
    "--dry --verify-gradients": "dry",
    "--dtype f8": "f8",
    "--report": "report",
    "--stress --dry": "stress",
    "--host-budget nan": "host-budget",
    "--host-budget 99999999999999999999999999": "host-budget",
    "--min-offload-bytes nan": "min-offload-bytes",
}
ENVIRONMENT = [  # Budgets that are none.
    ("EBB_HOST_BUDGET", value) for value in ("", "nan", "-1", "0", "12QiB", "99999999999999999999999999")
] + [("EBB_DEVICE_BUDGET", value) for value in ("", "nan", "-1GiB", "much")]
LIMITS = {  # More than the profile, or the machine, has.
    "--device-budget 1024TiB": "a100-pcie4",
    "--host-budget 1024TiB": "host",
}
ONE_SENTENCE = 600  # Characters.


class BadInput(EbbTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ebb(self, *arguments, environment=None):
        return subprocess.run(
            [EBB, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )

    def assert_bad(self, codes, names, *arguments, before=(), environment=None):
        done = self.ebb(*arguments, environment=environment)
        self.assertIn(done.returncode, codes, f"{arguments}: exit {done.returncode}\n{done.stderr}")
        self.assertRegex(done.stderr, re.compile(re.escape(names), re.I), str(arguments))
        self.assertLess(len(done.stderr), ONE_SENTENCE, done.stderr)
        self.assertEqual(done.stdout, "", str(arguments))
        for word in ("terminate", "Assertion", "what():", "std::"):
            self.assertNotIn(word, done.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), sorted(before), "left behind")

    def test_wrong_flags_and_values(self):
        for line, names in WRONG.items():
            with self.subTest(line=line):
                self.assert_bad((2,), names, "train", "--data", TEXT, *SMALL, *line.split())

    def test_empty_flags_and_variables_are_named(self):
        for flag in ("--device-budget", "--host-budget", "--min-offload-bytes"):
            with self.subTest(flag=flag):
                self.assert_bad((2,), flag, "train", "--data", TEXT, *SMALL, flag, "")
        for name, value in ENVIRONMENT:
            with self.subTest(name=name, value=value):
                self.assert_bad((2,), name, "train", "--data", TEXT, *SMALL, environment={name: value})

    def test_no_command_and_unknown_commands(self):
        self.assert_bad((2,), "--help")
        self.assert_bad((2,), "fly", "fly")
        self.assert_bad((2,), "--frobnicate", "doctor", "--frobnicate")

    def test_more_than_there_is(self):
        for line, names in LIMITS.items():
            with self.subTest(line=line):
                self.assert_bad((1, 2), names, "train", "--data", TEXT, *SMALL, *line.split())

    def data(self, content, *more):
        path = self.folder / "data.txt"
        path.write_bytes(content)
        self.assert_bad((1, 2), "data.txt", "train", "--data", path, *SMALL, *more, before=["data.txt"])

    def test_data_that_is_none(self):
        self.assert_bad((1, 2), "nowhere.txt", "train", "--data", "nowhere.txt", *SMALL)
        self.data(b"")
        self.data(b"In the beg")
        (self.folder / "data.txt").unlink()
        (self.folder / "dir").mkdir()
        self.assert_bad((1, 2), "dir", "train", "--data", self.folder / "dir", *SMALL, before=["dir"])

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_data_that_may_not_be_read(self):
        path = self.folder / "secret.txt"
        path.write_bytes(TEXT.read_bytes())
        path.chmod(0)
        self.assert_bad((1, 2), "secret.txt", "train", "--data", path, *SMALL, before=["secret.txt"])

    def test_a_report_that_cannot_be_written_is_said_before_the_training(self):
        (self.folder / "dir").mkdir()
        for path, before in (("dir", ["dir"]), ("no/such/place/r.json", ["dir"]), ("/proc/r.json", ["dir"])):
            with self.subTest(path=path):
                self.assert_bad((1, 2), path, "train", "--data", TEXT, *SMALL, "--report", path, before=before)

    def profile(self, content, names):
        (self.folder / "p.json").write_text(content)
        self.assert_bad(
            (2,), names, "train", "--data", TEXT, *SMALL, "--device", f"sim:{self.folder}/p.json", before=["p.json"]
        )

    def test_profiles_that_are_none(self):
        self.profile("", "p.json")
        self.profile("{", "p.json")
        self.profile("[]", "p.json")
        self.profile("{}", "p.json")
        self.profile('{"name": 3}', "p.json")

    def test_help_and_version_go_to_stdout(self):
        for arguments in (["--help"], ["train", "--help"], ["doctor", "--help"], ["--version"]):
            with self.subTest(arguments=arguments):
                done = self.ebb(*arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotEqual(done.stdout, "")
                self.assertEqual(done.stderr, "")

    def test_the_environment_sets_what_a_flag_can_override(self):
        environment = {**os.environ, "EBB_DEVICE_BUDGET": "1KiB"}
        command = [EBB, "train", "--data", str(TEXT), *SMALL]

        def code(*more):
            return subprocess.run([*command, *more], capture_output=True, env=environment, cwd=self.folder).returncode

        self.assertEqual(code(), 1)
        self.assertEqual(code("--device-budget", "4GiB"), 0)


if __name__ == "__main__":
    harness.main()
