"""UCX_TLS without cuda_copy, with which UCX recognises memory of a GPU."""

from __future__ import annotations

import pytest

from gdrkit.facts.commands import UCX_INFO
from gdrkit.programs.environment import UCX_CONF
from gdrkit.programs.nixl.consumer import NIXL
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.programs.ucx.rules import ucx_lacks_verbs, ucx_transport_excluded
from gdrkit.rules.capabilities import DIRECT
from tests.rules.machines import does_not_apply, failed, missing, node, passes

SYSTEM = "etc/environment"


@pytest.mark.parametrize("value", ["rc", "rc,sm,self", "tcp", "^cuda", "^cuda_copy,tcp", "^all"])
def test_a_list_without_cuda_copy_loses_the_direct_paths(value: str):
    found = failed(node({SYSTEM: f"UCX_TLS={value}\n"}), ucx_transport_excluded, SYSTEM)

    assert found.takes == (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))
    assert ucx_transport_excluded.takes(SYSTEM) == found.takes


def test_ucxs_own_file_counts_where_it_is_there_and_is_not_missed_elsewhere():
    found = failed(node({UCX_CONF: "UCX_TLS=rc\n"}), ucx_transport_excluded, UCX_CONF)

    assert found.takes == (*UCX.own(*DIRECT), *NIXL.own(*DIRECT))
    assert ucx_transport_excluded.takes(UCX_CONF) == ()


@pytest.mark.parametrize("value", ["rc,cuda", "rc_x,cuda_copy,cuda_ipc", "all", "^tcp", "", "^"])
def test_a_list_with_it_passes(value: str):
    assert passes(node({SYSTEM: f"UCX_TLS={value}\n"}), ucx_transport_excluded, SYSTEM)


def test_cuda_ipc_alone_is_not_cuda_copy():
    """cuda_ipc moves data between GPUs of one node, and recognises no memory."""
    failed(node({SYSTEM: "UCX_TLS=rc,cuda_ipc\n"}), ucx_transport_excluded, SYSTEM)


def test_without_the_setting_it_does_not_apply_and_without_the_file_it_is_unknown():
    assert does_not_apply(node({SYSTEM: "UCX_LOG_LEVEL=info\n"}), ucx_transport_excluded, SYSTEM)
    assert missing(node(complete=False), ucx_transport_excluded, SYSTEM).source == SYSTEM


PLAIN = "# Library version: 1.22.0\n# Configured with: --disable-logging {} --with-cuda=/usr/local/cuda\n"


def test_a_build_without_verbs_is_named_and_closes_no_path_of_the_node():
    made = {
        option: node(said={UCX_INFO: PLAIN.format(option)}) for option in ("--without-verbs", "--with-verbs")
    }

    found = failed(made["--without-verbs"], ucx_lacks_verbs, UCX_INFO.line)

    assert found.subject == "UCX" and ucx_lacks_verbs.takes(UCX_INFO.line) == ()
    assert passes(made["--with-verbs"], ucx_lacks_verbs, UCX_INFO.line)


def test_where_ucx_info_did_not_run_it_is_not_asked():
    assert UCX_INFO.line not in ucx_lacks_verbs.per(node())


def test_a_wheel_of_ucx_is_named_and_closes_no_path_of_the_node():
    folder = "opt/venv/lib/python3.12/site-packages"
    wheel = f"{folder}/libucx_cu12-1.22.0.dist-info"
    made = node({f"{wheel}/METADATA": "", f"{folder}/libucx/__init__.py": ""})

    assert wheel in ucx_lacks_verbs.per(made)
    assert failed(made, ucx_lacks_verbs, wheel).subject == wheel and ucx_lacks_verbs.takes(wheel) == ()
