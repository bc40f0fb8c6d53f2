"""Offloading and checkpointing change no bit of losses and gradients, in any order of work."""

import harness
from harness import FEW_STEPS, FULL, MODEL, PLAIN, POLICIES, SEEDS, STEPS, EbbTest, flags, run_all

MAIN = POLICIES[0]
VIRTUAL_TIMES = ("step_seconds", "step_seconds_without", "compute_seconds", "recompute_seconds", "bound", "stall_seconds")


def orders(policy):
    """Which orders a policy runs in: at full size the main one alone goes through all seeds."""
    seeds = SEEDS if policy == MAIN or not FULL else 1
    return ["eager", "time"] + [f"fuzz:{seed}" for seed in range(1, seeds + 1)]


def steps_of(order):
    """At full size a step is seconds: the first seed takes them all, the others a few."""
    return FEW_STEPS if order.startswith("fuzz:") and order != "fuzz:1" else STEPS


class EqualBits(EbbTest):
    @classmethod
    def setUpClass(cls):
        jobs = [(policy, order) for policy in POLICIES for order in orders(policy)]
        lines = [cls.line(PLAIN, STEPS), cls.line(PLAIN, FEW_STEPS)]
        for policy, order in jobs:
            checks = ["--check", "--verify-gradients"] if order == "time" else ["--check"]
            lines.append(cls.line(policy, steps_of(order), "--order", order, *checks))
        all_runs = run_all(lines)
        cls.plain = {STEPS: all_runs[0], FEW_STEPS: all_runs[1]}
        cls.runs = dict(zip(jobs, all_runs[2:]))

    @staticmethod
    def line(policy, steps, *more):
        return [*MODEL, "--steps", steps, *flags(policy), *more]

    def test_losses_and_gradients_are_those_of_the_plain_run(self):
        plain = {steps: self.assert_succeeds(run) for steps, run in self.plain.items()}
        self.assertEqual(len(set(plain[STEPS]["gradients"]["checksum"])), STEPS)
        for job, run in self.runs.items():
            with self.subTest(job=job):
                report, expected = self.assert_succeeds(run), plain[steps_of(job[1])]
                self.assertEqual(report["loss"], expected["loss"])
                self.assertEqual(report["gradients"]["checksum"], expected["gradients"]["checksum"])

    def test_another_seed_gives_other_losses(self):
        other = self.train(*self.line(PLAIN, FEW_STEPS), "--seed", 2)
        self.assertNotEqual(other["loss"], self.plain[FEW_STEPS].report["loss"])

    def test_gradients_are_verified_against_a_device_without_hooks(self):
        for policy in POLICIES:
            with self.subTest(policy=policy):
                gradients = self.runs[policy, "time"].report["gradients"]
                self.assertIs(gradients["verified"], True)
                self.assertIs(gradients["bit_equal"], True)
                self.assertEqual(gradients["max_abs_difference"], 0)

    def test_no_access_is_out_of_order(self):
        for job, run in self.runs.items():
            with self.subTest(job=job):
                order = run.report["order"]
                self.assertIs(order["checked"], True)
                self.assertGreater(order["accesses"], 0)
                self.assertEqual(order["violations"], 0)

    def test_the_pool_never_pins_inside_a_step_and_fits_what_is_parked(self):
        for job, run in self.runs.items():
            with self.subTest(job=job):
                host = run.report["host"]
                self.assertEqual(host["pin_calls_in_steps"], 0)
                self.assertGreater(host["peak_requested_bytes"], 0)
                self.assertLessEqual(host["pinned_bytes"], 1.05 * host["peak_requested_bytes"])

    def test_something_is_offloaded_and_comes_back(self):
        for job, run in self.runs.items():
            with self.subTest(job=job):
                moved = run.report["transfers"]
                self.assertGreater(moved["d2h_bytes"], 0)
                self.assertGreater(moved["h2d_bytes"], 0)
                self.assertEqual(moved["d2h_bytes"], moved["h2d_bytes"] + moved["revived_bytes"] + moved["dropped_bytes"])

    def test_the_order_of_moving_bytes_changes_no_figure(self):
        for policy, order in self.runs:
            if steps_of(order) == STEPS:
                with self.subTest(policy=policy, order=order):
                    in_time = self.runs[policy, "time"]
                    self.assertEqual(figures(self.runs[policy, order].report), figures(in_time.report))

    def test_a_dry_run_agrees_in_bytes_and_virtual_time(self):
        policies = [PLAIN, *POLICIES]
        dry_runs = run_all([self.line(policy, STEPS, "--dry", "--check") for policy in policies])
        for policy, run in zip(policies, dry_runs):
            with self.subTest(policy=policy):
                dry = self.assert_succeeds(run)
                self.assertEqual(dry["loss"], [])
                self.assertEqual(dry["gradients"]["checksum"], [])
                real = self.plain[STEPS] if policy == PLAIN else self.runs[policy, "time"]
                self.assertEqual(figures(dry), figures(real.report))


def figures(report):
    """Bytes and virtual times: all that a dry run can know."""
    kept = {key: report[key] for key in ("device", "activations", "host", "transfers", "prefetch")}
    kept["time"] = {key: report["time"][key] for key in VIRTUAL_TIMES}
    return kept


if __name__ == "__main__":
    harness.main()
