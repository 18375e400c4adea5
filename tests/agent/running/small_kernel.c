/* The objects through which a kernel reaches its memory regions, in a process: the compiler decides where fields lie,
   and writes BTF about it. Prints the address of the list of devices, and writes its memory as /proc/kcore has it. */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef unsigned int u32;
struct xa_node { unsigned char shift, offset, count, nr_values; void *parent, *array; void *slots[64]; };
struct xarray { int xa_lock; u32 xa_flags; void *xa_head; };
struct module { int state; char name[56]; };
struct task_struct { long thread_info; int pid, tgid; };
enum rdma_restrack_type { RDMA_RESTRACK_PD, RDMA_RESTRACK_CQ, RDMA_RESTRACK_MR, RDMA_RESTRACK_MAX };
struct rdma_restrack_entry { unsigned char valid : 1, no_track : 1; int kref; struct task_struct *task;
    const char *kern_name; unsigned char user; u32 id; };
struct rdma_restrack_root { struct xarray xa; u32 next_id; };
struct ib_device_ops { struct module *owner; int driver_id; };
struct ib_device { void *dma_device; struct ib_device_ops ops; char name[64]; struct rdma_restrack_root *res; };
struct ib_mr { struct ib_device *device; u32 lkey; uint64_t iova, length; struct rdma_restrack_entry res; };
struct device_private;
struct kobject { const char *name; };
struct device { struct kobject kobj; const char *init_name; };
struct dma_buf { unsigned long size; const char *exp_name; };
struct dma_buf_attachment { struct dma_buf *dmabuf; struct device *dev; };
struct ib_umem { struct ib_device *ibdev; uint64_t iova; unsigned long length, address;
    u32 writable : 1, is_odp : 1, is_dmabuf : 1; };
struct ib_umem_dmabuf { struct ib_umem umem; struct dma_buf_attachment *attach; };
struct lab_mr { int state; struct ib_umem *umem; struct ib_mr ibmr; };

static struct {
    struct xarray devices;
    struct xa_node nodes[2];
    struct module module;
    struct task_struct task;
    struct ib_device device;
    struct rdma_restrack_root res[RDMA_RESTRACK_MAX];
    struct lab_mr regions[4];
    struct ib_umem_dmabuf buffer;
    struct ib_umem plain;
    struct dma_buf_attachment attachment;
    struct dma_buf dmabuf;
    struct device nic;
    char words[64];
} all;
enum rdma_restrack_type used = RDMA_RESTRACK_MR;

int main(int count, char **words)
{
    Elf64_Ehdr head = { .e_ident = ELFMAG, .e_phoff = sizeof head, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1 };
    Elf64_Phdr part = { .p_type = PT_LOAD, .p_offset = sizeof head + sizeof part, .p_vaddr = (uintptr_t)&all,
        .p_filesz = sizeof all };
    FILE *file = fopen(words[count - 1], "wb");
    head.e_ident[EI_CLASS] = ELFCLASS64;
    strcpy(all.module.name, "lab");
    strcpy(all.device.name, "mlx5_0");
    strcpy(all.words, "nv_dmabuf");
    strcpy(all.words + 32, "0000:b5:00.0");
    all.device.ops.owner = &all.module;
    all.device.res = all.res;
    all.devices.xa_head = &all.device; /* one entry stands in the head itself */
    all.res[RDMA_RESTRACK_MR].xa.xa_head = (void *)((uintptr_t)&all.nodes[0] + 2);
    all.nodes[0].slots[3] = (void *)((uintptr_t)&all.nodes[1] + 2);
    all.task.tgid = 701;
    for (int n = 0; n < 4; n++) {
        struct lab_mr *mr = &all.regions[n];
        all.nodes[1].slots[2 * n] = &mr->ibmr.res;
        mr->ibmr.length = (n + 1) << 20;
        mr->ibmr.res.id = 40 + n;
        mr->ibmr.res.task = &all.task;
        mr->ibmr.res.user = n < 3;
    }
    all.regions[0].umem = &all.buffer.umem;
    all.regions[1].umem = &all.plain; /* the third has none, the fourth is the kernel's own */
    all.buffer.umem.is_dmabuf = 1;
    all.buffer.attach = &all.attachment;
    all.attachment.dmabuf = &all.dmabuf;
    all.attachment.dev = &all.nic;
    all.dmabuf.exp_name = all.words;
    all.nic.kobj.name = all.words + 32;
    all.plain.address = 0x7f3cc2000000;
    all.plain.writable = 1;
    fwrite(&head, sizeof head, 1, file);
    fwrite(&part, sizeof part, 1, file);
    fwrite(&all, sizeof all, 1, file);
    printf("%lx\n", (unsigned long)&all.devices);
    return fclose(file);
}
