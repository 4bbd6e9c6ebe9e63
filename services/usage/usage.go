// Package usage writes the use of calendar quotas for other programs: as JSON, one record a line, or as CloudEvents
// 1.0.
//
// # Invariants
//
// The ID of a record or an event is the same however often it is written, and differs from all others. A receiver
// that remembers IDs counts nothing twice.
package usage

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	quotav1 "github.com/titrate/titrate/proto/titrate/quota/v1alpha1"
)

// Types of events.
const (
	Ended   = "dev.titrate.usage.ended.v1"   // a period's final record
	Reached = "dev.titrate.usage.reached.v1" // the use has reached a threshold of the quota
)

// Event is a CloudEvent in JSON.
type Event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
}

// JSON returns a record on one line, with all fields. Equal records have equal text.
func JSON(u *quotav1.Usage) ([]byte, error) {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(u)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, text) // protojson spaces at random
	return out.Bytes(), err
}

// EventOfEnd returns the event of a final record.
func EventOfEnd(u *quotav1.Usage) (*Event, error) {
	return event(u, u.GetId(), Ended, u.GetEnds().AsTime())
}

// EventOfPart returns the event of a record that has reached a part of its amount.
func EventOfPart(u *quotav1.Usage, part float64, now time.Time) (*Event, error) {
	of := strconv.FormatFloat(part, 'f', -1, 64)
	e, err := event(u, u.GetId()+"-"+of, Reached, now)
	if err != nil {
		return nil, err
	}
	e.Data = append([]byte(`{"part":`+of+`,`), e.Data[1:]...)
	return e, nil
}

func event(u *quotav1.Usage, id, kind string, at time.Time) (*Event, error) {
	data, err := JSON(u)
	if err != nil {
		return nil, err
	}
	return &Event{SpecVersion: "1.0", ID: id, Source: "/titrate/" + u.GetLimit(), Type: kind, Subject: u.GetClient(),
		Time: at.UTC(), ContentType: "application/json", Data: data}, nil
}
