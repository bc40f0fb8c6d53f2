"""Prints the tables of docs/performance.md: python3 docs/figures.py build/release/bin/ebb"""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["EBB"] = str(pathlib.Path(sys.argv[1]).resolve())
sys.path.insert(0, str(ROOT / "tests/cli"))

from harness import flags, run_all  # noqa: E402
from overlap_test import POLICIES, PROFILES, SHAPES, profile_copies  # noqa: E402

PLAIN, RECOMPUTED, OFFLOADED = ("none", "none"), ("every:1", "none"), ("every:1", "inputs")


def reports(lines):
    for run in run_all(lines):
        if run.code != 0:
            sys.exit(f"{run.command}\n{run.err}")
        yield run.report


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def mib(count):
    return f"{count / 2**20:,.1f}"


def depth_table(title, shape, depths, really_run):
    print(f"\n{title}: peak activation MiB\n")
    policies = (PLAIN, RECOMPUTED, OFFLOADED)

    def line(depth, policy):
        really = [] if really_run and policy == OFFLOADED else ["--dry"]
        return [*shape, "--layers", depth, "--steps", 2, *flags(policy), *really]

    lines = [line(depth, policy) for depth in depths for policy in policies]
    peaks = [report["device"]["peak_activation_bytes"] for report in reports(lines)]
    row("layers", "nothing", "`every:1`", "`every:1` + `inputs`", "against the first row")
    row(*["---:"] * 5)
    for index, depth in enumerate(depths):
        plain, recomputed, offloaded = peaks[3 * index : 3 * index + 3]
        row(depth, mib(plain), mib(recomputed), mib(offloaded), f"{offloaded / peaks[2]:.3f}")


def overlap_table(folder):
    jobs = [(s, p, policy) for s in SHAPES for p in PROFILES for policy in [*POLICIES, PLAIN]]
    profiles = dict(profile_copies(folder))
    lines = []
    for shape, profile, policy in jobs:
        sizes = ["--batch", SHAPES[shape]["batch"], "--seq", SHAPES[shape]["seq"], "--steps", 3]
        device = ["--device", f"sim:{profiles[profile]}"]
        lines.append([*SHAPES[shape]["line"], *sizes, "--dry", *device, *flags(policy)])
    found = dict(zip(jobs, reports(lines)))
    print()
    row("model", "profile", "policy", "step s", "compute + recompute s", "bound s", "step / allowed", "peak GiB", "plain GiB")
    row("---", "---", "---", *["---:"] * 6)
    for (shape, profile, policy), report in found.items():
        if policy == PLAIN:
            continue
        time = report["time"]
        work = time["compute_seconds"] + time["recompute_seconds"]
        allowed = max(1.02 * work, 1.05 * time["bound"]["seconds"])
        peaks = [found[shape, profile, p]["device"]["peak_activation_bytes"] / 2**30 for p in (policy, PLAIN)]
        seconds = (f"{value:.4f}" for value in (time["step_seconds"], work, time["bound"]["seconds"]))
        name = f"`{policy[0]}` / `{policy[1]}`"
        row(shape, profile, name, *seconds, f"{time['step_seconds'] / allowed:.3f}", *(f"{p:.2f}" for p in peaks))


def main():
    nano = ["--model", "gpt2-nano"]
    depth_table("gpt2-nano, batch 8 x 256, on sim:a100-pcie4", nano, (8, 16, 32, 48), really_run=True)
    xl = ["--model", "gpt2-xl", "--batch", 4, "--seq", 1024, "--device", "sim:gb300"]
    depth_table("gpt2-xl, batch 4 x 1024, dry, on sim:gb300", xl, (8, 16, 32, 48, 96), really_run=False)
    with tempfile.TemporaryDirectory() as folder:
        overlap_table(folder)


if __name__ == "__main__":
    main()
