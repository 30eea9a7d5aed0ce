package manifests

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	files = flag.Int("files", 1500, "number of generated files, without and with mistakes")
	seed  = flag.Int64("seed", 1, "seed of the generated files")
)

// lines is the program that answers one request per line.
const lines = "../../target/debug/examples/plan_lines"

// reader reads files as rollplan does.
type reader struct {
	in  io.Writer
	out *bufio.Reader
}

func startReader(t *testing.T) *reader {
	t.Helper()
	cmd := exec.Command(lines)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v\nbuild it first: cargo build --profile test --example plan_lines", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &reader{in, bufio.NewReaderSize(out, 1<<20)}
}

// documents returns the documents of a file, or the error.
func (r *reader) documents(t *testing.T, text []byte) ([]string, string) {
	t.Helper()
	// As numbers: any file can be sent, and base64 is the default for a slice of bytes.
	numbers := make([]int, len(text))
	for i, b := range text {
		numbers[i] = int(b)
	}
	request, err := json.Marshal(map[string]any{"bytes": numbers})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(r.in, "ReadDocuments %s\n", request); err != nil {
		t.Fatal(err)
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Documents []string
		Error     string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Documents, answer.Error
}

// equal compares documents as values, numbers as doubles.
func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if json.Unmarshal([]byte(a[i]), &x) != nil || json.Unmarshal([]byte(b[i]), &y) != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// readsMore are messages of kubectl about files that rollplan reads. None of them can mean something else: go-yaml refuses tabs,
// documents that begin with their end (...), and some names of anchors, which YAML 1.2 allows.
var readsMore = []string{
	"found character that cannot start any token", "found a tab character", "did not find expected node content",
	"did not find expected alphabetic or numeric character", "did not find expected whitespace or line break",
	"did not find expected ',' or '}'",
}

// readsLess are messages of rollplan about files that kubectl reads, and that only mistakes lead to: kubectl ignores text after the
// end of a document that is a flow collection or a quoted scalar, and values that are replaced by another one for the same key.
var readsLess = []string{
	"comment intercepting the multiline text", "misplaced bracket", "invalid trailing content", "comments must be separated",
	"did not find expected whitespace", "infinity and NaN are not numbers", "invalid number", "expected value", "key must be a string",
	"expected ident", "trailing characters", "simple key expected", "must be a string: put it in quotes",
}

// mistaken matches files that mistakes lead to, and that rollplan reads: go-yaml reads the first separator as a string if a comment
// follows without a space, and two byte order marks are none for it.
var mistaken = regexp.MustCompile(`^---#|\x{feff}\s*\x{feff}`)

func isOne(message string, of []string) bool {
	for _, it := range of {
		if strings.Contains(message, it) {
			return true
		}
	}
	return false
}

// compare reads a file in both ways. It returns a description of the difference.
func compare(t *testing.T, r *reader, text []byte, isMistaken bool) string {
	t.Helper()
	theirs, err := documents(text)
	ours, refusal := r.documents(t, text)
	switch {
	case err != nil && refusal != "", err == nil && refusal == "" && equal(theirs, ours):
		return ""
	case isMistaken && mistaken.Match(text):
		return ""
	case err == nil && refusal != "":
		if isOne(refusal, readsLess) && (isMistaken || strings.Contains(refusal, "infinity and NaN")) {
			return ""
		}
		return fmt.Sprintf("kubectl reads %q, and rollplan refuses it: %s", theirs, refusal)
	case err != nil:
		// After a JSON object, the message is about JSON, and a rest of less than four bytes is not read as YAML.
		of := err.Error()
		if isOne(of, readsMore) || strings.HasPrefix(of, "json:") && (len(text) < 16 || strings.ContainsAny(string(text), "\t.")) {
			return ""
		}
		return fmt.Sprintf("kubectl refuses it, and rollplan reads %q: %v", ours, err)
	}
	return fmt.Sprintf("kubectl reads %q, and rollplan %q", theirs, ours)
}

func TestFilesAreReadAsByKubectl(t *testing.T) {
	r := startReader(t)
	for i := range *files {
		for _, isMistaken := range []bool{false, true} {
			g := &generator{Rand: rand.New(rand.NewSource(*seed*1_000_003 + int64(i)))}
			text := g.file()
			if isMistaken {
				text = g.mutate(text)
			}
			if difference := compare(t, r, []byte(text), isMistaken); difference != "" {
				t.Errorf("file %d, with a mistake: %v\n%s\n%q\n%s", i, isMistaken, text, text, difference)
			}
		}
	}
}

// Files that people reported, and others of their kinds.
func TestUnusualFilesAreReadAsByKubectl(t *testing.T) {
	r := startReader(t)
	for _, text := range []string{
		"args: [\n  \"-a\",\n]\n", "args: {\n  a: b\n}\n", "a:\n- b: [\n  c ]\n", "args: [\n\t\"-a\",\n\t\"-b\"\n]\nb: c\n",
		"k: 'one\n  two'\n", "data:\n  k: 'one\n  two'\n", "data:\n  k: \"one\n\n  two\"\n",
		"k: one\nk: two\n", "k: {a: 1}\nk: {b: 2}\n", "k:\tv\n", "-\tv\n", "\tk: v\n",
		"--- {a: b}\n", "--- # c\na: b\n", "---foo\n", "--- |\n  a\n", "----\n", "a: b\n---\n---\nc: d\n", "a: b\n...\nc: d\n", "%YAML 1.1\n---\na: b\n",
		"{a: b}\n", "{\"a\": 1}{\"b\": 2}", "{\"a\": 1}\n---\nb: 2\n", "{\"a\": 1}\n{\"b\": 2}\n---\nc: 3\n", "# c\n{\n\t\"a\": 1\n}\n",
		"a: &a {b: 1}\nc:\n  <<: *a\n  d: 2\n", "a: &a {b: 1}\nc: {b: 2, <<: *a}\n", "a: *b\n", "<<: 1\n",
		"a: yes\nb: 0644\nc: 0o17\nd: 1_000\ne: 1e3\nf: 1.10\ng: 12:30\nh: ~\n", "1.10: a\nyes: b\n0x10: c\n", "~: a\n",
		"\ufeffa: b\n", "\xff\xfea\x00:\x00 \x00b\x00\n\x00", "\xfe\xff\x00a\x00:\x00 \x00b\x00\n", "a: b # \xe9\n", "a: b\r\nc: |\r\n  d\r\n", "a: |\n  b", "a: b",
		"a: b: c\n", "a: : :\n", "a: 'b\n", "a: {{ .Values.x }}\n", "{{- if .x }}\na: b\n{{- end }}\n", "", "\n", "# c\n", "null\n",
		"a: \"\\/\"\n", "a: \"\\ud83d\\ude00\"\n", "{\"a\": \"\\/\\ud83d\\ude00\"}", "a: \x01\n", "- a\n- b\n", "[1, 2]\n",
		"a: [tar, -]\n", "a: [2001:db8::, ::1, b:]\n", "a: {b:, c: d}\n", "a: [b: c, d :, e: ]\n", "...\na: b\n",
	} {
		if difference := compare(t, r, []byte(text), false); difference != "" {
			t.Errorf("%q: %s", text, difference)
		}
	}
}

var directory = flag.String("directory", "../../examples", "directory whose files are read")

// Files that other people wrote. By default, those of the examples.
func TestFilesOfDirectoryAreReadAsByKubectl(t *testing.T) {
	r := startReader(t)
	count := 0
	err := filepath.WalkDir(*directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count++
		if difference := compare(t, r, text, false); difference != "" {
			t.Errorf("%s: %.600s", path, difference)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Fatalf("%d files in %s: %v", count, *directory, err)
	}
	t.Logf("%d files", count)
}
