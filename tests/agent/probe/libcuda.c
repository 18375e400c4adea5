/* Two GPUs of one product, as far as the probes ask: what they pass must come through ctypes as cuda.h has it. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#define MEMORY 0x7fabcdef00000000ull
#define CONTEXT ((void *)0x7f1234567890ull)
#define HOST ((void *)0x7e0000000000ull)
int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "NVIDIA H200", size); return device > 1; }
int cuDeviceGetAttribute(int *value, int number, int device) {
    *value = number == 33 ? 0x1b + device : number == 50 ? 1 : number == 116;
    return number > 141;
}
int cuDeviceGetPCIBusId(char *place, int size, int device) { strncpy(place, "00000001:1B:00.0", size); return device; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = CONTEXT; return device; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxSetCurrent(void *context) { return context != CONTEXT; }
int cuMemAlloc_v2(uint64_t *memory, size_t size) { *memory = MEMORY; return size != 2 << 20; }
int cuMemFree_v2(uint64_t memory) { return memory != MEMORY; }
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) { *memory = HOST; return size != 2 << 20 || flags != 3; }
int cuMemFreeHost(void *memory) { return memory != HOST; }
int cuPointerGetAttribute(void *value, int number, uint64_t memory) {
    *(unsigned *)value = 1;
    return number != 15 || memory != MEMORY;
}
int cuMemGetHandleForAddressRange(void *handle, uint64_t memory, size_t size, int kind, unsigned long long flags) {
    if (flags || memory != MEMORY) return 801;
    *(int *)handle = open("/dev/null", O_RDONLY);
    return size != 2 << 20 || kind != 1;
}
