#include "_cgo_export.h"
#include "admin.h"
#include "process.h"

static const abi_bytes path = ABI_TEXT("/titrate");

// The config is what on_bootstrap_extension_new has returned.
void envoy_dynamic_module_on_bootstrap_extension_server_initialized(void* extension,
                                                                    const void* config) {
  (void)extension;
  static const abi_bytes help =
      ABI_TEXT("Titrate: what is in force, who is limited; ?tenant=…&client=… why; &format=json");
  if (titrate_validating()) return;
  if (!ENVOY(bootstrap_extension_register_admin_handler)((abi_bootstrap)config, path, help, true,
                                                         false)) {
    abi_bytes text = ABI_TEXT(
        "titrate: no page /titrate: Envoy has no admin port, or another module has the path");
    ENVOY(log)(ABI_LOG_INFO, text);
  }
}

void titrate_admin_close(abi_bootstrap envoy) {
  ENVOY(bootstrap_extension_remove_admin_handler)(envoy, path);
}

void titrate_admin_answer(abi_bootstrap envoy, const char* body, size_t length) {
  ENVOY(bootstrap_extension_admin_set_response)(envoy, (abi_bytes){body, length});
}

uint32_t envoy_dynamic_module_on_bootstrap_extension_admin_request(abi_bootstrap envoy,
                                                                   const void* config,
                                                                   abi_bytes method, abi_bytes asked,
                                                                   abi_bytes body) {
  (void)config, (void)method, (void)body;
  return titrateAdmin(envoy, asked);
}
