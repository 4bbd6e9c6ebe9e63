#define _GNU_SOURCE
#include "guard.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

char* guard_end(void) {
  static char* end;
  if (end != NULL) return end;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* at = mmap(NULL, GUARD_SIZE + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + GUARD_SIZE, page, PROT_NONE) != 0) abort();
  return end = at + GUARD_SIZE;
}
