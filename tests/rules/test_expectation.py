"""What differs from an expectation, and what a difference means for the verdict."""

import pytest

from gdrkit.evidence import Source
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.expectation import Supplied, expectation
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.observed import Observer
from gdrkit.formats.expectation import Expectation, parse
from gdrkit.node import Node
from gdrkit.rules.expectation import (
    expected_firmware_differs,
    expected_gpu_missing,
    expected_nic_missing,
    expected_rail_differs,
    expected_version_differs,
    unexpected_device,
)
from gdrkit.rules.missing_neighbours import gpu_missing, nic_missing
from gdrkit.rules.no_gpu import no_gpu
from gdrkit.rules.no_rdma_device import no_rdma_device
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Unknown
from gdrkit.verdict import Verdict
from gdrkit.verdict.path_state import State
from tests.hardware import BARE_METAL, machine
from tests.known_answers import judged
from tests.rules.hardware import failed, missing, outcomes, passed
from tests.rules.test_missing_neighbours import rail, rails
from tests.rules.test_presence import GPU_ALONE, LOADED, ON_HOST

H100, BOARD = "NVIDIA H100 80GB HBM3", "MT_0000000838"


def expecting(node: Node, text: str | Expectation) -> Node:
    content = parse(text) if isinstance(text, str) else text
    node.supply(Source("node.toml"), expectation.becomes(Supplied("node.toml", content)))
    return node


def good(*parts: str) -> Expectation:
    return Observer(machine("".join(parts or rails(4)))).expectation()


def compared(*parts: str, wanted: Expectation | None = None) -> Node:
    """A node with these rails, compared with a good one of four."""
    return expecting(machine("".join(parts)), wanted or good())


def statuses(verdict: Verdict) -> dict[str, str]:
    return {finding.code: str(finding.status) for finding in verdict.findings}


RULES = (
    expected_gpu_missing, expected_nic_missing, unexpected_device, expected_rail_differs,
    expected_firmware_differs, expected_version_differs,
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
class TestEvery:
    def test_without_an_expectation_nothing_is_compared(self, rule):
        assert outcomes(machine("".join(rails(4))), rule) == []

    def test_a_good_node_has_what_was_written_of_it(self, rule):
        assert not {type(o) for o in outcomes(compared(*rails(4)), rule)} & {Failed, Unknown}

    def test_what_was_not_collected_is_no_pass(self, rule):
        text = (
            'gpus = 4\nnics = 4\n[[rails]]\nstate = "ACTIVE"\n[firmware]\nmlx5_core = "1.2"\n'
            '[versions]\ndriver = "570"\n'
        )
        node = expecting(machine("".join(rails(4)), complete=False, without=("sys", "proc")), text)
        found = outcomes(node, rule)
        assert found and {type(o) for o in found} == {Unknown}


class TestOrderAndNames:
    def test_other_names_addresses_and_order_are_no_difference(self):
        others = [rail(n, nic=f"cx7-ib rdma=rocep{9 - n}s0") for n in (7, 2, 5, 3)]
        node = compared(*others)
        assert not [
            code for rule in RULES for o in outcomes(node, rule) if isinstance(o, Failed) for code in [o]
        ]


class TestGpuMissing:
    def test_a_missing_gpu_blocks_the_node_and_no_path_of_the_others(self):
        node = compared(*rails(3), rail(3, gpu=""))
        verdict = judged(node)
        codes = {
            pair.gpu: {code for j in here for code in j.codes}
            for pair, here in verdict.matrix.items()
            if pair
        }

        assert failed(node, expected_gpu_missing).seen == f"3 of 4 {H100}"
        assert verdict.of("nccl").state is State.BLOCKED
        assert statuses(verdict)["expected-gpu-missing"] == "failed"
        assert [gpu for gpu, found in codes.items() if "expected-gpu-missing" in found] == [H100]

    def test_a_gpu_of_another_model_does_not_replace_it(self):
        node = compared(*rails(3), rail(3, gpu="l40s"))
        assert failed(node, expected_gpu_missing).seen == f"3 of 4 {H100}"
        assert "L40S" in failed_one(node, unexpected_device).seen

    def test_the_number_alone_is_enough(self):
        node = expecting(machine("".join(rails(3))), "gpus = 4")
        assert failed(node, expected_gpu_missing).seen == "3 of 4 GPUs"

    def test_rails_are_gpus_too(self):
        node = expecting(machine("".join(rails(3))), f'[[rails]]\ncount = 4\ngpu = "{H100}"')
        assert failed(node, expected_gpu_missing).seen == f"3 of 4 {H100}"

    def test_where_no_gpu_is_left_that_is_the_headline(self):
        node = compared(rail(0, gpu=""))
        state = judged(node).of("nccl")

        assert (failed(node, no_gpu).permanent, failed(node, no_gpu).expected) == (
            frozenset(), "4, by node.toml",
        )  # fmt: skip
        assert state.state is State.BLOCKED and state.worst is not None and state.worst.codes[0] == "no-gpu"

    def test_the_expectation_replaces_the_guess(self):
        assert isinstance(outcomes(compared(*rails(3), rail(3, gpu="")), gpu_missing)[0], NotApplicable)


def failed_one(node: Node, rule) -> Failed:
    """The only failure among the outcomes."""
    (only,) = (outcome for outcome in outcomes(node, rule) if isinstance(outcome, Failed))
    return only


class TestNicMissing:
    def test_the_gpu_whose_rail_has_no_nic_is_blocked(self):
        node = compared(*rails(3), rail(3, nic="")).after("driver", [is_loaded.becomes(True, DRIVER)])
        state = judged(node).of("nccl")
        found = [o for o in outcomes(node, expected_nic_missing) if isinstance(o, Failed)]

        assert [o.subject for o in found] == ["node", "0000:43:00.0"]
        assert (state.state, state.worst.codes[0]) == (State.BLOCKED, "expected-nic-missing")
        assert {type(o) for o in outcomes(node, nic_missing)} == {NotApplicable}

    def test_a_nic_less_that_belongs_to_no_gpu_is_a_warning(self):
        storage = "0000:f0:01.0 spr-root numa=0\n  0000:f1:00.0 cx7-eth rdma=mlx5_9 board=MT_0000000001\n"
        node = compared(*rails(4), wanted=good(*rails(4), storage))
        verdict = judged(node)

        assert failed_one(node, expected_nic_missing).seen == "4 NICs"
        assert statuses(verdict)["expected-nic-missing"] == "warning"
        assert "expected-nic-missing" not in verdict.of("nccl").worst.codes

    def test_a_nic_of_another_kind_is_not_the_one_that_is_expected(self):
        node = compared(*rails(3), rail(3, nic="cx7-eth rdma=mlx5_3 board=MT_0000000001"))
        assert failed_one(node, expected_nic_missing).subject == "0000:43:00.0"

    def test_a_virtual_function_is_not_counted_and_is_no_drift(self):
        assert (
            passed(expecting(machine("".join(rails(2))), "nics = 2"), expected_nic_missing).why == "2 NICs"
        )

    def test_which_gpu_lacks_one_is_open_where_not_every_gpu_has_a_rail(self):
        node = expecting(
            machine("".join([*rails(2), rail(2, nic=""), rail(3, nic="")])),
            '[[rails]]\ncount = 3\ndistance = "PIX"',
        )
        assert failed_one(node, expected_nic_missing).takes == ()

    def test_a_machine_that_is_built_without_one_is_as_expected(self):
        parts = [*rails(3), rail(3, nic="")]
        node = compared(*parts, wanted=good(*parts))
        assert judged(node).of("nccl").worst.codes[:1] != ("nic-missing",)
        assert {type(o) for o in outcomes(node, expected_nic_missing)} == {Passed}


class TestNoneExpected:
    def test_no_nic_as_expected_is_impossible_and_a_note(self):
        node = expecting(machine(GPU_ALONE.format("h100-sxm"), files=ON_HOST), "nics = 0")
        verdict = judged(node)

        assert failed(node, no_rdma_device).seen == "no RDMA device, as expected"
        assert verdict.of("nccl").state is State.IMPOSSIBLE
        assert statuses(verdict)["no-rdma-device"] == "note"

    def test_no_gpu_as_expected_is_impossible_whatever_is_installed(self):
        node = expecting(machine(rail(0, gpu=""), files=BARE_METAL | {"proc/modules": LOADED}), "gpus = 0")

        assert failed(node, no_gpu).as_expected
        assert judged(node).of("nccl").state is State.IMPOSSIBLE

    def test_a_nic_where_none_is_expected_is_unexpected(self):
        assert failed(expecting(machine(rail(0)), "nics = 0"), unexpected_device).seen == "1 NIC"

    def test_no_nic_where_some_are_expected_is_blocked_beside_any_gpu(self):
        node = expecting(machine(GPU_ALONE.format("rtx-a6000"), files=ON_HOST), "nics = 1")
        assert failed(node, no_rdma_device).permanent == frozenset()


class TestUnexpected:
    def test_a_display_card_beside_the_gpus_that_are_expected(self):
        node = compared(*rails(4), rail(4, gpu="rtx-4090", nic=""))
        found = failed_one(node, unexpected_device)

        assert found.seen.startswith("5 GPUs, among them 10de:2684")
        assert found.expected == f"at most 4, only {H100}, by node.toml"
        assert statuses(judged(node))["unexpected-device"] == "warning"


class TestRail:
    @pytest.mark.parametrize(
        "nic, seen, wanted",
        [
            ("state=DOWN", "port 1 DOWN", "ACTIVE"),
            ("state=INIT", "port 1 INIT", "ACTIVE"),
            ("rate=200", "200 Gbit/s", "400 Gbit/s"),
            ("link=32.0x8", "PCIe x8", "x16"),
        ],
    )
    def test_a_rail_that_is_slower_is_named(self, nic, seen, wanted):
        healthy = "cx7-ib rdma=mlx5_{number} rate=400"
        parts = [rail(n, nic=healthy) for n in range(4)]
        bad = rail(3, nic=f"{healthy} {nic}")
        node = compared(*parts[:3], bad, wanted=good(*parts))
        found = failed_one(node, expected_rail_differs)

        assert (found.subject, found.seen) == ("mlx5_3", seen)
        assert found.expected == f"{wanted}, by node.toml"
        assert statuses(judged(node))["expected-rail-differs"] == "warning"

    def test_a_gpu_that_trained_narrower_differs_although_its_nic_does_not(self):
        narrow = rail(0).replace("h100-sxm", "h100-sxm link=32.0x8")
        found = failed(compared(narrow, wanted=good(rail(0))), expected_rail_differs)

        assert found.seen.startswith("GPU 0000:") and found.seen.endswith(" PCIe x8")
        assert found.expected == "x16, by node.toml"

    def test_an_idle_gpu_and_one_of_unknown_width_are_no_difference(self):
        idle = rail(0).replace("h100-sxm", "h100-sxm link=2.5x16")
        assert passed(compared(idle, wanted=good(rail(0))), expected_rail_differs)

    def test_a_faster_rail_is_no_difference(self):
        slow, fast = ([rail(0, nic=f"cx7-ib rdma=mlx5_0 rate={rate}")] for rate in (200, 400))
        assert passed(compared(*fast, wanted=good(*slow)), expected_rail_differs)

    def test_rails_of_two_kinds_are_told_apart(self):
        parts = [rail(n, nic=f"cx7-ib rdma=mlx5_{{number}} rate={400 if n < 2 else 200}") for n in range(4)]
        node = compared(*reversed(parts), wanted=good(*parts))
        assert {type(o) for o in outcomes(node, expected_rail_differs)} == {Passed}


class TestVersions:
    def test_the_firmware_of_one_nic_differs(self):
        node = expecting(machine(rail(0)), '[firmware]\nmlx5_core = ">= 99.1"')
        assert failed(node, expected_firmware_differs).expected == ">= 99.1, by node.toml"

    def test_firmware_is_expected_of_one_kind_only(self):
        node = expecting(machine(rail(0)), '[firmware]\nMT_0000000001 = "1.2"')
        assert isinstance(outcomes(node, expected_firmware_differs)[0], NotApplicable)

    @pytest.mark.parametrize(
        "wanted, fits",
        [("6.8.0-45-generic", True), (">= 6.8.0-44", True), (">= 6.8.0-46", False), ("6.8.0", False)],
    )
    def test_the_kernel(self, wanted, fits):
        node = expecting(machine(rail(0)), f'[versions]\nkernel = "{wanted}"')
        assert isinstance(outcomes(node, expected_version_differs)[0], Passed if fits else Failed)

    def test_a_driver_that_is_not_loaded_is_a_difference(self):
        node = expecting(machine(rail(0)), '[versions]\ndriver = "570.1"')
        assert failed(node, expected_version_differs).seen.startswith("no driver")

    def test_a_version_that_nothing_shows_is_unknown(self):
        node = expecting(machine(rail(0)), '[versions]\nnccl = "2.26.2"')
        assert missing(node, expected_version_differs).source == "libnccl"
