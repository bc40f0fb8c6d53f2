"""A whole training step of gpt2 (124M, f32) against PyTorch eager, on the same cores in the same run.

The two take turns, a step each, so that both see the same machine. Prints both medians, their ratio,
and then our step op by op against its bound: gpt2_step.py build/release/bin/gpt2_step_bench
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/peers"))

import torch
from torch_gpt2 import Gpt2, adamw

GPT2 = {"layers": 12, "heads": 12, "hidden": 768, "vocabulary": 50257, "positions": 1024}


class PyTorch:
    def __init__(self, batch, seq, dropout):
        torch.manual_seed(1)
        self.model = Gpt2(**GPT2, dropout=dropout)
        self.optimizer = adamw(self.model, lambda name: name.endswith("weight"), 1e-4, (0.9, 0.95), 1e-8, 0.1)
        self.tokens = torch.randint(0, GPT2["vocabulary"], (batch, seq))
        self.targets = torch.randint(0, GPT2["vocabulary"], (batch, seq))

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.tokens, self.targets).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.perf_counter() - start


class Ours:
    def __init__(self, program, batch, seq, dropout, threads):
        sizes = {"--batch": batch, "--seq": seq, "--dropout": dropout, "--threads": threads}
        line = [program, "--serve"] + [str(word) for pair in sizes.items() for word in pair]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def table(self):
        return self.process.communicate("end\n")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sizes = (options.batch, options.seq, options.dropout)
    ours, theirs = Ours(options.program, *sizes, options.threads), PyTorch(*sizes)
    mine, other = [], []
    for _ in range(2):
        ours.step(), theirs.step()
    for _ in range(options.steps):
        mine.append(ours.step())
        other.append(theirs.step())
    a, b = statistics.median(mine), statistics.median(other)
    shape = f"batch {options.batch} x {options.seq}, dropout {options.dropout}, {options.threads} threads"
    print(f"gpt2 124M, {shape}, median of {options.steps} alternating steps")
    print(f"  PyTorch {torch.__version__} eager  {b:8.3f} s  ({min(other):.3f} to {max(other):.3f})")
    print(f"  Ebbtide on sim:free       {a:8.3f} s  ({min(mine):.3f} to {max(mine):.3f})")
    print(f"  PyTorch / Ebbtide         {b / a:8.2f}")
    print(ours.table(), end="")


if __name__ == "__main__":
    main()
