"""Compares our GPT-2 with PyTorch's: `make test-peers`.

dump_gpt2 trains for a few steps and writes its first weights, its batches, and every step's loss
and gradients. Here PyTorch starts from the same weights, takes the same steps with its own AdamW,
and must agree: the loss within 1e-6, and for each parameter |g - g'| <= 1e-5 |g| + 1e-8. The
gradient of the key bias is zero in exact arithmetic (the softmax does not see a constant added to
a row), so it is compared absolutely.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

from torch_gpt2 import Gpt2, adamw

LOSS_TOLERANCE = 1e-6
RELATIVE, ABSOLUTE = 1e-5, 1e-8
KEY_BIAS_TOLERANCE = 1e-7


def load(folder, index, file):
    """The parameters, or gradients, that `file` holds one after the other."""
    flat = numpy.fromfile(folder / file, dtype=numpy.float32)
    found, at = {}, 0
    for parameter in index["parameters"]:
        size = int(numpy.prod(parameter["shape"]))
        found[parameter["name"]] = torch.from_numpy(flat[at : at + size].copy()).view(parameter["shape"])
        at += size
    assert at == flat.size, f"{file} holds {flat.size} numbers, not {at}"
    return found


def split_key_bias(name, gradient):
    """The parts of a gradient: (label, values, whether they are zero in exact arithmetic)."""
    if not name.endswith("attn.c_attn.bias"):
        return [(name, gradient, False)]
    q, k, v = gradient.chunk(3)
    return [(f"{name}[q]", q, False), (f"{name}[k]", k, True), (f"{name}[v]", v, False)]


def gradient_failures(step, model, expected):
    worst = ("", 0.0)
    for name, parameter in model.named_parameters():
        theirs = split_key_bias(name, parameter.grad.double())
        ours = split_key_bias(name, expected[name].double())
        for (label, g, zero), (_, mine, _) in zip(theirs, ours):
            if zero:
                allowed, distance = KEY_BIAS_TOLERANCE, max(g.abs().max().item(), mine.abs().max().item())
            else:
                allowed, distance = RELATIVE * g.norm().item() + ABSOLUTE, (g - mine).norm().item()
            worst = max(worst, (label, distance / allowed), key=lambda pair: pair[1])
            if not distance <= allowed:
                yield f"step {step}, {label}: |g - g'| = {distance:.3g}, allowed {allowed:.3g}, |g| = {g.norm():.3g}"
    print(f"  gradients: the furthest uses {100 * worst[1]:.1f} % of its tolerance ({worst[0]})")


def compare(folder):
    index = json.loads((folder / "index.json").read_text())
    model = Gpt2(**index["model"])
    names = [name for name, _ in model.named_parameters()]
    ours = [parameter["name"] for parameter in index["parameters"]]
    if sorted(names) != sorted(ours):
        return [f"parameters differ: {sorted(set(names) ^ set(ours))}"]
    model.load_state_dict(load(folder, index, "weights.bin"))
    decays = {parameter["name"]: parameter["decay"] for parameter in index["parameters"]}
    options = index["optimizer"]
    optimizer = adamw(
        model, decays.get, 0.0, (options["beta1"], options["beta2"]), options["epsilon"], options["weight_decay"]
    )
    failures = []
    shape = (index["batch"], index["seq"])
    for number, step in enumerate(index["steps"], 1):
        tokens, targets = (
            torch.from_numpy(numpy.fromfile(folder / step[key], dtype=numpy.int32).reshape(shape)).long()
            for key in ("tokens", "targets")
        )
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)
        loss.backward()
        distance = abs(loss.item() - step["loss"])
        print(f"step {number}: loss {loss.item():.7f} and {step['loss']:.7f}, apart {distance:.2g}")
        if not distance <= LOSS_TOLERANCE:
            failures.append(f"step {number}: losses are {distance:.3g} apart, allowed {LOSS_TOLERANCE}")
        failures += gradient_failures(number, model, load(folder, index, step["gradients"]))
        torch.nn.utils.clip_grad_norm_(model.parameters(), options["max_norm"])
        for group in optimizer.param_groups:
            group["lr"] = step["learning_rate"]
        optimizer.step()
    final = load(folder, index, "final_weights.bin")
    for name, parameter in model.named_parameters():
        for label, mine, zero in split_key_bias(name, final[name].double()):
            theirs = dict((part[0], part[1]) for part in split_key_bias(name, parameter.detach().double()))[label]
            # The key bias moves by rounding errors that AdamW makes as large as any step.
            distance, allowed = (theirs - mine).norm().item(), 1e-4 * theirs.norm().item() + 1e-6
            if not zero and not distance <= allowed:
                failures.append(f"final {label}: |w - w'| = {distance:.3g}, allowed {allowed:.3g}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dump", required=True, help="the program dump_gpt2")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.dump, folder], check=True)
        failures = compare(pathlib.Path(folder))
    print("\n".join(failures) or "agrees with PyTorch")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
