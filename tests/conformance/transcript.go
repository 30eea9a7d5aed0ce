package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// transcript is the recorded history of one owner over a few syncs. README.md describes the format.
type transcript struct {
	Name             string                     `json:"-"`
	About            string                     `json:"about"`
	Owner            driverOwner                `json:"owner"`
	Options          json.RawMessage            `json:"options"`
	StatusIntervalMs int                        `json:"statusIntervalMs"`
	MinIntervalMs    int                        `json:"minIntervalMs"`
	PlannerTimeoutMs int                        `json:"plannerTimeoutMs"`
	Syncs            []*transcriptSync          `json:"syncs"`
	Objects          map[string]json.RawMessage `json:"objects"`
}

type transcriptSync struct {
	About string `json:"about"`
	// Start begins another leadership before the sync.
	Start bool `json:"start"`
	// Due is whether the timer of the last sync must be due.
	Due            bool        `json:"due"`
	Cache          []string    `json:"cache"`
	Exchanges      []*exchange `json:"exchanges"`
	Events         []event     `json:"events"`
	Outcome        string      `json:"outcome"`
	RequeueAfterMs int         `json:"requeueAfterMs"`
	NotBeforeMs    int         `json:"notBeforeMs"`
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

// exchange is one request and its answer. Exactly one of Plan, Read and Call is set.
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

	Read *apiCall `json:"read"`
	Call *apiCall `json:"call"`
	// ID is that of the answer in the next request.
	ID string `json:"id"`
	// Existing is whether the call is read_on_conflict of the step.
	Existing bool    `json:"existing"`
	Answer   *answer `json:"answer"`
}

// apiCall returns the call to the API server, or nil.
func (e *exchange) apiCall() *apiCall {
	if e.Read != nil {
		return e.Read
	}
	return e.Call
}

func (e *exchange) String() string {
	if e.Plan != nil {
		return "a plan"
	}
	return e.apiCall().Method + " " + e.apiCall().Path
}

type planRequest struct {
	Objects      []string `json:"objects"`
	PodsComplete bool     `json:"podsComplete"`
	// Value is the one of the last response about the owner, in base64.
	Value   string           `json:"value"`
	Answers []*plannedAnswer `json:"answers"`
}

// plannedAnswer is an Answer without its bodies, which are those that the runner has sent.
type plannedAnswer struct {
	ID       string `json:"id"`
	Made     bool   `json:"made"`
	HTTPCode int    `json:"httpCode"`
	Existing bool   `json:"existing"`
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
	// Repeated is how often Text occurs in the body. 0 is once.
	Repeated int  `json:"repeated"`
	Lost     bool `json:"lost"`
	Hang     bool `json:"hang"`
	Cancel   bool `json:"cancel"`
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
