"""The run report that `ebb train --report` writes: its keys, and what always holds among them.

`problems(report)` returns what is wrong with a report, in words; nothing if it is right.
"""

import math

NUMBER, COUNT, TEXT, BOOL = "a number", "a count", "a text", "true or false"
OBJECT, LIST = "an object", "a list"


def optional(kind):
    return (kind, None)


PURPOSES = ("parameters", "gradients", "optimizer", "activations", "workspace")
PLAN = {
    "planned_bytes_per_second": optional(NUMBER),
    "measured_bytes_per_second": optional(NUMBER),
    "replans": COUNT,
    "step": COUNT,
}
KEPT = ("policy", "elsewhere", "small", "in_use", "no_room")
STALLS = ("d2h_backlog", "h2d_late", "host_full", "pin", "comm", "host")
BOUND = {key: NUMBER for key in ("seconds", "f", "r", "b", "o", "D", "H", "W", "d2h", "h2d", "duplex")}

# A pair (kind, None) may be null.
KEYS = {
    "version": COUNT,
    "config": OBJECT,
    "environment": {"version": TEXT, "commit": TEXT, "cpu": TEXT, "threads": COUNT},
    "model": TEXT,
    "world_size": COUNT,
    "rank": COUNT,
    "steps": COUNT,
    "tokens_per_step": COUNT,
    "loss": LIST,
    "clock": TEXT,
    "wall_step_seconds": optional(NUMBER),
    "device": {
        "name": TEXT,
        "budget_bytes": optional(COUNT),
        "peak_bytes": COUNT,
        "peak_activation_bytes": COUNT,
        "peak_without_bytes": optional(COUNT),
        "by_purpose": {key: COUNT for key in PURPOSES},
    },
    "activations": {
        **{
            f"{key}_bytes": COUNT
            for key in ("saved", "kept", "offloaded", "recomputed", "compressed", "shared")
        },
        "kept": {key: {"tensors": COUNT, "bytes": COUNT} for key in KEPT},
    },
    "host": {
        "budget_bytes": optional(COUNT),
        "pinned_bytes": COUNT,
        "peak_requested_bytes": COUNT,
        "pin_calls_in_steps": COUNT,
        "by_purpose": OBJECT,
        "no_room": {"waits": COUNT, "kept_bytes": COUNT, "recomputed_bytes": COUNT},
    },
    "nvme": {"written_bytes": COUNT, "read_bytes": COUNT},
    "transfers": {
        "d2h_bytes": COUNT,
        "h2d_bytes": COUNT,
        "revived_bytes": COUNT,
        "dropped_bytes": COUNT,
        "refetched_bytes": COUNT,
        "d2h_bytes_per_second": optional(NUMBER),
        "h2d_bytes_per_second": optional(NUMBER),
        "d2h_plan": PLAN,
        "h2d_plan": PLAN,
    },
    "time": {
        "step_seconds": optional(NUMBER),
        "step_seconds_without": optional(NUMBER),
        "compute_seconds": optional(NUMBER),
        "recompute_seconds": optional(NUMBER),
        "bound": optional(BOUND),
        "stall_seconds": optional({key: NUMBER for key in STALLS}),
    },
    "prefetch": {"hits": COUNT, "late": COUNT, "missed": COUNT},
    "gradients": {
        "checksum": LIST,
        "verified": BOOL,
        "bit_equal": optional(BOOL),
        "max_abs_difference": optional(NUMBER),
    },
    "order": {"checked": BOOL, "accesses": COUNT, "violations": COUNT},
    "plan": optional(OBJECT),
    "stages": LIST,
    "timeline": LIST,
    "warnings": LIST,
}
WARNING = {"code": TEXT, "message": TEXT}
ERROR = {
    "code": TEXT,
    "message": TEXT,
    "smallest_device_budget_bytes": optional(COUNT),
    "smallest_host_budget_bytes": optional(COUNT),
    "resource": optional(TEXT),
}


def is_a(kind, value):
    if kind == COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind == NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, {TEXT: str, BOOL: bool, OBJECT: dict, LIST: list}[kind])


def shape_problems(keys, value, path=""):
    """What differs between a value and the keys and kinds it should have."""
    if isinstance(keys, tuple):
        if value is not None:
            yield from shape_problems(keys[0], value, path)
    elif isinstance(keys, str):
        if not is_a(keys, value):
            yield f"{path} is {value!r}, not {keys}"
    elif not isinstance(value, dict):
        yield f"{path} is {value!r}, not an object"
    else:
        for key, kind in keys.items():
            name = f"{path}.{key}" if path else key
            if key not in value:
                yield f"{name} is missing"
            else:
                yield from shape_problems(kind, value[key], name)


def near(a, b):
    return abs(a - b) <= 1e-9 + 1e-6 * max(abs(a), abs(b))


def sum_problems(report):
    """The identities among the figures."""
    saved = report["activations"]
    parts = sum(saved[key] for key in ("kept_bytes", "offloaded_bytes", "recomputed_bytes", "shared_bytes"))
    if saved["saved_bytes"] != parts:
        yield f"saved_bytes {saved['saved_bytes']} is not kept + offloaded + recomputed + shared = {parts}"
    if saved["kept_bytes"] != sum(part["bytes"] for part in saved["kept"].values()):
        yield f"kept_bytes {saved['kept_bytes']} is not the sum of its reasons"
    moved = report["transfers"]
    back = moved["h2d_bytes"] + moved["revived_bytes"] + moved["dropped_bytes"]
    if moved["d2h_bytes"] != back:
        yield f"d2h_bytes {moved['d2h_bytes']} is not h2d + revived + dropped = {back}"
    time = report["time"]
    if report["clock"] == "virtual" and time["step_seconds"] is not None:
        parts = time["compute_seconds"] + time["recompute_seconds"] + sum(time["stall_seconds"].values())
        if not near(time["step_seconds"], parts):
            yield f"step_seconds {time['step_seconds']} is not compute + recompute + stalls = {parts}"
        bound = time["bound"]
        if bound and time["step_seconds"] < bound["seconds"] * (1 - 1e-9):
            yield f"step_seconds {time['step_seconds']} is below its bound {bound['seconds']}"
        # The closed form spreads t0 evenly over the bytes, which blocks of unlike sizes do not.
        if bound and bound["seconds"] < closed_form(bound) * 0.99:
            yield f"bound.seconds {bound['seconds']} is below the closed form {closed_form(bound)}"
    if report["device"]["peak_activation_bytes"] > report["device"]["peak_bytes"]:
        yield "peak_activation_bytes is above peak_bytes"


def closed_form(bound):
    """The weaker bound that anyone can work out from the report."""

    def over(bytes_left, rate):
        return max(bytes_left, 0) / rate if bytes_left > 0 else 0.0

    forward = max(bound["f"], over(bound["D"] - bound["W"], bound["d2h"]))
    backward = bound["r"] + bound["b"]
    backward = max(backward, over(bound["H"] - bound["W"], bound["h2d"]))
    both = over(bound["D"] + bound["H"] - 2 * bound["W"], bound["duplex"])
    return max(forward + backward + bound["o"], both)


def problems(report, dry=False):
    if "error" in report:
        return list(shape_problems(ERROR, report["error"], "error"))
    found = list(shape_problems(KEYS, report))
    if found:
        return found
    found = list(sum_problems(report))
    for index, warning in enumerate(report["warnings"]):
        found += shape_problems(WARNING, warning, f"warnings[{index}]")
    steps = 0 if dry else report["steps"]
    for name, values in (("loss", report["loss"]), ("checksum", report["gradients"]["checksum"])):
        # Checksums cost a pass over the gradients, so a run may leave them out altogether.
        if len(values) != steps and not (name == "checksum" and not values):
            found.append(f"{len(values)} values of {name} for {steps} steps")
    return found
