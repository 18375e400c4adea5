"""The lab's own kernel modules, as data: their exports, calls, parameters and init results.

They contain no vendor's source. The `peermem` family imitates a peer-memory client and the two modules
that it connects, just enough for the loader, which sees only names, CRCs and init results.

The names below are identities. In the compiled files each is a token of the same length as its real name
(see `names.py`), so that one build can be renamed. Two sources may have the same identity: they are
different builds of one module.
"""

from __future__ import annotations

from msgspec import Struct


class Export(Struct, frozen=True):
    """A function that a module exports."""

    symbol: str
    arguments: str = "void"  # the prototype decides the CRC
    result: str = "int"
    body: str = "return 0;"
    gpl: bool = False
    namespace: str = ""


class Source(Struct, frozen=True, kw_only=True):
    """One module to compile. Its init returns 0 unless a variant patches the return value."""

    name: str
    module: str = ""  # identity; empty: the same as `name`
    exports: tuple[Export, ...] = ()
    calls: tuple[str, ...] = ()  # symbol identities, called in init
    weak: tuple[str, ...] = ()
    vmlinux: tuple[str, ...] = ()  # C statements in init that use exports of the kernel itself
    parameters: tuple[tuple[str, str], ...] = ()  # (C type, name)
    namespaces: tuple[str, ...] = ()  # imported
    head: tuple[str, ...] = ()  # lines at file scope, before the exports
    extra: tuple[str, ...] = ()  # further lines at file scope, after them
    init: str = ""  # C before the return
    entry: str = "lab_init"  # the name of the init function

    @property
    def identity(self) -> str:
        return self.module or self.name


SYMBOLS_REAL = {  # identity -> real name; its token has the same length
    "peer_register": "ib_register_peer_memory_client",
    "peer_unregister": "ib_unregister_peer_memory_client",
    "p2p_dma_map": "nvidia_p2p_dma_map_pages",
    "p2p_dma_unmap": "nvidia_p2p_dma_unmap_pages",
    "p2p_free": "nvidia_p2p_free_page_table",
    "p2p_get": "nvidia_p2p_get_pages",
    "p2p_put": "nvidia_p2p_put_pages",
}
MODULES_REAL = {
    "peermem": "nvidia_peermem",
    "gpu": "nvidia",
    "ofed": "mlx_compat",
    "legacy": "nv_peer_mem",
}

_PEER_EXPORTS = (
    Export("peer_register", "const void *client, void *invalidate", "void *", "return (void *)client;"),
    Export("peer_unregister", "void *handle", "void", "return;"),
)
_P2P_EXPORTS = tuple(
    Export(symbol, "unsigned long address, void *table")
    for symbol in ("p2p_dma_map", "p2p_dma_unmap", "p2p_free", "p2p_get", "p2p_put")
)
_PEER_PARAMETERS = (("int", "peerdirect_support"), ("int", "persistent_api_support"))
_PEER_CALLS = tuple(export.symbol for export in _P2P_EXPORTS)
_NAMED_CLIENT = (
    "extern void *{symbol:peer_register}(const void *client, void *invalidate);",
    "extern void {symbol:peer_unregister}(void *handle);",
    'static struct {{ char name[64]; }} client = {{ "nv_mem" }};',
    "static void *handle;",
    "static void __exit lab_exit(void) {{ if (handle) {symbol:peer_unregister}(handle); }}",
    "module_exit(lab_exit);",
)
"""A client whose name the RDMA stack can read."""

SOURCES = (
    Source(name="plain"),
    Source(name="other"),
    Source(name="talker", init='pr_info("hello from init\\n");'),
    Source(name="provider", exports=(Export("alpha"), Export("beta", "int value", gpl=True))),
    Source(
        name="provider-again",
        module="provider",
        exports=(Export("alpha", "long wide, void *more"), Export("beta", "int value, int two", gpl=True)),
    ),
    Source(name="rival", exports=(Export("alpha"),)),
    Source(name="consumer", calls=("alpha",)),
    Source(name="consumer-gpl", module="consumer", calls=("alpha", "beta")),
    Source(name="weak-consumer", module="consumer", weak=("alpha",)),
    Source(name="middle", calls=("alpha",), exports=(Export("gamma"),)),
    Source(name="top", calls=("gamma",)),
    Source(name="orphan", calls=("nowhere_one", "nowhere_two")),
    Source(name="weak-orphan", module="orphan", weak=("nowhere_one",)),
    Source(
        name="gpl-user",
        vmlinux=("debugfs_remove(NULL);", "(void)debugfs_create_dir(NULL, ERR_PTR(-ENODEV));"),
    ),
    Source(name="spaced", exports=(Export("delta", namespace="space_one"),)),
    Source(name="space-user", calls=("delta",), namespaces=("space_one",)),
    Source(
        name="taker",
        parameters=(("int", "number"), ("bool", "flag"), ("charp", "words"), ("uint", "count")),
    ),
    Source(name="wisher", extra=('MODULE_SOFTDEP("pre: {module:plain}");',)),
    Source(name="aliased", extra=('MODULE_ALIAS("{alias:handle}");',)),
    Source(name="wild", extra=('MODULE_ALIAS("lab:v*d0000001[ab]?x*");',)),
    Source(name="wilder", extra=('MODULE_ALIAS("lab:*");',)),
    Source(name="barred", entry="lab_barred_init"),
    Source(name="provider-barred", module="provider", exports=(Export("alpha"),), entry="lab_barred_init"),
    Source(
        name="peermem-stub",
        module="peermem",
        parameters=_PEER_PARAMETERS,
        init="answer = -EINVAL;",
    ),
    Source(
        name="peermem-full",
        module="peermem",
        parameters=_PEER_PARAMETERS,
        calls=_PEER_CALLS,
        init=(
            "if ({parameter:peerdirect_support} < 0 || {parameter:peerdirect_support} > 1)"
            ' {{ pr_err("bad peerdirect_support\\n"); return -EINVAL; }}'
            " handle = {symbol:peer_register}(THIS_MODULE, NULL);"
            ' if (!handle) {{ pr_err("registration refused\\n"); return -EINVAL; }}'
        ),
        extra=(
            "extern void *{symbol:peer_register}(const void *client, void *invalidate);",
            "extern void {symbol:peer_unregister}(void *handle);",
            "static void *handle;",
            "static void __exit lab_exit(void) {{ if (handle) {symbol:peer_unregister}(handle); }}",
            "module_exit(lab_exit);",
        ),
    ),
    Source(
        name="peermem-named",
        module="peermem",
        parameters=_PEER_PARAMETERS,
        calls=_PEER_CALLS,
        init=(
            "handle = {symbol:peer_register}(&client, NULL);"
            ' if (!handle) {{ printk(KERN_ERR "nvidia-peermem nv_mem_nc_client_init:603 ERROR '
            'nv_mem_client_init -- error while registering nc client\\n"); return -EINVAL; }}'
        ),
        extra=(*_NAMED_CLIENT, 'MODULE_VERSION("595.45.04");'),
    ),
    Source(
        name="legacy",
        calls=_PEER_CALLS,
        init="handle = {symbol:peer_register}(&client, NULL); if (!handle) return -EINVAL;",
        extra=_NAMED_CLIENT,
    ),
    Source(name="ofed", exports=_PEER_EXPORTS),
    Source(
        name="ofed-listing",  # it lists its clients below /sys/kernel/mm, so a name can be taken
        module="ofed",
        head=("#include <linux/kobject.h>", "static struct kobject *peers;"),
        exports=(
            Export(
                "peer_register",
                "const void *client, void *invalidate",
                "void *",
                "return kobject_create_and_add((const char *)client, peers);",
            ),
            Export("peer_unregister", "void *handle", "void", "kobject_put(handle);"),
        ),
        init='peers = kobject_create_and_add("memory_peers", mm_kobj); if (!peers) return -ENOMEM;',
        extra=("static void __exit lab_exit(void) {{ kobject_put(peers); }}", "module_exit(lab_exit);"),
    ),
    Source(
        name="ofed-rebuilt",
        module="ofed",
        exports=(
            Export("peer_register", "const void *client, void *invalidate, unsigned int flags", "void *"),
            Export("peer_unregister", "void *handle, int wait", "void", "return;"),
        ),
    ),
    Source(
        name="ofed-refusing",
        module="ofed",
        exports=(
            Export("peer_register", "const void *client, void *invalidate", "void *", "return NULL;"),
            _PEER_EXPORTS[1],
        ),
    ),
    Source(name="ofed-second", module="ofed-second", exports=_PEER_EXPORTS),
    Source(name="ofed-without", module="ofed"),
    Source(name="gpu", exports=_P2P_EXPORTS),
    Source(name="gpu-new", module="gpu", exports=(*_P2P_EXPORTS[:-1], Export("p2p_put", "void *table"))),
)


def source(name: str) -> Source:
    """The source with that name. Raises KeyError."""
    return {row.name: row for row in SOURCES}[name]
