"""Amazon's EFA: what its driver, libfabric and the plugin aws-ofi-nccl do with GPU memory, by version."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.facts.rdma import rdma_devices
from gdrkit.programs.aws_ofi_nccl.consumer import AWS_OFI_NCCL, without_dmabuf
from gdrkit.programs.aws_ofi_nccl.rules import (
    efa_driver_too_old,
    efa_gdr_unsupported_instance,
    efa_p2p_unavailable,
    efa_peermem_proprietary_driver,
    libfabric_too_old,
    no_efa_device,
    ofi_dmabuf_off_by_default,
    ofi_lacks_hmem,
)
from gdrkit.programs.nccl.library_rules import nccl_skips_efa
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import ADDRESS, EFA_P2P, PINNING
from gdrkit.verdict.cells import cells_of, paths_closed_by
from tests.memory_host import MemoryHost
from tests.module_builder import build_module
from tests.rules.machines import (
    NIC,
    Files,
    does_not_apply,
    driver,
    failed,
    installed,
    loaded,
    missing,
    node,
    passes,
    rdma_device,
)

BELOW = f"sys/devices/pci0000:15/0000:15:01.0/{NIC}"
P2P = f"{BELOW}/p2p"


def efa(*, p2p: str | None = "NVIDIA", version: str = "2.17.3", device_id: str = "0xefa2") -> MemoryHost:
    """An EFA, whose driver is that of the kernel where it has no version."""
    machine = rdma_device("rdmap24s0", pci_driver="efa")
    files = {**machine.files, f"{BELOW}/device": f"{device_id}\n", "sys/module/efa/initstate": "live\n"}
    if version:
        files["sys/module/efa/version"] = f"{version}\n"
    if p2p is not None:
        files[P2P] = f"{p2p}\n"
    links = {**machine.links, f"{BELOW}/infiniband/rdmap24s0/device": "../../../0000:18:00.0"}
    return MemoryHost(files, links=links)


def on(kind: str) -> Files:
    return {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "sys/class/dmi/id/product_name": f"{kind}\n"}


def with_packages(*parts: Files | MemoryHost, **versions: str):
    """A machine with an EFA and these packages, _ for - in their names."""
    records = (
        f"Package: {name.replace('_', '-')}\nStatus: install ok installed\nVersion: {version}\n"
        for name, version in versions.items()
    )
    return node(efa(), *parts, {"var/lib/dpkg/status": "\n" + "\n".join(records)})


def only(machine):
    (device,) = rdma_devices(machine)
    return device


# -- is there one? -------------------------------------------------------------------------------------


def test_nccls_own_code_leaves_an_efa_to_the_plugin_and_no_other_nic():
    found = failed(node(efa()), nccl_skips_efa, only(node(efa())))
    assert found.subject == "rdmap24s0"
    assert set(paths_closed_by(nccl_skips_efa.takes(None))) == {"dmabuf", "peermem", "staged"}
    other = node(rdma_device())
    assert does_not_apply(other, nccl_skips_efa, only(other))


def test_on_a_machine_without_an_efa_the_plugin_has_no_direct_path_ever():
    found = failed(node(rdma_device()), no_efa_device)

    assert found.seen == "no RDMA device with the driver efa"
    assert no_efa_device.permanent == set(AWS_OFI_NCCL.own("dmabuf", "efa-p2p"))
    assert passes(node(efa()), no_efa_device)


def test_it_is_unknown_where_a_devices_driver_is():
    machine = rdma_device()
    links = {path: target for path, target in machine.links.items() if not path.endswith("/driver")}

    files = {path: content for path, content in machine.files.items() if not path.endswith("/vendor")}

    unknown = node(MemoryHost(files, links=links))
    assert missing(unknown, no_efa_device).source == "driver of mlx5_0"
    assert missing(unknown, nccl_skips_efa, only(unknown)).source == "driver of mlx5_0"
    another = failed(node(MemoryHost(machine.files, links=links)), no_efa_device)  # of Mellanox
    assert another.subject == "node"


def test_nvidia_peermem_is_none_of_its_ways():
    """EFA's module asks NVIDIA's driver itself; what the GPU refuses everybody is refused EFA as well."""
    assert ("efa-p2p", "aws-ofi-nccl") not in cells_of((ADDRESS,))
    assert ("efa-p2p", "aws-ofi-nccl") in cells_of((PINNING,))


# -- the driver's own peer-to-peer ---------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["NVIDIA", "NVIDIA peermem"])
def test_the_driver_tells_whose_functions_it_calls(provider: str):
    machine = node(efa(p2p=provider))

    assert passes(machine, efa_p2p_unavailable, only(machine))
    assert efa_p2p_unavailable.takes(None) == (EFA_P2P,)


@pytest.mark.parametrize("provider", ["", "NEURON"])
def test_without_nvidias_functions_it_cannot_pin_gpu_memory(provider: str):
    machine = node(efa(p2p=provider))

    assert failed(machine, efa_p2p_unavailable, only(machine)).seen == f"device/p2p is {provider or 'empty'}"


def test_the_kernels_own_driver_has_no_such_way():
    machine = node(efa(p2p=None, version=""))

    assert failed(machine, efa_p2p_unavailable, only(machine)).seen.startswith("Linux's own efa")


def test_a_driver_before_the_file_leaves_it_open():
    machine = node(efa(p2p=None, version="2.5.0"))

    assert missing(machine, efa_p2p_unavailable, only(machine)).source == "peer-to-peer of efa"


def test_a_kernel_that_refuses_the_proprietary_functions_is_why():
    for symbol, found in (("nvidia_p2p_get_pages", True), ("fs_register_dma_ops", False)):
        line = f"[  311.7] failing symbol_get of non-GPLONLY symbol {symbol}.\n"
        log = f"[    0.0] Linux version 5.10.205\n{line}"
        machine = node(efa(p2p=None, version="2.6.0"), log=log)
        seen = failed(machine, efa_p2p_unavailable, only(machine)).seen
        assert ("symbol_get" in seen) is found


def test_it_is_unknown_where_the_file_was_not_collected():
    machine = node(efa(p2p=None), complete=False)

    assert missing(machine, efa_p2p_unavailable, only(machine)).source == P2P


# -- versions of the driver ----------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "nvidia"), [("2.17.2", "580.95.05"), ("2.15.3", "590.44.01")])
def test_nvidias_driver_580_needs_a_newer_efa(version: str, nvidia: str):
    found = failed(node(efa(version=version), driver(nvidia)), efa_driver_too_old)

    assert found.seen == f"efa {version} with driver {nvidia}"
    assert efa_driver_too_old.takes(None) == (EFA_P2P,)


@pytest.mark.parametrize(("version", "nvidia"), [("2.17.3", "580.95.05"), ("2.15.3", "570.158.01")])
def test_other_versions_fit(version: str, nvidia: str):
    assert passes(node(efa(version=version), driver(nvidia)), efa_driver_too_old)


def test_versions_do_not_matter_without_an_efa_or_with_the_kernels_own():
    assert does_not_apply(node(rdma_device(), driver("580.95.05")), efa_driver_too_old)
    assert does_not_apply(node(efa(version="", p2p=None), driver("580.95.05")), efa_driver_too_old)
    assert does_not_apply(node(efa(version="2.1")), efa_driver_too_old)


def test_the_version_is_unknown_where_the_module_was_not_collected():
    machine = node(efa(), driver("580.95.05"), complete=False, without="sys/module/efa")

    assert missing(machine, efa_driver_too_old).source == "sys/module/efa"


# -- efa_nv_peermem ------------------------------------------------------------------------------------


def with_bridge(*, open_modules: bool, running: tuple[str, ...] = ("nvidia",)):
    module = installed({"updates/efa_nv_peermem.ko": build_module("efa_nv_peermem")})
    return node(efa(), module, loaded(*running), driver(open_modules=open_modules))


def test_efa_nv_peermem_refuses_the_proprietary_driver_which_efa_reaches_itself():
    found = failed(with_bridge(open_modules=False), efa_peermem_proprietary_driver)

    assert found.subject == "efa_nv_peermem"
    assert efa_peermem_proprietary_driver.takes(None) == ()


def test_with_the_open_driver_it_loads():
    assert passes(with_bridge(open_modules=True), efa_peermem_proprietary_driver)
    assert does_not_apply(
        node(efa(), installed({}), driver(open_modules=False)), efa_peermem_proprietary_driver
    )


def test_it_is_unknown_where_the_modules_on_disk_were_not_collected():
    assert missing(node(efa(), driver(open_modules=False), complete=False), efa_peermem_proprietary_driver)


# -- the instance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["p3dn.24xlarge", "g4dn.metal", "g5.48xlarge", "g6e.24xlarge"])
def test_efa_of_these_instances_cannot_reach_the_gpu(kind: str):
    found = failed(node(efa(), on(kind)), efa_gdr_unsupported_instance)

    assert found.seen == kind
    assert efa_gdr_unsupported_instance.permanent == set(AWS_OFI_NCCL.own("dmabuf", "efa-p2p"))


@pytest.mark.parametrize(
    "kind", ["p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "g7e.48xlarge"]
)
def test_instances_that_must_have_it_have_it(kind: str):
    assert passes(node(efa(), on(kind)), efa_gdr_unsupported_instance)


@pytest.mark.parametrize("kind", ["p5.4xlarge", "g7e.8xlarge"])
def test_of_other_instances_no_file_tells(kind: str):
    assert missing(node(efa(), on(kind)), efa_gdr_unsupported_instance).source == f"RDMA of EFA on {kind}"


def test_a_machine_elsewhere_is_no_instance():
    elsewhere = {"sys/class/dmi/id/sys_vendor": "QEMU\n", "sys/class/dmi/id/product_name": "p3dn.24xlarge\n"}

    assert does_not_apply(node(efa(), elsewhere), efa_gdr_unsupported_instance)
    assert does_not_apply(node(rdma_device(), on("p3dn.24xlarge")), efa_gdr_unsupported_instance)


# -- libfabric -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("libfabric", "plugin", "loses"),
    [
        ("1.19.0amzn1.0", "1.12.1-1", None),  # no dma-buf
        ("1.21.0amzn2.0", "1.13.0-1", None),  # the plugin stops
        ("1.21.0amzn2.0", "1.12.1-1", ()),  # it is enough for this plugin
    ],
)
def test_a_libfabric_before_1_22_is_too_old(libfabric: str, plugin: str, loses: tuple[()] | None):
    machine = with_packages(libfabric1_aws=libfabric, libnccl_ofi=plugin)

    assert failed(machine, libfabric_too_old).takes == loses


def test_one_of_two_plugins_that_needs_a_newer_libfabric_is_enough():
    """Which of them a job loads is not known."""
    plugins = {"libnccl_ofi": "1.12.1-1", "aws_ofi_nccl": "1.13.0-1"}
    older = plugins | {"aws_ofi_nccl": "1.12.9-1"}

    assert failed(with_packages(libfabric1_aws="1.21.0", **plugins), libfabric_too_old).takes is None
    assert failed(with_packages(libfabric1_aws="1.21.0", **older), libfabric_too_old).takes == ()


def test_a_newer_libfabric_passes():
    assert passes(with_packages(libfabric1_aws="1.22.0amzn4.0"), libfabric_too_old)
    assert passes(with_packages(libfabric_aws="2.4.0amzn3.0"), libfabric_too_old)


def test_where_it_is_not_installed_an_image_brings_it():
    assert does_not_apply(with_packages(libibverbs1="58.0"), libfabric_too_old)
    assert does_not_apply(with_packages(libibverbs1="58.0"), ofi_lacks_hmem)


def test_the_distributions_libfabric_is_built_without_cuda():
    machine = with_packages(libfabric1="1.17.0-3")

    assert failed(machine, ofi_lacks_hmem).seen == "the distribution's libfabric1"
    assert machine.confidence(judge, ofi_lacks_hmem, "node") is Confidence.LIKELY


def test_amazons_libfabric_beside_it_is_what_jobs_load():
    assert passes(with_packages(libfabric1="1.17.0-3", libfabric1_aws="2.4.0amzn3.0"), ofi_lacks_hmem)


def test_without_the_list_of_packages_libfabric_is_unknown():
    machine = node(efa(), complete=False)

    assert missing(machine, libfabric_too_old)
    assert missing(machine, ofi_lacks_hmem)
    assert does_not_apply(node(rdma_device()), ofi_lacks_hmem)


# -- dma-buf by release and device ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "device_id", "setting", "uses"),
    [
        ("1.12.1", "0xefa2", "0", False),
        ("1.13.1", "0xefa2", None, True),
        ("1.13.2", "0xefa2", None, False),
        ("1.14.1", "0xefa3", None, False),
        ("1.14.1", "0xefa2", "0", True),
        ("1.14.2", "0xefa2", None, False),
        ("1.14.2", "0xefa2", "0", False),
        ("1.14.2", "0xefa3", None, True),
        ("1.19.1", "0xefa0", None, False),
        ("1.19.2", "0xefa0", None, True),
        ("1.21.1", "0xefa1", None, True),
    ],
)
def test_a_release_uses_dmabuf(version: str, device_id: str, setting: str | None, uses: bool):
    """aws/aws-ofi-nccl at each tag: include/nccl_ofi_param.h, src/nccl_ofi_net.cpp, nccl_ofi_dmabuf.cpp."""
    assert (without_dmabuf(version, device_id, setting) == "") is uses


def test_a_release_that_excludes_this_device_is_found():
    machine = with_packages(libnccl_ofi="1.16.2-1")
    found = failed(machine, ofi_dmabuf_off_by_default, only(machine))

    assert found.seen == "aws-ofi-nccl 1.16.2 does not use dma-buf with EFA of device id 0xefa2"
    assert ofi_dmabuf_off_by_default.takes(None) == AWS_OFI_NCCL.own("dmabuf")


def test_the_setting_turns_it_on_where_only_the_default_was_off():
    off = with_packages(libnccl_ofi="1.14.0-1")
    on_again = with_packages({"etc/environment": "OFI_NCCL_DISABLE_DMABUF=0\n"}, libnccl_ofi="1.14.0-1")

    assert failed(off, ofi_dmabuf_off_by_default, only(off)).seen.endswith(
        "OFI_NCCL_DISABLE_DMABUF=1 by default"
    )
    assert passes(on_again, ofi_dmabuf_off_by_default, only(on_again))


def test_a_plugin_without_a_version_is_unknown_and_one_in_an_image_is_assumed_to_be_new():
    library = with_packages({"opt/amazon/ofi-nccl/lib64/libnccl-net.so": ""}, libfabric_aws="2.4.0")
    image = with_packages(libfabric_aws="2.4.0")

    assert missing(library, ofi_dmabuf_off_by_default, only(library)).source == "version of aws-ofi-nccl"
    assert does_not_apply(image, ofi_dmabuf_off_by_default, only(image))
    assert [AWS_OFI_NCCL.installed(machine) for machine in (library, image)] == [True, False]
