# The titrate binary: CLI, coordinator, agent. `make images` builds bin/ first; the binary is static,
# so nothing else is needed and no registry is asked.
FROM scratch
COPY bin/titrate /titrate
ENTRYPOINT ["/titrate"]
