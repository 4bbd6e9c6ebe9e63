# The titrate-lab binary: upstream and load of trials and tests. No installation needs it.
FROM scratch
COPY bin/titrate-lab /titrate-lab
ENTRYPOINT ["/titrate-lab"]
