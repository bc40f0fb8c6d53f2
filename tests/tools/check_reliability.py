"""Fails if docs/reliability.md names a test that is not there, or leaves a behaviour without one. Run from the root.

Each behaviour is a row `| number | in words | tests |`; a test is `path: Name` in backquotes, one of a family
`path: Name/Member`, whose members are texts in the file or in tests/support.
"""

import pathlib
import re
import sys
import tempfile

PAGE = "docs/reliability.md"
BEHAVIOURS = range(1, 45)
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \|$", re.M)
TEST = re.compile(r"`([\w./]+\.(?:cpp|py)): (\w+)(?:/(\w+))?`")


def is_there(root, path, name, member=""):
    """Whether a file has a test of that name, with that member."""
    file = root / path
    if not file.is_file():
        return False
    text = file.read_text()
    support = [other.read_text() for other in (root / "tests/support").glob("*.h")]
    if member and not any(f'"{member}"' in part for part in [text, *support]):
        return False
    if file.suffix == ".py":
        return re.search(rf"^\s*def {name}\(", text, re.M) is not None
    return re.search(rf"\bTEST(?:_F|_P)?\(\s*\w+,\s*{name}\s*\)", text) is not None


def problems(root, behaviours=BEHAVIOURS):
    text = (root / PAGE).read_text()
    rows = ROW.findall(text)
    numbers = [int(number) for number, _, _ in rows]
    for number in behaviours:
        if numbers.count(number) != 1:
            yield f"{PAGE}: behaviour {number} has {numbers.count(number)} rows, not 1"
    for number, words, tests in rows:
        if not words.strip():
            yield f"{PAGE}: behaviour {number} is not described"
        if not TEST.search(tests):
            yield f"{PAGE}: behaviour {number} has no test"
    for path, name, member in sorted(set(TEST.findall(text))):
        if not is_there(root, path, name, member):
            yield f"{PAGE}: {path} has no test {name}" + (f"/{member}" if member else "")


def self_test():
    """Each fault must be found, or a clean page proves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "a_test.cpp").write_text('TEST_F(Some,\n       Works) {}\nvoid Other();\n"Odd"')
        (root / "b_test.py").write_text("    def test_works(self):\n        test_other()\n")
        good = "| 1 | one | `a_test.cpp: Works`, `b_test.py: test_works` |\n"
        for page, wrong in {
            good + good.replace("1", "2"): 0,
            good + good.replace("1", "2").replace("Works", "Works/Odd"): 0,
            good + good.replace("1", "2").replace("Works", "Works/Even"): 1,
            good: 1,
            good + good: 2,
            good + "| 2 | two | none |\n": 1,
            good + "| 2 |  | `a_test.cpp: Works` |\n": 1,
            good + "| 2 | two | `a_test.cpp: Other` |\n": 1,
            good + "| 2 | two | `b_test.py: test_other` |\n": 1,
            good + "| 2 | two | `no_test.cpp: Works` |\n": 1,
            good + good.replace("1", "2") + "and `a_test.cpp: Gone`\n": 1,
        }.items():
            (root / PAGE).write_text(page)
            found = list(problems(root, range(1, 3)))
            if len(found) != wrong:
                yield f"self-test: found {found}, not {wrong}, in\n{page}"


if __name__ == "__main__":
    failures = [*self_test(), *problems(pathlib.Path())]
    print("\n".join(failures) or "reliability page ok")
    sys.exit(bool(failures))
