"""What a script's variables are, and a manifest that it writes with them, as bash itself fills it in."""

from __future__ import annotations

import subprocess

import pytest

from gdrkit.facts.shell_variables import assigned, with_values
from gdrkit.repair.config.check import check

SCRIPT = """#!/bin/bash
RDMA=treu
export VERSION="550.54.15"  # why
TAG='v'
IMAGE=driver:$VERSION-$TAG
cat <<{0}
apiVersion: nvidia.com/v1
kind: ClusterPolicy
spec:
  driver:
    version: "$VERSION"
    image: ${{IMAGE}}
    rdma: {{enabled: $RDMA}}
EOF
echo $RDMA
"""


@pytest.mark.parametrize("word", ["EOF", "'EOF'", '"EOF"', "\\EOF", "-EOF"])
def test_a_here_document_has_what_bash_prints(word):
    text = SCRIPT.format(word)
    printed = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
    inside = with_values(text).split(f"cat <<{word}\n")[1].split("EOF\n")[0]
    assert inside == printed.removesuffix("treu\n") and ("$RDMA" in printed) is (word not in ("EOF", "-EOF"))
    assert with_values(text).endswith("EOF\necho $RDMA\n")


def test_a_manifest_in_a_script_is_judged_by_the_values_in_it():
    (_, fault) = check(SCRIPT.format("EOF").encode(), "deploy.sh").faults
    assert (fault.line, fault.code, fault.seen) == (13, "wrong-type", "treu")


@pytest.mark.parametrize(
    "line",
    [
        "RDMA=false",
        "  RDMA=false",
        "if [ $1 ]; then RDMA=false; fi",
        "for RDMA in true false; do",
        "read -r RDMA",
    ],
)
def test_a_variable_with_another_value_is_not_known(line):
    text = SCRIPT.format("EOF").replace("TAG='v'", line)
    assert "RDMA" not in assigned(text)
    faults = check(text.encode(), "deploy.sh").faults
    assert [fault.seen for fault in faults if fault.severity == "unreadable"] == ["has its value from $RDMA"]


@pytest.mark.parametrize(
    "line", ["A=$B", "A=`uname -r`", "A=$(uname -r)", 'A="${A:-1}"', "A=1 ./run", "  A=1", "# A=1", "A=$1"]
)
def test_what_others_decide_is_not_known(line):
    assert assigned(f"{line}\n") == {}
    assert assigned("A=1\n") == {"A": "1"}
