"""Published files, if they are available: NCCL's own tables, and dumps of real machines."""

import pytest
from lab.nccl.judge import Job, judge

from gdrkit.fabric.nccl.graph import GPU, NET
from gdrkit.fabric.nccl.paths import compute_paths
from gdrkit.fabric.nccl.settings import settings
from gdrkit.fabric.nccl.system import system_of
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import release
from tests.shared_data import shared_files

LOGS = shared_files("data/h200x2/forced_*.log.txt")
TOPOLOGIES = shared_files("data/topologies/*.xml", holds=b"<system")
ENVIRONMENTS = {"PHB": {"NCCL_NET_GDR_LEVEL": "PHB"}, "SYS": {"NCCL_NET_GDR_LEVEL": "SYS"}}


@pytest.mark.parametrize("path", LOGS)
def test_tables_in_logs_equal_ours(path):
    stem = path.name.removesuffix(".log.txt")
    dump = path.with_name(f"{stem}.dump.xml.txt")
    if not dump.exists():
        pytest.skip("no dump beside this log")
    lines = [line for line in path.read_text().splitlines() if " NCCL INFO " in line]
    ranks = [
        [line.partition(" NCCL INFO ")[2] for line in lines if f"[{rank}] NCCL" in line] for rank in range(2)
    ]
    environment = ENVIRONMENTS.get(stem.rpartition("-")[2], {})
    found = judge(Job(stem, "alone", environment, dump.read_text(), ranks), "2.28.9")
    assert found.disagreements == []
    assert found.paths > 10


@pytest.mark.parametrize("path", TOPOLOGIES)
@pytest.mark.parametrize("version", ["2.18.1", "2.22.3", "2.26.2", "2.28.9", "2.30.7"])
def test_published_topologies_are_computed_or_refused(path, version):
    try:
        root = nccl_xml.parse(path.read_bytes())
        rules = release(version)
        system = system_of(root, rules)
        compute_paths(system, settings(rules, {}))
    except FormatError:
        assert any(word in path.name for word in ("rccl", "dgxspark")), path.name
        return
    kinds = {
        rules.named(gpu.paths[net].type) for gpu in system.nodes[GPU] for net in system.nodes[NET]
        if net in gpu.paths
    }  # fmt: skip
    assert kinds <= {"PIX", "PXB", "PXN", "PHB", "SYS", "P2C"}
