package workloads

import (
	"fmt"
	"os"
	"strings"
)

// ReplaceSection replaces a section of a document, which a stage of tests/run writes.
func ReplaceSection(path, section, stage, text string) error {
	begin := fmt.Sprintf("<!-- %s: written by bash tests/run %s -->\n", section, stage)
	end := fmt.Sprintf("<!-- %s ends -->\n", section)
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(document), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s: the begin or end marker of the section is missing", path)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
