"""The rail map: the ports nearest to each GPU."""

from gdrkit.fabric.nccl.view import DirectionView
from gdrkit.fabric.topo_pairs import TopologyRail, TopoPair, rails
from gdrkit.fabric.topology.graph import NcclPath, SmiPath


def pair(gpu, net, *nccl, smi=(), direct=None):
    view = None if direct is None else DirectionView(direct)
    return TopoPair(gpu=gpu, net=net, nccl=tuple(map(NcclPath, nccl)), nvidia_smi=smi, receive=view)


def test_all_ports_of_the_nearest_type_are_named_in_their_order():
    found = rails([pair("a", "n0", "SYS"), pair("a", "n2", "PXB"), pair("a", "n1", "PXB")])
    assert found == (TopologyRail(gpu="a", path="PXB", nearest=("n2", "n1")),)


def test_of_several_possible_types_the_farther_one_counts():
    found = rails([pair("a", "n0", "PIX", "SYS"), pair("a", "n1", "PHB")])
    assert found[0].nearest == ("n1",)


def test_the_words_of_nvidia_smi_count_where_nccls_are_not_known():
    assert rails([pair("a", "n0", smi=(SmiPath.NODE,))])[0].path == "NODE"


def test_a_gpu_without_a_known_path_has_no_rail():
    assert rails([pair("a", "n0"), pair("b", "n0", "PIX")]) == (
        TopologyRail(gpu="b", path="PIX", nearest=("n0",)),
    )


def test_a_rail_is_direct_if_one_of_its_ports_is():
    assert rails([pair("a", "n0", "PIX", direct=False), pair("a", "n1", "PIX", direct=True)])[0].direct
    assert rails([pair("a", "n0", "PIX", direct=False)])[0].direct is False
