package tree

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// flow reads the part of YAML that programs write in lists of many documents. Each document is a mapping {…} in one
// line, without comments, escapes and texts of several words; a line --- is between two. It makes the nodes that the
// YAML reader makes, in a tenth of the time. It returns false for anything else, which the YAML reader must read.
func flow(data []byte) (all []*yaml.Node, ok bool) {
	f := &flowReader{}
	open, marked := true, false // there is no document since the last ---; there was one
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		f.line++
		switch {
		case len(line) == 0:
		case string(line) == "---" && !marked:
			open, marked = true, true
		case line[0] != '{' || !open:
			return nil, false
		default:
			open, marked = false, false
			f.text, f.at = line, 0
			root := f.value(0)
			if f.blanks(); root == nil || f.at < len(line) {
				return nil, false
			}
			all = append(all, root)
		}
	}
	return all, !marked
}

// flowReader reads one line.
type flowReader struct {
	text     []byte
	at, line int
	free     []yaml.Node // allocated together
}

// Nesting and texts are as deep and as long as a document of ours needs; YAML allows keys of 1024 bytes.
const flowDepth, flowText = 16, 512

func (f *flowReader) node(kind yaml.Kind, style yaml.Style, tag string) *yaml.Node {
	if len(f.free) == 0 {
		f.free = make([]yaml.Node, 64)
	}
	n := &f.free[0]
	f.free = f.free[1:]
	n.Kind, n.Style, n.Tag, n.Line, n.Column = kind, style, tag, f.line, f.at+1
	return n
}

func (f *flowReader) blanks() {
	for f.at < len(f.text) && f.text[f.at] == ' ' {
		f.at++
	}
}

// next takes a byte, if it is the next one.
func (f *flowReader) next(b byte) bool {
	if f.at < len(f.text) && f.text[f.at] == b {
		f.at++
		return true
	}
	return false
}

// value reads a value, nil if flow does not read it.
func (f *flowReader) value(depth int) *yaml.Node {
	if f.at == len(f.text) || depth > flowDepth {
		return nil
	}
	switch f.text[f.at] {
	case '{':
		n := f.node(yaml.MappingNode, yaml.FlowStyle, "!!map")
		return f.items(n, '}', func() bool { return f.entry(n, depth) })
	case '[':
		n := f.node(yaml.SequenceNode, yaml.FlowStyle, "!!seq")
		return f.items(n, ']', func() bool { return f.add(n, f.value(depth+1)) })
	case '"':
		return f.quoted()
	}
	return f.plain()
}

// items reads what stands between an opening and a closing bracket, parted by commas.
func (f *flowReader) items(n *yaml.Node, closing byte, item func() bool) *yaml.Node {
	f.at++
	f.blanks()
	for first := true; !f.next(closing); first = false {
		if !first {
			if !f.next(',') {
				return nil
			}
			f.blanks()
		}
		if !item() {
			return nil
		}
		f.blanks()
	}
	return n
}

func (f *flowReader) add(n, item *yaml.Node) bool {
	n.Content = append(n.Content, item)
	return item != nil
}

// entry reads a key and its value.
func (f *flowReader) entry(n *yaml.Node, depth int) bool {
	if n.Content == nil {
		n.Content = make([]*yaml.Node, 0, 8)
	}
	quoted := f.at < len(f.text) && f.text[f.at] == '"'
	var key *yaml.Node
	if quoted {
		key = f.quoted()
	} else {
		key = f.plain()
	}
	if key == nil || !f.next(':') || !quoted && (f.at == len(f.text) || f.text[f.at] != ' ') {
		return false
	}
	f.blanks()
	return f.add(n, key) && f.add(n, f.value(depth+1))
}

// quoted reads a text in quotes of printable ASCII, without escapes.
func (f *flowReader) quoted() *yaml.Node {
	n := f.node(yaml.ScalarNode, yaml.DoubleQuotedStyle, "!!str")
	from := f.at + 1
	for f.at = from; f.at < len(f.text) && f.at-from < flowText; f.at++ {
		switch b := f.text[f.at]; {
		case b == '"':
			n.Value = string(f.text[from:f.at])
			f.at++
			return n
		case b < ' ' || b > '~' || b == '\\':
			return nil
		}
	}
	return nil
}

// plain reads a word without quotes: it begins with a letter or a digit, and a colon in it stands before one.
func (f *flowReader) plain() *yaml.Node {
	n := f.node(yaml.ScalarNode, 0, "")
	from := f.at
	for f.at < len(f.text) && f.at-from < flowText && f.inWord(f.at > from) {
		f.at++
	}
	if f.at == from || f.at-from == flowText {
		return nil
	}
	n.Value = string(f.text[from:f.at])
	n.Tag = n.ShortTag()
	return n
}

func (f *flowReader) inWord(inside bool) bool {
	b := f.text[f.at]
	switch {
	case alphanumeric(b):
		return true
	case b == ':':
		return inside && f.at+1 < len(f.text) && alphanumeric(f.text[f.at+1])
	}
	return inside && bytes.IndexByte([]byte("-_./@%+~"), b) >= 0
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
