// The page on Envoy's admin port. Main thread only.
#pragma once

#include "shim.h"

// Takes the page away, so that nobody asks what is being taken down.
void titrate_admin_close(abi_bootstrap envoy);
// The answer to the request that is being asked; Envoy copies it.
void titrate_admin_answer(abi_bootstrap envoy, const char* body, size_t length);
