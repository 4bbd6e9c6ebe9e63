package coordinator

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
	"github.com/titrate/titrate/services/coordinator/booking"
	"github.com/titrate/titrate/services/coordinator/election"
	"github.com/titrate/titrate/services/coordinator/webhook"
	"github.com/titrate/titrate/services/usage"
)

// defaultPage and maxPage are how many uses a page has.
const defaultPage, maxPage = 100, 1000

var errPage = status.Error(codes.InvalidArgument, "page_token: not one of an answer")

// Usage returns a page of the use of calendar quotas.
func (l *live) Usage(r *quotav1.ListUsageRequest) (*quotav1.ListUsageResponse, error) {
	state, _ := l.coordinator.elector.State()
	if state.Role == election.Following {
		return nil, l.askLeader(state.Leader)
	}
	if s := state.Sharing; s != nil && !s.Chairs() {
		return nil, l.askLeader(s.ChairAddress())
	}
	after, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil {
		return nil, errPage
	}
	s := booking.Selection{Limit: r.GetLimit(), Client: r.GetClient(), Period: r.GetPeriod()}
	if s.Tenant = strings.TrimPrefix(r.GetParent(), "tenants/"); s.Tenant == "*" {
		s.Tenant = ""
	}
	most := min(cmp.Or(max(int(r.GetPageSize()), 0), defaultPage), maxPage)
	all, next, err := l.coordinator.ledger.List(s, most, string(after))
	switch {
	case errors.Is(err, booking.ErrPlace):
		return nil, errPage
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	out := &quotav1.ListUsageResponse{NextPageToken: base64.RawURLEncoding.EncodeToString([]byte(next))}
	for _, u := range all {
		out.Usage = append(out.Usage, usageOf(&u))
	}
	return out, nil
}

// usageOf is a use as callers see it.
func usageOf(u *booking.Usage) *quotav1.Usage {
	out := &quotav1.Usage{Id: u.ID, Limit: "tenants/" + u.Tenant + "/limits/" + u.Limit,
		Client: strings.ToValidUTF8(u.Client, "\uFFFD"), Period: u.Period, // a client may choose any bytes
		Begins: timestamppb.New(u.Begins), Ends: timestamppb.New(u.Ends), Amount: u.Amount.Cost(),
		Admitted: u.Admitted.Cost(), Refused: u.Refused.Cost(), Settled: u.Settled.Cost(), Booked: u.Booked.Cost(),
		Final: u.Final, Lost: u.Lost}
	if u.Reset != 0 {
		out.ResetTime = timestamppb.New(u.Reset.Time())
	}
	return out
}

// terms returns the terms of a key. Thresholds are for the webhook alone.
func (o *Coordinator) terms(k booking.Key) (booking.Terms, bool) {
	out, configured := o.configuration.Terms(k)
	if o.webhook == nil {
		out.Soft = nil
	}
	return out, configured
}

// thresholds returns the events of thresholds that were reached and not delivered.
func (o *Coordinator) thresholds(most int) (out []webhook.Event) {
	for _, r := range o.ledger.Reached(most) {
		event, err := usage.EventOfPart(usageOf(&r.Usage), r.Part, time.Now())
		var body []byte
		if err == nil {
			body, err = json.Marshal(event)
		}
		if err != nil { // all of it is valid text
			o.log.Error("a usage event cannot be written", "limit", r.Limit, "error", err)
			continue
		}
		out = append(out, webhook.Event{ID: event.ID, Body: body, Delivered: func() { o.ledger.Delivered(r) }})
	}
	return out
}
