"""The search for evidence that makes a blocked program ready."""

from __future__ import annotations

from machines.cases import case
from machines.compose import compose, head
from tools.fuzz.altered_node import RecordedNode
from tools.fuzz.verdicts import DISAGREES, Blocked, brief, main, whole

SMI = "sos_commands/gdr/nvidia-smi_-q"


def test_what_is_judged_again_is_what_the_whole_report_says():
    blocked = Blocked(case(7, 0, "port down"))
    assert "nccl" in blocked.programs and blocked.before == whole(blocked.node.host)
    changed = 0
    for number in range(1, 41):
        path, content, after = blocked.tried(number)
        changed += after != blocked.before
        with blocked.node.store.altered(path, content):
            assert after == whole(blocked.node.host)
    assert changed


def test_a_fault_that_is_altered_away_is_seen_and_equal_answers_are_not_judged():
    made = case(7, 0, "Fabric Manager not running")
    node = RecordedNode(compose(made.machine), head(made.machine))
    assert brief(node)["nccl"] == "blocked"
    with node.store.altered(SMI, compose(made.healthy).files[SMI]):
        changed = node.with_altered(SMI)
        assert changed is not None and brief(changed)["nccl"] == "ready"
    with node.store.altered(SMI, compose(made.machine).files[SMI] + b"\n"):
        assert node.with_altered(SMI) is None


def test_files_of_the_fault_and_files_that_nobody_reads_are_not_altered():
    blocked = Blocked(case(7, 0, "Fabric Manager not running"))
    free = {path for paths in blocked.subjects.values() for path in paths}
    assert SMI in blocked.node.readers and SMI not in free
    assert free and free <= blocked.node.readers.keys()
    assert blocked.node.readers.keys() < blocked.tree.files.keys()


def test_ready_active_and_a_disagreement_are_wrong_for_a_blocked_program_alone():
    blocked = Blocked(case(7, 0, "port down"))
    other = next(name for name in blocked.before if name not in blocked.programs)
    for state, wrong in (("ready", True), ("active", True), (DISAGREES, True), ("unknown", False)):
        assert blocked.wrong({**blocked.before, "nccl": state}) == (("nccl",) if wrong else ())
        assert blocked.wrong({**blocked.before, other: state}) == ()


def test_processes_share_the_machines_of_a_seed_and_count_together(capfd):
    assert main(["--seed", "7", "--machines", "4", "--jobs", "2", "--only", "3"]) == 0
    shared = capfd.readouterr().out
    assert main(["--seed", "7", "--machines", "4", "--only", "3"]) == 0
    assert (
        shared.partition(",")[0]
        == capfd.readouterr().out.partition(",")[0]
        == ("seed 7\n4 altered inputs of 4 blocked machines")
    )
