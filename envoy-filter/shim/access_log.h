// What an access log can show of a decision: dynamic metadata in the namespace "titrate", or one
// text in filter state under that name.
#pragma once

#include "response.h"

// Returns whether a request is logged. An event is anything but a plain admission.
bool titrate_logs(const struct titrate_layers* layers, bool event);

// Sets what is logged of a request with this outcome's name.
void titrate_log_outcome(abi_http_filter envoy, const struct titrate_outcome* o,
                         const struct titrate_question* q, const struct titrate_answer* a,
                         abi_bytes name);
