//! A rate limit service around Limitador's library, for comparison in benchmarks only: Limitador's
//! own server is not published as a package. As that server, it is made with tonic, and asks the
//! library with the counters in memory for each request; it has no metrics and no tracing.
//!
//!     limitador-bench ADDRESS COUNTERS TENANT=RATE…
//!
//! A descriptor has the entries tenant and client; each client of a tenant has a limit of RATE
//! requests per second.

use limitador::limit::{Context, Limit};
use limitador::RateLimiter;
use rls::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use std::collections::HashMap;
use std::error::Error;
use tonic::{Request, Response, Status};

/// What the server reads of envoy.service.ratelimit.v3.RateLimitRequest.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// What the server says of envoy.service.ratelimit.v3.RateLimitResponse.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;

mod rls {
    include!(concat!(
        env!("OUT_DIR"),
        "/envoy.service.ratelimit.v3.RateLimitService.rs"
    ));
}

struct Service {
    limiter: RateLimiter,
}

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let descriptors: Vec<HashMap<String, String>> = request
            .descriptors
            .into_iter()
            .map(|d| d.entries.into_iter().map(|e| (e.key, e.value)).collect())
            .collect();
        let mut context = Context::default();
        context.list_binding("descriptors".to_string(), descriptors);
        let answer = self
            .limiter
            .check_rate_limited_and_update(
                &request.domain.into(),
                &context,
                request.hits_addend.max(1).into(),
            )
            .map_err(|e| Status::unavailable(format!("{e:?}")))?;
        let overall_code = if answer.limited { OVER_LIMIT } else { OK };
        Ok(Response::new(RateLimitResponse { overall_code }))
    }
}

/// The limit of each client of a tenant, from TENANT=RATE.
fn limit(pair: &str) -> Result<Limit, Box<dyn Error>> {
    let (tenant, rate) = pair
        .split_once('=')
        .ok_or_else(|| format!("{pair:?} is not TENANT=RATE"))?;
    let condition = format!("descriptors[0].tenant == '{tenant}'");
    Ok(Limit::new(
        "bench",
        rate.parse()?,
        1,
        vec![condition.as_str().try_into()?],
        vec!["descriptors[0].client".try_into()?],
    ))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("ADDRESS is missing")?.parse()?;
    let counters = arguments.next().ok_or("COUNTERS is missing")?.parse()?;
    let limiter = RateLimiter::new(counters);
    for pair in arguments {
        limiter.add_limit(limit(&pair)?);
    }
    tonic::transport::Server::builder()
        .add_service(RateLimitServiceServer::new(Service { limiter }))
        .serve(address)
        .await?;
    Ok(())
}
