package shim

/*
#include "inflight.h"
#include "process.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/titrate/titrate/control/limiter"
	"github.com/titrate/titrate/envoy-filter/enforcer"
	"github.com/titrate/titrate/envoy-filter/settings"
	"github.com/titrate/titrate/envoy-filter/stats"
)

var (
	request  limiter.Request
	question C.struct_titrate_question
)

// Numbers that C and Go must agree on. Where they differ, an index is not 0 and the
// compiler refuses it.
var (
	_ = [1]struct{}{}[limiter.MaxIdentities-C.TITRATE_IDENTITIES]
	_ = [1]struct{}{}[limiter.MaxClasses-C.TITRATE_CLASSES]
	_ = [1]struct{}{}[limiter.MaxCosts-C.TITRATE_COSTS]
	_ = [1]struct{}{}[settings.MaxCosts-C.TITRATE_NAMED_PRICES]
	_ = [1]struct{}{}[settings.MaxUsagePaths-C.TITRATE_USAGE_PATHS]
	_ = [1]struct{}{}[settings.MaxUsageKeys-C.TITRATE_USAGE_KEYS]

	_ = [1]struct{}{}[limiter.Admit-C.TITRATE_ADMIT]
	_ = [1]struct{}{}[limiter.Wait-C.TITRATE_WAIT]
	_ = [1]struct{}{}[limiter.Reject-C.TITRATE_REJECT]

	_ = [1]struct{}{}[settings.BodyAuto-C.TITRATE_BODY_AUTO]
	_ = [1]struct{}{}[settings.BodyJSON-C.TITRATE_BODY_JSON]
	_ = [1]struct{}{}[settings.BodyText-C.TITRATE_BODY_TEXT]
	_ = [1]struct{}{}[settings.BodyGRPC-C.TITRATE_BODY_GRPC]
	_ = [1]struct{}{}[settings.BodyNone-C.TITRATE_BODY_NONE]
	_ = [1]struct{}{}[settings.WhenNever-C.TITRATE_NEVER]
	_ = [1]struct{}{}[settings.WhenEvents-C.TITRATE_EVENTS]
	_ = [1]struct{}{}[settings.WhenAlways-C.TITRATE_ALWAYS]
	_ = [1]struct{}{}[settings.LogToMetadata-C.TITRATE_LOG_METADATA]
	_ = [1]struct{}{}[settings.LogToFilterState-C.TITRATE_LOG_STATE]
	_ = [1]struct{}{}[settings.LogClientNone-C.TITRATE_LOG_NONE]
	_ = [1]struct{}{}[settings.LogClientHash-C.TITRATE_LOG_HASH]
	_ = [1]struct{}{}[settings.LogClientName-C.TITRATE_LOG_NAME]
	_ = [1]struct{}{}[settings.CostNowhere-C.TITRATE_COST_NOWHERE]
	_ = [1]struct{}{}[settings.CostHeader-C.TITRATE_COST_HEADER]
	_ = [1]struct{}{}[settings.CostTrailer-C.TITRATE_COST_TRAILER]
	_ = [1]struct{}{}[settings.CostMetadata-C.TITRATE_COST_METADATA]
	_ = [1]struct{}{}[settings.CostDuration-C.TITRATE_COST_DURATION]
	_ = [1]struct{}{}[settings.CostUsage-C.TITRATE_COST_USAGE]
	_ = [1]struct{}{}[settings.CostKilobytes-C.TITRATE_COST_KILOBYTES]

	_ = [1]struct{}{}[settings.UsageInput-C.TITRATE_USAGE_INPUT]
	_ = [1]struct{}{}[settings.UsageOutput-C.TITRATE_USAGE_OUTPUT]
	_ = [1]struct{}{}[settings.UsageTotal-C.TITRATE_USAGE_TOTAL]
	_ = [1]struct{}{}[enforcer.UsageRead-C.TITRATE_USAGE_READ]
	_ = [1]struct{}{}[enforcer.UsageEncoded-C.TITRATE_USAGE_ENCODED]
	_ = [1]struct{}{}[enforcer.UsageMissing-C.TITRATE_USAGE_MISSING]
	_ = [1]struct{}{}[enforcer.UsageCut-C.TITRATE_USAGE_CUT]

	_ = [1]struct{}{}[settings.Present-C.TITRATE_PRESENT]
	_ = [1]struct{}{}[settings.Exact-C.TITRATE_EXACT]
	_ = [1]struct{}{}[settings.Prefix-C.TITRATE_PREFIX]
	_ = [1]struct{}{}[settings.Suffix-C.TITRATE_SUFFIX]
	_ = [1]struct{}{}[settings.Contains-C.TITRATE_CONTAINS]

	_ = [1]struct{}{}[stats.Counter-C.TITRATE_COUNTER]
	_ = [1]struct{}{}[stats.Gauge-C.TITRATE_GAUGE]
	_ = [1]struct{}{}[stats.Histogram-C.TITRATE_HISTOGRAM]

	_ = [1]struct{}{}[enforcer.Linger/time.Millisecond-C.TITRATE_LINGER_MS]

	// Go views C's structures as its own.
	_ = [1]struct{}{}[unsafe.Sizeof(limiter.Flight{})-C.sizeof_struct_titrate_flight]
	_ = [1]struct{}{}[unsafe.Sizeof(limiter.Identities{})-unsafe.Sizeof(question.identity)]
	_ = [1]struct{}{}[unsafe.Sizeof(limiter.Costs{})-unsafe.Sizeof(question.named)]

	// A question begins with the fields that the engine reads: a view of C has the layout of a Go string.
	_ = [1]struct{}{}[unsafe.Offsetof(request.Tenant)-unsafe.Offsetof(question.tenant)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Client)-unsafe.Offsetof(question.client)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Pool)-unsafe.Offsetof(question.pool)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Cost)-unsafe.Offsetof(question.cost)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Identities)-unsafe.Offsetof(question.identities)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Costs)-unsafe.Offsetof(question.costs)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Classes)-unsafe.Offsetof(question.classes)]
	_ = [1]struct{}{}[unsafe.Offsetof(request.Mode)-unsafe.Offsetof(question.mode)]
	_ = [1]struct{}{}[unsafe.Sizeof(request.Classes)-unsafe.Sizeof(question.classes)]
	_ = [1]struct{}{}[unsafe.Sizeof(request.Mode)-unsafe.Sizeof(question.mode)]
	_ = [1]struct{}{}[unsafe.Sizeof(request)-unsafe.Offsetof(question.identity)]
)
