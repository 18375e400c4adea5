"""Words that are common in kernel logs and settings, or that gdrkit looks for in evidence.

As names of machines or users they identify nothing, and replacing them would destroy the text: on a machine
called `options`, modprobe.d would have no options. Written by tools/pages.py; others are in usual_words.py.
"""

from .usual_words import USUAL

_WORDS = """
    abbrev abgelaufen aborted about above absent accelerate accelerated accelerator accept accepts access
    accessed accessible accord account acknowledge acquired across acscap acsctl active actual added
    additional address addresses addressing adres adresse affected affinity after again against agent agree
    ailed algorithm alias aliases aligned alloc allocare allocate allocated allocator allouer allow allowed
    allowpeermapping allows alocar alone already although amazon ambiguous among ampere anonymize another
    answer answers anymore apiversion apple application apply architecture argomento argument argumento
    arguments armed arquivo array arrive ascii asignar asked assigned assignment assisted assumed asymmetri
    asymmetric async atomic atomics atsctl attach attached attaching attempt attempted attente attribute
    attributes attrs aucun audit augment ausgabefehler authattrs autoinstall auxiliary available avoids
    aware backend backslashreplace barrier batch because before begin beginning behave believed belong
    belongs below berechtigung between beyond bfail bhyve binaries blacklist blacklisted blackwell blladdr
    block blocking blocks board bochs bootstrap bounced bound brackets branch bregist bridge bridges brings
    broken buffer buffers buffsize bufinfo build buildibvsymbols building builds built builtin bumblebee
    buses busid bytes cache callback callbacks called calling calls cannot capabilities capability capable
    capeff carries catalog caught cause centos cgroup changed channel channels charp chassis chcon check
    checking checksum choose chosen chwilowo claimed claims class client clique cliqueid cliquerank
    cliquesize closed cluster clusterpolicy clusteruuid cmdline cmpltredir coherent collect collected
    collective collectives collnet combine command commands commid commit common communicate communication
    communicator communicators compare compared compat compatible compile compiled compiler complete
    completed completion component compress compressed compression compromised compute computing concern
    conda conex conexi confidential confidentiality config configuration configure configured connect
    connected connection connections connects connessione connexion consumer container containerd
    containerenv containers content context continuing control controller controllers copied copies
    coreutils corporation corrected corrisponde corrupt costs could couldn cound count counter counters
    counts cpuinfo cpulist crash crashes create created createlistensocket creating creation credits cross
    crossed crosses crypto cudacachingallocator cudadev cudaerrorcallrequiresnewerdriver
    cudaerrorinsufficientdriver cudaerrormemoryallocation cudaipc cudamemcpy cudawrap cudevicegetattribute
    cufile cufileop cufio cuipcopenmemhandle cumem cumemcreate cumemenable cumemgetaddressrange
    cumemgethandleforaddressrange cumemimportfromshareablehandle current currently customization cycle
    czenie daemon daemonset damage datapath datei debian debug debugging decide decides declaration declare
    declared decompress decompression deepep deeplearning deepseek deepspeed default defer defined demand
    denegado denied dependencies dependency depends depline depmod deprecated depth description descriptor
    destination detected determine devcap devcomm device deviceapi devices devindex devinfo devmem
    diagnostics diags differ different differently differs digest direcci direct direction directly
    directnic directories directorio directory directtrans diret dirname disable disabled disabling
    disaggregation disagrees discards dispatch disponibile disponible dispositivo distance distant
    distributed distribution distributions dlerror dlopen dlvsym dmabuf dmabufenable dmabufsupported dmesg
    docker dockerenv dockerfile doctor doesn domain doorbell dossier drain driver driverbuild drivers drives
    dropped dummy duplicate dwords dynamic dynamo dyndbg dynsym dzenia eacces eagain earlier early ebadf
    ebadmsg ebusy ecaps ecure editable edition eexist efadv efault efivarfs efivars egressctrl ehostunreach
    eingabe einval ekeyexpired ekeyrejected ekeyrevoked eligible elsewhere empty emulated enable enabled
    enabling endere endpoint enetunreach enforce enforced engine enodev enoent enoexec enokey enomem enopkg
    enospc enosys enotsupp entrada entries entry entrypoint enumerated environ environment enxio eopnotsupp
    eperm epexception eprotonosupport equal erange erdma erlaubt errato erreur errno error errore errornum
    errors esgotado esistente ethernet ethtool etimedout event every everything evidence exact exactly
    examples exceeded exception excluded excluding exhausted exist existe exists exiting expandable expected
    expir expirada expiration expired explicitly export exported exporter exports exporttoshareablehandle
    express extend extended external extra fabric fabricmanager failed failing failover fails failure
    fallback fallen falling false family farther fastsocket fatal fault feature features fedora fermi fewer
    ficheiro fichero fichier field fields filename files filter findings findlocalcpu finds finish firewall
    firmware first fixed flags flavor flavour flush folder follows forbids force forced forces format found
    framebuffer frees frequently fully function functional functions fused garden gdaki gdrapi gdrcopy
    gdrdma gdrdrv gdrkit gdscheck geforce gefunden general generation generic getbcmgen getibdevicename
    getinfo getting gintype github given gives global globalginsupport google gplonly gpudirect
    gpudirecttcpx gpumem gpumemgethandleforaddressrange gpunetio graph greater group groups grubenv guide
    handle handler handles hangs happens hardware harmless hashalgo hauptspeicher header headers health
    healthmask helper hexint holders hooks hostname hosts https hyper hypervisor ibdev ibdevx ibdisable
    ibext ibgda ibstat ibstatus ibverbs ibvsymbols ibvwrap ibwarn identifier iface ifname ignition ignore
    ignored ignoring image implemented implementer import imported importer importerror imports imposs
    impossibile inactive inbox include incompatibility incompatible incomplete incorrect incorrecta index
    indicates indirect indirizzo indispon inexistente infiniband information inherit inheriting
    initialization initialize initialized initializer initializing initiated initstate inittransportsrank
    innotek input insert inside insmod install installation installed installer installtime instance
    instances instead insufficient integrated integrity intel intended interface internal internode
    intranode intree inuse invalid invalidate invalide invbool inversion invoking ioctl iommu irdma issue
    issues items itself iwarp jetson jetsons joined journalctl journald kallsyms katalogu keeps keine kepler
    kernel kernelopts kernels kernelsymbol keyring kinds known knows ksymtab kubectl kubepods kubernetes
    kvcache label lacks lanes laptop large later latest launch layer layers layout ldconfig least leave
    leaves legacy legacypeermem length level libcuda libcudart libcufile libefa libfabric libgdrapi libibmad
    libibumad libibverbs libkmod libnccl libnixl libnvidia libnvshmem libpod libraries library librdmacm
    libtorch libucp libucs libuct license likely limit limited limits lines linkage linkonce linux listed
    listen lists little livepatch lnkcap lnksta loaded loadedmodule loader loaderinfo loading loads local
    localized localrank localranks localread locate lockdown locked logged longer looked looks lookup losing
    lscpu lsmod lspci ltige machine machineconfiguration machined machines magic major malformed managed
    manager manifest mappable mapped mapping mappings master match matching mauvaise maxpayload maxreadreq
    maxwell mcount means meant measure mellanox memlock memoria memory memorypeer merge merged mergeddev
    merging message messages metadata metal methods microsoft migrate minimum minor minute mismatch
    mismatched misread missed misses missing mistaken mitigation mixed mkeys mlock mlopart mnnvl mnnvlenable
    model models modify modinfo modpost modprobe module modules modversion modversions mofed moire moklistrt
    moklistxrt moksbstatert mokutil mooncake mostly mount mountinfo mpcomm mpcommtransport mpiexec mpirun
    msccl mscclpp multi multicast multiple named names namespace ncclcommqueryproperties ncclcommregister
    nccldevcommrequirements ncclgetlevel ncclgetsystemid ncclibdmabufsupport ncclibfindmatchingdev
    ncclibgdrsupport ncclibgetgidindex ncclibinit ncclibinitdevices ncclibmakevdeviceinternal
    ncclibrocegetversionnum ncclloadparam ncclnet ncclnetinit ncclshmopen ncclsocketinit nccltopoaddcpu
    nccltopoaddnic nccltopoaddpcilinks nccltopoautomerge nccltopocheckgdr nccltopocomputepaths
    nccltopofillnet nccltopogetintercpubw nccltopogetlocal nccltopogetlocalnet nccltopogetlocalnettype
    nccltopopopulatenics nccltoposetpaths ndevs nearer nearest necessary needs negada negato neigh neither
    nessun netdevs netgdrread network networking never newer nicclusterpolicy nicht nicnodepolicy niedost
    niedozwolona nnodes nnvvv noarch nodes nodigest nohup notes nothing notice nouveau npackage nranks
    nstatus numactl number numerical nutanix nvalloc nversion nvidia nvidiadriver nvldomainsize nvlink
    nvlinktransport nvmem nvmldev nvreg nvshmem nvshmemi nvshmemt nvswitch nvswitches object objects obtain
    oczekiwania odify ofeddriver offer offered offers offset ofiutils ofiwg older online onnect opcode
    opened openfabrics openib openibd opening openmpi opensource openstack openucx opera operaci operacja
    operating operation operations operator operazione optimal option options oracle order original osapi
    oscreateosdescriptorfromiomemory osinit osmemdesc osrelease other others outofmemoryerror output
    overflow overlay override overriding owned owner package packages packed packet packets pagemap pager
    pages paging panic parallels param parameter parameters params parent parentheses parmtype parse parsed
    parser parts party pascal pasid passed passendes pasta patch paths payload pcieport pciutils peerdirect
    peermappingoverride peermem peermemlinkage peers perftest perhaps permanent permessa permesso permise
    permiso permiss permission permissions permissive permitida permitted persistent physfn physical
    pingpong pinned pkeys pkgconfig place plain platform please pliku plugin plugins pmorjan pointer policy
    ports posix possibilities posted postinst posts power prediction prefer prefix pretty primary prime
    print printed printk prints private privilege probe probed process processes processgroupnccl processor
    processors product products profile program programs project proof properties property proprietary props
    protected protection proto protocol protocole protocollo protocolo protok protokoll prove provi provider
    providers proxy przekroczony przydzieli python pytorch quadro quality query queue queues quiet quote
    rails raises range ranks ransport ration rdmacm rdmatransport reach reached reaches readable readlink
    reads ready reason reasons reboot receive received receives receiving record recurso recusada redirect
    refcnt reference refused refuses regattr region regions register registered registering registers
    registrable registration registrations registry registrydwords registrydwordsperdevice regmr regression
    rejected release releases reload remaining remote remove removed removes repeated replace replaced
    report reported reports reqredir request requested require required requirements requires reregistration
    reseat reserved reset resiliency resize resized resolve resolves resource resources responding ressource
    restart restorecon restored restricted result retain retcode retpoline retries retrieve retry retrying
    return returned returning returns revision revocation revoked ribfdcnc right rights rings rique riscv
    riser risorsa river rlimit rmforcedisableiomapwc rminitadapter rmmod rmperformversioncheck route routed
    routine routing rovider running runningmodule runtime runtimeerror salida scaduta scatter schema scope
    scripts sechdrs secondary seconds secstrings section secure secureboot security segment segments select
    selected selecting selection selects selinux sender sends seqnum sequence serial serve server serves
    service services setenv setting settings setup setupmode several sglang share shareablehandle shared
    shares sharp shmutils shnum short shorter should showconfig shown shows shstrndx signature
    signaturecheck signatures signaturestate signed signer signers signing silence simplify since single
    sizes skipped skipping skips sleep slower small smaller socket sockets socketstartconnect softdep
    software something soportada soportado sortie source sources space specific specified specify specifying
    spectre speed spelled split sqvvh srcvalid srcversion stack stages staging start started starting starts
    startup state station statistic status steering steps still stopped stops storage string strings
    stripped struct structure structures stubs subnet subordinate subsys subsystem success successfully
    sufficient suportada suportado suporte support supportata supportato supported supports suppressed
    switch symbol symbols symmetric symtab symvers syndrom sysfs sysimage syslog system systemctl systemd
    systems table taint tainted tainting taints taken takes takiego talked talos tarball target tclass
    tcptransport technologies tegra temperature tempo temporairement temporalmente temporaneamente
    temporariamente temporarily termin tesla testmgr tests texport their themselves there third thread three
    thresh through tiempo timed timeout titan together toolkit tools topology topologyd torch torchrun total
    touch touches trace traditional traffic trailer transblk transfer transfers translating transport
    transports treats tried tries troubleshooting truncated trust trusted trustedkey turing turned twice
    types ubuntu uevent ugiwana ugiwany ulimit ullong ulong unable uname unavailable uncorrect uncorrectable
    undefined understood uneven unexpected unknown unless unlimited unload unloaded unquote unreachable
    unrecognized unregister unset unsigned unspecified unsupported unterst until unversioned update updates
    upstreamfwd usable usage usehostmofed usenvidiadrivercrd useprecompiled userguide users userspace ushort
    using usually utils uuids uverbs validate validating validation validator validity valido value variable
    variant vendor verbindung verbose verbs verification verified verify vermagic version versions
    verzeichnis video violation virtio virtual virtualbox virtualization virtualtopology visible vmlinux
    vmware volta volume vulnerabilities vulnerable waited waiting waits wanted wants warned warning
    wartezeit watchdog weakdep where whether which while whose width window wireup without words worked
    working worknccl works workstation would wrapper write wrong xlarge zasoby zeros
"""
ORDINARY = USUAL.union(_WORDS.split())
