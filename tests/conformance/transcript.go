package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// transcript is the recorded history of one Deployment over a few syncs. README.md describes the format.
type transcript struct {
	Name             string                     `json:"-"`
	About            string                     `json:"about"`
	Owner            driverOwner                `json:"owner"`
	Options          json.RawMessage            `json:"options"`
	PlannerTimeoutMs int                        `json:"plannerTimeoutMs"`
	Syncs            []*transcriptSync          `json:"syncs"`
	Objects          map[string]json.RawMessage `json:"objects"`
}

type transcriptSync struct {
	About        string      `json:"about"`
	Cache        []string    `json:"cache"`
	Exchanges    []*exchange `json:"exchanges"`
	Events       []event     `json:"events"`
	Outcomes     []string    `json:"outcomes"`
	RequeueAfter string      `json:"requeueAfter"`
	// Canary has the policy, the command and the verdicts of a request of PlanCanary. Without it, the sync calls PlanRollout.
	Canary json.RawMessage `json:"canary"`
}

// method returns the method of the service that a sync calls.
func (s *transcriptSync) method() string {
	if s.Canary != nil {
		return planCanary
	}
	return planRollout
}

type event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// exchange is one request and its answer. Exactly one of Plan, List and Call is set.
type exchange struct {
	Plan *planRequest `json:"plan"`
	// Response, Error, HTTP and Hang are the answers of the service. At most one is set.
	Response json.RawMessage `json:"response"`
	Error    *plannerError   `json:"error"`
	HTTP     *answer         `json:"http"`
	Hang     bool            `json:"hang"`
	// Cancel ends the sync while the request is in progress.
	Cancel      bool `json:"cancel"`
	AttemptsMax int  `json:"attemptsMax"`

	// List is the path of a list of ReplicaSets.
	List     string   `json:"list"`
	Optional bool     `json:"optional"`
	Call     *apiCall `json:"call"`
	Answer   *answer  `json:"answer"`
}

func (e *exchange) String() string {
	switch {
	case e.Plan != nil:
		return "a plan"
	case e.List != "":
		return "GET " + e.List
	default:
		return e.Call.Method + " " + e.Call.Path
	}
}

type planRequest struct {
	Objects      []string `json:"objects"`
	Others       []string `json:"others"`
	PodsComplete bool     `json:"podsComplete"`
	// TerminatingReplicas is the option, or nil if the request must not have it.
	TerminatingReplicas *bool           `json:"terminatingReplicas"`
	Answers             []*plannedReply `json:"answers"`
}

// plannedReply is a StepAnswer.
type plannedReply struct {
	Call     json.RawMessage `json:"call"`
	HTTPCode int             `json:"httpCode"`
	Body     json.RawMessage `json:"body"`
	Text     string          `json:"text"`
	Existing string          `json:"existing"`
}

type plannerError struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	RetryAfterMs int    `json:"retryAfterMs"`
}

type apiCall struct {
	Method      string          `json:"method"`
	Path        string          `json:"path"`
	Query       string          `json:"query"`
	ContentType string          `json:"contentType"`
	Body        json.RawMessage `json:"body"`
}

// answer is an answer of the API server, or of a proxy.
type answer struct {
	Code   int             `json:"code"`
	Object string          `json:"object"`
	List   []string        `json:"list"`
	Body   json.RawMessage `json:"body"`
	Text   string          `json:"text"`
	Lost   bool            `json:"lost"`
	Hang   bool            `json:"hang"`
	Cancel bool            `json:"cancel"`
}

func readTranscripts(directory, pattern string) ([]*transcript, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, err
	}
	var found []*transcript
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if ok, err := filepath.Match(pattern, name); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		t := &transcript{Name: name}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(t); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no transcripts match %q in %s", pattern, directory)
	}
	return found, nil
}
