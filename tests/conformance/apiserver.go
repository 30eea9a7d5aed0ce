package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// call is the handler of the API server.
func (s *script) call(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.deviate("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") {
		s.recordEvent(w, body)
		return
	}
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/events") {
		// Warnings make verdicts more certain, and an adapter may read them.
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"99999"},"items":[]}`)
		return
	}
	e := s.take(r.Method+" "+r.URL.Path, func(e *exchange) error {
		switch {
		case e.List != "":
			if r.Method != http.MethodGet || r.URL.Path != e.List {
				return fmt.Errorf("want GET %s", e.List)
			}
			return nil
		case e.Call != nil:
			return sameCall(e.Call, r, body)
		default:
			return errors.New("want a plan")
		}
	})
	if e == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,"message":"the transcript has another request here"}`)
		return
	}
	defer s.answered(e)
	if err := s.reply(w, r, e.Answer); err != nil {
		s.deviate("answer of %s: %v", e, err)
	}
}

// reply sends the answer of the transcript.
func (s *script) reply(w http.ResponseWriter, r *http.Request, a *answer) error {
	switch {
	case a.Hang:
		s.hang(r, a.Cancel)
		panic(http.ErrAbortHandler)
	case a.Lost:
		panic(http.ErrAbortHandler)
	}
	contentType, body := "application/json", []byte(a.Body)
	switch {
	case a.Text != "":
		contentType, body = "text/html", []byte(a.Text)
	case a.Object != "":
		body = s.transcript.Objects[a.Object]
	case a.List != nil:
		var err error
		if body, err = s.list(a.List, r.URL.Query().Get("labelSelector")); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(a.Code)
	_, err := w.Write(body)
	return err
}

// list returns a ReplicaSetList as the API server prints it: without the kinds of the items.
func (s *script) list(keys []string, selector string) ([]byte, error) {
	selected, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, key := range keys {
		object := s.transcript.object(key)
		delete(object, "apiVersion")
		delete(object, "kind")
		found := labels.Set{}
		metadata, _ := object["metadata"].(map[string]any)
		for name, value := range metadata["labels"].(map[string]any) {
			found[name] = value.(string)
		}
		if selected.Matches(found) {
			items = append(items, object)
		}
	}
	return json.Marshal(map[string]any{
		"kind": "ReplicaSetList", "apiVersion": "apps/v1", "metadata": map[string]any{"resourceVersion": "99999"}, "items": items,
	})
}

// sameCall compares a call with that of the transcript, except for the field manager, which the adapter chooses. That of canaries must
// stay: an admission policy recognizes their writes by it.
func sameCall(want *apiCall, r *http.Request, body []byte) error {
	if r.Method != want.Method || r.URL.Path != want.Path {
		return fmt.Errorf("want %s %s", want.Method, want.Path)
	}
	expected, err := url.ParseQuery(want.Query)
	if err != nil {
		return err
	}
	have := r.URL.Query()
	if expected.Get("fieldManager") != "rollplan-canary" {
		expected.Del("fieldManager")
		have.Del("fieldManager")
	}
	if expected.Encode() != have.Encode() {
		return fmt.Errorf("the query is %q, want %q", have.Encode(), expected.Encode())
	}
	if want.Body == nil {
		return nil
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if contentType != want.ContentType {
		return fmt.Errorf("the content type is %q, want %q", contentType, want.ContentType)
	}
	return sameJSON("body", want.Body, body, func(value any) any {
		if object, ok := value.(map[string]any); ok && r.Method == http.MethodDelete {
			delete(object, "kind") // of DeleteOptions
			delete(object, "apiVersion")
		}
		return value
	})
}

// eventAnswers are the answers to the creation of events, in turn. A plan does not depend on them: 409 means that the event is
// already recorded, and an adapter without permission to create events still carries out plans.
var eventAnswers = []struct {
	code   int
	reason string
}{
	{http.StatusForbidden, "Forbidden"},
	{http.StatusConflict, "AlreadyExists"},
	{http.StatusNotFound, "NotFound"},
	{http.StatusCreated, ""},
}

// recordEvent answers the creation of an event by an adapter that records events itself.
func (s *script) recordEvent(w http.ResponseWriter, body []byte) {
	var recorded event
	if err := json.Unmarshal(body, &recorded); err != nil {
		s.deviate("event: %v", err)
	}
	s.mu.Lock()
	s.events = append(s.events, recorded)
	answer := eventAnswers[s.recorded%len(eventAnswers)]
	s.recorded++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.code)
	if answer.code == http.StatusCreated {
		_, _ = w.Write(body)
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, answer.reason, answer.code)
}
