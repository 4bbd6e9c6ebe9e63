package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/titrate/titrate/services/store/resource"
)

// WriteYAML writes resources as documents parted by --- lines.
func WriteYAML(w io.Writer, ms ...resource.Message) error { return writeAll(&Writer{to: w}, ms) }

// WriteJSON writes one resource as a document, several or none as a list.
func WriteJSON(w io.Writer, ms ...resource.Message) error {
	return writeAll(&Writer{to: w, json: true}, ms)
}

func writeAll(w *Writer, ms []resource.Message) error {
	for _, m := range ms {
		if err := w.Write(m); err != nil {
			return err
		}
	}
	return w.Close()
}

// Writer writes resources one after the other, as WriteYAML or WriteJSON do, and holds one of them
// at most. Not safe for concurrent use.
type Writer struct {
	to    io.Writer
	json  bool
	count int
	first *yaml.Node // of JSON, until it is known whether it is the only one
}

// NewWriter writes YAML or JSON to w. Close ends it.
func NewWriter(w io.Writer, json bool) *Writer { return &Writer{to: w, json: json} }

// Count returns the number of written resources.
func (w *Writer) Count() int { return w.count }

// Write writes a resource.
func (w *Writer) Write(m resource.Message) error {
	w.count++
	var err error
	switch tree := asTree(m); {
	case !w.json:
		err = w.document(tree)
	case w.count == 1:
		w.first = tree
	case w.count == 2:
		err = errors.Join(w.element("[\n  ", w.first), w.element(",\n  ", tree))
	default:
		err = w.element(",\n  ", tree)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.GetName(), err)
	}
	return nil
}

// document writes a YAML document. An encoder for all would keep all of them in memory.
func (w *Writer) document(tree *yaml.Node) error {
	if w.count > 1 {
		if _, err := io.WriteString(w.to, "---\n"); err != nil {
			return err
		}
	}
	encoder := yaml.NewEncoder(w.to)
	encoder.SetIndent(2)
	return errors.Join(encoder.Encode(tree), encoder.Close())
}

// element writes an element of a JSON list, and what stands before it.
func (w *Writer) element(before string, tree *yaml.Node) error {
	var b bytes.Buffer
	writeJSON(&b, tree)
	out := bytes.NewBufferString(before)
	if err := json.Indent(out, b.Bytes(), "  ", "  "); err != nil {
		return err
	}
	_, err := w.to.Write(out.Bytes())
	return err
}

// Close ends what is written.
func (w *Writer) Close() error {
	end := ""
	switch {
	case w.json && w.count == 1:
		return indented(w.to, w.first)
	case w.json && w.count == 0:
		end = "[]\n"
	case w.json:
		end = "\n]\n"
	}
	_, err := io.WriteString(w.to, end)
	return err
}

// asTree lays a resource out as a document.
func asTree(m resource.Message) *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	add(root, "apiVersion", text(APIVersion))
	add(root, "kind", text(resource.KindOf(m).String()))
	add(root, "name", text(m.GetName()))
	spec, status := &yaml.Node{Kind: yaml.MappingNode}, &yaml.Node{Kind: yaml.MappingNode}
	layOut(spec, m.ProtoReflect(), true)
	if f := m.ProtoReflect().Descriptor().Fields().ByName("status"); f != nil && m.ProtoReflect().Has(f) {
		layOut(status, m.ProtoReflect().Get(f).Message(), false)
	}
	if m.GetEtag() != "" {
		add(status, "etag", text(m.GetEtag()))
	}
	if m.GetSet() != "" {
		add(status, "set", text(m.GetSet()))
	}
	if m.GetUpdateTime() != nil {
		add(status, "updateTime", valueNode(nil, protoreflect.ValueOfMessage(m.GetUpdateTime().ProtoReflect())))
	}
	add(root, "spec", spec)
	if len(status.Content) > 0 {
		add(root, "status", status)
	}
	return root
}

func add(n *yaml.Node, key string, value *yaml.Node) {
	n.Content = append(n.Content, text(key), value)
}

// text quotes what holds more than printable characters, for the YAML writer's block style loses a leading newline. It
// also quotes what is a truth value to the readers of YAML 1.1 among our users' tools (OFF).
func text(s string) *yaml.Node {
	n := plain("!!str", s)
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || oldBool[strings.ToLower(s)] {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

var oldBool = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// layOut adds the fields that are set, in the order of the .proto.
func layOut(n *yaml.Node, m protoreflect.Message, top bool) {
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		if !m.Has(d) || top && beside[d.Name()] {
			continue
		}
		if !d.IsList() {
			add(n, d.JSONName(), valueNode(d, m.Get(d)))
			continue
		}
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for j := range m.Get(d).List().Len() {
			list.Content = append(list.Content, valueNode(d, m.Get(d).List().Get(j)))
		}
		add(n, d.JSONName(), list)
	}
}

// valueNode lays out one value; d is nil for a message.
func valueNode(d protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		return messageNode(x)
	case protoreflect.EnumNumber:
		if e := d.Enum().Values().ByNumber(x); e != nil {
			return text(string(e.Name()))
		}
		return plain("!!int", strconv.Itoa(int(x)))
	case string:
		return text(x)
	case bool:
		return plain("!!bool", strconv.FormatBool(x))
	case float64:
		return number(x)
	default:
		return plain("!!int", fmt.Sprint(x))
	}
}

func messageNode(m protoreflect.Message) *yaml.Node {
	switch x := m.Interface().(type) {
	case *durationpb.Duration:
		return text(x.AsDuration().String())
	case *timestamppb.Timestamp:
		return text(x.AsTime().UTC().Format(time.RFC3339Nano))
	case proto.Message:
		n := &yaml.Node{Kind: yaml.MappingNode}
		layOut(n, m, false)
		return n
	}
	return plain("!!null", "null")
}

func plain(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// number writes without exponent what people write without.
func number(x float64) *yaml.Node {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return text(strconv.FormatFloat(x, 'g', -1, 64)) // JSON has no such number
	}
	format := byte('g')
	if a := math.Abs(x); a == 0 || a >= 1e-6 && a < 1e15 {
		format = 'f'
	}
	s := strconv.FormatFloat(x, format, -1, 64)
	if x == math.Trunc(x) && format == 'f' {
		return plain("!!int", s)
	}
	return plain("!!float", s)
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) {
	switch {
	case n.Kind == yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			comma(b, i)
			writeJSON(b, n.Content[i])
			b.WriteByte(':')
			writeJSON(b, n.Content[i+1])
		}
		b.WriteByte('}')
	case n.Kind == yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			comma(b, i)
			writeJSON(b, item)
		}
		b.WriteByte(']')
	case n.ShortTag() == "!!str":
		quote(b, n.Value)
	default:
		b.WriteString(n.Value)
	}
}

// quote writes JSON that is YAML too: control characters that JSON takes as they are, such as DEL, are escaped.
func quote(b *bytes.Buffer, s string) {
	quoted, _ := json.Marshal(s) // of a string never fails
	for _, r := range string(quoted) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	}
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// MessageYAML writes any message in the manner of a document's spec: all fields
// that are set, durations and enumerations as people write them.
func MessageYAML(w io.Writer, m proto.Message) error {
	n := &yaml.Node{Kind: yaml.MappingNode}
	layOut(n, m.ProtoReflect(), false)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(n); err != nil {
		return err
	}
	return encoder.Close()
}

// MessageJSON is MessageYAML in JSON.
func MessageJSON(w io.Writer, m proto.Message) error {
	n := &yaml.Node{Kind: yaml.MappingNode}
	layOut(n, m.ProtoReflect(), false)
	return indented(w, n)
}

func indented(w io.Writer, n *yaml.Node) error {
	var b, out bytes.Buffer
	writeJSON(&b, n)
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}
