"""Integrated, consumer and old GPUs."""

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts import pci
from gdrkit.rules.engine import judge
from gdrkit.rules.gpu_kinds import gpu_before_turing, gpu_consumer, gpu_integrated
from gdrkit.rules.gpu_unsupported import gpu_unsupported
from gdrkit.rules.rule import Failed, Rule
from gdrkit.verdict.cells import paths_closed_by
from tests.hardware import SERVER, SPARK, machine, probe
from tests.rules.hardware import GPU, OF_A_GPU, failed, missing, not_applicable, outcome, passed

ASKED = {18: 0, 75: 9, 76: 0, 116: 1, 124: 1}
UNLISTED = SERVER.replace("h100-sxm", "t400")


def one(part, **options):
    return machine(SERVER.replace("h100-sxm", part), **options)


@pytest.fixture
def unlisted(monkeypatch):
    """A GPU whose id is in no table, and whose driver is not loaded."""
    from tests.evidence_builder.parts import PARTS

    monkeypatch.setitem(PARTS, "t400", PARTS["l40s"]._replace(ids="10de:1fb2:10de:0000", name="NVIDIA T400"))


def lasting(rule: Rule, found: Failed) -> tuple[str, ...]:
    """The paths that no remedy opens: what the outcome says, else what the rule declares."""
    return paths_closed_by(rule.permanent if found.permanent is None else found.permanent)


class TestIntegrated:
    def test_a_gb10_blocks_both_direct_paths_permanently(self):
        node = machine(SPARK)
        found = failed(node, gpu_integrated)
        (gpu,) = pci.gpus(node)

        assert (found.subject, paths_closed_by(found.takes)) == ("000f:01:00.0", OF_A_GPU)
        assert lasting(gpu_integrated, found) == OF_A_GPU
        assert node.trail(judge, gpu_integrated, gpu).confidence is Confidence.CERTAIN
        assert "10de:2e12" in [source.locator for source in node.trail(judge, gpu_integrated, gpu).sources]

    def test_a_grace_hopper_shares_memory_coherently_and_has_its_own(self):
        passed(one("gh200"), gpu_integrated)

    def test_cuda_decides_for_a_gpu_in_no_table(self, unlisted):
        attributes = ASKED | {18: 1, 116: 0, 124: 0}

        assert missing(machine(UNLISTED), gpu_integrated).source
        found = failed(machine(UNLISTED, commands=probe(GPU, attributes)), gpu_integrated)
        assert lasting(gpu_integrated, found) == OF_A_GPU
        passed(machine(UNLISTED, commands=probe(GPU, ASKED | {18: 1})), gpu_integrated)


class TestConsumer:
    @pytest.mark.parametrize("part", ["rtx-3090", "rtx-4090"])
    def test_a_geforce_blocks_both_direct_paths_permanently(self, part):
        found = failed(one(part), gpu_consumer)

        assert (paths_closed_by(found.takes), lasting(gpu_consumer, found)) == (OF_A_GPU,) * 2

    def test_a_professional_board_with_the_same_chip_passes(self):
        passed(one("l40s"), gpu_consumer)

    def test_a_patched_library_is_believed(self):
        """A probe outranks a name."""
        passed(one("rtx-4090", commands=probe(GPU, ASKED)), gpu_consumer)

    def test_a_gpu_without_id_or_name_is_unknown(self, unlisted):
        missing(machine(UNLISTED), gpu_consumer)


class TestBeforeTuring:
    def test_a_volta_cannot_use_dmabuf(self):
        found = failed(one("v100-sxm"), gpu_before_turing)

        assert (paths_closed_by(found.takes), lasting(gpu_before_turing, found)) == (("dmabuf",),) * 2

    def test_an_ampere_can(self):
        passed(one("a100-sxm-80"), gpu_before_turing)

    def test_its_compute_capability_is_enough(self):
        attributes = {18: 0, 75: 7, 76: 0, 116: 1, 124: 0}

        assert paths_closed_by(
            failed(one("v100-sxm", commands=probe(GPU, attributes)), gpu_before_turing).takes
        ) == ("dmabuf",)


class TestUnsupported:
    @pytest.mark.parametrize(
        ("model", "instance", "refuses"),
        [
            ("l40s", "g6e.48xlarge", True),
            ("l40s", "g6.48xlarge", False),
            ("h100-sxm", "g6e.48xlarge", False),
        ],
    )
    def test_an_instance_type_of_ec2_without_gpudirect_refuses_whatever_cuda_says(
        self, model, instance, refuses
    ):
        files = {
            "sys/class/dmi/id/product_name": f"{instance}\n",
            "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        }
        node = machine(f"0000:15:01.0 spr-root\n  {GPU} {model}\n", files=files, commands=probe(GPU, ASKED))

        if refuses:
            found = failed(node, gpu_unsupported)
            assert found.seen == f"EC2's {instance} has EFA without GPUDirect" and found.permanent
        else:
            passed(node, gpu_unsupported)

    def test_a_data_centre_gpu_passes_and_says_what_would_make_it_certain(self):
        found = passed(machine(), gpu_unsupported)

        assert [m.source for m in found.lacking] == ["cuda-attribute-116", "cuda-attribute-124"]
        assert found.lacking[0].ask == "gdr doctor --probe"

    def test_after_a_probe_no_evidence_is_missing(self):
        assert passed(machine(commands=probe(GPU, ASKED)), gpu_unsupported).lacking == ()

    def test_attribute_116_blocks_both_paths(self, unlisted):
        node = machine(UNLISTED, commands=probe(GPU, ASKED | {116: 0}))
        found = failed(node, gpu_unsupported)

        assert (paths_closed_by(found.takes), paths_closed_by(found.permanent)) == (OF_A_GPU,) * 2

    def test_attribute_124_blocks_dmabuf_and_a_remedy_may_help(self):
        found = failed(machine(commands=probe(GPU, ASKED | {124: 0})), gpu_unsupported)

        assert (paths_closed_by(found.takes), paths_closed_by(found.permanent)) == (("dmabuf",), ())

    def test_a_gpu_in_no_table_is_unknown(self, unlisted):
        assert missing(machine(UNLISTED), gpu_unsupported).source == "cuda-attribute-116"

    def test_a_kind_with_a_code_of_its_own_is_not_applicable(self):
        not_applicable(one("rtx-4090"), gpu_unsupported)
        not_applicable(machine(SPARK), gpu_unsupported)
        assert outcome(one("v100-sxm"), gpu_unsupported)  # peermem is possible
