"""Words that are common in kernel logs and settings, or that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. Written by tools/pages.py; others are in usual_words.py.
"""

from .usual_words import USUAL

_WORDS = """
    abbrev abcde abgelaufen aborted about above abric absent accelerate accelerated accelerator accept
    accepts access accessed accesses accessible accord account acknowledge acquired across acscap acsctl
    action activate activated activating active actordied actual adapter adaptive added adding additional
    additionalprintercolumns address addresses addressing admission adres adresse advanced affected affinity
    after again against agent agree ailed akmod akmods algorithm alias aliases aligned alike alive allgather
    alloc allocare allocatable allocate allocated allocator allouer allow allowed allowedcapabilities
    allowpeermapping allows allreduce alocar alone already although always amazon amazonaws ambiguous amdgpu
    amdkfd among ampere anager annotation anonymize another answer answering answers anymore anyuid apart
    apiserver apiversion apple applicable application apply apptainer architecture argomento argoproj
    argument argumento arguments armed armthumb arquivo array arrive ascii aside asignar asked assets
    assigned assignment assisted assumed assuming asymmetri asymmetric async atomic atomics atsctl attach
    attached attaching attachment attempt attempted attempts attente attribute attributes attrs aucun audit
    augment ausgabefehler authattrs autoinstall auxiliary available avoids aware awating azure bacct backed
    backend backends backslashreplace bandwidth banner bargocd barrier based baseline batch batchsize bdist
    because before begin beginning begins behave behind being believed belong belongs below berechtigung
    beside between bexitcode beyond bfail bgrid bhist bhyve binaries blacklist blacklisted blackwell blladdr
    block blocking blocks bluefield bmeta bnccl board bochs bonded boomkilled bootctl boots bootstrap
    bootstrapnetinit bounced bound bounds bprovider braced brackets branch brdmap bread bregist bridge
    bridges brings brlid broadcast broken bsignal bstarted btasks buffer buffers buffsize bufinfo build
    buildibvsymbols building builds built builtin bumblebee buses busid busybox bytes cable cache caches
    cacheset callback callbacks called calling calls cancelled cannot capabilities capability capable capeff
    cards carries catalog catastrophic caught cause caused ceiling centos certificate cgroup change changed
    changes channel channels charp chassis chcon check checking checksum childfailed chipset choose chose
    chosen chroot chunk chwilowo claimed claims class cleanup client clients clique cliqueid cliquerank
    cliquesize closed cluster clusterpolicy clusteruuid cmafree cmatotal cmdline cmpltredir cniplugins
    coalesced codes coherent collect collected collective collectives collnet combine comes command commands
    commid commit common comms communicate communication communicator communicators compare compared
    compares comparison compat compatible compilation compile compiled compiler complete completed
    completion completions component compress compressed compression compromised compute computing concern
    conda conex conexi confidential confidentiality config configuration configure configured congestion
    connect connected connectfullmesh connecting connection connections connects connectx connessione
    connexion consistent constraint construct consumer container containerd containerenv containernetworking
    containerresources containers content context contexts continuing control controller controllers copied
    copies coreos coreutils corporation correct corrected corrisponde corrupt corrupted costs could couldn
    couldnt cound count counter counters counts cpuinfo cpulist cpuset crash crashed crashes
    crashloopbackoff create createcontainer created createlistensocket creating creation credits cross
    crossed crosses crypto ctran ctranib cudacachingallocator cudadev cudadeviceenablepeeraccess
    cudaerrorcallrequiresnewerdriver cudaerrorinsufficientdriver cudaerrormapbufferobjectfailed
    cudaerrormemoryallocation cudaerrorsystemnotready cudaipc cudamemcpy cudawrap cudevicegetattribute
    cufile cufileop cufio cuinit cuipcopenmemhandle cumem cumemcreate cumemenable cumemgetaddressrange
    cumemgethandleforaddressrange cumemimportfromshareablehandle curle current currently customization
    customresourcedefinitions czenie daemon daemonset daemonsets damage datadirectnic datapath datei ddebug
    debian debug debugging decide decides decision declaration declare declared decompress decompression
    deepep deeplearning deepseek deepspeed default defer defined definition definitions degraded delay
    demand denegado denied dependencies dependency depending depends depline deploy deployed depmod
    deprecated depth describe description descriptor desktop destination detail details detect detected
    determine devcap devcomm devel device deviceapi deviceids devicemanager devices devindex devinfo devmem
    diagnostics diags differ different differently differs digest direcci direct direction directly
    directnic directories directorio directory directtrans diret dirname disable disabled disabling
    disaggregation disagrees discards dispatch displayed disponibile disponible dispositivo distance distant
    distributed distribution distributions diststoreerror dlerror dlopen dlvsym dmabuf dmabufenable
    dmabufsupported dmesg dnscache docker dockerenv dockerfile doctor doesn domain domains doorbell dossier
    double downed download downloads drain driver driverbuild drivers drives dropped drops dstrank dummy
    dumped duplicate dwords dynamic dynamo dyndbg dynsym dzenia eacces eagain eager earlier early eason
    ebadf ebadmsg ebusy ecaps ecure editable edition eexist efadv efaenabled efault effect efivarfs efivars
    egressctrl ehostunreach eingabe einval either ekeyexpired ekeyrejected ekeyrevoked eksctl elastic
    elements elfutils eligible eloop elsewhere embedded empty emulated emulation enable enabled enables
    enabling encryption ended endere endpoint enetunreach enforce enforced engine enginedead enlarge enodev
    enoent enoexec enokey enomem enopkg enospc enosys enotsupp enough enqueued entitlement entrada entries
    entry entrypoint enumerated environ environment environments enxio eoferror eopnotsupp eperm epexception
    eprotonosupport equal erange erdma erlaubt erraform errato erreur errimagepull errno error errore
    errornum errors esgotado esistente estimate ethernet ethtool etimedout evaluation event events every
    everything evidence exactly examples exceeded exception excluded excluding exclusive exhausted exist
    existe exists exitcode exited exiting exits expandable expected expects expir expirada expiration
    expired explain explicitly export exported exporter exports exporttoshareablehandle exposing express
    extend extended external extra fabric fabricmanager factor facts failed failing failover fails failure
    fallback fallen falling false family farther faster fastsocket fatal fault feature features fedora fence
    fermi fewer fghij ficheiro fichero fichier field fields fifolkey fiforkey filename files filter filtered
    filters findings findinpath findlocalcpu finds finish finished finit firewall firmware first fixed flags
    flash flavor flavour flowed flush flushed fluxcd folder follow follows forbidden forbids force forced
    forceprecompiled forces format former forwards found fragmented framebuffer framework frees frequently
    front fully function functional functionality functions fused garden gather gathered gaudi gbits gdaki
    gdrapi gdrcopy gdrdma gdrdrv gdrkit gdrwrap gdscheck geforce gefunden general generation generic
    getbcmgen getent getibdevicename getinfo getkubernetesdelegate getpcipath getsandboxruntime getting
    gintype github given gives glibc global globalginsupport gnulinux google gplonly gpudirect gpudirecttcpx
    gpuid gpumem gpumemgethandleforaddressrange gpunetio grace graph graphics greater greedy group groups
    grubby grubenv guest guide halted handle handler handles handling hanging hangs happens hardware
    harmless hashalgo hauptspeicher header headers health healthmask helper hexint highest holders hooks
    hostid hostname hostnetwork hosts https hyper hypervisor ibdev ibdevx ibdisable ibext ibgda iblinkinfo
    ibqueryerrors ibstat ibstatus ibverbs ibvsymbols ibvwrap ibwarn identifier identity iface ifname ifnames
    ignition ignore ignored ignores ignoring image imagepullbackoff imagepullsecrets images implemented
    implementer import imported importer importerror imports imposs impossibile improperly inaccessible
    inactive inbox include incompatibility incompatible incomplete inconclusive incorrect incorrecta index
    indicates indirect indirizzo indispon inexistente infiniband infinity information inherit inheriting
    initcall initialised initialization initialize initialized initializer initializing initiated initr
    initramfs initrd initstate inittransportsrank inline innotek input insert inside insmod install
    installable installation installed installer installs installtime instance instances instead
    insufficient integrated integrity intel intended inter interface interfaces internal internalversion
    internode interval intranode intree inuse invalid invalidate invalide invalidimagename invbool inventory
    inversion invoke invoking ioctl iommu ionic ippool ippools irdma isolates isolation issue issues items
    itself iwarp jetson jetsons jobid joined journalctl journald judges kallsyms katalogu keeps keine kepler
    kernel kernelmoduleconfig kernelopts kernels kernelsymbol kernelver kexec keyring killed kinds known
    knows kobject ksymtab kubectl kubelet kubepods kubernetes kustomize kvcache label lacks lagging lanes
    laptop large latency later latest launch launcher layer layers layout layouts ldconfig least leave
    leaves legacy legacypeermem legend length letter level levels libcuda libcudart libcufile libcurl libefa
    libfabric libgdrapi libibmad libibumad libibverbs libkmod libnccl libnixl libnvidia libnvshmem libpod
    libraries library librdmacm libstdc libtorch libucp libucs libuct libucx license likely limit limited
    limitmemlock limits lines linkage linkonce links linkup linux listed listen lists little livepatch llama
    lnkcap lnksta loadconf loaded loadedmodule loader loaderinfo loading loads local localgid localized
    localrank localranks localread locate lockdown locked logged longer looked looks lookup loopback losing
    lowest lscpu lsinitramfs lsinitrd lsmod lspci ltige lustre machine machineconfig machineconfiguration
    machined machines macvlan macvlannetwork magic major makefile makes malformed manage managed management
    manager manages manifest manifests mappable mapped mapping mappings marked marking marks master match
    matches matching matter mauvaise maxpayload maxreadreq maxrss maxwell mcount means meant meanwhile
    measure measured median mellanox memcg memdescallocinternal meminfo memlimit memlock memoria memory
    memorypeer merge merged mergeddev merging message messages metadata metal methods microsoft migrate
    minimum minor minute minutes mirror mismatch mismatched misread missed misses missing mistaken
    mitigation mixed mkeys mlock mlopart mnnvl mnnvlenable mobile modalias model models modify modinfo
    modpost modprobe module modules modulo modversion modversions mofed moire moklistrt moklistxrt
    moksbstatert mokutil monitor mooncake mostly mount mounted mountinfo mpcomm mpcommtransport mpiexec
    mpirun msccl mscclpp multi multicast multiple multus mustrunas named names namespace namespaces narrower
    ncclcommqueryproperties ncclcommregister nccldebuglog nccldevcommrequirements ncclgetlevel
    ncclgetsystemid ncclginibinit ncclibdmabufsupport ncclibfindmatchingdev ncclibgdrsupport
    ncclibgetgidindex ncclibinit ncclibinitdevices ncclibmakevdeviceinternal ncclibrocegetversionnum
    ncclloadparam ncclnet ncclnetinit ncclshmopen ncclsocketinit nccltopoaddcpu nccltopoaddnic
    nccltopoaddpcilinks nccltopoautomerge nccltopocheckgdr nccltopocomputepaths nccltopofillnet
    nccltopogetintercpubw nccltopogetlocal nccltopogetlocalnet nccltopogetlocalnettype nccltopopopulatenics
    nccltoposetpaths nconnections ncontexts ndevs nearer nearest necessary needs negada negato neigh neither
    nessun netconf netdevs netgdrread network networkattachmentdefinition networking networknamespace
    networks never newer newest nicclusterpolicy nicht nicnodepolicy niedost niedozwolona nnodes nnvvv
    noarch nodedesc nodelocal nodelocaldns nodemask noderesources nodes nodigest nohup normal notes notfound
    nothing notice notready nouveau nowhere npackage nranks nstatus nthreads numactl number numbers numelin
    numelout numerical nutanix nvalloc nvcheckokfailednolog nversion nvidia nvidiadriver nvldomainsize
    nvlink nvlinks nvlinktransport nvmem nvmldev nvreg nvshmem nvshmemi nvshmemt nvswitch nvswitches object
    objects observed obtain oczekiwania odify ofeddriver offer offered offers offset ofiutils ofiwg often
    older ollective online onnect onnection oomkilled opcode opened openfabrics openib openibd opening
    openmpi openpbs openshift opensource openstack openucx opera operaci operacja operating operation
    operations operator operators operazione optimal option optional options optype oracle order ordering
    original osapi oscreateosdescriptorfromiomemory osinit osmemdesc osrelease other others outer
    outofmemoryerror output outside overflow overlay overlayfs override overriding overwrite owned owner
    package packages packed packet packets pagemap pager pages paging pairs panic parallelcluster parallels
    param parameter parameters params parent parentheses parmtype parse parsed parser partial partition
    partitions partner partners parts party pascal pasid passed passendes passes passthrough pasta paste
    patch paths payload pcieport pciutils peerdirect peermappingoverride peermem peermemlinkage peers
    pending people perftest perhaps permanent permessa permesso permise permiso permiss permission
    permissions permissive permitida permitted persistent phase physfn physical pingpong pinned pipeline
    pkeys pkgconfig place plain plane planes platform playbooks please pliku plugin plugins pmemdesc pmflt
    pmfsltd pmorjan podsecurity pointer policy ports positions posix possibilities possible posted postinst
    posts power powerpc pqrst precompiled prediction prefer prefix prehopper prepost prerequisites pretty
    previous primary prime print printed printers printf printk printpod prints prior private privilege
    privileged probe probed problem process processes processgroupgloo processgroupnccl processing processor
    processors product products profile program programs progress project proof properties property
    proprietary props protected protection proto protocol protocole protocollo protocolo protok protokoll
    prove provi provider providers proxy prune przekroczony przydzieli python pytorch quadro quality query
    question queue queues quiet quote quoted rails raise raises ramfs range ranks ransport rates ration
    rayactor rcvbuf rdmacm rdmap rdmatransport rdmav reach reached reaches reaching readable readlink
    readonly reads ready reason reasons reboot receive received receiver receives receiving recent
    recommended reconcile reconciliation record recover recovery recurso recusada redhat redirect redirects
    reduce refcnt reference refused refuses regattr regex region regions register registered registering
    registers registrable registration registrations registry registrydwords registrydwordsperdevice regmr
    regression rejected relaxed release releases relevant reliable reload reloading remaining remapped
    remapper remapping remote remove removed removes rendezvous repeat repeated replace replaced replacement
    repoconfig report reported reports repositories repository reqmem reqredir request requested requests
    require required requirements requires reregistration reseat reserved reset resiliency resize resized
    resmom resolvable resolve resolves resolving resource resourcename resources respond responding response
    ressource restart restarted restorecon restored restricted result results retain retcode retired
    retirement retpoline retries retrieve retry retrying return returned returning returns reverts revision
    revocation revoked revovery rhcos ribfdcnc right rights rings rique riscv riser risorsa river rlimit
    rmforcedisableiomapwc rminitadapter rmmod rmperformversioncheck roken rootfs route routed router routine
    routing rovider rules runcommandwithwait runcontainererror runlimit running runningmodule runtime
    runtimeerror sacct salida sample samples sandbox saved sbatch scaduta scatter sccadmission schedmd
    scheduler schema scheme scontrol scope script scripts sechdrs second secondary secondarynetwork seconds
    secstrings section secure secureboot security securitycontext securitycontextconstraints segment
    segments select selected selecting selection selectors selects selinux sender sending sends sensor
    sensors seqnum sequence serial serve server serves service serviceaccount services setdefault setenv
    setting settings setup setupmode several sglang share shareablehandle shared shares sharp shell shmutils
    shnum short shorted shorten shorter should showconfig shown shows shstrndx sigbus sigkill signal
    signature signaturecheck signatures signaturestate signed signer signers signing sigsegv silence
    simplify since single singularity sizes skipped skipping skips sleep slingshot slower slurm slurmctld
    slurmd slurmstepd small smaller smpquery sndbuf socket socketfinalizeaccept socketpollconnect sockets
    socketstartconnect softdep software soldered something soportada soportado sortie source sources space
    sparc spark specific specified specify specifying spectre spectrum speed spelled split spreads squashfs
    sqvvh srcrank srcvalid srcversion sriov sriovnetwork stack staged stages staging stale start started
    starting starts startup startupprobe state states static station statistic stats status statx stdbuf
    stdout steering stepid steps still stopped stops storage store strace stream strerror string strings
    stripped struct structure structures stubs stuck subnet subordinate subsys subsystem succeded succeeded
    success successfully sufficient suits suportada suportado suporte support supportata supportato
    supported supports suppressed switch switches symbol symbolic symbols symmetric symtab symvers syndrom
    sysadmin sysctl sysfs sysimage syslog system systemctl systemd systems table tables taint tainted
    tainting taints taken takes takiego talked talos talosctl tarball target tasks tasksize tclass tcpstore
    tcptransport technologies tegra temperature template tempo temporairement temporalmente temporaneamente
    temporariamente temporarily temporary termin terminated terminating termination terraform tesla
    testcases tested testmgr tests their theirs themselves there therefore these things third those thread
    threads three thresh threshold through tiempo timed timeout times titan tmpfs together toolkit tools
    topology topologyd torage torch torchcomms torchrun total touch touches trace traceback tracking
    traditional traffic trailer trained trainer transblk transfer transfers translates translating transport
    transports traps treats tried tries trouble troubleshooting truncated trust trusted trustedkey trying
    turing turned turns twice typed types ubuntu uevent ugiwana ugiwany ulimit ullong ulong unable uname
    unauthorized unavailable unbound uncontained uncorrect uncorrectable undefined under understood uneven
    unexpected unhandled unhealthy uninstalldriver units unknown unless unlimited unload unloaded unloads
    unplugged unquote unreachable unrecognized unrecovered unregister unregistered unset unsigned
    unspecified unsupported unterst until unversioned update updates upgrade upstreamfwd usable usage
    usehostmofed usenvidiadrivercrd useprecompiled userguide users userspace ushort using usually utils
    uuids uverbs valid validate validatedriver validating validation validator validity valido value values
    variable variables variant vendor vendors verbindung verbose verbs verif verification verified verify
    vermagic version versions verzeichnis victim video violates violation virtio virtual virtualbox
    virtualization virtualtopology visible vmlinu vmlinux vmlinuz vmware volatile volta volume
    vulnerabilities vulnerable waited waitformofeddriver waitforworkers waiting waits walltime wanted wants
    warned warning wartezeit watchdog weakdep whatever wheel where whereabouts whether which while whole
    whose width window wireless wireup without words worked working worknccl works workstation would wrapper
    write writeresultfooter writes wrong xceeded xlarge zasoby zeros
"""
ORDINARY = USUAL.union(_WORDS.split())
