"""What `gdr fix` says where no step of its own cures a node, and how it writes what a person does."""

from __future__ import annotations

import re
import subprocess

import pytest

from gdrkit.catalogue import rule_of
from gdrkit.evidence.target import open_host
from gdrkit.facts.kernel import architecture
from gdrkit.facts.machine import Distribution, distribution
from gdrkit.facts.packages import dkms, installed
from gdrkit.facts.rdma import distance, pairs, ports
from gdrkit.fleet.judge import row_of
from gdrkit.node import Node
from gdrkit.repair.config.operators import gpu_operator
from gdrkit.repair.config.output import ConfigOutput, rendered
from gdrkit.repair.config.request import ConfigRequest
from gdrkit.repair.platforms import doca
from gdrkit.report.answers import now
from gdrkit.report.build import build
from gdrkit.report.causes import first_cause
from gdrkit.report.fix import FixOptions, fix_report
from gdrkit.report.fix_document import FixReport
from gdrkit.report.fix_text import fix_text
from gdrkit.report.here import ends_in_reboot
from gdrkit.report.pages import advice as page_advice
from gdrkit.report.pages import code_page, sections, titles
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import judge_node
from tests.evidence_nodes import diagnosed, laid_down, names
from tests.memory_host import MemoryHost


def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def report(where: Node, **options: object) -> FixReport:
    return fix_report(where, FixOptions(**options))  # type: ignore[arg-type]


def with_port(state: str, physical: str, layer: str = "InfiniBand") -> Node:
    """rail-down, whose dead port is in another state."""
    from msgspec.structs import replace

    where = node("rail-down")
    (port,) = ports(where, "mlx5_7")
    changed = replace(port, state=state, physical_state=physical, link_layer=layer)
    return where.after("the port", [ports.becomes((changed,), "mlx5_7")])


@pytest.mark.parametrize(
    ("where", "word"),
    [
        (with_port("INIT", "LinkUp"), "subnet manager"),
        (with_port("DOWN", "Polling"), "Check the cable and the port at its other end"),
        (with_port("DOWN", "Disabled"), "ibportstate -C mlx5_7 -D 0 1 enable"),
        (with_port("DOWN", "Disabled", "Ethernet"), "LINK_TYPE_P1=1"),
    ],
    ids=["init", "polling", "disabled", "ethernet"],
)
def test_a_port_that_is_not_active_gets_advice_and_no_plan(where, word):
    found = report(where)
    assert found.verdict.state == "blocked" and found.plans == () and found.further == ()
    (action,) = found.by_hand
    assert action.kind == "ask-person" and word in action.line and "Port 1 of mlx5_7 is" in action.line
    shown = " ".join(fix_text(found).split())
    assert "install-ofed" not in shown and word in shown


def test_the_first_screen_gives_the_same_advice_as_gdr_fix():
    """Not that of the page, which begins with Ethernet."""
    where = with_port("INIT", "LinkUp")
    verdict = judge_node(where)
    document = build(where, verdict, "nccl", chains=(), plans=(), prediction=None)
    (action,) = report(where).by_hand
    shown = now(document, first_cause(document))
    assert f"port-down: {shown}" == f"{action.line} More: `gdr codes port-down`"


def test_a_kernel_without_the_drivers_modules_gets_advice_where_nothing_shows_what_to_install():
    """kernel-upgraded without the former kernel's packages: no remedy knows what to build."""
    where = node("kernel-upgraded").after("unknown", [installed.becomes({}), dkms.becomes(())])
    found = report(where)
    assert found.plans == ()
    (action,) = found.by_hand
    assert "Linux 5.15.0-122-generic has no modules of NVIDIA's driver" in action.line
    assert "sudo dkms autoinstall" in action.line
    assert report(node("kernel-upgraded")).plans, "the near miss: the package of the former kernel is known"


def test_a_blocker_with_a_remedy_is_told_beside_one_without():
    """The container's device files come first, and no step of gdr's moves a GPU nearer to its NIC."""
    where = node("container-no-infiniband")
    far = where.after("the topology", [distance.becomes("PHB", pair) for pair in pairs(where)])
    lines = [action.line for action in report(far).by_hand]

    assert lines[0].startswith("rdma-device-not-in-container: ") and "NCCL_NET_GDR_LEVEL=PHB" in lines[1]
    assert not report(where).plans and [line for line in lines if line in str(report(where).by_hand)]


def test_a_missing_nic_gets_the_advice_of_its_page():
    found = report(node("nic-gone"))
    assert found.by_hand[0].line.startswith("nic-missing: Look for the NIC with `lspci -d 15b3:`.")
    assert found.plans == ()


def test_on_a_node_of_the_gpu_operator_the_patch_is_that_of_gdr_config():
    where = node("gpu-operator-stub")
    patch = gpu_operator(ConfigRequest(node=where))
    assert isinstance(patch, ConfigOutput)
    assert report(where).by_hand[-1].content == rendered(patch)
    assert "           |     kernelModuleType: open" in fix_text(report(where)).splitlines()
    steps = report(where, goal="steps", steps=("open-kernel-modules",)).plans[0].steps
    assert steps[0].actions[0].content.endswith("useHostMofed: false\n")
    assert steps[0].actions[0].commands[0].startswith("kubectl patch clusterpolicy/cluster-policy")


def test_advice_stands_only_where_there_is_no_plan_and_no_step_that_does_nothing_is_recommended():
    seen = {"by hand": 0, "further": 0}
    for name in names():
        found = report(node(name))
        assert not (found.plans and found.by_hand), name
        if found.verdict.state in ("ready", "active"):
            offered = {step.remedy for step in found.further}
            assert not any(offered & set(action.remedies) for action in found.by_hand), name
        assert found.by_hand or found.verdict.state != "impossible", name
        assert all(step.actions for step in found.further), name
        seen["by hand"] += bool(found.by_hand)
        seen["further"] += bool(found.further)
    assert min(seen.values()) > 2


def test_every_command_that_a_user_copies_has_sudo():
    for name in ("ofed-rebuilt", "mixed-signers", "acs-redirect"):
        found = report(node(name))
        for step in (*found.further, *(step for plan in found.plans for step in plan.steps)):
            for action in step.actions:
                if action.argv:
                    assert action.line.startswith("sudo ") and action.argv[0] != "sudo"
                    assert all(line.startswith("sudo ") for line in action.undo)


REPOSITORIES = {
    ("ubuntu", "24.04", "x86_64"): "3.2.1/ubuntu24.04/x86_64/",
    ("ubuntu", "22.04", "aarch64"): "3.2.1/ubuntu22.04/arm64-sbsa/",
    ("rocky", "9.6", "x86_64"): "3.2.1/rhel9/x86_64/",
    ("rhel", "10.0", "aarch64"): "3.2.1/rhel10/arm64-sbsa/",
    ("ubuntu", "20.04", "x86_64"): "",
    ("sles", "15.6", "x86_64"): "",
    ("ubuntu", "24.04", "riscv64"): "",
}


@pytest.mark.parametrize(("system", "folder"), REPOSITORIES.items(), ids=str)
def test_the_repository_of_doca_is_set_up_by_commands_where_its_folder_is_known(system, folder, tmp_path):
    name, version, arch = system
    where = node("ofed-removed").after(
        "elsewhere",
        [distribution.becomes(Distribution(name, version, (), name)), architecture.becomes(arch)],
    )
    found = doca.repository(where)
    assert "DOCA 3.2.1" in found.what
    if not folder:
        assert found.commands == () and "docs.nvidia.com/doca" in found.what
        return
    script = tmp_path / "all.sh"
    script.write_text("\n".join(found.commands))
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    assert f"https://linux.mellanox.com/public/repo/doca/{folder}" in script.read_text()
    assert all("sudo" in command for command in found.commands)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no-gpu", "this machine has no NVIDIA GPU"),
        ("a6000-tower", "this machine has no RDMA device"),
        (
            "geforce-desktop",
            "the GPU is a GeForce or a TITAN, which NVIDIA does not support for GPUDirect RDMA",
        ),
    ],
)
def test_what_cannot_be_fixed_says_whether_hardware_is_missing_or_unfit(name, why):
    assert f"cannot be fixed: {why}\n" in fix_text(report(node(name)))


def test_the_advice_about_acs_is_the_step_of_gdr_fix():
    """A finding names one port; the step clears all of them, and only the bits that redirect."""
    said = page_advice("acs-redirect")
    assert f"gdr fix --steps {RemedyName.CLEAR_ACS_REDIRECT}`" in said
    assert "setpci" not in said and "<" not in said

    shown = fix_text(report(node("acs-redirect"), goal="steps", steps=(RemedyName.CLEAR_ACS_REDIRECT,)))
    for port in ("0000:17:01.0", "0000:17:02.0"):
        assert f"$ sudo setpci -s {port} ECAP_ACS+0x6.w=0000:001c" in shown


def test_the_page_of_a_port_that_is_down_has_the_commands_that_doctor_gives():
    _, parts = sections(rule_of("port-down"))
    for command in ("ibportstate -C <device> -D 0 <port> enable", "ip link set <interface> up", "mlxlink"):
        assert command in parts["What to do"]


def test_a_step_for_the_doorbell_says_who_rings_it_afterwards():
    found = report(node("ubuntu-6.8-h100"), consumer="nvshmem")
    (step,) = (one for one in found.further if one.remedy is RemedyName.ALLOW_PEER_MAPPING)

    assert {name: one.by for name, one in step.initiated.items()} == {"nvshmem": "gpu"}
    assert "then     nvshmem: IBGDA: the GPU itself rings the NIC's doorbell" in fix_text(found)


def test_a_step_for_something_else_does_not_speak_of_it():
    found = report(node("acs-redirect"))

    assert found.further and not any(step.initiated for step in found.further)


@pytest.mark.parametrize("code", [row.code for row in titles()])
def test_advice_with_a_condition_says_what_to_do_otherwise(code):
    """It quotes the first sentences of a page: what follows may give more, but no other branch."""
    whole = re.sub(r"(?<=\. )\d\. ", "", " ".join(code_page(code)[1].split()))
    left = whole.removeprefix(page_advice(code)).strip()
    assert not left.startswith("Otherwise"), left


@pytest.mark.parametrize(
    ("name", "words"),
    [("spark-two-cables", "Nothing: GPU memory is host memory"), ("a6000-tower", "Nothing: the GPUs of one machine need no NIC")],
)
def test_a_node_that_no_step_helps_is_told_whether_that_matters(name, words):
    text = " ".join(fix_text(report(node(name))).split())
    assert "cannot be fixed: " in text and f"by hand {words}" in text


@pytest.mark.parametrize(
    ("words", "reboots"),
    [
        ("Add `kho=off` to the kernel command line and reboot.", True),
        ("Set the bits. Then reboot: until then modprobe fails.", True),
        ("If it is Dual MIT/GPL, the open modules are installed: reboot.", True),
        ("Reboot the node.", True),
        ("Restart it (`sudo /etc/init.d/openibd restart`) or reboot.", False),  # one of two ways
        ("Install nvidia-fabricmanager, then restart it. No reboot is needed.", False),
        ("The modules are gone until the next reboot.", False),
    ],
)
def test_advice_ends_in_a_reboot_where_its_words_order_one(words, reboots):
    assert ends_in_reboot(Node(MemoryHost({})), words, ()) is reboots


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpu-off-the-bus", {"device-not-answering": (("power-cycle",), True)}),
        ("gpu-off-the-bus", {"gpu-needs-reset": (("reset-gpu", "power-cycle"), True)}),  # a lost GPU
        ("rail-down", {"port-down": ((), False)}),
        ("nic-gone", {"nic-missing": ((), False)}),
    ],
)
def test_advice_without_a_plan_has_its_remedies_and_its_reboot(name, expected):
    """In the JSON of gdr fix, and of the fleet for the first cause."""
    found = {action.line.partition(":")[0]: action for action in report(node(name)).by_hand}
    for code, (remedies, reboots) in expected.items():
        assert (found[code].remedies, found[code].needs_reboot) == (remedies, reboots)
        row = row_of(node(name), diagnosed(name), name)
        if code == row.causes[0]:
            assert (row.remedies, row.needs_reboot, row.by_hand) == (remedies, reboots, True)


def test_a_row_with_a_plan_has_the_plan_and_is_not_done_by_hand():
    name = "kernel-upgraded"
    row = row_of(node(name), diagnosed(name), name)

    assert row.remedies == tuple(step.remedy for step in diagnosed(name).plan[0].steps)
    assert row.needs_reboot and not row.by_hand
