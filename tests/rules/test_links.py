"""PCIe links that are narrower or slower than they should be."""

import pytest

from gdrkit.rules.links import link_degraded, link_narrower_than_port
from gdrkit.rules.rule import Failed, Passed
from gdrkit.verdict.cells import paths_closed_by
from tests.hardware import BARE_METAL, SERVER, SPARK, machine
from tests.rules.hardware import GPU_FOLDER, NIC_FOLDER, failed, missing, not_applicable, outcomes, passed


def judged(outline, **options):
    """The outcomes for the GPU and for the NIC."""
    gpu, nic = outcomes(machine(outline, **options), link_degraded)
    return gpu, nic


class TestDegraded:
    def test_fewer_lanes_than_both_ends_have(self):
        gpu, nic = judged(SERVER.replace("cx7-ib", "cx7-ib link=32.0x8"))

        assert isinstance(gpu, Passed)
        assert isinstance(nic, Failed)
        assert (nic.seen, nic.expected, nic.subject) == ("x8", "x16", "0000:18:00.0")

    def test_a_slow_link_of_a_nic(self):
        _, nic = judged(SERVER.replace("cx7-ib", "cx7-ib link=16.0x16"))

        assert isinstance(nic, Failed)
        assert (nic.seen, nic.expected) == ("16 GT/s", "32 GT/s")

    def test_a_slow_link_above_the_switch_fails_both_ends(self):
        gpu, nic = judged(SERVER.replace("pex89-up", "pex89-up link=32.0x8"))

        assert isinstance(gpu, Failed) and isinstance(nic, Failed)
        assert gpu.subject == nic.subject == "0000:16:00.0"

    def test_a_low_speed_is_idleness_on_the_gpus_own_link_and_a_fault_above_it(self):
        gpu, nic = judged(SERVER.replace("pex89-up", "pex89-up link=16.0x16"))

        assert isinstance(gpu, Failed) and isinstance(nic, Failed)
        assert (gpu.seen, gpu.expected, gpu.subject) == ("16 GT/s", "32 GT/s", "0000:16:00.0")

    def test_the_lower_speed_of_an_idle_gpu_passes(self):
        gpu, _ = judged(SERVER.replace("h100-sxm", "h100-sxm link=2.5x16"))

        assert isinstance(gpu, Passed)
        assert gpu.why == "x16, idle at 2.5 of 32 GT/s"

    def test_an_idle_gpu_never_lowers_its_width(self):
        gpu, _ = judged(SERVER.replace("h100-sxm", "h100-sxm link=2.5x8"))

        assert isinstance(gpu, Failed)
        assert gpu.seen == "x8"

    def test_a_slot_that_never_had_more_is_not_degraded(self):
        outline = (
            "0000:15:01.0 skx-root max=8.0x8\n  0000:18:00.0 cx7-ib rdma=mlx5_0 max=32.0x16 link=8.0x8\n"
        )

        passed(machine(outline), link_degraded)

    def test_a_link_that_was_not_collected_is_unknown(self):
        gone = tuple(
            f"{NIC_FOLDER}/{name}" for name in ("current_link_speed", "current_link_width", "config")
        )
        _, nic = judged(SERVER, without=gone)

        assert nic.missing.source  # type: ignore[union-attr]

    def test_a_link_invented_by_a_hypervisor_is_unknown(self):
        gpu, _ = judged(SERVER, files=BARE_METAL | {f"{GPU_FOLDER}/current_link_width": "0\n"})

        assert gpu.missing.source == "link of 0000:1b:00.0"  # type: ignore[union-attr]


class TestNarrow:
    def test_four_lanes_do_not_feed_a_spark_port(self):
        found = [o for o in outcomes(machine(SPARK), link_narrower_than_port) if isinstance(o, Failed)]

        assert [o.subject for o in found] == ["roceP2p1s0f1", "rocep1s0f1"]
        assert {(o.seen, o.expected, o.as_expected) for o in found} == {
            (
                "32 GT/s x4 = 126 Gbit/s, as this machine is built",
                "200 Gbit/s by both links of the port",
                True,
            )
        }

    def test_two_lanes_of_a_spark_are_not_as_it_is_built(self):
        """Its NIC can have four, though the port above it is set to two; the other half is as built."""
        port = "0002:00:00.0 gb10-root"
        outline = SPARK.replace("cx7-spark rdma=roceP", "cx7-spark link=32.0x2 rdma=roceP")
        node = machine(outline.replace(port, f"{port} max=32.0x2"))
        found = [o for o in outcomes(node, link_narrower_than_port) if isinstance(o, Failed)]

        assert [(o.subject, o.as_expected) for o in found] == [("roceP2p1s0f1", False), ("rocep1s0f1", True)]
        assert found[0].seen == "32 GT/s x2 = 63 Gbit/s"
        assert found[0].expected == "32 GT/s x4, as this machine is built"
        assert "`sudo fwupdmgr update`" in found[0].advice and not found[1].advice

    def test_four_lanes_of_another_machine_are_not_as_it_is_built(self):
        found = failed(machine(SERVER.replace("cx7-ib", "cx7-ib max=32.0x4")), link_narrower_than_port)

        assert (found.seen, found.expected) == ("32 GT/s x4 = 126 Gbit/s", "400 Gbit/s")
        assert not found.as_expected

    def test_sixteen_lanes_feed_400_gigabits(self):
        assert passed(machine(), link_narrower_than_port).why == "32 GT/s x16 = 504 Gbit/s for 400 Gbit/s"

    def test_a_port_at_the_links_own_rate_passes(self):
        """Gen 3 x16 carries 126 Gbit/s, and a port of 100 fits."""
        outline = "0000:15:01.0 skx-root\n  0000:18:00.0 cx5-ib rdma=mlx5_0 rate=100 max=8.0x16\n"

        passed(machine(outline), link_narrower_than_port)
        failed(machine(outline.replace("rate=100", "rate=200")), link_narrower_than_port)

    @pytest.mark.parametrize(("second", "narrow"), [("1: DOWN", False), ("4: ACTIVE", True)])
    def test_two_ports_share_the_link(self, second, narrow):
        """Gen 4 x16 carries 252 Gbit/s: one port of 200, and not two."""
        folder = f"{NIC_FOLDER}/infiniband/mlx5_0/ports/2"
        port = {"state": f"{second}\n", "rate": "200 Gb/sec (4X HDR)\n", "link_layer": "InfiniBand\n"}
        files = BARE_METAL | {f"{folder}/{name}": text for name, text in port.items()}
        node = machine(SERVER.replace("cx7-ib", "cx7-ib max=16.0x16 rate=200"), files=files)

        if narrow:
            assert failed(node, link_narrower_than_port).expected == "400 Gbit/s"
        else:
            assert passed(node, link_narrower_than_port).why.endswith(" for 200 Gbit/s")

    def test_a_narrow_link_above_the_switch_counts(self):
        outline = SERVER.replace("pex89-up", "pex89-up link=16.0x8")

        assert failed(machine(outline), link_narrower_than_port).seen.endswith("at 0000:16:00.0")

    def test_the_rate_of_a_port_that_is_down_is_ignored(self):
        outline = SERVER.replace("mlx5_0", "mlx5_0 state=DOWN").replace("cx7-ib", "cx7-ib max=8.0x1")
        not_applicable(machine(outline), link_narrower_than_port)

    @pytest.mark.parametrize("state", ["INIT", "ARMED"])
    def test_a_port_that_waits_for_a_subnet_manager_has_its_rate(self, state):
        outline = SERVER.replace("mlx5_0", f"mlx5_0 state={state}").replace("cx7-ib", "cx7-ib max=8.0x1")
        assert failed(machine(outline), link_narrower_than_port).subject == "mlx5_0"

    def test_ports_that_were_not_collected_are_unknown(self):
        missing(machine(without=(f"{NIC_FOLDER}/infiniband/mlx5_0/ports",)), link_narrower_than_port)


@pytest.mark.parametrize("rule", [link_degraded, link_narrower_than_port])
def test_both_rules_slow_paths_and_take_none(rule):
    assert {"dmabuf", "peermem", "staged", "host-mapped"} <= set(paths_closed_by(rule.slows))
    assert paths_closed_by(rule.takes(None)) == ()
