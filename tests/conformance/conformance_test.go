package main

import (
	"os/exec"
	"strings"
	"testing"
)

// deviations plays the transcripts that match a pattern with the client in this directory, and returns those from which it deviates.
func deviations(t *testing.T, pattern string, arguments ...string) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
	c, err := readContract("../../docs/contract/rollplan.v1.binpb")
	if err != nil {
		t.Fatal(err)
	}
	transcripts, err := readTranscripts("transcripts", pattern)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startDriver(append([]string{"python3", "client.py"}, arguments...))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, each := range transcripts {
		if err := d.play(c, each, "connect-json"); err != nil {
			found[each.Name] = err.Error()
		}
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	return found
}

func TestReferenceClientFollowsAllTranscripts(t *testing.T) {
	for name, deviation := range deviations(t, "*") {
		t.Errorf("%s: %s", name, deviation)
	}
}

func TestWrongClientsAreNoticed(t *testing.T) {
	for _, test := range []struct {
		wrong string
		// noticed maps a transcript to a part of the deviation that it must report.
		noticed map[string]string
	}{
		{"drops-unknown-fields", map[string]string{"unknown-fields": "futurePolicy is absent"}},
		{"retries-blindly", map[string]string{
			"lost-answer":           "after the last request",
			"lost-answer-to-create": "after the last request",
			"lost-answer-to-delete": "after the last request",
		}},
		{"rounds-integers", map[string]string{
			"big-integers":   "is 9223372036854775808, want 9223372036854775807",
			"unknown-fields": "is 9007199254740992, want 9007199254740993",
		}},
		{"reorders-calls", map[string]string{"update": "want PATCH", "failed-precondition": "want PATCH"}},
		{"drops-bodies", map[string]string{"proxy-page": "body is \"\""}},
		{"reorders-answers", map[string]string{"update": "sync.answers[0].id"}},
		{"omits-answers", map[string]string{"conflict": "sync.answers has 1 entries, want 3"}},
		{"returns-earlier-values", map[string]string{"update": "sync.value is"}},
		{"never-changes-session", map[string]string{"new-leader": "is that of an earlier leadership"}},
		{"plans-without-changes", map[string]string{"create": "PlanRollout after the last request"}},
		{"reads-from-cache", map[string]string{
			"stale-sizes":     "the transcript has GET",
			"owner-not-found": "the transcript has GET",
		}},
		{"replaces-field-managers", map[string]string{"canary": "want \"fieldManager=rollplan-canary\""}},
	} {
		t.Run(test.wrong, func(t *testing.T) {
			for name, part := range test.noticed {
				found := deviations(t, name, "--wrong", test.wrong)
				if !strings.Contains(found[name], part) {
					t.Errorf("%s: %q does not contain %q", name, found[name], part)
				}
			}
		})
	}
}

func TestDifference(t *testing.T) {
	for _, test := range []struct{ want, have, difference string }{
		{`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, ""},
		{`{"a":null}`, `{}`, ""},
		{`9007199254740993`, `9007199254740992`, "it is 9007199254740992, want 9007199254740993"},
		{`2.5e-3`, `0.0025`, ""},
		{`1`, `"1"`, `it is "1", want 1`},
		{`[1,2]`, `[2,1]`, "it[0] is 2, want 1"},
		{`[1]`, `[1,2]`, "it is [1,2], want [1]"},
		{`{"a":{"b":"c"}}`, `{"a":{}}`, `it.a.b is absent, want "c"`},
		{`{}`, `{"a":0}`, "it.a is 0, want absent"},
	} {
		want, err := decode([]byte(test.want))
		if err != nil {
			t.Fatal(err)
		}
		have, err := decode([]byte(test.have))
		if err != nil {
			t.Fatal(err)
		}
		if got := difference("it", want, have); got != test.difference {
			t.Errorf("%s and %s: %q, want %q", test.want, test.have, got, test.difference)
		}
	}
}

func TestObjectsOfRequests(t *testing.T) {
	transcripts, err := readTranscripts("transcripts", "update")
	if err != nil {
		t.Fatal(err)
	}
	update := transcripts[0]
	required := update.Syncs[0].Exchanges[0].Plan.Objects
	var entries []string
	for _, key := range required {
		entries = append(entries, string(update.Objects[key]))
	}
	for what, test := range map[string]struct {
		entries []string
		wantErr string
	}{
		"all objects":            {entries, ""},
		"an object is missing":   {entries[:len(entries)-1], "lacks ReplicaSet"},
		"an object occurs twice": {append(entries, entries[0]), "occurs twice"},
		"an object of nowhere": {append(entries, `{"kind":"ReplicaSet","metadata":{"uid":"x","name":"y"}}`),
			"not in the cache"},
	} {
		err := update.sameObjects(required, update.Syncs[0].Cache, test.entries)
		if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: %v, want %q", what, err, test.wantErr)
		}
	}
}
