package manifests

import (
	"math/rand"
	"strings"
)

// generator writes random files: YAML in the layouts that people and tools use, and JSON.
type generator struct {
	*rand.Rand
	// anchors are the names of the anchors in the document so far.
	anchors []string
}

// pick returns one of the texts.
func (g *generator) pick(s ...string) string { return s[g.Intn(len(s))] }

// p is true with a probability in percent.
func (g *generator) p(percent int) bool { return g.Intn(100) < percent }

// file writes a file with some documents.
func (g *generator) file() string {
	var b strings.Builder
	if g.p(2) {
		b.WriteString("\ufeff")
	}
	if g.p(15) {
		b.WriteString(g.pick("---\n", "--- # comment\n", "# comment\n---\n", "---  \n", "\n\n", "# c\n\n", "---\t\n", "---\n---\n",
			"%YAML 1.1\n---\n", "--- {a: b}\n", "---foo\n", "----\n", "--- |\n"))
	}
	for i := 1 + g.Intn(4)*g.Intn(2); i > 0; i-- {
		g.anchors = nil
		switch {
		case g.p(8):
			b.WriteString(g.json(0) + g.pick("\n", "\n\n", "  \n"))
		case g.p(4):
			b.WriteString(g.pick("", "# only a comment\n", "null\n", "~\n", "\n", "[]\n", "{}\n"))
		default:
			b.WriteString(g.blockMap(0, 0))
		}
		if i > 1 {
			b.WriteString(g.pick("---\n", "---\n", "---\n", "--- # x\n", "---\n# y\n", "---\n---\n", "...\n---\n", "---\n\n", "--- \n",
				"...\n", "---a\n", "--- a: b\n"))
		}
	}
	text := b.String()
	if g.p(4) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if g.p(4) {
		text = strings.TrimRight(text, "\n")
	}
	return text
}

// mutate makes a change in a text that is probably a mistake.
func (g *generator) mutate(text string) string {
	if text == "" {
		return text
	}
	r := []rune(text)
	at := g.Intn(len(r))
	lines := strings.Split(text, "\n")
	line := g.Intn(len(lines))
	switch g.Intn(5) {
	case 0: // delete a character
		return string(r[:at]) + string(r[at+1:])
	case 1: // insert a piece
		piece := g.pick(" ", "  ", "\n", ":", ": ", "-", "- ", "#", " #", "'", "\"", "{", "}", "[", "]", ",", "&a ", "*a ", "|", ">",
			"%", "@", "`", "<<", "~", "\\", "é", "=", "0", "e")
		return string(r[:at]) + piece + string(r[at:])
	case 2: // change the indentation of a line
		if g.p(50) {
			lines[line] = g.pick(" ", "  ") + lines[line]
		} else {
			lines[line] = strings.TrimPrefix(lines[line], g.pick(" ", "  ", "    "))
		}
	case 3: // remove a line
		lines = append(lines[:line:line], lines[line+1:]...)
	default: // repeat a line
		lines = append(lines[:line+1:line+1], lines[line:]...)
	}
	return strings.Join(lines, "\n")
}

// space writes what separates a key from its value.
func (g *generator) space() string {
	return g.pick(" ", " ", " ", " ", "  ", "\t", " \t", "   ")
}

func (g *generator) comment() string {
	if g.p(94) {
		return ""
	}
	return g.pick(" # comment", "  #", "\t# tab", " # a: b", " #x")
}

func (g *generator) key() string {
	return g.pick("name", "kind", "data", "k", "a", "b", "metadata", "spec", "apiVersion", "app.kubernetes.io/name", "a-b", "a b", "x_y",
		"'quoted'", "\"double\"", "1", "1.10", "true", "yes", "on", "y", "0x10", "-1", "a:b", "=", "'a: b'", "é", "env", "args", "image",
		"\"\\u00e9\"", "n", "007", "1e3", ".5", "2001-01-01", "a#b", "''", "1000000.0")
}

// scalar writes a plain or tagged scalar.
func (g *generator) scalar() string {
	return g.pick("a", "web", "nginx:1.25", "registry.example/x:1", "1", "0", "-1", "+1", "0644", "0o644", "0b101", "0x1F", "1_000",
		"1e3", "1.5", ".5", "1.", "08", "1:30", "12:30:45", "yes", "no", "on", "off", "y", "n", "true", "True", "TRUE", "false", "null",
		"~", "Null", ".inf", ".nan", "2001-12-14", "2001-12-14t21:59:43.10-05:00", "1e999", "9223372036854775807",
		"9223372036854775808", "18446744073709551616", "-9223372036854775809", "1.0", "100m", "1Gi", "50%", "--", "a b c", "a#b", "=",
		"$(VAR)", "a'b", "it''s", "c:\\d", "0x", "+", "-.5", "._", "_1", "1__0", "0_7", "-0x10", "+.inf", "é", "0b2", "0o8", "1e+3",
		"1E-2", "123456789012345678901234567890", "0.1", "1.10", "-0", "-0.0", "1e21", "1e20", "5e-324", "!!str 5", "!!int 5", "!!int x",
		"!!float 5", "!!bool yes", "!!null ~", "!!binary aGk=", "! 5", "!foo bar")
}

// blockOnly writes a plain scalar that flow collections do not allow, or that is not allowed at all.
func (g *generator) blockOnly() string {
	return g.pick("", "", "a, b", "http://x/y?z=1", "[a", "-a", "?a", ":a", "a:", "x: y", "@x", "`x`", "%x", "*x", "{{ .Values.x }}", "a\tb",
		"- a", "a {b}")
}

// quoted writes a quoted scalar, perhaps with several lines.
func (g *generator) quoted(indent int) string {
	pad := strings.Repeat(" ", indent)
	words := []string{g.pick("one", "", "a: b", "# no", "x")}
	for k := g.Intn(3); k > 0; k-- {
		words = append(words, g.pick(" ", " ", "\n"+pad+"  ", "\n"+pad, "\n"+pad+" ", "\n\n"+pad+"  ", " \n"+pad+"\t", "\n"))
		words = append(words, g.pick("two", "three", "x - x", "k: v", "c"))
	}
	s := strings.Join(words, "")
	if g.p(50) {
		return "'" + s + g.pick("", "", "''", "\\n") + "'"
	}
	return "\"" + s + g.pick("", "", "\\n", "\\t", "\\\"", "\\\\", "\\x41", "\\u00e9", "\\U0001F600", "\\e", "\\_", "\\N", "\\L", "\\0", "\\q",
		"\\/", "\\ud83d\\ude00", "\\\n"+pad+"  z", "\\ ", "\\a") + "\""
}

// plainLines writes a plain scalar with several lines.
func (g *generator) plainLines(indent int) string {
	pad := strings.Repeat(" ", indent)
	return "one" + g.pick("\n"+pad+"  two", "\n"+pad+" two", "\n\n"+pad+"  two", "\n"+pad+"  two # c", "\n"+pad+"  - two", " two", "\n"+pad+"  k: v")
}

// block writes a literal or folded scalar.
func (g *generator) block(indent int) string {
	pad := strings.Repeat(" ", indent+1+g.Intn(3))
	var b strings.Builder
	b.WriteString(g.pick("|", "|", ">", "|-", ">-", "|+", ">+", "| # c", "|\t", "|9", "|0", "|x") + "\n" + pad + "first\n")
	for k := g.Intn(5); k > 0; k-- {
		b.WriteString(g.pick(pad+"text\n", pad+"  more\n", "\n", pad+"# not a comment\n", pad+"\ttab\n", pad+"a: b\n", pad+"- x\n",
			pad+"trail  \n", pad+"\n", pad+"---\n", pad+" \n"))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// properties writes anchors and tags.
func (g *generator) properties() string {
	s := ""
	if g.p(4) {
		anchor := g.pick("a", "b", "x-1")
		g.anchors = append(g.anchors, anchor)
		s += "&" + anchor + " "
	}
	if g.p(1) {
		s += g.pick("!!map ", "!!seq ", "!foo ", "!!str ", "!!set ")
	}
	return s
}

// value writes what follows the colon of a key or the dash of an item, with the line break at its end.
func (g *generator) value(indent, depth int, space string) string {
	if g.p(4) && len(g.anchors) > 0 {
		return space + "*" + g.anchors[g.Intn(len(g.anchors))] + g.comment() + "\n"
	}
	properties := g.properties()
	on := func(text string) string { return space + properties + text }
	switch x := g.Intn(100); {
	case x < 35 || depth > 3:
		return on(g.scalar()) + g.comment() + "\n"
	case x < 38:
		return space + g.blockOnly() + g.comment() + "\n"
	case x < 48:
		return on(g.quoted(indent)) + g.comment() + "\n"
	case x < 53:
		return on(g.plainLines(indent)) + "\n"
	case x < 58:
		return on(g.block(indent)) + "\n"
	case x < 71:
		return on(g.flow(indent, depth)) + g.comment() + "\n"
	case x < 86:
		return strings.TrimRight(" "+properties, " ") + g.comment() + "\n" + g.blockMap(indent+1+g.Intn(3), depth+1)
	default:
		return strings.TrimRight(" "+properties, " ") + g.comment() + "\n" + g.blockList(indent+g.Intn(3), depth+1)
	}
}

func (g *generator) blockMap(indent, depth int) string {
	var b strings.Builder
	pad := strings.Repeat(" ", indent)
	for k := 1 + g.Intn(4); k > 0; k-- {
		if g.p(3) {
			b.WriteString(g.pick("\n", pad+"# c\n", "# c\n", "   \n"))
		}
		if g.p(2) && len(g.anchors) > 0 {
			anchor := "*" + g.anchors[0]
			b.WriteString(pad + "<<: " + g.pick(anchor, "["+anchor+"]", "{a: 2}", "[{a: 1}, {a: 2, b: 3}]", "1", "*nope") + "\n")
			continue
		}
		b.WriteString(pad + g.key() + g.pick(":", ":", ":", ":", ":", ":", " :") + g.value(indent, depth, g.space()))
	}
	return b.String()
}

func (g *generator) blockList(indent, depth int) string {
	var b strings.Builder
	pad := strings.Repeat(" ", indent)
	for k := 1 + g.Intn(3); k > 0; k-- {
		gap := strings.Repeat(" ", 1+g.Intn(2))
		inner := g.blockMap(indent+1+len(gap), depth+1)
		if trimmed := strings.TrimLeft(inner, " "); g.p(40) && depth < 4 && !strings.HasPrefix(trimmed, "\n") && !strings.HasPrefix(trimmed, "#") {
			b.WriteString(pad + "-" + gap + trimmed)
			continue
		}
		b.WriteString(pad + "-" + g.value(indent, depth, gap))
	}
	return b.String()
}

// flow writes a list or map on one line, or on several with any indentation.
func (g *generator) flow(indent, depth int) string {
	pad := strings.Repeat(" ", indent)
	hasLines, tab := g.p(40), g.p(20)
	gap := func() string {
		switch {
		case !hasLines:
			return g.pick("", "", " ")
		case tab:
			return "\n" + pad + "\t"
		}
		return g.pick("", " ", "\n"+pad+"  ", "\n"+pad, "\n"+pad+" ", " # c\n"+pad+"  ", "\n\n"+pad+"  ")
	}
	item := func() string {
		switch x := g.Intn(10); {
		case x < 2 && depth < 3:
			return g.flow(indent, depth+1)
		case x == 3:
			return g.quoted(indent)
		case x == 4:
			return "\"" + g.pick("a", "-a", "x y", "1", "a?b") + "\""
		}
		return g.pick("a", "b c", "1", "\"x\"", "nginx:1.25", "yes", "~", "-v", "--log=1", "0644", "50%", "1.5")
	}
	opening, closing := "[", "]"
	if g.p(50) {
		opening, closing = "{", "}"
	}
	var b strings.Builder
	b.WriteString(opening + gap())
	n := g.Intn(4)
	for i := 0; i < n; i++ {
		if opening == "{" {
			b.WriteString(g.pick("a", "b", "name", "\"c\"", "'d e'", "1", "yes", "x-y") + ":" + g.pick(" ", " ", " ", "  "))
		}
		b.WriteString(item())
		if hasLines && tab {
			b.WriteString("")
		} else {
			b.WriteString(gap())
		}
		if i < n-1 || g.p(30) {
			b.WriteString("," + gap())
		}
	}
	return b.String() + closing
}

// json writes a JSON object.
func (g *generator) json(depth int) string {
	if depth > 2 || depth > 0 && g.p(50) {
		return g.pick("1", "\"a\"", "true", "null", "1.5", "1e3", "-1", "\"\\ud83d\\ude00\"", "\"a\\nb\"", "[]", "{}", "\"\\/\"", "0", "\"é\"")
	}
	space := func() string { return g.pick("", "", " ", "\n", "\n\t", "\n  ") }
	var items []string
	if depth > 0 && g.p(40) {
		for k := g.Intn(3); k > 0; k-- {
			items = append(items, g.json(depth+1))
		}
		return "[" + space() + strings.Join(items, ","+space()) + space() + "]"
	}
	for _, key := range []string{"a", "b", "kind"}[:g.Intn(4)] {
		items = append(items, "\""+key+"\":"+space()+g.json(depth+1))
	}
	return "{" + space() + strings.Join(items, ","+space()) + space() + "}"
}
