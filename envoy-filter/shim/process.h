// The process: thin calls of Envoy for Go, which cannot call C's function pointers.
#pragma once

#include "abi.h"

// How long Envoy's shutdown waits for requests that have waited, ms.
enum { TITRATE_LINGER_MS = 500 };

// Name of the first function of TITRATE_ABI that this Envoy lacks, or NULL.
const char* titrate_missing_symbol(void);
// Whether this Envoy is older than 1.40, and so lacks TITRATE_ABI_OPTIONAL.
bool titrate_before_1_40(void);
// Path of another shared object that carries a Go runtime, or NULL. The result
// is valid until the next call, which must come from the same thread.
const char* titrate_other_go_runtime(void);

// Restores the timer slack that timer_slack.c changed when this object was loaded. On
// the same thread.
void titrate_restore_timer_slack(void);

void titrate_log(int level, const char* text, size_t length);
uint32_t titrate_concurrency(void);
bool titrate_validating(void);

enum titrate_metric { TITRATE_COUNTER = 0, TITRATE_GAUGE = 1, TITRATE_HISTOGRAM = 2 };
bool titrate_define_metric(abi_bootstrap envoy, int kind, abi_bytes name, abi_bytes* labels,
                           size_t n, size_t* id);
void titrate_count(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t delta);
void titrate_set(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value);
void titrate_observe(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value,
                     uint64_t times);
