"""Words that are common in kernel logs and settings, and those that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. A test compares them with the words in the readers.
"""

_WORDS = """
    abbrev abgelaufen abort aborted about above absent accelerate accelerated accelerator accepts access
    accessed accessible accord account acknowledge acquired across acscap acsctl active actual added
    additional address addresses addressing admin adres adresse advice affinity after again against agent
    ailed algorithm algorithms alias aliases aligned alloc allocare allocate allocated allocator allouer
    allow allowed allowpeermapping allows alocar alone already amazon amd among ampere anchor anonymize
    another answer answers apiversion appear appears appended apple application architecture archive
    argomento argument argumento arguments arm armed arquivo array arrive ascii asignar asked assigned
    assignment assisted assumed asymmetri asymmetric async atomic atomics atsctl attach attached attaching
    attempt attempted attente attribute attributeerror attributes attrs aucun audio audit augment
    ausgabefehler authattrs autoinstall auxiliary available average avoids aware backend bandwidth barrier
    basic batch bcuda because before begin being belong belongs below berechtigung berror between beyond
    bfail bhyve bidirectional bin binaries binascii blacklist blacklisted blackwell blladdr block blocked
    blocking blocks board bochs boot booted bootstrap bounced bound bracket brackets branch bregist bridge
    bridges broken buffer buffers buffsize bufinfo build builder buildibvsymbols building builds built
    builtin bumblebee bundle busbw buses busid bytes cache callback callbacks called calling calls cannot
    capabilities capability capable capeff carries carry catalog caught causes centos certain certificate
    cgroup changed channel channels character characters charp chassis chcon check checking checksum
    children choose chosen chwilowo claimed claims class client clique cliqueid cliquerank cliquesize close
    closed closing cloud cluster clusterpolicy clusteruuid cmdline cmpltredir coherent collect collected
    collection collective collector collnet columns combine comma command commands commid commit common
    communicate communication communicator compare compared compat compatible compile compiled compiler
    complete completed completion complex component compress compressed compression compromised compute
    computing concern conda conex conexi confidential confidentiality config configuration configure
    configured connect connected connecting connection connects connectx connessione connexion constraints
    consumer container containerd containerenv containers contains content context continuing contradict
    control controller controllers copied copies core coreutils corporation corrected corrisponde corrupt
    costs could couldn cound count counted counter counters counts cpuidentity cpuinfo cpulist cpuset crash
    create createlistensocket creating creation credits cross crossed crypto csafeloader cuda
    cudacachingallocator cudadev cudaerrorcallrequiresnewerdriver cudaerrorinsufficientdriver
    cudaerrormemoryallocation cudaipc cudamemcpy cudasetdevice cudawrap cudevicegetattribute cufile cufileop
    cufio cumem cumemcreate cumemenable cumemgetaddressrange cumemgethandleforaddressrange
    cumemimportfromshareablehandle current currently customization cycle czenie daemon daemonset damage
    damaged datapath datei debian debug debugging declaration declare declared decompress decompresses
    decompression deepep deeper deepseek deepspeed default defer defined demand denegado denied dependencies
    dependency depends depline depmod deprecated depth description descriptor destination detected determine
    dev devcap devcomm device devices devindex devinfo devmem dgx diagnostics diags differ different
    differently differs digest direcci direct direction directnic directorio directory directtrans diret
    disable disabled disabling disaggregation disagrees discards dispatch display disponibile disponible
    dispositivo distance distant distributed distribution distributions dkms dlopen dlvsym dmabuf dmesg
    dmidecode docker dockerenv dockerfile doctor doctype document doesn domain doorbell dossier downstream
    drain driver driverbuild drivers dropped dummy duplicate dwords dynamic dynamo dyndbg dynsym dzenia
    eacces eagain earlier early ebadf ebadmsg ebusy ecaps ecdsa ecure editable edition eexist efadv efault
    efivarfs efivars egressctrl ehostunreach eingabe einval ekeyexpired ekeyrejected ekeyrevoked element
    elements elfidentity elfsection eligible elsewhere emory empty emulated enable enabled enabling endere
    endian endpoint enetunreach enforce enforced engine enodev enoent enoexec enokey enomem enopkg enospc
    enosys enotsupp enotty enroot ensure entities entity entrada entries entry entrypoint enumerated environ
    environment enxio eopnotsupp eperm epexception eprotonosupport equal erange erdma erlaubt errato erreur
    errno error errore errornum errors esgotado esistente etc eth ethernet ethtool etimedout event every
    everything evidence exact exactly examples exceeded exceeds except exception excluded excluding
    exhausted exist existe exists exited exiting expand expandable expected expir expirada expiration
    expired explain explicitly export exported exporter exports exporttoshareablehandle express extend
    extended extension extensions external extra fabric fabricmanager failed failing failover fails failure
    fallback fallen falling false family farthest fastsocket fatal fault feature features fedora fermi fewer
    ficheiro fichero fichier field fields filename fileno files findings finds finish firewall firmware
    first fixed flags flavor flavour flush folder follow follows forbids force forced forces format found
    framebuffer frees frequently fully function functional fused garbled garden gdaki gdr gdrapi gdrcopy
    gdrdma gdrdrv gdrkit gdscheck geforce gefunden general generation generic getibdevicename getinfo
    getpcipath getting gintype given gives global globalginsupport google gplonly gpu gpudirect
    gpudirecttcpx gpumem gpumemgethandleforaddressrange gpunetio grace graph graphs greater green group
    groups grubenv guest guide handle handler handles hangs happens hardware harmless hashalgo
    hauptspeicher head
    header headers health healthmask helper hexint hidden hides holders home hooks hopper host hostname
    hosts hwloc hyper hypervisor ib ibbhqq ibdev ibdevx ibext ibgda ibstat ibstatus ibverbs ibvsymbols
    ibvwrap ibwarn identifier identify identity iface ifname ignition ignore ignored ignoring iiqqqqiiqq
    image implemented implementer import imported importer importerror imports imposs impossibile inactive
    inbox include included incompatibility incompatible incomplete incorrect incorrecta indentation indented
    index indicates indicator indirect indirizzo indispon inexistente infiniband information inherit
    inheriting initial initialization initialize initialized initializer initializing initiated initstate
    inittransportsrank innotek input insert inside insmod install installation installed installer
    installtime instance instead insufficient integer integrated integrity intel interface internal
    internode intranode intree inuse invalid invalidate invalide invbool inversion invoking ioctl iommu
    irdma issue issuer issues items iterations itself iwarp jetson jetsons journal journalctl journald
    kallsyms katalogu keeps keine kepler kernel kernelopts kernels kernelsymbol key keyring keys
    kflagstab killed kinds
    known kstrtabns ksymtab kubectl kubepods kubernetes kvcache kvm label lacks lanes laptop large larger
    later latin launch layer layers layout ldconfig least leave leaves legacy legacypeermem length level
    levels lib libcuda libcudart libcufile libefa libfabric libgdrapi libibmad libibumad libibverbs libkmod
    libnccl libnvidia libnvshmem libpod libraries library librdmacm libtorch libucp libucs libuct license
    likely limit limited limits lines linkage linkonce linkpath linux listed listen lists little livepatch
    lnkcap lnksta loaded loadedmodule loader loaderinfo loading loads local localdomain localhost
    localized localrank
    localranks localread locate located lockdown locked logged login longer looks lookup losing lscpu lsmod
    lspci ltige machine machineconfiguration machined machines magenta magic main major making malformed
    managed manager manifest mappable mapped mapping mappings master match matching matrix mauvaise
    maxpayload maxreadreq maxwell mcount meaning means meant media mellanox mem members memfd memlock
    memoria memory memorypeer merge merged mergeddev merging message messages metadata metal method methods
    microsoft migrate minimum minor misleading mismatch mismatched missed misses missing mitigation mixed
    mkeys mlock mlx mlx5 mnnvl modalias model models modify modinfo modpost modprobe module modules
    modversions mofed moire moklistrt moklistxrt moksbstatert mokutil mooncake mostly mount mounted
    mountinfo moved mpcomm mpcommtransport mpiexec mpirun msccl mscclpp msgrate msgsize multi multicast
    multiple named namedtemporaryfile names namespace nccl ncclcommqueryproperties ncclcommregister
    nccldevcommrequirements ncclibinit ncclibinitdevices ncclibmakevdeviceinternal ncclibrocegetversionnum
    ncclnetinit ncclshmopen ncclsocketinit nccltopocheckgdr nccltopofillnet nccltopopopulatenics ndevs
    necessary needs negada negato neigh neither nessun nested net network networking never newer nic
    nicclusterpolicy nicht nicnodepolicy niedost niedozwolona nndvvvxxx nndvvvxxxx nnodes nnvvv noarch node
    nodes nodeset nodigest nohup none normal notes nothing notice nouveau npackage nranks nstatus nthread
    numactl number numbers numerical nutanix nvalloc nversion nvidia nvidiadriver nvldomainsize nvlink
    nvlinktransport nvmem nvmldev nvreg nvshmem nvshmemi nvshmemt nvswitch nvswitches object objects objtool
    obtain oczekiwania odify ofed ofeddriver offer offered offers offset ofiutils ofiwg older ommand
    ompletion online onnect opcode openfabrics openib openibd opening opensource openssh openstack openucx
    opera operaci operacja operating operation operations operator operazione opt optimal option options
    oracle order original orin osapi oscreateosdescriptorfromiomemory osdev oserror osinit osmemdesc
    osrelease other others outermost output outside overflow overlap overlay override overriding owned owner
    package packages packed packet packets pagemap pager pages paging panic parallels param parameter
    parameters params parent parentheses parmtype parse parser parts party pascal pasid passed passendes
    pasta patch paths payload pci pcilib pciutils peer peerdirect peermappingoverride peermem peermemlinkage
    peers people perftest perhaps permanent permessa permesso permise permiso permiss permission permissions
    permitida permitted persistence persistent physfn physical picking pingpong pinned pkeys pkgconfig place
    plain platform please pliku plugin plugins pmorjan pod point pointer policy ports position posix
    possible posted postinst posts power prediction prefix prepare preset pretty primary prime print printed
    printk prints private privilege probe probed proc process processes processgroupnccl processor
    processors product products profile program programs project proof property proprietary props protected
    protection proto protocol protocole protocollo protocolo protok protokoll prove proves provi provider
    providers proxy przekroczony przydzieli public python pytorch qemu quadro quality query queue queues
    quiet quote quoted rails range ranks ransport rate ration rdma rdmacm rdmatransport reach reaches
    readable reading readlink reads ready reason reasons reboot receive received receiving record recurso
    recusada redhat redirect reduced refcnt reference refused refuses refusing regattr region regions
    register registered registering registers registrable registration registrations registry registrydwords
    registrydwordsperdevice regmr regression regular rejected release reload relocatable remaining remote
    remove removed replace replaced report reported reports reqredir request requested requests require
    required requirements requires reregistration reseat reserved reset resiliency resize resized resolve
    resource resources responding ressource restart restorecon restored restricted result results retain
    retcode retpoline retrieve retry retrying return returned returning returns revision revocation revoked
    rhel right rights rings rique riscv riser risorsa river rlimit rminitadapter rmmod rmperformversioncheck
    roce rocky root route routes routine routing rovider run running runningmodule runtime rxpci salida
    scaduta scalar schema schemes scope script scripts sechdrs second secondary seconds secstrings section
    sections secure secureboot security segment segments select selected selection selects selinux sender
    sends sequence serial server service services setenv settings setup setupmode several sglang share
    shareablehandle shared sharp shell shmutils shnum short shorter should shows shstrndx signature
    signaturecheck signatures signaturestate signed signer signers signing silence simple simplify since
    single sizes skipped skipping skips sleep small smaller socket sockets softdep something soportada
    soportado sortie sosreport source sources space spark sparse specific specified specify specifying
    spectre speed spelled split spool srcvalid srcversion srv stack staging stale stamped standard start
    started starting starts state states station status stderr stdin stdout steering stepping steps still
    stopped stops storage stream streams string strings stripped struct structure structures stubs subject
    subnet subordinate subsys subsystem subtype success successfully sufficient suportada suportado suporte
    support supportata supportato supported supports suppressed suse switch symbol symbolic symbols
    symmetric symtab symvers syndrom sys sysfs sysimage system systemctl systemd table taint tainted
    tainting taints taken takes takiego talked talos tarball target tcptransport technologies tegra
    temperature tempfile tempo temporairement temporalmente temporaneamente temporariamente temporarily
    temporary termin terminal tesla test tested testmgr tests texport their themselves there these third
    thread three thresh through tiempo timed timeout times titan tmpdir together token toolkit tools
    topology topologyd torch torchrun total touch touches trace tracing traditional traffic trailer transblk
    transfer transfers translating transport transports tried tries truncated trust trusted trustedkey
    ttempting turing twice txpci types typical ubuntu ucx uevent ugiwana ugiwany ulimit ullong ulong unable
    uname unavailable unbind unbound uncorrect uncorrectable undecided undefined undefinedsymbol unexpected
    unknown unless unlimited unload unloaded unnumbered unpack unpacks unquote unreachable unreadable
    unrecognized unregister unset unsigned unspecified unsupported unterst until unversioned update updates
    upstream upstreamfwd usable usage usehostmofed usenvidiadrivercrd useprecompiled user users userspace
    ushort using usr ustar usually utils uverbs valid validate validating validation validator validity
    valido value values var variable variables variant vendor verbindung verbs verification verified verify
    vermagic version versions verzeichnis video violation virtio virtual virtualbox virtualization
    virtualtopology visible vm vmlinux vmware volta volume vulnerabilities vulnerable waited waiting waits
    wanted wants warned warning wartezeit watchdog weakdep where whether which while whose width window
    wireup within without words worked worker working worknccl workstation would wrapper write writeimm
    wrong xavier yellow yourself zasoby
"""
ORDINARY = frozenset(_WORDS.split())
