// Package rlqs serves envoy.service.rate_limit_quota.v3, the API of Envoy's rate limit quota filter. Envoys report each
// few seconds what they have admitted and refused of each bucket, and are assigned a rate for it. No request waits for
// a call, and no module is needed. It is coarse: the mean is right, and a shift of demand is followed after a report.
//
// # Model
//
//	StreamRateLimitQuotas   stream.go    reports in, assignments out
//	   │ a bucket id says whose requests they are: package rls/subject
//	   ▼
//	 assign.Book            rlqs.go      visits each 10 ms, a round each 250 ms
//	   │ Parts, Account
//	 limiter.Engine ─ agentlink ══ the agent's own socket
//
// An agent with it is one more gateway: it claims what its Envoys use, and its part of each limit and share is divided
// among them by package assign.
//
// # Envoy
//
// As seen on 1.40. A strategy of requests per time unit is rejected. A token bucket fills in whole seconds, at least
// one. Its numbers are compared without the seconds of the interval, and it is full when they change. A report's
// time_elapsed is cut to whole seconds, so the times of arrival count here. What expires reverts to what the filter's
// configuration says.
//
// # Failures
//
// A bucket whose tenant is not configured is let in, or refused (Options.DenyUnknown), and counted. So is one of
// another domain than subject.Domain. Without the other agents and the coordinator the engine goes on as a filter
// does. Without this process assignments hold until they expire.
//
// # Bounds
//
// A message has at most maxMessageBytes and maxMessageEntries, a bucket id maxEntries entries of maxText bytes each;
// there are at most maxStreams, maxBucketsOfStream and maxBuckets. What is beyond is not assigned anything, and
// counted.
package rlqs
