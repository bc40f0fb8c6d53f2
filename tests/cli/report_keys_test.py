"""The check of reports complains about what is wrong in one, or a clean report proves nothing."""

import copy

import harness
import report_keys
from harness import MODEL, EbbTest, flags


def set_at(report, path, value):
    changed = copy.deepcopy(report)
    *parents, last = path.split(".")
    part = changed
    for key in parents:
        part = part[key]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return changed


class ReportKeys(EbbTest):
    @classmethod
    def setUpClass(cls):
        line = [*MODEL, "--steps", 2, *flags(("every:1", "inputs")), "--check", "--verify-gradients"]
        cls.run_of_all = harness.run_all([line])[0]

    def test_a_run_has_every_key(self):
        report = self.assert_succeeds(self.run_of_all)
        self.assertEqual(report["version"], 1)
        self.assertEqual(report["clock"], "virtual")
        self.assertEqual(report["world_size"], 1)
        self.assertEqual(report["steps"], 2)
        self.assertEqual(len(report["loss"]), 2)
        self.assertGreater(report["tokens_per_step"], 0)

    def test_each_missing_key_is_found(self):
        report = self.assert_succeeds(self.run_of_all)

        def paths(keys, path=""):
            if isinstance(keys, tuple):
                keys = keys[0]
            if isinstance(keys, dict):
                for key, kind in keys.items():
                    yield f"{path}{key}"
                    yield from paths(kind, f"{path}{key}.")

        for path in paths(report_keys.KEYS):
            with self.subTest(path=path):
                self.assertNotEqual(report_keys.problems(set_at(report, path, None)), [])

    def test_sums_that_do_not_add_up_are_found(self):
        report = self.assert_succeeds(self.run_of_all)
        for path, change in {
            "activations.kept_bytes": lambda n: n + 1,
            "transfers.revived_bytes": lambda n: n + 1,
            "transfers.h2d_bytes": lambda n: n + 4096,
            "time.step_seconds": lambda t: t * 1.01,
            "time.bound.seconds": lambda t: t * 1e3,
            "device.peak_activation_bytes": lambda n: 10**15,
            "steps": lambda n: n + 1,
            "order.violations": lambda n: -1,
            "order.checked": lambda n: "yes",
        }.items():
            with self.subTest(path=path):
                value = report
                for key in path.split("."):
                    value = value[key]
                self.assertNotEqual(report_keys.problems(set_at(report, path, change(value))), [])


if __name__ == "__main__":
    harness.main()
