"""The table of seconds by folder."""

from tools.folder_times import table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.cli.test_fix.TestApply" name="a" time="30.2"/>
<testcase classname="tests.cli.test_topo" name="b" time="1.3"/>
<testcase classname="tests.test_honesty" name="c" time="80.0"/>
<testcase classname="tests.node.test_node" name="d" time="9.9"/>
<testcase classname="tests.report.test_advice" name="e" time="0.1"/>
</testsuite></testsuites>"""


def test_folders_are_listed_by_their_seconds_and_small_ones_together():
    assert [line.split() for line in table(REPORT).splitlines()] == [
        ["tests/test_honesty.py", "1", "tests", "80", "s"],
        ["tests/cli", "2", "tests", "32", "s"],
        ["2", "others", "2", "tests", "10", "s"],
        ["all", "5", "tests", "122", "s"],
    ]
