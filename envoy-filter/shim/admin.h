// The page on Envoy's admin port. Main thread only.
#pragma once

#include "abi.h"

// Removes the page, so that no request for it comes while the process ends.
void titrate_admin_close(abi_bootstrap envoy);
// Sets the answer to the current request for the page; Envoy copies it.
void titrate_admin_answer(abi_bootstrap envoy, const char* body, size_t length);
