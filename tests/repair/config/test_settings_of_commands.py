"""Every variable that a Dockerfile, a command or a batch script sets is checked, in whichever form."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.repair.config.check import check

SET = {
    "ENV of several": "FROM scratch\nENV NCCL_DEBUG=INFO NCCL_IB_DISABLE=1\n",
    "ENV with quotes": 'FROM scratch\nENV NCCL_DEBUG="INFO" NOTE="a b" NCCL_IB_DISABLE="1"\n',
    "ENV after another variable": "FROM scratch\nENV PATH=/opt/bin:$PATH NCCL_IB_DISABLE=1\n",
    "ENV that continues": "FROM x\nENV A=a \\\n  # why\n  NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 \\\n B=2\n",
    "ENV with a blank": "FROM scratch\nENV NCCL_IB_DISABLE 1\n",
    "env in lower case": "FROM scratch\nenv NCCL_IB_DISABLE=1\n",
    "ARG as default": "FROM scratch\nARG OFF=1\nENV NCCL_DEBUG=INFO NCCL_IB_DISABLE=${OFF}\n",
    "RUN export": "FROM scratch\nRUN export NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 && all_reduce_perf\n",
    "docker": "docker run -e NCCL_DEBUG=INFO -e NCCL_IB_DISABLE=1 image\n",
    "docker, joined": "docker run -eNCCL_DEBUG=INFO -eNCCL_IB_DISABLE=1 image\n",
    "compose": "services:\n  a:\n    environment:\n      - NCCL_DEBUG=INFO\n      - NCCL_IB_DISABLE=1\n",
    "mpirun": "mpirun -np 2 -x NCCL_DEBUG=INFO -x NCCL_IB_DISABLE=1 ./train\n",
    "mpirun, a name alone": "mpirun -x NCCL_DEBUG -x NCCL_IB_DISABLE=1 ./train\n",
    "hydra": "mpiexec -env NCCL_DEBUG INFO -env NCCL_IB_DISABLE 1 ./train\n",
    "env": "env NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 ./train\n",
    "exec env that continues": "exec env \\\n  A=1 \\\n  NCCL_IB_DISABLE=1 NCCL_DEBUG=WARN \\\n  ./train\n",
    "before a program": "NCCL_DEBUG=INFO NCCL_IB_DISABLE=1 ./train\n",
    "before a program of a variable": 'NCCL_IB_DISABLE=1 "$PYTHON" train.py\n',
    "srun": "srun --export=ALL,NCCL_DEBUG=INFO,NCCL_IB_DISABLE=1 ./train\n",
    "srun, in quotes": 'srun --export="ALL,NCCL_DEBUG=INFO,NCCL_IB_DISABLE=1" ./train\n',
    "sbatch": "#!/bin/sh\n#SBATCH --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_1,NCCL_IB_DISABLE=1\n",
    "PBS": "#!/bin/sh\n#PBS -v NCCL_DEBUG=INFO,NCCL_IB_DISABLE=1\n",
    "apptainer": "apptainer exec --env NCCL_DEBUG=INFO,NCCL_IB_DISABLE=1 image ./train\n",
    "kubectl": "kubectl set env deploy/a NCCL_DEBUG=INFO NCCL_IB_DISABLE=1\n",
    "a comment at the end": "export NCCL_DEBUG=INFO # why\nexport NCCL_IB_DISABLE=1 # why\n",
    "csh": "setenv NCCL_DEBUG INFO; setenv NCCL_IB_DISABLE 1\n",
    "a default of the shell": "export NCCL_DEBUG=INFO NCCL_IB_DISABLE=${OFF:-1}\n",
    "a variable of the script": "OFF=1\nexport NCCL_DEBUG=INFO NCCL_IB_DISABLE=$OFF\n",
    "Python": "os.environ.setdefault('NCCL_IB_DISABLE', '1')\n",
}


@pytest.mark.parametrize("text", SET.values(), ids=SET.keys())
def test_every_variable_of_a_line_is_checked(text: str):
    found = check(text.encode(), "file")

    assert [fault.code for fault in found.faults] == ["ib-disabled-by-env"]
    assert found.worst == "warning"


def test_a_fault_of_a_joined_line_is_at_its_own_line():
    found = check(SET["ENV that continues"].encode(), "Dockerfile")

    assert [fault.line for fault in found.faults] == [4]


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        (
            "mpirun -x NCCL_IB_GTD_INDEX=3 ./train",
            "unknown-key",
            "NCCL_IB_GID_INDEX",
        ),  # from a public MPIJob
        ("export NCCL_SOCKET_IFNAMES=eth0", "unknown-key", "NCCL_SOCKET_IFNAME"),
        ("export NCCL_IB_DISBALE=0", "unknown-key", "NCCL_IB_DISABLE"),
        ("mpirun -x NCCL_IB_HCA=eth0 ./train", "hca-not-selected", "no setting"),
        ("export NCCL_IB_HCA==ens3,eth1:1", "hca-not-selected", "no setting"),
    ],
)
def test_a_name_that_nccl_does_not_read_and_a_list_that_selects_nothing_are_found(line, code, expected):
    (fault,) = check(f"{line}\n".encode(), "job.sh").faults
    assert (fault.code, fault.severity) == (code, "warning") and fault.expected.startswith(expected)


@pytest.mark.parametrize(
    "line",
    ["NCCL_IB_HCA=ib0", "NCCL_IB_HCA=eth0,mlx5_0", "NCCL_IB_HCA=^eth0", "NCCL_IB_TC=1", "NCCL_IB_SL=1",
     "NCCL_NET=IB", "NCCL_MY_OWN=1", "NCCL_P2P_LEVEL=SYS"],
)  # fmt: skip
def test_names_that_are_read_or_resemble_none_are_no_slips(line):
    assert check(f"export {line}\n".encode(), "job.sh").worst in ("", "note")


UNREAD = {
    "a form that is not read": "ENV NCCL_DEBUG=INFO\nRUN echo NCCL_IB_DISABLE=1 >> /etc/nccl.conf\n",
    "a dictionary": "export NCCL_DEBUG=INFO\nenv = dict(os.environ, NCCL_IB_DISABLE='1')\n",
    "a value from elsewhere": "export NCCL_DEBUG=INFO\nexport NCCL_IB_DISABLE=$OFF\n",
    "one of two values": "OFF=0\nexport NCCL_IB_DISABLE=$OFF\nif [ $1 ]; then OFF=1; fi\n",
}


@pytest.mark.parametrize("text", UNREAD.values(), ids=UNREAD.keys())
def test_a_setting_that_is_not_read_is_no_all_clear(text: str):
    found = check(text.encode(), "file")

    assert [(fault.line, fault.severity, fault.path) for fault in found.faults] == [
        (2, "unreadable", "NCCL_IB_DISABLE")
    ]
    assert ("has its value from OFF" in found.faults[0].seen) is ("$OFF" in text)


JOB = """kind: MPIJob
spec:
  template:
    spec:
      containers:
      - name: a
        env: [{{name: NCCL_DEBUG, value: "INFO"}}, {{name: {0}, value: "{1}"}}]
        args:
        - |
          mpirun -np 2 \\
            -x NCCL_NET_GDR_LEVEL={2} ./train
"""
"""A job with a variable of its container, and a value that its command gives."""


@pytest.mark.parametrize("value", ["${LEVEL}", "$LEVEL", "$(LEVEL)", "`level`", '"{{ .Values.level }}"'])
def test_a_value_that_is_filled_in_later_is_unknown_and_not_wrong(value: str):
    """A shell, Kubernetes, envsubst or Helm replaces it: the text is not what NCCL reads."""
    (fault,) = check(JOB.format("OTHER", "PHB", value).encode(), "job.yaml").faults

    assert (fault.line, fault.severity) == (11, "unreadable") and "gdr-level" not in fault.code


@pytest.mark.parametrize("value", ["${LEVEL}", "$(LEVEL)"])
@pytest.mark.parametrize(("level", "worst"), [("LOC", "warning"), ("ALL", "error"), ("PHB", "")])
def test_a_value_from_the_same_container_is_judged_by_what_it_is_there(value: str, level: str, worst: str):
    assert check(JOB.format("LEVEL", level, value).encode(), "job.yaml").worst == worst


def test_a_variable_that_is_handed_on_under_its_own_name_is_judged_once():
    text = JOB.format("NCCL_NET_GDR_LEVEL", "ALL", "$NCCL_NET_GDR_LEVEL")

    assert [fault.line for fault in check(text.encode(), "job.yaml").faults] == [7]


def test_what_looks_filled_in_is_the_value_where_nobody_fills_it_in():
    """NCCL reads its file without a shell. And a word without a mark is a value, wrong or not."""
    (fault,) = check(b"NCCL_NET_GDR_LEVEL=${LEVEL}\n", "nccl.conf").faults
    (other,) = check(b"export NCCL_NET_GDR_LEVEL=LEVEL\n", "job.sh").faults

    assert (fault.code, fault.severity) == ("wrong-value", "error") and "replaces no variable" in fault.seen
    assert (other.code, other.severity) == ("gdr-level-ignored", "error")


def test_explain_blames_no_value_that_is_filled_in_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "run.txt"
    file.write_text("$ mpirun -np 2 -x NCCL_NET_GDR_LEVEL=${LEVEL} ./all_reduce_perf\n")

    assert main(["explain", str(file)]) == 3
    assert "is not a level" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "# export NCCL_IB_DISABLE=1\nexport NCCL_DEBUG=INFO\n",
        "FROM scratch\nARG NCCL_IB_DISABLE=1\nENV NCCL_DEBUG=INFO\n",  # only while the image is built
        "export NCCL_IB_DISABLE=${OFF:-0}\n",
        "export NCCL_IB_HCA=$DEVICES\n",
        "OFF=0\nexport NCCL_IB_DISABLE=$OFF\n",
    ],
)
def test_what_turns_nothing_off_is_no_fault(text: str):
    assert check(text.encode(), "file").worst == ""


def test_explain_says_what_the_check_of_a_dockerfile_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "Dockerfile"
    file.write_text("FROM scratch\nENV NCCL_DEBUG=INFO NCCL_P2P_LEVEL=SYS\n")

    assert main(["explain", str(file)]) == 3
    assert "settings: no known faults" in " ".join(capsys.readouterr().out.split())


SCRIPTS = [
    ("ulimit -l 64\nexport NCCL_DEBUG=INFO\n", "memlock-limit", "warning"),
    ("ulimit -S -l 65536\nexport NCCL_DEBUG=INFO\n", "memlock-limit", "note"),
    ("ulimit -l unlimited\nexport NCCL_DEBUG=INFO\n", "", ""),
    ("# ulimit -l 64\nulimit -n 64\nexport NCCL_DEBUG=INFO\n", "", ""),
    ("export NCCL_SOCKET_IFNAME=lo\n", "wrong-value", "warning"),
    ("export NCCL_SOCKET_IFNAME==lo\n", "wrong-value", "warning"),
    ("export NCCL_SOCKET_IFNAME=lom1\n", "", ""),
    ("export NCCL_SOCKET_IFNAME=^lo\n", "", ""),
    ("export NCCL_IB_HCA=roceP1p1s0\nexport NCCL_IB_GID_INDEX=0\n", "gid-index-wrong", "warning"),
    ("export NCCL_IB_HCA=roceP1p1s0\nexport NCCL_IB_GID_INDEX=3\n", "", ""),
    ("export NCCL_IB_HCA=mlx5_0\nexport NCCL_IB_GID_INDEX=0\n", "", ""),  # may be InfiniBand
]


@pytest.mark.parametrize(("text", "code", "severity"), SCRIPTS)
def test_what_keeps_a_job_on_one_host_or_from_locking_memory_is_a_fault(text: str, code: str, severity: str):
    found = check(f"#!/bin/bash\n#SBATCH -N 2\n{text}srun python train.py\n".encode(), "job.sbatch").faults
    assert [(one.code, one.severity) for one in found] == ([(code, severity)] if code else [])


@pytest.mark.parametrize("text", [one[0] for one in SCRIPTS])
@pytest.mark.parametrize("head", ["#!/bin/bash\n", "#SBATCH -N 2\n", "#PBS -l select=2\n", "#BSUB -n 8\n"])
def test_explain_says_of_a_script_what_the_check_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, head: str
):
    file = tmp_path / "job.sh"
    file.write_text(f"{head}{text}srun python train.py\n")
    code = main(["config", "check", str(file)])
    faults = [line.partition(": ")[2].split(": ")[-1] for line in capsys.readouterr().out.splitlines()]

    assert main(["explain", str(file)]) == (code or 3)
    page = " ".join(capsys.readouterr().out.split())
    assert all(fault in page for fault in faults)
    assert "gdr config check" in page.partition("How sure")[0]


def test_a_script_with_what_it_printed_is_an_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "job.sh"
    file.write_text(f"#!/bin/bash\n{SCRIPTS[0][0]}$ ./run\nCouldn't allocate MR with error=12\n")
    main(["explain", str(file)])
    assert "gdr config check" not in capsys.readouterr().out.partition("How sure")[0]


POLICY_PATCH = """apiVersion: nvidia.com/v1
kind: ClusterPolicy
spec:
  driver:
    kernelModuleType: {}
"""


@pytest.mark.parametrize(
    ("value", "severity"),
    [("open", ""), ("${KMT:-proprietary}", "unreadable"), ("$KMT", "unreadable"), ("opn", "error")],
)
def test_a_value_of_a_policy_that_a_shell_fills_in_is_unknown_and_not_wrong(value: str, severity: str):
    found = check(POLICY_PATCH.format(value).encode(), "patch.yaml").faults
    assert [one.severity for one in found if "kernelModuleType" in one.path] == [severity][: len(severity)]


@pytest.mark.parametrize("name", ["NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC"])
def test_the_name_of_a_device_that_a_manifest_does_not_show_is_unknown(name: str):
    found = check(JOB.format(name, "${GIVEN}", "PHB").encode(), "job.yaml").faults
    assert [one.severity for one in found] == ["unreadable"] * (name != "NCCL_IB_TC")
