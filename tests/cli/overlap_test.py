"""Transfers hide behind compute wherever the bound allows it: in virtual time, dry, on four profiles.

Shapes of a few layers are bound by launches, so these are big models, on copies of the profiles with
memory enough for their state.
"""

import json
import math
import pathlib
import tempfile

import harness
from harness import FULL, ROOT, EbbTest, flags, run_all

PROFILES = ("t4-pcie3", "a100-pcie4", "h100-pcie5", "gh200")
POLICIES = [("every:1", "inputs"), ("none", "saved")]
CAPACITY = 16 << 40
XL = {"hidden": 1600, "vocab": 50257, "seq": 1024, "batch": 8, "line": ["--model", "gpt2-xl"]}
WIDE = {
    "hidden": 4096,
    "vocab": 128256,
    "seq": 8192,
    "batch": 1,
    "line": "--model gpt2 --layers 32 --hidden 4096 --heads 32 --vocab 128256".split(),
}
SHAPES = {"gpt2-xl": XL, "wide": WIDE}
LARGEST_LOGITS = 256 << 20  # Logits are held in chunks of at most this.


def largest_block(shape, policy):
    """Of what a policy sends away: a boundary input, or the widest saved tensor."""
    rows = shape["batch"] * shape["seq"]
    if policy[1] == "inputs":
        return rows * shape["hidden"] * 4
    return max(rows * 4 * shape["hidden"] * 4, min(LARGEST_LOGITS, rows * shape["vocab"] * 4))


def profile_copies(folder):
    for name in PROFILES:
        source = ROOT / f"runtime/device/sim/profiles/{name}.json"
        profile = json.loads(source.read_text())
        key = next(key for key in profile if key.startswith("capacity"))
        value = profile[key]
        profile[key] = {**value, "value": CAPACITY} if isinstance(value, dict) else CAPACITY
        path = pathlib.Path(folder) / f"{name}.json"
        path.write_text(json.dumps(profile))
        yield name, path


class Overlap(EbbTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.profiles = dict(profile_copies(cls.folder.name))
        cls.jobs = [(s, p, policy) for s in SHAPES for p in PROFILES for policy in POLICIES]
        cls.free = dict(zip(cls.jobs, run_all([cls.line(job) for job in cls.jobs])))

    @classmethod
    def line(cls, job, *more):
        shape, profile, policy = job
        sizes = ["--batch", SHAPES[shape]["batch"], "--seq", SHAPES[shape]["seq"]]
        device = ["--device", f"sim:{cls.profiles[profile]}"]
        return [*SHAPES[shape]["line"], *sizes, "--dry", "--steps", 3, *device, *flags(policy), *more]

    def assert_hidden(self, job, report):
        time = report["time"]
        allowed = max(
            1.02 * (time["compute_seconds"] + time["recompute_seconds"]), 1.05 * time["bound"]["seconds"]
        )
        figures = f"{job}: step {time['step_seconds']:.6g} s, allowed {allowed:.6g} s, bound {time['bound']['seconds']:.6g} s"
        print(f"\n{figures}, peak {report['device']['peak_bytes'] / 2**30:.3f} GiB", end="")
        self.assertLessEqual(time["step_seconds"], allowed, f"{figures}, stalls {time['stall_seconds']}")

    def test_without_a_budget(self):
        for job, run in self.free.items():
            with self.subTest(job=job):
                self.assert_hidden(job, self.assert_succeeds(run))

    def test_really_offloaded(self):
        plain = dict(zip(self.jobs, run_all([self.line((s, p, ("none", "none"))) for s, p, _ in self.jobs])))
        for job, run in self.free.items():
            with self.subTest(job=job):
                report = self.assert_succeeds(run)
                without = self.assert_succeeds(plain[job])["device"]["peak_activation_bytes"]
                self.assertLessEqual(report["device"]["peak_activation_bytes"], without / 4)
                moved = report["transfers"]
                self.assertGreaterEqual(moved["h2d_bytes"], 0.8 * moved["d2h_bytes"])

    def test_with_any_budget_from_the_smallest_and_two_of_the_largest_blocks(self):
        refused = run_all([self.line(job, "--device-budget", "1MiB") for job in self.jobs])
        budgets = []
        for job, run in zip(self.jobs, refused):
            shape, _, policy = job
            least = self.assert_refused(run)["smallest_device_budget_bytes"]
            least += 2 * largest_block(SHAPES[shape], policy)
            most = max(self.free[job].report["device"]["peak_bytes"], least)
            count = 5 if FULL else 2
            for step in range(count):
                budgets.append((job, math.ceil(least + (most - least) * step / (count - 1) / 1.25)))
        runs = run_all([self.line(job, "--device-budget", budget) for job, budget in budgets])
        for (job, budget), run in zip(budgets, runs):
            with self.subTest(job=job, budget=budget):
                report = self.assert_succeeds(run)
                self.assertLessEqual(report["device"]["peak_bytes"], budget)
                self.assert_hidden(job, report)


if __name__ == "__main__":
    harness.main()
