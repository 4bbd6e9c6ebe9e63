#pragma once

#include "held.h"

// When the worker takes the event, or its stream ends.
enum worker { WORKER_TAKES, WORKER_TAKES_LATER, WORKER_ENDED, WORKER_ENDS, WORKER_ENDS_LATER };

struct outcome {
  bool dropped;   // the ticker frees the slots
  uint64_t slots; // that the worker has
  int deleted;    // schedulers
};

// Releases a held request whose event has slots 7.
struct outcome release(enum worker w);
