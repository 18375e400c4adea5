// Stubs for the rest of NCCL that its graph code needs: no log, and variables from the environment.
#include <cstdint>
#include <cstdlib>

#include "core.h"

int ncclDebugLevel = 0;
thread_local int ncclDebugNoWarn = 0;
char ncclLastError[1024];

void ncclDebugLog(ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

const char* ncclGetEnv(const char* name) { return getenv(name); }

static int64_t readParam(char const* name, int64_t otherwise) {
  const char* value = getenv(name);
  return value && *value ? strtoll(value, NULL, 0) : otherwise;
}

#if NCCL_CODE >= 22907
int64_t ncclLoadParam(char const* name, int64_t otherwise, int64_t, int64_t* cache, int8_t*) {
  return *cache = readParam(name, otherwise);
}
#else
void ncclLoadParam(char const* name, int64_t otherwise, int64_t, int64_t* cache) {
  *cache = readParam(name, otherwise);
}
#endif

#if NCCL_CODE >= 22902
#include "os.h"
void ncclOsCpuZero(ncclAffinity& affinity) { CPU_ZERO(&affinity); }
void ncclOsCpuSet(ncclAffinity& affinity, int cpu) { CPU_SET(cpu, &affinity); }
#endif
