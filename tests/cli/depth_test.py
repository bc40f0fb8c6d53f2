"""With each layer's boundary input offloaded, activation memory does not grow with depth."""

import harness
from harness import MODEL, PLAIN, EbbTest, flags, run_all, without

OFFLOADED = ("every:1", "inputs")
DEPTHS = (8, 16, 32, 48)
SHALLOW, DEEP = DEPTHS[0], DEPTHS[-1]
STEPS = 2


class Depth(EbbTest):
    def peaks(self, model, policy, *more):
        lines = [[*model, "--layers", depth, "--steps", STEPS, *flags(policy), *more] for depth in DEPTHS]
        return [self.assert_succeeds(run)["device"]["peak_activation_bytes"] for run in run_all(lines)]

    def test_peak_activations_at_48_layers_are_those_at_8(self):
        for more in ([], ["--dry"]):
            peaks = self.peaks(without("--layers", MODEL), OFFLOADED, *more)
            print(f"\nlayers {DEPTHS}, every:1 + inputs {more}: peak activation bytes {peaks}")
            self.assertLessEqual(max(peaks), 1.05 * peaks[0], peaks)

    def test_without_offload_they_grow(self):
        for policy in (PLAIN, ("every:1", "none")):
            peaks = self.peaks(without("--layers", MODEL), policy, "--dry")
            print(f"\nlayers {DEPTHS}, {policy}: peak activation bytes {peaks}")
            self.assertEqual(peaks, sorted(set(peaks)))
            self.assertGreater(peaks[-1], 1.05 * peaks[0])

    def test_the_same_for_gpt2_xl_and_96_layers_dry(self):
        shapes = [["--model", "gpt2-xl", "--batch", 4, "--seq", 1024, "--layers", depth] for depth in (8, 48, 96)]
        lines = [[*shape, "--steps", STEPS, "--dry", "--device", "sim:gb300", *flags(OFFLOADED)] for shape in shapes]
        peaks = [self.assert_succeeds(run)["device"]["peak_activation_bytes"] for run in run_all(lines)]
        print(f"\ngpt2-xl, layers (8, 48, 96): peak activation bytes {peaks}")
        self.assertLessEqual(max(peaks), 1.05 * peaks[0], peaks)


if __name__ == "__main__":
    harness.main()
