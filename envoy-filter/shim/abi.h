// The part of Envoy's dynamic module ABI that Titrate uses, and nothing else.
//
// Envoy only warns of a module of another ABI version, so a function whose
// signature has changed would be called with wrong arguments. Hence this header
// declares only what is called, as weak symbols: a function that this Envoy does not
// have is null. One object serves Envoy 1.38, 1.39 and 1.40:
//
//   TITRATE_ABI           functions that all of them have. If one is null, the module
//                         refuses to be loaded (titrate_missing_symbol).
//   TITRATE_ABI_OPTIONAL  functions that came with 1.40. If one is null, configurations
//                         that need it are refused (titrate_before_1_40), as are others
//                         that need an attribute which only 1.40 knows, the name of the
//                         virtual host.
//   …_OPTIONAL_1_39       functions that came with 1.39. Without them the same is done by
//                         more calls.
//
// envoytest checks each name against the real binaries. The declarations were written
// after the ABI v0.1.0 of Envoy 1.38, and are unchanged in v0.2.0 of Envoy 1.40. The
// arguments of http_get_downstream_direct_remote_address and http_set_dynamic_metadata_string_batch,
// new in 1.40 and 1.39, follow their code: "address:port" as one text; keys with values.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Version that the module reports; Envoy 1.40 has v0.2.0. An older Envoy logs a warning.
#define TITRATE_ABI_VERSION "v0.2.0"

#define TITRATE_WEAK __attribute__((weak))

// A view of bytes; who owns them depends on the call.
typedef struct {
  const char* ptr;
  size_t length;
} abi_bytes;

// A view of a string literal.
#define ABI_TEXT(literal) ((abi_bytes){literal, sizeof(literal) - 1})

static inline bool abi_equal(abi_bytes a, abi_bytes b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.ptr, b.ptr, a.length) == 0);
}

typedef struct {
  const char* key;
  size_t key_length;
  const char* value;
  size_t value_length;
} abi_header;

// Opaque objects of Envoy.
typedef void* abi_http_filter;     // one per stream; its worker's thread only
typedef void* abi_span;            // of a request that Envoy traces; NULL if it does not
typedef void* abi_scheduler;       // posts to a stream's worker, from any thread
typedef void* abi_bootstrap;       // lives until on_..._config_destroy
typedef void* abi_timer;           // of the main thread
typedef void (*abi_done)(void* context);

enum abi_header_type { ABI_REQUEST_HEADER = 0, ABI_RESPONSE_HEADER = 2, ABI_RESPONSE_TRAILER = 3 };
enum abi_headers_status {
  ABI_HEADERS_CONTINUE = 0,
  ABI_HEADERS_STOP = 1,
  ABI_HEADERS_STOP_ALL_AND_WATERMARK = 4,
};
enum abi_trailers_status { ABI_TRAILERS_CONTINUE = 0 };
enum abi_data_status { ABI_DATA_CONTINUE = 0 };
enum abi_attribute {
  ABI_ATTRIBUTE_RESPONSE_CODE_DETAILS = 16,
  ABI_ATTRIBUTE_SOURCE_ADDRESS = 24,
  ABI_ATTRIBUTE_CONNECTION_ID = 28,
  ABI_ATTRIBUTE_PEER_SUBJECT = 33,
  ABI_ATTRIBUTE_PEER_DNS_SAN = 35,
  ABI_ATTRIBUTE_PEER_URI_SAN = 37,
  ABI_ATTRIBUTE_PEER_SHA256 = 38,
  ABI_ATTRIBUTE_ROUTE_NAME = 61,
  ABI_ATTRIBUTE_VIRTUAL_HOST_NAME = 63,
};
enum abi_body_type { ABI_RECEIVED_RESPONSE_BODY = 2 };
enum abi_metadata_source { ABI_METADATA_DYNAMIC = 0 };
enum abi_log_level { ABI_LOG_DEBUG = 1, ABI_LOG_INFO = 2, ABI_LOG_WARN = 3, ABI_LOG_ERROR = 4 };

// Each function: X(result, name, arguments). The lists serve the declarations
// and the check at start-up.
#define TITRATE_ABI(X)                                                                             \
  X(void, log, (int level, abi_bytes message))                                                     \
  X(uint32_t, get_concurrency, (void))                                                             \
  X(bool, is_validation_mode, (void))                                                              \
  X(bool, http_get_header,                                                                         \
    (abi_http_filter, int type, abi_bytes key, abi_bytes* value, size_t index, size_t* count))     \
  X(size_t, http_get_headers_size, (abi_http_filter, int type))                                    \
  X(bool, http_get_headers, (abi_http_filter, int type, abi_header* headers))                      \
  X(bool, http_set_header, (abi_http_filter, int type, abi_bytes key, abi_bytes value))            \
  X(void, http_send_response,                                                                      \
    (abi_http_filter, uint32_t status, abi_header* headers, size_t n, abi_bytes body,              \
     abi_bytes details))                                                                           \
  X(bool, http_filter_get_attribute_string, (abi_http_filter, int attribute, abi_bytes* value))    \
  X(bool, http_filter_get_attribute_int, (abi_http_filter, int attribute, uint64_t* value))        \
  X(bool, http_get_metadata_string,                                                                \
    (abi_http_filter, int source, abi_bytes space, abi_bytes key, abi_bytes* value))               \
  X(bool, http_get_filter_state_bytes, (abi_http_filter, abi_bytes key, abi_bytes* value))         \
  X(bool, http_set_filter_state_bytes, (abi_http_filter, abi_bytes key, abi_bytes value))          \
  X(size_t, http_get_body_chunks_size, (abi_http_filter, int type))                                 \
  X(bool, http_get_body_chunks, (abi_http_filter, int type, abi_bytes* chunks))                     \
  X(bool, http_get_cluster_name, (abi_http_filter, abi_bytes* name))                               \
  X(void, http_set_dynamic_metadata_string,                                                        \
    (abi_http_filter, abi_bytes space, abi_bytes key, abi_bytes value))                            \
  X(void, http_set_dynamic_metadata_number,                                                        \
    (abi_http_filter, abi_bytes space, abi_bytes key, double value))                               \
  X(void, http_set_dynamic_metadata_bool,                                                          \
    (abi_http_filter, abi_bytes space, abi_bytes key, bool value))                                 \
  X(bool, http_get_metadata_number,                                                                \
    (abi_http_filter, int source, abi_bytes space, abi_bytes key, double* value))                  \
  X(const void*, get_most_specific_route_config, (abi_http_filter))                                \
  X(void, http_filter_continue_decoding, (abi_http_filter))                                        \
  X(abi_scheduler, http_filter_scheduler_new, (abi_http_filter))                                   \
  X(void, http_filter_scheduler_commit, (abi_scheduler, uint64_t event))                           \
  X(void, http_filter_scheduler_delete, (abi_scheduler))                                           \
  X(void, bootstrap_extension_config_signal_init_complete, (abi_bootstrap))                        \
  X(abi_timer, bootstrap_extension_timer_new, (abi_bootstrap))                                     \
  X(void, bootstrap_extension_timer_enable, (abi_timer, uint64_t milliseconds))                    \
  X(void, bootstrap_extension_timer_delete, (abi_timer))                                           \
  X(int, bootstrap_extension_config_define_counter,                                                \
    (abi_bootstrap, abi_bytes name, abi_bytes* labels, size_t n, size_t* id))                      \
  X(int, bootstrap_extension_config_increment_counter,                                             \
    (abi_bootstrap, size_t id, abi_bytes* labels, size_t n, uint64_t value))                       \
  X(int, bootstrap_extension_config_define_gauge,                                                  \
    (abi_bootstrap, abi_bytes name, abi_bytes* labels, size_t n, size_t* id))                      \
  X(int, bootstrap_extension_config_set_gauge,                                                     \
    (abi_bootstrap, size_t id, abi_bytes* labels, size_t n, uint64_t value))                       \
  X(int, bootstrap_extension_config_define_histogram,                                              \
    (abi_bootstrap, abi_bytes name, abi_bytes* labels, size_t n, size_t* id))                      \
  X(int, bootstrap_extension_config_record_histogram_value,                                        \
    (abi_bootstrap, size_t id, abi_bytes* labels, size_t n, uint64_t value))                       \
  X(bool, bootstrap_extension_register_admin_handler,                                              \
    (abi_bootstrap, abi_bytes path, abi_bytes help, bool removable, bool mutates))                 \
  X(bool, bootstrap_extension_remove_admin_handler, (abi_bootstrap, abi_bytes path))               \
  X(void, bootstrap_extension_admin_set_response, (abi_bootstrap, abi_bytes body))                 \
  X(abi_span, http_get_active_span, (abi_http_filter))                                             \
  X(void, http_span_set_tag, (abi_span, abi_bytes key, abi_bytes value))

// Since Envoy 1.40.
#define TITRATE_ABI_OPTIONAL(X)                                                                    \
  X(bool, http_get_downstream_direct_remote_address, (abi_http_filter, abi_bytes* address))

// Since Envoy 1.39.
#define TITRATE_ABI_OPTIONAL_1_39(X)                                                               \
  X(bool, http_set_dynamic_metadata_string_batch,                                                  \
    (abi_http_filter, abi_bytes space, abi_header* entries, size_t n))

#define TITRATE_DECLARE(result, name, arguments)                                                   \
  extern TITRATE_WEAK result envoy_dynamic_module_callback_##name arguments;
TITRATE_ABI(TITRATE_DECLARE)
TITRATE_ABI_OPTIONAL(TITRATE_DECLARE)
TITRATE_ABI_OPTIONAL_1_39(TITRATE_DECLARE)
#undef TITRATE_DECLARE

// The name of one of them.
#define ENVOY(name) envoy_dynamic_module_callback_##name
