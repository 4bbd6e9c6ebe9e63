// Writes the server's side of envoy.service.ratelimit.v3 without a compiler of protobuf.
fn main() {
    let method = tonic_build::manual::Method::builder()
        .name("should_rate_limit")
        .route_name("ShouldRateLimit")
        .input_type("crate::RateLimitRequest")
        .output_type("crate::RateLimitResponse")
        .codec_path("tonic::codec::ProstCodec")
        .build();
    let service = tonic_build::manual::Service::builder()
        .name("RateLimitService")
        .package("envoy.service.ratelimit.v3")
        .method(method)
        .build();
    tonic_build::manual::Builder::new()
        .build_client(false)
        .compile(&[service]);
}
