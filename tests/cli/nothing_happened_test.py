"""A policy that moves nothing, or a peak that does not move, is said loudly: with the reason, and what to do."""

import re

import harness
from harness import FEW_STEPS, MODEL, EbbTest, flags, run_all, without

SHORT = "--layers 4 --heads 2 --hidden 64 --batch 1 --seq 8".split()


class NothingHappened(EbbTest):
    def warned(self, code, *arguments):
        """The warning of a run: in the report, in the summary, and on the terminal."""
        run = run_all([[*arguments, "--steps", FEW_STEPS]])[0]
        report = self.assert_succeeds(run)
        said = [warning["message"] for warning in report["warnings"] if warning["code"] == code]
        self.assertEqual(len(said), 1, f"{run.command}\n{report['warnings']}")
        self.assertIn(f"ebb: warning: {said[0]}", run.err)
        self.assertIn(f"WARNING: {said[0]}", run.out)
        return said[0]

    def test_everything_is_below_the_minimum(self):
        model = without("--min-offload-bytes", MODEL)
        said = self.warned("nothing_offloaded", *model, *flags(("none", "saved")), "--min-offload-bytes", "1GiB")
        least = int(re.search(r"lower --min-offload-bytes to (\d+)", said)[1])
        line = [*model, *flags(("none", "saved")), "--min-offload-bytes", least, "--steps", FEW_STEPS]
        self.assertGreater(self.train(*line)["activations"]["offloaded_bytes"], 0)

    def test_the_set_to_offload_is_empty_at_the_default_minimum(self):
        self.warned("nothing_offloaded", *SHORT, *flags(("every:1", "inputs")))

    def test_one_layer_gains_nothing_from_its_offload(self):
        self.warned("all_revived", *without("--layers", MODEL), "--layers", 1, *flags(("every:1", "inputs")))

    def test_a_peak_of_weights_does_not_move(self):
        line = [*SHORT, "--vocab", 20000, "--min-offload-bytes", 512, *flags(("every:1", "inputs"))]
        said = self.warned("peak_unchanged", *line)
        self.assertIn("most of it is optimizer", said)

    def test_one_segment_of_all_layers(self):
        self.warned("one_segment", *MODEL, *flags(("every:50", "none")))

    def test_a_switch_without_effect(self):
        self.warned("no_effect", *without("--min-offload-bytes", MODEL), "--min-offload-bytes", "1MiB")

    def test_a_run_that_gains_has_no_warning(self):
        for policy in (("every:1", "inputs"), ("none", "saved")):
            with self.subTest(policy=policy):
                report = self.train(*MODEL, "--steps", FEW_STEPS, *flags(policy))
                self.assertEqual(report["warnings"], [])
                self.assertLess(report["device"]["peak_bytes"], report["device"]["peak_without_bytes"])


if __name__ == "__main__":
    harness.main()
