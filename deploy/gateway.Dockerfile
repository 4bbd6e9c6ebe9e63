# Envoy with the filter. `make containers` makes the base image where it cannot be pulled.
FROM envoyproxy/envoy:v1.40.0
COPY bin/libtitrate.so /usr/local/lib/titrate/libtitrate.so
COPY deploy/envoy.yaml /etc/envoy/envoy.yaml
ENV ENVOY_DYNAMIC_MODULES_SEARCH_PATH=/usr/local/lib/titrate
