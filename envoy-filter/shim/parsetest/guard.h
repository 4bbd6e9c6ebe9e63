// Memory whose end is the end of what may be read.
#pragma once

#include <stddef.h>

enum { GUARD_SIZE = 1 << 20 };

// The address behind the last byte that may be touched; the same each time.
char* guard_end(void);
