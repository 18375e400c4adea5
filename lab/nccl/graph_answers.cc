// Prints the results of NCCL's graph code for one topology file: paths, decisions, nearest GPUs and NICs.
// Built with NCCL's own sources of one tag by from_source.py; NCCL_CODE is that tag's NCCL_VERSION_CODE.
#include <cstdio>

#include "core.h"
#include "graph.h"
#include "topo.h"
#include "xml.h"

static void printPath(ncclTopoSystem* system, const char* from, ncclTopoNode* node, int type, int index) {
  if (node->paths[type] == NULL) return;
  ncclTopoLinkList* path = node->paths[type] + index;
  if (path->type >= PATH_DIS && path->count == 0) return;
  printf("path %s %s/%lx %d %.4f %s\n", from, topoNodeTypeStr[type], (long)system->nodes[type].nodes[index].id,
         path->count, path->bw, topoPathTypeStr[path->type]);
}

static void printPaths(ncclTopoSystem* system, int from) {
  const int types[] = {GPU, NVS, CPU, NET};
  for (int i = 0; i < system->nodes[from].count; i++) {
    ncclTopoNode* node = system->nodes[from].nodes + i;
    char name[64];
    snprintf(name, sizeof(name), "%s/%lx", topoNodeTypeStr[from], (long)node->id);
    for (int type : types)
      for (int index = 0; index < system->nodes[type].count; index++) printPath(system, name, node, type, index);
  }
}

static int decision(ncclTopoSystem* system, ncclTopoNode* gpu, ncclTopoNode* net, int read) {
#if NCCL_CODE >= 22602
  ncclTopoGdrMode mode;
  ncclResult_t result = ncclTopoCheckGdr(system, gpu->gpu.rank, net->id, read, &mode);
#elif NCCL_CODE >= 22403
  int mode;
  ncclResult_t result = ncclTopoCheckGdr(system, gpu->gpu.rank, net->id, read, &mode);
#else
  int mode;
  ncclResult_t result = ncclTopoCheckGdr(system, gpu->id, net->id, read, &mode);
#endif
  return result == ncclSuccess ? (int)mode : -1;
}

int main(int argc, char** argv) {
  ncclXml* xml;
  ncclTopoSystem* system = NULL;
#if NCCL_CODE >= 22105
  if (argc != 2 || xmlAlloc(&xml, 4096) != ncclSuccess) return 2;
  if (ncclTopoGetXmlFromFile(argv[1], xml, 1) != ncclSuccess) return 1;
  if (ncclTopoGetSystemFromXml(xml, &system, 0) != ncclSuccess) return 1;
#else
  if (argc != 2 || ncclCalloc(&xml, 1) != ncclSuccess) return 2;
  if (ncclTopoGetXmlFromFile(argv[1], xml, 1) != ncclSuccess) return 1;
  if (ncclTopoGetSystemFromXml(xml, &system) != ncclSuccess) return 1;
#endif
  if (ncclTopoComputePaths(system, NULL) != ncclSuccess) return 1;
  printPaths(system, GPU);
  printPaths(system, NET);
  ncclTopoNodeSet* gpus = system->nodes + GPU;
  ncclTopoNodeSet* nets = system->nodes + NET;
  for (int g = 0; g < gpus->count; g++)
    for (int n = 0; n < nets->count; n++)
      for (int read = 0; read < 2; read++) {
        int mode = decision(system, gpus->nodes + g, nets->nodes + n, read);
        if (mode < 0) return 1;
        printf("gdr %d %lx %d %d\n", gpus->nodes[g].gpu.rank, (long)nets->nodes[n].id, read, mode);
      }
  for (int n = 0; n < nets->count; n++) {
    int gpu = -1;
    if (ncclTopoGetLocalGpu(system, nets->nodes[n].id, &gpu) != ncclSuccess) return 1;
    printf("localgpu %lx %d\n", (long)nets->nodes[n].id, gpu < 0 ? -1 : gpus->nodes[gpu].gpu.rank);
  }
  for (int g = 0; g < gpus->count; g++)
    for (int channel = 0; channel < 4; channel++) {
#if NCCL_CODE >= 22105
      int64_t id = -1;
      if (ncclTopoGetLocalNet(system, gpus->nodes[g].gpu.rank, channel, &id, NULL) != ncclSuccess) return 1;
#else
      int id = -1;
      if (ncclTopoGetLocalNet(system, gpus->nodes[g].gpu.rank, channel, &id) != ncclSuccess) return 1;
#endif
      printf("localnet %d %d %lx\n", gpus->nodes[g].gpu.rank, channel, (long)id);
    }
  return 0;
}
