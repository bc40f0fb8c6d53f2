"""`ebb doctor` says what this machine can do, on any machine."""

import json
import subprocess

import harness
from harness import EBB, EbbTest


class Doctor(EbbTest):
    def doctor(self, *arguments):
        done = subprocess.run([EBB, "doctor", *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_names_each_thing_it_looks_at(self):
        text = self.doctor().lower()
        for word in ("cores", "ram", "cgroup", "memlock", "numa", "gpu", "mpi", "nvme"):
            with self.subTest(word=word):
                self.assertIn(word, text)

    def test_json_is_for_machines(self):
        self.assertIsInstance(json.loads(self.doctor("--json")), (dict, list))


if __name__ == "__main__":
    harness.main()
