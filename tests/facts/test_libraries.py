"""User-space libraries: paths, versions, features, and missing evidence."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.commands import PACKAGES_DPKG, UCX_INFO
from gdrkit.facts.libraries import (
    libcuda_version,
    libibverbs,
    memlock_limit_bytes,
    nccl_copies,
    nccl_version,
    other_libibverbs,
    unlimited_logins,
    verbs_has_dmabuf,
)
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node
from gdrkit.programs.deepep.consumer import deepep_copies
from gdrkit.programs.nccl.facts import net_plugins
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.programs.ucx.facts import ucx_version
from tests.evidence_builder.library import DMABUF, VERBS, shared_object
from tests.memory_host import MemoryHost

LIB = "usr/lib/x86_64-linux-gnu"
NEW = shared_object("libibverbs.so.1", (*VERBS, DMABUF))
OLD = shared_object("libibverbs.so.1", VERBS)


def verbs(content: bytes, version: str = "1.14.50.0", folder: str = LIB) -> MemoryHost:
    return MemoryHost(
        {f"{folder}/libibverbs.so.{version}": content},
        links={f"{folder}/libibverbs.so.1": f"libibverbs.so.{version}"},
        complete=True,
    )


@pytest.mark.parametrize(("content", "offered"), [(NEW, True), (OLD, False)])
@pytest.mark.parametrize("folder", [LIB, "usr/lib64", "usr/lib/aarch64-linux-gnu"])
def test_the_symbol_table_decides(content: bytes, offered: bool, folder: str):
    node = Node(verbs(content, folder=folder))

    assert verbs_has_dmabuf(node) is offered
    assert node.trail(verbs_has_dmabuf).confidence is Confidence.CERTAIN
    assert libibverbs(node).version == "1.14.50.0"


def test_a_symbol_table_takes_precedence_over_the_version_in_the_name():
    assert verbs_has_dmabuf(Node(verbs(OLD, "1.14.50.0"))) is False


def test_another_library_of_that_name_is_garbled():
    node = Node(verbs(shared_object("libibverbs.so.1", ("something_else",)), "1.14"))

    with pytest.raises(EvidenceMissing) as caught:
        verbs_has_dmabuf(node)

    assert caught.value.missing.why is MissingReason.GARBLED


def test_the_error_for_uncollected_folders_names_the_library():
    with pytest.raises(EvidenceMissing) as caught:
        verbs_has_dmabuf(Node(MemoryHost()))

    assert caught.value.missing.source == "libibverbs"
    assert not isinstance(caught.value, EvidenceAbsent)


def test_no_libibverbs_at_all_is_absent_by_name():
    with pytest.raises(EvidenceAbsent) as caught:
        verbs_has_dmabuf(Node(MemoryHost(complete=True)))

    assert caught.value.missing.source == "libibverbs"


@pytest.mark.parametrize(("version", "offered"), [("1.14.44.0", True), ("1.11.32.0", False)])
def test_a_file_name_is_likely(version: str, offered: bool):
    host = MemoryHost(
        {f"{LIB}/libibverbs.so.{version}": b"\x7fELF cut off"},
        links={f"{LIB}/libibverbs.so.1": f"libibverbs.so.{version}"},
    )
    node = Node(host)

    assert verbs_has_dmabuf(node) is offered
    assert node.trail(verbs_has_dmabuf).confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("version", "offered"), [("50.0-2build2", True), ("28.0-1", False), ("2410mlnx54-1.2410068", None)]
)
def test_a_package_version_is_likely_and_vendors_versions_are_ignored(version: str, offered: bool | None):
    listed = f"libibverbs1\t{version}\tamd64\tii \n"
    node = Node(MemoryHost(commands={PACKAGES_DPKG.argv: listed}))

    if offered is None:
        with pytest.raises(EvidenceMissing):
            verbs_has_dmabuf(node)
    else:
        assert verbs_has_dmabuf(node) is offered


def test_copies_other_than_the_systems_own_are_found():
    host = verbs(NEW)
    host.files["usr/local/lib64/libibverbs.so.1"] = OLD

    assert [copy.path for copy in other_libibverbs(Node(host))] == ["usr/local/lib64/libibverbs.so.1"]


def test_libcuda_shows_its_driver_version():
    host = MemoryHost(
        {f"{LIB}/libcuda.so.580.126.09": b""}, links={f"{LIB}/libcuda.so.1": "libcuda.so.580.126.09"}
    )

    assert libcuda_version(Node(host)) == "580.126.09"


def test_every_known_nccl_is_listed_and_the_oldest_counts():
    host = MemoryHost(
        {
            f"{LIB}/libnccl.so.2.27.3": b"",
            "usr/local/lib/python3.12/dist-packages/nvidia_nccl_cu12-2.21.5.dist-info/METADATA": b"",
            "usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2": b"",
        },
        links={f"{LIB}/libnccl.so.2": "libnccl.so.2.27.3"},
    )
    node = Node(host)

    assert nccl_copies(node) == (
        LibraryCopy("2.27.3", f"{LIB}/libnccl.so.2.27.3"),
        LibraryCopy("2.21.5", "usr/local/lib/python3.12/dist-packages/nvidia_nccl_cu12-2.21.5.dist-info"),
    )
    assert nccl_version(node) == "2.21.5"


def test_every_known_nvshmem_is_listed():
    host = MemoryHost(
        {
            f"{LIB}/libnvshmem_host.so.3.4.5": b"",
            "opt/venv/lib/python3.12/site-packages/nvidia_nvshmem_cu12-3.2.5.dist-info/METADATA": b"",
            "opt/venv/lib/python3.12/site-packages/nvidia/nvshmem/lib/libnvshmem_host.so.3": b"",
            "opt/venv/lib/python3.12/site-packages/nvidia_nccl_cu12-2.27.3.dist-info/METADATA": b"",
        },
        links={f"{LIB}/libnvshmem_host.so.3": "libnvshmem_host.so.3.4.5"},
    )

    assert nvshmem_copies(Node(host)) == (
        LibraryCopy("3.4.5", f"{LIB}/libnvshmem_host.so.3.4.5"),
        LibraryCopy("3.2.5", "opt/venv/lib/python3.12/site-packages/nvidia_nvshmem_cu12-3.2.5.dist-info"),
    )


SITE = "opt/venv/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("entries", "version"),
    [
        (("deep_ep-1.2.1+9af0e0d.dist-info/RECORD", "deep_ep/buffer.py"), "1.2.1"),
        (("deep_ep-1.2.1+9af0e0d-py3.12-linux-x86_64.egg/deep_ep/buffer.py",), "1.2.1"),
        (("deep_ep-2.1.0+local.dist-info/RECORD", "__editable__.deep_ep-2.1.0+local.pth"), "2.1.0"),
        (("deep_ep-2.1.0.egg-info/PKG-INFO", "deep_ep/__init__.py"), "2.1.0"),
    ],
)
def test_each_way_of_installing_shows_the_version(entries: tuple[str, ...], version: str):
    (copy,) = deepep_copies(Node(MemoryHost({f"{SITE}/{entry}": b"" for entry in entries}, complete=True)))

    assert (copy.version, copy.one_of) == (version, "")


def test_metadata_without_its_package_is_a_leftover():
    left = MemoryHost(
        {f"{SITE}/deep_ep-1.2.1.dist-info/RECORD": b"", f"{SITE}/deep_gemm/a": b""}, complete=True
    )

    with pytest.raises(EvidenceAbsent):
        deepep_copies(Node(left))


def test_a_package_without_metadata_is_of_unknown_version():
    with pytest.raises(EvidenceMissing) as raised:
        deepep_copies(Node(MemoryHost({f"{SITE}/deep_ep/buffer.py": b""}, complete=True)))
    assert raised.value.missing.why is MissingReason.UNDECIDED


def test_two_versions_of_one_folder_are_marked():
    entries = ("deep_ep-1.2.1.dist-info/RECORD", "deep_ep-2.1.0.dist-info/RECORD", "deep_ep/__init__.py")
    copies = deepep_copies(Node(MemoryHost({f"{SITE}/{entry}": b"" for entry in entries})))

    assert {(copy.version, copy.one_of) for copy in copies} == {("1.2.1", SITE), ("2.1.0", SITE)}


def test_an_unlisted_folder_of_a_vendor_leaves_the_wheel_in_doubt_and_counted():
    """Older bundles have the names beside a wheel's metadata, and not those inside of nvidia/."""
    host = MemoryHost(
        {f"{SITE}/nvidia_nvshmem_cu12-3.4.5.dist-info/WHEEL": b"", f"{SITE}/nvidia/cublas/a": b""}
    )

    assert [copy.version for copy in nvshmem_copies(Node(host))] == ["3.4.5"]


def test_an_absent_nvshmem_differs_from_one_that_was_not_collected():
    with pytest.raises(EvidenceAbsent):
        nvshmem_copies(Node(MemoryHost(complete=True)))
    with pytest.raises(EvidenceMissing) as raised:
        nvshmem_copies(Node(MemoryHost()))
    assert not isinstance(raised.value, EvidenceAbsent)


def test_an_nvshmem_without_a_version_in_its_name_is_undecided():
    with pytest.raises(EvidenceMissing) as raised:
        nvshmem_copies(Node(MemoryHost({f"{LIB}/libnvshmem_host.so.3": b""})))
    assert raised.value.missing.why is MissingReason.UNDECIDED


def test_an_nccl_that_was_not_collected_has_no_version():
    with pytest.raises(EvidenceMissing):
        nccl_version(Node(MemoryHost(complete=True)))


UCX_PC = "prefix=/usr\nName: ucx\nVersion: 1.17.0\nLibs: -lucp\n"


@pytest.mark.parametrize(
    "host",
    [
        MemoryHost({f"{LIB}/pkgconfig/ucx.pc": UCX_PC}, complete=True),
        MemoryHost(commands={PACKAGES_DPKG.argv: "libucx0\t1.17.0+ds-3\tamd64\tii \n"}),
        MemoryHost(commands={UCX_INFO.argv: "# Library version: 1.17.0\n# Library path: /usr/lib\n"}),
    ],
)
def test_ucx_shows_its_version_in_three_sources(host: MemoryHost):
    assert ucx_version(Node(host)) == "1.17.0"


@pytest.mark.parametrize("version", ["1.99999999999999999999.1", "99999999999999999999.12.1", "1.17"])
def test_what_is_no_version_of_ucx_is_not_read(version: str):
    files = {f"{LIB}/pkgconfig/ucx.pc": UCX_PC.replace("1.17.0", version)}
    printed = {UCX_INFO.argv: "# Library version: 1.12.1\n"}
    assert ucx_version(Node(MemoryHost(files, commands=printed))) == "1.12.1"
    with pytest.raises(EvidenceMissing):
        ucx_version(Node(MemoryHost(files)))


def test_where_ucx_info_contradicts_the_file_of_its_folder_the_version_is_not_known():
    def seen(printed: str, source: str = "bundle") -> str:
        files, commands = {f"{LIB}/pkgconfig/ucx.pc": UCX_PC}, {UCX_INFO.argv: printed}
        host = MemoryHost(files, commands=commands)
        host.source = source
        return ucx_version(Node(host))

    other = f"# Library version: 1.12.1\n# Library path: /{LIB}/libucs.so.0\n"
    with pytest.raises(EvidenceMissing, match=r"ucx[.]pc, ucx_info -v.*undecided"):
        seen(other)
    assert seen(other.replace("1.12.1", "1.17.0")) == "1.17.0"
    assert seen(other.replace(f"/{LIB}/", "/opt/hpcx/ucx/lib/")) == "1.17.0"  # another copy
    assert seen("# Library version: 1.12.1\n") == "1.17.0"  # of which folder is not known
    assert seen(other, "live") == "1.17.0"  # no program is started for this


def test_no_ucx_is_absent_and_one_that_was_not_collected_is_not():
    with pytest.raises(EvidenceAbsent):
        ucx_version(Node(MemoryHost(complete=True)))
    with pytest.raises(EvidenceMissing) as caught:
        ucx_version(Node(MemoryHost()))

    assert not isinstance(caught.value, EvidenceAbsent)


def test_a_plugin_that_nccl_loads_by_default_is_found():
    assert net_plugins(Node(MemoryHost({f"{LIB}/libnccl-net.so": b""}))) == (f"{LIB}/libnccl-net.so",)
    assert net_plugins(Node(MemoryHost())) == ()


LIMITS = "Limit                     Soft Limit           Hard Limit           Units\n"


@pytest.mark.parametrize(("soft", "limit"), [("8388608", 8 << 20), ("unlimited", None)])
def test_the_memory_lock_limit(soft: str, limit: int | None):
    text = f"{LIMITS}Max locked memory         {soft}              unlimited            bytes\n"

    assert memlock_limit_bytes(Node(MemoryHost({"proc/self/limits": text}))) == limit


def test_limits_without_that_line_are_garbled():
    with pytest.raises(EvidenceMissing):
        memlock_limit_bytes(Node(MemoryHost({"proc/self/limits": LIMITS})))


@pytest.mark.parametrize(
    ("files", "whose"),
    [
        ({}, ""),
        ({"limits.d/99-hpc.conf": "* - memlock unlimited\n"}, "*"),
        ({"limits.conf": "*\tsoft\tmemlock\t-1 # RDMA\n* hard memlock infinity\n"}, "*"),
        ({"limits.conf": "* - memlock -1\n", "limits.d/9.conf": "root - memlock -1\n"}, "* root"),
        ({"limits.d/99-hpc.conf": "* soft memlock unlimited\n"}, ""),  # a shell may not go beyond the other
        ({"limits.conf": "* - memlock 8192\n", "limits.d/50.conf": "* - memlock unlimited\n"}, "*"),
        ({"limits.d/50.conf": "* - memlock unlimited\n", "limits.d/90.conf": "* hard memlock 65536\n"}, ""),
        ({"limits.d/99-hpc": "* - memlock unlimited\n"}, ""),  # PAM reads files named *.conf alone
        ({"limits.conf": "#* - memlock unlimited\n@hpc - memlock unlimited\n* - nofile unlimited\n"}, ""),
    ],
)  # fmt: skip
def test_whose_logins_may_lock_any_amount(files: dict[str, str], whose: str):
    host = MemoryHost({f"etc/security/{name}": text for name, text in files.items()}, complete=True)

    assert unlimited_logins(Node(host)) == set(whose.split())


def test_without_the_files_it_is_not_known_whose_logins_may():
    with pytest.raises(EvidenceMissing):
        unlimited_logins(Node(MemoryHost({}, complete=False)))
