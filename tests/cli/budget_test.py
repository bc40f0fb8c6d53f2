"""A device budget: refused before the first step where it cannot be met, kept where it can."""

import harness
from harness import FEW_STEPS, FULL, MODEL, PLAIN, POLICIES, EbbTest, flags, run_all

OFFLOADED = ("every:1", "inputs")
ALL = [PLAIN, ("every:1", "none"), ("sqrt", "none"), *POLICIES]


class Budget(EbbTest):
    @classmethod
    def setUpClass(cls):
        cls.base = [*MODEL, "--steps", FEW_STEPS]

    def smallest_of(self, policies, *more):
        """The smallest budget of each policy, as the refusal of a hopeless one names it."""
        lines = [[*self.base, *flags(policy), "--device-budget", "1MiB", *more] for policy in policies]
        found = []
        for policy, run in zip(policies, run_all(lines)):
            error = self.assert_refused(run)
            self.assertIsNotNone(error, f"no report of the refusal\n{run.command}\n{run.err}")
            self.assertIsNotNone(error["smallest_device_budget_bytes"], run.command)
            self.assertNotIn("step 1", run.out + run.err)
            found.append(error["smallest_device_budget_bytes"])
        return found

    def test_a_cap_between_the_two_peaks(self):
        plain = self.train(*self.base)
        offloaded = self.train(*self.base, *flags(OFFLOADED))
        high, low = plain["device"]["peak_bytes"], offloaded["device"]["peak_bytes"]
        self.assertLess(low, high)
        smallest = self.smallest_of([OFFLOADED])[0]
        cap = max((low + high) // 2, smallest)
        self.assertLess(cap, high)

        error = self.assert_refused(self.run_one(*self.base, "--device-budget", cap))
        self.assertGreater(error["smallest_device_budget_bytes"], cap)
        capped = self.train(*self.base, *flags(OFFLOADED), "--device-budget", cap)
        self.assertEqual(capped["loss"], plain["loss"])
        self.assertLessEqual(capped["device"]["peak_bytes"], cap)
        self.assertEqual(capped["device"]["budget_bytes"], cap)

    def run_one(self, *arguments):
        return run_all([list(arguments)])[0]

    def test_the_refusal_is_one_clear_message(self):
        run = self.run_one(*self.base, "--device-budget", "1MiB")
        error = self.assert_refused(run)
        self.assertIn("budget", run.err)
        self.assertNotEqual(error["message"], "")
        self.assertEqual(run.out, "")

    def check_smallest(self, policies, *more):
        smallest = self.smallest_of(policies, *more)
        lines = []
        for policy, budget in zip(policies, smallest):
            lines.append([*self.base, *flags(policy), *more, "--device-budget", budget])
            lines.append([*self.base, *flags(policy), *more, "--device-budget", int(0.97 * budget)])
        runs = run_all(lines)
        for index, (policy, budget) in enumerate(zip(policies, smallest)):
            with self.subTest(policy=policy, more=more):
                report = self.assert_succeeds(runs[2 * index])
                self.assertLessEqual(report["device"]["peak_bytes"], budget)
                self.assert_refused(runs[2 * index + 1])

    def test_the_smallest_budget_works_and_a_little_less_is_refused_dry(self):
        self.check_smallest(ALL, "--dry")

    def test_the_smallest_budget_works_and_a_little_less_is_refused(self):
        self.check_smallest(ALL if not FULL else [PLAIN, OFFLOADED, ("none", "saved")], "--check")

    def test_dry_and_real_name_the_same_smallest_budget(self):
        self.assertEqual(self.smallest_of(ALL), self.smallest_of(ALL, "--dry"))

    def test_losses_at_the_smallest_budget_are_the_plain_ones(self):
        plain = self.train(*self.base)
        for policy in (OFFLOADED, ("none", "saved")):
            with self.subTest(policy=policy):
                budget = self.smallest_of([policy])[0]
                report = self.train(*self.base, *flags(policy), "--device-budget", budget, "--check")
                self.assertEqual(report["loss"], plain["loss"])
                self.assertEqual(report["gradients"]["checksum"], plain["gradients"]["checksum"])
                self.assertEqual(report["order"]["violations"], 0)

    def test_a_host_budget_that_is_too_small_keeps_or_waits_and_changes_no_bit(self):
        plain = self.train(*self.base)
        free = self.train(*self.base, *flags(("none", "saved")))
        budget = free["host"]["peak_requested_bytes"] // 2
        report = self.train(*self.base, *flags(("none", "saved")), "--host-budget", budget, "--check")
        self.assertLessEqual(report["host"]["pinned_bytes"], budget)
        self.assertEqual(report["loss"], plain["loss"])


if __name__ == "__main__":
    harness.main()
