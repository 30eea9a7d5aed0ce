package verdict

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// page explains the differences: each in a table row that starts with its name, | `NAME` | ….
const page = "../../docs/contributors/judgements.md"

// differences returns the table rows of one section of the page, by case.
func differences(t *testing.T, section string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	rows := map[string]string{}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 {
			continue
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			name = strings.TrimSpace(name)
			if strings.HasPrefix(name, "`") {
				rows[strings.Trim(name, "`")] = strings.TrimSpace(cells[1])
			}
		}
	}
	return rows
}

// check fails for a difference that is not listed, and for a listed case without a difference.
func check(t *testing.T, listed map[string]string, name, theirs, expected, ours string) {
	t.Helper()
	row, isListed := listed[name]
	delete(listed, name)
	if text := problem(row, isListed, name, theirs, expected, ours); text != "" {
		t.Error(text)
	}
}

// problem describes the error in a case or in its row on the page, or returns "".
func problem(row string, isListed bool, name, theirs, expected, ours string) string {
	got := fmt.Sprintf("%s, %s", theirs, ours)
	switch {
	case ours == expected && isListed:
		return fmt.Sprintf("%s is listed as a difference, but the results are equal", name)
	case ours != expected && !isListed:
		return fmt.Sprintf("%s is a difference that %s does not list: %s", name, page, got)
	case ours != expected && row != got:
		return fmt.Sprintf("%s is listed as %q, but the results are %q", name, row, got)
	}
	return ""
}

// checkAll fails for rows about cases that do not exist.
func checkAll(t *testing.T, listed map[string]string) {
	t.Helper()
	for name := range listed {
		t.Errorf("%s lists %s, which is not a case", page, name)
	}
}
