// The process: what happens once, or outside any request.

#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "admin.h"
#include "process.h"

const char* envoy_dynamic_module_on_program_init(void) {
  titrate_restore_timer_slack();
  return titrateInit() ? TITRATE_ABI_VERSION : NULL;
}

const char* titrate_missing_symbol(void) {
#define TITRATE_PROBE(result, name, arguments)                                                     \
  if (ENVOY(name) == NULL) return "envoy_dynamic_module_callback_" #name;
  TITRATE_ABI(TITRATE_PROBE)
#undef TITRATE_PROBE
  return NULL;
}

bool titrate_before_1_40(void) {
  return ENVOY(http_get_downstream_direct_remote_address) == NULL;
}

// --- another Go runtime ---

// Go's linker leaves a note named "Go" with its build id in each object; an
// ELF note is size of name, size of content, type, then both, 4-byte aligned.
static bool has_go_note(const char* note, size_t left) {
  while (left >= sizeof(ElfW(Nhdr))) {
    const ElfW(Nhdr)* h = (const void*)note;
    size_t name = (h->n_namesz + 3u) & ~3u, content = (h->n_descsz + 3u) & ~3u;
    size_t size = sizeof *h + name + content;
    if (h->n_namesz == 4 && h->n_type == 4 && left >= sizeof *h + 4 &&
        memcmp(note + sizeof *h, "Go\0", 4) == 0)
      return true;
    if (size > left) return false;
    note += size;
    left -= size;
  }
  return false;
}

static bool covers(const struct dl_phdr_info* object, const void* address) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)* p = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_LOAD && (uintptr_t)address - start < p->p_memsz) return true;
  }
  return false;
}

static int look_at(struct dl_phdr_info* object, size_t size, void* found) {
  (void)size;
  if (covers(object, (const void*)&titrate_missing_symbol)) return 0; // this module
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)* p = &object->dlpi_phdr[i];
    if (p->p_type == PT_NOTE && has_go_note((const char*)object->dlpi_addr + p->p_vaddr, p->p_memsz)) {
      *(const char**)found = object->dlpi_name;
      return 1;
    }
  }
  return 0;
}

const char* titrate_other_go_runtime(void) {
  const char* found = NULL;
  dl_iterate_phdr(look_at, &found);
  return found;
}

// --- thin calls for Go ---

void titrate_log(int level, const char* text, size_t length) {
  ENVOY(log)(level, (abi_bytes){text, length});
}

uint32_t titrate_concurrency(void) { return ENVOY(get_concurrency)(); }

bool titrate_validating(void) { return ENVOY(is_validation_mode)(); }

bool titrate_define_metric(abi_bootstrap envoy, int kind, abi_bytes name, abi_bytes* labels,
                           size_t n, size_t* id) {
  switch (kind) {
  case TITRATE_GAUGE:
    return ENVOY(bootstrap_extension_config_define_gauge)(envoy, name, labels, n, id) == 0;
  case TITRATE_HISTOGRAM:
    return ENVOY(bootstrap_extension_config_define_histogram)(envoy, name, labels, n, id) == 0;
  default:
    return ENVOY(bootstrap_extension_config_define_counter)(envoy, name, labels, n, id) == 0;
  }
}

void titrate_count(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t delta) {
  ENVOY(bootstrap_extension_config_increment_counter)(envoy, id, labels, n, delta);
}

void titrate_set(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value) {
  ENVOY(bootstrap_extension_config_set_gauge)(envoy, id, labels, n, value);
}

void titrate_observe(abi_bootstrap envoy, size_t id, abi_bytes* labels, size_t n, uint64_t value,
                     uint64_t times) {
  for (; times > 0; times--)
    ENVOY(bootstrap_extension_config_record_histogram_value)(envoy, id, labels, n, value);
}

// --- the bootstrap extension: one per process, main thread only ---

// Metrics are published from here: Envoy looks labelled ones up in a cache of
// the calling thread, which only its own threads have.
static abi_timer publisher;

enum { PUBLISH_MS = 500 };

// Envoy takes no traffic before this module signals that it is ready: when the first
// configuration is in force, or boot_wait has passed. Until then this is the time between
// two checks.
enum { BOOT_MS = 5 };
static bool booted;

const void* envoy_dynamic_module_on_bootstrap_extension_config_new(abi_bootstrap envoy,
                                                                   abi_bytes name,
                                                                   abi_bytes config) {
  if (!titrateBootstrapConfig(envoy, name, config)) return NULL;
  return envoy;
}

static void boot(abi_bootstrap envoy) {
  booted = true;
  ENVOY(bootstrap_extension_config_signal_init_complete)(envoy);
}

const void* envoy_dynamic_module_on_bootstrap_extension_new(const void* config, void* envoy) {
  (void)envoy;
  if (!titrateStart()) { // Envoy only validates
    boot((abi_bootstrap)config);
    return config;
  }
  publisher = ENVOY(bootstrap_extension_timer_new)((abi_bootstrap)config);
  ENVOY(bootstrap_extension_timer_enable)(publisher, BOOT_MS);
  return config;
}

// Envoy ends as soon as its shutdown hooks are done, and closes all streams. Requests
// that were held until shortly before get TITRATE_LINGER_MS to be answered by the
// upstream.
static abi_done shutdown_done;
static void* shutdown_context;

static void stop_at_once(void) {
  titrateStop();
  titrateEnd();
  if (publisher != NULL) ENVOY(bootstrap_extension_timer_delete)(publisher);
  publisher = NULL;
}

void envoy_dynamic_module_on_bootstrap_extension_timer_fired(abi_bootstrap envoy,
                                                             const void* config, abi_timer timer) {
  (void)config;
  if (shutdown_done != NULL) {
    abi_done done = shutdown_done;
    shutdown_done = NULL;
    titrateEnd();
    done(shutdown_context);
    return;
  }
  if (!booted) {
    if (titrateReady()) boot((abi_bootstrap)config);
    ENVOY(bootstrap_extension_timer_enable)(timer, booted ? PUBLISH_MS : BOOT_MS);
    return;
  }
  titratePublish();
  ENVOY(bootstrap_extension_timer_enable)(timer, PUBLISH_MS);
}

void envoy_dynamic_module_on_bootstrap_extension_shutdown(void* envoy, const void* extension,
                                                          abi_done done, void* context) {
  (void)envoy;
  titrate_admin_close((abi_bootstrap)extension); // the value that on_..._new has returned
  if (titrateStop() && publisher != NULL) {
    shutdown_done = done;
    shutdown_context = context;
    ENVOY(bootstrap_extension_timer_enable)(publisher, TITRATE_LINGER_MS);
    return;
  }
  stop_at_once();
  done(context);
}

// Also without a shutdown hook before it, if Envoy gives up while it starts.
void envoy_dynamic_module_on_bootstrap_extension_config_destroy(const void* config) {
  (void)config;
  stop_at_once();
}
