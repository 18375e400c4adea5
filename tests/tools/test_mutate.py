"""The mutation tester changes what code means, and tells which changes the tests notice."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tools.mutate import GROUPS, PER_FUNCTION, draw, files_of
from tools.mutations import changed_by, mutations

from tests.system_programs import program

ROOT = Path(__file__).parent.parent.parent

LIMITS = """\
\"\"\"Limits.\"\"\"

SMALL = 3


def is_large(count: int) -> bool:
    return count > 10


def is_small(count: int) -> bool:
    return count < SMALL


def untested(count: int) -> int:
    return count


def in_a_child(count: int) -> int:
    return +count


def evens(counts: list[int]) -> list[int]:
    kept = []
    for count in counts:
        if count % 2:
            continue
        kept.append(count)
    return kept
"""
TESTS = """\
import os
import subprocess
import sys

from gdrkit.limits import evens, is_large, is_small


def test_large_starts_above_ten():
    assert is_large(11) and not is_large(10)


def test_one_is_small_and_nine_is_not():
    assert is_small(1) and not is_small(9)


def test_only_on_the_first_machine():
    assert is_small(1) and "ELSEWHERE" not in os.environ


def test_odd_counts_are_left_out():
    assert evens([1, 2, 3, 4]) == [2, 4]


def test_four_is_four_in_a_child():
    program = "import sys; from gdrkit.limits import in_a_child; sys.exit(in_a_child(4))"
    assert subprocess.run([sys.executable, "-I", "-c", program]).returncode == 4
"""
JUDGED = (
    "    return count > 10", "    return count < SMALL", "    return count", "    return +count",
    "            continue",
)  # fmt: skip
"""The lines whose changes are judged."""


def changed(source: str) -> set[str]:
    """What the changes of one line make of it."""
    texts = [text for row in mutations(source) if (text := changed_by(row, source))]
    return {ast.unparse(ast.parse(text)) for text in texts}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a is not b", {"a is b"}),
        ("state == 'up'", {"state != 'up'", "state == 'up~'"}),
        ("a and b", {"a or b", "a", "b"}),
        ("x = not a", {"x = a"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = True", {"x = False"}),
        ("x = a[1:]", {"x = a[:]", "x = a[2:]", "x = a[0:]"}),
        ("x = any(rows)", {"x = all(rows)"}),
        ("x = copy(a, b)", {"x = copy(b, a)"}),
        ("x = [a for a in b if a.c]", {"x = [a for a in b if True]"}),
        ("fsync(a)", {"pass"}),
        ("raise Refused", {"pass"}),
        ("x = a if b else c", {"x = a if not b else c"}),
    ],
)
def test_a_change_is_small_and_changes_the_meaning(source, expected):
    assert changed(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Words with 3 numbers, and more."""',
        "def f(a: Literal[3]) -> tuple[int, 4]: ...",
        "Row = tuple[str, 3]",
        "TIMEOUT_S = 3",
        "x = wait(timeout_s=3)",
        "def f(pause_s=3): ...",
        "x = 'text that is shown'",
        "x = f'{a + 1} rows'",
        "assert a == 3",
        "if TYPE_CHECKING:\n    x = 3",
        "@lru_cache(maxsize=3)\ndef f(): ...",
        "class A(Struct, frozen=True): ...",
        "def __repr__(self):\n    return a < 3",
    ],
)
def test_what_no_test_should_notice_is_not_changed(source):
    assert changed(source) == set()


def test_a_change_replaces_its_own_text_only():
    """Columns are counted in bytes, and a change may span lines."""
    source = 'before = "é"; x = (a <\n    b)  # why\nafter = 1\n'
    (comparison,) = [row for row in mutations(source) if row.kind == "comparison"]
    assert comparison.apply(source) == 'before = "é"; x = ((a <= b))  # why\nafter = 1\n'


def test_a_seed_repeats_its_draw_and_another_draws_otherwise():
    first, again, other = (draw("handshake", seed, 20) for seed in (1, 1, 2))
    assert first == again and first != other
    assert len(first) == 20
    assert max(Counter((row.path, row.mutation.function) for row in first).values()) <= PER_FUNCTION


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_more_changes_than_are_drawn(group):
    """Some more, of a few files: a few of them change nothing."""
    found = 0
    for path in files_of(group):
        of_function = Counter(mutation.function for mutation in mutations((ROOT / path).read_text()))
        found += sum(min(count, PER_FUNCTION) for count in of_function.values())
        if found >= 100:
            return
    pytest.fail(f"{group} has {found}")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """What the tool shows for each line of LIMITS, in a repository whose coverage was recorded on another
    machine: there, test_only_on_the_first_machine passed."""
    git = program("git")
    root = tmp_path_factory.mktemp("toy")
    for folder in ("src/gdrkit", "tests", "tools", "docs"):
        (root / folder).mkdir(parents=True)
    for path in (ROOT / "tools").glob("muta*.py"):
        shutil.copy(path, root / "tools")
    (root / "src/gdrkit/__init__.py").write_text("")
    (root / "src/gdrkit/limits.py").write_text(LIMITS)
    (root / "tests/test_limits.py").write_text(TESTS)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["slow", "lab"]\n')
    subprocess.run([git, "init", "-q"], cwd=root, check=True)

    def run(*words, **more):
        command = [sys.executable, "-m", "tools.mutate", "--coverage", str(root.parent / "record"), *words]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment | more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("--record")
    lines = LIMITS.splitlines()
    wanted = [
        word for at in map(lines.index, JUDGED) for word in ("--only", f"src/gdrkit/limits.py:{at + 1}")
    ]
    found = defaultdict(list)
    for row in run(*wanted, ELSEWHERE="1").splitlines()[1:]:
        if not row.startswith(" "):
            at = int(row.split("limits.py:")[1].split()[0])
        found[lines[at - 1]].append(row)
    return found


def outcomes(judged, source_line):
    rows = judged[source_line]
    return [row for row in rows if not row.startswith(" ")], [row for row in rows if row.startswith(" ")]


def test_a_change_at_a_tested_limit_is_killed(judged):
    rows, shown = outcomes(judged, "    return count > 10")
    assert len(rows) == 4 and all(row.startswith("killed") for row in rows)
    assert shown == []


def test_a_change_that_no_test_reaches_is_no_kill(judged):
    rows, _ = outcomes(judged, "    return count")
    assert rows[-1].startswith("not reached")


def test_a_line_that_only_a_child_reaches_is_judged_by_the_test_of_the_child(judged):
    (row,), _ = outcomes(judged, "    return +count")
    assert row.startswith("killed") and row.endswith(
        " by tests/test_limits.py::test_four_is_four_in_a_child"
    )


def test_a_test_that_fails_without_a_change_notices_nothing(judged):
    """No other test tries that limit, so the change survives, and is shown."""
    rows, shown = outcomes(judged, "    return count < SMALL")

    comparisons = [row for row in rows if "comparison" in row]
    assert [row.split()[0] for row in comparisons] == ["killed", "survived"]
    assert comparisons[0].endswith(" by tests/test_limits.py::test_only_on_the_first_machine")
    assert "    +    return (count <= SMALL)" in shown
    others = [row for row in rows if "comparison" not in row]
    assert others[-1].startswith("killed")  # by a test that passes without the change


def test_a_jump_that_the_interpreter_skips_is_judged_by_the_tests_of_its_condition(judged):
    rows, _ = outcomes(judged, "            continue")
    assert [row.split()[0] for row in rows] == ["killed"]


@pytest.mark.parametrize(("switch", "status"), [("", 1), ("off", 0)])
def test_snapshots_can_be_switched_off(tmp_path, switch, status):
    test = tmp_path / "test_words.py"
    test.write_text("def test_words(snapshot):\n    assert 'words' == snapshot\n")
    words = ["-p", "tools.mutate_plugin", "-p", "no:cacheprovider", "-n0", f"--rootdir={tmp_path}"]
    words.append(f"--basetemp={tmp_path / 'pytest'}")
    environment = os.environ | {"GDRKIT_MUTATE_SNAPSHOTS": switch}
    done = subprocess.run([sys.executable, "-m", "pytest", *words, str(test)], cwd=ROOT, env=environment)

    assert done.returncode == status
