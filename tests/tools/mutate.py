"""Takes out one wait, fence or check after the other, and sees that a test fails without it.

  python3 tests/tools/mutate.py [--list FILE] [--build FOLDER] [--keep-going] [NAME...]

The list (tests/tools/mutations.toml) names for each mutation a file, the text in it, what to put
there, and the test programs that must notice. The tree is copied to a scratch folder, which
must pass first. A mutation is caught if a test fails, crashes or hangs; it is an error if the text
is not there exactly once, or if the result does not compile. Prints a table; exit code 1
unless all were caught.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANG_SECONDS = 300


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", type=pathlib.Path, default=ROOT / "tests/tools/mutations.toml")
    parser.add_argument("--build", type=pathlib.Path, help="scratch folder to use and keep; default: one that is removed")
    parser.add_argument("--check", action="store_true", help="only see that each text is there, once")
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    parser.add_argument("names", nargs="*", help="which mutations; default: all")
    return parser.parse_args()


def read(path, names):
    mutations = tomllib.loads(path.read_text())["mutation"]
    wrong = [f"{m['name']}: no such text in {m['file']}, or more than once"
             for m in mutations if (ROOT / m["file"]).read_text().count(m["old"]) != 1]
    doubled = {m["name"] for m in mutations if sum(n["name"] == m["name"] for n in mutations) > 1}
    wrong += [f"{name}: named twice" for name in sorted(doubled)]
    unknown = set(names) - {m["name"] for m in mutations}
    wrong += [f"{name}: not in {path.name}" for name in sorted(unknown)]
    if wrong:
        sys.exit("\n".join(wrong))
    return [m for m in mutations if not names or m["name"] in names]


class Tree:
    """A copy of the working tree, and its build folder."""

    def __init__(self, folder, jobs):
        self.source = folder / "source"
        self.build = folder / "build"
        self.jobs = jobs
        files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.splitlines()
        for file in files:
            if not (ROOT / file).is_file():
                continue
            target, text = self.source / file, (ROOT / file).read_bytes()
            if target.exists() and target.read_bytes() == text:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            shutil.copymode(ROOT / file, target)
        # What other builds compiled already is found again, wherever they stand.
        self.environment = {**os.environ, "CCACHE_BASEDIR": str(self.source), "CCACHE_NOHASHDIR": "1"}
        # As users get it: tests must not lean on asserts.
        subprocess.run(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DEBB_BENCH=OFF",
                        "-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"],
                       check=True, stdout=subprocess.DEVNULL, env=self.environment)

    def compile(self, targets):
        return subprocess.run(["cmake", "--build", self.build, "-j", self.jobs, "--target", *targets],
                              capture_output=True, text=True, env=self.environment)

    def run(self, test):
        """How the test program failed; None if it passed."""
        command = [self.build / "bin" / test["program"], "--gtest_brief=1", "--gtest_fail_fast",
                   f"--gtest_filter={test.get('filter', '*')}"]
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, cwd=self.source)
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode == 0:
            return None
        failed = [line.split("] ")[1].split(",")[0].split(" (")[0] for line in done.stdout.splitlines() if line.startswith("[  FAILED  ] ")]
        return failed[0] if failed else f"exit code {done.returncode}"

    def write(self, file, text):
        (self.source / file).write_text(text)


def tests_of(mutation):
    return [{"program": entry.partition(":")[0], "filter": entry.partition(":")[2] or "*"} for entry in mutation["tests"]]


def try_one(tree, mutation):
    """What became of it: (caught, how)."""
    original = (tree.source / mutation["file"]).read_text()  # The tree may move on meanwhile.
    tests = tests_of(mutation)
    tree.write(mutation["file"], original.replace(mutation["old"], mutation["new"]))
    try:
        built = tree.compile([test["program"] for test in tests])
        if built.returncode != 0:
            return False, "does not compile:\n" + built.stdout[-3000:]
        for test in tests:
            how = tree.run(test)
            if how is not None:
                return True, f"{test['program']}: {how}"
        return False, "NOT CAUGHT"
    finally:
        tree.write(mutation["file"], original)


def main():
    options = arguments()
    mutations = read(options.list, options.names)
    if options.check:
        print(f"{len(mutations)} mutations, each text there once")
        return 0
    folder = options.build or pathlib.Path(tempfile.mkdtemp(prefix="ebb-mutations-"))
    missed = 0
    try:
        tree = Tree(folder, options.jobs)
        programs = sorted({test["program"] for m in mutations for test in tests_of(m)})
        built = tree.compile(programs)
        if built.returncode != 0:
            sys.exit("the tree does not build:\n" + built.stdout[-3000:])
        for program in programs:
            if how := tree.run({"program": program}):
                sys.exit(f"the tree as it is fails {program}: {how}")
        for number, m in enumerate(mutations, 1):
            start = time.monotonic()
            caught, how = try_one(tree, m)
            missed += not caught
            print(f"{number:3}/{len(mutations)} {'caught' if caught else 'MISSED'} {time.monotonic() - start:4.0f} s  {m['name']}: {how}", flush=True)
    finally:
        if options.build is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(mutations) - missed} of {len(mutations)} caught")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
