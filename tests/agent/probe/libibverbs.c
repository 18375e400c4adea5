/* One device with one port, as far as the probes ask; it takes dma-bufs unless OLD, and no addresses of a GPU. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define DEVICE ((void *)0x7f1111111111ull)
#define CONTEXT ((void *)0x7f2222222222ull)
#define DOMAIN ((void *)0x7f3333333333ull)
#define REGION ((void *)0x7f4444444444ull)
static void *or_errno(int error, void *found) { errno = error; return error ? NULL : found; }
void **ibv_get_device_list(int *count) {
    void **list = calloc(2, sizeof *list);
    list[0] = DEVICE;
    *count = 1;
    return list;
}
void ibv_free_device_list(void **list) { free(list); }
const char *ibv_get_device_name(void *device) { return device == DEVICE ? "mlx5_0" : NULL; }
void *ibv_open_device(void *device) { return or_errno(device == DEVICE ? 0 : ENODEV, CONTEXT); }
int ibv_close_device(void *context) { if (context != CONTEXT) abort(); return 0; }
int ibv_query_device(void *context, uint8_t *attributes) { attributes[227] = 1; return context != CONTEXT; }
int ibv_query_port(void *context, uint8_t port, uint8_t *attributes) {
    memcpy(attributes, (int[]){4, 5, 5, 2}, 16);
    attributes[34] = 17, attributes[46] = 2;
    return port != 1;
}
int ibv_query_gid(void *context, uint8_t port, int index, uint8_t *gid) {
    if (!index) gid[0] = 0xfe, gid[1] = 0x80, gid[15] = 1;
    return 0;
}
void *ibv_alloc_pd(void *context) { return or_errno(context == CONTEXT ? 0 : EINVAL, DOMAIN); }
int ibv_dealloc_pd(void *domain) { if (domain != DOMAIN) abort(); return 0; }
void *ibv_reg_mr(void *domain, void *address, size_t size, int access) {
    return or_errno(domain != DOMAIN || access != 7 ? EINVAL : address == (void *)0x7fabcdef00000000ull ? EFAULT : 0, REGION);
}
#ifndef OLD
void *ibv_reg_dmabuf_mr(void *domain, uint64_t offset, size_t size, uint64_t iova, int fd, int access) {
    if (domain != DOMAIN || offset) return or_errno(EINVAL, NULL);
    return or_errno(fd == -1 ? EBADF : size != 2 << 20 || iova != 0x7fabcdef00000000ull || access != 7 ? EINVAL : 0, REGION);
}
#endif
int ibv_dereg_mr(void *region) { if (region != REGION) abort(); return 0; }
void *ibv_create_cq(void) { abort(); }
int ibv_destroy_cq(void) { abort(); }
void *ibv_create_qp(void) { abort(); }
int ibv_modify_qp(void) { abort(); }
int ibv_destroy_qp(void) { abort(); }
const char *ibv_wc_status_str(void) { abort(); }
