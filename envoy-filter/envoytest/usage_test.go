package envoytest

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/titrate/titrate/control/config"
)

// metered makes the example count requests, tokens and kilobytes apart, by answers of a format.
func metered(format string) edit {
	return edit{"cost: { literal: 1 }", `response_usage: { format: ` + format + ` }
                  costs:
                    requests: 1
                    input: { response_cost: { usage: INPUT, estimate: { first: 50 } } }
                    output: { cost: { header: x-max-tokens }, response_cost: { usage: OUTPUT, estimate: { first: 20 } } }
                    kilobytes: { response_cost: { kilobytes: true } }`}
}

// counting is a tenant whose limits count each of these costs, and hardly refill.
func counting(name string, output float64) config.Tenant {
	limit := func(cost string, burst float64) config.Limit {
		return config.Limit{Name: cost, Rate: .005, Burst: burst, Cost: cost}
	}
	return tenant(name, limit("requests", 1e6), limit("input", 1e5), limit("output", output), limit("kilobytes", 1e3))
}

// spends checks what the tenant has spent of its limits; a negative number is not checked.
func (e *envoy) spends(tenant string, requests, input, output float64) {
	e.t.Helper()
	for cost, want := range map[string]float64{"requests": requests, "input": input, "output": output} {
		if want >= 0 {
			e.eventually(fmt.Sprintf("%v %s spent, not %v", want, cost, e.spent(tenant, cost)), func() bool {
				return math.Abs(e.spent(tenant, cost)-want) < .5
			})
		}
	}
}

func usageOutcome(outcome string) string {
	return fmt.Sprintf(`titrate_response_usage_total{outcome="%s"}`, outcome)
}

// recorded serves an answer of package parsetest by the path, in chunks of 100 bytes that are flushed.
func recorded(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := os.ReadFile(filepath.Join("../shim/parsetest/testdata", r.URL.Path))
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("content-type", "application/json; charset=utf-8")
		if strings.HasSuffix(r.URL.Path, ".txt") {
			w.Header().Set("content-type", "text/event-stream")
		}
		for chunk := range slices.Chunk(body, 100) {
			_, _ = w.Write(chunk)
			w.(http.Flusher).Flush()
		}
	}
}

// Each of the formats, as one answer and as a stream of events: limits count what the answer says.
func TestUsageOfEachFormat(t *testing.T) {
	t.Parallel()
	for format, files := range map[string][]string{
		"OPENAI":    {"openai-chat.json 19 10", "openai-chat-stream.txt 19 10", "openai-responses-stream.txt 37 11"},
		"ANTHROPIC": {"anthropic-message.json 2095 503", "anthropic-stream.txt 2154 15"},
		"GEMINI":    {"gemini.json 264 1318", "gemini-stream.txt 7 46", "gemini-stream-array.json 7 46"},
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e5)), metered(format))
			e.upstream.Config.Handler = recorded(t)
			var requests, input, output, kilobytes float64
			for _, line := range files {
				var file string
				var in, out float64
				fmt.Sscan(line, &file, &in, &out)
				a := e.get("/"+file, "x-tenant", "acme")
				want, err := os.ReadFile(filepath.Join("../shim/parsetest/testdata", file))
				if err != nil || a.body != string(want) {
					t.Fatalf("%s: the answer is %+v, %v", file, a, err)
				}
				requests, input, output = requests+1, input+in, output+out
				kilobytes += float64(len(want)) / 1000
			}
			e.spends("acme", requests, input, output)
			if got := e.spent("acme", "kilobytes"); math.Abs(got-kilobytes) > .01 {
				t.Errorf("%v kilobytes spent, want %v", got, kilobytes)
			}
			e.eventually("the metric", func() bool { return e.metric(usageOutcome("read")) == requests })
			e.alive()
		})
	}
}

// An answer that cannot be read, or that does not say its usage: the estimate stands, and it is counted. What has
// failed costs nothing.
func TestUsageThatIsNotSaid(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		answer  http.HandlerFunc
		input   float64
		output  float64
		outcome string
	}{
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-encoding", "gzip")
			fmt.Fprint(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}, 50, 20, "encoded"},
		"identity": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-encoding", "identity")
			fmt.Fprint(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}, 1, 1, "read"},
		"a second line of encodings": {func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Encoding"] = []string{"identity", "gzip"}
			fmt.Fprint(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}, 50, 20, "encoded"},
		"a byte order mark": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "\ufeff", `{"usage":{"prompt_tokens":4,"completion_tokens":5}}`)
		}, 4, 5, "read"},
		"no usage": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"object":"list"}`) }, 50, 20, "missing"},
		"no body":  {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) }, 50, 20, "missing"},
		"a long stream without usage": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			fmt.Fprint(w, strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", 33))
		}, 50, 33, "missing"},
		"a failure": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"no"}}`)
		}, 0, 0, "read"},
		"a failure without a body": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			0, 0, "read"},
		"a compressed failure": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-encoding", "gzip")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, "compressed")
		}, 0, 0, "read"},
		"an upstream that never answers": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			0, 0, "read"},
		"an answer without output": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"usage":{"prompt_tokens":8,"total_tokens":8}}`)
		}, 8, 0, "read"},
		"only a total": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"usage":{"total_tokens":8}}`) },
			50, 20, "missing"},
		"trailers after the body": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "x-end")
			fmt.Fprint(w, `{"usage":{"prompt_tokens":4,"completion_tokens":5}}`)
			w.(http.Flusher).Flush()
			w.Header().Set("x-end", "1")
		}, 4, 5, "read"},
		"an upstream that goes away": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			fmt.Fprint(w, strings.Repeat("data: {\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":2}}\n\n", 5))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 70, 20, "cut"},
		"an upstream that goes away after the last event": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			fmt.Fprint(w, "data: {\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 70, 2, "read"},
		"and after the last event of a stream without usage": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 50, 20, "missing"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e5)), metered("OPENAI"))
			e.upstream.Config.Handler = c.answer
			_, _ = e.do(t.Context(), http.MethodGet, "/", nil, "x-tenant", "acme") // some end before their end
			e.eventually("the metric", func() bool { return e.metric(usageOutcome(c.outcome)) == 1 })
			e.spends("acme", 1, c.input, c.output)
			e.alive()
		})
	}
}

// What the server sends the client has before the server sends more: nothing is held back. A client that goes away
// pays for what it saw.
func TestUsageDelaysNothing(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e5)), metered("OPENAI"))
	more := make(chan bool)
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "text/event-stream")
		for {
			select {
			case <-r.Context().Done(): // an answer that ends before would not be cut
				return
			case <-more:
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n")
			w.(http.Flusher).Flush()
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, e.front, nil)
	req.Header.Set("x-tenant", "acme")
	go func() { more <- true }() // Go's server sends its headers with the first bytes
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, len("data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n"))
	for i := range 45 {
		if i > 0 {
			more <- true
		}
		if _, err := io.ReadFull(resp.Body, event); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	resp.Body.Close()
	e.eventually("the metric", func() bool { return e.metric(usageOutcome("cut")) == 1 })
	e.spends("acme", 1, 50, 45)
	e.alive()
}

// A client that goes away before the answer pays the estimate, and it is counted.
func TestUsageOfAnAbortedRequest(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e5)), metered("OPENAI"))
	ctx, leave := context.WithCancel(t.Context())
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	})
	if a, err := e.do(ctx, http.MethodGet, "/", nil, "x-tenant", "acme"); err == nil {
		t.Errorf("the answer is %+v, want none", a)
	}
	e.eventually("the metric", func() bool { return e.metric(usageOutcome("cut")) == 1 })
	e.spends("acme", 1, 50, 20)
	e.alive()
}

// memory returns a process's resident memory in megabytes.
func (e *envoy) memory() float64 {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	if err != nil {
		e.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return kilobytes / 1000
}

// The example: each limit refuses by its own cost.
func TestCostsExample(t *testing.T) {
	t.Parallel()
	e, _ := launch{example: "costs.yaml", concurrency: 1}.linked(t, setup(1, config.Queue{}, counting("acme", 20)))
	e.upstream.Config.Handler = recorded(t)
	e.expect([]reply{
		ask("a request", "/openai-chat.json", 200, nil),
		ask("one that says that it needs too much", "/openai-chat.json", 429, headers("x-max-tokens", "11"),
			"ratelimit", `"output";r=10.*`),
		ask("one that fits", "/openai-chat.json", 200, headers("x-max-tokens", "10")),
		ask("all output is spent", "/openai-chat.json", 429, nil, "ratelimit", `"output";r=0.*`),
	})
	e.alive()
}

// An answer of 100 MB takes no memory for its size, and its usage is found.
func TestUsageOfALargeAnswer(t *testing.T) {
	t.Parallel()
	e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e5)), metered("OPENAI"))
	text := strings.Repeat(`all work \"and\" no play `, 1000)
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"content":"`)
		for sent := 0; sent < 100e6; sent += len(text) {
			_, _ = io.WriteString(w, text)
		}
		fmt.Fprint(w, `"}}],"usage":{"prompt_tokens":5,"completion_tokens":700}}`)
	})
	before := e.memory()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, e.front, nil)
	req.Header.Set("x-tenant", "acme")
	e.client.Timeout = 2 * time.Minute
	resp, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 100e6 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	e.spends("acme", 1, 5, 700)
	if grown := e.memory() - before; grown > 50 {
		t.Errorf("Envoy has grown by %.0f MB", grown)
	}
	e.alive()
}

// firstByte asks for a stream and returns the time to its first byte.
func (e *envoy) firstByte(path string) time.Duration {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.front+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("x-tenant", "acme")
	began := time.Now()
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.ReadFull(resp.Body, make([]byte, 1)); n != 1 || resp.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
	}
	took := time.Since(began)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		e.t.Fatal(err)
	}
	return took
}

// A filter that reads the usage of a stream does not delay its first byte. In one Envoy, streams are asked for in turn
// with and without that. The test logs the difference; TestUsageDelaysNothing checks that nothing is held back. Rounds
// are few unless TITRATE_FIRST_BYTE says how many.
func TestFirstByteOfAStream(t *testing.T) {
	rounds := 40
	if n, err := strconv.Atoi(os.Getenv("TITRATE_FIRST_BYTE")); err == nil {
		rounds = n
	}
	e, _ := linked(t, setup(1, config.Queue{}, counting("acme", 1e9)), metered("OPENAI"),
		edit{"value: { cost: { literal: 10 } }", "value: { costs: false }"})
	body, err := os.ReadFile("../shim/parsetest/testdata/openai-chat-stream.txt")
	if err != nil {
		t.Fatal(err)
	}
	e.upstream.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "text/event-stream")
		for range 20 {
			_, _ = w.Write(body)
			w.(http.Flusher).Flush()
		}
	})
	e.firstByte("/") // the connections
	var differences, without []float64
	for i := range rounds {
		paths := []string{"/", "/search"}
		if i%2 == 1 {
			slices.Reverse(paths)
		}
		took := map[string]float64{}
		for _, path := range paths {
			took[path] = float64(e.firstByte(path).Microseconds())
		}
		differences, without = append(differences, took["/"]-took["/search"]), append(without, took["/search"])
	}
	slices.Sort(differences)
	slices.Sort(without)
	n := len(differences)
	t.Logf("%d rounds: the first byte comes after %.0f µs without; with usage %+.0f µs (quartiles %+.0f and %+.0f)", n,
		without[n/2], differences[n/2], differences[n/4], differences[3*n/4])
	e.eventually("the usage", func() bool { return e.metric(usageOutcome("read")) == float64(rounds+1) })
}
