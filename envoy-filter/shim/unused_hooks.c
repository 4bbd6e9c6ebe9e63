// Hooks that Envoy requires of a module and that Titrate does not need. They cost
// an empty call in C; most are never called, since nothing is registered that would
// call them. They do not read their arguments, so they declare none: on all platforms of
// Envoy the caller removes arguments.

// 0 is Continue in each of Envoy's status enumerations.
#define CONTINUE(name)                                                                             \
  int envoy_dynamic_module_on_##name(void);                                                        \
  int envoy_dynamic_module_on_##name(void) { return 0; }

#define IGNORE(name)                                                                               \
  void envoy_dynamic_module_on_##name(void);                                                       \
  void envoy_dynamic_module_on_##name(void) {}

CONTINUE(http_filter_request_body)
CONTINUE(http_filter_request_trailers)

IGNORE(http_filter_http_callout_done)
IGNORE(http_filter_http_stream_headers)
IGNORE(http_filter_http_stream_data)
IGNORE(http_filter_http_stream_trailers)
IGNORE(http_filter_http_stream_complete)
IGNORE(http_filter_http_stream_reset)
IGNORE(http_filter_downstream_above_write_buffer_high_watermark)
IGNORE(http_filter_downstream_below_write_buffer_low_watermark)

IGNORE(bootstrap_extension_worker_thread_initialized)
IGNORE(bootstrap_extension_drain_started) // held requests are released within the drain time anyway
IGNORE(bootstrap_extension_destroy)
IGNORE(bootstrap_extension_config_scheduled)
IGNORE(bootstrap_extension_http_callout_done)
IGNORE(bootstrap_extension_file_changed)
IGNORE(bootstrap_extension_cluster_add_or_update)
IGNORE(bootstrap_extension_cluster_removal)
IGNORE(bootstrap_extension_listener_add_or_update)
IGNORE(bootstrap_extension_listener_removal)
