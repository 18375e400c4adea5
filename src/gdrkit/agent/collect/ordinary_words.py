"""Words that are common in kernel logs and settings, and those that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. A test compares them with the words in the readers.
"""

_WORDS = """
    abbrev abgelaufen aborted about above absent accelerate accelerated accelerator access accessible
    accord account acknowledge across acscap acsctl active added additional address addresses addressing
    admin adresse advice affinity after again against agent algorithm algorithms alias aliases alloc
    allocate allocated allocator allouer allow allowed allowpeermapping allows alone already amazon amd
    ampere anchor another answer answers apiversion appended apple application architecture archive
    argument argumento arguments arm array arrive ascii asignar asked assigned assignment assisted assumed
    asymmetri asymmetric async atomic atomics atsctl attach attached attempt attempted attente attribute
    attributeerror attributes attrs aucun audio audit augment ausgabefehler authattrs available average
    aware backend bandwidth barrier basic because before begin being belong belongs below berechtigung
    between beyond bhyve bidirectional bin binascii blacklist blacklisted blackwell block blocked blocking
    blocks board bochs boot booted bootstrap bounced bound bracket brackets bregist bridge bridges broken
    buffer buffers buffsize bufinfo build builder buildibvsymbols building builds built builtin bumblebee
    bundle busbw buses busid bytes cache callback callbacks called calling calls cannot capabilities
    capability capable carry catalog caught causes centos certain certificate cgroup changed channel
    channels character characters charp chassis check checking checksum children choose chosen claims
    class client clique cliqueid cliquerank cliquesize close closed closing cloud cluster clusterpolicy
    cmdline cmpltredir coherent collect collected collection collective collector collnet columns combine
    comma command commands commid common communicate communication communicator compare compared compat
    compatible compile compiled compiler complete completion complex compress compressed compression
    compute computing conda conexi confidential confidentiality config configuration configured connect
    connected connection connectx connexion constraints consumer container containerd containerenv
    containers contains content context contradict control controller controllers copies core corporation
    corrupt costs could couldn cound count counted counter counts cpuidentity cpuinfo cpulist cpuset crash
    create creating credits cross crossed crypto csafeloader cuda cudadev cudaipc cudamemcpy cudawrap
    cudevicegetattribute cufile cumem cumemcreate cumemenable cumemgetaddressrange
    cumemgethandleforaddressrange cumemimportfromshareablehandle current daemon daemonset damage damaged
    datapath datei debian debug debugging declaration declare decompress decompresses decompression deepep
    deeper deepseek deepspeed default defined demand denegado denied dependencies dependency depends
    depline depmod deprecated description descriptor destination detected determine dev devcap devcomm
    device devices devindex devinfo devmem dgx diagnostics differ different differently differs digest
    direcci direct direction directnic directorio directory directtrans disable disabled disabling
    disaggregation disagrees dispatch disponible dispositivo distance distant distributed distribution
    dkms dlopen dlvsym dmabuf dmesg dmidecode docker dockerenv doctor doctype document doesn domain
    dossier downstream drain driver driverbuild drivers dropped dummy duplicate dynamic dynamo dyndbg
    dynsym eacces eagain earlier early ebadf ebadmsg ebusy ecaps ecdsa ecure edition eexist efault
    efivarfs efivars egressctrl eingabe einval ekeyexpired ekeyrejected ekeyrevoked element elements
    elfidentity elfsection eligible elsewhere empty emulated enable enabled enabling endian endpoint
    enetunreach enforce enforced engine enodev enoent enoexec enokey enomem enopkg enospc enosys enotsupp
    enotty ensure entities entity entrada entrypoint enumerated environ environment enxio eopnotsupp eperm
    eprotonosupport equal erange erlaubt erreur errno error errornum errors etc eth ethernet etimedout
    event every everything evidence exactly examples exceeded exceeds except excluded exhausted exist
    existe exists exiting expand expandable expected expir expiration expired explain explicitly export
    exported exporter exports exporttoshareablehandle express extended extension extensions external extra
    fabric failed failing failover fails failure fallback falling false family farthest fatal fault
    feature features fedora fermi fichero fichier field fields filename fileno files findings finds finish
    firmware first fixed flags flavor flavour flush folder follow follows force forced forces format found
    framebuffer frees frequently fully function functional fused garbled garden gdaki gdr gdrapi gdrcopy
    gdrdma gdrdrv gdrkit geforce gefunden general generation generic getting given gives global
    globalginsupport google gpu gpudirect gpudirecttcpx gpumem gpunetio grace graph graphs greater green
    group groups guest handle handler handles happens hardware harmless hashalgo hauptspeicher head header
    headers healthmask helper hexint hidden holders home hopper host hostname hosts hwloc hyper hypervisor
    ib ibbhqq ibdev ibdevx ibext ibgda ibstat ibverbs ibvsymbols ibvwrap identifier identify identity
    ignore ignored ignoring iiqqqqiiqq image implemented implementer import imported importer imports
    inbox include included incompatible incomplete incorrect incorrecta indentation indented index
    indicates indicator indirect infiniband information inherit inheriting initial initialization
    initialize initialized initializing initiated initstate inittransportsrank innotek input insert inside
    insmod install installation installed installer installtime instance instead insufficient integer
    integrated integrity intel interface internal internode intree inuse invalid invalide invbool invoking
    ioctl iommu irdma issue issuer issues items iterations itself jetson jetsons journal journalctl
    journald kallsyms keeps keine kepler kernel kernels kernelsymbol key keyring keys kflagstab kinds
    known kstrtabns ksymtab kubectl kubepods kubernetes kvcache kvm lacks laptop large larger later latin
    layer layers layout ldconfig least leaves legacy legacypeermem length level levels lib libcuda
    libcufile libfabric libgdrapi libibverbs libkmod libnccl libnvidia libnvshmem libpod libraries library
    libucp license likely limit limited limits lines linkage linkonce linkpath linux listed lists little
    livepatch lnkcap lnksta loaded loadedmodule loading loads local localdomain localhost localized
    localrank localranks localread locate lockdown locked login longer lookup lscpu lsmod lspci ltige
    machine machineconfiguration machined machines magenta magic main major making malformed manager
    manifest mappable mapped mapping mappings master match matrix mauvaise maxpayload maxreadreq maxwell
    mcount meaning means media mellanox mem members memfd memlock memoria memory memorypeer merge merged
    mergeddev merging message messages metadata metal method methods microsoft minimum minor misleading
    mismatch mismatched missed misses missing mitigation mixed mkeys mlx mlx5 mnnvl modalias model models
    modify modinfo modprobe module modules modversions mofed moire moklistrt moklistxrt moksbstatert
    mokutil mooncake mount mounted mountinfo moved mpcomm mpcommtransport mpiexec mpirun mscclpp msgrate
    msgsize multi multicast multiple named namedtemporaryfile names namespace nccl ncclibinit
    ncclibinitdevices ncclnetinit nccltopocheckgdr nccltopopopulatenics ndevs necessary needs neither
    nested net network never newer nic nicclusterpolicy nicht nicnodepolicy nndvvvxxx nndvvvxxxx nnodes
    nnvvv noarch node nodes nodeset nodigest nohup none normal notes nothing notice npackage nranks
    nstatus nthread numactl number numbers numerical nutanix nvalloc nversion nvidia nvidiadriver
    nvldomainsize nvlink nvlinktransport nvmem nvmldev nvreg nvshmem nvshmemt object objects obtain ofed
    ofeddriver offset ofiutils ofiwg older online opcode openibd opening openssh openstack openucx operaci
    operating operation operations operator opt option options oracle order original orin osapi
    oscreateosdescriptorfromiomemory osdev oserror osmemdesc osrelease other others outermost output
    outside overflow overlap overlay override overriding owned owner package packages packed packets
    pagemap pager pages paging panic parallels param parameter parameters params parent parentheses
    parmtype parse parser parts party pascal passed passendes patch paths payload pci pcilib pciutils peer
    peerdirect peermem peermemlinkage peers perftest perhaps permanent permise permiso permission
    permissions permitida permitted persistence persistent physfn physical picking pingpong pinned
    pkgconfig place plain platform please plugin plugins pmorjan pod point pointer policy ports position
    possible posted power prediction prefix pretty prime print printed printk prints private probe probed
    proc process processes processgroupnccl processor processors product products profile program programs
    proof property proprietary protected proto protocol protocole protocolo protokoll prove proves
    provider providers proxy public python pytorch qemu quadro quality query queue quiet quote quoted
    rails range ranks ransport rate ration rdma rdmatransport reaches readable reading readlink reads
    ready reason reasons reboot receive received receiving record recurso redhat redirect reduced refcnt
    reference refused refuses refusing regattr region regions register registered registering registers
    registrable registration registrations registry registrydwords regmr regular rejected release reload
    relocatable remaining remote remove removed replace replaced report reported reports reqredir request
    requested require required requires reserved resiliency resolve resource resources ressource restart
    restored restricted result results retcode retpoline retrieve retry retrying returned returning
    revision revocation revoked rhel rights rings rique riscv rmmod rmperformversioncheck roce rocky root
    route routes routine routing run running runningmodule runtime rxpci salida scalar schema scope script
    sechdrs second secondary seconds secstrings section sections secure secureboot security segment
    segments select selected selection selects sender sends sequence serial server service setenv setup
    setupmode several sglang share shared sharp shell shnum short shorter should shows shstrndx signature
    signaturecheck signatures signaturestate signed signer signers signing simple simplify since single
    sizes skipped skipping skips sleep small socket sockets softdep something soportada soportado sortie
    sosreport source sources space spark sparse specific specified specifying spectre speed spelled split
    spool srcvalid srcversion srv stack staging stale stamped standard start started starting starts state
    states station status stderr stdin stdout steering stepping steps still stopped stops storage stream
    streams string strings stripped struct structure structures subject subnet subordinate subsys
    subsystem subtype successfully sufficient support supported supports suppressed suse switch symbol
    symbolic symbols symmetric symtab symvers sys sysfs system systemd table taint tainted tainting taints
    taken talked talos tarball target technologies tegra tempfile temporairement temporalmente temporarily
    temporary termin terminal tesla test tested testmgr tests texport their there these third three thresh
    through tiempo timed timeout times titan tmpdir together token toolkit tools topology topologyd torch
    torchrun total trace tracing traditional traffic trailer transblk transfer transfers translating
    transport transports tried tries truncated trust trusted trustedkey ttempting turing twice txpci types
    typical ubuntu ucx uevent ulimit ullong ulong unable uname unavailable unbind undecided undefined
    undefinedsymbol unexpected unknown unless unlimited unload unnumbered unpack unpacks unquote
    unreachable unreadable unregister unset unsigned unspecified unsupported unterst until unversioned
    update updates upstream upstreamfwd usable usage usehostmofed usenvidiadrivercrd useprecompiled user
    users userspace ushort using usr ustar usually utils uverbs valid validate validating validation
    validator validity value values var variable variables vendor verbindung verbs verification verified
    verify vermagic version versions verzeichnis video violation virtio virtual virtualbox virtualization
    virtualtopology vm vmlinux vmware volta vulnerabilities vulnerable waiting waits wanted warned warning
    wartezeit watchdog weakdep where whether which while whose width within without words worked worker
    working worknccl workstation wrapper write writeimm wrong xavier yellow yourself
"""
ORDINARY = frozenset(_WORDS.split())
