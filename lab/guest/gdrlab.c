/* For a guest of the lab: a device that exports dma-bufs as NVIDIA's module does, and a region of rdma_rxe that
   holds one, as a NIC's driver makes it. So regions of dma-bufs pass uverbs, the table of RDMA objects and the
   table of dma-bufs, although rdma_rxe has none. The importer has the name of a PCI device. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/module.h>
#include <linux/miscdevice.h>
#include <linux/fs.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_umem.h>
#include <linux/kprobes.h>
/* An exporter that is called like NVIDIA's, and an importer that does what a NIC's driver does. */
static struct platform_device *nic;
static struct ib_device *fake;
static struct sg_table *map(struct dma_buf_attachment *a, enum dma_data_direction d)
{
	struct dma_buf *b = a->dmabuf;
	struct sg_table *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct scatterlist *s;
	unsigned int i, n = b->size >> 20;
	struct page **pages = b->priv;
	if (!t) return ERR_PTR(-ENOMEM);
	if (sg_alloc_table(t, n, GFP_KERNEL)) { kfree(t); return ERR_PTR(-ENOMEM); }
	for_each_sgtable_sg(t, s, i) sg_set_page(s, pages[i], 1 << 20, 0);
	if (dma_map_sgtable(a->dev, t, d, 0)) { sg_free_table(t); kfree(t); return ERR_PTR(-EIO); }
	return t;
}
static void unmap(struct dma_buf_attachment *a, struct sg_table *t, enum dma_data_direction d)
{ dma_unmap_sgtable(a->dev, t, d, 0); sg_free_table(t); kfree(t); }
static void release(struct dma_buf *b)
{
	struct page **pages = b->priv; unsigned int i;
	for (i = 0; i < b->size >> 20; i++) __free_pages(pages[i], 8);
	kfree(pages);
	pr_info("dma-buf of %zu released\n", b->size);
}
static const struct dma_buf_ops ops = { .map_dma_buf = map, .unmap_dma_buf = unmap, .release = release };
static long act(struct file *f, unsigned int cmd, unsigned long arg)
{
	if (cmd == 0x4701) {
		DEFINE_DMA_BUF_EXPORT_INFO(info);
		unsigned int i, n = arg >> 20; struct dma_buf *b;
		struct page **pages = kcalloc(n, sizeof(*pages), GFP_KERNEL);
		for (i = 0; i < n; i++) pages[i] = alloc_pages(GFP_KERNEL, 8);
		info.ops = &ops; info.size = arg; info.flags = O_RDWR | O_CLOEXEC; info.priv = pages; info.exp_name = "nv_dmabuf";
		b = dma_buf_export(&info);
		return IS_ERR(b) ? PTR_ERR(b) : dma_buf_fd(b, O_CLOEXEC);
	}
	return -ENOTTY;
}
/* What a NIC's driver does for UVERBS_METHOD_REG_DMABUF_MR, put under rxe: its own region, our umem. In struct
   rxe_mr the pointer to the umem comes right behind struct ib_mr (6.1, 6.12, 7.3). */
static struct ib_mr *reg(struct ib_pd *pd, u64 offset, u64 length, u64 virt, int fd, int access, void *last)
{
	struct ib_umem_dmabuf *u = ib_umem_dmabuf_get_pinned(fake, offset, length, fd, access);
	struct ib_mr *mr;
	if (IS_ERR(u)) return ERR_CAST(u);
	mr = pd->device->ops.get_dma_mr(pd, access);
	if (IS_ERR(mr)) { ib_umem_release(&u->umem); return mr; }
	mr->length = length; mr->iova = virt;
	*(struct ib_umem **)(mr + 1) = &u->umem;
	return mr;
}
static int entering(struct kprobe *p, struct pt_regs *r)
{
	struct ib_device *d = (void *)r->di;
	if (d->ops.driver_id == RDMA_DRIVER_RXE) { d->ops.reg_user_mr_dmabuf = (void *)reg; }
	return 0;
}
static struct kprobe probe = { .symbol_name = "ib_register_device", .pre_handler = entering };
static const struct file_operations fops = { .owner = THIS_MODULE, .unlocked_ioctl = act };
static struct miscdevice dev = { .minor = MISC_DYNAMIC_MINOR, .name = "gdrlab", .fops = &fops };
struct lab_dev { struct ib_device ibdev; };
static int __init start(void)
{
	struct lab_dev *l;
	nic = platform_device_register_simple("0000:b5:00.0", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(nic)) return PTR_ERR(nic);
	dma_coerce_mask_and_coherent(&nic->dev, DMA_BIT_MASK(64));
	l = ib_alloc_device(lab_dev, ibdev);
	if (!l) return -ENOMEM;
	fake = &l->ibdev; fake->dma_device = &nic->dev;
	if (register_kprobe(&probe)) return -EINVAL;
	return misc_register(&dev);
}
module_init(start);
MODULE_LICENSE("GPL");
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif
