"""Runs every test of this folder against a program: python3 run_all.py build/release/bin/ebb [test...]

With EBB_MATRIX=full, at the sizes that the figures are promised for.
"""

import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def main():
    environment = {**os.environ, "EBB": str(pathlib.Path(sys.argv[1]).resolve())}
    names = sys.argv[2:] or sorted(path.stem for path in HERE.glob("*_test.py"))
    failed = []
    for name in names:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, HERE / f"{name}.py"], env=environment).returncode != 0:
            failed.append(name)
        print(f"-- {name}: {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
