"""Words that are common in kernel logs and settings, and those that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. A test compares them with the words in the readers.
"""

_WORDS = """
    abbrev about above absent accelerate accelerator access account acknowledge acscap acsctl active added
    additional address addressing admin advice affinity after again agent algorithm algorithms alias
    aliases alloc allocate allow allowed allows already amazon amd ampere anchor another answer apiversion
    appended apple architecture archive argument arguments arm array ascii assignment assumed asymmetri
    asymmetric async atomic atsctl attach attached attribute attributeerror attributes attrs audit augment
    authattrs available average bandwidth basic because before begin being belong below between beyond
    bhyve bidirectional bin binascii blacklist blacklisted blackwell block blocked blocks board bochs boot
    booted bounced bracket brackets bridge bridges broken buffer buffers buffsize bufinfo build builder
    buildibvsymbols built builtin bundle busbw buses busid bytes cache callback callbacks calling calls
    cannot capabilities capability carry catalog causes centos certain certificate cgroup changed channel
    channels character characters charp chassis check children claims class client close closed closing
    cloud clusterpolicy cmdline cmpltredir coherent collect collected collection collective collector
    collnet columns comma command commands commid common communicate compared compat compatible compiled
    compiler complete completion complex compressed compression compute computing conda confidential
    confidentiality config configuration configured connect connected connection connectx constraints
    consumer container containerd containerenv containers contains content contradict controller
    controllers copies core corporation corrupt could couldn count counted counter counts cpuidentity
    cpuinfo cpulist cpuset crash create creating credits cross crypto csafeloader cuda cudadev
    cudevicegetattribute cumem current daemon daemonset damaged debian debug debugging declare
    decompresses deeper deepspeed default demand denied dependencies dependency depends depline depmod
    deprecated description descriptor destination detected dev devcap device devices devinfo dgx differ
    different differently differs digest direct direction directory directtrans disable disabled disabling
    disagrees distance distant distribution dkms dlvsym dmabuf dmesg dmidecode docker dockerenv doctor
    doctype document doesn domain downstream driver driverbuild drivers dropped duplicate dynamic dyndbg
    dynsym eacces eagain early ebadf ebadmsg ebusy ecdsa ecure edition eexist efault efivarfs efivars
    egressctrl einval ekeyexpired ekeyrejected ekeyrevoked element elements elfidentity elfsection empty
    enable enabled endian endpoint enetunreach enforce enforced engine enodev enoent enoexec enokey enomem
    enopkg enospc enosys enotsupp entities entity environ environment enxio eopnotsupp eperm
    eprotonosupport equal erange errno error errors etc eth ethernet etimedout event every everything
    evidence exactly examples exceeded exceeds except exhausted exist exists expand expected expired
    explain export exported exporter exports express extended extension extensions external extra failed
    fails false family farthest fatal fault fedora fermi field filename fileno files findings finds
    firmware first flags flavour flush folder follow follows force format found framebuffer frequently
    function garbled garden gdr gdrcopy gdrdma gdrdrv gdrkit geforce general generation generic given
    gives global google gpu grace graph graphs green group groups guest handle happens hardware harmless
    hashalgo head header headers hexint hidden holders home hopper host hostname hosts hwloc hyper
    hypervisor ib ibbhqq ibdev ibext ibstat ibverbs ibvsymbols ibvwrap identifier identify identity ignore
    ignored iiqqqqiiqq image implemented implementer import imported importer imports inbox incompatible
    incomplete indentation indented index indicator indirect infiniband information inherit inheriting
    initial initialize initializing initstate inittransportsrank innotek input insert inside insmod
    install installed installer installtime instead insufficient integer integrated integrity intel
    interface internal intree invalid invbool invoking iommu irdma issue issuer items iterations itself
    jetson jetsons journal journalctl journald kallsyms keeps kepler kernel kernels kernelsymbol key
    keyring keys kflagstab kinds known kstrtabns ksymtab kubectl kubepods kubernetes kvm lacks laptop
    large larger later latin layer layout ldconfig least leaves legacy legacypeermem length level levels
    lib libcuda libibverbs libkmod libnccl libnvshmem libpod library libucp license likely limit limits
    lines linkage linkonce linkpath linux listed lists little livepatch lnkcap lnksta loaded loadedmodule
    loading loads local localdomain localhost localized lockdown locked login lscpu lspci machine
    machineconfiguration machined magenta magic main major making malformed manager manifest mapped
    mapping mappings master match matrix maxpayload maxreadreq maxwell mcount meaning means media mellanox
    mem members memfd memlock memory memorypeer merge merged mergeddev message messages metadata metal
    method microsoft minor misleading mismatch mismatched missed misses missing mitigation mixed mlx mlx5
    modalias model models modify modinfo modprobe module modules moklistrt moklistxrt moksbstatert mokutil
    mount mounted mountinfo moved mpiexec mpirun msgrate msgsize namedtemporaryfile names namespace nccl
    ncclibinit ncclibinitdevices nccltopocheckgdr ndevs needs neither nested net network nic
    nicclusterpolicy nicnodepolicy nndvvvxxx nndvvvxxxx nnvvv noarch node nodes nodeset nodigest nohup
    none normal notes nothing npackage nranks nstatus nthread numactl number numbers numerical nutanix
    nvalloc nversion nvidia nvidiadriver nvlink nvmldev nvshmem object objects ofed ofeddriver offset
    older online opcode openibd openssh openstack operating operation operator opt option options oracle
    order original orin osapi osdev oserror osrelease other others outermost output outside overflow
    overlap overlay override owned owner package packages packed packets pagemap pager pages paging panic
    parallels param parameter parameters params parent parentheses parmtype parse parser parts party
    pascal patch paths payload pci pcilib peer peerdirect peermem peermemlinkage peers perftest permanent
    permission permissions permitted persistent physfn physical picking pingpong pinned pkgconfig place
    plain platform plugin pmorjan pod point pointer policy ports position possible posted power prediction
    prefix pretty print printed printk prints probe proc process processes processor processors product
    products profile program proprietary protected proto protocol prove proves provider proxy public
    python qemu quadro quality query quiet quote quoted rails range ranks rate rdma reaches readable
    reading readlink reads reason reasons reboot receive received receiving record redhat redirect reduced
    refcnt reference refused refuses refusing region regions register registered registering registers
    registrable registration registry regular rejected release reload relocatable remove removed replace
    replaced report reported reports reqredir request require required reserved resolve resource resources
    restart restricted result results retcode retpoline retry revision revocation revoked rhel rights
    rings riscv rmperformversioncheck roce rocky root route run running runningmodule runtime rxpci scalar
    schema scope script sechdrs second secondary seconds secstrings section sections secure secureboot
    security selected sequence serial server service setenv setup setupmode several share shared sharp
    shell shnum short shorter should shows shstrndx signature signaturecheck signatures signaturestate
    signed signer signers signing simple simplify since single sizes skipped socket softdep something
    sosreport source space spark sparse spectre speed spelled split spool srcvalid srcversion srv stack
    staging stale stamped standard start starting starts state states station status stderr stdin stdout
    stepping steps storage stream streams string strings stripped struct structure structures subject
    subordinate subsys subsystem subtype successfully support supported supports suppressed suse switch
    symbol symbolic symbols symtab symvers sys system systemd table taint tainted tainting taints taken
    talos tarball target technologies tegra tempfile temporarily temporary terminal tesla test tested
    testmgr tests texport there third three through timed timeout times titan tmpdir token toolkit tools
    topology topologyd torch torchrun total trace tracing trailer transblk translating transport truncated
    trusted trustedkey turing txpci types typical ubuntu ucx uevent ullong ulong unable uname unavailable
    undecided undefined undefinedsymbol unexpected unknown unless unlimited unnumbered unpack unpacks
    unquote unreachable unreadable unregister unset unsigned unspecified unsupported unversioned updates
    upstream upstreamfwd usable usage usehostmofed usenvidiadrivercrd useprecompiled user users ushort
    using usr ustar uverbs valid validation validity value values var variable variables vendor verbs
    verification verified verify vermagic version versions video virtio virtual virtualbox virtualization
    virtualtopology vm vmlinux vmware volta vulnerabilities vulnerable waiting waits wanted warned warning
    weakdep which while whose width within without words worker working workstation write writeimm wrong
    xavier yellow yourself
    """
ORDINARY = frozenset(_WORDS.split())
