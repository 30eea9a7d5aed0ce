package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFlagsOfRestartsAreChecked(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		mode  string
		args  []string
		error string
	}{
		{restartsMode, nil, ""},
		{restartsMode, []string{`--restart-options={"profile":"RESTART_PROFILE_XING","quiet":"7s","kinds":[{"apiVersion":"example.com/v1","kind":"Widget"}]}`}, ""},
		{restartsMode, []string{`--restart-options={"maxConcurent":3}`}, "maxConcurent"},
		{restartsMode, []string{`--restart-options={"checksumKey":"aGk="}`}, "--checksum-key-file"},
		{restartsMode, []string{"--checksum-key-file=" + file("key\n")}, ""},
		{restartsMode, []string{"--checksum-key-file=" + file("\n")}, "is empty"},
		{restartsMode, []string{"--checksum-key-file=" + file("") + "-missing"}, "no such file"},
		{"takeover", []string{"--watch-secrets=false"}, "--watch-secrets requires --mode=restarts"},
		{"takeover", nil, ""},
	} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		settings := restartFlags(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := settings.parse(c.mode)
		if (err != nil) != (c.error != "") || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s %v: %v, want %q", c.mode, c.args, err, c.error)
		}
		if len(c.args) == 1 && c.error == "" && strings.Contains(c.args[0], "key-file") && string(settings.key) != "key" {
			t.Errorf("the key is %q", settings.key)
		}
	}
}
