# libtitrate.so alone, for an Envoy of yours: mounted as an image volume, or copied by an init
# container, whose only argument is the directory. The object needs glibc 2.34 or later where Envoy
# runs; the copying program is static.
FROM scratch
COPY bin/libtitrate.so bin/install /
USER 65532:65532
ENTRYPOINT ["/install", "/libtitrate.so"]
CMD ["/titrate"]
