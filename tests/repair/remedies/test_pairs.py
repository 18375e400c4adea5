"""Each remedy against each code that names it: on nodes of tests/evidence, and where none fails the code, on
one that is derived by a supposition."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gdrkit.catalogue import every_rule, rule_of
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import (
    DRIVER,
    disk_driver_flavour,
    driver_parameters,
    driver_path,
    driver_version,
    peermem_path,
)
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.gpu_recovery import lost_gpus, recovery
from gdrkit.facts.gpu_refusal import Reason, refusal, refusal_reason
from gdrkit.facts.kernel import lockdown
from gdrkit.facts.kernel_log import KernelLogLine
from gdrkit.facts.libraries import SharedLibrary, has_dmabuf, nccl_copies, other_libibverbs, verbs_has_dmabuf
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.module_state import KernelMatch, KernelMismatch, kernel_match
from gdrkit.facts.modules import PEERMEM, is_loaded, loaded
from gdrkit.facts.nic_health import nic_fault
from gdrkit.facts.nvidia_smi import smi_memory
from gdrkit.facts.nvswitch import fabric_fault
from gdrkit.facts.pci import PciGpu, devices, gpus, iommu_group
from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.peer_memory import memory_peers
from gdrkit.facts.rdma import nic_address, nics, rdma_devices
from gdrkit.facts.secure_boot import signatures_enforced
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check
from gdrkit.facts.verbs_provider import provider_has_dmabuf
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.facts.xids import NeededRecovery, Recovery
from gdrkit.node import Node, Supposition
from gdrkit.programs.environment import Environment, environment, parse_conf
from gdrkit.programs.mnnvl.facts import NvlinkFabric, imex_channels, nvlink_fabric
from gdrkit.programs.mooncake.consumer import mooncake_copies
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.repair.platforms.action import RunCommand, WriteFile
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.allow_peer_mapping import DWORDS
from gdrkit.repair.remedies.override_topology_check import TOPOLOGY_CHECK
from gdrkit.repair.remedies.plan import plan, what_then
from gdrkit.rules.bar1 import NO_SPACE
from gdrkit.rules.rule import Failed, Rule
from gdrkit.verdict import judge_node
from gdrkit.verdict.check_results import check_results
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down, names
from tests.repair.remedies.test_restart_ofed import with_inbox_running

Pair = tuple[str, str]


@functools.cache
def plain(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def after(name: str, *changes: Supposition) -> Node:
    return plain(name).after("derived", changes)


def with_setting(line: str) -> Node:
    conf = "etc/nccl.conf"
    found = Environment(conf, "node", parse_conf(f"{line}\n", conf))
    return after("ubuntu-6.8-h100", environment.becomes(found, conf))


def with_signature(state: SignatureState, *, enforced: bool, of_driver: bool = False) -> Node:
    """peermem-blacklisted, whose nvidia-peermem fits, with another signature."""
    node = plain("peermem-blacklisted")
    path = driver_path(node) if of_driver else peermem_path(node)
    changes = [
        signature_check.becomes(SignatureCheck(state), path),
        signatures_enforced.becomes(enforced),
        lockdown.becomes("none" if enforced else "integrity"),
    ]
    if of_driver:
        changes.append(is_loaded.becomes(False, DRIVER))
    return node.after("derived", changes)


def with_line(kind: str, value: str) -> Node:
    node = plain("peermem-blacklisted")
    line = Directive(PEERMEM, value, "etc/modprobe.d/x.conf", 1)
    return node.after("derived", [configuration.becomes(replace(configuration(node), **{kind: (line,)}))])


def refusing_unsupported_modules() -> Node:
    """A SLES whose modprobe wants SUSE's mark, and an nvidia-peermem without it."""
    node = plain("sles-key-in-db")
    line = Directive("allow_unsupported_modules", "0", "etc/modprobe.d/10-unsupported-modules.conf", 1)
    changed = replace(configuration(node), allow_unsupported_modules=(replace(line, name="0"),))
    return node.after("derived", [configuration.becomes(changed)])


def small_requests() -> Node:
    node = plain("ubuntu-6.8-h100")
    return node.after(
        "derived", [read_request_bytes.becomes(512, nic_address(node, device.name)) for device in nics(node)]
    )


def old_copy() -> Node:
    path = "opt/hpcx/lib/libibverbs.so.1"
    return after(
        "ubuntu-6.8-h100",
        other_libibverbs.becomes((SharedLibrary(path, ""),)),
        has_dmabuf.becomes(False, path),
    )


def refusing_all() -> Node:
    node = plain("ubuntu-6.8-h100")
    parameters = {**driver_parameters(node), TOPOLOGY_CHECK: "2"}
    return node.after(
        "derived", [driver_parameters.becomes(parameters), driver_version.becomes("580.95.05")]
    )


def with_old_provider() -> Node:
    node = plain("ubuntu-6.8-h100")
    irdma = tuple(replace(one, driver="ice") for one in rdma_devices(node))
    return node.after("derived", [rdma_devices.becomes(irdma), provider_has_dmabuf.becomes(False, "irdma")])


def refusing_an_efa() -> Node:
    """Grace and Blackwell with an EFA, and a driver that does not map for it."""
    node = plain("gb200-force-pcie")
    efa = [replace(one, driver="efa") for one in nics(node)]
    of_gpu = {gpu.address: "9" for gpu in gpus(node)}
    groups = [iommu_group.becomes(group, address) for address, group in of_gpu.items()]
    return node.after("derived", [nics.becomes(tuple(efa)), driver_version.becomes("595.91.07"), *groups])


def full_window() -> Node:
    line = KernelLogLine(1, 0.0, f"NVRM: {NO_SPACE}")
    unseen = Missing("nvidia-smi", MissingReason.NOT_COLLECTED, "nvidia-smi -q -d MEMORY")
    return after("peermem-blacklisted", last_line.becomes(line, NO_SPACE), smi_memory.becomes(unseen))


WHOLE = "ubuntu-6.8-h100"


def _gpu() -> PciGpu:
    return gpus(plain(WHOLE))[0]


def with_dwords(keys: str) -> Node:
    node = plain("ubuntu-6.8-h100")
    return node.after("derived", [driver_parameters.becomes({**driver_parameters(node), DWORDS: keys})])


def under_nouveau() -> Node:
    """The driver is installed and fits; nouveau holds the GPU."""
    node = plain("iommu-translating")
    own = {gpu.address for gpu in gpus(node)}
    held = tuple(replace(d, driver="nouveau") if d.address in own else d for d in devices(node))
    changes = (devices.becomes(held), is_loaded.becomes(False, DRIVER), is_loaded.becomes(True, "nouveau"))
    return node.after("derived", changes)


def in_a_rack(*changes: Supposition) -> Node:
    node = plain("gb200-force-pcie")
    fabric = NvlinkFabric("Completed", "Success", "32766", "b5b1d1f8-0a5b-4a0c-9a6a-3f4a0c7f1e11")
    joined = [nvlink_fabric.becomes(fabric, gpu) for gpu in gpus(node)]
    return node.after("derived", [*joined, *changes])


def with_mooncake(version: str) -> Node:
    return after("ubuntu-6.8-h100", mooncake_copies.becomes((LibraryCopy(version, "image"),)))


def with_peermem_unlisted(*changes: Supposition) -> Node:
    """nvidia-peermem is loaded, on a kernel that does not list the clients."""
    listed = is_loaded.becomes(True, PEERMEM)
    return after("peermem-blacklisted", listed, memory_peers.becomes(()), *changes)


def with_open_modules_on_disk() -> Node:
    """The open modules were installed, and the proprietary ones run until the next boot."""
    return after("dgx-a100-proprietary", disk_driver_flavour.becomes("open"))


def refusing_for_want_of_open_modules() -> Node:
    gpu = gpus(plain("dgx-a100-proprietary"))[0]
    return after(
        "dgx-a100-proprietary", refusal.becomes("no entry", gpu), refusal_reason.becomes(Reason.OPEN, gpu)
    )


DERIVED: dict[str, Callable[[], Node]] = {
    "bar1-exhausted": full_window,
    "gpu-needs-reset": lambda: after(
        WHOLE, recovery.becomes(NeededRecovery(Recovery.RESET, "Xid 119"), _gpu().address)
    ),
    "gpu-refused-by-driver": lambda: after(WHOLE, refusal.becomes("no entry", _gpu())),
    "nvswitch-fabric-down": lambda: after(WHOLE, fabric_fault.becomes("state In Progress", _gpu())),
    "nic-failed": lambda: after(
        WHOLE, nic_fault.becomes("health compromised", nic_address(plain(WHOLE), "mlx5_0"))
    ),
    "dependency-failed": lambda: with_signature(SignatureState.UNSIGNED, enforced=True, of_driver=True),
    "dmabuf-disabled-by-env": lambda: with_setting("NCCL_DMABUF_ENABLE=0"),
    "gdr-read-off": lambda: with_setting("NCCL_NET_GDR_READ=0"),
    "mnnvl-cumem-off": lambda: with_setting("NCCL_CUMEM_ENABLE=0"),
    "mnnvl-disabled-by-env": lambda: with_setting("NCCL_MNNVL_ENABLE=0"),
    "ib-disabled-by-env": lambda: with_setting("NCCL_IB_DISABLE=1"),
    "gdr-level-too-low": lambda: with_setting("NCCL_NET_GDR_LEVEL=LOC"),
    "driver-mismatch": lambda: after("ofed-rebuilt", driver_version.becomes("500.1")),
    "driver-not-loaded": lambda: after("peermem-blacklisted", is_loaded.becomes(False, DRIVER)),
    "install-override": lambda: with_line("install", "/bin/false"),
    "module-bad-parameter": lambda: with_line("options", "peerdirect_support=many"),
    "lockdown-blocks-module": lambda: with_signature(SignatureState.UNSIGNED, enforced=False),
    "ibgda-peer-mapping-denied": lambda: with_dwords("RMBug5172204War=4"),
    "mnnvl-imex-channel-missing": lambda: in_a_rack(imex_channels.becomes(())),
    "mooncake-forces-dmabuf": lambda: with_mooncake("0.3.11"),
    "mooncake-forces-peermem": lambda: with_mooncake("0.3.12"),
    "nvshmem-misses-peermem": lambda: with_peermem_unlisted(
        nvshmem_copies.becomes((LibraryCopy("3.2.5", "image"),))
    ),
    "ucx-lacks-dmabuf": lambda: after("ubuntu-6.8-h100", ucx_version.becomes("1.13.1")),
    "ucx-misses-peermem": lambda: with_peermem_unlisted(ucx_version.becomes("1.17.0")),
    "module-unsupported": refusing_unsupported_modules,
    "module-unsigned": lambda: with_signature(SignatureState.UNSIGNED, enforced=True),
    "module-wrong-kernel": lambda: after(
        "peermem-blacklisted",
        kernel_match.becomes(KernelMatch(KernelMismatch.VERMAGIC, found="5.4"), PEERMEM),
    ),
    "nccl-lacks-dmabuf": lambda: after(
        "ubuntu-6.8-h100", nccl_copies.becomes((LibraryCopy("2.12.7", "image"),))
    ),
    "read-request-small": small_requests,
    "topology-refused": refusing_all,
    "efa-mapping-refused": refusing_an_efa,
    "provider-lacks-dmabuf": with_old_provider,
    "verbs-lacks-dmabuf": lambda: after("ubuntu-6.8-h100", verbs_has_dmabuf.becomes(False)),
    "verbs-library-old": old_copy,
}
"""By code, a node that fails it."""


def crossed(node: Node, rule: Rule) -> tuple[list[str], list[str]]:
    """The remedies of a rule that are possible on a node, one after the other, and the subjects left."""
    here, applied = node, []
    for remedy in map(remedy_of, rule.remedies):
        with contextlib.suppress(EvidenceMissing):
            here = here.after(remedy.name, tuple(remedy.effect(here)))
            applied.append(str(remedy.name))
    return applied, [r.subject for r in check_results(here, [rule]) if isinstance(r.outcome, Failed)]


def failed(node: Node, rules: tuple[Rule, ...] = every_rule()) -> list[Rule]:
    found = [r.rule for r in check_results(node, rules) if isinstance(r.outcome, Failed)]
    return list(dict.fromkeys(rule for rule in found if rule.remedies))


@pytest.mark.parametrize("code", DERIVED)
def test_a_derived_node_fails_its_code_and_its_remedies_cure_it(code):
    node = DERIVED[code]()
    assert failed(node, (rule_of(code),)), f"{code} does not fail"
    applied, left = crossed(node, rule_of(code))
    assert applied, f"no remedy of {code} is possible"
    assert not left


def test_every_remedy_of_every_rule_is_possible_on_a_node_that_fails_it(tmp_path):
    met: set[Pair] = set()
    nodes = [plain(name) for name in names()]
    nodes += [make() for make in DERIVED.values()]
    for name in ("ofed-rebuilt", "nv-peer-mem-conflict"):
        (tmp_path / name).mkdir()
        nodes.append(with_inbox_running(name, Path(tmp_path / name)))
    nodes += [under_nouveau(), with_open_modules_on_disk(), refusing_for_want_of_open_modules()]
    lost = PciGpu(address="0000:77:00.0", device_id=_gpu().device_id)
    nodes.append(after(WHOLE, lost_gpus.becomes((lost,))))
    nodes.append(Node(open_host(str(Path(__file__).parents[2] / "rules/dumps/gb300-wrong.json"))))
    for node in nodes:
        for rule in failed(node):
            met |= {(rule.code, remedy) for remedy in crossed(node, rule)[0]}
    wanted = {(rule.code, str(remedy)) for rule in every_rule() for remedy in rule.remedies}
    assert sorted(wanted - met) == []


def test_loading_a_driver_promises_no_more_than_its_prediction():
    """Whether the init of nvidia succeeds where it does not run yet is not known."""
    unloaded = plain("iommu-translating").after("derived", [is_loaded.becomes(False, DRIVER)])
    without = unloaded.after("derived", [loaded.becomes({})])
    assert [s.then.state for chain in plan(without, judge_node(without), "nccl") for s in chain] == []
    chains = what_then(without, judge_node(without), "nccl")
    assert [(step.remedy.name, step.then.state) for step in chains[0]] == [("load-driver", State.UNKNOWN)]


def test_a_driver_is_not_loaded_beside_one_that_holds_the_gpu():
    node = under_nouveau()
    with pytest.raises(EvidenceMissing, match="nouveau does not hold"):
        tuple(remedy_of("load-driver").effect(node))
    after = node.after("release", tuple(remedy_of("release-gpu").effect(node)))
    assert tuple(remedy_of("load-driver").effect(after))
    actions = procedure_for(node, remedy_of("release-gpu"), ProcedureChoices()).actions
    assert isinstance(actions[0], WriteFile) and "blacklist nouveau\n" in actions[0].content
    assert "reboot" in actions[-1].what


def test_nothing_is_released_where_no_other_driver_holds_the_gpu():
    with pytest.raises(EvidenceMissing):
        tuple(remedy_of("release-gpu").effect(plain("iommu-translating")))


def test_a_redundant_module_is_unloaded_now_and_not_only_at_the_next_boot():
    node = plain("rhel-9-mofed")
    remedy = remedy_of("use-dmabuf")
    actions = procedure_for(node, remedy, ProcedureChoices()).actions
    unload = [action for action in actions if isinstance(action, RunCommand)]
    assert [(action.argv, action.may_fail) for action in unload] == [(("rmmod", PEERMEM), True)]


def test_the_blacklist_that_keeps_systemd_from_loading_a_module_at_boot_is_removed_too():
    """modprobe loads it by hand all the same, so that it is loaded now."""
    node = after("peermem-blacklisted", is_loaded.becomes(True, PEERMEM))
    rule, remedy = rule_of("peermem-not-persistent"), remedy_of("persist-peermem")
    (blacklisted,) = [entry for entry in configuration(node).blacklist if entry.name == PEERMEM]
    (found,) = [r.outcome for r in check_results(node, (rule,)) if isinstance(r.outcome, Failed)]
    assert f"{blacklisted.file}:{blacklisted.line} blacklists it" in found.seen
    assert crossed(node, rule) == (["persist-peermem"], [])
    actions = procedure_for(node, remedy, ProcedureChoices()).actions
    written = {action.path: action.content for action in actions if isinstance(action, WriteFile)}
    assert f"# gdrkit: blacklist {PEERMEM}" in written[f"/{blacklisted.file}"].replace("-", "_")


def test_an_old_ucx_finds_the_loaded_module_where_the_rdma_core_lists_its_clients():
    """UCX up to 1.17 looks for a file that the RDMA core of some kernels only creates."""
    node = after("peermem-blacklisted", ucx_version.becomes("1.17.0"), memory_peers.becomes(()))
    rule, known = rule_of("ucx-misses-peermem"), is_loaded.becomes(True, PEERMEM)
    assert [isinstance(r.outcome, Failed) for r in check_results(node.after("x", [known]), (rule,))] == [
        True
    ]
    beside = node.after("load", tuple(remedy_of("load-peermem").effect(node)))
    assert [isinstance(r.outcome, Failed) for r in check_results(beside, (rule,))] == [False]


@pytest.mark.parametrize(
    ("code", "consumer", "step"),
    [
        ("mnnvl-imex-channel-missing", "mnnvl", "create-imex-channel"),
        ("mooncake-forces-peermem", "mooncake", "mooncake-use-dmabuf"),
    ],
)
def test_what_a_program_alone_lacks_is_a_plan_of_one_step_for_it_and_none_for_nccl(code, consumer, step):
    node = DERIVED[code]()
    chains = plan(node, judge_node(node, asked=consumer), consumer)
    assert [one.remedy.name for one in chains[0]] == [step]
    assert chains[0][0].then.state is State.READY
    assert plan(node, judge_node(node), "nccl") == ()


def test_settings_that_turn_nvlink_between_hosts_off_are_removed_by_a_plan():
    """clean-nccl-settings serves more than the two paths of memory registration."""
    conf = "etc/nccl.conf"
    found = Environment(conf, "node", parse_conf("NCCL_CUMEM_ENABLE=0\n", conf))
    node = in_a_rack(imex_channels.becomes((0,)), environment.becomes(found, conf))
    (chain,) = plan(node, judge_node(node, asked="mnnvl"), "mnnvl")
    assert [one.remedy.name for one in chain] == ["clean-nccl-settings"]
