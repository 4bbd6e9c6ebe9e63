package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/titrate/titrate/control/config"
)

func name(s string) HeaderName { return &s }

func TestParseAnswers(t *testing.T) {
	f, err := ParseRoute([]byte(`{"mode":"SHADOW","reject_status":503,"reject_body":"TEXT","rate_limit_headers":"ALWAYS",
		"rate_limit_policy":true,
		"reason_header":"X-Why","request_id_header":"","limited_header":"X-Limited","wait_header":"",
		"congestion_header":"x-slow","mark_upstream":true,"peek":{"header":"X-Peek"},
		"response_cost":{"metadata":{"namespace":"llm","key":"tokens"}},"access_log":"ALWAYS",
		"access_log_to":"FILTER_STATE","access_log_client":"NAME","access_log_key":"0123456789abcdef"}`))
	shadow, yes := config.Shadow, true
	want := Answers{
		Mode: &shadow, Status: 503, Body: BodyText, RateLimit: WhenAlways, RateLimitPolicy: &yes,
		Reason: name("x-why"), RequestID: name(""), Limited: name("x-limited"), Wait: name(""),
		Congestion: name("x-slow"), MarkUpstream: &yes, Peek: name("x-peek"),
		Cost:  ResponseCost{From: CostMetadata, Name: "tokens", Space: "llm", Estimate: Estimate{1, 1, 1, 90}},
		Log:   WhenAlways,
		LogTo: LogToFilterState, LogClient: LogClientName,
		LogKey: &[2]uint64{0x787ab2f711519f9f, 0xddc2ebe5dd1d1f1f}, // printf %s 0123456789abcdef | sha256sum
	}
	if err != nil || !reflect.DeepEqual(f.Answers, want) {
		t.Fatalf("%+v, %v", f, err)
	}
	completed := want
	if completed.SetDefaults(); !reflect.DeepEqual(completed, want) {
		t.Errorf("defaults replace what was set: %+v", completed)
	}
}

// By default all answers of a route are unset; the answers of a filter have defaults.
func TestAnswersDefaults(t *testing.T) {
	f, err := ParseRoute([]byte(`{}`))
	if err != nil || !reflect.DeepEqual(f.Answers, Answers{}) {
		t.Fatalf("%+v, %v", f, err)
	}
	f, err = ParseFilter([]byte(`{"tenant":{"literal":"a"},"pool":{"literal":"b"}}`))
	enforce, yes, no := config.Enforce, true, false
	want := Answers{Mode: &enforce, Status: 429, Body: BodyAuto, RateLimit: WhenEvents,
		RateLimitPolicy: &yes, Reason: name("x-titrate-reason"), RequestID: name("x-request-id"),
		Limited: name("x-envoy-ratelimited"),
		Wait:    name("x-titrate-wait-ms"), Congestion: name("x-titrate-congestion"), MarkUpstream: &no, Peek: name(""),
		Cost: ResponseCost{From: CostNowhere}, Log: WhenEvents, LogTo: LogToMetadata, LogClient: LogClientHash}
	if err != nil || !reflect.DeepEqual(f.Answers, want) {
		t.Fatalf("%+v, %v", f, err)
	}
}

// What an estimate does not say has a default: the 90th percentile, but the mean of durations. Without estimate, only
// costs that are measured are estimated by recent ones. Others count 1: a field may say failures, of which most
// requests have none.
func TestParseEstimates(t *testing.T) {
	for in, want := range map[string]ResponseCost{
		`{"duration":true}`: {From: CostDuration, Estimate: Estimate{1, 1e-6, 1e6, 0}},
		`{"duration":true,"estimate":{"first":0.05,"least":0.01,"most":30}}`: {From: CostDuration,
			Estimate: Estimate{0.05, 0.01, 30, 0}},
		`{"header":"x-failed"}`:        {From: CostHeader, Name: "x-failed", Estimate: Estimate{1, 1, 1, 90}},
		`{"trailer":"x-failed"}`:       {From: CostTrailer, Name: "x-failed", Estimate: Estimate{1, 1, 1, 90}},
		`{"header":"x","estimate":{}}`: {From: CostHeader, Name: "x", Estimate: Estimate{1, 1e-6, 1e6, 90}},
		`{"kilobytes":true}`:           {From: CostKilobytes, Estimate: Estimate{1, 1e-6, 1e6, 90}},
		`{"usage":"INPUT"}`:            {From: CostUsage, Usage: UsageInput, Estimate: Estimate{1, 1e-6, 1e6, 90}},
		`{"trailer":"x","estimate":{"percentile":50}}`: {From: CostTrailer, Name: "x",
			Estimate: Estimate{1, 1e-6, 1e6, 50}},
	} {
		f, err := ParseRoute([]byte(`{"response_cost":` + in + `}`))
		if err != nil || f.Answers.Cost != want {
			t.Errorf("%s: %+v, %v, want %+v", in, f.Answers.Cost, err, want)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	f, err := ParseRoute([]byte(`{"peek":false,"response_cost":false,"mode":false,"rate_limit_headers":false}`))
	if err != nil || f.Answers.Peek == nil || *f.Answers.Peek != "" || f.Answers.Cost.From != CostNowhere ||
		*f.Answers.Mode != config.Off || f.Answers.RateLimit != WhenNever {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestAnswerErrorsNameTheField(t *testing.T) {
	for in, want := range map[string]string{
		`{"mode":"shadow"}`:                                                   "mode",
		`{"mode":1}`:                                                          "mode",
		`{"reject_status":200}`:                                               "reject_status",
		`{"reject_status":429.5}`:                                             "reject_status",
		`{"reject_body":"XML"}`:                                               "reject_body",
		`{"rate_limit_headers":true}`:                                         "rate_limit_headers",
		`{"rate_limit_policy":"no"}`:                                          "rate_limit_policy",
		`{"reason_header":"a b"}`:                                             "reason_header",
		`{"request_id_header":"a b"}`:                                         "request_id_header",
		`{"wait_header":":status"}`:                                           "wait_header",
		`{"congestion_header":"content-length"}`:                              "congestion_header",
		`{"mark_upstream":"yes"}`:                                             "mark_upstream",
		`{"peek":true}`:                                                       "peek",
		`{"peek":{}}`:                                                         "peek.header",
		`{"peek":{"header":":path"}}`:                                         "peek.header",
		`{"peek":{"heder":"x"}}`:                                              "peek.heder",
		`{"response_cost":{}}`:                                                "response_cost",
		`{"response_cost":{"header":"x","trailer":"y"}}`:                      "response_cost",
		`{"response_cost":{"header":""}}`:                                     "response_cost.header",
		`{"response_cost":{"body":"x"}}`:                                      "response_cost.body",
		`{"response_cost":{"metadata":{"namespace":"x"}}}`:                    "response_cost.metadata.key",
		`{"response_cost":{"metadata":{"key":"x","path":"y"}}}`:               "response_cost.metadata.path",
		`{"response_cost":{"estimate":{}}}`:                                   "response_cost",
		`{"response_cost":{"duration":false}}`:                                "response_cost.duration",
		`{"response_cost":{"duration":true,"estimate":{"percentile":50}}}`:    "response_cost.estimate.percentile",
		`{"response_cost":{"duration":true,"estimate":{"first":0}}}`:          "response_cost.estimate.first",
		`{"response_cost":{"duration":true,"estimate":{"most":1e7}}}`:         "response_cost.estimate.most",
		`{"response_cost":{"duration":true,"estimate":{"least":2,"most":1}}}`: "response_cost.estimate.least",
		`{"response_cost":{"header":"x","estimate":{"percentile":100}}}`:      "response_cost.estimate.percentile",
		`{"response_cost":{"header":"x","estimate":{"percentile":"high"}}}`:   "response_cost.estimate.percentile",
		`{"access_log":"SOME"}`:                                               "access_log",
		`{"access_log_to":"SYSLOG"}`:                                          "access_log_to",
		`{"access_log_key":"short"}`:                                          "access_log_key",
		`{"access_log_client":"MD5"}`:                                         "access_log_client",
	} {
		_, err := ParseRoute([]byte(in))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != want || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error of field %q", in, err, want)
		}
	}
}
