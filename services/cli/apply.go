package cli

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/command"
	"github.com/titrate/titrate/services/document"
	"github.com/titrate/titrate/services/store/resource"
)

const applyLong = `apply creates what does not exist and replaces what does, so that the configuration
says what the documents say. Everything given is one transaction: all or nothing. The
order does not matter. The gateways obey within a second; nothing is reloaded.

A document is a resource in YAML or JSON; many stand in one file, parted by ---:

  apiVersion: titrate.dev/v1alpha1
  kind: Pool                           # an upstream that serves 300 requests a second
  name: pools/api
  spec:
    capacity: 300
  ---
  apiVersion: titrate.dev/v1alpha1
  kind: Tenant                         # gets three times the share of weight 1
  name: tenants/acme
  spec:
    weight: 3
  ---
  apiVersion: titrate.dev/v1alpha1
  kind: Quota                          # never below 20/s when acme asks for it
  name: tenants/acme/quotas/api
  spec:
    guaranteed: 20
    max: 200
  ---
  apiVersion: titrate.dev/v1alpha1
  kind: Limit                          # each client of every tenant
  name: tenants/-/limits/per-client
  spec:
    rate: 600/min
    burst: 30

What a document leaves out has its default. A limit without burst gets the amount of
its rate: 100/min admits 100 at once, 10/s admits 10; never less than 1. A rate of 0
(of a limit) or a max of 0 (of a quota) blocks: every request is refused at once.

What no document mentions stays as it is, but with --prune. Resources that are applied
with --set NAME belong to the set of that name; --prune deletes what the set owns and no
document mentions any more. So a directory in git says all that a set has:

  titrate apply -f config/ --set prod --prune -m "commit 1a2b3c"

Of a directory, the .yaml, .yml and .json files in it are read. Other files in it, and
directories in it that have documents, are named as not read. With --prune the apply is
refused if one of these may hold documents: what they name would be deleted.

A resource of another set is refused, unless --overwrite takes it over, which an
administrator may, and an editor whose grant says takeOver. Every apply is a
revision in titrate history, with its author and -m MESSAGE, and titrate rollback undoes it.
With --if-revision it is refused if anybody has changed anything since.

A Scenario or a Demand
beside the resources, for titrate-lab simulate and titrate-lab solve, is passed over.
One apply takes 500,000 documents and 60 MiB of them; with 10,000 and more it says that it is at
work, and waits longer.

What get -o yaml wrote has an etag in its status: it is applied only if nobody changed
the resource since it was read, or if it asks for what is stored already. A text without
one, or --overwrite, asks for no such thing. An etag may stand beside spec as well.`

const applyExample = `  titrate apply -f quotas.yaml
  titrate apply -f pools.yaml -f tenants/ --dry-run
  titrate apply -f config/ --set prod --prune -m "acme moves to the larger plan"
  titrate get limits -o yaml | sed 's/600/1200/' | titrate apply -f -`

func newApply() *cobra.Command {
	var (
		c      connection
		output command.Format
		files  []string
		asked  planned
		plan   bool
		ask    quotav1.ApplyRequest
	)
	cmd := &cobra.Command{
		Use:     "apply -f FILE|DIR|-",
		Short:   "Create or replace what documents say, all or nothing",
		Long:    applyLong,
		Example: applyExample,
		Args:    command.FilesByFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			documents, err := readDocuments(cmd, files, asked.prune)
			if err != nil {
				return fmt.Errorf("nothing was applied:\n%w", err)
			}
			if ask.GetTakeOver() {
				dropEtags(documents)
			}
			return runApply(cmd, &c, output, documents, &ask, asked, plan)
		},
	}
	c.flags(cmd)
	output.Flag(cmd)
	command.FileFlag(cmd, &files, "file or directory of documents, - for standard input; may be repeated")
	_ = cmd.MarkFlagRequired("file")
	f := cmd.Flags()
	f.BoolVar(&ask.ValidateOnly, "dry-run", false, "ask the coordinator what would happen, and change nothing")
	f.BoolVar(&ask.Strict, "strict", false,
		"refuse an identity, a class or a cost that some gateway does not know, instead of warning")
	f.BoolVar(&ask.TakeOver, "overwrite", false,
		"apply also what somebody else changed since the documents were read, and what another set owns: etags and "+
			"owners do not count")
	setFlags(f, &ask, &asked.prune)
	f.BoolVar(&plan, "plan", false,
		"show the plan first, as titrate plan does, and apply only if all its guards are waived")
	asked.waiveFlag(f)
	f.Int64Var(&ask.ExpectedRevision, "if-revision", 0,
		"apply only if the configuration is at this revision (default any)")
	messageFlag(f, &ask.Message)
	requestFlag(f, &ask.RequestId)
	return cmd
}

func setFlags(f *pflag.FlagSet, ask *quotav1.ApplyRequest, prune *bool) {
	f.StringVar(&ask.Set, "set", "", "name of the set that owns the resources from now on")
	f.BoolVar(prune, "prune", false, "delete what --set owns and no document mentions, in the same transaction")
}

// messageFlag is -m.
func messageFlag(f *pflag.FlagSet, message *string) {
	f.StringVarP(message, "message", "m", "", "why; titrate history shows it")
}

// dropEtags lets documents be applied whatever is stored.
func dropEtags(documents []*document.Document) {
	for _, d := range documents {
		r := d.Resource.ProtoReflect()
		r.Clear(r.Descriptor().Fields().ByName("etag"))
	}
}

// maxApply is the most resources that the API takes at once.
const maxApply = 500_000

// maxApplyBytes is the largest request, below what a coordinator receives.
const maxApplyBytes = 60 << 20

// manyDocuments is the number from which on an apply says how far it is, and has as much more
// time as perDocument of each, unless --timeout is given.
const (
	manyDocuments = 10_000
	perDocument   = time.Millisecond
)

func runApply(cmd *cobra.Command, c *connection, output command.Format, documents []*document.Document,
	request *quotav1.ApplyRequest, asked planned, plan bool) error {
	client, err := asked.begin(cmd, c, documents, request)
	if err != nil {
		return err
	}
	defer client.close()
	if plan {
		w := cmd.OutOrStdout()
		if output != command.AsTable {
			w = cmd.ErrOrStderr()
		}
		if err := client.planFirst(cmd, w, request, documents, asked); err != nil {
			return err
		}
	}
	request.RequestId = cmp.Or(request.GetRequestId(), rand.Text())
	var response *quotav1.ApplyResponse
	err = during(cmd.ErrOrStderr(), len(documents), func() (err error) {
		response, err = client.Apply(cmd.Context(), request)
		return err
	})
	if err != nil {
		return applyError(err, documents)
	}
	for _, w := range response.GetWarnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", placed(w.GetField(), w.GetMessage(), documents))
	}
	if output == command.AsTable {
		return writeOutcomes(cmd.OutOrStdout(), documents, response, request.GetValidateOnly())
	}
	ms := make([]resource.Message, len(response.Resources))
	for i, r := range response.Resources {
		ms[i] = resource.Unwrap(r)
	}
	return writeResources(cmd.OutOrStdout(), output, ms)
}

// during does something that takes a while with many documents, and says so meanwhile.
func during(w io.Writer, documents int, do func() error) error {
	if documents < manyDocuments {
		return do()
	}
	began, done := time.Now(), make(chan struct{})
	var progress sync.WaitGroup
	progress.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			fmt.Fprintf(w, "applying %d documents in one step: %.0f s\n", documents, time.Since(began).Seconds())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	err := do()
	close(done)
	progress.Wait()
	return err
}

// progressEvery is the time between two lines about an apply of many documents.
const progressEvery = 5 * time.Second

func writeOutcomes(w io.Writer, documents []*document.Document, response *quotav1.ApplyResponse, dryRun bool) error {
	out, suffix := bufio.NewWriter(w), ""
	if dryRun {
		suffix = " (dry run)"
	}
	for i, r := range response.Resources {
		outcome := strings.ToLower(response.Outcomes[i].String())
		what := meant(documents[i].Resource, resource.Unwrap(r))
		fmt.Fprintf(out, "%s %s%s%s\n", resource.Name(r), outcome, suffix, what)
	}
	for _, name := range response.GetDeleted() {
		fmt.Fprintf(out, "%s deleted%s\n", name, suffix)
	}
	return out.Flush()
}

// meant says what a document means without saying it: the burst that it left out,
// and that a 0 blocks. It is "" for most.
func meant(given, stored resource.Message) string {
	var said []string
	switch given := given.(type) {
	case *quotav1.Limit:
		if l, is := stored.(*quotav1.Limit); is && given.GetQuota() == nil {
			said = append(said, meantBy(given, l)...)
		}
	case *quotav1.Override:
		if o, is := stored.(*quotav1.Override); is && given.GetAmount() == 0 {
			said = append(said, meantBy(given, o)...)
		}
	case *quotav1.Quota:
		if given.Max != nil && given.GetMax() == 0 {
			said = append(said, "blocks: every request of the tenant to the pool is refused at once")
		}
	}
	if len(said) == 0 {
		return ""
	}
	return ": " + strings.Join(said, "; ")
}

// meantBy says in words what the numbers of a limit or an override mean.
func meantBy(given, stored resource.Numbers) []string {
	switch {
	case resource.Blocks(given.GetRate()):
		return []string{"blocks: every request is refused at once"}
	case given.GetBurst() > 0 || given.GetConcurrency() > 0:
		return nil
	}
	return []string{fmt.Sprintf("burst %s, the amount of %s, since none is given", command.Number(stored.GetBurst()),
		stored.GetRate())}
}

// applyError leads what the coordinator refused back to file and line.
func applyError(err error, documents []*document.Document) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	var places []error
	advice := ""
	switch s.Code() {
	case codes.Aborted:
		advice = conflict
	case codes.PermissionDenied:
		advice = "\n" + s.Message()
	}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				places = append(places, placed(v.GetField(), v.GetDescription(), documents))
			}
		case *errdetails.ResourceInfo:
			for _, doc := range documents {
				if doc.Name() == d.GetResourceName() {
					places = append(places, refusedAt(doc, d.GetDescription())...)
				}
			}
		}
	}
	if len(places) == 0 {
		return worded(err) // no refusal: whether it was applied, the message says if it is known
	}
	return fmt.Errorf("nothing was applied:\n%w%s", errors.Join(places...), advice)
}

// refusedAt says why the coordinator refused a document: at the fields that name what does not exist, or else of the
// whole.
func refusedAt(doc *document.Document, why string) (places []error) {
	for _, r := range resource.References(doc.Resource) {
		for _, one := range missingIn(why) {
			if one.name == r.Name {
				places = append(places, doc.Wrong(r.Field, one.why))
			}
		}
	}
	if len(places) == 0 {
		places = []error{&document.Error{File: doc.File, Line: doc.Line, Message: doc.Name() + ": " + why}}
	}
	return places
}

// conflict says how to go on after an etag did not match.
const conflict = "\nSomebody changed it after this text was read. See what it is now with titrate get NAME -o yaml," +
	"\nand edit that; or apply this text all the same with --overwrite."

var resourceField = regexp.MustCompile(`^resources\[(\d+)\](?:\.[a-z]+\.?)?(.*)$`)

// placed finds the document and the field that resources[2].pool.capacity means.
func placed(field, message string, documents []*document.Document) error {
	if found := resourceField.FindStringSubmatch(field); found != nil {
		if i, err := strconv.Atoi(found[1]); err == nil && i < len(documents) {
			return documents[i].Wrong(found[2], message)
		}
	}
	return fmt.Errorf("%s: %s", field, message)
}
