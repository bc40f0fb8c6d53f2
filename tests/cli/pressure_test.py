"""Host memory that is too small: trained within it where that can be, with the same bits; refused with what would do where not."""

import harness
from harness import FEW_STEPS, MODEL, EbbTest, flags, run_all

SAVED = ("none", "saved")


def codes(report):
    return [warning["code"] for warning in report["warnings"]]


class Pressure(EbbTest):
    @classmethod
    def setUpClass(cls):
        cls.base = [*MODEL, "--steps", FEW_STEPS]

    def same_bits(self, a, b):
        self.assertEqual(a["loss"], b["loss"])
        self.assertEqual(a["gradients"]["checksum"], b["gradients"]["checksum"])

    def test_host_memory_that_ends_in_mid_forward_changes_no_bit_and_is_said(self):
        free = self.train(*self.base, *flags(SAVED))
        for part in (0.75, 0.5, 0.25):
            budget = int(part * free["host"]["peak_requested_bytes"])
            with self.subTest(part=part):
                run = run_all([[*self.base, *flags(SAVED), "--host-budget", budget, "--check"]])[0]
                report = self.assert_succeeds(run)
                self.same_bits(report, free)
                self.assertLessEqual(report["host"]["pinned_bytes"], budget)
                self.assertEqual(report["order"]["violations"], 0)
                self.assertIn("host_full", codes(report))
                self.assertIn("ebb: warning: ", run.err)
                self.assertIn("--host-budget", run.err)

    def test_both_budgets_too_small_to_keep_recomputes_instead(self):
        free = self.train(*self.base, *flags(SAVED))
        host = int(0.5 * free["host"]["peak_requested_bytes"])
        hopeless = run_all([[*self.base, *flags(SAVED), "--host-budget", host, "--device-budget", "1MiB"]])[0]
        smallest = self.assert_refused(hopeless)["smallest_device_budget_bytes"]
        self.assertIsNotNone(smallest)
        line = [*self.base, *flags(SAVED), "--host-budget", host, "--device-budget", smallest, "--check"]
        report = self.train(*line)
        self.same_bits(report, free)
        self.assertGreater(report["activations"]["recomputed_bytes"], 0)
        self.assertGreater(report["time"]["recompute_seconds"], 0)
        self.assertLessEqual(report["device"]["peak_bytes"], smallest)

    def test_a_host_budget_that_cannot_be_is_refused_with_the_smallest_that_can(self):
        line = [*self.base, *flags(SAVED), "--host-budget"]
        run = run_all([[*line, 1]])[0]
        error = self.assert_refused(run)
        self.assertEqual(error["code"], "RESOURCE_EXHAUSTED")
        self.assertIn("host memory", error["message"])
        smallest = error["smallest_host_budget_bytes"]
        self.assertIn(f"--host-budget {smallest}", run.err)
        report = self.train(*line, smallest)
        self.assertLessEqual(report["host"]["pinned_bytes"], smallest)

    def test_host_and_device_out_of_memory_are_told_apart(self):
        host, device = run_all(
            [[*self.base, *flags(SAVED), "--host-budget", 1], [*self.base, *flags(SAVED), "--device-budget", "1MiB"]]
        )
        error = self.assert_refused(host)
        self.assertEqual(error["resource"], "host_memory")
        self.assertIn("of host memory", error["message"])
        self.assertNotIn("device memory", host.err)
        error = self.assert_refused(device)
        self.assertEqual(error["resource"], "device_memory")
        self.assertIn("of device memory", error["message"])
        self.assertNotIn("host memory", device.err)


if __name__ == "__main__":
    harness.main()
